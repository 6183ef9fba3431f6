//! Authentication, rate limits and authorization.
//!
//! | module | contents |
//! |---|---|
//! | `access_control` | [`AccessControl`]: authenticates a request and counts it against rate limits |
//! | `authentication` | from a bearer token or a session to a `Caller` |
//! | `sessions`, `session_cookie` | sessions of the web console |
//! | `token_cache`, `record_cache` | caches of tokens and sessions of the store |
//! | `oidc` | tokens of an identity provider |
//! | `authorization` | the permission that each route requires, and the check against it |
//! | `rate_limit` | token buckets |
//!
//! Without authentication, which is allowed on loopback addresses only, every request comes from the
//! single user, who is owner of everything.

mod access_control;
mod authentication;
pub(crate) mod authorization;
mod caller;
mod oidc;
mod rate_limit;
mod record_cache;
mod session_cookie;
mod sessions;
mod token_cache;

pub use access_control::AccessControl;
pub use authentication::{Authentication, AuthenticationSettings};
pub(crate) use caller::{Caller, Credential};
pub use oidc::{
    CALLBACK_PATH, ClaimGrant, ClaimGrantError, CodeFlowSettings, OidcError, OidcProvider,
    OidcSettings,
};
pub(crate) use oidc::{PendingSignIn, SIGN_IN_TIME, SignInFailure};
pub use rate_limit::RateSettings;
pub(crate) use session_cookie::{SESSION_COOKIE, cookie, set_cookie};
pub(crate) use sessions::StartedSession;
