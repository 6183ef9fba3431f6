//! Pool of AMQP connections: one for each collection, broker and key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use kalends_domain::CollectionPath;
use kalends_environment::Clock;

/// Pooled connections; when the pool is full, the least recently used is closed.
const CONNECTIONS_MAX: usize = 256;
/// Idle time after which a connection is closed.
const IDLE_MAX: Duration = Duration::from_secs(300);

/// Attempts with equal keys share a connection. Collections never do.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct AmqpPoolKey {
    pub(super) collection: CollectionPath,
    pub(super) broker: String,
    pub(super) key_name: String,
    /// Digest of the key: attempts with another key use another connection.
    pub(super) key: Vec<u8>,
}

/// The slot of one connection.
pub(super) struct PoolSlot<T> {
    /// Empty until the connection is open.
    pub(super) connection: tokio::sync::Mutex<Option<T>>,
    last_used: Mutex<Timestamp>,
}

impl<T> PoolSlot<T> {
    fn last_used(&self) -> Timestamp {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Slots<T> = Mutex<HashMap<AmqpPoolKey, Arc<PoolSlot<T>>>>;

pub(super) struct AmqpPool<T> {
    clock: Arc<dyn Clock>,
    slots: Arc<Slots<T>>,
}

impl<T: Send + 'static> AmqpPool<T> {
    pub(super) fn new(clock: Arc<dyn Clock>) -> AmqpPool<T> {
        AmqpPool { clock, slots: Arc::default() }
    }

    /// The slot of a connection, which may be empty. Marks it as used.
    pub(super) fn slot(&self, key: &AmqpPoolKey) -> Arc<PoolSlot<T>> {
        let now = self.clock.now();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(key) {
            *slot.last_used.lock().unwrap_or_else(PoisonError::into_inner) = now;
            return Arc::clone(slot);
        }
        if slots.len() >= CONNECTIONS_MAX {
            let oldest = slots.iter().min_by_key(|(_, slot)| slot.last_used());
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                slots.remove(&oldest);
            }
        }
        let slot = Arc::new(PoolSlot {
            connection: tokio::sync::Mutex::new(None),
            last_used: Mutex::new(now),
        });
        slots.insert(key.clone(), Arc::clone(&slot));
        let watched = (Arc::downgrade(&self.slots), Arc::downgrade(&slot));
        tokio::spawn(close_when_idle(watched.0, watched.1, key.clone(), Arc::clone(&self.clock)));
        slot
    }

    /// Removes the connection of a key.
    pub(super) fn remove(&self, key: &AmqpPoolKey) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Removes this connection, but not one that replaced it meanwhile.
    pub(super) fn remove_slot(&self, key: &AmqpPoolKey, slot: &Arc<PoolSlot<T>>) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.get(key).is_some_and(|pooled| Arc::ptr_eq(pooled, slot)) {
            slots.remove(key);
        }
    }

    /// Removes a slot for which no connection could be opened.
    pub(super) fn remove_if_empty(&self, key: &AmqpPoolKey, slot: &Arc<PoolSlot<T>>) {
        if slot.connection.try_lock().is_ok_and(|connection| connection.is_none()) {
            self.remove_slot(key, slot);
        }
    }
}

/// Removes a connection after its idle time.
async fn close_when_idle<T>(
    slots: Weak<Slots<T>>,
    slot: Weak<PoolSlot<T>>,
    key: AmqpPoolKey,
    clock: Arc<dyn Clock>,
) {
    // At most one iteration for each use of the connection.
    while let Some(until) = slot.upgrade().map(|slot| slot.last_used() + IDLE_MAX) {
        if clock.now() < until {
            clock.sleep_until(until).await;
            continue;
        }
        let Some(slots) = slots.upgrade() else { return };
        let mut slots = slots.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same =
            slots.get(&key).is_some_and(|pooled| Weak::ptr_eq(&Arc::downgrade(pooled), &slot));
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

    fn key(name: &str) -> AmqpPoolKey {
        let group = GroupPath {
            subscription: SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap(),
            group: GroupName::new("group").unwrap(),
        };
        AmqpPoolKey {
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
    fn a_connection_stays_open_while_it_is_used_and_closes_when_idle() {
        block_on(async {
            let clock = Arc::new(ManualClock::new(at(0)));
            let pool = AmqpPool::<Arc<()>>::new(clock.clone());
            let connection = Arc::new(());
            *pool.slot(&key("a")).connection.lock().await = Some(Arc::clone(&connection));
            for second in [200, 400, 600] {
                clock.set(at(second));
                tokio::task::yield_now().await;
                assert!(pool.slot(&key("a")).connection.lock().await.is_some(), "{second}");
            }
            clock.set(at(901));
            while Arc::strong_count(&connection) > 1 {
                tokio::task::yield_now().await;
            }
            assert!(pool.slot(&key("a")).connection.lock().await.is_none());
        });
    }

    #[test]
    fn collections_share_no_connection_and_the_least_recently_used_is_closed() {
        block_on(async {
            let clock = Arc::new(ManualClock::new(at(0)));
            let pool = AmqpPool::<u32>::new(clock.clone());
            *pool.slot(&key("first")).connection.lock().await = Some(1);
            clock.set(at(1));
            assert_eq!(*pool.slot(&key("second")).connection.lock().await, None);
            for number in 1..CONNECTIONS_MAX {
                pool.slot(&key(&format!("c{number}")));
            }
            assert_eq!(*pool.slot(&key("first")).connection.lock().await, None, "closed");
        });
    }
}
