//! Sign-in at the identity provider: the authorization code flow with PKCE (RFC 7636).
//!
//! [`SignInSecret`] binds the steps of a sign-in to the browser that began it.

use std::time::Duration;

use kalends_actions::ClientSecret;
use kalends_domain::Secret;
use kalends_recurrence::Instant;
use kalends_wire::Json;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::access::oidc::OidcError;
use crate::access::oidc::discovery::{Discovery, Endpoints, SignInEndpoints};
use crate::access::oidc::jwks::is_recent;
use crate::access::oidc::pending_sign_in::SignInSecret;
use crate::access::oidc::public_key::text;

/// Age after which the endpoints are fetched again.
const ENDPOINTS_TTL: Duration = Duration::from_secs(3_600);
/// Minimum interval between two fetches.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// Bytes of a token response: an ID token of at most 8 KiB, an access token and a refresh token.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// Characters of an error code of the provider in the log; the standard ones have about twenty.
const ERROR_CHARS_MAX: usize = 64;

/// Path to which the provider leads the browser back.
pub const CALLBACK_PATH: &str = "/sign-in/callback";

/// Settings of sign-in at an identity provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeFlowSettings {
    /// Client id of the server at the provider.
    pub client_id: String,
    /// Client secret; `None` for a public client.
    pub client_secret: Option<Secret>,
    /// Requested scopes; must contain `openid`.
    pub scopes: Vec<String>,
    /// URL of the callback. `None`: [`CALLBACK_PATH`] of the URL by which the client reaches the
    /// server.
    pub redirect_url: Option<String>,
    /// Longest time that a session lasts. The provider is not asked again before: a user who was
    /// removed there keeps a session for this time at most.
    pub session_lifetime: Duration,
}

/// Why a sign-in at the provider failed, in the words of the sign-in page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignInFailure {
    /// The user or the provider declined.
    Denied,
    /// The response of the provider does not belong to a sign-in of this browser, or is too late.
    Expired,
    /// The provider cannot be reached, or reports a failure of its own.
    Unavailable,
    /// The provider does not accept the requests of this server: a setting is wrong.
    Misconfigured,
    /// The code or the ID token is not valid.
    Rejected,
    /// The claims of the user grant no role.
    NoRole,
    /// Too many sign-ins from one address.
    TooMany,
}

impl SignInFailure {
    /// The parameter `failure` of the sign-in page.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            SignInFailure::Denied => "denied",
            SignInFailure::Expired => "expired",
            SignInFailure::Unavailable => "unavailable",
            SignInFailure::Misconfigured => "misconfigured",
            SignInFailure::Rejected => "rejected",
            SignInFailure::NoRole => "no-role",
            SignInFailure::TooMany => "too-many",
        }
    }

    /// The failure that the parameter `error` of a callback means (RFC 6749, section 4.1.2.1, and
    /// OpenID Connect Core, section 3.1.2.6).
    pub(crate) fn of_callback(error: &str) -> SignInFailure {
        match error {
            "access_denied"
            | "login_required"
            | "consent_required"
            | "interaction_required"
            | "account_selection_required" => SignInFailure::Denied,
            "server_error" | "temporarily_unavailable" => SignInFailure::Unavailable,
            _ => SignInFailure::Misconfigured,
        }
    }

    /// The failure that an error of the token endpoint means.
    fn of_token_endpoint(error: &OidcError) -> SignInFailure {
        match error {
            OidcError::Refused { status: 429, .. } | OidcError::Fetch { .. } => {
                SignInFailure::Unavailable
            }
            // The code is used, too old, or of another sign-in.
            OidcError::Refused { error, .. } if error == "invalid_grant" => SignInFailure::Rejected,
            OidcError::Refused { .. } | OidcError::Document { .. } => SignInFailure::Misconfigured,
        }
    }
}

/// The client side of the code flow.
pub(super) struct CodeFlow {
    pub(super) settings: CodeFlowSettings,
    discovery: Discovery,
    endpoints: tokio::sync::Mutex<CachedEndpoints>,
}

#[derive(Default)]
struct CachedEndpoints {
    found: Option<Endpoints>,
    fetched_at: Option<Instant>,
    /// Time of the last fetch, successful or not.
    last_fetch: Option<Instant>,
}

impl CodeFlow {
    pub(super) fn new(settings: CodeFlowSettings, discovery: Discovery) -> CodeFlow {
        CodeFlow { settings, discovery, endpoints: tokio::sync::Mutex::default() }
    }

    /// The URL at the provider where a user signs in.
    pub(super) async fn authorization_url(
        &self,
        secret: &SignInSecret,
        redirect_url: &str,
        now: Instant,
    ) -> Result<String, SignInFailure> {
        let endpoint = self.endpoints(now).await?.authorization;
        let parameters = [
            ("response_type", "code"),
            ("client_id", &self.settings.client_id),
            ("redirect_uri", redirect_url),
            ("scope", &self.settings.scopes.join(" ")),
            ("state", &secret.state()),
            ("nonce", &secret.nonce()),
            ("code_challenge", &secret.challenge()),
            ("code_challenge_method", "S256"),
        ];
        let separator = if endpoint.contains('?') { '&' } else { '?' };
        Ok(format!("{endpoint}{separator}{}", form(&parameters)))
    }

    /// Exchanges a code for an ID token.
    pub(super) async fn id_token(
        &self,
        code: &str,
        secret: &SignInSecret,
        redirect_url: &str,
        now: Instant,
    ) -> Result<String, SignInFailure> {
        let endpoint = self.endpoints(now).await?.token;
        let token = self.exchange(&endpoint, code, secret, redirect_url).await;
        token.map_err(|error| {
            let failure = SignInFailure::of_token_endpoint(&error);
            let error = error.to_string().escape_debug().to_string();
            tracing::warn!(error, "the identity provider returned no ID token");
            failure
        })
    }

    async fn exchange(
        &self,
        endpoint: &str,
        code: &str,
        secret: &SignInSecret,
        redirect_url: &str,
    ) -> Result<String, OidcError> {
        let CodeFlowSettings { client_id, client_secret, .. } = &self.settings;
        let body = form(&[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_url),
            ("client_id", client_id),
            ("code_verifier", &secret.verifier()),
        ]);
        let client = client_secret.as_ref().map(|secret| ClientSecret { id: client_id, secret });
        let posted =
            self.discovery.fetcher.post_form(endpoint, body, client, RESPONSE_BYTES_MAX).await;
        let response =
            posted.map_err(|source| OidcError::Fetch { url: endpoint.to_owned(), source })?;
        let document = Json::parse(&response.body);
        if response.status != 200 {
            let error = document.as_ref().ok().and_then(|document| text(document, "error"));
            let error = error.unwrap_or("no error code").chars().take(ERROR_CHARS_MAX).collect();
            let (url, status) = (endpoint.to_owned(), response.status);
            return Err(OidcError::Refused { url, status, error });
        }
        // The document contains tokens: its text must not get into the log.
        let document = document.map_err(|_| OidcError::document(endpoint, "it is not JSON"))?;
        let token = text(&document, "id_token");
        let token = token.ok_or_else(|| OidcError::document(endpoint, "it has no id_token"))?;
        Ok(token.to_owned())
    }

    /// The endpoints of the provider; those of before while new ones cannot be fetched.
    async fn endpoints(&self, now: Instant) -> Result<SignInEndpoints, SignInFailure> {
        // Held during a fetch: of many sign-ins that find a fetch due, one fetches, and the others
        // find that it was recent.
        let mut cached = self.endpoints.lock().await;
        let is_recent = |at: Option<Instant>, time| at.is_some_and(|at| is_recent(at, now, time));
        if !is_recent(cached.fetched_at, ENDPOINTS_TTL)
            && !is_recent(cached.last_fetch, RETRY_INTERVAL)
        {
            cached.last_fetch = Some(now);
            match self.discovery.endpoints().await {
                Ok(endpoints) => {
                    cached.found = Some(endpoints);
                    cached.fetched_at = Some(now);
                }
                Err(error) => {
                    let error = error.to_string().escape_debug().to_string();
                    tracing::warn!(error, "fetching the endpoints of the identity provider failed");
                }
            }
        }
        let found = cached.found.as_ref().ok_or(SignInFailure::Unavailable)?;
        found.for_sign_in().ok_or(SignInFailure::Misconfigured)
    }
}

/// Parameters as in a query or a form.
fn form(parameters: &[(&str, &str)]) -> String {
    let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs = parameters.iter().map(|(name, value)| format!("{name}={}", encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_percent_encoded() {
        assert_eq!(form(&[("a", "x y&z"), ("b", "ü/")]), "a=x%20y%26z&b=%C3%BC%2F");
    }

    #[test]
    fn errors_of_the_provider_are_told_apart_by_who_can_correct_them() {
        for (error, expected) in [
            ("access_denied", SignInFailure::Denied),
            ("login_required", SignInFailure::Denied),
            ("temporarily_unavailable", SignInFailure::Unavailable),
            ("invalid_scope", SignInFailure::Misconfigured),
            ("<script>", SignInFailure::Misconfigured),
        ] {
            assert_eq!(SignInFailure::of_callback(error), expected, "{error}");
        }
        let refused = |status, error: &str| {
            let (url, error) = ("https://login.test/token".to_owned(), error.to_owned());
            SignInFailure::of_token_endpoint(&OidcError::Refused { url, status, error })
        };
        assert_eq!(refused(400, "invalid_grant"), SignInFailure::Rejected);
        assert_eq!(refused(401, "invalid_client"), SignInFailure::Misconfigured);
        assert_eq!(refused(429, "no error code"), SignInFailure::Unavailable);
    }
}
