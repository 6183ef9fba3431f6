//! History and the ledger, as they are read.

use kalends_domain::{HistoryEntry, JobPath, Timing};
use kalends_recurrence::Instant;
use rusqlite::{Row, Statement};

use crate::api_store::{HistoryFilter, Page};
use crate::record::{HistoryRecord, JobKey, LedgerRecord};
use crate::sqlite::chain::Kind;
use crate::sqlite::code::{nth, nth_option};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::jobs;
use crate::sqlite::state::ReadState;

/// A page of a job's history, the newest first.
pub(crate) fn page(
    states: &impl ReadState,
    path: &JobPath,
    filter: HistoryFilter,
    page: &Page<u64>,
) -> SqliteResult<Option<Vec<HistoryRecord>>> {
    let Some(job) = jobs::key(states.connection(), path)? else { return Ok(None) };
    let Some(state) = states.state(job)? else { return Ok(None) };
    let after = page.after.map(|after| i64::try_from(after).unwrap_or(i64::MAX));
    let mut statement = states.connection().prepare_cached(
        "SELECT previous, sequence, started, ended, expected, status, retry, repeat, role, message,
             dns, connect, tls, first_byte, total
         FROM history WHERE sequence = ?",
    )?;
    // A page mostly begins where another ended, with an entry that is still there.
    let known = after.map(|after| Kind::Entry.link(states.connection(), after)).transpose()?;
    let newest = match known.flatten().filter(|link| link.job == job) {
        Some(link) => link.previous,
        None => state.newest_entry,
    };
    let mut skip = page.skip;
    let mut records = Vec::new();
    walk(&mut statement, newest, |row| {
        let fits = after.is_none_or(|after| row.get(1).is_ok_and(|number: i64| number < after))
            && filter.status.is_none_or(|wanted| nth(row, 5) == Ok(wanted));
        if fits && skip > 0 {
            skip -= 1;
        } else if fits && records.len() < page.limit {
            records.push(read_entry(row)?);
        }
        Ok(records.len() < page.limit)
    })?;
    Ok(Some(records))
}

/// From a row to the ones before it, while `go_on` says so. The statement finds a row by its
/// number, and its first column is the number of the one before.
pub(crate) fn walk(
    statement: &mut Statement<'_>,
    newest: i64,
    mut go_on: impl FnMut(&Row<'_>) -> SqliteResult<bool>,
) -> SqliteResult<()> {
    let mut at = newest;
    loop {
        let mut rows = statement.query([at])?;
        let Some(row) = rows.next()? else { return Ok(()) };
        if !go_on(row)? {
            return Ok(());
        }
        at = row.get(0)?;
    }
}

/// An entry in an answer that has its columns in this order, after one more.
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
    };
    Ok(HistoryRecord { sequence: nth(row, 1)?, entry })
}

/// A row of the ledger in an answer that has its columns in this order, after one more.
pub(crate) fn read_closing(row: &Row<'_>) -> SqliteResult<LedgerRecord> {
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

/// How occurrences of a job were closed. It looks at all rows that the job has.
pub(crate) fn ledger(
    states: &impl ReadState,
    job: JobKey,
    from: Instant,
    to: Instant,
    limit: usize,
) -> SqliteResult<Vec<LedgerRecord>> {
    let Some(state) = states.state(job)? else { return Ok(vec![]) };
    if !jobs::is_there(states.connection(), job)? {
        return Ok(vec![]);
    }
    let mut statement = states.connection().prepare_cached(
        "SELECT previous, generation, from_at, to_at, count, cause, disposition, closed
         FROM ledger WHERE id = ?",
    )?;
    let mut rows = Vec::new();
    walk(&mut statement, state.newest_closing, |row| {
        let record = read_closing(row)?;
        if record.to >= from && record.from <= to {
            rows.push(record);
        }
        Ok(true)
    })?;
    // Of those that are equal, the oldest first.
    rows.reverse();
    rows.sort_by_key(|row| (row.from, row.to));
    rows.truncate(limit);
    Ok(rows)
}
