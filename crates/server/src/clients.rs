//! How many connections each client has open.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, PoisonError};

/// A line of IPv6 has a network of its own and takes any address in it: those are one client.
const NETWORK_BITS: u32 = 64;

/// The connections of each client.
pub(crate) struct Clients {
    max: Option<NonZeroU16>,
    /// Of those who have one; there are never more of them than connections.
    open: Mutex<HashMap<IpAddr, u16>>,
}

impl Clients {
    /// Each may have so many.
    pub(crate) fn new(max: Option<NonZeroU16>) -> Arc<Clients> {
        Arc::new(Clients { max, open: Mutex::default() })
    }

    /// A connection from that address; none where its client has enough of them. It counts until
    /// what is returned is dropped.
    pub(crate) fn enter(self: &Arc<Clients>, address: IpAddr) -> Option<Entered> {
        let client = client(address);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.get(&client).copied().unwrap_or_default();
        if self.max.is_some_and(|max| count >= max.get()) {
            return None;
        }
        open.insert(client, count.saturating_add(1));
        Some(Entered { clients: Arc::clone(self), client })
    }
}

/// A connection that counts.
pub(crate) struct Entered {
    clients: Arc<Clients>,
    client: IpAddr,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut open = self.clients.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = open.entry(self.client) {
            *count.get_mut() = count.get().saturating_sub(1);
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// Who has an address.
fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !(u128::MAX >> NETWORK_BITS)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn each_client_has_as_many_as_it_may_and_room_again_when_one_goes() {
        let clients = Clients::new(NonZeroU16::new(2));
        let enter = |text| clients.enter(address(text));
        let (first, _second) = (enter("192.0.2.1").unwrap(), enter("192.0.2.1").unwrap());
        assert!(enter("192.0.2.1").is_none());
        assert!(enter("::ffff:192.0.2.1").is_none(), "the same written otherwise");
        assert!(enter("192.0.2.2").is_some(), "another");
        drop(first);
        assert!(enter("192.0.2.1").is_some());
        assert_eq!(clients.open.lock().unwrap().len(), 1, "who has none is not kept");
    }

    #[test]
    fn all_addresses_of_a_line_are_one_client() {
        let clients = Clients::new(NonZeroU16::new(1));
        let _first = clients.enter(address("2001:db8:1:2::1")).unwrap();
        assert!(clients.enter(address("2001:db8:1:2:ffff:ffff:ffff:ffff")).is_none());
        assert!(clients.enter(address("2001:db8:1:3::1")).is_some());
    }

    #[test]
    fn without_a_limit_everybody_comes_in() {
        let clients = Clients::new(None);
        let all: Vec<_> = (0..1_000).map(|_| clients.enter(address("192.0.2.1"))).collect();
        assert!(all.iter().all(Option::is_some));
    }
}
