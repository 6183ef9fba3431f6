//! Data for the invariant scan: pages of jobs with the values that must be consistent.

use kalends_recurrence::Instant;

use crate::record::{CollectionKey, GateState, JobKey, OpenRun, RunId};

/// A page of the invariant scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// Jobs in key order.
    pub jobs: Vec<ScannedJob>,
    /// Orphaned rows within the same range of keys.
    pub orphans: Vec<Orphan>,
    /// The next page starts after this job; `None` after the last page.
    pub next: Option<JobKey>,
}

/// A job with the values that must be consistent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedJob {
    /// The key of the job.
    pub job: JobKey,
    /// The key of its collection.
    pub collection: CollectionKey,
    /// The time of creation.
    pub created: Instant,
    /// Its generation, switches and state.
    pub gate_state: GateState,
    /// Its open runs.
    pub open: Vec<OpenRun>,
    /// Counts of its history entries, to compare with the counters in its state.
    pub history: HistorySums,
}

/// Counts of the history entries of a job that retention has not removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistorySums {
    /// All entries.
    pub entries: u64,
    /// Attempts of the main action.
    pub attempts: u64,
    /// Failed attempts of the main action.
    pub failures: u64,
}

/// A row whose counterpart is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphan {
    /// A job without a state.
    Job(JobKey),
    /// A state without a job.
    State(JobKey),
    /// A run without a job.
    Run(RunId),
}
