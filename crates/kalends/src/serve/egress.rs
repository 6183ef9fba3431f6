//! Settings of the door to the network: where jobs may go, and how.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

use anyhow::Context as _;
use kalends_actions::{EgressSettings, Proxy};
use kalends_domain::{AllowEntry, EgressMode, EgressPolicy, ForbiddenEndpoint};
use url::Url;

/// The port of PostgreSQL where an address names none.
const POSTGRES_PORT: u16 = 5432;

#[derive(clap::Args)]
pub(super) struct EgressArguments {
    /// Where jobs may go: what is public, also the machine and its neighbours, or only what is
    /// allowed [default: single-user on a loopback address without authentication, else guarded]
    #[arg(long, env = "KALENDS_EGRESS_MODE", value_name = "MODE")]
    egress_mode: Option<Mode>,

    // Not a doc comment: the brackets would be links.
    #[arg(
        long,
        env = "KALENDS_EGRESS_ALLOW",
        value_name = "ENTRY",
        value_delimiter = ',',
        value_parser = AllowEntry::parse,
        help = "Where jobs may go beside that: TARGET[:PORT][@SUBSCRIPTION/GROUP/COLLECTION], where \
                TARGET is a range of addresses such as 10.1.0.0/16, a host name, or *.DOMAIN; may be \
                repeated"
    )]
    egress_allow: Vec<AllowEntry>,

    /// A file of certificates in PEM that are trusted beside those of the system
    #[arg(long, env = "KALENDS_EGRESS_CA", value_name = "FILE")]
    egress_ca: Option<PathBuf>,

    /// The proxy through which jobs go; those named in HTTP_PROXY and its like are not used
    #[arg(long, env = "KALENDS_EGRESS_PROXY", value_name = "URL", value_parser = Proxy::read)]
    egress_proxy: Option<Proxy>,

    /// The name server that is asked in the place of the system's; may be repeated
    #[arg(long, env = "KALENDS_EGRESS_DNS", value_name = "ADDRESS:PORT", value_delimiter = ',')]
    egress_dns: Vec<SocketAddr>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Mode {
    Guarded,
    SingleUser,
    Listed,
}

impl EgressArguments {
    /// Says at the start what is open beside the usual.
    pub(super) fn announce(&self, mode: EgressMode) {
        if mode == EgressMode::SingleUser {
            tracing::info!("jobs may reach this machine and its neighbours (single user)");
        }
        for entry in &self.egress_allow {
            tracing::info!("jobs may reach {entry}");
        }
    }

    /// The settings of a server that listens at `listen` and keeps everything in `store`; `usual`
    /// holds where no mode is set.
    pub(super) fn settings(
        &self,
        usual: EgressMode,
        listen: SocketAddr,
        store: &str,
    ) -> anyhow::Result<EgressSettings> {
        let mode = match self.egress_mode {
            None => usual,
            Some(Mode::Guarded) => EgressMode::Guarded,
            Some(Mode::SingleUser) => EgressMode::SingleUser,
            Some(Mode::Listed) => EgressMode::Listed,
        };
        let trusted = match &self.egress_ca {
            None => Vec::new(),
            Some(file) => {
                let read = std::fs::read(file);
                read.with_context(|| format!("--egress-ca: cannot read {}", file.display()))?
            }
        };
        let proxy = self.egress_proxy.iter().flat_map(|proxy| addresses(&proxy.host, proxy.port));
        let theirs = database(store).into_iter().chain(proxy).map(ForbiddenEndpoint::At);
        let forbidden =
            [ForbiddenEndpoint::OwnPort(listen.port())].into_iter().chain(theirs).collect();
        Ok(EgressSettings {
            policy: EgressPolicy { mode, allow: self.egress_allow.clone(), forbidden },
            trusted,
            proxy: self.egress_proxy.clone(),
            name_servers: self.egress_dns.clone(),
            ..EgressSettings::default()
        })
    }
}

/// Where the database is, as far as its address says; a socket in the file system is out of reach
/// anyway.
fn database(store: &str) -> Vec<SocketAddr> {
    let Some(url) = Url::parse(store).ok().filter(|url| url.scheme().starts_with("postgres"))
    else {
        return Vec::new();
    };
    let query = |wanted: &str| {
        let found = url.query_pairs().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.into_owned())
    };
    let host = url.host_str().filter(|host| !host.is_empty()).map(str::to_owned);
    let hosts = host.or_else(|| query("host")).unwrap_or_default();
    let port = url.port().or_else(|| query("port")?.parse().ok()).unwrap_or(POSTGRES_PORT);
    let hosts = hosts.split(',').map(|host| host.trim_matches(['[', ']']));
    let hosts = hosts.filter(|host| !host.is_empty() && !host.starts_with(['/', '%']));
    hosts.flat_map(|host| addresses(host, port)).collect()
}

fn addresses(host: &str, port: u16) -> Vec<SocketAddr> {
    (host, port).to_socket_addrs().map(Iterator::collect).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_the_database_is_read_from_its_name() {
        let at = |text: &str| vec![text.parse::<SocketAddr>().unwrap()];
        assert_eq!(database("postgres://u:p@10.0.0.7/db"), at("10.0.0.7:5432"));
        assert_eq!(database("postgresql://u@[::1]:6000/db"), at("[::1]:6000"));
        assert_eq!(database("postgres:///db?host=10.0.0.8&port=7000"), at("10.0.0.8:7000"));
        for none in ["sqlite:kalends.db", "postgres://%2Fvar%2Frun/db", "postgres:///db?host=/run"]
        {
            assert_eq!(database(none), [], "{none}");
        }
    }
}
