//! Errors of the storage queue action.

use crate::client::ClientError;

/// Why a message was not put into a queue. The text goes into history.
#[derive(Debug, thiserror::Error)]
pub(super) enum StorageQueueError {
    /// The job lacks the account or the queue.
    #[error("the job has no storageAccount or no queueName")]
    MissingName,
    /// The job lacks the credential.
    #[error("the job has no sasToken")]
    MissingToken,
    /// The credential has neither supported form.
    #[error("the sasToken is neither a shared access signature nor an account key")]
    InvalidToken,
    /// Endpoint, account and queue do not form a URL.
    #[error("the URI of the request is invalid")]
    InvalidAddress,
    /// The envelope cannot contain the message.
    #[error("the message has characters that XML cannot represent; use messageFormat Raw")]
    NotXml,
    /// The current time cannot be formatted.
    #[error(transparent)]
    Date(#[from] jiff::Error),
    /// A header value cannot be sent.
    #[error(transparent)]
    InvalidHeader(#[from] hyper::header::InvalidHeaderValue),
    /// No valid response.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The attempt exceeded its timeout after the request may have been sent.
    #[error("Timeout The operation has timed out; the queue may or may not have the message")]
    Timeout,
}
