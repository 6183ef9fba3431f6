//! Who may ask the server: settings of authentication, limits and the audit log.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use kalends_actions::Fetcher;
use kalends_domain::{EgressMode, Secret};
use kalends_server::{
    AuditLog, AuditSettings, AuditTarget, Authentication, Gate, Hosts, RateSettings,
};
use kalends_store::{Store, TokenHash};

use crate::serve::oidc::Provider;

/// Characters of a token that is given at the start. It is chosen by people, and must not be guessed.
const TOKEN_CHARS_MIN: usize = 16;

#[derive(clap::Args)]
pub(crate) struct Access {
    /// A token whose holder may do everything, of 16 characters or more. Better in the environment:
    /// others on the machine see arguments
    #[arg(long, env = "KALENDS_TOKEN", hide_env_values = true, value_name = "TOKEN", value_parser = token)]
    token: Option<Secret>,

    /// A name that the server is reached by, beside the address that it listens on; can be repeated
    #[arg(long, env = "KALENDS_HOST", value_name = "NAME", value_delimiter = ',')]
    host: Vec<String>,

    /// Where the audit log goes: a file, - for standard error, or off [default: audit.log beside an
    /// SQLite store, else -]
    #[arg(long, env = "KALENDS_AUDIT_LOG", value_name = "FILE")]
    audit_log: Option<PathBuf>,

    /// Bytes of a file of the audit log, after which another one is begun
    #[arg(long, env = "KALENDS_AUDIT_LOG_BYTES", value_name = "BYTES", default_value_t = AuditSettings::default().bytes_max, value_parser = clap::value_parser!(u64).range(4096..))]
    audit_log_bytes: u64,

    /// Files of the audit log that are kept
    #[arg(long, env = "KALENDS_AUDIT_LOG_FILES", value_name = "NUMBER", default_value_t = AuditSettings::default().files_max, value_parser = clap::value_parser!(u32).range(1..=1000))]
    audit_log_files: u32,

    /// Reading requests that one token may make a minute
    #[arg(long, env = "KALENDS_READS_PER_MINUTE", value_name = "NUMBER", default_value_t = RateSettings::default().reads, value_parser = per_minute())]
    reads_per_minute: u32,

    /// Other requests that one token may make a minute
    #[arg(long, env = "KALENDS_WRITES_PER_MINUTE", value_name = "NUMBER", default_value_t = RateSettings::default().writes, value_parser = per_minute())]
    writes_per_minute: u32,

    /// Runs that may be asked for a minute in one collection
    #[arg(long, env = "KALENDS_RUNS_PER_MINUTE", value_name = "NUMBER", default_value_t = RateSettings::default().runs, value_parser = per_minute())]
    runs_per_minute: u32,

    /// Wrong tokens that may come from one address a minute
    #[arg(long, env = "KALENDS_FAILURES_PER_MINUTE", value_name = "NUMBER", default_value_t = RateSettings::default().failures, value_parser = per_minute())]
    failures_per_minute: u32,

    #[command(flatten)]
    provider: Provider,
}

/// Who may ask, and what follows from it.
pub(crate) struct Granted {
    pub(crate) gate: Gate,
    /// The names that the server answers to.
    pub(crate) hosts: Hosts,
    /// How much is open to jobs: who reaches a server that asks nobody reaches the other ports of
    /// the machine too.
    pub(crate) egress: EgressMode,
}

/// More would be shorter than what the clock tells apart.
fn per_minute() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=1_000_000)
}

fn token(text: &str) -> Result<Secret, String> {
    let is_token =
        text.chars().count() >= TOKEN_CHARS_MIN && text.bytes().all(|byte| byte.is_ascii_graphic());
    match is_token {
        true => Ok(Secret::new(text.to_owned())),
        false => Err(format!(
            "expected at least {TOKEN_CHARS_MIN} letters, digits and signs without blanks"
        )),
    }
}

impl Access {
    /// What requests pass, and the names that the server answers to.
    pub(crate) async fn gate(
        &self,
        listen: IpAddr,
        store_name: &str,
        store: &dyn Store,
        fetcher: Fetcher,
    ) -> anyhow::Result<Granted> {
        let has_tokens = !store.tokens().await.context("cannot read the tokens")?.is_empty();
        let audit = self.audit_log(store_name)?;
        let oidc = self.provider.start(fetcher)?;
        if self.token.is_none() && oidc.is_none() && !has_tokens {
            self.refuse_unguarded(listen)?;
            let (gate, hosts, egress) =
                (Gate::open(audit), Hosts::Loopback, EgressMode::SingleUser);
            return Ok(Granted { gate, hosts, egress });
        }
        let start_token = self.token.as_ref().map(|token| TokenHash::of(token.reveal()));
        let authentication = Authentication::new(start_token, oidc);
        let rates = RateSettings {
            reads: self.reads_per_minute,
            writes: self.writes_per_minute,
            runs: self.runs_per_minute,
            failures: self.failures_per_minute,
        };
        let names = self.host.iter().map(|name| name.trim().to_owned());
        let names = names.filter(|name| !name.is_empty()).collect();
        let gate = Gate::guarded(authentication, rates, audit);
        let hosts = Hosts::Named { listen, names };
        Ok(Granted { gate, hosts, egress: EgressMode::Guarded })
    }

    /// Without authentication nobody but the machine's own users may reach the API.
    fn refuse_unguarded(&self, listen: IpAddr) -> anyhow::Result<()> {
        let how = "make a token with kalends token create --role owner --scope /, or set \
                   KALENDS_TOKEN or --oidc-issuer";
        if !listen.is_loopback() {
            bail!(
                "{listen} is no loopback address, and no authentication is configured; {how}, or \
                 listen on 127.0.0.1"
            );
        }
        if !self.host.is_empty() {
            bail!("--host lets others in, and no authentication is configured; {how}");
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
