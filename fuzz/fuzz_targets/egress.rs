//! Checks arbitrary URIs and resolved addresses against the egress policy, and every allowed address
//! against an independent classification of private addresses.

#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arbitrary::Arbitrary;
use kalends_domain::{
    AddressOwner, AllowEntry, CollectionName, CollectionPath, EgressMode, EgressPolicy,
    ForbiddenEndpoint, GroupName, GroupPath, Limits, SubscriptionId, Uri,
};
use libfuzzer_sys::fuzz_target;
use url::{Host, Url};

#[derive(Arbitrary, Debug)]
struct Input {
    uri: String,
    single_user: bool,
    allow: Option<String>,
    v4: [u8; 4],
    v6: [u8; 16],
    is_v4: bool,
    is_ours: bool,
}

const OWN_PORT: u16 = 8080;

/// Classifies an address with the standard library and arithmetic, without the table of the policy.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_private_v4(v4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_private_v4(v4),
            None => is_private_v6(v6),
        },
    }
}

fn is_private_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, d] = v4.octets();
    v4.is_private()
        || v4.is_loopback()
        || v4.is_link_local()
        || v4.is_broadcast()
        || v4.is_documentation()
        || v4.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (b == 18 || b == 19))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a, b, c, d) == (168, 63, 129, 16)
}

fn is_private_v6(v6: Ipv6Addr) -> bool {
    let [a, b, _, _, e, f, _, _] = v6.segments();
    a >> 13 != 1
        || (a == 0x2001 && b < 0x200)
        || (a == 0x2001 && b == 0xdb8)
        || a == 0x2002
        || (a == 0x3fff && b < 0x1000)
        || (f == 0x5efe && (e == 0 || e == 0x200))
}

/// Whether an address is forbidden even in single-user mode.
fn is_always_forbidden(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            v4.is_link_local()
                || v4.is_unspecified()
                || v4.is_multicast()
                || [[168, 63, 129, 16], [100, 100, 100, 200], [192, 0, 0, 192]]
                    .contains(&v4.octets())
        }
        IpAddr::V6(v6) => {
            v6.is_unicast_link_local()
                || v6.is_multicast()
                || v6.is_unspecified()
                || v6.segments() == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]
                || v6.segments() == [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]
        }
    }
}

/// Whether a range entry can open an address that is forbidden without entries.
fn is_openable(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_unspecified() || address.is_multicast()
}

fn collection() -> Option<CollectionPath> {
    let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").ok()?;
    let group = GroupPath { subscription, group: GroupName::new("rg").ok()? };
    Some(CollectionPath { group, collection: CollectionName::new("jc").ok()? })
}

fuzz_target!(|input: Input| {
    let Some(collection) = collection() else { return };
    let entry = input.allow.as_deref().and_then(|text| AllowEntry::parse(text).ok());
    if let Some(entry) = &entry {
        assert_eq!(
            AllowEntry::parse(&entry.to_string()).as_ref(),
            Ok(entry),
            "an entry parses its own text"
        );
    }
    let mode = if input.single_user { EgressMode::SingleUser } else { EgressMode::Guarded };
    let forbidden = vec![ForbiddenEndpoint::OwnPort(OWN_PORT)];
    let has_entry = entry.is_some();
    let policy = EgressPolicy { mode, allow: entry.into_iter().collect(), forbidden };
    let Ok(uri) = Uri::new(&input.uri, &Limits::default()) else { return };
    let is_open = policy.check_uri(&uri, &collection).is_ok();
    let url = Url::parse(uri.as_str()).expect("a validated URI parses");
    let host = url.host().expect("a validated URI has a host").to_owned();
    let port = url.port_or_known_default().expect("a validated URI has a port");
    let (literal, address): (bool, IpAddr) = match &host {
        Host::Ipv4(v4) => (true, (*v4).into()),
        Host::Ipv6(v6) => (true, (*v6).into()),
        Host::Domain(_) if input.is_v4 => (false, input.v4.into()),
        Host::Domain(_) => (false, input.v6.into()),
    };
    let whose = if input.is_ours { AddressOwner::ThisHost } else { AddressOwner::Other };
    let is_reached =
        is_open && policy.check_address(&host, address, port, &collection, whose).is_ok();
    if !is_reached {
        return;
    }
    assert_ne!(port, 0);
    let is_this_machine = input.is_ours || address.to_canonical().is_loopback();
    assert!(!(port == OWN_PORT && is_this_machine), "reached the server itself");
    assert!(!is_always_forbidden(address) || is_openable(address), "{host} {address}");
    if has_entry {
        return;
    }
    match mode {
        EgressMode::SingleUser => assert!(!is_always_forbidden(address), "{host} {address}"),
        _ => {
            assert!(!is_private(address), "{host} {address}");
            assert!(!input.is_ours, "{host} {address}");
            assert!(![22, 25, 53, 6379, 5432].contains(&port), "{port}");
            let name = host.to_string().trim_end_matches('.').to_ascii_lowercase();
            let is_local =
                name == "localhost" || name.ends_with(".internal") || !name.contains('.');
            assert!(literal || !is_local, "{name}");
        }
    }
});
