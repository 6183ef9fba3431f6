//! Retention: removes expired rows in batches short enough for other writes to go between them.

use std::time::Duration;

use kalends_recurrence::Instant;

use crate::engine_store::Retention;
use crate::record::JobKey;
use crate::run_reports::RUN_COUNTS_RETENTION;
use crate::sqlite::chain::{self, ChainKind};
use crate::sqlite::code::{Coded, collect, read, rows_max};
use crate::sqlite::earlier_definitions;
use crate::sqlite::error::{SqliteError, SqliteResult};
use crate::sqlite::notes;
use crate::sqlite::removal::delete_job;
use crate::sqlite::run_counts;
use crate::sqlite::sessions;
use crate::sqlite::state::ReadState as _;
use crate::sqlite::write_back::Snapshot;
use crate::sqlite::write_back::{SPAN, WriteTransaction};

/// Rows per transaction: a few milliseconds.
pub(crate) const BATCH_MAX: usize = 500;

/// Result of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Removed {
    /// Rows removed.
    pub(crate) found: usize,
    /// Rows removed that belonged to existing jobs and collections.
    pub(crate) visible: usize,
}

/// Rows that expire by age.
#[derive(Clone, Copy)]
pub(crate) enum ExpiredRows {
    /// History entries, by their start.
    History,
    /// Ledger rows, by the time at which their occurrence was closed.
    Ledger,
    /// Notes, by the time of their action.
    Notes,
    /// Earlier definitions, by the time at which they were replaced.
    Definitions,
    /// Finished jobs, by the time at which they finished.
    Jobs,
    /// Sessions, by the time at which they expire.
    Sessions,
    /// Counts of runs, by their bucket.
    RunCounts,
}

impl ExpiredRows {
    /// All kinds, in the order of their removal.
    pub(crate) const ALL: [ExpiredRows; 7] = [
        ExpiredRows::History,
        ExpiredRows::Ledger,
        ExpiredRows::Notes,
        ExpiredRows::Definitions,
        ExpiredRows::Jobs,
        ExpiredRows::Sessions,
        ExpiredRows::RunCounts,
    ];

    /// Rows with an earlier time have expired.
    pub(crate) fn cutoff(self, retention: Retention, now: Instant) -> Instant {
        let age = match self {
            ExpiredRows::History
            | ExpiredRows::Ledger
            | ExpiredRows::Notes
            | ExpiredRows::Definitions => retention.history_age,
            ExpiredRows::Jobs => retention.finished_jobs,
            ExpiredRows::Sessions => Duration::ZERO,
            ExpiredRows::RunCounts => RUN_COUNTS_RETENTION,
        };
        now.saturating_sub(age)
    }

    /// Removes at most `limit` rows, oldest first.
    pub(crate) fn remove(
        self,
        transaction: &mut WriteTransaction,
        cutoff: Instant,
        limit: usize,
    ) -> SqliteResult<Removed> {
        match self {
            ExpiredRows::History => {
                remove_chain_rows(transaction, ChainKind::History, cutoff, limit)
            }
            ExpiredRows::Ledger => remove_chain_rows(transaction, ChainKind::Ledger, cutoff, limit),
            ExpiredRows::Notes => notes::remove_expired(transaction.connection(), cutoff, limit),
            ExpiredRows::Definitions => {
                earlier_definitions::remove_expired(transaction.connection(), cutoff, limit)
            }
            ExpiredRows::Jobs => remove_jobs(transaction, cutoff, limit),
            ExpiredRows::Sessions => {
                let removed = sessions::prune(transaction.connection(), cutoff, limit)?;
                Ok(Removed { found: removed, visible: removed })
            }
            ExpiredRows::RunCounts => {
                let found = run_counts::remove(transaction.connection(), cutoff, limit)?;
                // Counts are not rows of jobs: the caller of `prune` does not count them.
                Ok(Removed { found, visible: 0 })
            }
        }
    }
}

fn remove_jobs(
    transaction: &mut WriteTransaction,
    cutoff: Instant,
    limit: usize,
) -> SqliteResult<Removed> {
    let mut statement = transaction.connection().prepare_cached(
        "SELECT job FROM finished WHERE finished < ? ORDER BY finished, job LIMIT ?",
    )?;
    let found = statement.query((Coded(cutoff), rows_max(limit as u64)))?;
    let found: Vec<JobKey> = collect(found, |row| Ok(read(row, "job")?))?;
    drop(statement);
    let mut removed = Removed { found: found.len(), visible: 0 };
    for job in found {
        let state = transaction.state(job);
        if state.as_ref().is_err_and(SqliteError::is_unreadable) {
            removed.visible += 1;
        } else if let Some(row) = state? {
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
    cutoff: Instant,
    limit: usize,
) -> SqliteResult<Removed> {
    let mut removed = Removed::default();
    while removed.found < limit
        && let Some(span) = find_span(transaction, kind, cutoff)?
    {
        let left = limit - removed.found;
        let numbers = find_numbers(transaction, kind, span, cutoff, left)?;
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

/// The first span with an expired row.
fn find_span(
    transaction: &WriteTransaction,
    kind: ChainKind,
    cutoff: Instant,
) -> SqliteResult<Option<i64>> {
    let mut statement = transaction.connection().prepare_cached(
        "SELECT span FROM spans WHERE kind = ? AND oldest < ? ORDER BY span LIMIT 1",
    )?;
    let found = statement.query((kind as i64, Coded(cutoff)))?;
    Ok(collect(found, |row| Ok(row.get(0)?))?.pop())
}

/// Numbers of expired rows in a span.
fn find_numbers(
    transaction: &WriteTransaction,
    kind: ChainKind,
    span: i64,
    cutoff: Instant,
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
    let of_span = (span * SPAN, (span + 1) * SPAN, Coded(cutoff), rows_max(limit as u64));
    collect(statement.query(of_span)?, |row| Ok(row.get(0)?))
}

/// Updates the oldest time of a span after a removal; deletes an empty span.
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

/// History entries beyond the number retained per job.
pub(crate) struct ExcessHistory {
    /// Numbers of the entries, per job oldest first.
    pub(crate) entries: Vec<i64>,
    /// Job after which to continue; `None` at the end.
    pub(crate) next: Option<JobKey>,
}

/// Finds at most `limit` excess entries of jobs after `after`. Runs on a reader, because it scans
/// `state` and the history of the jobs it finds.
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

/// The excess entries of a job, oldest first.
fn excess_of(snapshot: &Snapshot, job: JobKey, keep: u64) -> SqliteResult<Vec<i64>> {
    let state = match snapshot.state(job) {
        Err(error) if error.is_unreadable() => None,
        state => state?,
    };
    let Some(row) = state.filter(|row| row.entries > keep) else { return Ok(vec![]) };
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

/// Removes excess entries; returns how many belonged to existing jobs and collections.
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
