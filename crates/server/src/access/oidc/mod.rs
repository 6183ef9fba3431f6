//! OpenID Connect: access tokens (JWTs) of an identity provider such as Azure AD, and sign-in there.
//!
//! | module | contents |
//! |---|---|
//! | `jwt` | parses a token |
//! | `public_key` | public keys and signature verification |
//! | `discovery` | the discovery document of the provider |
//! | `jwks` | the key set of the provider, fetched and cached |
//! | `code_flow` | sign-in to the web console at the provider |
//! | `pending_sign_in` | a sign-in that has begun, in a cookie |
//! | `claim_grant` | maps claims to grants |
//!
//! RS256 and ES256 are supported, each with its own key type only. Header members that point to a
//! key (`jku`, `jwk`, `x5u`) are ignored.

mod claim_grant;
mod code_flow;
mod discovery;
mod jwks;
mod jwt;
mod pending_sign_in;
mod public_key;

use std::sync::Arc;
use std::time::Duration;

use kalends_actions::{FetchError, Fetcher};
use kalends_domain::Grant;
use kalends_recurrence::Instant;
use kalends_wire::{ErrorCode, ErrorDetails, Json};

pub use claim_grant::{ClaimGrant, ClaimGrantError};
pub(crate) use code_flow::SignInFailure;
pub use code_flow::{CALLBACK_PATH, CodeFlowSettings};
pub(crate) use pending_sign_in::{PendingSignIn, SIGN_IN_TIME, SignInSecret};

use crate::access::Caller;
use crate::capacity::{RequestSlot, WaitsFor};
use crate::response::ApiError;
use code_flow::CodeFlow;
use discovery::Discovery;
use jwks::{Jwks, KeysUnavailable};
use jwt::{Claims, Jwt};

/// Tolerated difference between the clocks of server and provider.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(120);
/// Characters of a subject; those of providers have about fifty.
const SUBJECT_CHARS_MAX: usize = 256;

/// Settings of an identity provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OidcSettings {
    /// Issuer URL, spelled exactly as the claim `iss`. It has no fragment.
    pub issuer: String,
    /// Accepted audiences: `aud` must contain one of them.
    pub audiences: Vec<String>,
    /// URL of the key set. `None`: from OIDC discovery.
    pub jwks_url: Option<String>,
    /// Required value of the claim `tid`, if any.
    pub tenant: Option<String>,
    /// Grants by claim. A token without a matching claim is valid and has no permission.
    pub grants: Vec<ClaimGrant>,
    /// Sign-in to the web console at the provider; `None`: with tokens only.
    pub code_flow: Option<CodeFlowSettings>,
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
    /// The provider refused a request.
    #[error("{url}: HTTP status {status}: {error}")]
    Refused {
        /// URL of the endpoint.
        url: String,
        /// HTTP status.
        status: u16,
        /// Error code of the provider, such as `invalid_grant`.
        error: String,
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
    code_flow: Option<CodeFlow>,
}

impl OidcProvider {
    /// Fetches nothing yet; keys are fetched with the first token.
    pub fn new(settings: OidcSettings, fetcher: Fetcher) -> OidcProvider {
        let discovery = Discovery { fetcher, issuer: settings.issuer.clone() };
        let code_flow = settings.code_flow.clone();
        let code_flow = code_flow.map(|settings| CodeFlow::new(settings, discovery.clone()));
        let jwks = Arc::new(Jwks::new(discovery, settings.jwks_url.clone()));
        OidcProvider { settings, jwks, code_flow }
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
        let claims = self.verify(text, now, slot).await?;
        let mut audiences = self.settings.audiences.iter();
        let is_for_server = audiences.any(|audience| claims.has("aud", audience));
        let (caller, expires) = self.caller(&claims, is_for_server, now)?;
        Ok(Caller { expires: Some(expires), ..caller })
    }

    /// Whether users can sign in at the provider.
    pub(crate) fn has_sign_in(&self) -> bool {
        self.code_flow.is_some()
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.settings.issuer
    }

    /// The URL of the callback, if one is configured.
    pub(crate) fn redirect_url(&self) -> Option<&str> {
        self.code_flow.as_ref()?.settings.redirect_url.as_deref()
    }

    /// The URL at the provider where a user signs in.
    pub(crate) async fn authorization_url(
        &self,
        secret: &SignInSecret,
        redirect_url: &str,
        now: Instant,
        slot: &RequestSlot,
    ) -> Result<String, SignInFailure> {
        let flow = self.code_flow.as_ref().ok_or(SignInFailure::Unavailable)?;
        let url = flow.authorization_url(secret, redirect_url, now);
        slot.wait(WaitsFor::Keys, url).await.map_err(|_| SignInFailure::Unavailable)?
    }

    /// The user who signed in at the provider, which returned this code.
    pub(crate) async fn sign_in(
        &self,
        code: &str,
        secret: &SignInSecret,
        redirect_url: &str,
        now: Instant,
        slot: &RequestSlot,
    ) -> Result<Caller, SignInFailure> {
        let flow = self.code_flow.as_ref().ok_or(SignInFailure::Unavailable)?;
        let token = flow.id_token(code, secret, redirect_url, now);
        let token = slot.wait(WaitsFor::Keys, token).await;
        let token = token.map_err(|_| SignInFailure::Unavailable)??;
        let claims = self.verify(&token, now, slot).await;
        let caller = claims.and_then(|claims| Ok(self.user(flow, &claims, secret, now)?));
        let caller = caller.map_err(|error| {
            tracing::warn!(%error, "the ID token of the identity provider is not accepted");
            match error.code() {
                ErrorCode::ServerBusy => SignInFailure::Unavailable,
                _ => SignInFailure::Rejected,
            }
        })?;
        match caller.grants().is_empty() {
            true => Err(SignInFailure::NoRole),
            false => Ok(caller),
        }
    }

    /// The user that the claims of an ID token identify. The ID token proves the sign-in and may
    /// last for minutes only; the lifetime of sessions is a setting of its own.
    fn user(
        &self,
        flow: &CodeFlow,
        claims: &Claims,
        secret: &SignInSecret,
        now: Instant,
    ) -> Result<Caller, ErrorDetails> {
        let CodeFlowSettings { client_id, session_lifetime, .. } = &flow.settings;
        if claims.text("nonce") != Some(&secret.nonce()) {
            return Err(invalid("is of another sign-in: it has another nonce"));
        }
        let has_others = matches!(claims.get("aud"), Some(Json::Array(all)) if all.len() > 1);
        let is_issued_to_client = match claims.get("azp") {
            Some(_) => claims.text("azp") == Some(client_id),
            None => !has_others,
        };
        let is_for_client = is_issued_to_client && claims.has("aud", client_id);
        let (caller, _) = self.caller(claims, is_for_client, now)?;
        Ok(Caller { expires: Some(now.saturating_add(*session_lifetime)), ..caller })
    }

    /// The claims of a token that the provider has signed.
    async fn verify(
        &self,
        text: &str,
        now: Instant,
        slot: &RequestSlot,
    ) -> Result<Claims, ApiError> {
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
        Ok(jwt.claims().map_err(invalid)?)
    }

    /// Whether the settings grant a role to anybody.
    pub(super) fn grants(&self, grant: &Grant) -> bool {
        self.settings.grants.iter().any(|claim_grant| claim_grant.grant == *grant)
    }

    /// The caller that claims identify, and when they expire.
    fn caller(
        &self,
        claims: &Claims,
        has_audience: bool,
        now: Instant,
    ) -> Result<(Caller, Instant), ErrorDetails> {
        let rejected =
            |code, message: &str| ErrorDetails::one(code, "", format!("The token {message}"));
        let settings = &self.settings;
        if claims.text("iss") != Some(&settings.issuer) {
            return Err(invalid("has another issuer"));
        }
        if !has_audience {
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
        let names = ["preferred_username", "upn", "email", "name", "azp", "appid"];
        let name = names.into_iter().find_map(|name| claims.text(name));
        let grants = settings.grants.iter().filter(|grant| grant.matches(claims));
        let grants = grants.map(|grant| grant.grant.clone()).collect();
        Ok((Caller::of_subject(&settings.issuer, subject, name, grants), expires))
    }
}

fn invalid(message: impl AsRef<str>) -> ErrorDetails {
    let message = format!("The token {}", message.as_ref());
    ErrorDetails::one(ErrorCode::InvalidAuthenticationToken, "", message)
}
