//! What retention no longer keeps, in batches that are small enough for the writer to go on beside
//! them.

use std::time::Duration;

use kalends_recurrence::Instant;

use crate::engine_store::Retention;
use crate::record::JobKey;
use crate::sqlite::chain::{self, ChainKind};
use crate::sqlite::code::{Coded, collect, read, rows_max};
use crate::sqlite::collections::ticks;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::removal::delete_job;
use crate::sqlite::state::ReadState as _;
use crate::sqlite::write_back::Snapshot;
use crate::sqlite::write_back::{SPAN, WriteTransaction};

/// Rows that one transaction removes: a few milliseconds.
pub(crate) const BATCH_MAX: usize = 500;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Removed {
    /// How many rows were found.
    pub(crate) found: usize,
    /// How many of them anybody could still see.
    pub(crate) visible: usize,
}

/// What is removed by its age.
#[derive(Clone, Copy)]
pub(crate) enum ExpiredRows {
    /// History entries that started before an instant.
    History,
    /// Ledger rows that were written before an instant.
    Ledger,
    /// Jobs that were finished before an instant.
    Jobs,
}

impl ExpiredRows {
    /// In the order in which they go.
    pub(crate) const ALL: [ExpiredRows; 3] =
        [ExpiredRows::History, ExpiredRows::Ledger, ExpiredRows::Jobs];

    /// What is older than this goes.
    pub(crate) fn cutoff(self, retention: Retention, now: Instant) -> Instant {
        let age: Duration = match self {
            ExpiredRows::History | ExpiredRows::Ledger => retention.history_age,
            ExpiredRows::Jobs => retention.finished_jobs,
        };
        Instant::from_ticks(now.ticks().saturating_sub(ticks(age))).unwrap_or(Instant::MIN)
    }

    /// Removes at most `limit`, the oldest first.
    pub(crate) fn remove(
        self,
        transaction: &mut WriteTransaction,
        oldest: Instant,
        limit: usize,
    ) -> SqliteResult<Removed> {
        match self {
            ExpiredRows::History => {
                remove_chain_rows(transaction, ChainKind::History, oldest, limit)
            }
            ExpiredRows::Ledger => remove_chain_rows(transaction, ChainKind::Ledger, oldest, limit),
            ExpiredRows::Jobs => remove_jobs(transaction, oldest, limit),
        }
    }
}

fn remove_jobs(
    transaction: &mut WriteTransaction,
    oldest: Instant,
    limit: usize,
) -> SqliteResult<Removed> {
    let mut statement = transaction.connection().prepare_cached(
        "SELECT job FROM finished WHERE finished < ? ORDER BY finished, job LIMIT ?",
    )?;
    let found = statement.query((Coded(oldest), rows_max(limit as u64)))?;
    let found: Vec<JobKey> = collect(found, |row| Ok(read(row, "job")?))?;
    drop(statement);
    let mut removed = Removed { found: found.len(), visible: 0 };
    for job in found {
        if let Some(row) = transaction.state(job)? {
            removed.visible +=
                usize::from(transaction.collection_enabled(row.collection)?.is_some());
        }
        delete_job(transaction, job)?;
    }
    Ok(removed)
}

fn remove_chain_rows(
    transaction: &mut WriteTransaction,
    kind: ChainKind,
    oldest: Instant,
    limit: usize,
) -> SqliteResult<Removed> {
    let mut removed = Removed::default();
    while removed.found < limit
        && let Some(span) = find_span(transaction, kind, oldest)?
    {
        let left = limit - removed.found;
        let numbers = find_numbers(transaction, kind, span, oldest, left)?;
        removed.found += numbers.len();
        for number in &numbers {
            removed.visible += usize::from(chain::remove(transaction, kind, *number)?);
        }
        if numbers.len() < left {
            update_span(transaction, kind, span)?;
        }
    }
    Ok(removed)
}

fn find_span(
    transaction: &WriteTransaction,
    kind: ChainKind,
    oldest: Instant,
) -> SqliteResult<Option<i64>> {
    let mut statement = transaction.connection().prepare_cached(
        "SELECT span FROM spans WHERE kind = ? AND oldest < ? ORDER BY span LIMIT 1",
    )?;
    let found = statement.query((kind as i64, Coded(oldest)))?;
    Ok(collect(found, |row| Ok(row.get(0)?))?.pop())
}

fn find_numbers(
    transaction: &WriteTransaction,
    kind: ChainKind,
    span: i64,
    oldest: Instant,
    limit: usize,
) -> SqliteResult<Vec<i64>> {
    let mut statement = transaction.connection().prepare_cached(match kind {
        ChainKind::History => {
            "SELECT sequence FROM history
             WHERE sequence >= ? AND sequence < ? AND started < ? ORDER BY sequence LIMIT ?"
        }
        ChainKind::Ledger => {
            "SELECT id FROM ledger
             WHERE id >= ? AND id < ? AND closed < ? ORDER BY id LIMIT ?"
        }
    })?;
    let of_span = (span * SPAN, (span + 1) * SPAN, Coded(oldest), rows_max(limit as u64));
    collect(statement.query(of_span)?, |row| Ok(row.get(0)?))
}

/// Says of a span what is true of the rows that are left.
fn update_span(transaction: &WriteTransaction, kind: ChainKind, span: i64) -> SqliteResult<()> {
    let connection = transaction.connection();
    let oldest: Option<i64> = connection
        .prepare_cached(match kind {
            ChainKind::History => {
                "SELECT min(started) FROM history WHERE sequence >= ? AND sequence < ?"
            }
            ChainKind::Ledger => "SELECT min(closed) FROM ledger WHERE id >= ? AND id < ?",
        })?
        .query_row((span * SPAN, (span + 1) * SPAN), |row| row.get(0))?;
    match oldest {
        Some(oldest) => connection
            .prepare_cached("UPDATE spans SET oldest = ? WHERE kind = ? AND span = ?")?
            .execute((oldest, kind as i64, span))?,
        None => connection
            .prepare_cached("DELETE FROM spans WHERE kind = ? AND span = ?")?
            .execute((kind as i64, span))?,
    };
    Ok(())
}

/// Entries of jobs that have more than are kept of each.
pub(crate) struct ExcessHistory {
    /// The oldest first.
    pub(crate) entries: Vec<i64>,
    /// The job after which to look for more; `None` where there are none.
    pub(crate) next: Option<JobKey>,
}

/// Looks for excess of jobs after one, at most `limit` entries. It walks over the narrow table of
/// all jobs and over what such jobs keep, and is therefore asked of a reader.
pub(crate) fn find_excess_history(
    snapshot: &Snapshot,
    after: JobKey,
    keep: u64,
    limit: usize,
) -> SqliteResult<ExcessHistory> {
    let mut statement = snapshot.connection().prepare_cached(
        "SELECT job FROM state WHERE job > ? AND entries > ? ORDER BY job LIMIT ?",
    )?;
    let found = statement.query((Coded(after), rows_max(keep), rows_max(limit as u64)))?;
    let mut jobs: Vec<JobKey> = collect(found, |row| Ok(read(row, "job")?))?;
    let last = if jobs.len() < limit { None } else { jobs.last().copied() };
    let dirty_rows = &snapshot.shared.dirty_rows;
    let changed = dirty_rows.jobs_where(|job, row| {
        job > after && last.is_none_or(|last| job <= last) && row.entries > keep
    });
    jobs.extend(changed);
    jobs.sort_unstable();
    jobs.dedup();
    let mut entries = Vec::new();
    for job in jobs {
        let mut of_job = excess_of(snapshot, job, keep)?;
        let left = limit - entries.len();
        if of_job.len() > left {
            of_job.truncate(left);
            entries.extend(of_job);
            return Ok(ExcessHistory { entries, next: Some(JobKey(job.0.saturating_sub(1))) });
        }
        entries.extend(of_job);
    }
    Ok(ExcessHistory { entries, next: last })
}

/// The entries of a job beyond those that are kept, the oldest first.
fn excess_of(snapshot: &Snapshot, job: JobKey, keep: u64) -> SqliteResult<Vec<i64>> {
    let Some(row) = snapshot.state(job)?.filter(|row| row.entries > keep) else {
        return Ok(vec![]);
    };
    let (mut at, mut kept, mut excess) = (row.newest_entry, 0, Vec::new());
    while let Some(link) = ChainKind::History.link(snapshot.connection(), at)? {
        match kept < keep {
            true => kept += 1,
            false => excess.push(at),
        }
        at = link.previous;
    }
    excess.reverse();
    Ok(excess)
}

/// Removes entries that were found as excess; how many of them anybody could still see.
pub(crate) fn remove_excess_history(
    transaction: &mut WriteTransaction,
    entries: &[i64],
) -> SqliteResult<usize> {
    let mut removed = 0;
    for entry in entries {
        removed += usize::from(chain::remove(transaction, ChainKind::History, *entry)?);
    }
    Ok(removed)
}
