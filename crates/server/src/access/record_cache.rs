//! Cache of records of the store. Entries expire after two seconds: a busy client does not cost a
//! read for each request, and a change by another process is noticed within seconds.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kalends_recurrence::Instant;
use kalends_store::{Reply, StoreError};

/// Lifetime of an entry.
const ENTRY_TTL: Duration = Duration::from_secs(2);
/// Cached records; more than are in use at the same time. A full cache is cleared.
pub(super) const ENTRIES_MAX: usize = 1_024;

struct Entry<V> {
    /// `None` if this process has deleted the record.
    record: Option<V>,
    read_at: Instant,
}

pub(super) struct RecordCache<K, V>(Mutex<HashMap<K, Entry<V>>>);

impl<K, V> Default for RecordCache<K, V> {
    fn default() -> RecordCache<K, V> {
        RecordCache(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, V: Clone> RecordCache<K, V> {
    /// Finds a record in the cache, or reads it.
    pub(super) async fn find<'s>(
        &self,
        key: &K,
        now: Instant,
        read: impl FnOnce() -> Reply<'s, Option<V>>,
    ) -> Result<Option<V>, StoreError> {
        if let Some(entry) = self.entries().get(key).filter(|entry| entry.is_recent(now)) {
            return Ok(entry.record.clone());
        }
        let found = read().await?;
        let mut entries = self.entries();
        // Deleted while it was read.
        if entries.get(key).is_some_and(|entry| entry.record.is_none() && entry.is_recent(now)) {
            return Ok(None);
        }
        match &found {
            None => drop(entries.remove(key)),
            Some(record) => {
                make_room(&mut entries, key);
                let entry = Entry { record: Some(record.clone()), read_at: now };
                entries.insert(key.clone(), entry);
            }
        }
        Ok(found)
    }

    /// Notes that this process has deleted a record.
    pub(super) fn note_deleted(&self, key: &K, now: Instant) {
        let mut entries = self.entries();
        make_room(&mut entries, key);
        entries.insert(key.clone(), Entry { record: None, read_at: now });
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<K, Entry<V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Entry<V> {
    fn is_recent(&self, now: Instant) -> bool {
        match self.record {
            Some(_) => is_within(self.read_at, now, ENTRY_TTL),
            // A request may have read the clock before the deletion.
            None => now < self.read_at.saturating_add(ENTRY_TTL),
        }
    }
}

fn make_room<K: Eq + Hash, V>(entries: &mut HashMap<K, V>, key: &K) {
    if entries.len() >= ENTRIES_MAX && !entries.contains_key(key) {
        entries.clear();
    }
}

/// Whether `now` is less than `time` after `then`. False if the clock was set back before `then`.
pub(super) fn is_within(then: Instant, now: Instant, time: Duration) -> bool {
    then <= now && now < then.saturating_add(time)
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    fn at(milliseconds: i64) -> Instant {
        Instant::from_ticks(milliseconds * 10_000).unwrap()
    }

    #[tokio::test]
    async fn a_record_is_read_again_after_two_seconds() {
        let cache = RecordCache::default();
        let find =
            |value: i32, now| cache.find(&'k', at(now), move || Box::pin(ready(Ok(Some(value)))));
        assert_eq!(find(1, 0).await, Ok(Some(1)));
        assert_eq!(find(2, 1_999).await, Ok(Some(1)));
        assert_eq!(find(3, 2_000).await, Ok(Some(3)));
        assert_eq!(find(4, 1_000).await, Ok(Some(4)), "the clock was set back");
    }

    #[tokio::test]
    async fn a_record_that_is_deleted_while_it_is_read_is_not_cached() {
        let cache = RecordCache::default();
        let read = || -> Reply<'_, Option<i32>> {
            cache.note_deleted(&'k', at(5));
            Box::pin(ready(Ok(Some(1))))
        };
        assert_eq!(cache.find(&'k', at(0), read).await, Ok(None));
        assert_eq!(cache.find(&'k', at(10), || Box::pin(ready(Ok(Some(1))))).await, Ok(None));
    }

    #[tokio::test]
    async fn the_cache_is_bounded() {
        let cache = RecordCache::default();
        for key in 0..3 * ENTRIES_MAX {
            let read = || -> Reply<'_, Option<usize>> { Box::pin(ready(Ok(Some(key)))) };
            assert_eq!(cache.find(&key, at(0), read).await, Ok(Some(key)));
        }
        assert!(cache.entries().len() <= ENTRIES_MAX);
    }
}
