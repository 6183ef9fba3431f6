//! Which collections there are, and whether they are enabled, as far as somebody has asked.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// As many collections are remembered; then all are forgotten.
const KNOWN_MAX: usize = 100_000;

/// What is known of collections, as of the newest commit.
#[derive(Default)]
pub(crate) struct Switches(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// `None` for a collection that is gone.
    enabled: HashMap<i64, Option<bool>>,
    changes: Changes,
}

/// How many commits have changed collections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes(u64);

impl Switches {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a collection is enabled, `None` inside where it is gone; `None` where that is not
    /// known.
    pub(crate) fn get(&self, collection: i64) -> Option<Option<bool>> {
        self.known().enabled.get(&collection).copied()
    }

    /// How many commits have changed collections by now: for who reads them next.
    pub(crate) fn changes(&self) -> Changes {
        self.known().changes
    }

    /// Remembers what was read, unless something was changed since before it was read.
    pub(crate) fn learn(&self, since: Changes, read: HashMap<i64, Option<bool>>) {
        let mut known = self.known();
        if known.changes == since {
            if known.enabled.len() + read.len() > KNOWN_MAX {
                known.enabled.clear();
            }
            known.enabled.extend(read);
        }
    }

    /// A commit has changed some. What is answered after this knows of it.
    pub(crate) fn forget(&self) {
        let mut known = self.known();
        known.enabled.clear();
        known.changes.0 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_before_a_change_is_not_remembered_after_it() {
        let switches = Switches::default();
        let before = switches.changes();
        switches.learn(before, [(1, Some(true)), (2, None)].into());
        assert_eq!((switches.get(1), switches.get(2)), (Some(Some(true)), Some(None)));
        switches.forget();
        assert_eq!(switches.get(1), None);
        switches.learn(before, [(1, Some(true))].into());
        assert_eq!(switches.get(1), None, "it was read before the change");
        switches.learn(switches.changes(), [(1, Some(false))].into());
        assert_eq!(switches.get(1), Some(Some(false)));
    }
}
