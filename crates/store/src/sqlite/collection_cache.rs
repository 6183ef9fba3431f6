//! What is cached of collections, as far as somebody has asked.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

/// What is known of collections, as of the newest commit.
pub(crate) struct CollectionCache<K, V> {
    known: RwLock<Known<K, V>>,
    /// As many are cached; then all are forgotten.
    max: usize,
}

struct Known<K, V> {
    values: HashMap<K, V>,
    changes: Changes,
}

/// How many commits have changed collections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes(u64);

impl<K: Eq + Hash, V: Clone> CollectionCache<K, V> {
    /// Nothing yet, and never more than so many.
    pub(crate) fn new(max: usize) -> CollectionCache<K, V> {
        let known = Known { values: HashMap::new(), changes: Changes::default() };
        CollectionCache { known: RwLock::new(known), max }
    }

    /// What is known.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.values.get(key).cloned()
    }

    /// How many commits have changed collections by now: for who reads them next.
    pub(crate) fn changes(&self) -> Changes {
        self.known.read().unwrap_or_else(PoisonError::into_inner).changes
    }

    /// Remembers what was read, unless something was changed since before it was read.
    pub(crate) fn learn(&self, since: Changes, read: impl IntoIterator<Item = (K, V)>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.changes == since {
            for (key, value) in read {
                if known.values.len() >= self.max {
                    known.values.clear();
                }
                known.values.insert(key, value);
            }
        }
    }

    /// A commit has changed some. What is answered after this knows of it.
    pub(crate) fn forget(&self) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.values.clear();
        known.changes.0 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_before_a_change_is_not_remembered_after_it() {
        let cached = CollectionCache::new(9);
        let before = cached.changes();
        cached.learn(before, [(1, Some(true)), (2, None)]);
        assert_eq!((cached.get(&1), cached.get(&2)), (Some(Some(true)), Some(None)));
        cached.forget();
        assert_eq!(cached.get(&1), None);
        cached.learn(before, [(1, Some(true))]);
        assert_eq!(cached.get(&1), None, "it was read before the change");
        cached.learn(cached.changes(), [(1, Some(false))]);
        assert_eq!(cached.get(&1), Some(Some(false)));
    }

    #[test]
    fn no_more_is_remembered_than_may_be() {
        let cached = CollectionCache::new(9);
        cached.learn(cached.changes(), (0..100).map(|key| (key, ())));
        let known = (0..100).filter(|key| cached.get(key).is_some());
        assert!(known.count() <= 9);
        assert_eq!(cached.get(&99), Some(()));
    }
}
