//! What time it is, and waiting for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

use crate::timer;

/// Counts the time that the machine slept, where the system can tell.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UPTIME: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const UPTIME: ClockId = ClockId::Monotonic;

/// No wait is longer without another look at the clock, which may have been set meanwhile.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A wait that is going on.
pub type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Tells the time of day, in UTC, and how much time passes.
pub trait Clock: Send + Sync {
    /// The present.
    fn now(&self) -> Timestamp;

    /// Waits until the clock shows `until` or later. It never ends early.
    fn sleep_until(&self, until: Timestamp) -> Sleep<'_>;

    /// How long the machine has been up, asleep or not. It goes on evenly, however the clock is
    /// set.
    fn uptime(&self) -> Duration;

    /// Lets some time pass, however the clock is set meanwhile.
    fn sleep(&self, duration: Duration) -> Sleep<'_>;
}

/// The machine's clock, read through the C library. Sleep for it takes a runtime with I/O and time.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep_until(&self, until: Timestamp) -> Sleep<'_> {
        Box::pin(async move {
            loop {
                let left = until.duration_since(self.now());
                let Ok(left) = Duration::try_from(left) else { return };
                if left.is_zero() {
                    return;
                }
                timer::sleep(left.min(LOOK_AGAIN)).await;
            }
        })
    }

    fn uptime(&self) -> Duration {
        let shown = clock_gettime(UPTIME);
        Duration::try_from(shown).unwrap_or_default()
    }

    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        let until = self.uptime().saturating_add(duration);
        Box::pin(async move {
            loop {
                let left = until.saturating_sub(self.uptime());
                if left.is_zero() {
                    return;
                }
                // The timers of the runtime do not count the sleep of the machine.
                tokio::time::sleep(left.min(LOOK_AGAIN)).await;
            }
        })
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock {
    /// What it shows, and how far it was moved forwards in all.
    now: Mutex<(Timestamp, Duration)>,
    moved: Notify,
}

impl ManualClock {
    /// A clock that shows `now`.
    pub fn new(now: Timestamp) -> ManualClock {
        ManualClock { now: Mutex::new((now, Duration::ZERO)), moved: Notify::new() }
    }

    /// Moves the clock, forwards or backwards. Time has passed only where it moves forwards.
    pub fn set(&self, now: Timestamp) {
        let mut shown = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let forwards = Duration::try_from(now.duration_since(shown.0)).unwrap_or_default();
        *shown = (now, shown.1.saturating_add(forwards));
        drop(shown);
        self.moved.notify_waiters();
    }

    async fn moved_until(&self, is_over: impl Fn() -> bool + Send) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // Listens before it looks, so that no move is missed between the two.
            moved.as_mut().enable();
            if is_over() {
                return;
            }
            moved.await;
        }
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    fn sleep_until(&self, until: Timestamp) -> Sleep<'_> {
        Box::pin(self.moved_until(move || self.now() >= until))
    }

    fn uptime(&self) -> Duration {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        let until = self.uptime().saturating_add(duration);
        Box::pin(self.moved_until(move || self.uptime() >= until))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(future)
    }

    #[test]
    fn a_manual_clock_shows_what_it_was_set_to() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
        let later = Timestamp::from_second(86_400).unwrap();
        clock.set(later);
        assert_eq!(clock.now(), later);
        assert_eq!(clock.uptime(), Duration::from_secs(86_400));
        clock.set(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.uptime(), Duration::from_secs(86_400), "nobody can set it back");
    }

    #[test]
    fn who_waits_for_a_manual_clock_is_woken_when_it_gets_there() {
        block_on(async {
            let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
            let at = |second| Timestamp::from_second(second).unwrap();
            let waiting = clock.clone();
            let task = tokio::spawn(async move { waiting.sleep_until(at(10)).await });
            for second in [5, 9, 10] {
                tokio::task::yield_now().await;
                assert!(!task.is_finished(), "{second}");
                clock.set(at(second));
            }
            task.await.unwrap();
        });
    }

    #[test]
    fn time_passes_though_a_clock_is_set_back() {
        block_on(async {
            let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
            let at = |second| Timestamp::from_second(second).unwrap();
            let waiting = clock.clone();
            let task = tokio::spawn(async move { waiting.sleep(Duration::from_secs(10)).await });
            for second in [9, -100, -99] {
                tokio::task::yield_now().await;
                assert!(!task.is_finished(), "{second}");
                clock.set(at(second));
            }
            task.await.unwrap();
            assert_eq!(clock.uptime(), Duration::from_secs(10));
            let before = SystemClock.uptime();
            SystemClock.sleep(Duration::from_millis(3)).await;
            assert!(SystemClock.uptime() >= before + Duration::from_millis(3));
        });
    }

    #[test]
    fn the_system_clock_is_past_the_day_it_was_written_and_never_ends_a_wait_early() {
        let written = Timestamp::from_second(1_700_000_000).unwrap();
        assert!(SystemClock.now() > written);
        block_on(async {
            let until = SystemClock.now().checked_add(Duration::from_millis(3)).unwrap();
            let before = SystemClock.uptime();
            SystemClock.sleep_until(until).await;
            assert!(SystemClock.now() >= until);
            assert!(SystemClock.uptime() > before);
            SystemClock.sleep_until(written).await;
        });
    }
}
