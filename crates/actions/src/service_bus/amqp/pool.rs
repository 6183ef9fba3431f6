//! Connections that are kept: one for each collection, broker and identity, for some minutes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use kalends_domain::CollectionPath;
use kalends_environment::Clock;

/// Connections that are kept; then the one that was not used for longest goes.
const CONNECTIONS_MAX: usize = 256;
/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(300);

/// Whose connection it is, and where to. A collection never uses another's.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) collection: CollectionPath,
    pub(super) broker: String,
    pub(super) key_name: String,
    /// The digest of the key, so that another key does not get this one's connection.
    pub(super) key: Vec<u8>,
}

/// The place of one connection.
pub(super) struct Slot<T> {
    pub(super) kept: tokio::sync::Mutex<Option<T>>,
    used: Mutex<Timestamp>,
}

impl<T> Slot<T> {
    fn used(&self) -> Timestamp {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Slots<T> = Mutex<HashMap<Key, Arc<Slot<T>>>>;

pub(super) struct Pool<T> {
    clock: Arc<dyn Clock>,
    slots: Arc<Slots<T>>,
}

impl<T: Send + 'static> Pool<T> {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Pool<T> {
        Pool { clock, slots: Arc::default() }
    }

    /// The place of a connection, which may be empty. It counts as used now.
    pub(super) fn slot(&self, key: &Key) -> Arc<Slot<T>> {
        let now = self.clock.now();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(key) {
            *slot.used.lock().unwrap_or_else(PoisonError::into_inner) = now;
            return Arc::clone(slot);
        }
        if slots.len() >= CONNECTIONS_MAX {
            let oldest = slots.iter().min_by_key(|(_, slot)| slot.used());
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                slots.remove(&oldest);
            }
        }
        let slot = Arc::new(Slot { kept: tokio::sync::Mutex::new(None), used: Mutex::new(now) });
        slots.insert(key.clone(), Arc::clone(&slot));
        let watched = (Arc::downgrade(&self.slots), Arc::downgrade(&slot));
        tokio::spawn(close_when_idle(watched.0, watched.1, key.clone(), Arc::clone(&self.clock)));
        slot
    }

    /// The connection is not used again.
    pub(super) fn forget(&self, key: &Key) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// This connection is not used again; another that was made meanwhile is.
    pub(super) fn forget_slot(&self, key: &Key, slot: &Arc<Slot<T>>) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.get(key).is_some_and(|kept| Arc::ptr_eq(kept, slot)) {
            slots.remove(key);
        }
    }

    /// A place where nothing could be opened is not kept.
    pub(super) fn forget_if_empty(&self, key: &Key, slot: &Arc<Slot<T>>) {
        if slot.kept.try_lock().is_ok_and(|kept| kept.is_none()) {
            self.forget_slot(key, slot);
        }
    }
}

/// Waits until nobody has used a connection for long enough, and removes it.
async fn close_when_idle<T>(
    slots: Weak<Slots<T>>,
    slot: Weak<Slot<T>>,
    key: Key,
    clock: Arc<dyn Clock>,
) {
    // Each turn waits until the last known use is old, so there is one for each use at most.
    while let Some(until) = slot.upgrade().map(|slot| slot.used() + IDLE) {
        if clock.now() < until {
            clock.sleep_until(until).await;
            continue;
        }
        let Some(slots) = slots.upgrade() else { return };
        let mut slots = slots.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same =
            slots.get(&key).is_some_and(|kept| Weak::ptr_eq(&Arc::downgrade(kept), &slot));
        if is_same {
            slots.remove(&key);
        }
        return;
    }
}

#[cfg(test)]
mod tests {
    use kalends_domain::{CollectionName, GroupName, GroupPath, SubscriptionId};
    use kalends_environment::ManualClock;

    use super::*;

    fn key(name: &str) -> Key {
        let group = GroupPath {
            subscription: SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap(),
            group: GroupName::new("group").unwrap(),
        };
        Key {
            collection: CollectionPath { group, collection: CollectionName::new(name).unwrap() },
            broker: String::new(),
            key_name: String::new(),
            key: Vec::new(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn block_on<F: std::future::Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn a_connection_is_kept_while_it_is_used_and_closed_when_it_is_not() {
        block_on(async {
            let clock = Arc::new(ManualClock::new(at(0)));
            let pool = Pool::<Arc<()>>::new(clock.clone());
            let connection = Arc::new(());
            *pool.slot(&key("a")).kept.lock().await = Some(Arc::clone(&connection));
            for second in [200, 400, 600] {
                clock.set(at(second));
                tokio::task::yield_now().await;
                assert!(pool.slot(&key("a")).kept.lock().await.is_some(), "{second}");
            }
            clock.set(at(901));
            while Arc::strong_count(&connection) > 1 {
                tokio::task::yield_now().await;
            }
            assert!(pool.slot(&key("a")).kept.lock().await.is_none());
        });
    }

    #[test]
    fn collections_share_no_connection_and_the_oldest_goes_when_there_are_too_many() {
        block_on(async {
            let clock = Arc::new(ManualClock::new(at(0)));
            let pool = Pool::<u32>::new(clock.clone());
            *pool.slot(&key("first")).kept.lock().await = Some(1);
            clock.set(at(1));
            assert_eq!(*pool.slot(&key("second")).kept.lock().await, None);
            for number in 1..CONNECTIONS_MAX {
                pool.slot(&key(&format!("c{number}")));
            }
            assert_eq!(*pool.slot(&key("first")).kept.lock().await, None, "closed");
        });
    }
}
