//! Waking at an instant, to a fraction of a millisecond.
//!
//! The runtime's own timer counts whole milliseconds and rounds up. Linux has timers that are files:
//! the thread that waits for its connections waits for them too, and no other has to be woken.

use std::time::Duration;

/// Waits for a time, and hardly longer. It may end early, where a timer cannot be waited for.
pub(crate) async fn sleep(time: Duration) {
    #[cfg(target_os = "linux")]
    if let Ok(timer) = timer_file::set(time) {
        return drop(timer.readable().await);
    }
    tokio::time::sleep(time).await;
}

#[cfg(target_os = "linux")]
mod timer_file {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// A timer that can be read when the time is over.
    #[expect(
        deprecated,
        reason = "meant for files that may be closed elsewhere: this one is owned"
    )]
    pub(super) fn set(time: Duration) -> io::Result<AsyncFd<OwnedFd>> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let it_value = Timespec::try_from(time).map_err(io::Error::other)?;
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
        AsyncFd::with_interest(timer, Interest::READABLE)
    }
}
