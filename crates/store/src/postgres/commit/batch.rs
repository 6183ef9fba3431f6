//! The rows of one commit: read under locks, changed in memory by each write in turn, and saved
//! together.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kalends_domain::{ClosedRun, HistoryEntry};
use kalends_recurrence::Instant;

use crate::engine_store::DueJob;
use crate::error::StoreError;
use crate::postgres::commit::write::ClosedRow;
use crate::record::{JobKey, JobState, OpenRun, Pause, RunId};
use crate::run_state::{Change, JobRow, RunChange, RunRow, RunTables};

/// Rows that were read under locks, with the changes made to them.
pub(super) struct Batch {
    jobs: BTreeMap<JobKey, JobRow>,
    runs: BTreeMap<RunId, RunRow>,
    fresh_ids: VecDeque<RunId>,
    changed_jobs: BTreeSet<JobKey>,
    opened: BTreeSet<RunId>,
    updated: BTreeSet<RunId>,
    closed: Vec<RunId>,
    history: Vec<(JobKey, HistoryEntry)>,
    ledger: Vec<ClosedRow>,
    collections: BTreeMap<JobKey, i64>,
    lowered: Vec<(i64, Instant)>,
    /// The newest pause of all jobs.
    pause: Option<Pause>,
}

/// Rows to write.
pub(super) struct Changes {
    pub(super) states: Vec<(JobKey, JobState)>,
    pub(super) opened: Vec<RunRow>,
    pub(super) updated: Vec<RunRow>,
    pub(super) closed: Vec<RunId>,
    pub(super) history: Vec<(JobKey, HistoryEntry)>,
    pub(super) ledger: Vec<ClosedRow>,
    /// Collections of jobs that became due, or due earlier than before, with the new due times.
    pub(super) lowered: Vec<(i64, Instant)>,
}

impl Batch {
    pub(super) fn new(
        jobs: BTreeMap<JobKey, JobRow>,
        collections: BTreeMap<JobKey, i64>,
        runs: BTreeMap<RunId, RunRow>,
        fresh_ids: VecDeque<RunId>,
        pause: Option<Pause>,
    ) -> Batch {
        Batch {
            jobs,
            runs,
            fresh_ids,
            changed_jobs: BTreeSet::new(),
            opened: BTreeSet::new(),
            updated: BTreeSet::new(),
            closed: Vec::new(),
            history: Vec::new(),
            ledger: Vec::new(),
            collections,
            lowered: Vec::new(),
            pause,
        }
    }

    /// The rows that changed.
    pub(super) fn changes(self) -> Changes {
        let Batch { jobs, runs, .. } = self;
        let in_set = |set: &BTreeSet<RunId>| -> Vec<RunRow> {
            set.iter().filter_map(|id| runs.get(id)).copied().collect()
        };
        let state = |job: &JobKey| Some((*job, jobs.get(job)?.state));
        Changes {
            states: self.changed_jobs.iter().filter_map(state).collect(),
            opened: in_set(&self.opened),
            updated: in_set(&self.updated),
            closed: self.closed,
            history: self.history,
            ledger: self.ledger,
            lowered: self.lowered,
        }
    }
}

impl RunTables for Batch {
    type Error = StoreError;

    fn due_job(&mut self, expected: DueJob) -> Result<Option<JobRow>, StoreError> {
        self.job(expected.job)
    }

    fn job(&mut self, job: JobKey) -> Result<Option<JobRow>, StoreError> {
        Ok(self.jobs.get(&job).copied())
    }

    fn run(&mut self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        Ok(self.runs.get(&run).copied())
    }

    fn open_runs(&mut self, job: JobKey) -> Result<Vec<OpenRun>, StoreError> {
        let runs = self.runs.values().map(|row| row.run);
        Ok(runs.filter(|run| run.job == job).collect())
    }

    fn pause(&mut self) -> Result<Option<Pause>, StoreError> {
        Ok(self.pause)
    }

    fn next_run_id(&mut self) -> Result<RunId, StoreError> {
        let id = self.fresh_ids.front().copied();
        id.ok_or_else(|| StoreError::Failed("a commit ran out of run ids".into()))
    }

    fn save(&mut self, change: Change<'_>) -> Result<(), StoreError> {
        match change.run {
            RunChange::None => {}
            RunChange::Open(row) => {
                self.fresh_ids.pop_front();
                self.opened.insert(row.run.id);
                self.runs.insert(row.run.id, row);
            }
            RunChange::Update(row) => {
                if !self.opened.contains(&row.run.id) {
                    self.updated.insert(row.run.id);
                }
                self.runs.insert(row.run.id, row);
            }
            RunChange::Close(run) => {
                self.runs.remove(&run);
                self.updated.remove(&run);
                if !self.opened.remove(&run) {
                    self.closed.push(run);
                }
            }
        }
        let Some((job, state)) = change.job else { return Ok(()) };
        if let Some(row) = self.jobs.get_mut(&job) {
            let earlier = state.due.filter(|due| row.state.due.is_none_or(|old| *due < old));
            self.lowered.extend(self.collections.get(&job).copied().zip(earlier));
            row.state = state;
            self.changed_jobs.insert(job);
        }
        let collection = self.collections.get(&job).copied();
        self.ledger.extend(change.ledger.iter().map(|record| {
            let run = ClosedRun { record: record.clone(), execution: change.execution };
            ClosedRow { job, collection, run }
        }));
        self.history.extend(change.history.iter().map(|entry| (job, entry.clone())));
        Ok(())
    }
}
