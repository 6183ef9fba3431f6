//! Settings of the OpenID Connect provider.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use kalends_actions::{Fetcher, trusted_url};
use kalends_domain::Secret;
use kalends_recurrence::Instant;
use kalends_server::{CALLBACK_PATH, ClaimGrant, CodeFlowSettings, OidcProvider, OidcSettings};

use crate::serve::duration::duration_in;

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

    /// Client id of this server at the provider; adds sign-in at the provider to the web console
    #[arg(long, env = "KALENDS_OIDC_CLIENT_ID", value_name = "ID")]
    oidc_client_id: Option<String>,

    /// Client secret; none for a public client. Prefer the environment variable: other users of the
    /// machine can see command-line arguments
    #[arg(long, env = "KALENDS_OIDC_CLIENT_SECRET", hide_env_values = true, value_name = "SECRET", value_parser = secret)]
    oidc_client_secret: Option<Secret>,

    /// Scope that sign-in requests; must include openid; can be repeated
    #[arg(
        long,
        env = "KALENDS_OIDC_SCOPE",
        value_name = "SCOPE",
        value_delimiter = ',',
        default_value = "openid,profile,email"
    )]
    oidc_scope: Vec<String>,

    /// URL of the sign-in callback, as registered at the provider [default: /sign-in/callback at the
    /// URL by which the browser reaches the server]
    #[arg(long, env = "KALENDS_OIDC_REDIRECT_URL", value_name = "URL", value_parser = redirect_url)]
    oidc_redirect_url: Option<String>,

    /// Time after which a session of a user who signed in at the provider ends, between PT5M and
    /// PT12H; --session-lifetime applies too. A user who was removed at the provider keeps a session
    /// for this time at most
    #[arg(long, env = "KALENDS_OIDC_SESSION_LIFETIME", value_name = "DURATION", default_value = "PT1H", value_parser = session_lifetime)]
    oidc_session_lifetime: Duration,
}

fn session_lifetime(text: &str) -> anyhow::Result<Duration> {
    const MINUTE: Duration = Duration::from_secs(60);
    duration_in(text, MINUTE * 5..=MINUTE * 60 * 12)
}

fn redirect_url(text: &str) -> anyhow::Result<String> {
    let is_plain = text.ends_with(CALLBACK_PATH) && !text.contains(['?', '#', '@']);
    let url = trusted_url(text).filter(|url| is_plain && url == text);
    url.with_context(|| {
        format!(
            "expected https://HOST{CALLBACK_PATH}, with a path prefix if the proxy has one; http:// for a loopback address only"
        )
    })
}

fn secret(text: &str) -> anyhow::Result<Secret> {
    Ok(Secret::new(text.to_owned()))
}

impl OidcArguments {
    /// Creates the provider and starts to fetch its keys; `None` without `--oidc-issuer`.
    pub(crate) fn start(
        &self,
        fetcher: Fetcher,
        now: Instant,
    ) -> anyhow::Result<Option<Arc<OidcProvider>>> {
        let Some(issuer) = &self.oidc_issuer else {
            let others = self.oidc_jwks.is_some()
                || self.oidc_tenant.is_some()
                || self.oidc_client_id.is_some();
            if others || !self.oidc_audience.is_empty() || !self.oidc_grant.is_empty() {
                bail!("the --oidc settings require --oidc-issuer");
            }
            return Ok(None);
        };
        if issuer.contains('#') {
            bail!("--oidc-issuer must not have a fragment (found {issuer:?})");
        }
        if self.oidc_audience.is_empty() && self.oidc_client_id.is_none() {
            bail!(
                "--oidc-issuer requires --oidc-audience or --oidc-client-id; otherwise tokens for other services would be accepted"
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
            code_flow: self.code_flow()?,
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

    fn code_flow(&self) -> anyhow::Result<Option<CodeFlowSettings>> {
        let Some(client_id) = &self.oidc_client_id else {
            if self.oidc_client_secret.is_some() || self.oidc_redirect_url.is_some() {
                bail!("--oidc-client-secret and --oidc-redirect-url require --oidc-client-id");
            }
            return Ok(None);
        };
        if !self.oidc_scope.iter().any(|scope| scope == "openid") {
            bail!("--oidc-scope must include openid; otherwise the provider returns no ID token");
        }
        Ok(Some(CodeFlowSettings {
            client_id: client_id.clone(),
            client_secret: self.oidc_client_secret.clone(),
            scopes: self.oidc_scope.clone(),
            redirect_url: self.oidc_redirect_url.clone(),
            session_lifetime: self.oidc_session_lifetime,
        }))
    }
}
