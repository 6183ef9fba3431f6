//! A cache of rows that this node has read or written, so that a commit need not read them again.
//!
//! A cached row may be out of date: another node or an edit may have changed it. It has the version
//! that was read or written, and a write names that version. If the row has another one meanwhile,
//! nothing is committed, and the commit is repeated with locks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kalends_recurrence::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type, accepts};

use crate::error::StoreError;
use crate::postgres::commit::read::Named;
use crate::postgres::row::{get, optional_at};
use crate::record::{JobKey, RunId};
use crate::run_state::{JobRow, RunRow};

/// Maximum number of cached jobs, and of cached runs. The cache is cleared when there are more.
const JOBS_MAX: usize = 20_000;
/// Commits that lock their rows after one that found a row changed: other nodes want the same jobs.
const LOCKING_COMMITS: u32 = 15;

/// The version of a row: the number of the transaction that wrote it, which the column `xmin` has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::postgres) struct RowVersion(i32);

impl RowVersion {
    /// The version of rows that a transaction writes, by its number with the epoch.
    pub(super) fn written_by(transaction: i64) -> RowVersion {
        // The lower half of the number.
        let [_, _, _, _, bytes @ ..] = transaction.to_be_bytes();
        RowVersion(i32::from_be_bytes(bytes))
    }

    /// For comparison with `xmin`.
    pub(in crate::postgres) fn number(self) -> i32 {
        self.0
    }
}

impl<'a> FromSql<'a> for RowVersion {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<RowVersion, Box<dyn Error + Sync + Send>> {
        Ok(RowVersion(i32::from_be_bytes(raw.try_into()?)))
    }

    accepts!(XID);
}

/// The state of a job in one version.
#[derive(Clone, Copy)]
pub(in crate::postgres) struct VersionedJob {
    /// `is_enabled` is that of the job alone, without its collection.
    pub(in crate::postgres) row: JobRow,
    pub(in crate::postgres) collection: i64,
    pub(in crate::postgres) version: RowVersion,
    /// When the job was last enabled, if it was disabled before.
    pub(in crate::postgres) enabled_since: Option<Instant>,
    pub(super) runs: KnownRuns,
}

impl VersionedJob {
    /// A state with the columns `collection_id`, `row_version` and `job_enabled_since` of its row.
    pub(in crate::postgres) fn new(
        state: JobRow,
        runs: KnownRuns,
        row: &Row,
    ) -> Result<VersionedJob, StoreError> {
        Ok(VersionedJob {
            row: state,
            collection: get(row, "collection_id")?,
            version: get(row, "row_version")?,
            enabled_since: optional_at(row, "job_enabled_since")?,
            runs,
        })
    }
}

/// The open runs of the schedule of a job in one version of its state. A transaction that opens or closes
/// one of them changes the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::postgres) enum KnownRuns {
    None,
    One(RunId),
    /// Any number, or not read.
    Unknown,
}

impl KnownRuns {
    pub(super) fn opened(self, run: RunId) -> KnownRuns {
        if self == KnownRuns::None { KnownRuns::One(run) } else { KnownRuns::Unknown }
    }

    pub(super) fn closed(self, run: RunId) -> KnownRuns {
        if self == KnownRuns::One(run) { KnownRuns::None } else { self }
    }
}

/// An open run in one version.
#[derive(Clone, Copy)]
pub(in crate::postgres) struct VersionedRun {
    pub(super) row: RunRow,
    pub(super) version: RowVersion,
}

/// The rows of a commit after it.
pub(in crate::postgres) struct WrittenRows {
    /// Jobs with a claimed run.
    pub(super) jobs: Vec<(JobKey, VersionedJob)>,
    /// Claimed runs.
    pub(super) runs: Vec<VersionedRun>,
    /// Jobs and runs to remove from the cache.
    pub(super) forgotten: (Vec<JobKey>, Vec<RunId>),
}

/// The cached rows of a node: states of jobs that it is about to run, and its claimed runs with the
/// states of their jobs.
#[derive(Default)]
pub(in crate::postgres) struct RowCache(Mutex<Rows>);

#[derive(Default)]
struct Rows {
    /// Whether a job has a claimed run of this node.
    jobs: HashMap<JobKey, (VersionedJob, bool)>,
    runs: HashMap<RunId, VersionedRun>,
    locking_commits: u32,
}

impl RowCache {
    /// Caches the states of jobs that were read. A state that this node has written is newer.
    pub(in crate::postgres) fn add_read(&self, jobs: impl Iterator<Item = (JobKey, VersionedJob)>) {
        let mut rows = self.rows();
        for (key, job) in jobs {
            let cached = rows.jobs.entry(key).or_insert((job, false));
            if !cached.1 {
                cached.0 = job;
            }
        }
        rows.limit();
    }

    /// Caches the rows of a commit.
    pub(in crate::postgres) fn add_written(&self, written: WrittenRows) {
        let mut rows = self.rows();
        rows.forget(written.forgotten.0, written.forgotten.1);
        rows.jobs.extend(written.jobs.into_iter().map(|(key, job)| (key, (job, true))));
        rows.runs.extend(written.runs.into_iter().map(|run| (run.row.run.id, run)));
        rows.limit();
    }

    /// The cached states of these jobs.
    pub(in crate::postgres) fn states(&self, jobs: &[JobKey]) -> Vec<Option<VersionedJob>> {
        let rows = self.rows();
        jobs.iter().map(|key| rows.jobs.get(key).map(|(job, _)| *job)).collect()
    }

    /// Forgets runs that were changed beside commits.
    pub(in crate::postgres) fn forget_runs(&self, runs: impl Iterator<Item = RunId>) {
        self.rows().forget([], runs);
    }

    /// Whether the next commit has to lock its rows.
    pub(super) fn must_lock(&self) -> bool {
        let mut rows = self.rows();
        let must_lock = rows.locking_commits > 0;
        rows.locking_commits = rows.locking_commits.saturating_sub(1);
        must_lock
    }

    /// Forgets the rows of a commit that found one of them changed, and lets the next commits lock theirs.
    pub(super) fn found_changed(&self, named: Named) {
        let mut rows = self.rows();
        rows.locking_commits = LOCKING_COMMITS;
        rows.forget(named.jobs, named.runs);
    }

    /// The cached ones of these jobs and runs, and the jobs of the runs.
    pub(super) fn find(
        &self,
        jobs: &BTreeSet<JobKey>,
        runs: &BTreeSet<RunId>,
    ) -> (BTreeMap<JobKey, VersionedJob>, BTreeMap<RunId, VersionedRun>) {
        let rows = self.rows();
        let mut found_jobs = BTreeMap::new();
        let mut found_runs = BTreeMap::new();
        for key in jobs {
            found_jobs.extend(rows.jobs.get(key).map(|(job, _)| (*key, *job)));
        }
        for id in runs {
            let Some(run) = rows.runs.get(id) else { continue };
            let key = run.row.run.job;
            let Some((job, _)) = rows.jobs.get(&key) else { continue };
            found_jobs.insert(key, *job);
            found_runs.insert(*id, *run);
        }
        (found_jobs, found_runs)
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    fn forget(
        &mut self,
        jobs: impl IntoIterator<Item = JobKey>,
        runs: impl IntoIterator<Item = RunId>,
    ) {
        for run in runs {
            if let Some(run) = self.runs.remove(&run) {
                self.jobs.remove(&run.row.run.job);
            }
        }
        for job in jobs {
            self.jobs.remove(&job);
        }
    }

    fn limit(&mut self) {
        if self.jobs.len() > JOBS_MAX || self.runs.len() > JOBS_MAX {
            *self = Rows { locking_commits: self.locking_commits, ..Rows::default() };
        }
    }
}
