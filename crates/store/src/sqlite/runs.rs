//! Changes of runs by the run state machine and by edits.

use std::collections::HashSet;
use std::sync::LazyLock;

use kalends_recurrence::Instant;

use crate::api_store::WaitingRuns;
use crate::engine_store::{DueJob, RunWrite};
use crate::record::{Cause, JobKey, OpenRun, OpenRunSummary, Pause, RunId, SlotKey};
use crate::run_state::{
    self, Change, RunChange, RunTables, close_superseded_run, expire_claim, manual_run, unpark,
};
use crate::sqlite::chain::{NewChainRows, append_ledger};
use crate::sqlite::code::{Code as _, collect};
use crate::sqlite::due;
use crate::sqlite::due_batch::DueBatch;
use crate::sqlite::error::{SqliteError, SqliteResult};
use crate::sqlite::new_rows::{Insert, NewRows};
use crate::sqlite::state::{ReadState as _, StateRow};
use crate::sqlite::write_back::Snapshot;
use crate::sqlite::write_back::open_runs::RunRow;
use crate::sqlite::write_back::{WriteTransaction, index_finished};

/// The tables of runs and jobs, for the run state machine.
pub(crate) struct Tables<'a> {
    transaction: &'a mut WriteTransaction,
    /// State of the job of the current write, so that it is read once.
    row: Option<(JobKey, StateRow)>,
    /// Rows of `due` of the jobs that begin.
    due: DueBatch,
    /// New rows of history and ledger.
    chains: NewChainRows,
    /// New rows of `finished`.
    finished: NewRows<2>,
}

static INSERT_FINISHED: LazyLock<Insert> =
    LazyLock::new(|| Insert::new("INSERT INTO finished (finished, job)", 2));

impl<'a> Tables<'a> {
    /// The tables for `writes`, whose rows of `due` are read together.
    pub(crate) fn new(
        transaction: &'a mut WriteTransaction,
        writes: &[RunWrite],
    ) -> SqliteResult<Tables<'a>> {
        let position = |write: &RunWrite| match write {
            RunWrite::Begin { on, .. } | RunWrite::Skip { on, .. } => Some((on.due, on.job)),
            _ => None,
        };
        let mut expected: Vec<_> = writes.iter().filter_map(position).collect();
        transaction.shared.dirty_rows.retain_clean(&mut expected);
        let due = DueBatch::read(transaction.connection(), expected)?;
        let finished = NewRows::new(&INSERT_FINISHED);
        Ok(Tables { transaction, row: None, due, chains: NewChainRows::new(), finished })
    }

    /// Writes the rows that waited for others of their tables. Must follow the last write.
    pub(crate) fn finish(mut self) -> SqliteResult<()> {
        let connection = self.transaction.connection();
        self.chains.write(connection)?;
        self.finished.write(connection)?;
        self.due.write(connection)
    }

    /// Updates the row of a job in `finished`.
    fn index_finished(
        &mut self,
        job: JobKey,
        before: &StateRow,
        after: &StateRow,
    ) -> SqliteResult<()> {
        let connection = self.transaction.connection();
        match (before.state.finished, after.state.finished) {
            (None, Some(finished)) => {
                self.finished.push(connection, [Some(finished.code()), Some(job.code())])
            }
            (before, after) if before == after => Ok(()),
            _ => {
                // The row to delete may still wait.
                self.finished.write(connection)?;
                index_finished(connection, job, Some(before), Some(after))
            }
        }
    }

    fn loaded(
        &mut self,
        job: JobKey,
        row: Option<StateRow>,
    ) -> SqliteResult<Option<run_state::JobRow>> {
        self.row = row.map(|row| (job, row));
        let Some(row) = row else { return Ok(None) };
        let is_enabled =
            row.switched_on && self.transaction.collection_enabled(row.collection)? == Some(true);
        let StateRow { generation, schedule_generation, state, .. } = row;
        Ok(Some(run_state::JobRow { generation, schedule_generation, is_enabled, state }))
    }
}

impl RunTables for Tables<'_> {
    type Error = SqliteError;

    fn due_job(&mut self, expected: DueJob) -> SqliteResult<Option<run_state::JobRow>> {
        let job = expected.job;
        let row = match self.transaction.dirty_state(job) {
            Some(changed) => changed,
            // Jobs due at the same time are adjacent in `due`. A job that is missing there is
            // still found by its key.
            None => match self.due.take((expected.due, job)) {
                Some(row) => Some(row),
                None => match due::find(self.transaction.connection(), expected.due, job)? {
                    Some(row) => Some(row),
                    None => self.transaction.state(job)?,
                },
            },
        };
        self.loaded(job, row)
    }

    fn job(&mut self, job: JobKey) -> SqliteResult<Option<run_state::JobRow>> {
        let row = self.transaction.state(job)?;
        self.loaded(job, row)
    }

    fn run(&mut self, run: RunId) -> SqliteResult<Option<run_state::RunRow>> {
        Ok(self.transaction.run(run).map(RunRow::without_collection))
    }

    fn open_runs(&mut self, job: JobKey) -> SqliteResult<Vec<OpenRun>> {
        let mut runs = Vec::new();
        self.transaction.for_runs_of(job, |row| runs.push(row.run));
        Ok(runs)
    }

    fn pause(&mut self) -> SqliteResult<Option<Pause>> {
        Ok(self.transaction.pause())
    }

    fn next_run_id(&mut self) -> SqliteResult<RunId> {
        Ok(self.transaction.next_run_id())
    }

    fn save(&mut self, change: Change<'_>) -> SqliteResult<()> {
        let transaction = &mut *self.transaction;
        match change.run {
            RunChange::None => {}
            RunChange::Open(row) => {
                let Some((_, StateRow { collection, .. })) = self.row else { return Ok(()) };
                open(transaction, row, collection);
            }
            RunChange::Update(row) => {
                if let Some(before) = transaction.run(row.run.id) {
                    transaction.set_run(row.run.id, Some(before.with(row)));
                }
            }
            RunChange::Close(run) => transaction.set_run(run, None),
        }
        // Deleting a job deletes its runs, so the state of a run's job exists.
        let Some(((job, state), (_, before))) = change.job.zip(self.row) else { return Ok(()) };
        let mut after = StateRow { state, ..before };
        for row in change.ledger {
            self.chains.append_ledger(transaction, job, &mut after, row, change.execution)?;
        }
        for entry in change.history {
            self.chains.append_history(transaction, job, &mut after, entry)?;
        }
        if let Some(due) = transaction.change_state(job, &before, Some(after)) {
            self.due.remove((due, job));
        }
        self.index_finished(job, &before, &after)
    }
}

fn open(transaction: &mut WriteTransaction, row: run_state::RunRow, collection: i64) {
    transaction.allocate_run_id();
    let run_state::RunRow { run, last_token, attempts } = row;
    let row = RunRow { run, last_token, collection, is_held: false, attempts };
    transaction.set_run(run.id, Some(row));
}

/// Opens the run of a manual `run` request.
pub(crate) fn open_manual(
    transaction: &mut WriteTransaction,
    job: JobKey,
    collection: i64,
    generation: u64,
    at: Instant,
) {
    let row = manual_run(transaction.next_run_id(), job, generation, at);
    open(transaction, row, collection);
}

/// Adapts the open runs of a job to an edit: closes superseded runs that no node has claimed, and holds
/// or releases the others of its schedule. Parked runs become claimable. `row` is the job's row after the edit, which the caller
/// must save.
pub(crate) fn adapt_to_edit(
    transaction: &mut WriteTransaction,
    job: JobKey,
    row: &mut StateRow,
    waiting: WaitingRuns,
    now: Instant,
) -> SqliteResult<()> {
    for before in transaction.runs_of(job) {
        let run = &before.run;
        let closed = match waiting {
            WaitingRuns::Supersede => close_superseded_run(run, now),
            WaitingRuns::Keep => None,
        };
        let is_held = run.cause == Cause::Scheduled && !row.switched_on;
        if let Some(record) = closed {
            transaction.set_run(run.id, None);
            append_ledger(transaction, job, row, &record)?;
            continue;
        }
        let after = unpark(before.without_collection()).map_or(before, |row| before.with(row));
        let after = RunRow { is_held, ..after };
        if after != before {
            transaction.set_run(run.id, Some(after));
        }
    }
    Ok(())
}

/// Expires the lease of every claim; returns the number of claimed runs.
pub(crate) fn expire_claims(transaction: &mut WriteTransaction) -> usize {
    let claimed = transaction.claimed_runs();
    for before in &claimed {
        if let Some(row) = expire_claim(before.without_collection()) {
            transaction.set_run(row.run.id, Some(before.with(row)));
        }
    }
    claimed.len()
}

/// The open runs of a job, by id.
pub(crate) fn of_job(snapshot: &Snapshot, job: JobKey) -> Vec<OpenRun> {
    snapshot.shared.runs().of_job(job).map(|row| row.run).collect()
}

/// The summary of a job's open runs.
pub(crate) fn summary(snapshot: &Snapshot, job: JobKey) -> OpenRunSummary {
    OpenRunSummary::of(snapshot.shared.runs().of_job(job).map(|row| row.run))
}

/// Runs of enabled collections that may be claimed, by the time of their next attempt; none during a
/// pause.
pub(crate) fn claimable(
    snapshot: &Snapshot,
    until: Instant,
    now: Instant,
    limit: usize,
) -> SqliteResult<Vec<OpenRun>> {
    if snapshot.shared.is_paused(now) {
        return Ok(vec![]);
    }
    let disabled = disabled_collections(snapshot)?;
    Ok(snapshot.shared.runs().claimable(until, now, &disabled, limit))
}

/// Runs of enabled collections that are parked for a host or collection; none during a pause.
pub(crate) fn parked(
    snapshot: &Snapshot,
    key: SlotKey,
    now: Instant,
    limit: usize,
) -> SqliteResult<Vec<OpenRun>> {
    if snapshot.shared.is_paused(now) {
        return Ok(vec![]);
    }
    let disabled = disabled_collections(snapshot)?;
    Ok(snapshot.shared.runs().parked(key, &disabled, limit))
}

fn disabled_collections(snapshot: &Snapshot) -> SqliteResult<HashSet<i64>> {
    let mut statement =
        snapshot.connection().prepare_cached("SELECT id FROM collections WHERE enabled = 0")?;
    let disabled = collect(statement.query(())?, |row| Ok(row.get(0)?))?;
    Ok(disabled.into_iter().collect())
}
