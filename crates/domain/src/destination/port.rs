//! Blocked ports: services other than web servers.

use std::ops::RangeInclusive;

/// The "bad ports" of the WHATWG Fetch standard, and ports of databases, message brokers and cluster
/// APIs that would process an HTTP request. In ascending order.
const BLOCKED: [RangeInclusive<u16>; 71] = [
    0..=1,
    7..=7,
    9..=9,
    11..=11,
    13..=13,
    15..=15,
    17..=17,
    19..=23,
    25..=25,
    37..=37,
    42..=43,
    53..=53,
    69..=69,
    77..=77,
    79..=79,
    87..=87,
    95..=95,
    101..=104,
    109..=111,
    113..=113,
    115..=115,
    117..=117,
    119..=119,
    123..=123,
    135..=135,
    137..=137,
    139..=139,
    143..=143,
    161..=161,
    179..=179,
    389..=389,
    427..=427,
    465..=465,
    512..=515,
    526..=526,
    530..=532,
    540..=540,
    548..=548,
    554..=554,
    556..=556,
    563..=563,
    587..=587,
    601..=601,
    636..=636,
    989..=990,
    993..=993,
    995..=995,
    1719..=1720,
    1723..=1723,
    2049..=2049,
    2375..=2376,
    2379..=2380,
    3306..=3306,
    3659..=3659,
    4045..=4045,
    4190..=4190,
    5060..=5061,
    5432..=5432,
    5672..=5672,
    6000..=6000,
    6379..=6379,
    6566..=6566,
    6665..=6669,
    6679..=6679,
    6697..=6697,
    9200..=9200,
    9300..=9300,
    10080..=10080,
    10250..=10250,
    11211..=11211,
    27017..=27017,
];

/// Whether a port is blocked by default.
pub(super) fn is_blocked(port: u16) -> bool {
    let first = BLOCKED.partition_point(|range| *range.end() < port);
    BLOCKED.get(first).is_some_and(|range| range.contains(&port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_found_by_binary_search() {
        assert!(BLOCKED.is_sorted_by(|one, next| one.end() < next.start()));
        for port in 0..=u16::MAX {
            assert_eq!(is_blocked(port), BLOCKED.iter().any(|range| range.contains(&port)));
        }
    }

    #[test]
    fn web_ports_are_open_and_ports_of_other_services_are_blocked() {
        for port in [80, 443, 8080, 8443, 3000, 5000, 7071, 10001, 24, 65_535] {
            assert!(!is_blocked(port), "{port}");
        }
        for port in
            [0, 1, 19, 21, 22, 23, 25, 53, 104, 110, 515, 993, 2375, 5432, 6379, 6667, 27017]
        {
            assert!(is_blocked(port), "{port}");
        }
    }
}
