//! Allow entries: destinations that an operator permits in addition to the built-in tables.

use std::fmt;
use std::net::IpAddr;

use super::name::{is_at_or_below, normalized};
use super::network::Network;
use crate::name::{CollectionName, CollectionPath, GroupName, GroupPath, SubscriptionId};

/// A destination that jobs can reach although the built-in tables block it.
///
/// The syntax is `TARGET[:PORT][@SUBSCRIPTION/GROUP/COLLECTION]`. A target is a network (`10.1.0.0/16`,
/// `[fd00::]/8`), an address, a host name, or `*.` and a domain for all its subdomains. An entry with a
/// port applies to that port only, even if the port is blocked. An entry with a collection applies to
/// the jobs of that collection only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowEntry {
    target: Target,
    port: Option<u16>,
    collection: Option<CollectionPath>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Network(Network),
    Name(String),
    /// All subdomains of this domain, without the domain itself.
    Subdomains(String),
}

/// Error of parsing an [`AllowEntry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllowEntryError {
    /// The target is neither an address, a network nor a host name.
    #[error("expected an address, a range such as 10.1.0.0/16, or a host name")]
    Target,
    /// The port is not a number from 1 to 65535.
    #[error("expected a port from 1 to 65535 after the colon")]
    Port,
    /// The collection path is invalid.
    #[error("expected SUBSCRIPTION/GROUP/COLLECTION after the @")]
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
        let target = match Network::parse(&target.replace(['[', ']'], "")) {
            Some(network) => Target::Network(network),
            None => read_name(target)?,
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

    pub(super) fn has_address(&self, address: IpAddr) -> bool {
        matches!(&self.target, Target::Network(network) if network.contains(address))
    }

    pub(super) fn has_name(&self, name: &str) -> bool {
        let name = normalized(name);
        match &self.target {
            Target::Network(_) => false,
            Target::Name(own) => *own == name,
            Target::Subdomains(above) => name != *above && is_at_or_below(&name, above),
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
            (Target::Name(name), _) => f.write_str(name)?,
            (Target::Subdomains(name), _) => write!(f, "*.{name}")?,
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

fn read_name(text: &str) -> Result<Target, AllowEntryError> {
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
        (true, true) => Ok(Target::Subdomains(name)),
        (true, false) => Ok(Target::Name(name)),
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
