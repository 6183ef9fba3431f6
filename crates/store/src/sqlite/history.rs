//! History and the ledger of a job: reads.

use kalends_domain::{HistoryEntry, JobPath, Timing};
use kalends_recurrence::Instant;
use rusqlite::{Connection, OptionalExtension as _, Row, Statement};

use crate::api_store::{HistoryFilter, Page};
use crate::record::{HistoryRecord, JobKey, LedgerRecord};
use crate::sqlite::chain::ChainKind;
use crate::sqlite::code::{Coded, nth, nth_option};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::jobs;
use crate::sqlite::state::ReadState;
use crate::sqlite::write_back::SPAN;

/// Finds a history entry for [`walk`] and [`read_entry`].
pub(crate) const ENTRY_BY_NUMBER: &str =
    "SELECT previous, sequence, started, ended, expected, status, retry, repeat, role, message,
         dns, connect, tls, first_byte, total, generation
     FROM history WHERE sequence = ?";
/// The column of the scheduled time in [`ENTRY_BY_NUMBER`].
pub(crate) const EXPECTED: usize = 4;

/// End of the newest history entry of all jobs.
pub(crate) fn newest_end(connection: &Connection) -> SqliteResult<Option<Instant>> {
    let newest = "SELECT ended FROM history ORDER BY sequence DESC LIMIT 1";
    let mut statement = connection.prepare(newest)?;
    let mut rows = statement.query(())?;
    rows.next()?.map(|row| Ok(nth(row, 0)?)).transpose()
}

/// A page of the history of a job, newest first.
pub(crate) fn page(
    states: &impl ReadState,
    path: &JobPath,
    filter: HistoryFilter,
    page: &Page<u64>,
) -> SqliteResult<Option<Vec<HistoryRecord>>> {
    let Some(job) = jobs::key(states.connection(), path)? else { return Ok(None) };
    let Some(state) = states.state(job)? else { return Ok(None) };
    let after = page.after.map(|after| i64::try_from(after).unwrap_or(i64::MAX));
    let mut statement = states.connection().prepare_cached(ENTRY_BY_NUMBER)?;
    // Usually `after` is an entry that still exists, so the walk can start there.
    let start =
        after.map(|after| ChainKind::History.link(states.connection(), after)).transpose()?;
    let newest = match start.flatten().filter(|link| link.job == job) {
        Some(link) => link.previous,
        None => state.newest_entry,
    };
    let mut skip = page.skip;
    let mut records = Vec::new();
    walk(&mut statement, newest, |row| {
        let matches = after.is_none_or(|after| row.get(1).is_ok_and(|number: i64| number < after))
            && filter.status.is_none_or(|status| nth(row, 5) == Ok(status));
        if matches && skip > 0 {
            skip -= 1;
        } else if matches && records.len() < page.limit {
            records.push(read_entry(row)?);
        }
        Ok(records.len() < page.limit)
    })?;
    Ok(Some(records))
}

/// Follows a chain of rows from the newest to older ones while `visit` returns `true`. The statement
/// finds a row by its number; its first column is the number of the predecessor.
pub(crate) fn walk(
    statement: &mut Statement<'_>,
    newest: i64,
    mut visit: impl FnMut(&Row<'_>) -> SqliteResult<bool>,
) -> SqliteResult<()> {
    let mut at = newest;
    loop {
        let mut rows = statement.query([at])?;
        let Some(row) = rows.next()? else { return Ok(()) };
        if !visit(row)? {
            return Ok(());
        }
        at = row.get(0)?;
    }
}

/// Reads a history entry from columns 1 to 15 in this order.
pub(crate) fn read_entry(row: &Row<'_>) -> SqliteResult<HistoryRecord> {
    let entry = HistoryEntry {
        started: nth(row, 2)?,
        ended: nth(row, 3)?,
        expected: nth(row, 4)?,
        status: nth(row, 5)?,
        message: row.get(9)?,
        retry: nth(row, 6)?,
        repeat: nth(row, 7)?,
        role: nth(row, 8)?,
        timing: Timing {
            dns: nth_option(row, 10)?,
            connect: nth_option(row, 11)?,
            tls: nth_option(row, 12)?,
            first_byte: nth_option(row, 13)?,
            total: nth_option(row, 14)?,
        },
        generation: nth_option(row, 15)?,
    };
    Ok(HistoryRecord { sequence: nth(row, 1)?, entry })
}

/// Reads a ledger row from columns 1 to 7 in this order.
pub(crate) fn read_ledger(row: &Row<'_>) -> SqliteResult<LedgerRecord> {
    Ok(LedgerRecord {
        generation: nth(row, 1)?,
        from: nth(row, 2)?,
        to: nth(row, 3)?,
        count: nth(row, 4)?,
        cause: nth(row, 5)?,
        disposition: nth(row, 6)?,
        closed: nth(row, 7)?,
    })
}

/// Ledger rows of a job in a range of scheduled times. Reads the newest rows of the job back to the
/// first span with a row that may be in the range.
pub(crate) fn ledger(
    states: &impl ReadState,
    job: JobKey,
    from: Instant,
    to: Instant,
    limit: usize,
) -> SqliteResult<Vec<LedgerRecord>> {
    let Some(state) = states.state(job)? else { return Ok(vec![]) };
    if !jobs::exists(states.connection(), job)? {
        return Ok(vec![]);
    }
    let first: Option<i64> = states
        .connection()
        .prepare_cached(
            "SELECT span FROM spans WHERE kind = ? AND (latest IS NULL OR latest >= ?)
             ORDER BY span LIMIT 1",
        )?
        .query_row((ChainKind::Ledger as i64, Coded(from)), |row| row.get(0))
        .optional()?;
    let Some(first) = first.map(|span| span * SPAN) else { return Ok(vec![]) };
    let mut statement = states.connection().prepare_cached(
        "SELECT previous, generation, from_at, to_at, count, cause, disposition, closed
         FROM ledger WHERE id = ?",
    )?;
    let mut rows = Vec::new();
    walk(&mut statement, state.newest_ledger_row, |row| {
        let record = read_ledger(row)?;
        if record.to >= from && record.from <= to {
            rows.push(record);
        }
        Ok(row.get::<_, i64>(0)? >= first)
    })?;
    // Stable sort: the oldest of equal rows first.
    rows.reverse();
    rows.sort_by_key(|row| (row.from, row.to));
    rows.truncate(limit);
    Ok(rows)
}
