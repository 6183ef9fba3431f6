//! The clock of the store, as far as a node can tell it: where many nodes share a store, all of them
//! go by this one, and what their own clocks show does not matter.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kalends_environment::{Clock, Sleep};
use kalends_recurrence::Instant;
use kalends_store::{Store, StoreError};
use tokio::sync::Notify;

/// The clock of the store, carried on between two askings by the time that the machine is up.
pub(crate) struct StoreClock {
    own: Arc<dyn Clock>,
    asked: Mutex<Option<Asked>>,
    /// What was believed turned out to be wrong.
    corrected: Notify,
}

/// What the store's clock showed, and when.
#[derive(Clone, Copy)]
struct Asked {
    shown: Instant,
    uptime: Duration,
}

impl Asked {
    fn carried_on(self, uptime: Duration) -> Instant {
        self.shown.saturating_add(uptime.saturating_sub(self.uptime))
    }
}

impl StoreClock {
    /// Shows what the node's clock shows until the store was asked.
    pub(crate) fn new(own: Arc<dyn Clock>) -> StoreClock {
        StoreClock { own, asked: Mutex::default(), corrected: Notify::new() }
    }

    fn asked(&self) -> MutexGuard<'_, Option<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the store. It looked at its clock somewhere between question and answer; that it was
    /// right before the answer makes this clock slow at most, and nothing early.
    pub(crate) async fn ask(&self, store: &dyn Store) -> Result<(), StoreError> {
        let before = self.own.uptime();
        let shown = store.now().await?;
        let after = self.own.uptime();
        let latest = shown.saturating_add(after.saturating_sub(before));
        let mut asked = self.asked();
        let believed = asked.map(|asked| asked.carried_on(after));
        // What was believed is kept while it can be right, so that the clock runs evenly.
        if believed.is_none_or(|believed| believed < shown || believed > latest) {
            *asked = Some(Asked { shown, uptime: after });
            self.corrected.notify_waiters();
        }
        Ok(())
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        let asked = *self.asked();
        let shown = asked.and_then(|asked| asked.carried_on(self.own.uptime()).timestamp());
        shown.unwrap_or_else(|| self.own.now())
    }

    fn sleep_until(&self, until: Timestamp) -> Sleep<'_> {
        Box::pin(async move {
            loop {
                // Listens before it looks, so that no correction is missed between the two.
                let corrected = self.corrected.notified();
                tokio::pin!(corrected);
                corrected.as_mut().enable();
                let left = until.duration_since(self.now());
                let Ok(left) = Duration::try_from(left) else { return };
                if left.is_zero() {
                    return;
                }
                tokio::select! {
                    biased;
                    () = corrected => {}
                    () = self.own.sleep(left) => {}
                }
            }
        })
    }

    fn uptime(&self) -> Duration {
        self.own.uptime()
    }

    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        self.own.sleep(duration)
    }
}
