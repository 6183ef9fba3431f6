//! Egress policy: combines the mode, the built-in tables and the allow entries.

use std::net::{IpAddr, SocketAddr};

use url::{Host, Url};

use super::address::{AddressClass, classify_address};
use super::allow::AllowEntry;
use super::name::{self, NameKind};
use super::port;
use crate::http::Uri;
use crate::name::CollectionPath;
use crate::validation_error::{ValidationError, ValidationErrorKind};

/// The default reach of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EgressMode {
    /// Public addresses only. For servers with several users.
    #[default]
    Guarded,
    /// Also this host and private networks, on any port. For a single user, who can reach them
    /// directly anyway.
    SingleUser,
    /// Only destinations with an allow entry.
    Listed,
}

/// An endpoint of the service itself, which no allow entry can open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForbiddenEndpoint {
    /// A port of this host, such as that of the API.
    OwnPort(u16),
    /// A socket address, such as that of the database or the proxy.
    At(SocketAddr),
}

/// Whether an address belongs to this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressOwner {
    /// A network interface of this host has the address.
    ThisHost,
    /// The address belongs to another host, or the owner was not determined.
    Other,
}

/// The reason why the policy denies a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressDenial {
    /// The address is private or blocked.
    #[error("jobs may not reach the address {0}")]
    Address(IpAddr),
    /// The host name is local or that of a metadata service.
    #[error("jobs may not reach this name")]
    Name,
    /// The port is blocked.
    #[error("jobs may not reach port {0}")]
    Port(u16),
    /// [`EgressMode::Listed`] is active, and no allow entry matches.
    #[error("jobs may reach allowed destinations only")]
    NotListed,
    /// The destination is the server itself, its database or its proxy.
    #[error("jobs may not reach the server, its database or its proxy")]
    OwnService,
}

/// The destinations that jobs can reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    /// Default reach of jobs.
    pub mode: EgressMode,
    /// Destinations that are allowed in addition.
    pub allow: Vec<AllowEntry>,
    /// Endpoints that are always denied.
    pub forbidden: Vec<ForbiddenEndpoint>,
}

impl EgressPolicy {
    /// Checks the URI of a job definition, without DNS resolution.
    pub fn check_uri(&self, uri: &Uri, collection: &CollectionPath) -> Result<(), ValidationError> {
        let invalid =
            |message: &str| ValidationError::new(ValidationErrorKind::InvalidUri, message);
        let url = Url::parse(uri.as_str()).map_err(|_| invalid("must be a valid URI"))?;
        let host = url.host().ok_or_else(|| invalid("must have a host"))?;
        let port = url.port_or_known_default().unwrap_or_default();
        self.check_host(&host, port, collection).map_err(|denial| {
            let kind = match denial {
                EgressDenial::Port(_) => ValidationErrorKind::PortNotAllowed,
                _ => ValidationErrorKind::DestinationNotAllowed,
            };
            let error = ValidationError::new(kind, format!("must not target {host}: {denial}"));
            let error = error.without_value();
            match denial == EgressDenial::OwnService || is_never_open(&host) {
                true => error.hint("no setting allows it"),
                false => error.hint("operators allow destinations with --egress-allow"),
            }
        })
    }

    /// Checks a host and port before DNS resolution.
    pub fn check_host(
        &self,
        host: &Host<impl AsRef<str>>,
        port: u16,
        collection: &CollectionPath,
    ) -> Result<(), EgressDenial> {
        let literal = match host {
            Host::Ipv4(v4) => IpAddr::V4(*v4),
            Host::Ipv6(v6) => IpAddr::V6(*v6),
            Host::Domain(name) => return self.check_name(name.as_ref(), port, collection),
        };
        self.check_address(host, literal, port, collection, AddressOwner::Other)
    }

    fn check_name(
        &self,
        name: &str,
        port: u16,
        collection: &CollectionPath,
    ) -> Result<(), EgressDenial> {
        let entries = || self.entries(port, collection);
        let is_named = entries().any(|entry| entry.has_name(name));
        let kind = name::kind(name);
        let is_open = match (self.mode, kind) {
            (_, NameKind::Metadata) => false,
            _ if is_named => true,
            (EgressMode::SingleUser, _) | (EgressMode::Guarded, NameKind::Public) => true,
            (EgressMode::Guarded, NameKind::Local) => false,
            // The resolved addresses can match an allow entry.
            (EgressMode::Listed, _) => entries().any(AllowEntry::is_network),
        };
        if !is_open {
            return Err(match self.mode {
                EgressMode::Listed => EgressDenial::NotListed,
                _ => EgressDenial::Name,
            });
        }
        // If some addresses allow the port, the decision waits for DNS resolution.
        let may_be_open = self.mode == EgressMode::SingleUser && port != 0
            || entries().any(|entry| {
                entry.names_port(port) && (entry.is_network() || entry.has_name(name))
            });
        match port::is_blocked(port) && !may_be_open {
            true => Err(EgressDenial::Port(port)),
            false => Ok(()),
        }
    }

    /// Checks one resolved address of a host.
    pub fn check_address(
        &self,
        host: &Host<impl AsRef<str>>,
        address: IpAddr,
        port: u16,
        collection: &CollectionPath,
        owner: AddressOwner,
    ) -> Result<(), EgressDenial> {
        let address = address.to_canonical();
        if self.is_forbidden(address, port, owner) {
            return Err(EgressDenial::OwnService);
        }
        let name = match host {
            Host::Domain(name) => Some(name.as_ref()),
            _ => None,
        };
        let class = classify_address(address);
        let opening = || {
            let entries = self.entries(port, collection);
            entries.filter(|entry| entry.opens(name, address, class))
        };
        let is_inside = matches!(class, AddressClass::Private | AddressClass::Loopback);
        let is_open_inside = self.mode == EgressMode::SingleUser && is_inside;
        let port_is_open = !port::is_blocked(port)
            || (is_open_inside && port != 0)
            || opening().any(|entry| entry.names_port(port));
        if !port_is_open {
            return Err(EgressDenial::Port(port));
        }
        let is_open_by_mode = match (self.mode, class) {
            (EgressMode::SingleUser, AddressClass::Public) => true,
            (EgressMode::Guarded, AddressClass::Public) => owner == AddressOwner::Other,
            _ => is_open_inside,
        };
        let is_open = is_open_by_mode || opening().next().is_some();
        match (is_open, self.mode) {
            (true, _) => Ok(()),
            (false, EgressMode::Listed) => Err(EgressDenial::NotListed),
            (false, _) => Err(EgressDenial::Address(address)),
        }
    }

    fn is_forbidden(&self, address: IpAddr, port: u16, owner: AddressOwner) -> bool {
        let is_here =
            owner == AddressOwner::ThisHost || address.is_loopback() || address.is_unspecified();
        self.forbidden.iter().any(|forbidden| match forbidden {
            ForbiddenEndpoint::OwnPort(own) => *own == port && is_here,
            ForbiddenEndpoint::At(at) => at.ip().to_canonical() == address && at.port() == port,
        })
    }

    fn entries<'a>(
        &'a self,
        port: u16,
        collection: &'a CollectionPath,
    ) -> impl Iterator<Item = &'a AllowEntry> {
        self.allow.iter().filter(move |entry| entry.is_for(collection) && entry.is_for_port(port))
    }
}

/// Whether no allow entry opens a host.
fn is_never_open(host: &Host<&str>) -> bool {
    let is_forbidden =
        |address: IpAddr| classify_address(address.to_canonical()) == AddressClass::Forbidden;
    match host {
        Host::Domain(name) => name::kind(name) == NameKind::Metadata,
        Host::Ipv4(v4) => is_forbidden(IpAddr::V4(*v4)),
        Host::Ipv6(v6) => is_forbidden(IpAddr::V6(*v6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::name::{CollectionName, GroupName, GroupPath, SubscriptionId};

    fn collection(name: &str) -> CollectionPath {
        let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
        let group = GroupPath { subscription, group: GroupName::new("rg").unwrap() };
        CollectionPath { group, collection: CollectionName::new(name).unwrap() }
    }

    fn policy(mode: EgressMode, allow: &[&str]) -> EgressPolicy {
        let allow = allow.iter().map(|text| AllowEntry::parse(text).unwrap()).collect();
        let forbidden = vec![
            ForbiddenEndpoint::OwnPort(8080),
            ForbiddenEndpoint::At("10.0.0.7:5432".parse().unwrap()),
        ];
        EgressPolicy { mode, allow, forbidden }
    }

    /// Checks a URI and, if given, a resolved address of its host.
    fn check(policy: &EgressPolicy, uri: &str, address: Option<&str>) -> Result<(), EgressDenial> {
        let jc = collection("jc");
        let url = Url::parse(Uri::new(uri, &Limits::default()).unwrap().as_str()).unwrap();
        let (host, port) = (url.host().unwrap(), url.port_or_known_default().unwrap());
        policy.check_host(&host, port, &jc)?;
        match address {
            None => Ok(()),
            Some(address) => {
                let address = address.parse().unwrap();
                policy.check_address(&host, address, port, &jc, AddressOwner::Other)
            }
        }
    }

    #[test]
    fn guarded_mode_denies_every_spelling_of_internal_addresses() {
        let policy = policy(EgressMode::Guarded, &[]);
        for uri in [
            "http://127.0.0.1:8000/",
            "http://localhost/",
            "http://localhost./",
            "http://[::1]/",
            "http://0/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://\u{ff11}\u{ff12}\u{ff17}.0.0.1/",
            "http://169.254.169.254/latest/meta-data/",
            "http://[fd00:ec2::254]/",
            "http://168.63.129.16/",
            "http://metadata.google.internal/",
            "http://metadata/",
            "http://printer.local/",
            "http://db/",
            "http://[::ffff:10.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[64:ff9b::a00:1]/",
            "http://[2002:7f00:1::]/",
        ] {
            assert!(
                matches!(
                    check(&policy, uri, None),
                    Err(EgressDenial::Address(_) | EgressDenial::Name)
                ),
                "{uri}"
            );
        }
        assert_eq!(check(&policy, "http://example.com:22/", None), Err(EgressDenial::Port(22)));
        assert_eq!(check(&policy, "http://8.8.8.8:25/", None), Err(EgressDenial::Port(25)));
        assert_eq!(check(&policy, "http://example.com/", Some("8.8.8.8")), Ok(()));
        let inside: IpAddr = "10.0.0.1".parse().unwrap();
        let name = check(&policy, "http://example.com/", Some("10.0.0.1"));
        assert_eq!(name, Err(EgressDenial::Address(inside)));
    }

    #[test]
    fn single_user_mode_reaches_private_networks_on_any_port_but_no_metadata_service() {
        let policy = policy(EgressMode::SingleUser, &[]);
        for uri in ["http://127.0.0.1:6379/", "http://[::1]:22/", "http://192.168.1.2/"] {
            assert_eq!(check(&policy, uri, None), Ok(()), "{uri}");
        }
        assert_eq!(check(&policy, "http://localhost:5432/", Some("127.0.0.1")), Ok(()));
        for uri in [
            "http://169.254.169.254/",
            "http://[fe80::1]/",
            "http://100.100.100.200/",
            "http://metadata.google.internal/",
            "http://0.0.0.0/",
            "http://8.8.8.8:25/",
        ] {
            assert!(check(&policy, uri, None).is_err(), "{uri}");
        }
        let blocked_port = check(&policy, "http://example.com:25/", Some("8.8.8.8"));
        assert_eq!(blocked_port, Err(EgressDenial::Port(25)));
        assert!(check(&policy, "http://example.com/", Some("169.254.169.254")).is_err());
    }

    #[test]
    fn the_server_its_database_and_its_proxy_are_always_denied() {
        for mode in [EgressMode::Guarded, EgressMode::SingleUser, EgressMode::Listed] {
            let policy = policy(mode, &["0.0.0.0/0", "0.0.0.0/0:8080", "0.0.0.0/0:5432", "::/0"]);
            for uri in ["http://127.0.0.1:8080/", "http://127.9.9.9:8080/", "http://[::1]:8080/"] {
                assert_eq!(
                    check(&policy, uri, None),
                    Err(EgressDenial::OwnService),
                    "{mode:?} {uri}"
                );
            }
            let database = check(&policy, "http://10.0.0.7:5432/", None);
            assert_eq!(database, Err(EgressDenial::OwnService));
            let ours: IpAddr = "8.8.8.8".parse().unwrap();
            let host: Host<&str> = Host::Domain("example.com");
            let own =
                policy.check_address(&host, ours, 8080, &collection("jc"), AddressOwner::ThisHost);
            assert_eq!(own, Err(EgressDenial::OwnService));
        }
    }

    #[test]
    fn guarded_mode_denies_the_public_address_of_this_host() {
        let host: Host<&str> = Host::Domain("example.com");
        let ours: IpAddr = "8.8.8.8".parse().unwrap();
        let check = |policy: &EgressPolicy| {
            policy.check_address(&host, ours, 80, &collection("jc"), AddressOwner::ThisHost)
        };
        let guarded = policy(EgressMode::Guarded, &[]);
        assert_eq!(check(&guarded), Err(EgressDenial::Address(ours)));
        assert_eq!(check(&policy(EgressMode::Guarded, &["example.com"])), Ok(()));
        assert_eq!(check(&policy(EgressMode::SingleUser, &[])), Ok(()));
    }

    #[test]
    fn allow_entries_open_exactly_what_they_name() {
        let by_address = policy(EgressMode::Guarded, &["10.1.0.0/16", "10.2.0.0/16:6379"]);
        assert_eq!(check(&by_address, "http://10.1.2.3/", None), Ok(()));
        assert_eq!(check(&by_address, "http://10.1.2.3:22/", None), Err(EgressDenial::Port(22)));
        assert_eq!(check(&by_address, "http://10.2.2.3:6379/", None), Ok(()));
        assert!(check(&by_address, "http://10.2.2.3/", None).is_err());
        assert!(check(&by_address, "http://10.3.2.3/", None).is_err());
        assert_eq!(check(&by_address, "http://a.example/", Some("10.1.2.3")), Ok(()));

        let by_name =
            policy(EgressMode::Guarded, &["db.internal=private", "queue.internal=private:5672"]);
        assert_eq!(check(&by_name, "http://db.internal/", Some("10.9.9.9")), Ok(()));
        assert_eq!(check(&by_name, "http://queue.internal:5672/", Some("10.9.9.9")), Ok(()));
        assert!(check(&by_name, "http://db.internal:6379/", None).is_err());
        assert!(check(&by_name, "http://other.internal/", None).is_err());

        let elsewhere =
            policy(EgressMode::Guarded, &["10.0.0.0/8@6c55a6f0-6593-472f-9b3e-a51a9a757b40/rg/x"]);
        assert!(check(&elsewhere, "http://10.1.2.3/", None).is_err());
        let here =
            policy(EgressMode::Guarded, &["10.0.0.0/8@6c55a6f0-6593-472f-9b3e-a51a9a757b40/RG/JC"]);
        assert_eq!(check(&here, "http://10.1.2.3/", None), Ok(()));
    }

    #[test]
    fn a_name_opens_public_addresses_and_private_ones_only_on_request() {
        let entries = ["plain.example.com:22", "inside.example.com=private", "*.corp.example"];
        for mode in [EgressMode::Guarded, EgressMode::Listed] {
            let policy = policy(mode, &entries);
            let is_open = |uri: &str, address: &str| check(&policy, uri, Some(address)).is_ok();
            assert!(is_open("http://plain.example.com:22/", "8.8.8.8"));
            for name in ["inside.example.com", "a.corp.example"] {
                let uri = format!("http://{name}/");
                assert!(is_open(&uri, "8.8.8.8"), "{mode:?} {name}");
                for inside in ["10.0.0.1", "192.168.1.1", "100.64.0.1", "fd00::1"] {
                    let may = name == "inside.example.com";
                    assert_eq!(is_open(&uri, inside), may, "{mode:?} {name} {inside}");
                }
            }
            for address in ["10.0.0.1", "127.0.0.1", "::1"] {
                assert!(!is_open("http://plain.example.com:22/", address), "{mode:?} {address}");
            }
            // The owner of a name could point it at this machine, or at a metadata service.
            for address in
                ["127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "169.254.169.254", "198.18.0.1"]
            {
                assert!(!is_open("http://inside.example.com/", address), "{mode:?} {address}");
            }
        }
    }

    #[test]
    fn loopback_addresses_are_opened_by_a_network_entry() {
        let policy = policy(EgressMode::Guarded, &["127.0.0.1:3000", "127.0.0.1:22"]);
        assert_eq!(check(&policy, "http://127.0.0.1:3000/", None), Ok(()));
        assert_eq!(check(&policy, "http://127.0.0.1:22/", None), Ok(()));
        assert_eq!(check(&policy, "http://name.example.com:3000/", Some("127.0.0.1")), Ok(()));
        assert!(check(&policy, "http://127.0.0.1:3001/", None).is_err());
    }

    #[test]
    fn no_entry_opens_metadata_services_and_link_local_addresses() {
        let entries = [
            "0.0.0.0/0",
            "::/0",
            "169.254.169.254",
            "169.254.0.0/16:80",
            "fe80::/10",
            "fd00:ec2::254",
            "168.63.129.16",
            "metadata.google.internal=private",
            "x.example.com=private",
        ];
        for mode in [EgressMode::Guarded, EgressMode::SingleUser, EgressMode::Listed] {
            let policy = policy(mode, &entries);
            for address in [
                "169.254.169.254",
                "169.254.170.2",
                "169.254.0.1",
                "::ffff:169.254.169.254",
                "64:ff9b::a9fe:a9fe",
                "64:ff9b:1::a9fe:a9fe",
                "2002:a9fe:a9fe::1",
                "::a9fe:a9fe",
                "2606:4700::5efe:169.254.169.254",
                "2001:0:1:2:3:4:5601:5601",
                "fe80::1",
                "febf::1",
                "fd00:ec2::254",
                "fd20:ce::254",
                "100.100.100.200",
                "168.63.129.16",
                "192.0.0.192",
            ] {
                let address: IpAddr = address.parse().unwrap();
                let (literal, name) = match address {
                    IpAddr::V4(v4) => (Host::<&str>::Ipv4(v4), Host::Domain("x.example.com")),
                    IpAddr::V6(v6) => (Host::<&str>::Ipv6(v6), Host::Domain("x.example.com")),
                };
                for host in [literal, name] {
                    let checked = policy.check_address(
                        &host,
                        address,
                        80,
                        &collection("jc"),
                        AddressOwner::Other,
                    );
                    assert!(checked.is_err(), "{mode:?} {host} {address}");
                }
            }
            let name = check(&policy, "http://metadata.google.internal/", Some("8.8.8.8"));
            assert!(name.is_err(), "{mode:?}");
        }
        // Other special ranges can be opened by range, for laboratories and translation gateways.
        let policy = policy(EgressMode::Guarded, &["198.18.0.0/15", "64:ff9b::/96"]);
        assert_eq!(check(&policy, "http://198.18.0.1/", None), Ok(()));
        assert_eq!(check(&policy, "http://[64:ff9b::808:808]/", None), Ok(()));
        assert!(check(&policy, "http://198.51.100.1/", None).is_err());
    }

    #[test]
    fn listed_mode_denies_everything_without_an_entry() {
        let policy = policy(EgressMode::Listed, &["*.example.com", "8.8.8.0/24"]);
        assert_eq!(check(&policy, "https://api.example.com/", Some("1.1.1.1")), Ok(()));
        assert_eq!(check(&policy, "https://dns.test/", Some("8.8.8.8")), Ok(()));
        let other = check(&policy, "https://other.test/", Some("1.1.1.1"));
        assert_eq!(other, Err(EgressDenial::NotListed));
        assert_eq!(check(&policy, "https://1.1.1.1/", None), Err(EgressDenial::NotListed));
    }
}
