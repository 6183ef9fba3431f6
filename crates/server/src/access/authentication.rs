//! Authentication by bearer token.

use std::sync::Arc;

use http::{HeaderMap, header};
use kalends_store::{TokenHash, TokenId, parse_token};
use kalends_wire::{ErrorCode, ErrorDetails};

use crate::access::Caller;
use crate::access::oidc::OidcProvider;
use crate::access::token_cache::TokenCache;
use crate::app::App;
use crate::capacity::RequestSlot;
use crate::response::ApiError;

/// Bytes of a token; those of identity providers have about two thousand.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// Token verification.
pub struct Authentication {
    start_token: Option<TokenHash>,
    tokens: TokenCache,
    oidc: Option<Arc<OidcProvider>>,
}

impl Authentication {
    /// Accepts the static tokens of the store, the token that the server was started with, whose
    /// holder is an owner, and the tokens of an identity provider.
    pub fn new(start_token: Option<TokenHash>, oidc: Option<Arc<OidcProvider>>) -> Authentication {
        Authentication { start_token, tokens: TokenCache::default(), oidc }
    }

    /// The caller whose token the request presents.
    pub(super) async fn authenticate(
        &self,
        app: &App,
        headers: &HeaderMap,
        slot: &RequestSlot,
    ) -> Result<Caller, ApiError> {
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
        self.tokens.note_use(&Arc::clone(&app.store), id, now);
        Ok(Caller::of_token(&token))
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
