//! New history entries and ledger rows of all jobs, for the event stream.

use std::time::Duration;

use kalends_domain::JobPath;

use crate::api_store::JobFilterState;
use crate::record::{HistoryRecord, LedgerRecord};

/// A number that is missing this long after a larger one was visible stays missing: no commit takes
/// longer. Longer than the time limit of every call that assigns numbers.
pub const NUMBERS_COMPLETE_AFTER: Duration = Duration::from_secs(15);

/// History entries and ledger rows after a position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// History entries, each with the path of its job, by sequence number.
    pub history: Vec<(JobPath, HistoryRecord)>,
    /// Ledger rows, each with the path of its job, by number.
    pub ledger: Vec<(JobPath, LedgerEvent)>,
    /// The position of the newest entry and row in the store.
    pub newest: EventPosition,
}

/// The position of a reader of the event stream. Zero is before the first entry or row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventPosition {
    /// The sequence number of a history entry.
    pub history: u64,
    /// The number of a ledger row.
    pub ledger: u64,
}

/// A ledger row with its number and the state of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEvent {
    /// Increases with every ledger row of the store.
    pub number: u64,
    /// The row: how occurrences of the job were closed.
    pub record: LedgerRecord,
    /// The state of the job at the time of reading. The row that finishes a job is never seen before
    /// the job is finished.
    pub job_state: JobFilterState,
}
