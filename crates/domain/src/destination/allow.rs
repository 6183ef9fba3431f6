//! Allow entries: destinations that an operator permits in addition to the built-in tables.

use std::fmt;
use std::net::IpAddr;

use super::address::AddressClass;
use super::name::{is_at_or_below, normalized};
use super::network::Network;
use crate::name::{CollectionName, CollectionPath, GroupName, GroupPath, SubscriptionId};

/// A destination that jobs can reach although the built-in tables block it.
///
/// The syntax is `TARGET[:PORT][@SUBSCRIPTION/GROUP/COLLECTION]`. A target is a network (`10.1.0.0/16`,
/// `[fd00::]/8`), an address, a host name, or `*.` and a domain for all its subdomains. An entry with a
/// port applies to that port only, even if the port is blocked. An entry with a collection applies to
/// the jobs of that collection only.
///
/// The owner of a DNS zone decides which addresses a name has. A name therefore reaches public addresses
/// only, and with `=private` (`db.internal=private:5432`) private networks too. Loopback addresses need
/// a network entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowEntry {
    target: Target,
    port: Option<u16>,
    collection: Option<CollectionPath>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Network(Network),
    Name(Names, NameReach),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    One(String),
    /// All subdomains of this domain, without the domain itself.
    Below(String),
}

/// The addresses that a name may resolve to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameReach {
    Public,
    /// Private networks too, by `=private`.
    Private,
}

const PRIVATE_SUFFIX: &str = "=private";

/// Error of parsing an [`AllowEntry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllowEntryError {
    /// The target is neither an address, a network nor a host name.
    #[error("must be an address, a range such as 10.1.0.0/16, or a host name")]
    Target,
    /// `=private` follows a network.
    #[error("must have =private after a host name only; a range needs none")]
    PrivateNetwork,
    /// The port is not a number from 1 to 65535.
    #[error("must have a port from 1 to 65535 after the colon")]
    Port,
    /// The collection path is invalid.
    #[error("must have SUBSCRIPTION/GROUP/COLLECTION after the @")]
    Collection,
}

impl AllowEntry {
    /// Parses an entry.
    pub fn parse(text: &str) -> Result<AllowEntry, AllowEntryError> {
        let (target, collection) = match text.trim().split_once('@') {
            Some((target, collection)) => (target, Some(read_collection(collection)?)),
            None => (text.trim(), None),
        };
        let (target, port) = split_port(target)?;
        let (target, reach) = match target.strip_suffix(PRIVATE_SUFFIX) {
            Some(name) => (name, NameReach::Private),
            None => (target, NameReach::Public),
        };
        let target = match (Network::parse(&target.replace(['[', ']'], "")), reach) {
            (Some(network), NameReach::Public) => Target::Network(network),
            (Some(_), NameReach::Private) => return Err(AllowEntryError::PrivateNetwork),
            (None, reach) => Target::Name(read_names(target)?, reach),
        };
        Ok(AllowEntry { target, port, collection })
    }

    /// Whether the entry applies to a collection.
    pub(super) fn is_for(&self, collection: &CollectionPath) -> bool {
        self.collection.as_ref().is_none_or(|own| own == collection)
    }

    /// Whether the entry applies to a port. An entry without a port applies to all ports, but does
    /// not open blocked ones.
    pub(super) fn is_for_port(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }

    /// Whether the entry names the port explicitly, which opens a blocked port.
    pub(super) fn names_port(&self, port: u16) -> bool {
        self.port == Some(port)
    }

    /// Whether the target is a network or address.
    pub(super) fn is_network(&self) -> bool {
        matches!(self.target, Target::Network(_))
    }

    pub(super) fn has_name(&self, name: &str) -> bool {
        let name = normalized(name);
        match &self.target {
            Target::Network(_) => false,
            Target::Name(Names::One(own), _) => *own == name,
            Target::Name(Names::Below(above), _) => name != *above && is_at_or_below(&name, above),
        }
    }

    /// Whether the entry opens an address of this class, which belongs to a host called `name` or was
    /// given directly.
    pub(super) fn opens(&self, name: Option<&str>, address: IpAddr, class: AddressClass) -> bool {
        let has_name = || name.is_some_and(|name| self.has_name(name));
        match (&self.target, class) {
            (_, AddressClass::Forbidden) => false,
            (Target::Network(network), _) => network.contains(address),
            (Target::Name(..), AddressClass::Public) => has_name(),
            (Target::Name(_, NameReach::Private), AddressClass::Private) => has_name(),
            (Target::Name(..), _) => false,
        }
    }
}

impl fmt::Display for AllowEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.target, self.port) {
            (Target::Network(network), Some(_)) if network.to_string().contains(':') => {
                write!(f, "[{network}]")?;
            }
            (Target::Network(network), _) => write!(f, "{network}")?,
            (Target::Name(names, reach), _) => {
                match names {
                    Names::One(name) => f.write_str(name)?,
                    Names::Below(name) => write!(f, "*.{name}")?,
                }
                if *reach == NameReach::Private {
                    f.write_str(PRIVATE_SUFFIX)?;
                }
            }
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        match &self.collection {
            None => Ok(()),
            Some(CollectionPath { group, collection }) => {
                write!(f, "@{}/{}/{collection}", group.subscription, group.group)
            }
        }
    }
}

/// Splits the text into target and port. An IPv6 address needs brackets to have a port.
fn split_port(text: &str) -> Result<(&str, Option<u16>), AllowEntryError> {
    let is_bare_v6 = text.matches(':').count() > 1 && !text.contains('[');
    let after_brackets = text.rfind(']').map_or(0, |at| at + 1);
    let colon = text.get(after_brackets..).and_then(|rest| rest.rfind(':'));
    let Some(colon) = colon.filter(|_| !is_bare_v6) else { return Ok((text, None)) };
    let (target, port) = text.split_at(after_brackets + colon);
    let digits = port.trim_start_matches(':');
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let port = digits.parse().ok().filter(|port| is_number && *port != 0);
    Ok((target, Some(port.ok_or(AllowEntryError::Port)?)))
}

fn read_names(text: &str) -> Result<Names, AllowEntryError> {
    let (below, name) = match text.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, text),
    };
    let name = normalized(name);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = (1..=253).contains(&name.len())
        && name.bytes().all(is_plain)
        && name.split('.').all(|label| !label.is_empty())
        // A last label of digits only would parse as an IPv4 address.
        && name.rsplit('.').next().is_some_and(|last| last.contains(|c: char| !c.is_ascii_digit()));
    match (is_name, below) {
        (true, true) => Ok(Names::Below(name)),
        (true, false) => Ok(Names::One(name)),
        (false, _) => Err(AllowEntryError::Target),
    }
}

fn read_collection(text: &str) -> Result<CollectionPath, AllowEntryError> {
    let parts: Vec<_> = text.split('/').collect();
    let [subscription, group, collection] = parts.as_slice() else {
        return Err(AllowEntryError::Collection);
    };
    let wrong = |_| AllowEntryError::Collection;
    let subscription = SubscriptionId::new(subscription).map_err(wrong)?;
    let group = GroupPath { subscription, group: GroupName::new(group).map_err(wrong)? };
    Ok(CollectionPath { group, collection: CollectionName::new(collection).map_err(wrong)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip_through_text() {
        for text in [
            "10.1.0.0/16",
            "10.1.2.3:8080",
            "10.1.0.0/16:22",
            "fd00::/8",
            "[fd00::/8]:8080",
            "db.internal",
            "db.internal:5432",
            "*.corp.example",
            "db.internal=private",
            "*.corp.example=private:5432@6c55a6f0-6593-472f-9b3e-a51a9a757b40/rg/jc",
            "localhost:3000@6c55a6f0-6593-472f-9b3e-a51a9a757b40/rg/jc",
        ] {
            assert_eq!(AllowEntry::parse(text).map(|entry| entry.to_string()), Ok(text.to_owned()));
        }
        let bracketed = AllowEntry::parse("[fd00::]/8").unwrap();
        assert_eq!(bracketed.to_string(), "fd00::/8");
    }

    #[test]
    fn invalid_entries_are_rejected() {
        for (text, error) in [
            ("", AllowEntryError::Target),
            ("*", AllowEntryError::Target),
            ("10.1.0.0/40", AllowEntryError::Target),
            ("10.1.2", AllowEntryError::Target),
            ("a b", AllowEntryError::Target),
            ("http://x", AllowEntryError::Port),
            ("x:0", AllowEntryError::Port),
            ("x:65536", AllowEntryError::Port),
            ("x:", AllowEntryError::Port),
            ("10.1.0.0/16=private", AllowEntryError::PrivateNetwork),
            ("[fd00::]/8=private:80", AllowEntryError::PrivateNetwork),
            ("=private", AllowEntryError::Target),
            ("x=public", AllowEntryError::Target),
            ("x=private=private", AllowEntryError::Target),
            ("x@jc", AllowEntryError::Collection),
            ("x@a/b/c", AllowEntryError::Collection),
        ] {
            assert_eq!(AllowEntry::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn a_wildcard_matches_subdomains_only() {
        let entry = AllowEntry::parse("*.corp.example").unwrap();
        assert!(entry.has_name("a.corp.example") && entry.has_name("a.b.CORP.example."));
        assert!(!entry.has_name("corp.example") && !entry.has_name("xcorp.example"));
    }
}
