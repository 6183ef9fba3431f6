//! Where a connection goes.

use kalends_domain::CollectionPath;
use url::{Host, Url};

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Security {
    Plain,
    Tls,
}

/// Where a connection goes, and on behalf of which collection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Destination {
    pub(crate) security: Security,
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
    pub(crate) collection: CollectionPath,
}

impl Destination {
    pub(crate) fn new(
        security: Security,
        host: Host<String>,
        port: u16,
        collection: CollectionPath,
    ) -> Destination {
        Destination { security, host, port, collection }
    }

    /// Where an http or https address leads; none for other addresses.
    pub(crate) fn of_url(url: &Url, collection: &CollectionPath) -> Option<Destination> {
        let security = match url.scheme() {
            "http" => Security::Plain,
            "https" => Security::Tls,
            _ => return None,
        };
        let (host, port) = (url.host()?.to_owned(), url.port_or_known_default()?);
        Some(Destination::new(security, host, port, collection.clone()))
    }

    /// The host's name or address as TLS and messages have it: without brackets or a last dot.
    pub(crate) fn server_name(&self) -> String {
        match &self.host {
            Host::Domain(name) => name.trim_end_matches('.').to_owned(),
            Host::Ipv4(v4) => v4.to_string(),
            Host::Ipv6(v6) => v6.to_string(),
        }
    }
}
