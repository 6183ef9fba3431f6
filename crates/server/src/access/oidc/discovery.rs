//! The OIDC discovery document of a provider.

use kalends_actions::{Fetcher, trusted_url};
use kalends_wire::Json;

use crate::access::oidc::OidcError;
use crate::access::oidc::public_key::text;

/// Bytes of a fetched document; the key set of Azure AD has about twenty thousand.
const DOCUMENT_BYTES_MAX: usize = 512 * 1024;

/// Fetches documents of a provider.
#[derive(Clone)]
pub(super) struct Discovery {
    pub(super) fetcher: Fetcher,
    pub(super) issuer: String,
}

/// URLs of a provider, as its discovery document names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Endpoints {
    pub(super) jwks: Option<String>,
    pub(super) authorization: Option<String>,
    pub(super) token: Option<String>,
}

/// The endpoints of the authorization code flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SignInEndpoints {
    pub(super) authorization: String,
    pub(super) token: String,
}

impl Endpoints {
    /// The endpoints of the authorization code flow, if the document names both. Users type their
    /// password at the first, so only HTTPS or loopback addresses are accepted.
    pub(super) fn for_sign_in(&self) -> Option<SignInEndpoints> {
        let authorization = trusted_url(self.authorization.as_deref()?)?;
        Some(SignInEndpoints { authorization, token: self.token.clone()? })
    }
}

impl Discovery {
    /// Fetches the discovery document.
    pub(super) async fn endpoints(&self) -> Result<Endpoints, OidcError> {
        let url = self.url();
        let document = self.fetch(&url).await?;
        let document = Json::parse(&document);
        let document = document.map_err(|errors| OidcError::document(&url, errors))?;
        if text(&document, "issuer") != Some(&self.issuer) {
            let named = text(&document, "issuer").unwrap_or("none");
            let message = format!("it is of the issuer {named:?}, spell it so");
            return Err(OidcError::document(&url, message));
        }
        let member = |name| text(&document, name).map(str::to_owned);
        Ok(Endpoints {
            jwks: member("jwks_uri"),
            authorization: member("authorization_endpoint"),
            token: member("token_endpoint"),
        })
    }

    /// An error about the contents of the discovery document.
    pub(super) fn lacks(&self, member: &str) -> OidcError {
        OidcError::document(&self.url(), format!("it names no {member}"))
    }

    pub(super) async fn fetch(&self, url: &str) -> Result<Vec<u8>, OidcError> {
        let document = self.fetcher.fetch(url, DOCUMENT_BYTES_MAX).await;
        document.map_err(|source| OidcError::Fetch { url: url.to_owned(), source })
    }

    fn url(&self) -> String {
        format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'))
    }
}
