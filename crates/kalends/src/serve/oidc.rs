//! Settings of an identity provider.

use std::io::Write as _;
use std::sync::Arc;

use anyhow::bail;
use kalends_actions::Fetcher;
use kalends_environment::{Clock as _, SystemClock};
use kalends_server::{ClaimGrant, Oidc, OidcSettings};

#[derive(clap::Args)]
pub(crate) struct Provider {
    /// An identity provider whose tokens are good: its address, spelled as iss in them
    #[arg(long, env = "KALENDS_OIDC_ISSUER", value_name = "URL")]
    oidc_issuer: Option<String>,

    /// Whom its tokens must be for, as aud in them; can be repeated
    #[arg(long, env = "KALENDS_OIDC_AUDIENCE", value_name = "AUDIENCE", value_delimiter = ',')]
    oidc_audience: Vec<String>,

    /// Where its keys are [default: where it says]
    #[arg(long, env = "KALENDS_OIDC_JWKS", value_name = "URL")]
    oidc_jwks: Option<String>,

    /// The tenant that its tokens must name, as tid in them
    #[arg(long, env = "KALENDS_OIDC_TENANT", value_name = "TENANT")]
    oidc_tenant: Option<String>,

    /// Who may do what: claim=value:role:scope, such as groups=ops:operator:/; can be repeated
    /// [default: the values Kalends.Reader, Kalends.Operator, Kalends.Contributor and Kalends.Owner of
    /// the claim roles, everywhere]
    #[arg(long, env = "KALENDS_OIDC_GRANT", value_name = "GRANT", value_delimiter = ',', value_parser = ClaimGrant::parse)]
    oidc_grant: Vec<ClaimGrant>,
}

impl Provider {
    /// The provider, where one is set. Its keys are being fetched.
    pub(crate) fn start(&self, fetcher: Fetcher) -> anyhow::Result<Option<Arc<Oidc>>> {
        let Some(issuer) = &self.oidc_issuer else {
            let others = self.oidc_jwks.is_some() || self.oidc_tenant.is_some();
            if others || !self.oidc_audience.is_empty() || !self.oidc_grant.is_empty() {
                bail!("settings of an identity provider need --oidc-issuer");
            }
            return Ok(None);
        };
        if self.oidc_audience.is_empty() {
            bail!("--oidc-issuer needs --oidc-audience: a token for another service is not for us");
        }
        let grants = match self.oidc_grant.as_slice() {
            [] => ClaimGrant::of_app_roles(),
            grants => grants.to_vec(),
        };
        let settings = OidcSettings {
            issuer: issuer.clone(),
            audiences: self.oidc_audience.clone(),
            keys: self.oidc_jwks.clone(),
            tenant: self.oidc_tenant.clone(),
            grants,
        };
        let oidc = Arc::new(Oidc::new(settings, fetcher));
        let fetching = Arc::clone(&oidc);
        tokio::spawn(async move {
            if let Err(why) = fetching.fetch_keys(SystemClock.now().into()).await {
                // They are fetched again when they are needed.
                let why = why.escape_debug();
                let _ = writeln!(std::io::stderr(), "warning: no keys of --oidc-issuer yet: {why}");
            }
        });
        Ok(Some(oidc))
    }
}
