//! Limit on the open connections of each client.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, PoisonError};

use crate::client::ClientNetwork;
use crate::forwarded::TrustedProxies;

/// Counts the open connections of each client and enforces their limit.
pub(crate) struct ConnectionLimit {
    max: Option<NonZeroU16>,
    /// Only clients with an open connection have an entry, so the listener bounds the map.
    open: Mutex<HashMap<ClientNetwork, u16>>,
    /// Proxies have no limit: their connections are those of many clients.
    proxies: TrustedProxies,
}

impl ConnectionLimit {
    /// `None` counts without a limit.
    pub(crate) fn new(max: Option<NonZeroU16>, proxies: TrustedProxies) -> Arc<ConnectionLimit> {
        Arc::new(ConnectionLimit { max, open: Mutex::default(), proxies })
    }

    /// Counts a connection until the returned permit is dropped. `None` if its client has reached
    /// the limit.
    pub(crate) fn acquire(
        self: &Arc<ConnectionLimit>,
        address: IpAddr,
    ) -> Option<ConnectionPermit> {
        let client = ClientNetwork::from(address);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.get(&client).copied().unwrap_or_default();
        if self.max.is_some_and(|max| count >= max.get()) && !self.proxies.contain(address) {
            return None;
        }
        open.insert(client, count.saturating_add(1));
        Some(ConnectionPermit { limit: Arc::clone(self), client })
    }
}

/// An open connection that is counted.
pub(crate) struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    client: ClientNetwork,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.limit.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = open.entry(self.client) {
            *count.get_mut() = count.get().saturating_sub(1);
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(max: u16) -> Arc<ConnectionLimit> {
        ConnectionLimit::new(NonZeroU16::new(max), TrustedProxies::default())
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_closed_connection_frees_a_permit_of_its_client() {
        let limit = limit(2);
        let acquire = |text| limit.acquire(address(text));
        let (first, _second) = (acquire("192.0.2.1").unwrap(), acquire("192.0.2.1").unwrap());
        assert!(acquire("192.0.2.1").is_none());
        assert!(acquire("::ffff:192.0.2.1").is_none(), "IPv4-mapped");
        assert!(acquire("192.0.2.2").is_some(), "another client");
        drop(first);
        assert!(acquire("192.0.2.1").is_some());
        assert_eq!(limit.open.lock().unwrap().len(), 1, "no entry without a connection");
    }

    #[test]
    fn all_addresses_of_an_ipv6_network_are_one_client() {
        let limit = limit(1);
        let _first = limit.acquire(address("2001:db8:1:2::1")).unwrap();
        assert!(limit.acquire(address("2001:db8:1:2:ffff:ffff:ffff:ffff")).is_none());
        assert!(limit.acquire(address("2001:db8:1:3::1")).is_some());
    }

    #[test]
    fn without_a_limit_every_connection_is_accepted() {
        let limit = ConnectionLimit::new(None, TrustedProxies::default());
        let all: Vec<_> = (0..1_000).map(|_| limit.acquire(address("192.0.2.1"))).collect();
        assert!(all.iter().all(Option::is_some));
    }
}
