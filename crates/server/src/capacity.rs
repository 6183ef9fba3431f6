//! Capacity for requests, of which each caller and each client has a share: one of them cannot use
//! up what the others need.
//!
//! A request holds a slot while the server works on it. While it waits for its client to send the
//! body, or for an identity provider, it gives up the slot and holds one of those for waiting
//! requests, which cost memory but no work.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::Future;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use kalends_wire::{ErrorCode, ErrorDetails};

use crate::client::ClientNetwork;
use crate::response::ApiError;

/// Requests that the server works on at the same time.
const WORKING: ShareLimits = ShareLimits { total: 1_024, per_client: 512, per_caller: 256 };
/// Requests whose body has not arrived yet; each buffers up to 64 KiB.
const WAITING_FOR_BODY: ShareLimits = ShareLimits { total: 1_024, per_client: 256, per_caller: 64 };
/// Requests that wait until the keys of an identity provider are fetched. Their caller is unknown.
const WAITING_FOR_KEYS: ShareLimits = ShareLimits { total: 256, per_client: 32, per_caller: 32 };

/// Requests whose body may have several mebibytes, from their body to their response.
const LARGE_BODIES: ShareLimits = ShareLimits { total: 8, per_client: 4, per_caller: 2 };
/// `Retry-After` of a request above a share: requests in flight end soon.
const RETRY_SECONDS: u64 = 1;

/// Limits of a capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShareLimits {
    pub(crate) total: usize,
    /// Share of one client address.
    pub(crate) per_client: usize,
    /// Share of one caller, whatever addresses it uses.
    pub(crate) per_caller: usize,
}

impl ShareLimits {
    /// The same capacity without shares, for a server with a single user.
    pub(crate) fn without_shares(self) -> ShareLimits {
        ShareLimits { per_client: self.total, per_caller: self.total, ..self }
    }
}

/// The reason why there is no capacity left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CapacityExceeded {
    /// All of it is in use.
    Total,
    /// The caller or the client uses its share.
    Share,
}

impl From<CapacityExceeded> for ApiError {
    fn from(exceeded: CapacityExceeded) -> ApiError {
        match exceeded {
            CapacityExceeded::Total => {
                let message = "The server is handling too many requests; retry later";
                ErrorDetails::one(ErrorCode::ServerBusy, "", message).into()
            }
            CapacityExceeded::Share => {
                let message = "The caller or its address has too many requests in flight; retry \
                               later";
                let details = ErrorDetails::one(ErrorCode::TooManyRequests, "", message);
                ApiError::rate_limited(details, RETRY_SECONDS)
            }
        }
    }
}

/// A number of permits that callers and clients share.
#[derive(Debug)]
pub(crate) struct SharedCapacity {
    limits: ShareLimits,
    /// Only holders of a permit have an entry, so the total bounds the maps.
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    total: usize,
    by_client: HashMap<ClientNetwork, usize>,
    by_caller: HashMap<Arc<str>, usize>,
}

impl SharedCapacity {
    pub(crate) fn new(limits: ShareLimits) -> Arc<SharedCapacity> {
        Arc::new(SharedCapacity { limits, used: Mutex::default() })
    }

    /// Takes a permit for a client, and for a caller if it is known.
    pub(crate) fn acquire(
        self: &Arc<SharedCapacity>,
        client: ClientNetwork,
        caller: Option<&Arc<str>>,
    ) -> Result<CapacityPermit, CapacityExceeded> {
        let client = Some(client).filter(|_| self.limits.per_client < self.limits.total);
        let caller = caller.filter(|_| self.limits.per_caller < self.limits.total);
        let mut used = self.used();
        let of_client = client.and_then(|client| used.by_client.get(&client)).copied().unwrap_or(0);
        let of_caller = caller.and_then(|caller| used.by_caller.get(caller)).copied().unwrap_or(0);
        if used.total >= self.limits.total {
            return Err(CapacityExceeded::Total);
        }
        if of_client >= self.limits.per_client || of_caller >= self.limits.per_caller {
            return Err(CapacityExceeded::Share);
        }
        used.total += 1;
        if let Some(client) = client {
            used.by_client.insert(client, of_client + 1);
        }
        if let Some(caller) = caller {
            used.by_caller.insert(Arc::clone(caller), of_caller + 1);
        }
        drop(used);
        Ok(CapacityPermit { capacity: Arc::clone(self), client, caller: caller.cloned() })
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A permit, returned when dropped.
#[derive(Debug)]
pub(crate) struct CapacityPermit {
    capacity: Arc<SharedCapacity>,
    /// Client and caller, where they have a share.
    client: Option<ClientNetwork>,
    caller: Option<Arc<str>>,
}

impl CapacityPermit {
    /// Counts the permit against the share of its caller, once that is known.
    fn assign(&mut self, caller: &Arc<str>) -> Result<(), CapacityExceeded> {
        if self.capacity.limits.per_caller >= self.capacity.limits.total {
            return Ok(());
        }
        let mut used = self.capacity.used();
        let of_caller = used.by_caller.entry(Arc::clone(caller)).or_insert(0);
        if *of_caller >= self.capacity.limits.per_caller {
            return Err(CapacityExceeded::Share);
        }
        *of_caller += 1;
        drop(used);
        self.caller = Some(Arc::clone(caller));
        Ok(())
    }
}

impl Drop for CapacityPermit {
    fn drop(&mut self) {
        let mut used = self.capacity.used();
        used.total = used.total.saturating_sub(1);
        if let Some(client) = self.client {
            release(&mut used.by_client, client);
        }
        if let Some(caller) = self.caller.take() {
            release(&mut used.by_caller, caller);
        }
    }
}

fn release<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() = count.get().saturating_sub(1);
        if *count.get() == 0 {
            count.remove();
        }
    }
}

/// Capacity for the requests of a server.
#[derive(Debug)]
pub(crate) struct RequestCapacity {
    working: Arc<SharedCapacity>,
    waiting_for_body: Arc<SharedCapacity>,
    waiting_for_keys: Arc<SharedCapacity>,
    large_bodies: Arc<SharedCapacity>,
}

/// An event that requests wait for without work of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// The client sends the body.
    Body,
    /// The keys of the identity provider are fetched.
    Keys,
}

impl RequestCapacity {
    /// With shares unless the server has a single user.
    pub(crate) fn new(is_single_user: bool) -> RequestCapacity {
        let shared = |limits: ShareLimits| {
            SharedCapacity::new(if is_single_user { limits.without_shares() } else { limits })
        };
        RequestCapacity {
            working: shared(WORKING),
            waiting_for_body: shared(WAITING_FOR_BODY),
            waiting_for_keys: shared(WAITING_FOR_KEYS),
            large_bodies: shared(LARGE_BODIES),
        }
    }
}

/// The slot of a request.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    capacity: Arc<RequestCapacity>,
    client: ClientNetwork,
    /// `None` while the request waits, and for requests outside of the capacity.
    working: Mutex<Option<CapacityPermit>>,
}

impl RequestSlot {
    /// A slot of a request that counts once [`RequestSlot::enter`] was called.
    pub(crate) fn outside(capacity: Arc<RequestCapacity>, client: ClientNetwork) -> RequestSlot {
        RequestSlot { capacity, client, working: Mutex::default() }
    }

    /// A slot of the same client for what outlasts the request.
    pub(crate) fn outside_again(&self) -> RequestSlot {
        RequestSlot::outside(Arc::clone(&self.capacity), self.client)
    }

    /// Starts work on the request.
    pub(crate) fn enter(&self) -> Result<(), CapacityExceeded> {
        *self.working() = Some(self.capacity.working.acquire(self.client, None)?);
        Ok(())
    }

    /// Counts the request against the share of its caller.
    pub(crate) fn assign(&self, caller: &Arc<str>) -> Result<(), CapacityExceeded> {
        self.working().as_mut().map_or(Ok(()), |permit| permit.assign(caller))
    }

    /// A permit for a large body, to be held until the request ends.
    pub(crate) fn acquire_large_body(&self) -> Result<CapacityPermit, CapacityExceeded> {
        let caller = self.working().as_ref().and_then(|permit| permit.caller.clone());
        self.capacity.large_bodies.acquire(self.client, caller.as_ref())
    }

    /// Awaits a future without holding the slot, unless the future is ready immediately.
    pub(crate) async fn wait<T>(
        &self,
        waits_for: WaitsFor,
        future: impl Future<Output = T>,
    ) -> Result<T, CapacityExceeded> {
        let mut future = pin!(future);
        if let Some(ready) = future.as_mut().now_or_never() {
            return Ok(ready);
        }
        let waiting = match waits_for {
            WaitsFor::Body => &self.capacity.waiting_for_body,
            WaitsFor::Keys => &self.capacity.waiting_for_keys,
        };
        let working = self.working().take();
        let caller = working.as_ref().and_then(|permit| permit.caller.clone());
        let permit = waiting.acquire(self.client, caller.as_ref())?;
        let was_working = working.is_some();
        drop(working);
        let ready = future.await;
        drop(permit);
        if was_working {
            let permit = self.capacity.working.acquire(self.client, caller.as_ref())?;
            *self.working() = Some(permit);
        }
        Ok(ready)
    }

    fn working(&self) -> MutexGuard<'_, Option<CapacityPermit>> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::sync::oneshot;

    use super::*;

    fn client(number: u8) -> ClientNetwork {
        IpAddr::from([192, 0, 2, number]).into()
    }

    fn caller(name: &str) -> Arc<str> {
        name.into()
    }

    #[test]
    fn clients_and_callers_have_a_share_of_the_capacity() {
        let limits = ShareLimits { total: 4, per_client: 3, per_caller: 2 };
        let capacity = SharedCapacity::new(limits);
        let (one, two, three) = (caller("one"), caller("two"), caller("three"));
        let acquire = |address, caller| capacity.acquire(client(address), Some(caller));
        let first = acquire(1, &one).unwrap();
        let second = acquire(2, &one).unwrap();
        assert_eq!(acquire(3, &one).err(), Some(CapacityExceeded::Share), "of the caller");
        let third = acquire(1, &two).unwrap();
        let fourth = capacity.acquire(client(1), None).unwrap();
        assert_eq!(acquire(9, &three).err(), Some(CapacityExceeded::Total));
        drop(first);
        assert_eq!(acquire(9, &one).map(drop), Ok(()));
        let fifth = capacity.acquire(client(1), None).unwrap();
        drop((second, third, fourth, fifth));
        let used = capacity.used();
        assert!(used.total == 0 && used.by_client.is_empty() && used.by_caller.is_empty());
    }

    #[test]
    fn a_permit_is_assigned_to_its_caller_once_that_is_known() {
        let limits = ShareLimits { total: 4, per_client: 4, per_caller: 1 };
        let capacity = SharedCapacity::new(limits);
        let one = caller("one");
        let mut first = capacity.acquire(client(1), None).unwrap();
        let mut second = capacity.acquire(client(2), None).unwrap();
        assert_eq!(first.assign(&one), Ok(()));
        assert_eq!(second.assign(&one), Err(CapacityExceeded::Share));
        drop(first);
        assert_eq!(second.assign(&one), Ok(()));
        drop(second);
        assert!(capacity.used().by_caller.is_empty());
    }

    #[tokio::test]
    async fn a_waiting_request_gives_up_its_slot() {
        let limits = ShareLimits { total: 1, per_client: 1, per_caller: 1 };
        let one = || SharedCapacity::new(limits);
        let capacity = Arc::new(RequestCapacity {
            working: one(),
            waiting_for_body: one(),
            waiting_for_keys: one(),
            large_bodies: one(),
        });
        let slot = |number| RequestSlot::outside(Arc::clone(&capacity), client(number));
        let (first, second) = (slot(1), slot(2));
        first.enter().unwrap();
        assert_eq!(second.enter(), Err(CapacityExceeded::Total));
        assert_eq!(first.wait(WaitsFor::Body, async { 1 }).await, Ok(1));
        assert_eq!(second.enter(), Err(CapacityExceeded::Total), "a ready future does not wait");
        let (sender, receiver) = oneshot::channel();
        let waiting = first.wait(WaitsFor::Body, receiver);
        let work_of_others = async {
            second.enter().unwrap();
            let more = second.wait(WaitsFor::Body, std::future::pending::<()>()).await;
            assert_eq!(more, Err(CapacityExceeded::Total), "so many wait already");
            sender.send(2).unwrap();
        };
        let (ready, ()) = tokio::join!(waiting, work_of_others);
        assert_eq!(ready.unwrap(), Ok(2));
        assert_eq!(second.enter(), Err(CapacityExceeded::Total), "the slot was taken again");
    }
}
