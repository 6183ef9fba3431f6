//! What a store tells to who checks that all is well: jobs, a slice at a time, with what must agree.

use kalends_recurrence::Instant;

use crate::record::{CollectionKey, GateState, JobKey, OpenRun, RunId};

/// A slice of the jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// They, in the order of their numbers.
    pub jobs: Vec<ScannedJob>,
    /// What belongs to nothing, among the same numbers.
    pub orphans: Vec<Orphan>,
    /// The slice goes on after this job; `None` where all was looked at.
    pub next: Option<JobKey>,
}

/// A job with what must agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedJob {
    /// Which.
    pub job: JobKey,
    /// Its collection.
    pub collection: CollectionKey,
    /// When it was created.
    pub created: Instant,
    /// How it stands.
    pub standing: GateState,
    /// Its open runs.
    pub open: Vec<OpenRun>,
    /// What history has of it.
    pub history: HistorySums,
}

/// What is kept in the history of a job, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistorySums {
    /// Entries of any kind.
    pub entries: u64,
    /// Attempts of the main action.
    pub attempts: u64,
    /// Those of them that failed.
    pub failures: u64,
}

/// Something that belongs to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphan {
    /// A job without a state.
    Job(JobKey),
    /// A state without a job.
    State(JobKey),
    /// A run without a job.
    Run(RunId),
}
