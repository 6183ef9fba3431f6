//! A local estimate of the store's clock. Nodes that share a store schedule by it, so that clock skew
//! between the nodes does not matter.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kalends_environment::{Clock, Sleep};
use kalends_recurrence::Instant;
use kalends_store::{LeaseClock, StoreError};
use tokio::sync::Notify;

/// The store's clock, extrapolated between reads with the monotonic clock.
pub struct StoreClock {
    own: Arc<dyn Clock>,
    last_read: Mutex<Option<ClockReading>>,
    /// Notified when a read corrects the estimate.
    corrected: Notify,
}

/// A time read from the store and the local uptime of the read.
#[derive(Clone, Copy)]
struct ClockReading {
    time: Instant,
    uptime: Duration,
}

impl ClockReading {
    fn extrapolate(self, uptime: Duration) -> Instant {
        self.time.saturating_add(uptime.saturating_sub(self.uptime))
    }
}

impl StoreClock {
    /// A clock that has read the time of the store. `own` measures the time between the reads.
    pub async fn synchronized(
        store: &dyn LeaseClock,
        own: Arc<dyn Clock>,
    ) -> Result<StoreClock, StoreError> {
        let clock = StoreClock::unsynchronized(own);
        clock.synchronize(store).await?;
        Ok(clock)
    }

    /// A clock that follows `own` until the first read. A server must not use it to answer requests.
    pub fn unsynchronized(own: Arc<dyn Clock>) -> StoreClock {
        StoreClock { own, last_read: Mutex::default(), corrected: Notify::new() }
    }

    fn last_read(&self) -> MutexGuard<'_, Option<ClockReading>> {
        self.last_read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the store's clock. The store read it at some moment of the round trip; assuming the end
    /// of the round trip can make the estimate slow but never fast, so nothing starts early.
    pub async fn synchronize(&self, store: &dyn LeaseClock) -> Result<(), StoreError> {
        let before = self.own.uptime();
        let time = store.now().await?;
        let after = self.own.uptime();
        let latest = time.saturating_add(after.saturating_sub(before));
        let mut last_read = self.last_read();
        let estimate = last_read.map(|reading| reading.extrapolate(after));
        // A plausible estimate is kept, so that the clock does not jitter.
        if estimate.is_none_or(|estimate| estimate < time || estimate > latest) {
            *last_read = Some(ClockReading { time, uptime: after });
            self.corrected.notify_waiters();
        }
        Ok(())
    }
}

impl fmt::Debug for StoreClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreClock({})", self.now())
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        let last_read = *self.last_read();
        let time = last_read.and_then(|reading| reading.extrapolate(self.own.uptime()).timestamp());
        time.unwrap_or_else(|| self.own.now())
    }

    fn sleep_until(&self, until: Timestamp) -> Sleep<'_> {
        Box::pin(async move {
            loop {
                // Subscribe before reading the time, so that no correction is missed.
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
