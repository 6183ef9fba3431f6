//! Why a message was not sent, or may not have been.

use std::time::Duration;

/// What a sender of Service Bus messages came upon. The text is what the other side said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// The job's definition lacks something.
    #[error("the job has no {0} for its message")]
    Incomplete(&'static str),
    /// The job's definition cannot be sent.
    #[error("{0}")]
    Unsendable(String),
    /// There is no connection; nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// The key is not accepted or may not send.
    #[error("Unauthorized {0}")]
    Unauthorised(String),
    /// There is no such queue or topic.
    #[error("NotFound The queue or topic does not exist: {0}")]
    Missing(String),
    /// It is full, or too much was sent.
    #[error("QuotaExceeded {0}")]
    Quota(String),
    /// It asks to be left alone for a while.
    #[error("ServerBusy {why}")]
    Busy {
        /// What it said.
        why: String,
        /// For how long.
        retry_after: Option<Duration>,
    },
    /// It did not take the message, for a reason of its own.
    #[error("{0}")]
    Refused(String),
    /// Nobody knows whether it took the message.
    #[error("{0}; the message may or may not have been taken")]
    Indeterminate(String),
}

impl Failure {
    pub(super) fn no_address() -> Failure {
        Failure::Unsendable("the address is unusable".into())
    }

    pub(super) fn timed_out() -> Failure {
        Failure::Indeterminate("Timeout The operation has timed out".into())
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Failure::Busy { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
