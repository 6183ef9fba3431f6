//! Classification of IP addresses by range.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::network::Network;

/// The class of an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressClass {
    /// Globally routable.
    Public,
    /// Private network.
    Private,
    /// This machine.
    Loopback,
    /// Tunnel and translation addresses (which could bypass this table), multicast, documentation and
    /// unassigned addresses. An operator can open them by range.
    Blocked,
    /// Metadata services, host agents and link-local addresses. Nothing opens them: they give out
    /// the credentials of the machine.
    Forbidden,
}

/// The first network that contains an address determines its class.
const V4: [(Network, AddressClass); 20] = [
    (Network::v4(0, 0, 0, 0, 8), AddressClass::Blocked),
    (Network::v4(10, 0, 0, 0, 8), AddressClass::Private),
    // Alibaba Cloud metadata service, inside the shared address space of carriers (100.64.0.0/10).
    (Network::v4(100, 100, 100, 200, 32), AddressClass::Forbidden),
    (Network::v4(100, 64, 0, 0, 10), AddressClass::Private),
    (Network::v4(127, 0, 0, 0, 8), AddressClass::Loopback),
    // Azure host agent (WireServer), a public address.
    (Network::v4(168, 63, 129, 16, 32), AddressClass::Forbidden),
    // Link-local; metadata service of most clouds at 169.254.169.254.
    (Network::v4(169, 254, 0, 0, 16), AddressClass::Forbidden),
    (Network::v4(172, 16, 0, 0, 12), AddressClass::Private),
    // Oracle Cloud metadata service, inside the IETF protocol assignments (192.0.0.0/24).
    (Network::v4(192, 0, 0, 192, 32), AddressClass::Forbidden),
    (Network::v4(192, 0, 0, 0, 24), AddressClass::Blocked),
    // Documentation.
    (Network::v4(192, 0, 2, 0, 24), AddressClass::Blocked),
    // 6to4 relays.
    (Network::v4(192, 88, 99, 0, 24), AddressClass::Blocked),
    (Network::v4(192, 168, 0, 0, 16), AddressClass::Private),
    // Benchmarking.
    (Network::v4(198, 18, 0, 0, 15), AddressClass::Blocked),
    // Documentation.
    (Network::v4(198, 51, 100, 0, 24), AddressClass::Blocked),
    (Network::v4(203, 0, 113, 0, 24), AddressClass::Blocked),
    // Multicast.
    (Network::v4(224, 0, 0, 0, 4), AddressClass::Blocked),
    // Reserved and broadcast.
    (Network::v4(240, 0, 0, 0, 4), AddressClass::Blocked),
    (Network::v4(255, 255, 255, 255, 32), AddressClass::Blocked),
    (Network::v4(0, 0, 0, 0, 0), AddressClass::Public),
];

const METADATA_OF_AWS: Network =
    Network::single(IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)));
const METADATA_OF_GOOGLE: Network =
    Network::single(IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)));

/// The first network that contains an address determines its class. Only 2000::/3 is public; the last
/// row covers everything else, including IPv4 translation prefixes.
const V6: [(Network, AddressClass); 11] = [
    (Network::single(IpAddr::V6(Ipv6Addr::LOCALHOST)), AddressClass::Loopback),
    (METADATA_OF_AWS, AddressClass::Forbidden),
    (METADATA_OF_GOOGLE, AddressClass::Forbidden),
    (Network::v6([0xfc00, 0, 0, 0], 7), AddressClass::Private),
    // Link-local, and its deprecated site-local neighbour.
    (Network::v6([0xfe80, 0, 0, 0], 9), AddressClass::Forbidden),
    // Teredo, ORCHID, benchmarking.
    (Network::v6([0x2001, 0, 0, 0], 23), AddressClass::Blocked),
    // Documentation.
    (Network::v6([0x2001, 0xdb8, 0, 0], 32), AddressClass::Blocked),
    (Network::v6([0x3fff, 0, 0, 0], 20), AddressClass::Blocked),
    // 6to4.
    (Network::v6([0x2002, 0, 0, 0], 16), AddressClass::Blocked),
    (Network::v6([0x2000, 0, 0, 0], 3), AddressClass::Public),
    (Network::v6([0, 0, 0, 0], 0), AddressClass::Blocked),
];

/// Classifies an address. An IPv4-mapped IPv6 address is classified as IPv4.
pub fn classify_address(address: IpAddr) -> AddressClass {
    let address = address.to_canonical();
    let table = match address {
        IpAddr::V4(_) => V4.as_slice(),
        IpAddr::V6(v6) => match embedded_v4(v6).map(|v4| classify_address(v4.into())) {
            Some(AddressClass::Forbidden) => return AddressClass::Forbidden,
            Some(_) => return AddressClass::Blocked,
            None => V6.as_slice(),
        },
    };
    let row = table.iter().find(|(network, _)| network.contains(address));
    row.map_or(AddressClass::Blocked, |(_, class)| *class)
}

/// The IPv4 address that a tunnel or translation address leads to.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 =
        |high: u16, low: u16| Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match [a, b, c, d, e, f] {
        // NAT64: the well-known prefix, and the one for local use.
        [0x64, 0xff9b, 0, 0, 0, 0] | [0x64, 0xff9b, 1, ..] => v4(g, h),
        // 6to4.
        [0x2002, high, low, ..] => v4(high, low),
        // Teredo, which stores the inverted address.
        [0x2001, 0, ..] => v4(!g, !h),
        // IPv4-compatible, except for the unspecified and the loopback address.
        [0, 0, 0, 0, 0, 0] if !(g == 0 && h <= 1) => v4(g, h),
        // ISATAP.
        [.., 0 | 0x200, 0x5efe] => v4(g, h),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_is_classified_at_both_ends() {
        let cases: [(AddressClass, &[&str]); 5] = [
            (
                AddressClass::Public,
                &[
                    "1.0.0.0",
                    "9.255.255.255",
                    "11.0.0.0",
                    "100.63.255.255",
                    "100.128.0.0",
                    "168.63.129.15",
                    "168.63.129.17",
                    "172.15.255.255",
                    "172.32.0.0",
                    "192.0.1.0",
                    "198.17.255.255",
                    "198.20.0.0",
                    "223.255.255.255",
                    "8.8.8.8",
                    "::ffff:8.8.8.8",
                    "2001:200::1",
                    "2606:4700::1111",
                    "3ffe::1",
                    "3fff:1000::1",
                ],
            ),
            (
                AddressClass::Private,
                &[
                    "10.0.0.0",
                    "10.255.255.255",
                    "100.64.0.0",
                    "100.127.255.255",
                    "172.16.0.0",
                    "172.31.255.255",
                    "192.168.0.0",
                    "192.168.255.255",
                    "fc00::",
                    "fdff::1",
                    "::ffff:10.0.0.1",
                ],
            ),
            (
                AddressClass::Loopback,
                &["127.0.0.0", "127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1"],
            ),
            (
                AddressClass::Forbidden,
                &[
                    "100.100.100.200",
                    "168.63.129.16",
                    "169.254.0.0",
                    "169.254.169.254",
                    "169.254.255.255",
                    "192.0.0.192",
                    "::ffff:169.254.169.254",
                    "fd00:ec2::254",
                    "fd20:ce::254",
                    "fe80::1",
                    "febf::1",
                    "fec0::1",
                    "64:ff9b::a9fe:a9fe",
                    "64:ff9b:1::a9fe:a9fe",
                    "2002:a83f:8110::",
                    "2001:0:1:2:3:4:5601:5601",
                    "::169.254.169.254",
                    "2606:4700::5efe:169.254.169.254",
                ],
            ),
            (
                AddressClass::Blocked,
                &[
                    "0.0.0.0",
                    "0.255.255.255",
                    "192.0.0.191",
                    "192.0.0.193",
                    "192.0.2.1",
                    "192.88.99.1",
                    "198.18.0.0",
                    "198.19.255.255",
                    "198.51.100.1",
                    "203.0.113.1",
                    "224.0.0.1",
                    "240.0.0.1",
                    "255.255.255.255",
                    "::",
                    "::7f00:1",
                    "64:ff9b::a00:1",
                    "64:ff9b:1::1",
                    "100::1",
                    "2001::1",
                    "2001:1ff::1",
                    "2001:db8::1",
                    "2002:7f00:1::",
                    "3fff::1",
                    "4000::1",
                    "5f00::1",
                    "ff02::1",
                    "2606:4700::5efe:10.0.0.1",
                    "2606:4700::200:5efe:10.0.0.1",
                ],
            ),
        ];
        for (expected, texts) in cases {
            for text in texts {
                assert_eq!(classify_address(text.parse().unwrap()), expected, "{text}");
            }
        }
    }
}
