//! Errors of the Service Bus actions.

use std::time::Duration;

use crate::client::ClientError;
use crate::egress::ConnectError;
use crate::send_fence::NotSent;

/// Why a message was not sent, or may not have been. Strings are messages of the broker. The text
/// goes into history, after redaction.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum ServiceBusError {
    /// The job's definition lacks this member.
    #[error("the job has no {0} for its message")]
    Incomplete(&'static str),
    /// Endpoint, namespace and entity do not form a URL.
    #[error("the URI of the request is invalid")]
    InvalidAddress,
    /// The value of this header cannot be sent.
    #[error("the header {0} cannot have this value")]
    InvalidHeader(String),
    /// The message's `timeToLive` is a time in the past.
    #[error("the timeToLive of the message ended at {0}")]
    Expired(kalends_recurrence::Instant),
    /// No connection; nothing was sent.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The AMQP connection failed before the message was sent.
    #[error("{0}")]
    Unreachable(String),
    /// The key is not accepted or lacks the permission to send.
    #[error("Unauthorized {0}")]
    Unauthorized(String),
    /// The queue or topic does not exist.
    #[error("NotFound The queue or topic does not exist: {0}")]
    NotFound(String),
    /// The entity is full, or the message is too large.
    #[error("QuotaExceeded {0}")]
    QuotaExceeded(String),
    /// The broker is throttling.
    #[error("ServerBusy {message}")]
    Busy {
        /// The broker's message.
        message: String,
        /// The delay that the broker requests.
        retry_after: Option<Duration>,
    },
    /// The broker rejected the message for another reason.
    #[error("{0}")]
    Rejected(String),
    /// The sender lost its lease; nothing was sent.
    #[error(transparent)]
    Fenced(#[from] NotSent),
    /// No response to a request that may have been sent.
    #[error("{0}; the message may or may not have been accepted")]
    NoResponse(#[source] ClientError),
    /// The broker may or may not have accepted the message.
    #[error("{0}; the message may or may not have been accepted")]
    Indeterminate(String),
    /// The attempt exceeded its timeout.
    #[error("Timeout The operation has timed out; the message may or may not have been accepted")]
    Timeout,
}

impl From<ClientError> for ServiceBusError {
    fn from(error: ClientError) -> ServiceBusError {
        match error {
            ClientError::Connect(error) => ServiceBusError::Connect(error),
            ClientError::Fenced(error) => ServiceBusError::Fenced(error),
            error => ServiceBusError::NoResponse(error),
        }
    }
}

impl ServiceBusError {
    /// The delay that the broker requests before the next retry.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            ServiceBusError::Busy { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
