//! The error of every store call.

use std::fmt;

use crate::record::JobKey;
use crate::rejection::Rejection;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The collection does not exist.
    #[error("there is no such collection")]
    NoCollection,
    /// The subscription has [`GROUPS_PER_SUBSCRIPTION_MAX`] resource groups. Nothing changed.
    ///
    /// [`GROUPS_PER_SUBSCRIPTION_MAX`]: crate::GROUPS_PER_SUBSCRIPTION_MAX
    #[error(
        "the subscription has {} resource groups, as many as are allowed",
        crate::GROUPS_PER_SUBSCRIPTION_MAX
    )]
    TooManyGroups,
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
    /// The encryption key is missing, invalid, or not the one that the store was written with.
    #[error("{0}")]
    Key(String),
    /// The store is damaged.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// Single jobs cannot be read. Other jobs are not affected, and a call without these succeeds.
    #[error("{}", first(.0))]
    Unreadable(Vec<UnreadableJob>),
    /// The store was written by a newer version of this program.
    #[error("the store has schema version {found}; this program supports up to {known}")]
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

/// A job whose row cannot be read: it is damaged, its secrets were encrypted with a key that is not
/// configured, or a newer version of this program wrote it. It can be replaced and deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableJob {
    /// The job.
    pub key: JobKey,
    /// Its path, if that can be read.
    pub path: Option<String>,
    /// The cause.
    pub reason: String,
}

impl fmt::Display for UnreadableJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "job {path} cannot be read: {}", self.reason),
            None => write!(f, "job number {} cannot be read: {}", self.key.0, self.reason),
        }
    }
}

impl StoreError {
    /// The error of a store whose key is being rotated, for the holder of one key.
    pub(crate) fn unfinished_rotation() -> StoreError {
        let message = "the rotation of the key of this store is unfinished; finish it with kalends store \
                       rekey";
        StoreError::Key(message.into())
    }
}

fn first(jobs: &[UnreadableJob]) -> String {
    jobs.first().map_or_else(|| "a job cannot be read".to_owned(), UnreadableJob::to_string)
}
