//! Parsed URLs of actions. Parsing takes longer than all other steps of building a request, and most
//! jobs call the same URL again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use url::Url;

/// Parsed URLs; the cache is cleared when it is full.
const ENTRIES_MAX: usize = 1_024;
/// Longer URLs are not cached, so that the cache takes at most about a megabyte.
const URL_BYTES_MAX: usize = 512;

/// Parsed URLs by their text.
#[derive(Default)]
pub(super) struct UrlCache {
    parsed: Mutex<HashMap<Box<str>, Arc<Url>>>,
}

impl UrlCache {
    /// Parses a URL; `None` if it is invalid.
    pub(super) fn parse(&self, text: &str) -> Option<Arc<Url>> {
        let is_cached = text.len() <= URL_BYTES_MAX;
        if is_cached && let Some(found) = self.lock().get(text) {
            return Some(Arc::clone(found));
        }
        let url = Arc::new(Url::parse(text).ok()?);
        if is_cached {
            let mut parsed = self.lock();
            if parsed.len() >= ENTRIES_MAX {
                parsed.clear();
            }
            parsed.insert(text.into(), Arc::clone(&url));
        }
        Some(url)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Url>>> {
        self.parsed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_parsed_once_and_the_cache_is_bounded() {
        let cache = UrlCache::default();
        let first = cache.parse("http://a.example/x?y=z").unwrap();
        assert!(Arc::ptr_eq(&first, &cache.parse("http://a.example/x?y=z").unwrap()));
        assert_eq!(cache.parse("http://"), None);
        let long = format!("http://a.example/{}", "x".repeat(URL_BYTES_MAX));
        assert_eq!(cache.parse(&long).unwrap().as_str(), long);
        assert_eq!(cache.lock().len(), 1);
        for number in 0..3 * ENTRIES_MAX {
            let text = format!("http://a.example/{number}");
            assert_eq!(cache.parse(&text).unwrap().as_str(), text);
            assert!(cache.lock().len() <= ENTRIES_MAX);
        }
    }
}
