//! What came into history and the ledger, for who follows it.

use kalends_domain::JobPath;

use crate::record::{HistoryRecord, LedgerRecord};
use crate::store::JobFilterState;

/// What came into history and the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Entries of history, each with the job it is of.
    pub entries: Vec<(JobPath, HistoryRecord)>,
    /// Rows of the ledger, likewise.
    pub closings: Vec<(JobPath, ClosingRecord)>,
    /// The newest of both that are kept.
    pub newest: EventPosition,
}

/// How far somebody has read: the number of an entry of history and that of a row of the ledger. 0
/// is before all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventPosition {
    /// The entry.
    pub entry: u64,
    /// The row.
    pub closing: u64,
}

/// A row of the ledger and its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosingRecord {
    /// Grows with every row of the store.
    pub number: u64,
    /// What is kept.
    pub row: LedgerRecord,
    /// The state of its job when this is read: the row that ends a job is seen with its end.
    pub job: JobFilterState,
}
