//! A cache of facts about collections, filled by reads.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

/// A bounded cache. It is invalidated before a commit that changes a collection is acknowledged, so
/// that reads after it never see older values.
pub(crate) struct CollectionCache<K, V> {
    entries: RwLock<Entries<K, V>>,
    /// Maximum number of entries. A full cache is cleared.
    max: usize,
}

struct Entries<K, V> {
    values: HashMap<K, V>,
    version: CacheVersion,
}

/// Number of invalidations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheVersion(u64);

impl<K: Eq + Hash, V: Clone> CollectionCache<K, V> {
    /// Creates an empty cache for at most `max` entries.
    pub(crate) fn new(max: usize) -> CollectionCache<K, V> {
        let entries = Entries { values: HashMap::new(), version: CacheVersion::default() };
        CollectionCache { entries: RwLock::new(entries), max }
    }

    /// A cached value.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.values.get(key).cloned()
    }

    /// The current version. Must be obtained before the snapshot of a read whose values are
    /// inserted.
    pub(crate) fn version(&self) -> CacheVersion {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).version
    }

    /// Inserts values that were read since version `since`. Does nothing if the cache was
    /// invalidated in between.
    pub(crate) fn insert(&self, since: CacheVersion, read: impl IntoIterator<Item = (K, V)>) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if entries.version == since {
            for (key, value) in read {
                if entries.values.len() >= self.max {
                    entries.values.clear();
                }
                entries.values.insert(key, value);
            }
        }
    }

    /// Clears the cache after a commit that changed collections.
    pub(crate) fn invalidate(&self) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        entries.values.clear();
        entries.version.0 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_before_an_invalidation_are_not_inserted() {
        let cache = CollectionCache::new(9);
        let before = cache.version();
        cache.insert(before, [(1, Some(true)), (2, None)]);
        assert_eq!((cache.get(&1), cache.get(&2)), (Some(Some(true)), Some(None)));
        cache.invalidate();
        assert_eq!(cache.get(&1), None);
        cache.insert(before, [(1, Some(true))]);
        assert_eq!(cache.get(&1), None, "it was read before the change");
        cache.insert(cache.version(), [(1, Some(false))]);
        assert_eq!(cache.get(&1), Some(Some(false)));
    }

    #[test]
    fn the_cache_holds_at_most_max_entries() {
        let cache = CollectionCache::new(9);
        cache.insert(cache.version(), (0..100).map(|key| (key, ())));
        let entries = (0..100).filter(|key| cache.get(key).is_some());
        assert!(entries.count() <= 9);
        assert_eq!(cache.get(&99), Some(()));
    }
}
