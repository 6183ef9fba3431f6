//! Settings of the OpenID Connect provider.

use std::sync::Arc;

use anyhow::bail;
use kalends_actions::Fetcher;
use kalends_recurrence::Instant;
use kalends_server::{ClaimGrant, OidcProvider, OidcSettings};

#[derive(clap::Args)]
#[command(next_help_heading = "OpenID Connect")]
pub(crate) struct OidcArguments {
    /// Issuer URL of the OpenID Connect provider; must equal the claim iss of its tokens
    #[arg(long, env = "KALENDS_OIDC_ISSUER", value_name = "URL")]
    oidc_issuer: Option<String>,

    /// Accepted value of the claim aud; required with --oidc-issuer; can be repeated
    #[arg(long, env = "KALENDS_OIDC_AUDIENCE", value_name = "AUDIENCE", value_delimiter = ',')]
    oidc_audience: Vec<String>,

    /// JWKS URL [default: from OIDC discovery]
    #[arg(long, env = "KALENDS_OIDC_JWKS", value_name = "URL")]
    oidc_jwks: Option<String>,

    /// Required value of the claim tid (tenant)
    #[arg(long, env = "KALENDS_OIDC_TENANT", value_name = "TENANT")]
    oidc_tenant: Option<String>,

    /// Role granted by a claim: CLAIM=VALUE:ROLE:SCOPE, such as groups=ops:operator:/; can be repeated
    /// [default: the values Kalends.Reader, Kalends.Operator, Kalends.Contributor and Kalends.Owner of
    /// the claim roles grant that role with scope /]
    #[arg(long, env = "KALENDS_OIDC_GRANT", value_name = "GRANT", value_delimiter = ',', value_parser = ClaimGrant::parse)]
    oidc_grant: Vec<ClaimGrant>,
}

impl OidcArguments {
    /// Creates the provider and starts to fetch its keys; `None` without `--oidc-issuer`.
    pub(crate) fn start(
        &self,
        fetcher: Fetcher,
        now: Instant,
    ) -> anyhow::Result<Option<Arc<OidcProvider>>> {
        let Some(issuer) = &self.oidc_issuer else {
            let others = self.oidc_jwks.is_some() || self.oidc_tenant.is_some();
            if others || !self.oidc_audience.is_empty() || !self.oidc_grant.is_empty() {
                bail!("the --oidc settings require --oidc-issuer");
            }
            return Ok(None);
        };
        if self.oidc_audience.is_empty() {
            bail!(
                "--oidc-issuer requires --oidc-audience; otherwise tokens for other services would be accepted"
            );
        }
        let grants = match self.oidc_grant.as_slice() {
            [] => ClaimGrant::default_app_roles(),
            grants => grants.to_vec(),
        };
        let settings = OidcSettings {
            issuer: issuer.clone(),
            audiences: self.oidc_audience.clone(),
            jwks_url: self.oidc_jwks.clone(),
            tenant: self.oidc_tenant.clone(),
            grants,
        };
        let oidc = Arc::new(OidcProvider::new(settings, fetcher));
        let fetching = Arc::clone(&oidc);
        tokio::spawn(async move {
            if let Err(error) = fetching.fetch_keys(now).await {
                // The next token that needs a key triggers another fetch.
                tracing::warn!(%error, "keys of the OIDC issuer not available, retrying on demand");
            }
        });
        Ok(Some(oidc))
    }
}
