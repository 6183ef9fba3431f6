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

/// How many attempts may be under way at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoomLimits {
    pub(crate) all: usize,
    pub(crate) host: usize,
    pub(crate) collection: usize,
}

/// Where an attempt takes up room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: Arc<str>,
    pub(crate) collection: CollectionKey,
}

impl Place {
    pub(crate) fn of(action: &Action, collection: CollectionKey) -> Place {
        Place { host: host_of(action), collection }
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

/// The rooms, and who waits for them.
pub(crate) struct Rooms<W> {
    limits: RoomLimits,
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
pub(crate) enum Entry<W> {
    /// There is; it is taken until [`Rooms::leave`].
    Entered(W),
    /// There is none, and it waits.
    Waits,
}

impl<W> Rooms<W> {
    pub(crate) fn new(limits: RoomLimits) -> Rooms<W> {
        Rooms {
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
    pub(crate) fn takes_more_of(&self, collection: CollectionKey) -> bool {
        let of_it = self.collections.get(&collection).map_or(0, |collection| collection.waiting);
        of_it < COLLECTION_WAITING_MAX
    }

    /// How many more should be read.
    pub(crate) fn takes_more(&self) -> usize {
        let room = self.limits.all.saturating_sub(self.inside + self.waiting);
        let room = room.min(WAITING_MAX.saturating_sub(self.waiting));
        let is_worth_it = room >= READ_MIN.min(self.limits.all / READ_SHARE);
        if self.waiting == 0 || is_worth_it { room } else { 0 }
    }

    /// Takes room, or waits for it behind those who wait for the same host.
    pub(crate) fn enter(&mut self, place: &Place, who: W) -> Entry<W> {
        let free = |host: &Host<W>| host.inside < self.limits.host && host.waiting.is_empty();
        let host_is_free = self.hosts.get(&place.host).is_none_or(free);
        if host_is_free && self.is_free_elsewhere(place.collection) {
            self.take(place);
            return Entry::Entered(who);
        }
        self.elsewhere |= host_is_free;
        self.host(&place.host).waiting.push_back((place.collection, who));
        self.collections.entry(place.collection).or_default().waiting += 1;
        self.waiting += 1;
        Entry::Waits
    }

    fn is_free_elsewhere(&self, collection: CollectionKey) -> bool {
        let inside = self.collections.get(&collection).map_or(0, |collection| collection.inside);
        self.inside < self.limits.all && inside < self.limits.collection
    }

    fn host(&mut self, name: &Arc<str>) -> &mut Host<W> {
        let new = || Host { inside: 0, waiting: VecDeque::new() };
        self.hosts.entry(Arc::clone(name)).or_insert_with(new)
    }

    fn take(&mut self, place: &Place) {
        self.inside += 1;
        self.host(&place.host).inside += 1;
        self.collections.entry(place.collection).or_default().inside += 1;
    }

    /// Gives room back.
    pub(crate) fn leave(&mut self, place: &Place) {
        self.inside = self.inside.saturating_sub(1);
        let host = self.host(&place.host);
        host.inside = host.inside.saturating_sub(1);
        let is_waited_for = !host.waiting.is_empty();
        if host.inside == 0 && !is_waited_for {
            self.hosts.remove(&place.host);
        }
        if is_waited_for {
            self.vacant.insert(Arc::clone(&place.host));
        }
        let collection = self.collections.entry(place.collection).or_default();
        collection.inside = collection.inside.saturating_sub(1);
        if collection.inside + collection.waiting == 0 {
            self.collections.remove(&place.collection);
        }
        if std::mem::take(&mut self.elsewhere) {
            let waited_for = self.hosts.iter().filter(|(_, host)| !host.waiting.is_empty());
            self.vacant.extend(waited_for.map(|(name, _)| Arc::clone(name)));
        }
    }

    /// Those who find room now; it is taken.
    pub(crate) fn admitted(&mut self) -> Vec<(Place, W)> {
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
                let place = Place { host: Arc::clone(&name), collection };
                self.take(&place);
                admitted.push((place, who));
            }
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RoomLimits = RoomLimits { all: 5, host: 2, collection: 4 };

    fn place(host: &str, collection: i64) -> Place {
        Place { host: host.into(), collection: CollectionKey(collection) }
    }

    fn enters(rooms: &mut Rooms<u32>, place: &Place, who: u32) -> bool {
        matches!(rooms.enter(place, who), Entry::Entered(_))
    }

    fn who(admitted: Vec<(Place, u32)>) -> Vec<u32> {
        admitted.into_iter().map(|(_, who)| who).collect()
    }

    #[test]
    fn a_full_host_keeps_others_waiting_and_nobody_else() {
        let mut rooms = Rooms::new(LIMITS);
        let (slow, fast) = (place("slow", 1), place("fast", 1));
        let inside: Vec<_> = (0..4).map(|who| enters(&mut rooms, &slow, who)).collect();
        assert_eq!(inside, [true, true, false, false]);
        assert!(enters(&mut rooms, &fast, 9));
        assert_eq!(who(rooms.admitted()), [0; 0], "nobody has left");
        rooms.leave(&slow);
        assert!(!enters(&mut rooms, &slow, 4), "those who wait come first");
        assert_eq!(who(rooms.admitted()), [2]);
        rooms.leave(&slow);
        rooms.leave(&slow);
        assert_eq!(who(rooms.admitted()), [3, 4]);
    }

    #[test]
    fn a_collection_leaves_room_for_others() {
        let mut rooms = Rooms::new(LIMITS);
        let of = |host: u32, collection| place(&host.to_string(), collection);
        let inside: Vec<_> = (0..5).map(|who| enters(&mut rooms, &of(who, 1), who)).collect();
        assert_eq!(inside, [true, true, true, true, false]);
        assert!(enters(&mut rooms, &of(7, 2), 7));
        assert!(!enters(&mut rooms, &of(8, 3), 8), "all room is taken");
        rooms.leave(&of(7, 2));
        assert_eq!(who(rooms.admitted()), [8], "the other collection is still full");
        rooms.leave(&of(0, 1));
        assert_eq!(who(rooms.admitted()), [4]);
    }

    #[test]
    fn what_is_empty_is_forgotten() {
        let mut rooms = Rooms::new(LIMITS);
        for number in 0..10_000 {
            let place = place(&number.to_string(), number);
            assert!(enters(&mut rooms, &place, 0));
            rooms.leave(&place);
        }
        assert_eq!((rooms.hosts.len(), rooms.collections.len()), (0, 0));
    }

    #[test]
    fn no_more_is_read_than_can_wait() {
        let mut rooms = Rooms::new(RoomLimits { all: 100_000, host: 1, collection: 100_000 });
        let place = place("h", 1);
        for who in 0..=COLLECTION_WAITING_MAX {
            assert!(rooms.takes_more_of(CollectionKey(1)));
            rooms.enter(&place, who);
        }
        assert!(!rooms.takes_more_of(CollectionKey(1)));
        assert!(rooms.takes_more_of(CollectionKey(2)));
        assert_eq!(rooms.takes_more(), WAITING_MAX - COLLECTION_WAITING_MAX);
    }

    #[test]
    fn while_some_wait_others_are_read_many_at_a_time() {
        let mut rooms = Rooms::new(RoomLimits { all: 1_000, host: 1, collection: 1_000 });
        for who in 0..800 {
            rooms.enter(&place("h", 1), who);
        }
        assert_eq!(rooms.takes_more(), 200);
        for who in 0..80 {
            rooms.enter(&place("h", 1), who);
        }
        assert_eq!(rooms.takes_more(), 0);
        for _ in 0..5 {
            rooms.leave(&place("h", 1));
            rooms.admitted();
        }
        assert_eq!(rooms.takes_more(), 125);
    }
}
