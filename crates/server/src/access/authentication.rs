//! Authentication by bearer token or session cookie.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, header};
use kalends_recurrence::Instant;
use kalends_store::{
    SessionHash, SessionIdentity, SessionRecord, TokenHash, TokenId, TokenRecord, parse_token,
};
use kalends_wire::{ErrorCode, ErrorDetails};

use crate::access::Caller;
use crate::access::oidc::OidcProvider;
use crate::access::session_cookie::{SESSION_COOKIE, cookie};
use crate::access::sessions::{Sessions, StartedSession, start_token_proof};
use crate::access::token_cache::TokenCache;
use crate::app::App;
use crate::capacity::RequestSlot;
use crate::response::ApiError;

/// Bytes of a token; those of identity providers have about two thousand.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// Settings of authentication.
#[derive(Clone)]
pub struct AuthenticationSettings {
    /// Hash of the token that the server was started with, whose holder is an owner.
    pub start_token: Option<TokenHash>,
    /// The identity provider whose tokens are accepted.
    pub oidc: Option<Arc<OidcProvider>>,
    /// Longest time that a session of the web console lasts.
    pub session_lifetime: Duration,
}

impl Default for AuthenticationSettings {
    fn default() -> AuthenticationSettings {
        let session_lifetime = Duration::from_secs(12 * 3_600);
        AuthenticationSettings { start_token: None, oidc: None, session_lifetime }
    }
}

/// Verification of tokens and sessions.
pub struct Authentication {
    start_token: Option<TokenHash>,
    tokens: TokenCache,
    oidc: Option<Arc<OidcProvider>>,
    sessions: Sessions,
}

/// The credential that a request presents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presented<'h> {
    /// The header `Authorization`, which takes precedence over the cookie.
    Header,
    /// The session cookie, with its value.
    Session(&'h str),
    Nothing,
}

impl Presented<'_> {
    pub(super) fn of(headers: &HeaderMap) -> Presented<'_> {
        if headers.contains_key(header::AUTHORIZATION) {
            return Presented::Header;
        }
        cookie(headers, SESSION_COOKIE).map_or(Presented::Nothing, Presented::Session)
    }
}

impl Authentication {
    /// Accepts the static tokens of the store, the start token, the tokens of an identity provider,
    /// and sessions of the web console.
    pub fn new(settings: AuthenticationSettings) -> Authentication {
        let AuthenticationSettings { start_token, oidc, session_lifetime } = settings;
        let sessions = Sessions::new(session_lifetime);
        Authentication { start_token, tokens: TokenCache::default(), oidc, sessions }
    }

    /// The caller whose token or session the request presents.
    pub(super) async fn authenticate(
        &self,
        app: &App,
        headers: &HeaderMap,
        slot: &RequestSlot,
    ) -> Result<Caller, ApiError> {
        if let Presented::Session(id) = Presented::of(headers) {
            return self.verify_session(app, id).await;
        }
        let text = bearer(headers)?;
        if self.start_token.is_some_and(|expected| expected == TokenHash::of(text)) {
            return Ok(Caller::start_token());
        }
        match (parse_token(text), &self.oidc) {
            (Some((id, hash)), _) => self.verify_static(app, &id, hash).await,
            (None, Some(oidc)) => oidc.authenticate(text, app.now(), slot).await,
            (None, None) => Err(invalid("The token has an unknown form").into()),
        }
    }

    async fn verify_static(
        &self,
        app: &App,
        id: &TokenId,
        hash: TokenHash,
    ) -> Result<Caller, ApiError> {
        let now = app.now();
        let found = self.tokens.find(&*app.store, id, now).await?;
        let unknown = || invalid("The token is unknown or revoked");
        let token = found.filter(|token| token.hash == hash).ok_or_else(unknown)?;
        if token.revoked.is_some() {
            return Err(unknown().into());
        }
        if !token.is_valid(now) {
            let message = "The token has expired";
            return Err(
                ErrorDetails::one(ErrorCode::ExpiredAuthenticationToken, "", message).into()
            );
        }
        Ok(self.holder(app, &token, now))
    }

    /// The holder of a valid token, whose use is recorded.
    fn holder(&self, app: &App, token: &TokenRecord, now: Instant) -> Caller {
        self.tokens.note_use(&app.store, token, now);
        Caller::of_token(token)
    }

    /// The caller that signed in, if its credential is still valid.
    async fn verify_session(&self, app: &App, id: &str) -> Result<Caller, ApiError> {
        let ended = || {
            let message = "The session has ended; sign in again";
            ErrorDetails::one(ErrorCode::ExpiredAuthenticationToken, "", message)
        };
        let now = app.now();
        let hash = SessionHash::of(id).ok_or_else(ended)?;
        let session = self.sessions.find(app, hash, now).await?.ok_or_else(ended)?;
        let SessionRecord { identity, expires, .. } = session;
        let caller = match identity {
            SessionIdentity::StartToken { proof } => {
                let is_current = |token| start_token_proof(id, token) == proof;
                self.start_token.is_some_and(is_current).then(Caller::start_token)
            }
            SessionIdentity::Token(token) => {
                let token = self.tokens.find(&*app.store, &token, now).await?;
                let token = token.filter(|token| token.is_valid(now));
                token.map(|token| self.holder(app, &token, now))
            }
            SessionIdentity::Oidc { issuer, subject, name, grants } => {
                // Another issuer may give the same subject to another user.
                let oidc = self.oidc.as_ref().filter(|oidc| oidc.issuer() == issuer);
                oidc.map(|oidc| {
                    let grants = grants.into_iter().filter(|grant| oidc.grants(grant)).collect();
                    Caller::of_subject(&issuer, &subject, name.as_deref(), grants)
                })
            }
        };
        let caller = caller.ok_or_else(ended)?;
        Ok(caller.in_session(hash, expires))
    }

    /// Begins a session of a caller who presented a token.
    pub(super) async fn start_session(
        &self,
        app: &App,
        caller: &Caller,
    ) -> Result<StartedSession, ApiError> {
        self.sessions.start(app, caller, self.start_token).await
    }

    /// The identity provider, if users can sign in there.
    pub(super) fn sign_in_provider(&self) -> Option<&OidcProvider> {
        self.oidc.as_deref().filter(|oidc| oidc.has_sign_in())
    }

    pub(super) async fn end_session(&self, app: &App, hash: SessionHash) -> Result<(), ApiError> {
        self.sessions.end(app, hash).await
    }
}

fn invalid(message: &str) -> ErrorDetails {
    ErrorDetails::one(ErrorCode::InvalidAuthenticationToken, "", message)
}

/// The id of the static token that a request presents, whether or not the token is valid.
pub(super) fn presented_token(headers: &HeaderMap) -> Option<TokenId> {
    parse_token(bearer(headers).ok()?).map(|(id, _)| id)
}

/// The bearer token of a request.
fn bearer(headers: &HeaderMap) -> Result<&str, ErrorDetails> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = all.next() else {
        let message = "The header Authorization is missing; send Authorization: Bearer and a token";
        return Err(ErrorDetails::one(ErrorCode::AuthenticationFailed, "", message));
    };
    if all.next().is_some() {
        let message = "The header Authorization is given twice; send it once";
        return Err(ErrorDetails::one(ErrorCode::InvalidRequest, "", message));
    }
    let text = value.to_str().ok().and_then(|text| text.split_once(' '));
    let token = text.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer"));
    let token = token.map(|(_, token)| token.trim_matches(' '));
    let is_token = |text: &&str| {
        let allowed = |byte: u8| byte.is_ascii_graphic();
        (1..=TOKEN_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed)
    };
    token.filter(is_token).ok_or_else(|| {
        invalid(&format!(
            "The header Authorization must be Bearer and a token of at most {TOKEN_BYTES_MAX} bytes"
        ))
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(values: &[&str]) -> Result<String, ErrorCode> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        bearer(&headers).map(str::to_owned).map_err(|errors| errors.code())
    }

    #[test]
    fn a_single_bearer_token_is_read() {
        assert_eq!(read(&["Bearer abc.def"]).as_deref(), Ok("abc.def"));
        assert_eq!(read(&["bearer  abc"]).as_deref(), Ok("abc"));
        let longest = "x".repeat(TOKEN_BYTES_MAX);
        assert_eq!(read(&[&format!("Bearer {longest}")]), Ok(longest));
    }

    #[test]
    fn a_missing_token_is_distinguished_from_an_invalid_one() {
        assert_eq!(read(&[]), Err(ErrorCode::AuthenticationFailed));
        let too_long = format!("Bearer {}", "x".repeat(TOKEN_BYTES_MAX + 1));
        for value in ["Bearer", "Bearer ", "Bearer a b", "Basic dTpw", "abc", &too_long] {
            assert_eq!(read(&[value]), Err(ErrorCode::InvalidAuthenticationToken), "{value}");
        }
        assert_eq!(read(&["Bearer a", "Bearer a"]), Err(ErrorCode::InvalidRequest));
    }
}
