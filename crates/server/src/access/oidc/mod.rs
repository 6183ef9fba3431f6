//! OpenID Connect: access tokens (JWTs) of an identity provider such as Azure AD.
//!
//! | module | contents |
//! |---|---|
//! | `jwt` | parses a token |
//! | `public_key` | public keys and signature verification |
//! | `jwks` | the key set of the provider, fetched and cached |
//! | `claim_grant` | maps claims to grants |
//!
//! RS256 and ES256 are supported, each with its own key type only. Header members that point to a
//! key (`jku`, `jwk`, `x5u`) are ignored.

mod claim_grant;
mod jwks;
mod jwt;
mod public_key;

use std::sync::Arc;
use std::time::Duration;

use kalends_actions::{FetchError, Fetcher};
use kalends_domain::Grant;
use kalends_recurrence::Instant;
use kalends_wire::{ErrorCode, ErrorDetails};

pub use claim_grant::{ClaimGrant, ClaimGrantError};

use crate::access::Caller;
use crate::capacity::RequestSlot;
use crate::response::ApiError;
use jwks::{Jwks, KeysUnavailable};
use jwt::{Claims, Jwt};

/// Tolerated difference between the clocks of server and provider.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(120);
/// Characters of a subject; those of providers have about fifty.
const SUBJECT_CHARS_MAX: usize = 256;

/// Settings of an identity provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OidcSettings {
    /// Issuer URL, spelled exactly as the claim `iss`.
    pub issuer: String,
    /// Accepted audiences: `aud` must contain one of them.
    pub audiences: Vec<String>,
    /// URL of the key set. `None`: from OIDC discovery.
    pub jwks_url: Option<String>,
    /// Required value of the claim `tid`, if any.
    pub tenant: Option<String>,
    /// Grants by claim. A token without a matching claim is valid and has no permission.
    pub grants: Vec<ClaimGrant>,
}

/// The keys of an identity provider cannot be fetched or used.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// A document was not fetched.
    #[error("{url}: {source}")]
    Fetch {
        /// URL of the document.
        url: String,
        /// Cause of the failure.
        source: FetchError,
    },
    /// A document is not what was expected.
    #[error("{url}: {message}")]
    Document {
        /// URL of the document.
        url: String,
        /// Description of the problem.
        message: String,
    },
}

impl OidcError {
    fn document(url: &str, message: impl ToString) -> OidcError {
        OidcError::Document { url: url.to_owned(), message: message.to_string() }
    }
}

/// An identity provider.
pub struct OidcProvider {
    settings: OidcSettings,
    jwks: Arc<Jwks>,
}

impl OidcProvider {
    /// Fetches nothing yet; keys are fetched with the first token.
    pub fn new(settings: OidcSettings, fetcher: Fetcher) -> OidcProvider {
        let jwks = Jwks::new(fetcher, settings.issuer.clone(), settings.jwks_url.clone());
        OidcProvider { settings, jwks: Arc::new(jwks) }
    }

    /// Fetches the keys now, so that a wrong setting shows at startup and not with the first token.
    pub async fn fetch_keys(&self, now: Instant) -> Result<(), OidcError> {
        self.jwks.refresh(now).await
    }

    /// The caller that a token identifies.
    pub(super) async fn authenticate(
        &self,
        text: &str,
        now: Instant,
        slot: &RequestSlot,
    ) -> Result<Caller, ApiError> {
        let jwt = Jwt::read(text).map_err(invalid)?;
        let key = match self.jwks.find(&jwt.key_id, now, slot).await {
            Ok(key) => key.ok_or_else(|| invalid("names a key that its issuer does not have"))?,
            Err(KeysUnavailable) => {
                let message = "The keys of the token's issuer cannot be fetched; retry later";
                return Err(ErrorDetails::one(ErrorCode::ServerBusy, "", message).into());
            }
        };
        if !key.verifies(jwt.algorithm, jwt.signed, &jwt.signature) {
            return Err(invalid("is not signed by its issuer").into());
        }
        // The claims are trusted only after the signature is verified.
        let claims = jwt.claims().map_err(invalid)?;
        Ok(self.caller(&claims, now)?)
    }

    /// Whether the settings grant a role to anybody.
    pub(super) fn grants(&self, grant: &Grant) -> bool {
        self.settings.grants.iter().any(|claim_grant| claim_grant.grant == *grant)
    }

    fn caller(&self, claims: &Claims, now: Instant) -> Result<Caller, ErrorDetails> {
        let rejected =
            |code, message: &str| ErrorDetails::one(code, "", format!("The token {message}"));
        let settings = &self.settings;
        if claims.text("iss") != Some(&settings.issuer) {
            return Err(invalid("has another issuer"));
        }
        let mut audiences = settings.audiences.iter();
        if !audiences.any(|audience| claims.has("aud", audience)) {
            let message = "is for another audience";
            return Err(rejected(ErrorCode::InvalidAuthenticationTokenAudience, message));
        }
        if settings.tenant.as_ref().is_some_and(|tenant| claims.text("tid") != Some(tenant)) {
            let message = "is of another tenant";
            return Err(rejected(ErrorCode::InvalidAuthenticationTokenTenant, message));
        }
        let expires = claims.time("exp")?.ok_or_else(|| invalid("lacks the claim exp"))?;
        if now >= expires.saturating_add(CLOCK_SKEW_MAX) {
            return Err(rejected(ErrorCode::ExpiredAuthenticationToken, "has expired"));
        }
        if claims.time("nbf")?.is_some_and(|from| now.saturating_add(CLOCK_SKEW_MAX) < from) {
            return Err(invalid("is not valid yet"));
        }
        let subject = claims.text("sub").filter(|subject| !subject.is_empty());
        let subject = subject.filter(|subject| {
            let is_printable = !subject.chars().any(char::is_control);
            is_printable && subject.chars().count() <= SUBJECT_CHARS_MAX
        });
        let subject = subject.ok_or_else(|| invalid("lacks a valid claim sub"))?;
        let names = ["preferred_username", "upn", "email", "azp", "appid"];
        let name = names.into_iter().find_map(|name| claims.text(name));
        let grants = settings.grants.iter().filter(|grant| grant.matches(claims));
        let grants = grants.map(|grant| grant.grant.clone()).collect();
        Ok(Caller::of_subject(subject, name, Some(expires), grants))
    }
}

fn invalid(message: impl AsRef<str>) -> ErrorDetails {
    let message = format!("The token {}", message.as_ref());
    ErrorDetails::one(ErrorCode::InvalidAuthenticationToken, "", message)
}
