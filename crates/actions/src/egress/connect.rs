//! From a destination to a connection.

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
use super::no_connection::NoConnection;
use super::proxy;
use super::resolve::Resolver;
use super::settings::{EgressSettings, Proxy};
use super::tls::{Identity, Tls};
use super::transport::Transport;
use crate::laps::{Lap, Laps};

/// Addresses of one name that are looked at; a name with more is refused.
const ADDRESSES_MAX: usize = 100;
/// Addresses of one name that are tried.
const ADDRESSES_TRIED_MAX: usize = 8;
/// How long agreeing on encryption may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);

/// What will be spoken over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocols {
    /// HTTP/2 or HTTP/1.1, as the other side likes.
    Http,
    /// Something that is not offered by name.
    Other,
}

/// The addresses of a destination, all of them checked.
pub(crate) struct Located {
    addresses: Vec<SocketAddr>,
}

impl Located {
    /// The one that is tried first.
    pub(crate) fn first(&self) -> Option<SocketAddr> {
        self.addresses.first().copied()
    }
}

/// Makes connections.
#[derive(Clone)]
pub(crate) struct Egress(Arc<Inner>);

struct Inner {
    policy: EgressPolicy,
    resolver: Resolver,
    tls: Arc<Tls>,
    proxy: Option<Proxy>,
    connect_timeout: Duration,
}

impl Egress {
    pub(crate) fn new(settings: EgressSettings, entropy: Arc<dyn Entropy>) -> io::Result<Egress> {
        Ok(Egress(Arc::new(Inner {
            policy: settings.policy,
            resolver: Resolver::new(settings.name_servers, entropy),
            tls: Arc::new(Tls::new(&settings.trusted)?),
            proxy: settings.proxy,
            connect_timeout: settings.connect_timeout,
        })))
    }

    /// A connection for a protocol other than HTTP.
    pub(crate) async fn connect(
        &self,
        to: &Destination,
        identity: &Identity,
        laps: &Laps,
    ) -> Result<Transport, NoConnection> {
        let located = self.locate(to, laps).await?;
        self.dial(to, &located, identity, Protocols::Other, laps).await
    }

    /// Reads a client certificate. The message of a refusal holds nothing of it.
    pub(crate) async fn identity(
        &self,
        pfx: &Secret,
        password: &Secret,
    ) -> Result<Identity, String> {
        self.0.tls.identity(pfx, password).await
    }

    /// The addresses of a destination, if every one of them may be reached.
    pub(crate) async fn locate(
        &self,
        to: &Destination,
        laps: &Laps,
    ) -> Result<Located, NoConnection> {
        let policy = &self.0.policy;
        policy.check_host(&to.host, to.port, &to.collection).map_err(NoConnection::Denied)?;
        let name = match &to.host {
            Host::Ipv4(v4) => return Ok(Located::literal((*v4).into(), to.port)),
            Host::Ipv6(v6) => return Ok(Located::literal((*v6).into(), to.port)),
            Host::Domain(name) => name,
        };
        let watch = Stopwatch::start();
        let found = Box::pin(self.0.resolver.addresses(name)).await;
        laps.note(Lap::Dns, watch);
        let found = found.ok_or_else(|| NoConnection::Unresolved(name.clone()))?;
        if found.len() > ADDRESSES_MAX {
            return Err(NoConnection::TooManyAddresses);
        }
        // One address that may not be reached makes the whole name suspect.
        for address in found.iter() {
            policy
                .check_address(&to.host, *address, to.port, &to.collection, AddressOwner::Other)
                .map_err(NoConnection::Denied)?;
        }
        let addresses = found.iter().map(|address| SocketAddr::new(*address, to.port)).collect();
        Ok(Located { addresses })
    }

    /// Connects to one of the addresses.
    pub(crate) async fn dial(
        &self,
        to: &Destination,
        located: &Located,
        identity: &Identity,
        protocols: Protocols,
        laps: &Laps,
    ) -> Result<Transport, NoConnection> {
        for address in &located.addresses {
            let (ip, whose) = (address.ip(), whose(address.ip()));
            self.0
                .policy
                .check_address(&to.host, ip, to.port, &to.collection, whose)
                .map_err(NoConnection::Denied)?;
        }
        let watch = Stopwatch::start();
        let stream = self.reach(&located.addresses).await?;
        laps.note(Lap::Connect, watch);
        // Small requests are not held back to be joined with others.
        stream.set_nodelay(true).map_err(|_| NoConnection::Refused)?;
        if to.security == Security::Plain {
            return Ok(Transport::Plain(stream));
        }
        let watch = Stopwatch::start();
        let securing = self.0.tls.secure(stream, to.server_name(), identity, protocols);
        let transport = timeout(HANDSHAKE_TIMEOUT, securing)
            .await
            .map_err(|_| NoConnection::Insecure("the other side is silent".into()))??;
        laps.note(Lap::Tls, watch);
        Ok(transport)
    }

    /// The first address at which somebody answers. All together they have one time limit.
    async fn reach(&self, addresses: &[SocketAddr]) -> Result<TcpStream, NoConnection> {
        let watch = Stopwatch::start();
        let limit = self.0.connect_timeout;
        let tried = addresses.len().min(ADDRESSES_TRIED_MAX);
        let mut failure = NoConnection::Refused;
        for (number, address) in addresses.iter().take(tried).enumerate() {
            let left = limit.saturating_sub(watch.elapsed());
            // An address that swallows everything leaves time for the next.
            let share = left / u32::try_from(tried - number).unwrap_or(u32::MAX);
            match timeout(share, self.reach_one(*address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failure = error,
                Err(_) => failure = NoConnection::Refused,
            }
        }
        Err(failure)
    }

    async fn reach_one(&self, address: SocketAddr) -> Result<TcpStream, NoConnection> {
        match &self.0.proxy {
            None => TcpStream::connect(address).await.map_err(|_| NoConnection::Refused),
            Some(proxy) => {
                let stream = proxy::reach(proxy).await;
                let mut stream =
                    stream.map_err(|_| NoConnection::Proxy("nobody answers there".into()))?;
                proxy::ask_for(&mut stream, address).await?;
                Ok(stream)
            }
        }
    }
}

impl Located {
    /// An address that was checked as a host.
    fn literal(address: IpAddr, port: u16) -> Located {
        let address = SocketAddr::new(address.to_canonical(), port);
        Located { addresses: vec![address] }
    }
}

/// Whether this machine has an address: who speaks to himself speaks from it. Nothing is sent, and
/// addresses that come and go are known at once.
fn whose(address: IpAddr) -> AddressOwner {
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
    fn the_machine_knows_its_own_addresses() {
        assert_eq!(whose(Ipv4Addr::LOCALHOST.into()), AddressOwner::ThisHost);
        assert_eq!(whose("198.51.100.77".parse().unwrap()), AddressOwner::Other);
        // The address that it would speak to the world from, where it has one.
        let from = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.connect("198.51.100.77:9")?;
            socket.local_addr()
        });
        if let Ok(from) = from {
            assert_eq!(whose(from.ip()), AddressOwner::ThisHost, "{from}");
        }
    }
}
