//! Flush: writes dirty rows to their tables and trims the change log.
//!
//! A flush pass takes all rows that are dirty when it begins, in table order, so that rows on the
//! same page are written together. It writes one slice with every group commit, or in a transaction
//! of its own if the writer is idle: first `state` by job, then `due` by time, then `runs`. A
//! complete pass trims the change log up to the transaction at which it began. It may write rows
//! newer than that; replay is idempotent. A row that changes between its writes to `state` and
//! `due` stays dirty for the next pass.

use crate::record::{JobKey, RunId};
use crate::sqlite::due;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::new_rows::NewRows;
use crate::sqlite::state::{self, ReadState as _};
use crate::sqlite::write_back::WriteTransaction;
use crate::sqlite::write_back::dirty_rows::DueVersion;
use crate::sqlite::write_back::{change_log, open_runs};

/// Cost of deleting a row of the change log, in written rows: it may span several pages.
const LOG_ROW_WEIGHT: usize = 8;

/// Progress of flushes.
pub(crate) struct Flush {
    /// The running pass.
    pass: Option<FlushPass>,
    /// Written by the current transaction.
    flushed: FlushedRows,
    /// Flushed rows that older snapshots may still need in memory: the number of the transaction
    /// that flushed them, and their jobs and versions.
    pinned: Vec<(u64, Vec<(JobKey, u64)>)>,
    /// The tables have all changes up to this transaction.
    flushed_up_to: u64,
}

/// The remaining work of a pass.
struct FlushPass {
    /// Newest transaction at the start of the pass.
    up_to: u64,
    /// Jobs to write to `state`, by key.
    jobs: std::vec::IntoIter<JobKey>,
    /// Jobs written to `state` that wait for `due`.
    in_state: Vec<DueVersion>,
    /// Jobs to write to `due`, by time; set when all of `state` is written.
    due_positions: Option<std::vec::IntoIter<DueVersion>>,
    /// Runs to write, by id.
    runs: std::vec::IntoIter<RunId>,
}

/// Rows written by one transaction.
#[derive(Default)]
struct FlushedRows {
    jobs: Vec<(JobKey, u64)>,
    runs: Vec<RunId>,
    /// Number of closed runs deleted from the table.
    closed: usize,
    /// Whether the pass is complete, including the trim of the change log.
    is_complete: bool,
}

impl Flush {
    pub(crate) fn new() -> Flush {
        Flush { pass: None, flushed: FlushedRows::default(), pinned: Vec::new(), flushed_up_to: 0 }
    }

    /// Whether the tables have all changes.
    pub(crate) fn is_clean(&self, transaction: &WriteTransaction) -> bool {
        transaction.last_change() <= self.flushed_up_to
    }

    /// Whether a pass is running.
    pub(crate) fn is_running(&self) -> bool {
        self.pass.is_some()
    }

    /// Begins a pass over the rows that are dirty now.
    pub(crate) fn begin(&mut self, transaction: &mut WriteTransaction) {
        transaction.logged_changes = 0;
        let runs = transaction.shared.runs();
        let (jobs, in_state) = transaction.shared.dirty_rows.unflushed();
        self.pass = Some(FlushPass {
            up_to: transaction.committed(),
            jobs: jobs.into_iter(),
            in_state,
            due_positions: None,
            runs: runs.unflushed().into_iter(),
        });
    }

    /// Writes about `limit` rows in the current transaction.
    pub(crate) fn write_slice(
        &mut self,
        transaction: &mut WriteTransaction,
        limit: usize,
    ) -> SqliteResult<()> {
        let Some(pass) = &mut self.pass else { return Ok(()) };
        // The number of this transaction separates older from newer snapshots, and its entry stays
        // in the change log when the rest is trimmed.
        transaction.force_log_entry();
        let flushed = &mut self.flushed;
        let mut left = limit.max(1);
        let mut rows = NewRows::new(&state::WRITE);
        for job in pass.jobs.by_ref().take(left) {
            left -= 1;
            // Deleted rows were removed from the table at once.
            if let Some((version, row)) = transaction.shared.dirty_rows.newest(job) {
                pass.in_state.push((row.and_then(|row| row.active_due()), job, version));
                if let Some(row) = row {
                    rows.push(transaction.connection(), state::integers(job, &row))?;
                }
            }
        }
        rows.write(transaction.connection())?;
        if left > 0 {
            let due_positions = pass.due_positions.get_or_insert_with(|| {
                pass.in_state.sort_unstable();
                std::mem::take(&mut pass.in_state).into_iter()
            });
            let mut statement = transaction.connection().prepare_cached(due::WRITE)?;
            for (_, job, version) in due_positions.by_ref().take(left) {
                left -= 1;
                if let Some(row) = transaction.shared.dirty_rows.mark_written_to_due(job, version) {
                    flushed.jobs.push((job, version));
                    row.map(|row| due::write(&mut statement, job, &row)).transpose()?;
                }
            }
        }
        let runs = transaction.shared.runs();
        for run in pass.runs.by_ref().take(left) {
            left -= 1;
            if let Some(row) = runs.get(run) {
                open_runs::write(transaction.connection(), row)?;
                flushed.runs.push(run);
            }
        }
        for run in runs.closed().iter().skip(flushed.closed).take(left) {
            left -= 1;
            open_runs::delete(transaction.connection(), *run)?;
            flushed.closed += 1;
        }
        drop(runs);
        while left > 0 && !flushed.is_complete {
            let rows = left.div_ceil(LOG_ROW_WEIGHT);
            let trimmed = change_log::trim(transaction.connection(), pass.up_to, rows as i64)?;
            flushed.is_complete = trimmed < rows;
            left = left.saturating_sub(trimmed * LOG_ROW_WEIGHT);
        }
        Ok(())
    }

    /// Records that the current transaction was committed with a number.
    pub(crate) fn on_commit(&mut self, transaction: &WriteTransaction, number: u64) {
        let FlushedRows { jobs, runs: flushed, closed, is_complete } =
            std::mem::take(&mut self.flushed);
        if !flushed.is_empty() || closed > 0 {
            let mut runs = transaction.shared.runs_mut();
            flushed.iter().for_each(|run| runs.mark_flushed(*run));
            runs.drop_closed(closed);
        }
        if !jobs.is_empty() {
            self.pinned.push((number, jobs));
        }
        if is_complete && let Some(pass) = self.pass.take() {
            self.flushed_up_to = pass.up_to;
        }
    }

    /// Drops the running pass after its transaction failed. The next pass starts over.
    pub(crate) fn abort(&mut self) {
        if self.pass.is_some() {
            self.flushed = FlushedRows::default();
            self.pass = None;
        }
    }

    /// Drops flushed rows from memory that no open snapshot needs.
    pub(crate) fn drop_unpinned_rows(&mut self, transaction: &WriteTransaction) {
        let dirty_rows = &transaction.shared.dirty_rows;
        self.pinned.retain(|(since, jobs)| !dirty_rows.drop_flushed(*since, jobs));
    }
}
