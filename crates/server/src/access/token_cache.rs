//! Cache of the static tokens of the store, and the record of their last use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kalends_recurrence::Instant;
use kalends_store::{ApiStore, StoreError, TokenId, TokenRecord};

use crate::access::record_cache::{ENTRIES_MAX, RecordCache, is_within};

/// Minimum interval between two writes of the last use of a token.
const LAST_USE_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct TokenCache {
    records: RecordCache<TokenId, TokenRecord>,
    /// The last uses that this process wrote to the store. A full map is cleared.
    last_uses: Mutex<HashMap<TokenId, Instant>>,
}

impl TokenCache {
    /// Finds a token in the cache or the store.
    pub(super) async fn find(
        &self,
        store: &dyn ApiStore,
        id: &TokenId,
        now: Instant,
    ) -> Result<Option<TokenRecord>, StoreError> {
        self.records.find(id, now, || store.token(id.clone())).await
    }

    /// Writes the last use of a token to the store, at most once a minute.
    pub(super) fn note_use(&self, store: &Arc<dyn ApiStore>, token: &TokenRecord, now: Instant) {
        let id = &token.id;
        {
            let mut last_uses = self.last_uses.lock().unwrap_or_else(PoisonError::into_inner);
            let written = last_uses.get(id).copied().max(token.last_used);
            if written.is_some_and(|written| is_within(written, now, LAST_USE_INTERVAL)) {
                return;
            }
            if last_uses.len() >= ENTRIES_MAX {
                last_uses.clear();
            }
            last_uses.insert(id.clone(), now);
        }
        let (store, id) = (Arc::clone(store), id.clone());
        // A failed write does not fail the request.
        tokio::spawn(async move { drop(store.note_token_use(id, now).await) });
    }
}
