//! Why there is no answer, in the words of history.

use std::fmt;

use crate::egress::NoConnection;

/// Why there is no answer. Printed as history has it: a word of the retired service, then what
/// happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The target was not reached; it has seen nothing of the request.
    NoConnection(NoConnection),
    /// A connection that had been kept was closed just as it was used again. The target may or may
    /// not have seen the request.
    KeptConnectionClosed,
    /// The target closed the connection, or it broke.
    Receive(String),
    /// What the target sent is no answer, or more than an answer may be.
    Protocol(&'static str),
}

impl From<NoConnection> for Failure {
    fn from(why: NoConnection) -> Failure {
        Failure::NoConnection(why)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NoConnection(why) => why.fmt(f),
            Failure::KeptConnectionClosed => f.write_str(
                "KeepAliveFailure The target closed a connection that was kept alive; it may or may not have got the request",
            ),
            Failure::Receive(why) => {
                write!(f, "ReceiveFailure The connection was closed unexpectedly: {why}")
            }
            Failure::Protocol(why) => write!(f, "ServerProtocolViolation {why}"),
        }
    }
}
