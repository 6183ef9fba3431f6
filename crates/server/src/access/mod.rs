//! Who asks, and whether he may.
//!
//! | part | what it is |
//! |---|---|
//! | [`Gate`] | what every request passes: authentication, limits, the audit log |
//! | `authentication` | from a bearer token to a `Caller` |
//! | `known` | static tokens, as the store keeps them |
//! | `oidc` | tokens of an identity provider |
//! | `permit` | the one table of what each route needs, and the one check against it |
//! | `rates` | how often somebody may ask |
//!
//! Without authentication, on the loopback, everybody is the single user and may do everything.

mod authentication;
mod caller;
mod gate;
mod known;
mod oidc;
pub(crate) mod permit;
mod rates;

pub use authentication::Authentication;
pub(crate) use caller::Caller;
pub use gate::Gate;
pub(crate) use gate::{Client, Passed};
pub use oidc::{ClaimGrant, ClaimGrantError, Oidc, OidcSettings};
pub use rates::RateSettings;
