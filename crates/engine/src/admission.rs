//! Admission control: limits attempts in flight in total, per host and per collection, so that a
//! target that hangs does not delay other jobs.
//!
//! A candidate without a free slot waits in memory together with its job definition, briefly: most
//! bursts drain within milliseconds. The scheduler parks a candidate in the store if it has waited for
//! [`PARK_AFTER`] or if the queue of its host or collection is too long. Waiting candidates never
//! reduce the number of jobs that are read for other hosts and collections.
//!
//! A slot is taken before its run is claimed. So that a quick host does not wait for the commits of the
//! claims, more runs than its limit are claimed ahead, up to the number that it completed recently
//! ([`Pace`]). Their attempts start when others end: [`Admission::try_start`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use kalends_domain::{Action, Target};
use kalends_store::record::{CollectionKey, SlotKey};

use crate::pace::Pace;

/// Time after which a waiting candidate is parked: longer than a burst at a quick host takes, and
/// short enough that a host that hangs does not delay the other jobs of its collections noticeably.
pub(crate) const PARK_AFTER: Duration = Duration::from_secs(1);
/// Waiting candidates of a collection at which no more of its jobs are read.
const COLLECTION_WAITING_MAX: usize = 500;
/// Waiting candidates of a host at which no more jobs are read of the collections that wait for it.
const HOST_WAITING_MAX: usize = 1_000;
/// Batches that were read before may exceed these limits, up to this multiple. Further candidates do
/// not wait in memory.
const EXCESS_FACTOR: usize = 3;

/// Runs that are claimed ahead for a host, as a multiple of its attempts in flight. A claim of many runs
/// takes some milliseconds, and a quick host completes more than its limit in that time.
const CLAIMED_AHEAD_FACTOR: usize = 2;

/// Maximum numbers of attempts in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionLimits {
    pub(crate) all: usize,
    pub(crate) host: usize,
    pub(crate) collection: usize,
}

/// The limits that an attempt counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) host: SlotKey,
    pub(crate) collection: SlotKey,
}

impl Slot {
    pub(crate) fn of(action: &Action, collection: CollectionKey) -> Slot {
        let host = SlotKey::of_host(host_of(action));
        Slot { host, collection: SlotKey::of_collection(collection) }
    }
}

/// Host and port as written in the URI. Different spellings of a host count separately.
fn host_of(action: &Action) -> &str {
    let name = match &action.target {
        Target::Http(request) => {
            let text = request.uri.as_str();
            // By bytes: a search for "://" takes longer than all the rest.
            let scheme = text.bytes().position(|byte| byte == b':').unwrap_or(0);
            let rest = text.get(scheme..).and_then(|rest| rest.strip_prefix("://")).unwrap_or(text);
            let end = rest.bytes().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
            end.map_or(Some(rest), |end| rest.get(..end))
        }
        Target::StorageQueue(message) => message.storage_account.as_deref(),
        Target::ServiceBusQueue(message) | Target::ServiceBusTopic(message) => {
            message.namespace.as_deref()
        }
    };
    name.unwrap_or_default()
}

/// Slots in use and the candidates that wait for one. Times are uptimes.
pub(crate) struct Admission<C> {
    limits: AdmissionLimits,
    in_use: usize,
    waiting: usize,
    hosts: BTreeMap<SlotKey, Host<C>>,
    collections: BTreeMap<SlotKey, Collection>,
    /// Hosts whose queue may have an admissible candidate.
    unblocked: BTreeSet<SlotKey>,
    /// Hosts with at least [`HOST_WAITING_MAX`] waiting candidates.
    crowded: BTreeSet<SlotKey>,
    /// When candidates began to wait, and their queue, oldest first. Candidates that left their queue
    /// are still listed.
    arrivals: VecDeque<(Duration, Slot)>,
}

struct Host<C> {
    in_use: usize,
    /// Slots whose attempt has started.
    in_flight: usize,
    pace: Pace,
    waiting: usize,
    /// A queue for each collection, in order of arrival.
    queues: BTreeMap<SlotKey, VecDeque<Waiting<C>>>,
    /// The collection that was served last.
    turn: Option<SlotKey>,
}

struct Waiting<C> {
    since: Duration,
    candidate: C,
}

#[derive(Default)]
struct Collection {
    in_use: usize,
    waiting: usize,
}

/// A candidate that got a slot after it waited.
pub(crate) struct Admitted<C> {
    pub(crate) slot: Slot,
    pub(crate) candidate: C,
    /// When it began to wait.
    pub(crate) since: Duration,
}

impl<C> Admission<C> {
    pub(crate) fn new(limits: AdmissionLimits) -> Admission<C> {
        Admission {
            limits,
            in_use: 0,
            waiting: 0,
            hosts: BTreeMap::new(),
            collections: BTreeMap::new(),
            unblocked: BTreeSet::new(),
            crowded: BTreeSet::new(),
            arrivals: VecDeque::new(),
        }
    }

    /// Number of waiting candidates.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Number of slots that are free in total.
    pub(crate) fn free_slots(&self) -> usize {
        self.limits.all.saturating_sub(self.in_use)
    }

    /// Number of slots of a host or collection that are free and for which no candidate waits.
    pub(crate) fn free_slots_of(&self, key: SlotKey) -> usize {
        let (limit, used) = match key.is_collection() {
            true => {
                let collection = self.collections.get(&key);
                let used =
                    collection.map_or(0, |collection| collection.in_use + collection.waiting);
                (self.limits.collection, used)
            }
            false => {
                let used = self.hosts.get(&key).map_or(0, |host| host.in_use + host.waiting);
                (self.limits.host, used)
            }
        };
        limit.saturating_sub(used).min(self.free_slots())
    }

    /// Whether more jobs of a collection may be read.
    pub(crate) fn accepts_more_of(&self, collection: CollectionKey) -> bool {
        let key = SlotKey::of_collection(collection);
        let Some(collection) = self.collections.get(&key).filter(|found| found.waiting > 0) else {
            return true;
        };
        let waits_for = |host: &SlotKey| {
            self.hosts.get(host).is_some_and(|host| host.queues.contains_key(&key))
        };
        collection.waiting < COLLECTION_WAITING_MAX && !self.crowded.iter().any(waits_for)
    }

    /// Takes a slot, or returns the key of the host or collection that has none. Candidates of the
    /// same host and collection that wait already come first.
    pub(crate) fn try_acquire(&mut self, slot: Slot, now: Duration) -> Result<(), SlotKey> {
        let collection = self.collections.get(&slot.collection);
        if collection.is_some_and(|found| found.in_use >= self.limits.collection) {
            return Err(slot.collection);
        }
        let is_free = |host: &Host<C>| {
            host.in_use < self.claims_max(host, now)
                && !host.queues.contains_key(&slot.collection)
                && !self.unblocked.contains(&slot.host)
        };
        let is_free = self.hosts.get(&slot.host).is_none_or(is_free);
        if !is_free || self.in_use >= self.limits.all {
            return Err(slot.host);
        }
        self.take(slot);
        Ok(())
    }

    /// Takes a slot even if none is free.
    pub(crate) fn acquire_regardless(&mut self, slot: Slot) {
        self.take(slot);
    }

    /// Queues a candidate that found no free slot. Returns it if too many wait already.
    pub(crate) fn queue(&mut self, slot: Slot, candidate: C, now: Duration) -> Result<(), C> {
        let of_host = self.hosts.get(&slot.host).map_or(0, |host| host.waiting);
        let of_collection = self.collections.get(&slot.collection).map_or(0, |found| found.waiting);
        if of_host >= EXCESS_FACTOR * HOST_WAITING_MAX
            || of_collection >= EXCESS_FACTOR * COLLECTION_WAITING_MAX
        {
            return Err(candidate);
        }
        let host = Self::host(&mut self.hosts, slot.host);
        let queue = host.queues.entry(slot.collection).or_default();
        queue.push_back(Waiting { since: now, candidate });
        host.waiting += 1;
        self.waiting += 1;
        if host.waiting >= HOST_WAITING_MAX {
            self.crowded.insert(slot.host);
        }
        self.collections.entry(slot.collection).or_default().waiting += 1;
        self.arrivals.push_back((now, slot));
        Ok(())
    }

    /// Starts the attempt of a slot unless its host has the maximum number in flight.
    pub(crate) fn try_start(&mut self, slot: Slot) -> bool {
        let host = Self::host(&mut self.hosts, slot.host);
        let starts = host.in_flight < self.limits.host;
        host.in_flight += usize::from(starts);
        starts
    }

    /// Returns the slot of an attempt that has started.
    pub(crate) fn attempt_ended(&mut self, slot: Slot, now: Duration) {
        let host = Self::host(&mut self.hosts, slot.host);
        host.in_flight = host.in_flight.saturating_sub(1);
        host.pace.attempt_ended(now);
        self.release(slot);
    }

    /// Runs that may be claimed for a host.
    fn claims_max(&self, host: &Host<C>, now: Duration) -> usize {
        let ahead = host.pace.recently_ended(now).min(CLAIMED_AHEAD_FACTOR * self.limits.host);
        self.limits.host + ahead
    }

    /// Returns a slot whose attempt has not started.
    pub(crate) fn release(&mut self, slot: Slot) {
        let was_full = self.in_use >= self.limits.all;
        self.in_use = self.in_use.saturating_sub(1);
        let host = Self::host(&mut self.hosts, slot.host);
        host.in_use = host.in_use.saturating_sub(1);
        if host.waiting > 0 {
            self.unblocked.insert(slot.host);
        }
        let collection = self.collections.entry(slot.collection).or_default();
        let was_collection_full =
            collection.in_use >= self.limits.collection && collection.waiting > 0;
        collection.in_use = collection.in_use.saturating_sub(1);
        if was_full || was_collection_full {
            let may_start = |host: &Host<C>| match was_full {
                true => host.waiting > 0,
                false => host.queues.contains_key(&slot.collection),
            };
            let unblocked = self.hosts.iter().filter(|(_, host)| may_start(host));
            self.unblocked.extend(unblocked.map(|(key, _)| *key));
        }
        self.remove_unused(slot);
    }

    /// Removes and returns the waiting candidates that have a free slot now, and takes their slots:
    /// the collections of a host in turn, each in order of arrival.
    pub(crate) fn admit_waiting(&mut self, now: Duration) -> Vec<Admitted<C>> {
        let mut admitted = Vec::new();
        for key in std::mem::take(&mut self.unblocked) {
            while self.in_use < self.limits.all
                && let Some(collection) = self.next_collection(key, now)
            {
                let slot = Slot { host: key, collection };
                let Some(Waiting { since, candidate }) = self.pop(slot) else { break };
                self.take(slot);
                admitted.push(Admitted { slot, candidate, since });
            }
        }
        admitted
    }

    /// The collection whose candidate is the next of a host, if the host has a free slot.
    fn next_collection(&self, host: SlotKey, now: Duration) -> Option<SlotKey> {
        let is_free = |host: &&Host<C>| host.in_use < self.claims_max(host, now);
        let host = self.hosts.get(&host).filter(is_free)?;
        let after = host.turn.map_or(Bound::Unbounded, Bound::Excluded);
        let queues = host.queues.range((after, Bound::Unbounded)).chain(&host.queues);
        let is_free = |key: &SlotKey| {
            let in_use = self.collections.get(key).map_or(0, |collection| collection.in_use);
            in_use < self.limits.collection
        };
        queues.map(|(key, _)| *key).find(is_free)
    }

    /// Removes and returns the candidates that have waited for [`PARK_AFTER`].
    pub(crate) fn take_overdue(&mut self, now: Duration) -> Vec<C> {
        let mut overdue = Vec::new();
        if self.waiting == 0 {
            self.arrivals.clear();
        }
        let is_overdue = |since: Duration| since + PARK_AFTER <= now;
        while self.arrivals.front().is_some_and(|(since, _)| is_overdue(*since))
            && let Some((_, slot)) = self.arrivals.pop_front()
        {
            let queue =
                self.hosts.get(&slot.host).and_then(|host| host.queues.get(&slot.collection));
            let first = queue.and_then(VecDeque::front);
            if first.is_some_and(|first| is_overdue(first.since)) {
                overdue.extend(self.pop(slot).map(|waiting| waiting.candidate));
                self.remove_unused(slot);
            }
        }
        overdue
    }

    /// When the next candidate has waited for [`PARK_AFTER`].
    pub(crate) fn next_overdue(&self) -> Option<Duration> {
        let first = self.arrivals.front().filter(|_| self.waiting > 0);
        first.map(|(since, _)| *since + PARK_AFTER)
    }

    fn host(hosts: &mut BTreeMap<SlotKey, Host<C>>, key: SlotKey) -> &mut Host<C> {
        let new = || Host {
            in_use: 0,
            in_flight: 0,
            pace: Pace::default(),
            waiting: 0,
            queues: BTreeMap::new(),
            turn: None,
        };
        hosts.entry(key).or_insert_with(new)
    }

    fn take(&mut self, slot: Slot) {
        self.in_use += 1;
        Self::host(&mut self.hosts, slot.host).in_use += 1;
        self.collections.entry(slot.collection).or_default().in_use += 1;
    }

    /// Removes the first candidate of a queue.
    fn pop(&mut self, slot: Slot) -> Option<Waiting<C>> {
        let host = self.hosts.get_mut(&slot.host)?;
        let queue = host.queues.get_mut(&slot.collection)?;
        let first = queue.pop_front()?;
        if queue.is_empty() {
            host.queues.remove(&slot.collection);
        }
        host.turn = Some(slot.collection);
        host.waiting -= 1;
        if host.waiting < HOST_WAITING_MAX {
            self.crowded.remove(&slot.host);
        }
        self.collections.entry(slot.collection).or_default().waiting -= 1;
        self.waiting -= 1;
        Some(first)
    }

    /// Removes the entries of a slot's host and collection if nothing uses them.
    fn remove_unused(&mut self, slot: Slot) {
        if self.hosts.get(&slot.host).is_some_and(|host| host.in_use + host.waiting == 0) {
            self.hosts.remove(&slot.host);
        }
        let collection = self.collections.get(&slot.collection);
        if collection.is_some_and(|found| found.in_use + found.waiting == 0) {
            self.collections.remove(&slot.collection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: AdmissionLimits = AdmissionLimits { all: 5, host: 2, collection: 4 };
    const NOW: Duration = Duration::from_secs(100);

    fn slot(host: &str, collection: i64) -> Slot {
        let collection = SlotKey::of_collection(CollectionKey(collection));
        Slot { host: SlotKey::of_host(host), collection }
    }

    fn acquires(admission: &mut Admission<u32>, slot: Slot, candidate: u32) -> bool {
        let is_acquired = admission.try_acquire(slot, NOW).is_ok();
        if !is_acquired {
            admission.queue(slot, candidate, NOW).unwrap();
        }
        is_acquired
    }

    fn admitted(admission: &mut Admission<u32>) -> Vec<u32> {
        admission.admit_waiting(NOW).into_iter().map(|admitted| admitted.candidate).collect()
    }

    #[test]
    fn a_full_host_delays_only_its_own_candidates() {
        let mut admission = Admission::new(LIMITS);
        let (slow, fast) = (slot("slow", 1), slot("fast", 1));
        let in_use: Vec<_> =
            (0..4).map(|candidate| acquires(&mut admission, slow, candidate)).collect();
        assert_eq!(in_use, [true, true, false, false]);
        assert!(acquires(&mut admission, fast, 9));
        assert_eq!(admitted(&mut admission), [0; 0], "no slot was released");
        admission.release(slow);
        assert!(!acquires(&mut admission, slow, 4), "waiting candidates come first");
        assert_eq!(admitted(&mut admission), [2]);
        admission.release(slow);
        admission.release(slow);
        assert_eq!(admitted(&mut admission), [3, 4]);
    }

    #[test]
    fn a_full_collection_does_not_block_others() {
        let mut admission = Admission::new(LIMITS);
        let of = |host: u32, collection| slot(&host.to_string(), collection);
        let in_use: Vec<_> =
            (0..5).map(|candidate| acquires(&mut admission, of(candidate, 1), candidate)).collect();
        assert_eq!(in_use, [true, true, true, true, false]);
        assert!(acquires(&mut admission, of(7, 2), 7));
        assert!(!acquires(&mut admission, of(8, 3), 8), "all slots are in use");
        admission.release(of(7, 2));
        assert_eq!(admitted(&mut admission), [8], "the other collection is still full");
        admission.release(of(0, 1));
        assert_eq!(admitted(&mut admission), [4]);
    }

    #[test]
    fn a_full_collection_does_not_block_a_host_that_it_shares() {
        let limits = AdmissionLimits { all: 100, host: 2, collection: 1 };
        let mut admission = Admission::new(limits);
        assert!(acquires(&mut admission, slot("elsewhere", 1), 0));
        assert!(!acquires(&mut admission, slot("shared", 1), 1), "its collection is full");
        assert!(acquires(&mut admission, slot("shared", 2), 2));
        assert!(acquires(&mut admission, slot("shared", 3), 3));
        assert!(!acquires(&mut admission, slot("shared", 4), 4), "the host is full");
        admission.release(slot("shared", 2));
        assert_eq!(admitted(&mut admission), [4], "the first in the queue cannot start");
        admission.release(slot("shared", 3));
        assert_eq!(admitted(&mut admission), [0; 0]);
        admission.release(slot("elsewhere", 1));
        assert_eq!(admitted(&mut admission), [1]);
    }

    #[test]
    fn a_host_serves_collections_in_turn() {
        let mut admission = Admission::new(AdmissionLimits { host: 1, ..LIMITS });
        let collections = [1, 1, 1, 1, 2, 2, 3];
        for (candidate, collection) in (0..).zip(collections) {
            acquires(&mut admission, slot("h", collection), candidate);
        }
        let mut order = Vec::new();
        for _ in 1..collections.len() {
            admission.release(slot("h", 1));
            order.extend(admitted(&mut admission));
        }
        let turns: BTreeSet<_> =
            order.iter().take(3).map(|&served| collections[served as usize]).collect();
        assert_eq!(turns.len(), 3, "{order:?}");
    }

    #[test]
    fn runs_are_claimed_ahead_as_far_as_the_host_is_quick() {
        let limits = AdmissionLimits { all: 100, host: 2, collection: 100 };
        let (mut admission, slot) = (Admission::<u32>::new(limits), slot("h", 1));
        let claimed = |admission: &mut Admission<u32>, now| {
            (0..100).take_while(|_| admission.try_acquire(slot, now).is_ok()).count()
        };
        assert_eq!(claimed(&mut admission, NOW), 2);
        assert!(admission.try_start(slot) && admission.try_start(slot));
        admission.attempt_ended(slot, NOW);
        assert_eq!(claimed(&mut admission, NOW), 2, "one for the free slot, one ahead");
        assert!(admission.try_start(slot));
        assert!(!admission.try_start(slot), "two attempts are in flight");
        for _ in 0..20 {
            admission.attempt_ended(slot, NOW);
            admission.take(slot);
            assert!(admission.try_start(slot));
        }
        let ahead = CLAIMED_AHEAD_FACTOR * limits.host;
        assert_eq!(claimed(&mut admission, NOW), ahead - 1, "not more than a multiple");
        admission.release(slot);
        assert_eq!(claimed(&mut admission, NOW + 2 * Pace::PERIOD), 0, "it is no longer quick");
    }

    #[test]
    fn unused_hosts_and_collections_are_removed() {
        let mut admission = Admission::new(LIMITS);
        for number in 0..10_000 {
            let slot = slot(&number.to_string(), number);
            assert!(acquires(&mut admission, slot, 0));
            admission.release(slot);
        }
        assert_eq!((admission.hosts.len(), admission.collections.len()), (0, 0));
    }

    #[test]
    fn waiting_candidates_stop_reads_of_their_collections_only() {
        let limits = AdmissionLimits { all: 100_000, host: 1, collection: 100_000 };
        let mut admission = Admission::new(limits);
        for candidate in 0..=COLLECTION_WAITING_MAX as u32 {
            assert!(admission.accepts_more_of(CollectionKey(1)));
            acquires(&mut admission, slot("h", 1), candidate);
        }
        assert!(!admission.accepts_more_of(CollectionKey(1)));
        acquires(&mut admission, slot("h", 2), 0);
        assert!(admission.accepts_more_of(CollectionKey(2)));
        for candidate in 0..HOST_WAITING_MAX as u32 - COLLECTION_WAITING_MAX as u32 {
            acquires(&mut admission, slot("h", 3 + i64::from(candidate % 2)), candidate);
        }
        assert!(!admission.accepts_more_of(CollectionKey(2)), "its host has a long queue");
        assert!(admission.accepts_more_of(CollectionKey(9)));
        assert_eq!(admission.free_slots(), 99_999, "waiting candidates need no slots");
    }

    #[test]
    fn a_queue_has_a_maximum_length() {
        let limits = AdmissionLimits { all: 100_000, host: 1, collection: 100_000 };
        let mut admission = Admission::new(limits);
        let fits = |admission: &mut Admission<()>, collection| {
            admission.queue(slot("h", collection), (), NOW).is_ok()
        };
        let of_one = (0..10_000).take_while(|_| fits(&mut admission, 1)).count();
        assert_eq!(of_one, EXCESS_FACTOR * COLLECTION_WAITING_MAX);
        let of_others = (2..10_000).take_while(|&collection| fits(&mut admission, collection));
        assert_eq!(of_one + of_others.count(), EXCESS_FACTOR * HOST_WAITING_MAX);
    }

    #[test]
    fn candidates_that_waited_too_long_are_taken() {
        let mut admission = Admission::new(AdmissionLimits { host: 1, ..LIMITS });
        let slot = slot("h", 1);
        admission.try_acquire(slot, NOW).unwrap();
        for (candidate, millis) in [(1, 0), (2, 0), (3, 400), (4, 800)] {
            admission.queue(slot, candidate, NOW + Duration::from_millis(millis)).unwrap();
        }
        admission.release(slot);
        assert_eq!(admitted(&mut admission), [1]);
        assert_eq!(admission.next_overdue(), Some(NOW + PARK_AFTER));
        assert_eq!(admission.take_overdue(NOW + Duration::from_millis(999)), [0; 0]);
        assert_eq!(admission.take_overdue(NOW + Duration::from_millis(1_500)), [2, 3]);
        assert_eq!(admission.waiting(), 1);
        assert_eq!(admission.free_slots_of(slot.host), 0);
        assert_eq!(admission.take_overdue(NOW + Duration::from_millis(1_800)), [4]);
        assert_eq!(admission.next_overdue(), None);
        assert_eq!(admission.free_slots_of(slot.collection), 3);
    }
}
