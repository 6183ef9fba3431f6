//! Tokens of an identity provider, such as Azure AD: signed statements of who somebody is.
//!
//! | part | what it is |
//! |---|---|
//! | `jwt` | what a token says, and which key it says it was signed with |
//! | `key` | public keys, and whether a signature is theirs |
//! | `keys` | the keys of the provider, fetched and kept |
//! | `grants` | from what a token says to what its holder may do |
//!
//! Two algorithms are known, each tied to its kind of key. What a token says about where its key
//! could be found is not read.

mod grants;
mod jwt;
mod key;
mod keys;

use std::sync::Arc;
use std::time::Duration;

use kalends_actions::Fetcher;
use kalends_recurrence::Instant;
use kalends_wire::{ErrorCode, ErrorDetails};

pub use grants::{ClaimGrant, ClaimGrantError};

use crate::access::Caller;
use crate::answer::Refused;
use jwt::{Claims, Jwt};
use keys::{Keys, NoKeys};

/// Clocks may differ by as much.
const SKEW: Duration = Duration::from_secs(120);
/// Characters of a subject; those of providers have some fifty.
const SUBJECT_CHARS_MAX: usize = 256;

/// What an operator says about an identity provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OidcSettings {
    /// Who signs tokens, spelled as in them.
    pub issuer: String,
    /// Whom tokens must be for; one of these.
    pub audiences: Vec<String>,
    /// Where the keys are; else the issuer is asked.
    pub keys: Option<String>,
    /// The tenant that tokens must name.
    pub tenant: Option<String>,
    /// What may be done by whom.
    pub grants: Vec<ClaimGrant>,
}

/// An identity provider.
pub struct Oidc {
    settings: OidcSettings,
    keys: Arc<Keys>,
}

impl Oidc {
    /// A provider whose keys are fetched when they are needed.
    pub fn new(settings: OidcSettings, fetcher: Fetcher) -> Oidc {
        let keys = Keys::new(fetcher, settings.issuer.clone(), settings.keys.clone());
        Oidc { settings, keys: Arc::new(keys) }
    }

    /// Fetches the keys, so that a wrong setting is seen before anybody needs them.
    pub async fn fetch_keys(&self, now: Instant) -> Result<(), String> {
        self.keys.refresh(now).await
    }

    /// Who holds a token.
    pub(super) async fn authenticate(&self, text: &str, now: Instant) -> Result<Caller, Refused> {
        let jwt = Jwt::read(text).map_err(invalid)?;
        let key = match self.keys.find(&jwt.key, now).await {
            Ok(key) => {
                key.ok_or_else(|| invalid("it names a key that its issuer does not have"))?
            }
            Err(NoKeys) => {
                let message = "the keys of the token's issuer cannot be fetched; try again";
                return Err(ErrorDetails::one(ErrorCode::ServerBusy, "", message).into());
            }
        };
        if !key.has_signed(jwt.algorithm, jwt.signed, &jwt.signature) {
            return Err(invalid("it is not signed by its issuer").into());
        }
        // Only now does it matter what it says.
        let claims = jwt.claims().map_err(invalid)?;
        Ok(self.caller(&claims, now)?)
    }

    fn caller(&self, claims: &Claims, now: Instant) -> Result<Caller, ErrorDetails> {
        let refuse =
            |code, message: &str| ErrorDetails::one(code, "", format!("the token: {message}"));
        let settings = &self.settings;
        if claims.text("iss") != Some(&settings.issuer) {
            return Err(invalid("it is of another issuer"));
        }
        let mut audiences = settings.audiences.iter();
        if !audiences.any(|audience| claims.has("aud", audience)) {
            let message = "it is for another audience";
            return Err(refuse(ErrorCode::InvalidAuthenticationTokenAudience, message));
        }
        if settings.tenant.as_ref().is_some_and(|tenant| claims.text("tid") != Some(tenant)) {
            let message = "it is of another tenant";
            return Err(refuse(ErrorCode::InvalidAuthenticationTokenTenant, message));
        }
        let expires = claims.instant("exp")?.ok_or_else(|| invalid("it does not say exp"))?;
        if now >= expires.saturating_add(SKEW) {
            return Err(refuse(ErrorCode::ExpiredAuthenticationToken, "it has expired"));
        }
        if claims.instant("nbf")?.is_some_and(|from| now.saturating_add(SKEW) < from) {
            return Err(invalid("it is not valid yet"));
        }
        let subject = claims.text("sub").filter(|subject| !subject.is_empty());
        let subject = subject.filter(|subject| {
            let is_printable = !subject.chars().any(char::is_control);
            is_printable && subject.chars().count() <= SUBJECT_CHARS_MAX
        });
        let subject = subject.ok_or_else(|| invalid("it does not say sub"))?;
        let names = ["preferred_username", "upn", "email", "azp", "appid"];
        let name = names.into_iter().find_map(|name| claims.text(name));
        let grants = settings.grants.iter().filter(|grant| grant.fits(claims));
        let grants = grants.map(|grant| grant.grant.clone()).collect();
        Ok(Caller::new(format!("oidc:{subject}").into(), name.map(Arc::from), grants))
    }
}

fn invalid(message: impl AsRef<str>) -> ErrorDetails {
    let message = format!("the token: {}", message.as_ref());
    ErrorDetails::one(ErrorCode::InvalidAuthenticationToken, "", message)
}
