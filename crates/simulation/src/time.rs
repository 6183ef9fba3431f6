//! Virtual time. It stands still while any task can run and then jumps to the next timer.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;
use kalends_environment::{Clock, Sleep};
use kalends_recurrence::{Instant, duration_to_ticks, ticks_to_duration};

/// Monotonic virtual time with timers, in ticks of 100 ns. Clock steps do not affect it.
#[derive(Debug)]
pub struct VirtualTime(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    now: i64,
    number: u64,
    waiters: BTreeMap<(i64, u64), (u64, Waker)>,
    /// Owners of timers that fired since [`VirtualTime::take_woken`] was last called.
    woken: Vec<u64>,
}

impl VirtualTime {
    /// Virtual time that starts at `start`.
    pub fn new(start: Instant) -> Arc<VirtualTime> {
        let inner =
            Inner { now: start.ticks(), number: 0, waiters: BTreeMap::new(), woken: vec![] };
        Arc::new(VirtualTime(Mutex::new(inner)))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current virtual time, in ticks of [`Instant`].
    pub fn now(&self) -> i64 {
        self.inner().now
    }

    /// When the next timer fires, in ticks. `None` without timers.
    pub fn next(&self) -> Option<i64> {
        self.inner().waiters.keys().next().map(|&(at, _)| at)
    }

    /// Advances to `at` and wakes the tasks whose timers fire until then.
    pub fn advance_to(&self, at: i64) {
        let mut inner = self.inner();
        inner.now = inner.now.max(at);
        let mut woken = Vec::new();
        while let Some(entry) = inner.waiters.first_entry() {
            if entry.key().0 > at {
                break;
            }
            let (owner, waker) = entry.remove();
            inner.woken.push(owner);
            woken.push(waker);
        }
        drop(inner);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Returns and clears the owners of timers that fired.
    pub(crate) fn take_woken(&self) -> Vec<u64> {
        std::mem::take(&mut self.inner().woken)
    }
}

/// Converts a duration to ticks of 100 ns.
pub(crate) fn ticks(duration: Duration) -> i64 {
    duration_to_ticks(duration).min(i64::MAX / 4)
}

struct Wait<D> {
    time: Arc<VirtualTime>,
    owner: u64,
    /// Computes the end in virtual time; evaluated again after the clock was stepped.
    due: D,
    registered: Option<(i64, u64)>,
}

impl<D: Fn() -> i64 + Unpin> Future for Wait<D> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let at = (this.due)();
        let mut inner = this.time.inner();
        if let Some(old) = this.registered.take() {
            inner.waiters.remove(&old);
        }
        if inner.now >= at {
            return Poll::Ready(());
        }
        inner.number += 1;
        let key = (at, inner.number);
        inner.waiters.insert(key, (this.owner, context.waker().clone()));
        this.registered = Some(key);
        Poll::Pending
    }
}

impl<D> Drop for Wait<D> {
    fn drop(&mut self) {
        if let Some(key) = self.registered {
            self.time.inner().waiters.remove(&key);
        }
    }
}

/// A wall clock over virtual time that can be stepped.
#[derive(Debug)]
pub struct VirtualClock {
    time: Arc<VirtualTime>,
    owner: u64,
    offset: Arc<AtomicI64>,
}

impl VirtualClock {
    /// A clock without offset.
    pub fn new(time: &Arc<VirtualTime>) -> VirtualClock {
        let mut inner = time.inner();
        inner.number += 1;
        let owner = inner.number;
        drop(inner);
        VirtualClock { time: Arc::clone(time), owner, offset: Arc::default() }
    }

    /// Identifies this clock's timers.
    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }

    /// Waits in virtual time; clock steps do not change the duration.
    pub(crate) fn elapse(&self, by: Duration) -> impl Future<Output = ()> + use<> {
        let at = self.time.now() + ticks(by);
        let (time, owner) = (Arc::clone(&self.time), self.owner);
        Wait { time, owner, due: move || at, registered: None }
    }

    /// The wall-clock time, in ticks.
    pub(crate) fn reading(&self) -> i64 {
        self.time.now() + self.offset()
    }

    /// Difference to virtual time, in ticks.
    pub(crate) fn offset(&self) -> i64 {
        self.offset.load(Ordering::Relaxed)
    }

    /// Steps the clock and wakes its waiters, so that they recompute their end.
    pub(crate) fn set_offset(&self, offset: i64) {
        self.offset.store(offset, Ordering::Relaxed);
        let mut inner = self.time.inner();
        inner.woken.push(self.owner);
        let waiters = &mut inner.waiters;
        let own: Vec<_> =
            waiters.iter().filter(|(_, waiter)| waiter.0 == self.owner).map(|(&k, _)| k).collect();
        let woken: Vec<_> = own.iter().filter_map(|key| waiters.remove(key)).collect();
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let shown = Instant::from_ticks(self.reading()).unwrap_or(Instant::MAX);
        shown.timestamp().unwrap_or(Timestamp::MAX)
    }

    fn sleep_until(&self, until: Timestamp) -> Sleep<'_> {
        let until = Instant::from(until).ticks();
        let offset = Arc::clone(&self.offset);
        let due = move || until.saturating_sub(offset.load(Ordering::Relaxed));
        Box::pin(Wait { time: Arc::clone(&self.time), owner: self.owner, due, registered: None })
    }

    fn uptime(&self) -> Duration {
        // Counted from year 1, so that it is never negative.
        ticks_to_duration(self.time.now() - Instant::MIN.ticks())
    }

    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        Box::pin(self.elapse(duration))
    }
}
