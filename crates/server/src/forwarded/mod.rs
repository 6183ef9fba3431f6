//! Requests that a reverse proxy passes on: client address, scheme and host as the proxy names them.
//!
//! Only a proxy whose address the operator trusts is believed: every client can send these headers.
//! A chain of proxies is read from its end, where the nearest proxy has added its entry. The client
//! is the first address that is no trusted proxy; entries before it come from the client and are not
//! read. An invalid value ends the chain or is ignored.

mod header;

use std::net::IpAddr;

use http::{HeaderMap, HeaderName};
use kalends_domain::Network;

use self::header::{ForwardedElement, node_address, parse_forwarded};
use crate::client::Client;

const FORWARDED: HeaderName = http::header::FORWARDED;
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Addresses of reverse proxies whose headers are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<Network>);

impl TrustedProxies {
    /// Trusts the addresses in these networks.
    pub fn new(networks: Vec<Network>) -> TrustedProxies {
        TrustedProxies(networks)
    }

    pub(crate) fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(address))
    }
}

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    fn parse(text: &str) -> Option<Scheme> {
        [Scheme::Http, Scheme::Https]
            .into_iter()
            .find(|scheme| text.eq_ignore_ascii_case(scheme.as_str()))
    }
}

/// A request as its client sent it, before proxies passed it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestSource {
    pub(crate) client: Client,
    pub(crate) scheme: Scheme,
    /// Host that a proxy received; `None` if that is the `Host` of the request.
    pub(crate) host: Option<String>,
}

impl RequestSource {
    /// The source of a request with these headers, on a connection with this peer and scheme.
    pub(crate) fn read(
        proxies: &TrustedProxies,
        peer: IpAddr,
        scheme: Scheme,
        headers: &HeaderMap,
    ) -> RequestSource {
        let peer = peer.to_canonical();
        let direct = RequestSource { client: Client(peer), scheme, host: None };
        if !proxies.contain(peer) {
            return direct;
        }
        let standard = chain_of_forwarded(headers).map(|chain| chain.source(proxies, &direct));
        let common = chain_of_x_headers(headers).map(|chain| chain.source(proxies, &direct));
        match (standard, common) {
            (Some(source), None) | (None, Some(source)) => source,
            // A proxy that sets one kind passes on the other as the client sent it.
            (Some(standard), Some(common)) if standard == common => standard,
            _ => direct,
        }
    }
}

/// The values that a chain of proxies added, the last proxy first.
struct Chain {
    /// Addresses that the proxies were contacted from; `None` where one is invalid or hidden.
    addresses: Vec<Option<IpAddr>>,
    schemes: Vec<Option<Scheme>>,
    hosts: Vec<Option<String>>,
}

impl Chain {
    fn source(&self, proxies: &TrustedProxies, direct: &RequestSource) -> RequestSource {
        let (mut client, mut hops) = (direct.client, 0);
        for (number, address) in self.addresses.iter().enumerate() {
            let Some(address) = *address else { break };
            (client, hops) = (Client(address), number);
            if !proxies.contain(address) {
                break;
            }
        }
        RequestSource {
            client,
            scheme: value_at(&self.schemes, hops).unwrap_or(direct.scheme),
            host: value_at(&self.hosts, hops),
        }
    }
}

/// The value that the proxy added that the client contacted, `hops` proxies away. If not every proxy
/// adds a value, that proxy added the first one.
fn value_at<T: Clone>(values: &[Option<T>], hops: usize) -> Option<T> {
    values.get(hops).or(values.last()).cloned().flatten()
}

fn chain_of_forwarded(headers: &HeaderMap) -> Option<Chain> {
    if !headers.contains_key(FORWARDED) {
        return None;
    }
    let lines = headers.get_all(FORWARDED).iter().map(|line| line.to_str().ok());
    let invalid = || vec![ForwardedElement::default()];
    let elements = lines.map(|line| line.and_then(parse_forwarded).unwrap_or_else(invalid));
    let mut elements: Vec<_> = elements.flatten().collect();
    elements.reverse();
    Some(Chain {
        addresses: elements.iter().map(|element| element.address).collect(),
        schemes: elements.iter().map(|element| Scheme::parse(element.scheme.as_deref()?)).collect(),
        hosts: elements
            .into_iter()
            .map(|element| element.host.filter(|host| is_host(host)))
            .collect(),
    })
}

fn chain_of_x_headers(headers: &HeaderMap) -> Option<Chain> {
    let names = [FORWARDED_FOR, FORWARDED_PROTO, FORWARDED_HOST];
    if !names.iter().any(|name| headers.contains_key(name)) {
        return None;
    }
    let [addresses, schemes, hosts] = names.map(|name| {
        let lines = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or_default());
        let values = lines.flat_map(|line| line.split(','));
        let mut values: Vec<_> = values.map(str::trim).collect();
        values.reverse();
        values
    });
    Some(Chain {
        addresses: addresses.into_iter().map(node_address).collect(),
        schemes: schemes.into_iter().map(Scheme::parse).collect(),
        hosts: hosts.into_iter().map(|host| is_host(host).then(|| host.to_owned())).collect(),
    })
}

/// Whether a text is a host with an optional port, and nothing else that a URL would give a meaning.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (text, None),
    };
    let is_name = |name: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        !name.is_empty() && name.bytes().all(allowed)
    };
    let is_port =
        |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_valid = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => is_name(name),
    };
    is_valid && port.is_none_or(is_port)
}

#[cfg(test)]
mod tests;
