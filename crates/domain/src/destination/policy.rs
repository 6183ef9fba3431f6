//! The decision.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use url::{Host, Url};

use super::address::{AddressClass, classify_address};
use super::allow::AllowEntry;
use super::name::{self, NameKind};
use super::port;
use crate::http::Uri;
use crate::name::CollectionPath;
use crate::validation_error::{ValidationError, ValidationErrorKind};

/// How much is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EgressMode {
    /// What is public. For servers that several people use.
    #[default]
    Guarded,
    /// Also the machine itself and its neighbours, on any port. For who could reach them anyway.
    SingleUser,
    /// What is allowed by an entry, and nothing else.
    Listed,
}

/// What is never reached, whatever an operator allows: it is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForbiddenEndpoint {
    /// A port of this machine: our own API.
    OwnPort(u16),
    /// Our database, our proxy.
    At(SocketAddr),
}

/// Whose an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressOwner {
    /// One of this machine's interfaces has it.
    ThisHost,
    /// It is elsewhere, or nobody asked.
    Other,
}

/// Why a target may not be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EgressDenial {
    /// The address.
    Address(IpAddr),
    /// The name.
    Name,
    /// The port.
    Port(u16),
    /// It is not among what is listed.
    NotListed,
    /// It is the server itself, its database or its proxy.
    OwnService,
}

impl fmt::Display for EgressDenial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EgressDenial::Address(address) => write!(f, "the address {address} may not be reached"),
            EgressDenial::Name => f.write_str("this name may not be reached"),
            EgressDenial::Port(port) => write!(f, "port {port} may not be reached"),
            EgressDenial::NotListed => f.write_str("it is not on the list of what may be reached"),
            EgressDenial::OwnService => f.write_str("the server itself may not be reached"),
        }
    }
}

/// Where jobs may go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    /// How much is open.
    pub mode: EgressMode,
    /// What is open beside that.
    pub allow: Vec<AllowEntry>,
    /// What never is.
    pub forbidden: Vec<ForbiddenEndpoint>,
}

impl EgressPolicy {
    /// What can be said of an address in a job's definition.
    pub fn check_uri(&self, uri: &Uri, collection: &CollectionPath) -> Result<(), ValidationError> {
        let invalid =
            |message: &str| ValidationError::new(ValidationErrorKind::InvalidUri, message);
        let url = Url::parse(uri.as_str()).map_err(|_| invalid("not an address"))?;
        let host = url.host().ok_or_else(|| invalid("expected a host"))?;
        let port = url.port_or_known_default().unwrap_or_default();
        self.check_host(&host, port, collection).map_err(|denial| {
            let kind = match denial {
                EgressDenial::Port(_) => ValidationErrorKind::PortNotAllowed,
                _ => ValidationErrorKind::DestinationNotAllowed,
            };
            ValidationError::new(kind, denial.to_string())
        })
    }

    /// What can be said of a host before its name is resolved.
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
            _ if is_named => true,
            (_, NameKind::Metadata) => false,
            (EgressMode::SingleUser, _) | (EgressMode::Guarded, NameKind::Public) => true,
            (EgressMode::Guarded, NameKind::Local) => false,
            // Its addresses may be listed.
            (EgressMode::Listed, _) => entries().any(AllowEntry::is_network),
        };
        if !is_open {
            return Err(match self.mode {
                EgressMode::Listed => EgressDenial::NotListed,
                _ => EgressDenial::Name,
            });
        }
        // Where a port is open to some, its addresses decide.
        let may_be_open = self.mode == EgressMode::SingleUser && port != 0
            || entries().any(|entry| {
                entry.names_port(port) && (entry.is_network() || entry.has_name(name))
            });
        match port::is_refused(port) && !may_be_open {
            true => Err(EgressDenial::Port(port)),
            false => Ok(()),
        }
    }

    /// Whether one address of a host may be reached.
    pub fn check_address(
        &self,
        host: &Host<impl AsRef<str>>,
        address: IpAddr,
        port: u16,
        collection: &CollectionPath,
        whose: AddressOwner,
    ) -> Result<(), EgressDenial> {
        let address = address.to_canonical();
        if self.is_forbidden(address, port, whose) {
            return Err(EgressDenial::OwnService);
        }
        let name = match host {
            Host::Domain(name) => Some(name.as_ref()),
            _ => None,
        };
        let is_named = |entry: &&AllowEntry| name.is_some_and(|name| entry.has_name(name));
        let entries = || self.entries(port, collection);
        let listed = |entry: &&AllowEntry| entry.has_address(address) || is_named(entry);
        let reach = classify_address(address);
        let is_at_home = self.mode == EgressMode::SingleUser && reach == AddressClass::Private;
        let port_is_open = !port::is_refused(port)
            || (is_at_home && port != 0)
            || entries().filter(listed).any(|entry| entry.names_port(port));
        if !port_is_open {
            return Err(EgressDenial::Port(port));
        }
        let is_open = match (reach, self.mode) {
            (AddressClass::Public, EgressMode::SingleUser)
            | (AddressClass::Private, EgressMode::SingleUser) => true,
            (AddressClass::Public, EgressMode::Guarded) => {
                whose == AddressOwner::Other || entries().any(|entry| listed(&entry))
            }
            (AddressClass::Public | AddressClass::Private, _) => {
                entries().any(|entry| listed(&entry))
            }
            // Who answers for a name must not be able to lead us here.
            (AddressClass::Blocked, _) => entries().any(|entry| entry.has_address(address)),
        };
        match (is_open, self.mode) {
            (true, _) => Ok(()),
            (false, EgressMode::Listed) => Err(EgressDenial::NotListed),
            (false, _) => Err(EgressDenial::Address(address)),
        }
    }

    fn is_forbidden(&self, address: IpAddr, port: u16, whose: AddressOwner) -> bool {
        let is_here =
            whose == AddressOwner::ThisHost || address.is_loopback() || address.is_unspecified();
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

    /// What is said of the text of an address, or of the first address of its name.
    fn judge(policy: &EgressPolicy, uri: &str, address: Option<&str>) -> Result<(), EgressDenial> {
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
    fn guarded_refuses_every_spelling_of_what_is_inside() {
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
                    judge(&policy, uri, None),
                    Err(EgressDenial::Address(_) | EgressDenial::Name)
                ),
                "{uri}"
            );
        }
        assert_eq!(judge(&policy, "http://example.com:22/", None), Err(EgressDenial::Port(22)));
        assert_eq!(judge(&policy, "http://8.8.8.8:25/", None), Err(EgressDenial::Port(25)));
        assert_eq!(judge(&policy, "http://example.com/", Some("8.8.8.8")), Ok(()));
        let inside: IpAddr = "10.0.0.1".parse().unwrap();
        let name = judge(&policy, "http://example.com/", Some("10.0.0.1"));
        assert_eq!(name, Err(EgressDenial::Address(inside)));
    }

    #[test]
    fn a_single_user_reaches_the_machine_and_its_neighbours_on_any_port_but_no_metadata() {
        let policy = policy(EgressMode::SingleUser, &[]);
        for uri in ["http://127.0.0.1:6379/", "http://[::1]:22/", "http://192.168.1.2/"] {
            assert_eq!(judge(&policy, uri, None), Ok(()), "{uri}");
        }
        assert_eq!(judge(&policy, "http://localhost:5432/", Some("127.0.0.1")), Ok(()));
        for uri in [
            "http://169.254.169.254/",
            "http://[fe80::1]/",
            "http://100.100.100.200/",
            "http://metadata.google.internal/",
            "http://0.0.0.0/",
            "http://8.8.8.8:25/",
        ] {
            assert!(judge(&policy, uri, None).is_err(), "{uri}");
        }
        let led_astray = judge(&policy, "http://example.com:25/", Some("8.8.8.8"));
        assert_eq!(led_astray, Err(EgressDenial::Port(25)));
        assert!(judge(&policy, "http://example.com/", Some("169.254.169.254")).is_err());
    }

    #[test]
    fn the_server_its_database_and_its_proxy_are_never_reached() {
        for mode in [EgressMode::Guarded, EgressMode::SingleUser, EgressMode::Listed] {
            let policy = policy(mode, &["0.0.0.0/0", "0.0.0.0/0:8080", "0.0.0.0/0:5432", "::/0"]);
            for uri in ["http://127.0.0.1:8080/", "http://127.9.9.9:8080/", "http://[::1]:8080/"] {
                assert_eq!(
                    judge(&policy, uri, None),
                    Err(EgressDenial::OwnService),
                    "{mode:?} {uri}"
                );
            }
            let database = judge(&policy, "http://10.0.0.7:5432/", None);
            assert_eq!(database, Err(EgressDenial::OwnService));
            let ours: IpAddr = "8.8.8.8".parse().unwrap();
            let host: Host<&str> = Host::Domain("example.com");
            let own =
                policy.check_address(&host, ours, 8080, &collection("jc"), AddressOwner::ThisHost);
            assert_eq!(own, Err(EgressDenial::OwnService));
        }
    }

    #[test]
    fn the_machines_own_public_address_is_not_public_to_its_jobs() {
        let host: Host<&str> = Host::Domain("example.com");
        let ours: IpAddr = "8.8.8.8".parse().unwrap();
        let judge = |policy: &EgressPolicy| {
            policy.check_address(&host, ours, 80, &collection("jc"), AddressOwner::ThisHost)
        };
        let guarded = policy(EgressMode::Guarded, &[]);
        assert_eq!(judge(&guarded), Err(EgressDenial::Address(ours)));
        assert_eq!(judge(&policy(EgressMode::Guarded, &["example.com"])), Ok(()));
        assert_eq!(judge(&policy(EgressMode::SingleUser, &[])), Ok(()));
    }

    #[test]
    fn entries_lift_what_they_name_and_no_more() {
        let by_address = policy(EgressMode::Guarded, &["10.1.0.0/16", "10.2.0.0/16:6379"]);
        assert_eq!(judge(&by_address, "http://10.1.2.3/", None), Ok(()));
        assert_eq!(judge(&by_address, "http://10.1.2.3:22/", None), Err(EgressDenial::Port(22)));
        assert_eq!(judge(&by_address, "http://10.2.2.3:6379/", None), Ok(()));
        assert!(judge(&by_address, "http://10.2.2.3/", None).is_err());
        assert!(judge(&by_address, "http://10.3.2.3/", None).is_err());
        assert_eq!(judge(&by_address, "http://a.example/", Some("10.1.2.3")), Ok(()));

        let by_name = policy(EgressMode::Guarded, &["db.internal", "queue.internal:5672"]);
        assert_eq!(judge(&by_name, "http://db.internal/", Some("10.9.9.9")), Ok(()));
        assert_eq!(judge(&by_name, "http://queue.internal:5672/", Some("10.9.9.9")), Ok(()));
        assert!(judge(&by_name, "http://db.internal/", Some("169.254.169.254")).is_err());
        assert!(judge(&by_name, "http://db.internal:6379/", None).is_err());
        assert!(judge(&by_name, "http://other.internal/", None).is_err());

        let elsewhere =
            policy(EgressMode::Guarded, &["10.0.0.0/8@6c55a6f0-6593-472f-9b3e-a51a9a757b40/rg/x"]);
        assert!(judge(&elsewhere, "http://10.1.2.3/", None).is_err());
        let here =
            policy(EgressMode::Guarded, &["10.0.0.0/8@6c55a6f0-6593-472f-9b3e-a51a9a757b40/RG/JC"]);
        assert_eq!(judge(&here, "http://10.1.2.3/", None), Ok(()));
    }

    #[test]
    fn what_is_not_listed_is_closed_where_a_list_is_all() {
        let policy = policy(EgressMode::Listed, &["*.example.com", "8.8.8.0/24"]);
        assert_eq!(judge(&policy, "https://api.example.com/", Some("1.1.1.1")), Ok(()));
        assert_eq!(judge(&policy, "https://dns.test/", Some("8.8.8.8")), Ok(()));
        let other = judge(&policy, "https://other.test/", Some("1.1.1.1"));
        assert_eq!(other, Err(EgressDenial::NotListed));
        assert_eq!(judge(&policy, "https://1.1.1.1/", None), Err(EgressDenial::NotListed));
    }
}
