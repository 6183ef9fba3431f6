//! IP networks in CIDR notation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP network: the addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

impl Network {
    pub(crate) const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Network {
        Network { first: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits }
    }

    /// Creates an IPv6 network from the first four groups of its address; the others are zero.
    pub(crate) const fn v6(groups: [u16; 4], bits: u8) -> Network {
        let [a, b, c, d] = groups;
        Network { first: IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)), bits }
    }

    /// The network that consists of a single address.
    pub const fn single(address: IpAddr) -> Network {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Network { first: address, bits }
    }

    /// Parses `10.0.0.0/8`, `fd00::/8` or a single address. Host bits must be zero; otherwise the
    /// network is probably not the one that was intended.
    pub fn parse(text: &str) -> Option<Network> {
        let Some((address, bits)) = text.split_once('/') else {
            return text.parse().ok().map(Network::single);
        };
        let first: IpAddr = address.parse().ok()?;
        let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits: u8 = bits.parse().ok().filter(|_| is_number)?;
        let network = Network { first, bits };
        let max = Network::single(first).bits;
        (bits <= max && network.masked(first) == Some(first)).then_some(network)
    }

    /// Whether the network contains an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.masked(address) == Some(self.first)
    }

    /// The address with its host bits cleared; `None` if it is of the other address family.
    fn masked(&self, address: IpAddr) -> Option<IpAddr> {
        match (self.first, address) {
            (IpAddr::V4(_), IpAddr::V4(v4)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                Some(Ipv4Addr::from_bits(v4.to_bits() & mask).into())
            }
            (IpAddr::V6(_), IpAddr::V6(v6)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                Some(Ipv6Addr::from_bits(v6.to_bits() & mask).into())
            }
            _ => None,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self == Network::single(self.first) {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}/{}", self.first, self.bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(network: &str, address: &str) -> bool {
        Network::parse(network).unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn networks_contain_the_addresses_with_their_prefix() {
        assert!(contains("10.0.0.0/8", "10.255.255.255"));
        assert!(!contains("10.0.0.0/8", "11.0.0.0"));
        assert!(contains("0.0.0.0/0", "255.255.255.255"));
        assert!(!contains("0.0.0.0/0", "::1"));
        assert!(contains("::/0", "ffff::"));
        assert!(contains("fd00::/8", "fdff::1"));
        assert!(contains("10.1.2.3", "10.1.2.3"));
        assert!(!contains("10.1.2.3", "10.1.2.2"));
    }

    #[test]
    fn invalid_networks_are_rejected() {
        for text in ["", "10.0.0.0/33", "10.0.0.1/8", "::/129", "10.0.0.0/", "10.0.0.0/+8", "x/8"] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}
