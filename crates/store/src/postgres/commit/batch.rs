//! The rows of one commit: read, changed in memory by each write in turn, and saved together.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use kalends_domain::{ClosedRun, HistoryEntry};
use kalends_recurrence::Instant;

use crate::engine_store::DueJob;
use crate::error::StoreError;
use crate::postgres::commit::row_cache::{RowVersion, VersionedJob, VersionedRun, WrittenRows};
use crate::postgres::commit::write::ClosedRow;
use crate::record::{JobKey, JobState, OpenRun, Pause, RunId};
use crate::run_state::{Change, JobRow, RunChange, RunRow, RunTables};

/// Rows that were read, with the changes made to them.
pub(super) struct Batch {
    jobs: BTreeMap<JobKey, VersionedJob>,
    /// Collections that exist, and whether they are enabled.
    collections: HashMap<i64, bool>,
    runs: BTreeMap<RunId, RunRow>,
    /// The versions of the runs that were read.
    run_versions: BTreeMap<RunId, RowVersion>,
    runs_of_jobs: BTreeSet<(JobKey, RunId)>,
    fresh_ids: VecDeque<RunId>,
    changed_jobs: BTreeSet<JobKey>,
    opened: BTreeSet<RunId>,
    updated: BTreeSet<RunId>,
    closed: BTreeSet<RunId>,
    history: Vec<(JobKey, HistoryEntry)>,
    ledger: Vec<ClosedRow>,
    lowered: Vec<(i64, Instant)>,
    /// The newest pause of all jobs.
    pause: Option<Pause>,
}

/// Rows to write. Those that exist have the version that was read.
pub(super) struct Changes {
    pub(super) states: Vec<(JobKey, JobState, RowVersion)>,
    pub(super) opened: Vec<RunRow>,
    pub(super) updated: Vec<VersionedRun>,
    pub(super) closed: Vec<(RunId, RowVersion)>,
    pub(super) history: Vec<(JobKey, HistoryEntry)>,
    pub(super) ledger: Vec<ClosedRow>,
    /// Collections of jobs that became due, or due earlier than before, with the new due times.
    pub(super) lowered: Vec<(i64, Instant)>,
}

impl Batch {
    /// Rows of deleted collections are left out.
    pub(super) fn new(
        mut jobs: BTreeMap<JobKey, VersionedJob>,
        collections: HashMap<i64, bool>,
        runs: BTreeMap<RunId, VersionedRun>,
        fresh_ids: VecDeque<RunId>,
        pause: Option<Pause>,
    ) -> Batch {
        jobs.retain(|_, job| collections.contains_key(&job.collection));
        Batch {
            jobs,
            collections,
            run_versions: runs.iter().map(|(id, run)| (*id, run.version)).collect(),
            runs_of_jobs: runs.iter().map(|(id, run)| (run.row.run.job, *id)).collect(),
            runs: runs.into_iter().map(|(id, run)| (id, run.row)).collect(),
            fresh_ids,
            changed_jobs: BTreeSet::new(),
            opened: BTreeSet::new(),
            updated: BTreeSet::new(),
            closed: BTreeSet::new(),
            history: Vec::new(),
            ledger: Vec::new(),
            lowered: Vec::new(),
            pause,
        }
    }

    /// The rows that changed.
    pub(super) fn changes(&mut self) -> Changes {
        let state = |key: &JobKey| {
            let job = self.jobs.get(key)?;
            Some((*key, job.row.state, job.version))
        };
        let updated = |id: &RunId| {
            let (row, version) = (*self.runs.get(id)?, *self.run_versions.get(id)?);
            Some(VersionedRun { row, version })
        };
        let closed = |id: &RunId| Some((*id, *self.run_versions.get(id)?));
        Changes {
            states: self.changed_jobs.iter().filter_map(state).collect(),
            opened: self.opened.iter().filter_map(|id| self.runs.get(id)).copied().collect(),
            updated: self.updated.iter().filter_map(updated).collect(),
            closed: self.closed.iter().filter_map(closed).collect(),
            history: std::mem::take(&mut self.history),
            ledger: std::mem::take(&mut self.ledger),
            lowered: std::mem::take(&mut self.lowered),
        }
    }

    /// The rows after the commit, whose writes have this version.
    pub(super) fn written(self, version: RowVersion) -> WrittenRows {
        let mut written =
            WrittenRows { jobs: Vec::new(), runs: Vec::new(), forgotten: (Vec::new(), Vec::new()) };
        let mut jobs_with_runs = BTreeSet::new();
        for id in self.opened.iter().chain(&self.updated) {
            match self.runs.get(id).filter(|row| row.run.claim.is_some()) {
                Some(row) => {
                    jobs_with_runs.insert(row.run.job);
                    written.runs.push(VersionedRun { row: *row, version });
                }
                None => written.forgotten.1.push(*id),
            }
        }
        written.forgotten.1.extend(self.closed);
        for key in self.changed_jobs {
            match self.jobs.get(&key).filter(|_| jobs_with_runs.contains(&key)) {
                Some(job) => written.jobs.push((key, VersionedJob { version, ..*job })),
                None => written.forgotten.0.push(key),
            }
        }
        written
    }
}

impl RunTables for Batch {
    type Error = StoreError;

    fn due_job(&mut self, expected: DueJob) -> Result<Option<JobRow>, StoreError> {
        self.job(expected.job)
    }

    fn job(&mut self, job: JobKey) -> Result<Option<JobRow>, StoreError> {
        let Some(VersionedJob { row, collection, .. }) = self.jobs.get(&job) else {
            return Ok(None);
        };
        let is_collection_enabled = self.collections.get(collection).copied().unwrap_or_default();
        Ok(Some(JobRow { is_enabled: row.is_enabled && is_collection_enabled, ..*row }))
    }

    fn run(&mut self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        Ok(self.runs.get(&run).copied())
    }

    fn open_runs(&mut self, job: JobKey) -> Result<Vec<OpenRun>, StoreError> {
        let of_job = self.runs_of_jobs.range((job, RunId(i64::MIN))..=(job, RunId(i64::MAX)));
        Ok(of_job.filter_map(|(_, id)| Some(self.runs.get(id)?.run)).collect())
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
                self.jobs
                    .entry(row.run.job)
                    .and_modify(|job| job.runs = job.runs.opened(row.run.id));
                self.runs_of_jobs.insert((row.run.job, row.run.id));
                self.runs.insert(row.run.id, row);
            }
            RunChange::Update(row) => {
                if !self.opened.contains(&row.run.id) {
                    self.updated.insert(row.run.id);
                }
                self.runs.insert(row.run.id, row);
            }
            RunChange::Close(run) => {
                if let Some(row) = self.runs.remove(&run) {
                    self.runs_of_jobs.remove(&(row.run.job, run));
                    self.jobs.entry(row.run.job).and_modify(|job| job.runs = job.runs.closed(run));
                }
                self.updated.remove(&run);
                if !self.opened.remove(&run) {
                    self.closed.insert(run);
                }
            }
        }
        let Some((key, state)) = change.job else { return Ok(()) };
        let mut collection = None;
        if let Some(job) = self.jobs.get_mut(&key) {
            let earlier = state.due.filter(|due| job.row.state.due.is_none_or(|old| *due < old));
            self.lowered.extend(earlier.map(|due| (job.collection, due)));
            job.row.state = state;
            self.changed_jobs.insert(key);
            collection = Some(job.collection);
        }
        self.ledger.extend(change.ledger.iter().map(|record| {
            let run = ClosedRun { record: record.clone(), execution: change.execution };
            ClosedRow { job: key, collection, run }
        }));
        self.history.extend(change.history.iter().map(|entry| (key, entry.clone())));
        Ok(())
    }
}
