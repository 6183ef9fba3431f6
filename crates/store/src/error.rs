//! The error of every store call.

use crate::rejection::Rejection;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The collection does not exist.
    #[error("there is no such collection")]
    NoCollection,
    /// The caller's `decide` function rejected the edit. Nothing changed.
    #[error("{0}")]
    Rejected(Rejection),
    /// Too many calls are waiting, or they conflicted with others. Nothing changed.
    #[error("the store is busy: {0}")]
    Busy(String),
    /// The store is out of reach, read-only, or its disk failed. Nothing changed.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The connection broke during the commit: its outcome is unknown.
    #[error("the outcome of the commit is unknown: {0}")]
    Unknown(String),
    /// The disk or the size limit is full. Nothing changed.
    #[error("the disk of the store is full")]
    Full,
    /// The store is damaged, or was written with another key.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// The store was written by a newer version of this program.
    #[error("the store has format {found}; this program knows up to {known}")]
    TooNew {
        /// Format of the store.
        found: u32,
        /// Newest format that this program knows.
        known: u32,
    },
    /// An internal failure. Nothing changed.
    #[error("the store failed: {0}")]
    Failed(String),
}
