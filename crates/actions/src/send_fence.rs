//! The fence between a lease and the network. Looking up a name, connecting, the TLS handshake and
//! access tokens take seconds, and the sender may lose its lease meanwhile: the fence is checked right
//! before the first byte of a request.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kalends_environment::{Clock, SystemClock};
use tokio::sync::Notify;

use crate::timing::AttemptTimer;

/// Permission to send the requests of an attempt, valid while the lease of its run is. Clones share
/// it.
#[derive(Clone)]
pub struct SendFence(Arc<Fence>);

struct Fence {
    clock: Arc<dyn Clock>,
    /// Uptime until which requests may be sent; `None` after a cancellation.
    open_until: Mutex<Option<Duration>>,
    changed: Notify,
}

impl SendFence {
    /// A fence that is open until the given uptime of `clock`.
    pub fn open_until(clock: Arc<dyn Clock>, until: Duration) -> SendFence {
        SendFence(Arc::new(Fence {
            clock,
            open_until: Mutex::new(Some(until)),
            changed: Notify::new(),
        }))
    }

    /// A fence that stays open unless it is cancelled, for senders without a lease.
    pub fn unlimited() -> SendFence {
        SendFence::open_until(Arc::new(SystemClock), Duration::MAX)
    }

    /// Moves the end, after a renewal of the lease. A cancelled fence stays closed.
    pub fn extend(&self, until: Duration) {
        if let Some(open_until) = &mut *self.lock() {
            *open_until = until.max(*open_until);
        }
        self.0.changed.notify_waiters();
    }

    /// Closes the fence for good: another node has claimed the run.
    pub fn cancel(&self) {
        *self.lock() = None;
        self.0.changed.notify_waiters();
    }

    /// Whether a request may be sent now.
    pub fn is_open(&self) -> bool {
        self.time_left().is_some()
    }

    /// Waits until the fence is closed.
    pub async fn closed(&self) {
        loop {
            // Subscribe before reading the end, so that no change is missed.
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let Some(left) = self.time_left() else { return };
            tokio::select! {
                biased;
                () = changed => {}
                () = self.0.clock.sleep(left) => {}
            }
        }
    }

    fn time_left(&self) -> Option<Duration> {
        let open_until = (*self.lock())?;
        let left = open_until.saturating_sub(self.0.clock.uptime());
        (!left.is_zero()).then_some(left)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Duration>> {
        self.0.open_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// No request of the attempt was sent, because its fence was closed. The attempt does not count: the
/// run belongs to another node, or can be claimed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease ended before the request was sent")]
pub struct NotSent;

/// The timer and the guard of one attempt, for everything that sends.
#[derive(Clone, Copy)]
pub(crate) struct AttemptContext<'a> {
    pub(crate) timer: &'a AttemptTimer,
    pub(crate) guard: &'a SendGuard,
}

/// The fence of one attempt, and what it let through.
pub(crate) struct SendGuard {
    fence: SendFence,
    sent: AtomicU32,
    is_refused: AtomicBool,
}

/// The requests of an attempt that its fence refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// All of them: nothing was sent.
    Everything,
    /// Those after the first: it was sent and led to a redirect.
    Rest,
}

impl SendGuard {
    pub(crate) fn new(fence: SendFence) -> SendGuard {
        SendGuard { fence, sent: AtomicU32::new(0), is_refused: AtomicBool::new(false) }
    }

    /// Called right before the first byte of a request is written.
    pub(crate) fn permit(&self) -> Result<(), NotSent> {
        if !self.fence.is_open() {
            return Err(self.refuse());
        }
        self.sent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Takes the last permit back: certainly no byte of the request reached the target.
    pub(crate) fn return_permit(&self) {
        self.sent.fetch_sub(1, Ordering::Relaxed);
    }

    /// Completes when the fence is closed.
    pub(crate) async fn closed(&self) {
        self.fence.closed().await;
    }

    /// Records that a request was not sent because of the fence.
    pub(crate) fn refuse(&self) -> NotSent {
        self.is_refused.store(true, Ordering::Relaxed);
        NotSent
    }

    /// Whether a request of the attempt was refused.
    pub(crate) fn refused(&self) -> Option<Refused> {
        let has_sent = self.sent.load(Ordering::Relaxed) > 0;
        let refused = if has_sent { Refused::Rest } else { Refused::Everything };
        self.is_refused.load(Ordering::Relaxed).then_some(refused)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kalends_environment::ManualClock;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[tokio::test]
    async fn a_fence_closes_at_its_end_or_when_it_is_cancelled() {
        let clock = Arc::new(ManualClock::new(at(0)));
        let fence = SendFence::open_until(clock.clone(), Duration::from_secs(10));
        let watched = fence.clone();
        let closed = tokio::spawn(async move { watched.closed().await });
        clock.set(at(9));
        fence.extend(Duration::from_secs(20));
        clock.set(at(19));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(fence.is_open() && !closed.is_finished());
        clock.set(at(20));
        closed.await.unwrap();
        assert!(!fence.is_open());
        fence.extend(Duration::from_secs(30));
        assert!(fence.is_open(), "the lease was renewed after all");
        fence.cancel();
        fence.extend(Duration::from_secs(40));
        assert!(!fence.is_open(), "a cancellation is final");
        fence.closed().await;
    }

    #[test]
    fn a_guard_knows_whether_anything_was_sent() {
        let fence = SendFence::unlimited();
        let (first, second) = (SendGuard::new(fence.clone()), SendGuard::new(fence.clone()));
        assert_eq!((first.permit(), second.permit()), (Ok(()), Ok(())));
        first.return_permit();
        assert_eq!((first.refused(), second.refused()), (None, None));
        fence.cancel();
        assert_eq!((first.permit(), second.permit()), (Err(NotSent), Err(NotSent)));
        assert_eq!(first.refused(), Some(Refused::Everything));
        assert_eq!(second.refused(), Some(Refused::Rest));
    }
}
