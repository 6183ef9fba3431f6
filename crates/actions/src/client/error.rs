//! Errors of the HTTP client.

use std::io;
use std::sync::Arc;

use crate::egress::ConnectError;
use crate::send_fence::NotSent;

/// Why there is no response. The text goes into history: a status word of the retired service, then
/// the cause.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// No connection; nothing was sent.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The target closed a keep-alive connection while it was reused. It may or may not have seen
    /// the request.
    #[error(
        "KeepAliveFailure The target closed a keep-alive connection; it may or may not have received the request"
    )]
    KeepAliveClosed,
    /// The target closed the connection before the response was complete.
    #[error("ReceiveFailure The connection was closed unexpectedly: {0}")]
    Closed(&'static str),
    /// The connection broke.
    #[error("ReceiveFailure The connection was closed unexpectedly: {0}")]
    Io(#[source] Arc<io::Error>),
    /// The HTTP/2 handshake failed.
    #[error("ReceiveFailure The connection was closed unexpectedly: {0}")]
    Http2Handshake(#[source] Arc<hyper::Error>),
    /// The HTTP/2 connection or stream broke.
    #[error("ReceiveFailure The connection was closed unexpectedly: {}", with_cause(.0))]
    Http2(#[source] Arc<hyper::Error>),
    /// The response is malformed or exceeds a limit.
    #[error("ServerProtocolViolation {0}")]
    Protocol(&'static str),
    /// The sender lost its lease; nothing was sent.
    #[error(transparent)]
    Fenced(NotSent),
    /// The URL or a header cannot be sent over HTTP.
    #[error("the URI or a header cannot be sent")]
    InvalidRequest,
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> ClientError {
        ClientError::Io(Arc::new(error))
    }
}

impl From<hyper::Error> for ClientError {
    fn from(error: hyper::Error) -> ClientError {
        ClientError::Http2(Arc::new(error))
    }
}

/// hyper leaves the cause out of its message.
fn with_cause(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
