//! Static tokens, as the store keeps them. What was read is good for a moment, so that a busy client
//! costs no read each time and a revoked token is worth nothing within seconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kalends_recurrence::Instant;
use kalends_store::{Store, StoreError, TokenId, TokenRecord};

/// For so long what was read is good.
const FRESH: Duration = Duration::from_secs(2);
/// As often the last use of a token is noted, at most.
const NOTED_EVERY: Duration = Duration::from_secs(60);
/// Tokens that are remembered. More than are in use at once; where there are more they are read
/// again.
const REMEMBERED_MAX: usize = 1_024;

struct Known {
    record: TokenRecord,
    read: Instant,
    noted: Option<Instant>,
}

#[derive(Default)]
pub(super) struct KnownTokens(Mutex<HashMap<TokenId, Known>>);

impl KnownTokens {
    /// A token, as it is now or was a moment ago.
    pub(super) async fn find(
        &self,
        store: &dyn Store,
        id: &TokenId,
        now: Instant,
    ) -> Result<Option<TokenRecord>, StoreError> {
        if let Some(record) = self.remembered(id, now) {
            return Ok(Some(record));
        }
        let found = store.token(id.clone()).await?;
        let mut known = self.known();
        let Some(record) = &found else {
            known.remove(id);
            return Ok(None);
        };
        if known.len() >= REMEMBERED_MAX && !known.contains_key(id) {
            known.clear();
        }
        let noted = known.get(id).and_then(|known| known.noted).or(record.last_used);
        known.insert(id.clone(), Known { record: record.clone(), read: now, noted });
        Ok(found)
    }

    fn remembered(&self, id: &TokenId, now: Instant) -> Option<TokenRecord> {
        let known = self.known();
        let known = known.get(id)?;
        is_within(known.read, now, FRESH).then(|| known.record.clone())
    }

    /// Notes in the store that a token was used, now and then.
    pub(super) fn note_use(&self, store: &Arc<dyn Store>, id: &TokenId, now: Instant) {
        if let Some(known) = self.known().get_mut(id) {
            if known.noted.is_some_and(|noted| is_within(noted, now, NOTED_EVERY)) {
                return;
            }
            known.noted = Some(now);
        }
        let (store, id) = (Arc::clone(store), id.clone());
        // A use that cannot be noted is no reason to refuse it.
        tokio::spawn(async move { drop(store.note_token_use(id, now).await) });
    }

    fn known(&self) -> MutexGuard<'_, HashMap<TokenId, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `now` is at most so much later; a clock that was set back is not.
fn is_within(then: Instant, now: Instant, time: Duration) -> bool {
    then <= now && now < then.saturating_add(time)
}
