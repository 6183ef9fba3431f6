//! Why there is no connection, in the words of history.

use std::fmt;

use kalends_domain::EgressDenial;

/// Why there is no connection. Printed as history has it: a word of the retired service, then what
/// happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoConnection {
    /// The name has no address.
    Unresolved(String),
    /// It has more addresses than any honest name.
    TooManyAddresses,
    /// It may not be reached.
    Denied(EgressDenial),
    /// Nobody answers there.
    Refused,
    /// The proxy does not make the connection.
    Proxy(String),
    /// Who answers is not who was asked for.
    Untrusted(String),
    /// There is no encrypted connection.
    Insecure(String),
}

impl fmt::Display for NoConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoConnection::Unresolved(name) => {
                write!(f, "NameResolutionFailure The remote name could not be resolved: '{name}'")
            }
            NoConnection::TooManyAddresses => {
                f.write_str("EgressDenied the name has too many addresses")
            }
            NoConnection::Denied(denial) => write!(f, "EgressDenied {denial}"),
            NoConnection::Refused => {
                f.write_str("ConnectFailure Unable to connect to the remote server")
            }
            NoConnection::Proxy(why) => {
                write!(f, "ConnectFailure The proxy did not make the connection: {why}")
            }
            NoConnection::Untrusted(why) => write!(
                f,
                "TrustFailure Could not establish trust relationship for the SSL/TLS secure channel: {why}"
            ),
            NoConnection::Insecure(why) => {
                write!(f, "SecureChannelFailure Could not create SSL/TLS secure channel: {why}")
            }
        }
    }
}
