//! The ledger: how each occurrence ended.

use kalends_recurrence::Instant;

/// Why there is a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// An occurrence of the schedule.
    Scheduled,
    /// A user asked for it.
    Manual,
}

/// How an occurrence, or a stretch of missed ones, was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRecord {
    /// Of which edit of the job.
    pub generation: u64,
    /// The scheduled instant, or the first of a stretch.
    pub from: Instant,
    /// The same, or the last of a stretch.
    pub to: Instant,
    /// How many occurrences it stands for.
    pub count: u64,
    /// Why there were any.
    pub cause: Cause,
    /// How they ended.
    pub disposition: Disposition,
    /// When that was decided.
    pub closed: Instant,
}

/// The one way in which an occurrence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// The target took it.
    Completed,
    /// All tries failed.
    Failed,
    /// The one before still ran.
    SkippedOverlap,
    /// The job or its collection was disabled.
    SkippedDisabled,
    /// A quota or a plan held it.
    SkippedQuota,
    /// Nothing could run at its time, and it does not run later.
    Missed,
    /// An edit came between.
    Superseded,
}
