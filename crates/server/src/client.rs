//! The client of a request, and the addresses that count as one client.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Prefix length by which IPv6 clients are counted: a subscriber usually has a whole /64 network.
const IPV6_PREFIX_BITS: u32 = 64;

/// Address of the client of a request: the peer of its connection, or the client that a trusted
/// proxy names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client(pub(crate) IpAddr);

/// Addresses that limits count as one client: an IPv4 address or an IPv6 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientNetwork(IpAddr);

impl From<IpAddr> for ClientNetwork {
    fn from(address: IpAddr) -> ClientNetwork {
        ClientNetwork(match address.to_canonical() {
            IpAddr::V4(v4) => v4.into(),
            IpAddr::V6(v6) => {
                Ipv6Addr::from_bits(v6.to_bits() & !(u128::MAX >> IPV6_PREFIX_BITS)).into()
            }
        })
    }
}

impl From<Client> for ClientNetwork {
    fn from(client: Client) -> ClientNetwork {
        client.0.into()
    }
}

impl fmt::Display for ClientNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_clients_are_counted_by_network_and_mapped_ones_by_ipv4_address() {
        let check = |address: &str, expected: &str| {
            let network = ClientNetwork::from(address.parse::<IpAddr>().unwrap());
            assert_eq!(network.to_string(), expected, "{address}");
        };
        check("192.0.2.7", "192.0.2.7");
        check("::ffff:192.0.2.7", "192.0.2.7");
        check("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::");
        check("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::");
    }
}
