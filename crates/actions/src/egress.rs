//! The one door to the network: every outbound connection is made here.
//!
//! A name is resolved once, every address of the answer is looked at, and the connection goes to
//! exactly one that was looked at. What machines tell about themselves to whoever asks from inside
//! (link-local and host-agent addresses) is never reached.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Addresses of one name that are looked at; a name with more is refused.
const ADDRESSES_MAX: usize = 100;

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoConnection {
    /// The name has no address.
    Unresolved,
    /// An address of it may not be reached.
    Denied(IpAddr),
    /// Nobody answers there.
    Refused,
    /// There is no trusted connection.
    Untrusted(String),
}

/// A connection, plain or encrypted.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Makes connections.
#[derive(Clone)]
pub(crate) struct Egress {
    tls: TlsConnector,
}

impl Egress {
    /// Trusts what the system trusts.
    pub(crate) fn new() -> io::Result<Egress> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Egress { tls: TlsConnector::from(Arc::new(config)) })
    }

    /// A connection to the host of an address.
    pub(crate) async fn connect(&self, url: &Url) -> Result<Box<dyn Stream>, NoConnection> {
        let address = resolve(url).await?;
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
        let stream =
            connecting.map_err(|_| NoConnection::Refused)?.map_err(|_| NoConnection::Refused)?;
        // Small requests are not held back to be joined with others.
        stream.set_nodelay(true).map_err(|_| NoConnection::Refused)?;
        if url.scheme() != "https" {
            return Ok(Box::new(stream));
        }
        let untrusted = |error: String| NoConnection::Untrusted(error);
        let name = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(name).map_err(|error| untrusted(error.to_string()))?;
        let stream = self.tls.connect(name, stream).await;
        Ok(Box::new(stream.map_err(|error| untrusted(error.to_string()))?))
    }
}

async fn resolve(url: &Url) -> Result<SocketAddr, NoConnection> {
    let port = url.port_or_known_default().ok_or(NoConnection::Unresolved)?;
    let addresses: Vec<SocketAddr> = match url.host().ok_or(NoConnection::Unresolved)? {
        Host::Ipv4(address) => vec![(address, port).into()],
        Host::Ipv6(address) => vec![(address, port).into()],
        Host::Domain(name) => {
            let found = tokio::time::timeout(RESOLVE_TIMEOUT, lookup_host((name, port))).await;
            let found = found.map_err(|_| NoConnection::Unresolved)?;
            found.map_err(|_| NoConnection::Unresolved)?.take(ADDRESSES_MAX + 1).collect()
        }
    };
    // One address that may not be reached makes the whole name suspect.
    if let Some(denied) = addresses.iter().find(|address| is_denied(address.ip())) {
        return Err(NoConnection::Denied(denied.ip()));
    }
    let few = addresses.len() <= ADDRESSES_MAX;
    addresses.first().copied().filter(|_| few).ok_or(NoConnection::Unresolved)
}

/// Where machines tell about themselves.
fn is_denied(address: IpAddr) -> bool {
    const AZURE_HOST_AGENT: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);
    const ALIBABA_METADATA: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
    const ORACLE_METADATA: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 192);
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
                || [AZURE_HOST_AGENT, ALIBABA_METADATA, ORACLE_METADATA].contains(&v4)
        }
        IpAddr::V6(v6) => {
            let metadata = ["fd00:ec2::254", "fd20:ce::254"];
            v6.is_unicast_link_local()
                || v6.is_multicast()
                || metadata.iter().any(|text| text.parse() == Ok(v6))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_addresses_are_never_reached() {
        for text in [
            "169.254.169.254",
            "168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
            "::ffff:169.254.169.254",
            "fe80::1",
            "fd00:ec2::254",
            "224.0.0.1",
        ] {
            assert!(is_denied(text.parse().unwrap()), "{text}");
        }
        for text in ["127.0.0.1", "10.0.0.1", "8.8.8.8", "::1", "2001:4860:4860::8888"] {
            assert!(!is_denied(text.parse().unwrap()), "{text}");
        }
    }
}
