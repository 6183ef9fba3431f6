//! Reads of runs over all jobs: newest runs, the list of runs, and counts per time.

use std::collections::BTreeMap;
use std::time::Duration;

use kalends_domain::{
    AccessScope, ActionRole, ClosedRun, CollectionPath, JobPath, LastAttempts, RunOutcome,
    RunStatus,
};
use kalends_recurrence::{Instant, duration_to_ticks};

use crate::record::{JobKey, LedgerRecord, OpenRun, RunId};
use crate::store::Reply;

/// Reads of runs over all jobs. Each call is bounded.
pub trait RunReports: Send + Sync {
    /// The newest closed runs of each job, newest first, at most `limit` of each job. In the order of
    /// `jobs`. Those of a deleted job may be returned until they are removed.
    fn newest_runs(&self, jobs: Vec<JobKey>, limit: usize) -> Reply<'_, Vec<NewestRuns>>;

    /// Open runs of all jobs, those opened last first. Examines at most `scan_max` runs.
    fn listed_open_runs(&self, query: OpenRunsQuery) -> Reply<'_, OpenRunsPage>;

    /// The number of open runs of jobs in any of the scopes. Examines at most the `scan_max` runs that
    /// were opened last.
    fn open_run_count(&self, scopes: Vec<AccessScope>, scan_max: usize) -> Reply<'_, OpenRunCount>;

    /// Closed runs of all jobs, those closed last first. Examines at most `scan_max` ledger rows.
    fn listed_closed_runs(&self, query: ClosedRunsQuery) -> Reply<'_, ClosedRunsPage>;

    /// Closed runs per bucket of [`RUN_COUNTS_BUCKET`] that starts in `from..to`, by start. Buckets
    /// without closed runs may be missing.
    fn run_counts(
        &self,
        scopes: Vec<AccessScope>,
        from: Instant,
        to: Instant,
    ) -> Reply<'_, Vec<(Instant, RunCounts)>>;
}

/// A number of open runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenRunCount {
    /// The open runs that were counted.
    pub count: u64,
    /// Whether there may be more than those examined.
    pub more: bool,
}

/// The newest runs of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewestRuns {
    /// Closed runs, newest first.
    pub closed: Vec<RunOutcome>,
    /// Whether a node executes a run of the job.
    pub is_running: bool,
}

/// Selects runs. All conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFilter {
    /// Runs of jobs in any of these scopes.
    pub scopes: Vec<AccessScope>,
    /// Runs of this job.
    pub job: Option<JobKey>,
    /// Closed runs with this status.
    pub status: Option<RunStatus>,
    /// Closed runs that closed at this time or later.
    pub from: Instant,
    /// Closed runs that closed before this time.
    pub to: Instant,
}

impl RunFilter {
    /// Whether jobs of a collection are selected.
    pub(crate) fn has_collection(&self, path: &CollectionPath) -> bool {
        is_in_scopes(&self.scopes, path)
    }

    /// Whether all ledger rows of the selected time and job are selected.
    pub(crate) fn selects_all(&self) -> bool {
        self.status.is_none() && self.scopes.contains(&AccessScope::Everything)
    }

    /// Whether a ledger row is selected, apart from its job.
    pub(crate) fn has_record(&self, record: &LedgerRecord) -> bool {
        let status = RunStatus::of(record.disposition);
        (self.from..self.to).contains(&record.closed)
            && self.status.is_none_or(|wanted| wanted == status)
    }
}

/// Whether any of the scopes covers a collection.
pub(crate) fn is_in_scopes(scopes: &[AccessScope], path: &CollectionPath) -> bool {
    let collection = AccessScope::Collection(path.clone());
    scopes.iter().any(|scope| scope.covers(&collection))
}

/// A part of the list of open runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRunsQuery {
    /// Selects runs by scope and job.
    pub filter: RunFilter,
    /// Only runs opened before this one.
    pub before: Option<RunId>,
    /// Runs to examine.
    pub scan_max: usize,
    /// Maximum number of runs to return.
    pub limit: usize,
}

/// A page of open runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenRunsPage {
    /// The runs, those opened last first.
    pub runs: Vec<ListedOpenRun>,
    /// The last run examined, if there may be more.
    pub end: Option<RunId>,
}

/// An open run of the list of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedOpenRun {
    /// Path of its job.
    pub path: JobPath,
    /// The run.
    pub run: OpenRun,
    /// Its attempts so far.
    pub attempts: RecordedAttempts,
}

impl ListedOpenRun {
    /// Number of finished attempts of the job's own action, and of the error action if that has
    /// begun.
    pub fn attempts_by_role(&self) -> (u32, Option<u32>) {
        match self.run.progress.role {
            ActionRole::Main => (self.attempts.count, None),
            // The n-th retry follows n attempts.
            ActionRole::Error => {
                let error = self.run.progress.retry;
                (self.attempts.count.saturating_sub(error), Some(error))
            }
        }
    }
}

/// The finished attempts of an open run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedAttempts {
    /// Number of finished attempts, including those of the error action.
    pub count: u32,
    /// Start of the first one.
    pub first_started: Option<Instant>,
}

/// A part of the list of closed runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedRunsQuery {
    /// Selects runs.
    pub filter: RunFilter,
    /// Only runs after this position.
    pub after: Option<RunPosition>,
    /// Ledger rows to examine.
    pub scan_max: usize,
    /// Maximum number of runs to return.
    pub limit: usize,
}

/// A page of closed runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClosedRunsPage {
    /// The runs, those closed last first.
    pub runs: Vec<ListedClosedRun>,
    /// Position of the last ledger row examined, if there may be more.
    pub end: Option<RunPosition>,
}

/// A closed run of the list of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedClosedRun {
    /// Path of its job.
    pub path: JobPath,
    /// The run.
    pub run: ClosedRun,
    /// Its last attempts, as far as they are among the newest [`ATTEMPT_SCAN_MAX`] entries of the
    /// job's history.
    pub last: LastAttempts,
    /// Position in the list.
    pub position: RunPosition,
}

/// A position in the list of closed runs: the columns by which stores order ledger rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPosition {
    /// Number of the ledger row.
    pub number: u64,
    /// Time at which it was closed.
    pub closed: Instant,
    /// First scheduled time.
    pub from: Instant,
    /// Last scheduled time.
    pub to: Instant,
}

impl RunPosition {
    pub(crate) fn of(number: u64, record: &LedgerRecord) -> RunPosition {
        let LedgerRecord { from, to, closed, .. } = *record;
        RunPosition { number, closed, from, to }
    }
}

/// History entries of a job that are searched for the last attempts of its runs.
pub const ATTEMPT_SCAN_MAX: usize = 1_000;

/// Ledger rows are numbered in the order in which they are committed. Their closing times are in the
/// same order up to this difference.
pub(crate) const CLOSING_ORDER_TOLERANCE: Duration = Duration::from_secs(120);

/// The length of a bucket of run counts.
pub const RUN_COUNTS_BUCKET: Duration = Duration::from_secs(600);
/// Age at which run counts are removed.
pub const RUN_COUNTS_RETENTION: Duration = Duration::from_secs(8 * 86_400);

/// Numbers of closed occurrences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in `RunStatus`")]
pub struct RunCounts {
    pub succeeded: u64,
    pub failed: u64,
    pub skipped: u64,
    pub missed: u64,
}

impl RunCounts {
    /// The counts of one ledger row.
    pub(crate) fn of(record: &LedgerRecord) -> RunCounts {
        let mut counts = RunCounts::default();
        match RunStatus::of(record.disposition) {
            RunStatus::Running => {}
            RunStatus::Succeeded => counts.succeeded = record.count,
            RunStatus::Failed => counts.failed = record.count,
            RunStatus::Skipped => counts.skipped = record.count,
            RunStatus::Missed => counts.missed = record.count,
        }
        counts
    }

    /// Adds other counts.
    pub fn add(&mut self, other: RunCounts) {
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.missed += other.missed;
    }
}

/// The number of the bucket of a time.
pub(crate) fn bucket_of(time: Instant) -> i64 {
    time.ticks().div_euclid(duration_to_ticks(RUN_COUNTS_BUCKET))
}

/// The numbers of the buckets that start in `from..to`, without those that retention has removed if
/// `to` is the present.
pub(crate) fn buckets_between(from: Instant, to: Instant) -> std::ops::Range<i64> {
    const BUCKETS_MAX: i64 =
        (RUN_COUNTS_RETENTION.as_secs() / RUN_COUNTS_BUCKET.as_secs()) as i64 + 1;
    let first_from = |time| {
        let bucket = bucket_of(time);
        if start_of_bucket(bucket) == time { bucket } else { bucket + 1 }
    };
    let end = first_from(to);
    first_from(from).max(end - BUCKETS_MAX)..end
}

/// The start of a bucket.
pub(crate) fn start_of_bucket(bucket: i64) -> Instant {
    let ticks = bucket.saturating_mul(duration_to_ticks(RUN_COUNTS_BUCKET));
    Instant::from_ticks(ticks).unwrap_or(Instant::MAX)
}

/// The collection number of the counts of all collections.
pub(crate) const ALL_COLLECTIONS: i64 = 0;

/// The counts of ledger rows by bucket and collection, and of all collections. Each row comes with the
/// number of its collection.
pub(crate) fn count_rows<'a>(
    rows: impl IntoIterator<Item = (i64, &'a LedgerRecord)>,
) -> BTreeMap<(i64, i64), RunCounts> {
    let mut counts: BTreeMap<(i64, i64), RunCounts> = BTreeMap::new();
    for (collection, record) in rows {
        let bucket = bucket_of(record.closed);
        for collection in [ALL_COLLECTIONS, collection] {
            counts.entry((bucket, collection)).or_default().add(RunCounts::of(record));
        }
    }
    counts
}
