//! The open connections: a limit for each client, and room for new connections by closing idle ones.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::client::ClientNetwork;
use crate::connection_activity::ConnectionActivity;
use crate::forwarded::TrustedProxies;

/// The open connections.
pub(crate) struct OpenConnections {
    /// Connections that one client may have; `None` for no limit.
    per_client_max: Option<NonZeroU16>,
    /// Proxies have no limit: their connections are those of many clients.
    proxies: TrustedProxies,
    /// Counts the activities of all connections.
    activities: Arc<AtomicU64>,
    open: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    next_id: u64,
    connections: HashMap<u64, Entry>,
}

struct Entry {
    /// `None` for a proxy.
    client: Option<ClientNetwork>,
    activity: Arc<ConnectionActivity>,
    close: oneshot::Sender<()>,
}

impl Registry {
    /// Number of connections of a client; 0 for proxies.
    fn count_of(&self, client: Option<ClientNetwork>) -> usize {
        let own = |entry: &&Entry| client.is_some() && entry.client == client;
        self.connections.values().filter(own).count()
    }
}

impl OpenConnections {
    pub(crate) fn new(
        per_client_max: Option<NonZeroU16>,
        proxies: TrustedProxies,
    ) -> Arc<OpenConnections> {
        let (activities, open) = (Arc::default(), Mutex::default());
        Arc::new(OpenConnections { per_client_max, proxies, activities, open })
    }

    /// Registers a connection until the returned value is dropped. `None` if its client has reached
    /// the limit.
    pub(crate) fn open(self: &Arc<OpenConnections>, peer: IpAddr) -> Option<OpenConnection> {
        let client = (!self.proxies.contain(peer)).then(|| ClientNetwork::from(peer));
        let mut open = self.registry();
        let is_full = |max: NonZeroU16| open.count_of(client) >= usize::from(max.get());
        if self.per_client_max.is_some_and(is_full) {
            return None;
        }
        let id = open.next_id;
        open.next_id += 1;
        let activity = Arc::new(ConnectionActivity::new(Arc::clone(&self.activities)));
        let (close, closed) = oneshot::channel();
        open.connections.insert(id, Entry { client, activity: Arc::clone(&activity), close });
        drop(open);
        Some(OpenConnection { all: Arc::clone(self), id, activity, closed })
    }

    /// Closes a connection without a request in flight: of the clients with the most connections,
    /// the one that is idle for the longest time. Returns `false` if all have requests in flight.
    pub(crate) fn close_idle(&self) -> bool {
        let mut open = self.registry();
        let mut counts: HashMap<ClientNetwork, usize> = HashMap::new();
        for client in open.connections.values().filter_map(|entry| entry.client) {
            *counts.entry(client).or_default() += 1;
        }
        let count_of = |client: Option<ClientNetwork>| {
            client.and_then(|client| counts.get(&client)).copied().unwrap_or(0)
        };
        let mut candidates: Vec<_> = open
            .connections
            .iter()
            .filter(|(_, entry)| !entry.activity.has_requests())
            .map(|(id, entry)| (Reverse(count_of(entry.client)), entry.activity.last(), *id))
            .collect();
        candidates.sort_unstable();
        for (_, _, id) in candidates {
            let is_closing =
                open.connections.get(&id).is_some_and(|entry| entry.activity.close_if_idle());
            if is_closing && let Some(entry) = open.connections.remove(&id) {
                // Its task may have ended already.
                let _ = entry.close.send(());
                return true;
            }
        }
        false
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registered connection.
pub(crate) struct OpenConnection {
    all: Arc<OpenConnections>,
    id: u64,
    pub(crate) activity: Arc<ConnectionActivity>,
    closed: oneshot::Receiver<()>,
}

impl OpenConnection {
    /// Completes when the connection must make room for another.
    pub(crate) async fn closed(&mut self) {
        let _ = (&mut self.closed).await;
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.all.registry().connections.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use kalends_domain::Network;

    use super::*;

    fn limited(max: u16) -> Arc<OpenConnections> {
        let proxies = TrustedProxies::new(vec![Network::parse("10.0.0.1").unwrap()]);
        OpenConnections::new(NonZeroU16::new(max), proxies)
    }

    fn open(all: &Arc<OpenConnections>, text: &str) -> Option<OpenConnection> {
        all.open(text.parse().unwrap())
    }

    fn is_closed(connection: &mut OpenConnection) -> bool {
        connection.closed.try_recv().is_ok()
    }

    #[test]
    fn a_closed_connection_allows_another_of_its_client() {
        let all = limited(2);
        let (first, _second) = (open(&all, "192.0.2.1").unwrap(), open(&all, "192.0.2.1").unwrap());
        assert!(open(&all, "192.0.2.1").is_none());
        assert!(open(&all, "::ffff:192.0.2.1").is_none(), "IPv4-mapped");
        assert!(open(&all, "192.0.2.2").is_some(), "another client");
        drop(first);
        assert!(open(&all, "192.0.2.1").is_some());
        assert_eq!(all.registry().connections.len(), 1, "no entry without a connection");
    }

    #[test]
    fn all_addresses_of_an_ipv6_network_are_one_client() {
        let all = limited(1);
        let _first = open(&all, "2001:db8:1:2::1").unwrap();
        assert!(open(&all, "2001:db8:1:2:ffff:ffff:ffff:ffff").is_none());
        assert!(open(&all, "2001:db8:1:3::1").is_some());
    }

    #[test]
    fn proxies_and_servers_without_a_limit_accept_every_connection() {
        let (limited, unlimited) =
            (limited(1), OpenConnections::new(None, TrustedProxies::default()));
        for (all, address) in [(limited, "10.0.0.1"), (unlimited, "192.0.2.1")] {
            let found: Vec<_> = (0..1_000).map(|_| open(&all, address)).collect();
            assert!(found.iter().all(Option::is_some));
        }
    }

    #[test]
    fn the_longest_idle_connection_of_the_clients_with_the_most_is_closed() {
        let all = limited(9);
        let addresses = ["192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.2", "10.0.0.1"];
        let mut open: Vec<_> =
            addresses.iter().map(|address| open(&all, address).unwrap()).collect();
        // The second connection was used after the third.
        drop(open[1].activity.begin_request());
        let request = open[3].activity.begin_request();
        let mut order = Vec::new();
        while all.close_idle() {
            let closed = (0..open.len()).find(|&number| is_closed(&mut open[number]));
            order.push(closed.unwrap());
        }
        assert_eq!(order, [2, 1, 0, 4]);
        assert!(open[1].activity.begin_request().is_none(), "a closing connection starts nothing");
        drop(request);
        assert!(all.close_idle());
        assert!(!all.close_idle());
    }
}
