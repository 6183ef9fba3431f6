//! The rows of runs, as the state machine of runs and edits change them.

use std::collections::HashSet;

use kalends_recurrence::Instant;

use crate::record::{Disposition, JobKey, OpenRun, RunId};
use crate::run_state::{
    self, Change, RunChange, RunTables, close_waiting_run, expire_claim, manual_run,
};
use crate::sqlite::chain::{append, close};
use crate::sqlite::code::collect;
use crate::sqlite::desk::Desk;
use crate::sqlite::due;
use crate::sqlite::open_runs::RunRow;
use crate::sqlite::state::{StateRow, States as _};
use crate::sqlite::trouble::{Trouble, Worked};
use crate::sqlite::view::View;
use crate::store::DueJob;

/// The tables of runs and jobs, for the state machine of runs.
pub(crate) struct Tables<'a> {
    desk: &'a mut Desk,
    /// The row of the job that the present write is about: it is read once.
    row: Option<(JobKey, StateRow)>,
}

impl<'a> Tables<'a> {
    pub(crate) fn new(desk: &'a mut Desk) -> Tables<'a> {
        Tables { desk, row: None }
    }

    fn loaded(&mut self, job: JobKey, row: Option<StateRow>) -> Worked<Option<run_state::JobRow>> {
        self.row = row.map(|row| (job, row));
        let Some(row) = row else { return Ok(None) };
        let is_enabled =
            row.switched_on && self.desk.collection_enabled(row.collection)? == Some(true);
        let (generation, state) = (row.generation, row.state);
        Ok(Some(run_state::JobRow { generation, is_enabled, state }))
    }
}

impl RunTables for Tables<'_> {
    type Error = Trouble;

    fn due_job(&mut self, expected: DueJob) -> Worked<Option<run_state::JobRow>> {
        let job = expected.job;
        let row = match self.desk.changed(job) {
            Some(changed) => changed,
            // Jobs that are due together lie together in `due`. A job whose row is missing there is
            // still found by its key.
            None => match due::find(self.desk.connection(), expected.due, job)? {
                Some(row) => Some(row),
                None => self.desk.state(job)?,
            },
        };
        self.loaded(job, row)
    }

    fn job(&mut self, job: JobKey) -> Worked<Option<run_state::JobRow>> {
        let row = self.desk.state(job)?;
        self.loaded(job, row)
    }

    fn run(&mut self, run: RunId) -> Worked<Option<run_state::RunRow>> {
        Ok(self.desk.run(run).map(RunRow::without_collection))
    }

    fn open_runs(&mut self, job: JobKey) -> Worked<Vec<OpenRun>> {
        Ok(self.desk.runs_of(job).iter().map(|row| row.run).collect())
    }

    fn next_run_id(&mut self) -> Worked<RunId> {
        Ok(self.desk.next_run_id())
    }

    fn save(&mut self, change: Change<'_>) -> Worked<()> {
        let desk = &mut *self.desk;
        match change.run {
            RunChange::None => {}
            RunChange::Open(row) => {
                let Some((_, StateRow { collection, .. })) = self.row else { return Ok(()) };
                open(desk, row, collection);
            }
            RunChange::Update(row) => {
                if let Some(before) = desk.run(row.run.id) {
                    desk.set_run(row.run.id, Some(before.with(row)));
                }
            }
            RunChange::Close(run) => desk.set_run(run, None),
        }
        // Deleting a job deletes its runs, so that the row of a job is always there.
        let Some(((job, state), (_, before))) = change.job.zip(self.row) else { return Ok(()) };
        let mut after = StateRow { state, ..before };
        change.ledger.iter().try_for_each(|record| close(desk, job, &mut after, record))?;
        change.history.iter().try_for_each(|entry| append(desk, job, &mut after, entry))?;
        desk.set_state(job, &before, Some(after))
    }
}

fn open(desk: &mut Desk, row: run_state::RunRow, collection: i64) {
    desk.take_run_id();
    desk.set_run(row.run.id, Some(RunRow { run: row.run, last_token: row.last_token, collection }));
}

/// Opens the run of a `run` request.
pub(crate) fn open_manual(
    desk: &mut Desk,
    job: JobKey,
    collection: i64,
    generation: u64,
    at: Instant,
) {
    let row = manual_run(desk.next_run_id(), job, generation, at);
    open(desk, row, collection);
}

/// Closes the open runs of a job that no node holds.
pub(crate) fn close_waiting(
    desk: &mut Desk,
    job: JobKey,
    row: &mut StateRow,
    disposition: Disposition,
    now: Instant,
) -> Worked<()> {
    for RunRow { run, .. } in desk.runs_of(job) {
        if let Some(record) = close_waiting_run(&run, disposition, now) {
            desk.set_run(run.id, None);
            close(desk, job, row, &record)?;
        }
    }
    Ok(())
}

/// Lets every claim expire.
pub(crate) fn expire_claims(desk: &mut Desk) -> usize {
    let claimed = desk.claimed_runs();
    for before in &claimed {
        if let Some(row) = expire_claim(before.without_collection()) {
            desk.set_run(row.run.id, Some(before.with(row)));
        }
    }
    claimed.len()
}

/// The open runs of a job.
pub(crate) fn of_job(view: &View, job: JobKey) -> Vec<OpenRun> {
    view.memory.runs().of_job(job).map(|row| row.run).collect()
}

/// Runs that may be claimed, the earliest first.
pub(crate) fn claimable(
    view: &View,
    until: Instant,
    now: Instant,
    limit: usize,
) -> Worked<Vec<OpenRun>> {
    let mut statement =
        view.connection().prepare_cached("SELECT id FROM collections WHERE enabled = 0")?;
    let disabled = collect(statement.query(())?, |row| Ok(row.get(0)?))?;
    let disabled: HashSet<i64> = disabled.into_iter().collect();
    Ok(view.memory.runs().claimable(until, now, &disabled, limit))
}
