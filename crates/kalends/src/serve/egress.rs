//! Settings of outbound connections: permitted destinations, proxy, DNS and trusted certificates.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use kalends_actions::{EgressSettings, Proxy};
use kalends_domain::{AllowEntry, EgressMode, EgressPolicy, ForbiddenEndpoint, Limits};
use kalends_store::postgres::endpoints;

use crate::serve::duration::duration_in;

#[derive(clap::Args)]
#[command(next_help_heading = "Outbound connections")]
pub(super) struct EgressArguments {
    /// Destinations that jobs may reach [default: single-user on a loopback address without
    /// authentication, otherwise guarded]
    #[arg(long, env = "KALENDS_EGRESS_MODE", value_name = "MODE")]
    egress_mode: Option<Mode>,

    // Not a doc comment: rustdoc would take the brackets for links.
    #[arg(
        long,
        env = "KALENDS_EGRESS_ALLOW",
        value_name = "ENTRY",
        value_delimiter = ',',
        value_parser = AllowEntry::parse,
        help = "Additional destination that jobs may reach: \
                TARGET[:PORT][@SUBSCRIPTION/GROUP/COLLECTION], where TARGET is an address range such \
                as 10.1.0.0/16, a host name, or *.DOMAIN; can be repeated. A name opens public \
                addresses only, NAME=private also private ones; loopback needs a range. Nothing \
                opens metadata services and link-local addresses"
    )]
    egress_allow: Vec<AllowEntry>,

    /// PEM file with CA certificates that are trusted in addition to those of the system
    #[arg(long, env = "KALENDS_EGRESS_CA", value_name = "FILE")]
    egress_ca: Option<PathBuf>,

    /// HTTP proxy for jobs; the environment variables HTTP_PROXY and HTTPS_PROXY are ignored
    #[arg(long, env = "KALENDS_EGRESS_PROXY", value_name = "URL", value_parser = Proxy::parse)]
    egress_proxy: Option<Proxy>,

    /// DNS server to use instead of those of the system; can be repeated
    #[arg(long, env = "KALENDS_EGRESS_DNS", value_name = "ADDRESS:PORT", value_delimiter = ',')]
    egress_dns: Vec<SocketAddr>,

    /// Time limit of a connect, over all addresses of a host name, between PT0.1S and PT30M
    #[arg(long, env = "KALENDS_CONNECT_TIMEOUT", value_name = "DURATION", default_value = "PT20S", value_parser = timeout)]
    connect_timeout: Duration,

    /// Time limit of an attempt whose job has no timeout, between PT0.1S and PT30M
    #[arg(long, env = "KALENDS_ATTEMPT_TIMEOUT", value_name = "DURATION", default_value = "PT1M", value_parser = timeout)]
    attempt_timeout: Duration,
}

/// Parses a time limit. The longest is that of the member `timeout` of a job.
fn timeout(text: &str) -> anyhow::Result<Duration> {
    duration_in(text, Duration::from_millis(100)..=Limits::default().timeout_max)
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Mode {
    /// Public addresses, and the entries of --egress-allow
    Guarded,
    /// Also this machine and the private network
    SingleUser,
    /// Only the entries of --egress-allow
    Listed,
}

impl EgressArguments {
    /// Logs the destinations that are open in addition to public addresses.
    pub(super) fn log_exceptions(&self, mode: EgressMode) {
        if mode == EgressMode::SingleUser {
            tracing::info!("jobs may reach this machine and the private network");
        }
        for entry in &self.egress_allow {
            tracing::info!(%entry, "jobs may reach an allowed destination");
        }
    }

    /// Time limit of an attempt whose job has no timeout.
    pub(super) fn attempt_timeout(&self) -> Duration {
        self.attempt_timeout
    }

    /// Settings for a server that listens on `listen` and uses `store`. Jobs cannot reach the server's
    /// own port, its database or the proxy itself. `default_mode` applies without `--egress-mode`. The
    /// address and port of the `echo` target are always allowed.
    pub(super) fn settings(
        &self,
        default_mode: EgressMode,
        listen: SocketAddr,
        store: &str,
        echo: Option<SocketAddr>,
    ) -> anyhow::Result<EgressSettings> {
        let mode = match self.egress_mode {
            None => default_mode,
            Some(Mode::Guarded) => EgressMode::Guarded,
            Some(Mode::SingleUser) => EgressMode::SingleUser,
            Some(Mode::Listed) => EgressMode::Listed,
        };
        let ca_bundle = match &self.egress_ca {
            None => Vec::new(),
            Some(file) => {
                let read = std::fs::read(file);
                read.with_context(|| format!("--egress-ca: cannot read {}", file.display()))?
            }
        };
        let proxy = self.egress_proxy.iter().flat_map(|proxy| addresses(&proxy.host, proxy.port));
        let infrastructure =
            database_addresses(store).into_iter().chain(proxy).map(ForbiddenEndpoint::At);
        let forbidden =
            [ForbiddenEndpoint::OwnPort(listen.port())].into_iter().chain(infrastructure).collect();
        let mut allow = self.egress_allow.clone();
        // Single-user mode reaches all of this machine.
        if let Some(echo) = echo.filter(|_| mode != EgressMode::SingleUser) {
            allow.push(AllowEntry::parse(&echo.to_string())?);
        }
        Ok(EgressSettings {
            policy: EgressPolicy { mode, allow, forbidden },
            ca_bundle,
            proxy: self.egress_proxy.clone(),
            name_servers: self.egress_dns.clone(),
            connect_timeout: self.connect_timeout,
            ..EgressSettings::default()
        })
    }
}

/// Addresses of all hosts of the database in a PostgreSQL URL; none for another store.
fn database_addresses(store: &str) -> Vec<SocketAddr> {
    let is_postgres = store.starts_with("postgres");
    let endpoints = if is_postgres { endpoints(store) } else { Vec::new() };
    endpoints.iter().flat_map(|(host, port)| addresses(host, *port)).collect()
}

fn addresses(host: &str, port: u16) -> Vec<SocketAddr> {
    (host, port).to_socket_addrs().map(Iterator::collect).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use kalends_domain::{
        CollectionName, CollectionPath, GroupName, GroupPath, SubscriptionId, Uri,
    };

    use super::*;

    #[derive(clap::Parser)]
    struct Arguments {
        #[command(flatten)]
        egress: EgressArguments,
    }

    #[test]
    fn the_echo_target_is_the_only_loopback_destination_of_a_guarded_server() {
        let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
        let group = GroupPath { subscription, group: GroupName::new("rg").unwrap() };
        let collection = CollectionPath { group, collection: CollectionName::new("jc").unwrap() };
        let listen = "127.0.0.1:8080".parse().unwrap();
        for (mode, echo) in [
            (EgressMode::Guarded, "127.0.0.1:8081"),
            (EgressMode::Listed, "127.0.0.1:8081"),
            (EgressMode::Guarded, "[::1]:8081"),
        ] {
            let policy = |echo: Option<&str>| {
                let arguments = Arguments::parse_from(["test"]).egress;
                let echo = echo.map(|echo| echo.parse().unwrap());
                arguments.settings(mode, listen, "sqlite:k.db", echo).unwrap().policy
            };
            let check = |policy: &EgressPolicy, uri: &str| {
                policy.check_uri(&Uri::new(uri, &Limits::default()).unwrap(), &collection)
            };
            let policies = (policy(Some(echo)), policy(None));
            assert_eq!(check(&policies.0, &format!("http://{echo}/200")), Ok(()));
            assert!(check(&policies.1, &format!("http://{echo}/200")).is_err(), "no echo target");
            for uri in [
                "http://127.0.0.1:8082/",
                "http://127.0.0.1/",
                "http://127.0.0.2:8081/",
                "http://[::1]:8082/",
                "http://10.0.0.1:8081/",
                "http://localhost:8082/",
                "http://127.0.0.1:8080/",
            ] {
                assert!(check(&policies.0, uri).is_err(), "{mode:?} {uri}");
            }
        }
    }

    #[test]
    fn database_addresses_are_read_from_the_connection_url() {
        let at = |text: &str| vec![text.parse::<SocketAddr>().unwrap()];
        assert_eq!(database_addresses("postgres://u:p@10.0.0.7/db"), at("10.0.0.7:5432"));
        assert_eq!(database_addresses("postgresql://u@[::1]:6000/db"), at("[::1]:6000"));
        assert_eq!(
            database_addresses("postgres:///db?host=10.0.0.8&port=7000"),
            at("10.0.0.8:7000")
        );
        let both =
            |texts: [&str; 2]| texts.map(|text| text.parse::<SocketAddr>().unwrap()).to_vec();
        for (url, expected) in [
            ("postgres://u@10.0.0.7:5432,10.0.0.8:6000/db", ["10.0.0.7:5432", "10.0.0.8:6000"]),
            ("postgres://u@10.0.0.7,10.0.0.8/db", ["10.0.0.7:5432", "10.0.0.8:5432"]),
            ("postgres:///db?host=10.0.0.7,10.0.0.8&port=7000", ["10.0.0.7:7000", "10.0.0.8:7000"]),
            (
                "postgres:///db?host=10.0.0.7,10.0.0.8&port=7000,7001",
                ["10.0.0.7:7000", "10.0.0.8:7001"],
            ),
            ("postgres://[::1]:6000/db?hostaddr=10.0.0.9", ["[::1]:6000", "10.0.0.9:6000"]),
        ] {
            assert_eq!(database_addresses(url), both(expected), "{url}");
        }
        for none in ["sqlite:kalends.db", "postgres://%2Fvar%2Frun/db", "postgres:///db?host=/run"]
        {
            assert_eq!(database_addresses(none), [], "{none}");
        }
    }
}
