//! The time of day, uptime, and sleeping.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

use crate::timer;

/// The clock behind [`Clock::uptime`]. It includes suspend time where the system supports that.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UPTIME: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const UPTIME: ClockId = ClockId::Monotonic;

/// Longest sleep between two readings of the clock, which may be set meanwhile.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A future that completes when a sleep has ended.
pub type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A source of the time of day, in UTC, and of elapsed time.
pub trait Clock: Send + Sync {
    /// Returns the current time of day.
    fn now(&self) -> Timestamp;

    /// Sleeps until the time of day is `until` or later. It never returns early, even if the clock
    /// is set back meanwhile.
    fn sleep_until(&self, until: Timestamp) -> Sleep<'_>;

    /// Returns the time since boot, including suspend time. It is monotonic: setting the clock does
    /// not affect it.
    fn uptime(&self) -> Duration;

    /// Sleeps for `duration` of uptime. Setting the clock does not affect it.
    fn sleep(&self, duration: Duration) -> Sleep<'_>;
}

/// The system clock. Sleeping requires a tokio runtime with I/O and time enabled.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the only place that reads the clock")]
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
                timer::sleep(left.min(RECHECK_INTERVAL)).await;
            }
        })
    }

    fn uptime(&self) -> Duration {
        let uptime = clock_gettime(UPTIME);
        Duration::try_from(uptime).unwrap_or_default()
    }

    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        let until = self.uptime().saturating_add(duration);
        Box::pin(async move {
            loop {
                let left = until.saturating_sub(self.uptime());
                if left.is_zero() {
                    return;
                }
                // The timers of tokio do not advance while the machine is suspended.
                tokio::time::sleep(left.min(RECHECK_INTERVAL)).await;
            }
        })
    }
}

/// A clock for tests: it changes only when it is set.
#[derive(Debug)]
pub struct ManualClock {
    /// Time of day, and the sum of all moves forward.
    now: Mutex<(Timestamp, Duration)>,
    moved: Notify,
}

impl ManualClock {
    /// Creates a clock set to `now`.
    pub fn new(now: Timestamp) -> ManualClock {
        ManualClock { now: Mutex::new((now, Duration::ZERO)), moved: Notify::new() }
    }

    /// Sets the clock, forward or back. Only moves forward add to the uptime.
    pub fn set(&self, now: Timestamp) {
        let mut time = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let forward = Duration::try_from(now.duration_since(time.0)).unwrap_or_default();
        *time = (now, time.1.saturating_add(forward));
        drop(time);
        self.moved.notify_waiters();
    }

    /// Sets the time of day without adding to the uptime, as an NTP step does.
    pub fn step_to(&self, now: Timestamp) {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).0 = now;
        self.moved.notify_waiters();
    }

    async fn sleep_until_moved_to(&self, is_reached: impl Fn() -> bool + Send) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // Registers before the check, so that no move between the two is missed.
            moved.as_mut().enable();
            if is_reached() {
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
        Box::pin(self.sleep_until_moved_to(move || self.now() >= until))
    }

    fn uptime(&self) -> Duration {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        let until = self.uptime().saturating_add(duration);
        Box::pin(self.sleep_until_moved_to(move || self.uptime() >= until))
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
    fn a_manual_clock_returns_the_time_it_was_set_to() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
        let later = Timestamp::from_second(86_400).unwrap();
        clock.set(later);
        assert_eq!(clock.now(), later);
        assert_eq!(clock.uptime(), Duration::from_secs(86_400));
        clock.set(Timestamp::UNIX_EPOCH);
        assert_eq!(
            clock.uptime(),
            Duration::from_secs(86_400),
            "setting the clock back leaves the uptime alone"
        );
        clock.step_to(later);
        assert_eq!((clock.now(), clock.uptime()), (later, Duration::from_secs(86_400)));
    }

    #[test]
    fn a_sleeper_on_a_manual_clock_wakes_when_the_time_is_reached() {
        block_on(async {
            let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
            let at = |second| Timestamp::from_second(second).unwrap();
            let sleeper = clock.clone();
            let task = tokio::spawn(async move { sleeper.sleep_until(at(10)).await });
            for second in [5, 9, 10] {
                tokio::task::yield_now().await;
                assert!(!task.is_finished(), "{second}");
                clock.set(at(second));
            }
            task.await.unwrap();
        });
    }

    #[test]
    fn a_sleep_counts_uptime_even_if_the_clock_is_set_back() {
        block_on(async {
            let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
            let at = |second| Timestamp::from_second(second).unwrap();
            let sleeper = clock.clone();
            let task = tokio::spawn(async move { sleeper.sleep(Duration::from_secs(10)).await });
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
    fn the_system_clock_is_plausible_and_never_wakes_early() {
        let past = Timestamp::from_second(1_700_000_000).unwrap();
        assert!(SystemClock.now() > past);
        block_on(async {
            let until = SystemClock.now().checked_add(Duration::from_millis(3)).unwrap();
            let before = SystemClock.uptime();
            SystemClock.sleep_until(until).await;
            assert!(SystemClock.now() >= until);
            assert!(SystemClock.uptime() > before);
            SystemClock.sleep_until(past).await;
        });
    }
}
