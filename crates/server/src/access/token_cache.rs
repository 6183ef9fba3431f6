//! Cache of the static tokens of the store. Entries expire after two seconds: a busy client does not
//! cost a read for each request, and a revoked token is rejected within seconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kalends_recurrence::Instant;
use kalends_store::{ApiStore, StoreError, TokenId, TokenRecord};

/// Lifetime of an entry.
const ENTRY_TTL: Duration = Duration::from_secs(2);
/// Minimum interval between two writes of the last use of a token.
const LAST_USE_INTERVAL: Duration = Duration::from_secs(60);
/// Cached tokens; more than are in use at the same time. A full cache is cleared.
const ENTRIES_MAX: usize = 1_024;

struct CachedToken {
    record: TokenRecord,
    read_at: Instant,
    /// The last use that was written to the store.
    last_use_written: Option<Instant>,
}

#[derive(Default)]
pub(super) struct TokenCache(Mutex<HashMap<TokenId, CachedToken>>);

impl TokenCache {
    /// Finds a token in the cache or the store.
    pub(super) async fn find(
        &self,
        store: &dyn ApiStore,
        id: &TokenId,
        now: Instant,
    ) -> Result<Option<TokenRecord>, StoreError> {
        if let Some(record) = self.cached(id, now) {
            return Ok(Some(record));
        }
        let found = store.token(id.clone()).await?;
        let mut entries = self.entries();
        let Some(record) = &found else {
            entries.remove(id);
            return Ok(None);
        };
        if entries.len() >= ENTRIES_MAX && !entries.contains_key(id) {
            entries.clear();
        }
        let last_use_written = entries.get(id).and_then(|entry| entry.last_use_written);
        let last_use_written = last_use_written.or(record.last_used);
        let entry = CachedToken { record: record.clone(), read_at: now, last_use_written };
        entries.insert(id.clone(), entry);
        Ok(found)
    }

    fn cached(&self, id: &TokenId, now: Instant) -> Option<TokenRecord> {
        let entries = self.entries();
        let entry = entries.get(id)?;
        is_within(entry.read_at, now, ENTRY_TTL).then(|| entry.record.clone())
    }

    /// Writes the last use of a token to the store, at most once a minute.
    pub(super) fn note_use(&self, store: &Arc<dyn ApiStore>, id: &TokenId, now: Instant) {
        if let Some(entry) = self.entries().get_mut(id) {
            let written = entry.last_use_written;
            if written.is_some_and(|written| is_within(written, now, LAST_USE_INTERVAL)) {
                return;
            }
            entry.last_use_written = Some(now);
        }
        let (store, id) = (Arc::clone(store), id.clone());
        // A failed write does not fail the request.
        tokio::spawn(async move { drop(store.note_token_use(id, now).await) });
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<TokenId, CachedToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `now` is less than `time` after `then`. False if the clock was set back before `then`.
fn is_within(then: Instant, now: Instant, time: Duration) -> bool {
    then <= now && now < then.saturating_add(time)
}
