//! Admission control: limits attempts in flight in total, per host and per collection, so that a
//! target that hangs does not delay other jobs. Candidates without a free slot wait in a bounded
//! queue together with their job definition.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kalends_domain::{Action, Target};
use kalends_store::record::CollectionKey;

/// Maximum number of waiting candidates per collection. At the limit no more jobs of the collection
/// are read.
const COLLECTION_WAITING_MAX: usize = 500;
/// Maximum number of waiting candidates.
const WAITING_MAX: usize = 10_000;
/// While candidates wait, jobs are read only in batches of at least this size: a read of one job costs
/// almost as much as a read of hundreds.
const READ_MIN: usize = 250;
/// With a small total limit the minimum batch is this fraction of it.
const READ_SHARE: usize = 8;

/// Maximum numbers of attempts in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionLimits {
    pub(crate) all: usize,
    pub(crate) host: usize,
    pub(crate) collection: usize,
}

/// The limits that an attempt counts against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) host: Arc<str>,
    pub(crate) collection: CollectionKey,
}

impl Slot {
    pub(crate) fn of(action: &Action, collection: CollectionKey) -> Slot {
        Slot { host: host_of(action), collection }
    }
}

/// Host and port as written in the URI. Different spellings of a host count separately.
fn host_of(action: &Action) -> Arc<str> {
    let name = match &action.target {
        Target::Http(request) => {
            let text = request.uri.as_str();
            let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
            rest.split(['/', '?', '#']).next()
        }
        Target::StorageQueue(message) => message.storage_account.as_deref(),
        Target::ServiceBusQueue(message) | Target::ServiceBusTopic(message) => {
            message.namespace.as_deref()
        }
    };
    name.unwrap_or_default().into()
}

/// Slots in use and the candidates that wait for one.
pub(crate) struct Admission<C> {
    limits: AdmissionLimits,
    in_use: usize,
    hosts: BTreeMap<Arc<str>, Host<C>>,
    collections: BTreeMap<CollectionKey, Collection>,
    waiting: usize,
    /// Hosts whose queue may have an admissible candidate.
    unblocked: BTreeSet<Arc<str>>,
    /// Whether a candidate waits for the total limit or for a collection limit.
    has_blocked_by_other_limit: bool,
}

struct Host<C> {
    in_use: usize,
    waiting: VecDeque<(CollectionKey, C)>,
}

#[derive(Default)]
struct Collection {
    in_use: usize,
    waiting: usize,
}

/// Result of [`Admission::acquire`].
pub(crate) enum Acquired<C> {
    /// A slot was free. It is in use until [`Admission::release`].
    Slot(C),
    /// No slot was free. The candidate waits for [`Admission::admit_waiting`].
    Queued,
}

impl<C> Admission<C> {
    pub(crate) fn new(limits: AdmissionLimits) -> Admission<C> {
        Admission {
            limits,
            in_use: 0,
            hosts: BTreeMap::new(),
            collections: BTreeMap::new(),
            waiting: 0,
            unblocked: BTreeSet::new(),
            has_blocked_by_other_limit: false,
        }
    }

    /// Whether more jobs of a collection may be read.
    pub(crate) fn accepts_more_of(&self, collection: CollectionKey) -> bool {
        let waiting = self.collections.get(&collection).map_or(0, |collection| collection.waiting);
        waiting < COLLECTION_WAITING_MAX
    }

    /// Number of jobs that may be read now.
    pub(crate) fn read_capacity(&self) -> usize {
        let capacity = self.limits.all.saturating_sub(self.in_use + self.waiting);
        let capacity = capacity.min(WAITING_MAX.saturating_sub(self.waiting));
        let is_full_batch = capacity >= READ_MIN.min(self.limits.all / READ_SHARE);
        if self.waiting == 0 || is_full_batch { capacity } else { 0 }
    }

    /// Takes a slot, or queues the candidate behind others of the same host.
    pub(crate) fn acquire(&mut self, slot: &Slot, candidate: C) -> Acquired<C> {
        let host_is_free = self.is_host_free(slot);
        if host_is_free && self.is_below_other_limits(slot.collection) {
            self.take(slot);
            return Acquired::Slot(candidate);
        }
        self.has_blocked_by_other_limit |= host_is_free;
        self.host(&slot.host).waiting.push_back((slot.collection, candidate));
        self.collections.entry(slot.collection).or_default().waiting += 1;
        self.waiting += 1;
        Acquired::Queued
    }

    /// Takes a slot if one is free and no candidate waits for the host.
    pub(crate) fn try_acquire(&mut self, slot: &Slot) -> bool {
        let is_free = self.is_host_free(slot) && self.is_below_other_limits(slot.collection);
        if is_free {
            self.take(slot);
        }
        is_free
    }

    fn is_host_free(&self, slot: &Slot) -> bool {
        let is_free = |host: &Host<C>| host.in_use < self.limits.host && host.waiting.is_empty();
        self.hosts.get(&slot.host).is_none_or(is_free)
    }

    fn is_below_other_limits(&self, collection: CollectionKey) -> bool {
        let in_use = self.collections.get(&collection).map_or(0, |collection| collection.in_use);
        self.in_use < self.limits.all && in_use < self.limits.collection
    }

    fn host(&mut self, name: &Arc<str>) -> &mut Host<C> {
        let new = || Host { in_use: 0, waiting: VecDeque::new() };
        self.hosts.entry(Arc::clone(name)).or_insert_with(new)
    }

    fn take(&mut self, slot: &Slot) {
        self.in_use += 1;
        self.host(&slot.host).in_use += 1;
        self.collections.entry(slot.collection).or_default().in_use += 1;
    }

    /// Returns a slot.
    pub(crate) fn release(&mut self, slot: &Slot) {
        self.in_use = self.in_use.saturating_sub(1);
        let host = self.host(&slot.host);
        host.in_use = host.in_use.saturating_sub(1);
        let has_waiting = !host.waiting.is_empty();
        if host.in_use == 0 && !has_waiting {
            self.hosts.remove(&slot.host);
        }
        if has_waiting {
            self.unblocked.insert(Arc::clone(&slot.host));
        }
        let collection = self.collections.entry(slot.collection).or_default();
        collection.in_use = collection.in_use.saturating_sub(1);
        if collection.in_use + collection.waiting == 0 {
            self.collections.remove(&slot.collection);
        }
        if std::mem::take(&mut self.has_blocked_by_other_limit) {
            let blocked = self.hosts.iter().filter(|(_, host)| !host.waiting.is_empty());
            self.unblocked.extend(blocked.map(|(name, _)| Arc::clone(name)));
        }
    }

    /// Removes and returns the waiting candidates that have a free slot now, and takes their slots.
    pub(crate) fn admit_waiting(&mut self) -> Vec<(Slot, C)> {
        let mut admitted = Vec::new();
        for name in std::mem::take(&mut self.unblocked) {
            loop {
                let limit = self.limits.host;
                let Some(host) = self.hosts.get(&name).filter(|host| host.in_use < limit) else {
                    break;
                };
                let Some(&(collection, _)) = host.waiting.front() else { break };
                if !self.is_below_other_limits(collection) {
                    self.has_blocked_by_other_limit = true;
                    break;
                }
                let Some((collection, candidate)) = self.host(&name).waiting.pop_front() else {
                    break;
                };
                self.waiting -= 1;
                self.collections.entry(collection).or_default().waiting -= 1;
                let slot = Slot { host: Arc::clone(&name), collection };
                self.take(&slot);
                admitted.push((slot, candidate));
            }
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: AdmissionLimits = AdmissionLimits { all: 5, host: 2, collection: 4 };

    fn slot(host: &str, collection: i64) -> Slot {
        Slot { host: host.into(), collection: CollectionKey(collection) }
    }

    fn acquires(admission: &mut Admission<u32>, slot: &Slot, candidate: u32) -> bool {
        matches!(admission.acquire(slot, candidate), Acquired::Slot(_))
    }

    fn candidates(admitted: Vec<(Slot, u32)>) -> Vec<u32> {
        admitted.into_iter().map(|(_, candidate)| candidate).collect()
    }

    #[test]
    fn a_full_host_delays_only_its_own_candidates() {
        let mut admission = Admission::new(LIMITS);
        let (slow, fast) = (slot("slow", 1), slot("fast", 1));
        let in_use: Vec<_> =
            (0..4).map(|candidate| acquires(&mut admission, &slow, candidate)).collect();
        assert_eq!(in_use, [true, true, false, false]);
        assert!(acquires(&mut admission, &fast, 9));
        assert_eq!(candidates(admission.admit_waiting()), [0; 0], "no slot was released");
        admission.release(&slow);
        assert!(!acquires(&mut admission, &slow, 4), "waiting candidates come first");
        assert_eq!(candidates(admission.admit_waiting()), [2]);
        admission.release(&slow);
        admission.release(&slow);
        assert_eq!(candidates(admission.admit_waiting()), [3, 4]);
    }

    #[test]
    fn a_full_collection_does_not_block_others() {
        let mut admission = Admission::new(LIMITS);
        let of = |host: u32, collection| slot(&host.to_string(), collection);
        let in_use: Vec<_> = (0..5)
            .map(|candidate| acquires(&mut admission, &of(candidate, 1), candidate))
            .collect();
        assert_eq!(in_use, [true, true, true, true, false]);
        assert!(acquires(&mut admission, &of(7, 2), 7));
        assert!(!acquires(&mut admission, &of(8, 3), 8), "all slots are in use");
        admission.release(&of(7, 2));
        assert_eq!(
            candidates(admission.admit_waiting()),
            [8],
            "the other collection is still full"
        );
        admission.release(&of(0, 1));
        assert_eq!(candidates(admission.admit_waiting()), [4]);
    }

    #[test]
    fn unused_hosts_and_collections_are_removed() {
        let mut admission = Admission::new(LIMITS);
        for number in 0..10_000 {
            let slot = slot(&number.to_string(), number);
            assert!(acquires(&mut admission, &slot, 0));
            admission.release(&slot);
        }
        assert_eq!((admission.hosts.len(), admission.collections.len()), (0, 0));
    }

    #[test]
    fn reads_stop_when_the_queue_is_full() {
        let mut admission =
            Admission::new(AdmissionLimits { all: 100_000, host: 1, collection: 100_000 });
        let slot = slot("h", 1);
        for candidate in 0..=COLLECTION_WAITING_MAX {
            assert!(admission.accepts_more_of(CollectionKey(1)));
            admission.acquire(&slot, candidate);
        }
        assert!(!admission.accepts_more_of(CollectionKey(1)));
        assert!(admission.accepts_more_of(CollectionKey(2)));
        assert_eq!(admission.read_capacity(), WAITING_MAX - COLLECTION_WAITING_MAX);
    }

    #[test]
    fn jobs_are_read_in_large_batches_while_candidates_wait() {
        let mut admission =
            Admission::new(AdmissionLimits { all: 1_000, host: 1, collection: 1_000 });
        for candidate in 0..800 {
            admission.acquire(&slot("h", 1), candidate);
        }
        assert_eq!(admission.read_capacity(), 200);
        for candidate in 0..80 {
            admission.acquire(&slot("h", 1), candidate);
        }
        assert_eq!(admission.read_capacity(), 0);
        for _ in 0..5 {
            admission.release(&slot("h", 1));
            admission.admit_waiting();
        }
        assert_eq!(admission.read_capacity(), 125);
    }
}
