//! Authentication, rate limits and authorization.
//!
//! | module | contents |
//! |---|---|
//! | `access_control` | [`AccessControl`]: authenticates a request and counts it against rate limits |
//! | `authentication` | from a bearer token to a `Caller` |
//! | `token_cache` | cache of the static tokens of the store |
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
mod token_cache;

pub use access_control::AccessControl;
pub use authentication::Authentication;
pub(crate) use caller::Caller;
pub use oidc::{ClaimGrant, ClaimGrantError, OidcError, OidcProvider, OidcSettings};
pub use rate_limit::RateSettings;
