//! The destination of a connection.

use kalends_domain::CollectionPath;
use url::{Host, Url};

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Security {
    Plain,
    Tls,
}

/// Host, port and security of a connection, and the collection that opens it.
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

    /// The destination of an http or https URL; `None` for other schemes.
    pub(crate) fn of_url(url: &Url, collection: &CollectionPath) -> Option<Destination> {
        let security = match url.scheme() {
            "http" => Security::Plain,
            "https" => Security::Tls,
            _ => return None,
        };
        let (host, port) = (url.host()?.to_owned(), url.port_or_known_default()?);
        Some(Destination::new(security, host, port, collection.clone()))
    }

    /// The host as a TLS server name: without brackets and without a trailing dot.
    pub(crate) fn server_name(&self) -> String {
        match &self.host {
            Host::Domain(name) => name.trim_end_matches('.').to_owned(),
            Host::Ipv4(v4) => v4.to_string(),
            Host::Ipv6(v6) => v6.to_string(),
        }
    }
}
