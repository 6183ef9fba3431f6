//! Brings what is in the log into the tables, and shortens the log by it.
//!
//! It goes in rounds. A round takes all that is changed when it begins, in the order of the tables,
//! so that rows that share a page are written together, and writes a part of it beside every commit
//! of others, or alone where nobody waits: first the rows of jobs, by their numbers, then their
//! due_positions among those that are due, by their instants. When all is written, the log is cut up to where
//! the round began. A row may be written newer than that: the log says again what is newer, and says
//! what is, not what was done. A row that is changed between the two stays for the next round.

use crate::record::{JobKey, RunId};
use crate::sqlite::due;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::state::{self, ReadState as _};
use crate::sqlite::write_back::WriteTransaction;
use crate::sqlite::write_back::dirty_rows::DueVersion;
use crate::sqlite::write_back::{change_log, open_runs};

/// Rows of the log that count as much as one row that is written: each may be some pages.
const LOG_ROW_WEIGHT: usize = 8;

/// How the log is brought into the tables.
pub(crate) struct Flush {
    round: Option<Round>,
    /// Written by the transaction under way.
    written: Written,
    /// Written by transactions before, with their numbers; still in memory for readers that began
    /// before them.
    lingering: Vec<(u64, Vec<(JobKey, u64)>)>,
    /// The tables have everything up to this transaction.
    settled: u64,
}

/// What is done of a round.
struct Round {
    upto: u64,
    jobs: std::vec::IntoIter<JobKey>,
    /// Jobs whose rows are written, by when they are due, with their versions.
    saved: Vec<DueVersion>,
    /// Those whose due_positions have yet to be written, when all rows are.
    due_positions: Option<std::vec::IntoIter<DueVersion>>,
    runs: std::vec::IntoIter<RunId>,
}

#[derive(Default)]
struct Written {
    jobs: Vec<(JobKey, u64)>,
    runs: Vec<RunId>,
    gone: usize,
    is_over: bool,
}

impl Flush {
    pub(crate) fn new() -> Flush {
        Flush { round: None, written: Written::default(), lingering: Vec::new(), settled: 0 }
    }

    /// Whether the tables have everything.
    pub(crate) fn is_settled(&self, transaction: &WriteTransaction) -> bool {
        transaction.last_change() <= self.settled
    }

    /// Whether a round is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.round.is_some()
    }

    /// Begins a round, between transactions.
    pub(crate) fn begin(&mut self, transaction: &mut WriteTransaction) {
        transaction.logged = 0;
        let runs = transaction.shared.runs();
        let (jobs, saved) = transaction.shared.dirty_rows.unflushed();
        self.round = Some(Round {
            upto: transaction.committed(),
            jobs: jobs.into_iter(),
            saved,
            due_positions: None,
            runs: runs.unsaved().into_iter(),
        });
    }

    /// Writes about `limit` rows in the transaction under way.
    pub(crate) fn write_some(
        &mut self,
        transaction: &mut WriteTransaction,
        limit: usize,
    ) -> SqliteResult<()> {
        let Some(round) = &mut self.round else { return Ok(()) };
        // Readers that began before this transaction are told from later ones by its number. And of the
        // log, its row is left.
        transaction.must_log();
        let written = &mut self.written;
        let mut left = limit.max(1);
        let mut statement = transaction.connection().prepare_cached(state::WRITE)?;
        for job in round.jobs.by_ref().take(left) {
            left -= 1;
            // What is gone was removed from the table when it went.
            if let Some((version, row)) = transaction.shared.dirty_rows.newest(job) {
                round.saved.push((row.and_then(|row| row.starts_at()), job, version));
                row.map(|row| state::write(&mut statement, job, &row)).transpose()?;
            }
        }
        drop(statement);
        if left > 0 {
            let due_positions = round.due_positions.get_or_insert_with(|| {
                round.saved.sort_unstable();
                std::mem::take(&mut round.saved).into_iter()
            });
            let mut statement = transaction.connection().prepare_cached(due::WRITE)?;
            for (_, job, version) in due_positions.by_ref().take(left) {
                left -= 1;
                if let Some(row) = transaction.shared.dirty_rows.place(job, version) {
                    written.jobs.push((job, version));
                    row.map(|row| due::write(&mut statement, job, &row)).transpose()?;
                }
            }
        }
        let runs = transaction.shared.runs();
        for run in round.runs.by_ref().take(left) {
            left -= 1;
            if let Some(row) = runs.get(run) {
                open_runs::write(transaction.connection(), row)?;
                written.runs.push(run);
            }
        }
        for run in runs.gone().iter().skip(written.gone).take(left) {
            left -= 1;
            open_runs::delete(transaction.connection(), *run)?;
            written.gone += 1;
        }
        drop(runs);
        while left > 0 && !written.is_over {
            let rows = left.div_ceil(LOG_ROW_WEIGHT);
            let trimmed = change_log::trim(transaction.connection(), round.upto, rows as i64)?;
            written.is_over = trimmed < rows;
            left = left.saturating_sub(trimmed * LOG_ROW_WEIGHT);
        }
        Ok(())
    }

    /// The transaction is committed under a number; what it wrote need not be kept in memory.
    pub(crate) fn committed(&mut self, transaction: &WriteTransaction, number: u64) {
        let Written { jobs, runs: saved, gone, is_over } = std::mem::take(&mut self.written);
        if !saved.is_empty() || gone > 0 {
            let mut runs = transaction.shared.runs_mut();
            saved.iter().for_each(|run| runs.mark_saved(*run));
            runs.forget_gone(gone);
        }
        if !jobs.is_empty() {
            self.lingering.push((number, jobs));
        }
        if is_over && let Some(round) = self.round.take() {
            self.settled = round.upto;
        }
    }

    /// The transaction has failed: the round is begun anew another time.
    pub(crate) fn failed(&mut self) {
        if self.round.is_some() {
            self.written = Written::default();
            self.round = None;
        }
    }

    /// Drops from memory what no reader needs any more.
    pub(crate) fn tidy(&mut self, transaction: &WriteTransaction) {
        let dirty_rows = &transaction.shared.dirty_rows;
        self.lingering.retain(|(since, jobs)| !dirty_rows.drop_flushed(*since, jobs));
    }
}
