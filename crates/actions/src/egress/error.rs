//! Errors of outbound connections.

use std::io;
use std::sync::Arc;

use kalends_domain::EgressDenial;

use crate::certificate::PfxError;

/// Why there is no connection. The text goes into history: a status word of the retired service,
/// then the cause.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The host name has no address, or name resolution failed.
    #[error("NameResolutionFailure The remote name could not be resolved: '{0}'")]
    Unresolved(String),
    /// The host name has more addresses than the limit.
    #[error("EgressDenied the name has too many addresses")]
    TooManyAddresses,
    /// The egress policy denies the destination.
    #[error("EgressDenied {0}")]
    Denied(EgressDenial),
    /// No address accepts connections.
    #[error("ConnectFailure Unable to connect to the remote server")]
    Refused,
    /// The proxy did not open the connection.
    #[error("ConnectFailure The proxy did not open the connection: {0}")]
    Proxy(#[from] ProxyError),
    /// The server name cannot occur in a certificate.
    #[error(
        "TrustFailure Could not establish trust relationship for the SSL/TLS secure channel: no certificate can have this server name"
    )]
    InvalidServerName,
    /// The server's certificate is not valid for the name or not trusted.
    #[error(
        "TrustFailure Could not establish trust relationship for the SSL/TLS secure channel: {0}"
    )]
    Untrusted(#[source] Arc<io::Error>),
    /// The server did not complete the TLS handshake in time.
    #[error(
        "SecureChannelFailure Could not create SSL/TLS secure channel: the server did not respond"
    )]
    HandshakeTimeout,
    /// The TLS handshake failed.
    #[error("SecureChannelFailure Could not create SSL/TLS secure channel: {0}")]
    Handshake(#[source] Arc<io::Error>),
}

/// Why the proxy did not open a connection.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum ProxyError {
    /// The proxy does not accept connections.
    #[error("it cannot be reached")]
    Unreachable,
    /// The proxy closed the connection before it responded.
    #[error("it closed the connection")]
    Closed,
    /// The response's head exceeds the limit.
    #[error("its response is too long")]
    ResponseTooLong,
    /// The proxy responded with a status other than 2xx.
    #[error("it returned the status {0}")]
    Status(u16),
    /// The response is not HTTP.
    #[error("its response is not HTTP")]
    NotHttp,
}

/// Why a client certificate cannot be used. No text contains any of the file or its password.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    /// The PFX file cannot be read.
    #[error(transparent)]
    Pfx(#[from] PfxError),
    /// The TLS library does not accept the certificate or its key.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// The task that reads the file panicked or was cancelled.
    #[error(transparent)]
    Task(#[from] Arc<tokio::task::JoinError>),
}
