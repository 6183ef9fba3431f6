//! Who may begin: at most so many attempts at once in all, at one host, and for one collection, so
//! that a target that hangs delays nobody else. Who finds no room waits here, with what was read
//! about it; the waiting is bounded too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kalends_domain::{Action, Target};
use kalends_store::record::CollectionKey;

/// Of one collection, as many wait with what was read about them. While as many wait, no more of it
/// are read.
const COLLECTION_WAITING_MAX: usize = 500;
/// In all, as many wait so.
const WAITING_MAX: usize = 10_000;
/// While some wait, more are read only when there is room for as many: a question for one costs
/// almost as much as one for hundreds.
const READ_MIN: usize = 250;
/// Where there is little room in all, for one part of it in so many.
const READ_SHARE: usize = 8;

/// AssignmentResult many attempts may be under way at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionLimits {
    pub(crate) all: usize,
    pub(crate) host: usize,
    pub(crate) collection: usize,
}

/// Where an attempt takes up room.
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

/// Host and port as they are written: who spells one host in many ways gets the room of many.
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

/// The admission, and who waits for them.
pub(crate) struct Admission<W> {
    limits: AdmissionLimits,
    inside: usize,
    hosts: BTreeMap<Arc<str>, Host<W>>,
    collections: BTreeMap<CollectionKey, Collection>,
    waiting: usize,
    /// Hosts where somebody may find room now.
    vacant: BTreeSet<Arc<str>>,
    /// Somebody waits for room elsewhere than at a host.
    elsewhere: bool,
}

struct Host<W> {
    inside: usize,
    waiting: VecDeque<(CollectionKey, W)>,
}

#[derive(Default)]
struct Collection {
    inside: usize,
    waiting: usize,
}

/// Whether there was room.
pub(crate) enum Acquired<W> {
    /// There is; it is taken until [`Admission::leave`].
    Slot(W),
    /// There is none, and it waits.
    Queued,
}

impl<W> Admission<W> {
    pub(crate) fn new(limits: AdmissionLimits) -> Admission<W> {
        Admission {
            limits,
            inside: 0,
            hosts: BTreeMap::new(),
            collections: BTreeMap::new(),
            waiting: 0,
            vacant: BTreeSet::new(),
            elsewhere: false,
        }
    }

    /// Whether more of a collection should be read.
    pub(crate) fn accepts_more_of(&self, collection: CollectionKey) -> bool {
        let of_it = self.collections.get(&collection).map_or(0, |collection| collection.waiting);
        of_it < COLLECTION_WAITING_MAX
    }

    /// AssignmentResult many more should be read.
    pub(crate) fn read_capacity(&self) -> usize {
        let room = self.limits.all.saturating_sub(self.inside + self.waiting);
        let room = room.min(WAITING_MAX.saturating_sub(self.waiting));
        let is_worth_it = room >= READ_MIN.min(self.limits.all / READ_SHARE);
        if self.waiting == 0 || is_worth_it { room } else { 0 }
    }

    /// Takes room, or waits for it behind those who wait for the same host.
    pub(crate) fn acquire(&mut self, slot: &Slot, who: W) -> Acquired<W> {
        let free = |host: &Host<W>| host.inside < self.limits.host && host.waiting.is_empty();
        let host_is_free = self.hosts.get(&slot.host).is_none_or(free);
        if host_is_free && self.is_free_elsewhere(slot.collection) {
            self.take(slot);
            return Acquired::Slot(who);
        }
        self.elsewhere |= host_is_free;
        self.host(&slot.host).waiting.push_back((slot.collection, who));
        self.collections.entry(slot.collection).or_default().waiting += 1;
        self.waiting += 1;
        Acquired::Queued
    }

    fn is_free_elsewhere(&self, collection: CollectionKey) -> bool {
        let inside = self.collections.get(&collection).map_or(0, |collection| collection.inside);
        self.inside < self.limits.all && inside < self.limits.collection
    }

    fn host(&mut self, name: &Arc<str>) -> &mut Host<W> {
        let new = || Host { inside: 0, waiting: VecDeque::new() };
        self.hosts.entry(Arc::clone(name)).or_insert_with(new)
    }

    fn take(&mut self, slot: &Slot) {
        self.inside += 1;
        self.host(&slot.host).inside += 1;
        self.collections.entry(slot.collection).or_default().inside += 1;
    }

    /// Gives room back.
    pub(crate) fn release(&mut self, slot: &Slot) {
        self.inside = self.inside.saturating_sub(1);
        let host = self.host(&slot.host);
        host.inside = host.inside.saturating_sub(1);
        let is_waited_for = !host.waiting.is_empty();
        if host.inside == 0 && !is_waited_for {
            self.hosts.remove(&slot.host);
        }
        if is_waited_for {
            self.vacant.insert(Arc::clone(&slot.host));
        }
        let collection = self.collections.entry(slot.collection).or_default();
        collection.inside = collection.inside.saturating_sub(1);
        if collection.inside + collection.waiting == 0 {
            self.collections.remove(&slot.collection);
        }
        if std::mem::take(&mut self.elsewhere) {
            let waited_for = self.hosts.iter().filter(|(_, host)| !host.waiting.is_empty());
            self.vacant.extend(waited_for.map(|(name, _)| Arc::clone(name)));
        }
    }

    /// Those who find room now; it is taken.
    pub(crate) fn admit_waiting(&mut self) -> Vec<(Slot, W)> {
        let mut admitted = Vec::new();
        for name in std::mem::take(&mut self.vacant) {
            loop {
                let limit = self.limits.host;
                let Some(host) = self.hosts.get(&name).filter(|host| host.inside < limit) else {
                    break;
                };
                let Some(&(collection, _)) = host.waiting.front() else { break };
                if !self.is_free_elsewhere(collection) {
                    self.elsewhere = true;
                    break;
                }
                let Some((collection, who)) = self.host(&name).waiting.pop_front() else { break };
                self.waiting -= 1;
                self.collections.entry(collection).or_default().waiting -= 1;
                let slot = Slot { host: Arc::clone(&name), collection };
                self.take(&slot);
                admitted.push((slot, who));
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

    fn enters(admission: &mut Admission<u32>, slot: &Slot, who: u32) -> bool {
        matches!(admission.acquire(slot, who), Acquired::Slot(_))
    }

    fn who(admitted: Vec<(Slot, u32)>) -> Vec<u32> {
        admitted.into_iter().map(|(_, who)| who).collect()
    }

    #[test]
    fn a_full_host_keeps_others_waiting_and_nobody_else() {
        let mut admission = Admission::new(LIMITS);
        let (slow, fast) = (slot("slow", 1), slot("fast", 1));
        let inside: Vec<_> = (0..4).map(|who| enters(&mut admission, &slow, who)).collect();
        assert_eq!(inside, [true, true, false, false]);
        assert!(enters(&mut admission, &fast, 9));
        assert_eq!(who(admission.admit_waiting()), [0; 0], "nobody has left");
        admission.release(&slow);
        assert!(!enters(&mut admission, &slow, 4), "those who wait come first");
        assert_eq!(who(admission.admit_waiting()), [2]);
        admission.release(&slow);
        admission.release(&slow);
        assert_eq!(who(admission.admit_waiting()), [3, 4]);
    }

    #[test]
    fn a_collection_leaves_room_for_others() {
        let mut admission = Admission::new(LIMITS);
        let of = |host: u32, collection| slot(&host.to_string(), collection);
        let inside: Vec<_> = (0..5).map(|who| enters(&mut admission, &of(who, 1), who)).collect();
        assert_eq!(inside, [true, true, true, true, false]);
        assert!(enters(&mut admission, &of(7, 2), 7));
        assert!(!enters(&mut admission, &of(8, 3), 8), "all room is taken");
        admission.release(&of(7, 2));
        assert_eq!(who(admission.admit_waiting()), [8], "the other collection is still full");
        admission.release(&of(0, 1));
        assert_eq!(who(admission.admit_waiting()), [4]);
    }

    #[test]
    fn what_is_empty_is_forgotten() {
        let mut admission = Admission::new(LIMITS);
        for number in 0..10_000 {
            let slot = slot(&number.to_string(), number);
            assert!(enters(&mut admission, &slot, 0));
            admission.release(&slot);
        }
        assert_eq!((admission.hosts.len(), admission.collections.len()), (0, 0));
    }

    #[test]
    fn no_more_is_read_than_can_wait() {
        let mut admission =
            Admission::new(AdmissionLimits { all: 100_000, host: 1, collection: 100_000 });
        let slot = slot("h", 1);
        for who in 0..=COLLECTION_WAITING_MAX {
            assert!(admission.accepts_more_of(CollectionKey(1)));
            admission.acquire(&slot, who);
        }
        assert!(!admission.accepts_more_of(CollectionKey(1)));
        assert!(admission.accepts_more_of(CollectionKey(2)));
        assert_eq!(admission.read_capacity(), WAITING_MAX - COLLECTION_WAITING_MAX);
    }

    #[test]
    fn while_some_wait_others_are_read_many_at_a_time() {
        let mut admission =
            Admission::new(AdmissionLimits { all: 1_000, host: 1, collection: 1_000 });
        for who in 0..800 {
            admission.acquire(&slot("h", 1), who);
        }
        assert_eq!(admission.read_capacity(), 200);
        for who in 0..80 {
            admission.acquire(&slot("h", 1), who);
        }
        assert_eq!(admission.read_capacity(), 0);
        for _ in 0..5 {
            admission.release(&slot("h", 1));
            admission.admit_waiting();
        }
        assert_eq!(admission.read_capacity(), 125);
    }
}
