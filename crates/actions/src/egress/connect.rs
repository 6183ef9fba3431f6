//! Resolves, checks and connects to a destination.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{AddressOwner, EgressPolicy, Secret};
use kalends_environment::{Entropy, Stopwatch};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Host;

use super::destination::{Destination, Security};
use super::error::{ConnectError, IdentityError, ProxyError};
use super::proxy;
use super::resolve::Resolver;
use super::settings::{EgressSettings, Proxy};
use super::tls::{Identity, TlsClient};
use super::transport::Transport;
use crate::timing::{AttemptTimer, Phase};

/// Addresses of one host name that are checked; a name with more is refused.
const ADDRESSES_MAX: usize = 100;
/// Addresses of one host name that are tried.
const ADDRESSES_TRIED_MAX: usize = 8;
/// Time limit of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);

/// The protocols offered in the TLS handshake (ALPN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocols {
    /// HTTP/2 and HTTP/1.1; the server selects one.
    Http,
    /// None, for protocols other than HTTP.
    Other,
}

/// The addresses of a destination, each allowed by the egress policy.
pub(crate) enum ResolvedAddresses {
    /// A literal address, which the policy checked as a host.
    Literal(SocketAddr),
    /// The addresses of a name.
    Found(Vec<SocketAddr>),
}

impl ResolvedAddresses {
    /// The address that is tried first.
    pub(crate) fn first(&self) -> Option<SocketAddr> {
        self.as_slice().first().copied()
    }

    fn as_slice(&self) -> &[SocketAddr] {
        match self {
            ResolvedAddresses::Literal(address) => std::slice::from_ref(address),
            ResolvedAddresses::Found(addresses) => addresses,
        }
    }

    fn literal(address: IpAddr, port: u16) -> ResolvedAddresses {
        ResolvedAddresses::Literal(SocketAddr::new(address.to_canonical(), port))
    }
}

/// Opens connections; clones share the settings and caches.
#[derive(Clone)]
pub(crate) struct Egress(Arc<Inner>);

struct Inner {
    policy: EgressPolicy,
    resolver: Resolver,
    tls: Arc<TlsClient>,
    proxy: Option<Proxy>,
    connect_timeout: Duration,
}

impl Egress {
    pub(crate) fn new(settings: EgressSettings, entropy: Arc<dyn Entropy>) -> io::Result<Egress> {
        Ok(Egress(Arc::new(Inner {
            policy: settings.policy,
            resolver: Resolver::new(settings.name_servers, entropy),
            tls: Arc::new(TlsClient::new(&settings.ca_bundle)?),
            proxy: settings.proxy,
            connect_timeout: settings.connect_timeout,
        })))
    }

    /// Opens a connection for a protocol other than HTTP.
    pub(crate) async fn connect(
        &self,
        to: &Destination,
        identity: &Identity,
        timer: &AttemptTimer,
    ) -> Result<Transport, ConnectError> {
        let addresses = self.resolve(to, timer).await?;
        self.dial(to, &addresses, identity, Protocols::Other, timer).await
    }

    /// Reads a client certificate in PFX format.
    pub(crate) async fn identity(
        &self,
        pfx: &Secret,
        password: &Secret,
    ) -> Result<Identity, IdentityError> {
        self.0.tls.identity(pfx, password).await
    }

    /// Resolves a destination. Fails unless the egress policy allows the host and every address.
    pub(crate) async fn resolve(
        &self,
        to: &Destination,
        timer: &AttemptTimer,
    ) -> Result<ResolvedAddresses, ConnectError> {
        let policy = &self.0.policy;
        policy.check_host(&to.host, to.port, &to.collection).map_err(ConnectError::Denied)?;
        let name = match &to.host {
            Host::Ipv4(v4) => return Ok(ResolvedAddresses::literal((*v4).into(), to.port)),
            Host::Ipv6(v6) => return Ok(ResolvedAddresses::literal((*v6).into(), to.port)),
            Host::Domain(name) => name,
        };
        let stopwatch = Stopwatch::start();
        let found = Box::pin(self.0.resolver.addresses(name)).await;
        timer.record(Phase::Dns, stopwatch);
        let found = found.ok_or_else(|| ConnectError::Unresolved(name.clone()))?;
        if found.len() > ADDRESSES_MAX {
            return Err(ConnectError::TooManyAddresses);
        }
        // One denied address denies the name: it may be an attempt to reach an internal host.
        for address in found.iter() {
            policy
                .check_address(&to.host, *address, to.port, &to.collection, AddressOwner::Other)
                .map_err(ConnectError::Denied)?;
        }
        let addresses = found.iter().map(|address| SocketAddr::new(*address, to.port)).collect();
        Ok(ResolvedAddresses::Found(addresses))
    }

    /// Connects to one of the addresses and completes the TLS handshake if the destination uses TLS.
    pub(crate) async fn dial(
        &self,
        to: &Destination,
        addresses: &ResolvedAddresses,
        identity: &Identity,
        protocols: Protocols,
        timer: &AttemptTimer,
    ) -> Result<Transport, ConnectError> {
        for address in addresses.as_slice() {
            let (ip, owner) = (address.ip(), address_owner(address.ip()));
            self.0
                .policy
                .check_address(&to.host, ip, to.port, &to.collection, owner)
                .map_err(ConnectError::Denied)?;
        }
        let stopwatch = Stopwatch::start();
        let stream = self.connect_any(addresses.as_slice()).await?;
        timer.record(Phase::Connect, stopwatch);
        // Nagle's algorithm would delay small requests.
        stream.set_nodelay(true).map_err(|_| ConnectError::Refused)?;
        if to.security == Security::Plain {
            return Ok(Transport::Plain(stream));
        }
        let stopwatch = Stopwatch::start();
        let handshake = self.0.tls.handshake(stream, to.server_name(), identity, protocols);
        let transport = timeout(HANDSHAKE_TIMEOUT, handshake)
            .await
            .map_err(|_| ConnectError::HandshakeTimeout)??;
        timer.record(Phase::Tls, stopwatch);
        Ok(transport)
    }

    /// Connects to the first address that accepts. One time limit covers all addresses.
    async fn connect_any(&self, addresses: &[SocketAddr]) -> Result<TcpStream, ConnectError> {
        let stopwatch = Stopwatch::start();
        let limit = self.0.connect_timeout;
        let tried = addresses.len().min(ADDRESSES_TRIED_MAX);
        let mut last = ConnectError::Refused;
        for (number, address) in addresses.iter().take(tried).enumerate() {
            let left = limit.saturating_sub(stopwatch.elapsed());
            // An address that never responds leaves time for the next.
            let share = left / u32::try_from(tried - number).unwrap_or(u32::MAX);
            match timeout(share, self.connect_one(*address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => last = ConnectError::Refused,
            }
        }
        Err(last)
    }

    async fn connect_one(&self, address: SocketAddr) -> Result<TcpStream, ConnectError> {
        match &self.0.proxy {
            None => TcpStream::connect(address).await.map_err(|_| ConnectError::Refused),
            Some(proxy) => {
                let stream = proxy::connect(proxy).await;
                let mut stream = stream.map_err(|_| ProxyError::Unreachable)?;
                proxy::open_tunnel(&mut stream, address).await?;
                Ok(stream)
            }
        }
    }
}

/// Whether an address belongs to this machine: the system then selects it as the source address of a
/// socket connected to it. Nothing is sent, and changes of interfaces take effect at once.
fn address_owner(address: IpAddr) -> AddressOwner {
    if address.is_loopback() {
        return AddressOwner::ThisHost;
    }
    let any: SocketAddr = match address {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let from = UdpSocket::bind(any).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    match from {
        Ok(from) if from.ip() == address => AddressOwner::ThisHost,
        _ => AddressOwner::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_recognised() {
        assert_eq!(address_owner(Ipv4Addr::LOCALHOST.into()), AddressOwner::ThisHost);
        assert_eq!(address_owner("198.51.100.77".parse().unwrap()), AddressOwner::Other);
        // The source address of outbound connections, if there is one.
        let from = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.connect("198.51.100.77:9")?;
            socket.local_addr()
        });
        if let Ok(from) = from {
            assert_eq!(address_owner(from.ip()), AddressOwner::ThisHost, "{from}");
        }
    }
}
