//! The ledger: the final disposition of each occurrence.

use kalends_recurrence::Instant;

/// The trigger of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// An occurrence of the schedule.
    Scheduled,
    /// A run request through the API.
    Manual,
}

/// A closed occurrence, or a range of consecutive occurrences with the same disposition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRecord {
    /// Generation of the job definition; each edit increments it.
    pub generation: u64,
    /// Scheduled time of the first occurrence.
    pub from: Instant,
    /// Scheduled time of the last occurrence; equal to `from` for a single one.
    pub to: Instant,
    /// Number of occurrences.
    pub count: u64,
    /// Trigger of the run.
    pub cause: Cause,
    /// Final disposition of all occurrences of the record.
    pub disposition: Disposition,
    /// Time at which the disposition was decided.
    pub closed: Instant,
}

/// The final disposition of an occurrence. Every occurrence gets exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// An attempt succeeded.
    Completed,
    /// All attempts failed.
    Failed,
    /// The previous run was still running or retrying.
    SkippedOverlap,
    /// The job or its collection was disabled.
    SkippedDisabled,
    /// A quota or plan limit prevented the run.
    SkippedQuota,
    /// The service was not running at the scheduled time, and the policy does not run it late.
    Missed,
    /// An edit of the job replaced the definition before the run finished.
    Superseded,
    /// All jobs were paused.
    SkippedPaused,
    /// A user requested to skip it.
    SkippedByRequest,
}
