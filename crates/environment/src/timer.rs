//! A timer with sub-millisecond resolution.
//!
//! The timers of tokio have a resolution of one millisecond and round up. On Linux this module uses a
//! `timerfd` instead: the thread that polls the connections polls the timer too, so no other thread
//! has to wake up.

use std::time::Duration;

/// Sleeps for `duration`, and hardly longer. It returns early if polling the `timerfd` fails, so
/// callers check the clock again.
pub(crate) async fn sleep(duration: Duration) {
    #[cfg(target_os = "linux")]
    if let Ok(timer) = timerfd::start(duration) {
        return timer.expired().await;
    }
    tokio::time::sleep(duration).await;
}

#[cfg(target_os = "linux")]
mod timerfd {
    use std::cell::RefCell;
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tokio::runtime::{Handle, Id};

    /// Expired timers that a thread keeps; more are closed.
    const IDLE_MAX: usize = 8;

    thread_local! {
        /// Expired timers, the last one used most recently. To start one again takes one system call, and
        /// to create, register and close one takes five.
        static IDLE: RefCell<Vec<Timer>> = const { RefCell::new(Vec::new()) };
    }

    /// A timer that becomes readable when it expires.
    pub(super) struct Timer {
        descriptor: AsyncFd<OwnedFd>,
        /// The runtime that polls it.
        runtime: Id,
    }

    /// Starts a timer that expires after `duration`.
    pub(super) fn start(duration: Duration) -> io::Result<Timer> {
        let runtime = Handle::current().id();
        let timer = match take_idle(runtime) {
            Some(timer) => timer,
            None => create(runtime)?,
        };
        let it_value = Timespec::try_from(duration).map_err(io::Error::other)?;
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(timer.descriptor.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        Ok(timer)
    }

    impl Timer {
        /// Waits until the timer expires, or cannot be polled.
        pub(super) async fn expired(self) {
            let Ok(mut ready) = self.descriptor.readable().await else { return };
            // The next expiration makes it ready again: starting the timer resets its expirations.
            ready.clear_ready();
            drop(ready);
            IDLE.with_borrow_mut(|idle| {
                if idle.len() < IDLE_MAX {
                    idle.push(self);
                }
            });
        }
    }

    /// Takes an idle timer of a runtime, and closes those of other runtimes.
    fn take_idle(runtime: Id) -> Option<Timer> {
        IDLE.with_borrow_mut(|idle| {
            idle.retain(|timer| timer.runtime == runtime);
            idle.pop()
        })
    }

    #[expect(
        deprecated,
        reason = "`AsyncFd` is discouraged for descriptors that others may close; this one is owned"
    )]
    fn create(runtime: Id) -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let descriptor = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
        Ok(Timer { descriptor, runtime })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock as _, SystemClock};

    #[test]
    fn timers_are_started_again_on_every_runtime_of_a_thread() {
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let runtimes = [runtime(), runtime()];
        for milliseconds in [2, 1, 3] {
            let duration = Duration::from_millis(milliseconds);
            for runtime in &runtimes {
                let before = SystemClock.uptime();
                runtime.block_on(async { tokio::join!(sleep(duration * 2), sleep(duration)) });
                assert!(SystemClock.uptime() >= before + duration * 2);
            }
        }
    }
}
