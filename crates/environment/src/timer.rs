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
        return drop(timer.readable().await);
    }
    tokio::time::sleep(duration).await;
}

#[cfg(target_os = "linux")]
mod timerfd {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// Creates a timer that becomes readable once, after `duration`.
    #[expect(
        deprecated,
        reason = "`AsyncFd` is discouraged for descriptors that others may close; this one is owned"
    )]
    pub(super) fn start(duration: Duration) -> io::Result<AsyncFd<OwnedFd>> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let it_value = Timespec::try_from(duration).map_err(io::Error::other)?;
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
        AsyncFd::with_interest(timer, Interest::READABLE)
    }
}
