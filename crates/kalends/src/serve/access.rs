//! Settings of authentication, rate limits and the audit log.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use kalends_actions::Fetcher;
use kalends_domain::{EgressMode, Network, Secret};
use kalends_recurrence::Instant;
use kalends_server::{
    AccessControl, AllowedHosts, AuditLog, AuditSettings, AuditTarget, Authentication,
    AuthenticationSettings, RateSettings, TrustedProxies,
};
use kalends_store::{Store, TokenHash};

use crate::serve::duration::duration_in;
use crate::serve::oidc::OidcArguments;

/// Least characters of the `--token` setting. People choose it, and it must be hard to guess.
const TOKEN_CHARS_MIN: usize = 16;

const AUDIT: &str = "Audit log";
const RATE_LIMITS: &str = "Rate limits";

#[derive(clap::Args)]
#[command(next_help_heading = "Authentication")]
pub(crate) struct AccessArguments {
    /// API token with role owner and scope /, at least 16 characters. Prefer the environment
    /// variable: other users of the machine can see command-line arguments
    #[arg(long, env = "KALENDS_TOKEN", hide_env_values = true, value_name = "TOKEN", value_parser = token)]
    token: Option<Secret>,

    /// Time after which a session of the web console ends, between PT5M and P30D; it ends with the
    /// token that was used to sign in at the latest
    #[arg(long, env = "KALENDS_SESSION_LIFETIME", value_name = "DURATION", default_value = "PT12H", value_parser = session_lifetime)]
    session_lifetime: Duration,

    /// Host name under which clients reach the server, in addition to the listen address; can be
    /// repeated
    #[arg(long, env = "KALENDS_HOST", value_name = "NAME", value_delimiter = ',')]
    host: Vec<String>,

    /// Address of a reverse proxy, or a range such as 10.0.0.0/8: the server takes the address of
    /// the client, the scheme and the host from its header Forwarded or its X-Forwarded headers; can
    /// be repeated
    #[arg(long, env = "KALENDS_TRUSTED_PROXY", value_name = "RANGE", value_delimiter = ',', value_parser = network)]
    trusted_proxy: Vec<Network>,

    /// Destination of the audit log: a file, - for standard error, or off [default: audit.log next to
    /// the SQLite file, otherwise -]
    #[arg(help_heading = AUDIT, long, env = "KALENDS_AUDIT_LOG", value_name = "FILE")]
    audit_log: Option<PathBuf>,

    /// Size in bytes at which the audit log is rotated
    #[arg(help_heading = AUDIT, long, env = "KALENDS_AUDIT_LOG_BYTES", value_name = "BYTES", default_value_t = AuditSettings::default().bytes_max, value_parser = clap::value_parser!(u64).range(4096..))]
    audit_log_bytes: u64,

    /// Number of audit log files to retain
    #[arg(help_heading = AUDIT, long, env = "KALENDS_AUDIT_LOG_FILES", value_name = "NUMBER", default_value_t = AuditSettings::default().files_max, value_parser = clap::value_parser!(u32).range(1..=1000))]
    audit_log_files: u32,

    /// Read requests per minute and token
    #[arg(help_heading = RATE_LIMITS, long, env = "KALENDS_READS_PER_MINUTE", value_name = "NUMBER", default_value_t = RateSettings::default().reads, value_parser = per_minute())]
    reads_per_minute: u32,

    /// Write requests per minute and token
    #[arg(help_heading = RATE_LIMITS, long, env = "KALENDS_WRITES_PER_MINUTE", value_name = "NUMBER", default_value_t = RateSettings::default().writes, value_parser = per_minute())]
    writes_per_minute: u32,

    /// Requested runs per minute and collection
    #[arg(help_heading = RATE_LIMITS, long, env = "KALENDS_RUNS_PER_MINUTE", value_name = "NUMBER", default_value_t = RateSettings::default().runs, value_parser = per_minute())]
    runs_per_minute: u32,

    /// Failed authentications per minute and client address
    #[arg(help_heading = RATE_LIMITS, long, env = "KALENDS_FAILURES_PER_MINUTE", value_name = "NUMBER", default_value_t = RateSettings::default().failures, value_parser = per_minute())]
    failures_per_minute: u32,

    #[command(flatten)]
    oidc: OidcArguments,
}

/// Access control of a server.
pub(crate) struct ResolvedAccess {
    pub(crate) control: AccessControl,
    /// How callers authenticate, for the log.
    pub(crate) authentication: &'static str,
    /// Accepted values of the `Host` header.
    pub(crate) hosts: AllowedHosts,
    pub(crate) trusted_proxies: TrustedProxies,
    /// Egress mode unless `--egress-mode` is given. Without authentication only local users reach
    /// the server, and they reach the other ports of the machine anyway.
    pub(crate) default_egress_mode: EgressMode,
}

/// At a higher rate the interval between two requests would be below the resolution of the clock.
fn per_minute() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=1_000_000)
}

fn session_lifetime(text: &str) -> anyhow::Result<Duration> {
    const MINUTE: Duration = Duration::from_secs(60);
    duration_in(text, MINUTE * 5..=MINUTE * 60 * 24 * 30)
}

fn network(text: &str) -> anyhow::Result<Network> {
    let parsed = Network::parse(text.trim());
    parsed.context("expected an IP address or a range such as 10.0.0.0/8 or fd00::/8")
}

fn token(text: &str) -> anyhow::Result<Secret> {
    let is_token =
        text.chars().count() >= TOKEN_CHARS_MIN && text.bytes().all(|byte| byte.is_ascii_graphic());
    ensure!(
        is_token,
        "must have at least {TOKEN_CHARS_MIN} printable ASCII characters without spaces"
    );
    Ok(Secret::new(text.to_owned()))
}

impl AccessArguments {
    /// Sets up authentication, rate limits and the audit log. Refuses to run without authentication
    /// unless the server listens on a loopback address.
    pub(crate) async fn set_up(
        &self,
        listen: IpAddr,
        store_name: &str,
        store: &dyn Store,
        (fetcher, now): (Fetcher, Instant),
    ) -> anyhow::Result<ResolvedAccess> {
        let has_tokens = !store.tokens().await.context("cannot read the tokens")?.is_empty();
        let audit = self.audit_log(store_name)?;
        let oidc = self.oidc.start(fetcher, now)?;
        if self.token.is_none() && oidc.is_none() && !has_tokens {
            self.require_loopback(listen)?;
            return Ok(ResolvedAccess {
                control: AccessControl::single_user(audit),
                authentication: "none, single user",
                hosts: AllowedHosts::Loopback,
                trusted_proxies: TrustedProxies::default(),
                default_egress_mode: EgressMode::SingleUser,
            });
        }
        let authentication_mode =
            if oidc.is_some() { "OpenID Connect and tokens" } else { "tokens" };
        let start_token = self.token.as_ref().map(|token| TokenHash::of(token.reveal()));
        let session_lifetime = self.session_lifetime;
        let authentication =
            Authentication::new(AuthenticationSettings { start_token, oidc, session_lifetime });
        let rates = RateSettings {
            reads: self.reads_per_minute,
            writes: self.writes_per_minute,
            runs: self.runs_per_minute,
            failures: self.failures_per_minute,
        };
        let names = self.host.iter().map(|name| name.trim().to_owned());
        let names = names.filter(|name| !name.is_empty()).collect();
        let control = AccessControl::with_tokens(authentication, rates, audit);
        let hosts = AllowedHosts::Named { listen, names };
        Ok(ResolvedAccess {
            control,
            authentication: authentication_mode,
            hosts,
            trusted_proxies: TrustedProxies::new(self.trusted_proxy.clone()),
            default_egress_mode: EgressMode::Guarded,
        })
    }

    /// Without authentication only users of this machine may reach the API.
    fn require_loopback(&self, listen: IpAddr) -> anyhow::Result<()> {
        let remedy = "create a token with kalends token create --role owner --scope /, or set \
                      KALENDS_TOKEN or --oidc-issuer";
        if !listen.is_loopback() {
            bail!(
                "{listen} is not a loopback address and no authentication is configured; {remedy}, \
                 or listen on 127.0.0.1"
            );
        }
        for (setting, is_set) in
            [("--host", !self.host.is_empty()), ("--trusted-proxy", !self.trusted_proxy.is_empty())]
        {
            ensure!(!is_set, "{setting} requires authentication, and none is configured; {remedy}");
        }
        Ok(())
    }

    fn audit_log(&self, store_name: &str) -> anyhow::Result<AuditLog> {
        let target = match self.audit_log.as_deref().and_then(Path::to_str) {
            Some("off") => AuditTarget::Off,
            Some("-") => AuditTarget::StandardError,
            _ => match (&self.audit_log, store_name.strip_prefix("sqlite:")) {
                (Some(path), _) => AuditTarget::File(path.clone()),
                (None, Some(path)) => {
                    AuditTarget::File(Path::new(path).with_file_name("audit.log"))
                }
                (None, None) => AuditTarget::StandardError,
            },
        };
        let settings =
            AuditSettings { bytes_max: self.audit_log_bytes, files_max: self.audit_log_files };
        AuditLog::start(target, settings).context("cannot open the audit log")
    }
}
