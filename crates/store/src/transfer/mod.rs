//! Copies a store into an empty one, of the same or of the other kind.
//!
//! Rows travel in a form that is independent of the driver: an array of JSON values with the columns of
//! [`Table::columns`], which are the same for both. Each driver reads and writes it in pages, so
//! memory is bounded. Data that a driver derives from these columns, such as indexes, counters and
//! links between rows, is not copied: the target computes its own.
//!
//! Secrets are copied as ciphertexts. Source and target therefore have the same master key.
//!
//! Rows of deleted jobs and collections that are not yet removed are not copied.

mod copy;
mod table;

pub use copy::{Copied, TransferError, TransferProgress, transfer};
pub use table::{Row, Table};
pub(crate) use table::{definition_of, normalize};

use crate::store::Reply;

/// Rows that are read and written at a time.
pub(crate) const PAGE_ROWS: i64 = 500;

/// The last numbers that a store has allocated. They are never used again: events and fencing tokens
/// refer to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named after the rows")]
pub struct AllocatedNumbers {
    pub collection: i64,
    pub job: i64,
    pub run: i64,
    pub history: i64,
    pub ledger: i64,
}

/// A store that is copied, or that a copy is written to. No other process uses it.
pub trait TransferStore: Send {
    /// The next rows of a table, by their first column. `after` is that of the last row read.
    fn read<'a>(&'a mut self, table: Table, after: Option<&'a Row>) -> Reply<'a, Vec<Row>>;

    /// Writes rows in the order in which they were read. Tables are written in the order of
    /// [`Table::ALL`].
    fn write<'a>(&'a mut self, table: Table, rows: Vec<Row>) -> Reply<'a, ()>;

    /// The last numbers allocated.
    fn numbers(&mut self) -> Reply<'_, AllocatedNumbers>;

    /// Completes a copy: derived data, and the last numbers allocated by the source.
    fn finish(&mut self, numbers: AllocatedNumbers) -> Reply<'_, ()>;
}
