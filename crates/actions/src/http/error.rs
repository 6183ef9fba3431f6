//! Errors of the HTTP action.

use super::redirect::RedirectError;
use crate::client::ClientError;
use crate::egress::IdentityError;
use crate::oauth::TokenError;

/// Why an attempt has no response. The text goes into history.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpActionError {
    /// The URL of the job or of a redirect cannot be parsed.
    #[error("the URI of the request is invalid")]
    InvalidUrl,
    /// The name or the value of this header cannot be sent.
    #[error("the header {0} cannot be sent")]
    InvalidHeader(String),
    /// Basic authentication lacks the user or the password.
    #[error("the job has no username or no password for its authentication")]
    MissingPassword,
    /// Certificate authentication lacks the PFX file.
    #[error("the job has no certificate for its authentication")]
    MissingCertificate,
    /// The client certificate cannot be used.
    #[error("the client certificate cannot be used: {0}")]
    Certificate(#[from] IdentityError),
    /// There is no access token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The target was not reached or sent no valid response.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The target redirects to a URL that is not followed.
    #[error("RedirectRefused {0}")]
    Redirect(#[from] RedirectError),
    /// The attempt exceeded its timeout.
    #[error("Timeout The operation has timed out")]
    Timeout,
}
