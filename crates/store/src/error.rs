//! Why a store did not do as it was asked.

use crate::store::Refusal;

/// Why a store did not do as it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no collection of that name.
    #[error("there is no such collection")]
    NoCollection,
    /// Who decides the edit refused it.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// Too much is asked at once, or the store cannot be reached. Nothing was done.
    #[error("the store is busy or out of reach: {0}")]
    Busy(String),
    /// The connection broke in the middle of the commit: it was done, or it was not.
    #[error("the store did not say whether it was done: {0}")]
    Unknown(String),
    /// There is no room left. Nothing was done.
    #[error("the store is full")]
    Full,
    /// The store is damaged, or its key is not the one it was written with.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// The store was written by a newer version of this program.
    #[error("the store has format {found}; this program knows up to {known}")]
    TooNew {
        /// What it has.
        found: u32,
        /// What is known.
        known: u32,
    },
    /// It failed for a reason that no caller can do anything about. Nothing was done.
    #[error("the store failed: {0}")]
    Failed(String),
}
