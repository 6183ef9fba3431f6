//! What is cache of collections, as far as somebody has asked.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

/// What is entries of collections, as of the newest commit.
pub(crate) struct CollectionCache<K, V> {
    entries: RwLock<Entries<K, V>>,
    /// As many are cache; then all are forgotten.
    max: usize,
}

struct Entries<K, V> {
    values: HashMap<K, V>,
    version: CacheVersion,
}

/// How many commits have changed collections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheVersion(u64);

impl<K: Eq + Hash, V: Clone> CollectionCache<K, V> {
    /// Nothing yet, and never more than so many.
    pub(crate) fn new(max: usize) -> CollectionCache<K, V> {
        let entries = Entries { values: HashMap::new(), version: CacheVersion::default() };
        CollectionCache { entries: RwLock::new(entries), max }
    }

    /// What is entries.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.values.get(key).cloned()
    }

    /// How many commits have changed collections by now: for who reads them next.
    pub(crate) fn version(&self) -> CacheVersion {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).version
    }

    /// Remembers what was read, unless something was changed since before it was read.
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

    /// A commit has changed some. What is answered after this knows of it.
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
