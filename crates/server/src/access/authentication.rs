//! From a bearer token to who holds it.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use kalends_store::{TokenHash, TokenId, parse_token};
use kalends_wire::{ErrorCode, ErrorDetails};

use crate::access::Caller;
use crate::access::known::KnownTokens;
use crate::access::oidc::Oidc;
use crate::answer::Refused;
use crate::app::App;

/// Bytes of a token; those of identity providers have some two thousand.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// Who may ask at all.
pub struct Authentication {
    start_token: Option<TokenHash>,
    known: KnownTokens,
    oidc: Option<Arc<Oidc>>,
}

/// Why nobody is known to ask.
pub(super) struct Denied {
    pub(super) refused: Refused,
    /// The static token that he says he has.
    pub(super) token: Option<TokenId>,
}

impl From<ErrorDetails> for Denied {
    fn from(errors: ErrorDetails) -> Denied {
        Denied { refused: errors.into(), token: None }
    }
}

impl Authentication {
    /// Holders of tokens in the store; of the token that the server was started with, who is an
    /// owner; and whom an identity provider knows.
    pub fn new(start_token: Option<TokenHash>, oidc: Option<Arc<Oidc>>) -> Authentication {
        Authentication { start_token, known: KnownTokens::default(), oidc }
    }

    /// Who asks.
    pub(super) async fn authenticate(
        &self,
        app: &App,
        headers: &HeaderMap,
    ) -> Result<Caller, Denied> {
        let text = bearer(headers)?;
        if self.start_token.is_some_and(|known| known == TokenHash::of(text)) {
            return Ok(Caller::of_start());
        }
        match parse_token(text) {
            Some((id, hash)) => {
                let caller = self.of_store(app, &id, hash).await;
                caller.map_err(|refused| Denied { refused, token: Some(id) })
            }
            None => match &self.oidc {
                Some(oidc) => {
                    let caller = oidc.authenticate(text, app.now()).await;
                    caller.map_err(|refused| Denied { refused, token: None })
                }
                None => Err(invalid("the token is of no known form").into()),
            },
        }
    }

    async fn of_store(&self, app: &App, id: &TokenId, hash: TokenHash) -> Result<Caller, Refused> {
        let now = app.now();
        let found = self.known.find(&*app.store, id, now).await?;
        let unknown = || invalid("the token is not known, or was revoked");
        let token = found.filter(|token| token.hash == hash).ok_or_else(unknown)?;
        if token.revoked.is_some() {
            return Err(unknown().into());
        }
        if !token.is_valid(now) {
            let message = "the token has expired";
            return Err(
                ErrorDetails::one(ErrorCode::ExpiredAuthenticationToken, "", message).into()
            );
        }
        self.known.note_use(&Arc::clone(&app.store), id, now);
        Ok(Caller::of_token(&token))
    }
}

fn invalid(message: &str) -> ErrorDetails {
    ErrorDetails::one(ErrorCode::InvalidAuthenticationToken, "", message)
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Result<&str, ErrorDetails> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = all.next() else {
        let message = "expected the header Authorization: Bearer with a token";
        return Err(ErrorDetails::one(ErrorCode::AuthenticationFailed, "", message));
    };
    if all.next().is_some() {
        let message = "the header Authorization is given twice";
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
            "expected the scheme Bearer and a token of at most {TOKEN_BYTES_MAX} bytes"
        ))
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn read(values: &[&str]) -> Result<String, ErrorCode> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        bearer(&headers).map(str::to_owned).map_err(|errors| errors.code())
    }

    #[test]
    fn one_bearer_token_is_read() {
        assert_eq!(read(&["Bearer abc.def"]).as_deref(), Ok("abc.def"));
        assert_eq!(read(&["bearer  abc"]).as_deref(), Ok("abc"));
        let longest = "x".repeat(TOKEN_BYTES_MAX);
        assert_eq!(read(&[&format!("Bearer {longest}")]), Ok(longest));
    }

    #[test]
    fn anything_else_is_told_from_nothing() {
        assert_eq!(read(&[]), Err(ErrorCode::AuthenticationFailed));
        let too_long = format!("Bearer {}", "x".repeat(TOKEN_BYTES_MAX + 1));
        for value in ["Bearer", "Bearer ", "Bearer a b", "Basic dTpw", "abc", &too_long] {
            assert_eq!(read(&[value]), Err(ErrorCode::InvalidAuthenticationToken), "{value}");
        }
        assert_eq!(read(&["Bearer a", "Bearer a"]), Err(ErrorCode::InvalidRequest));
    }
}
