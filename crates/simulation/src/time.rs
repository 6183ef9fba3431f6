//! Virtual time: it stands still while anything can happen, and then jumps to the next instant
//! that somebody waits for.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;
use kalends_environment::{Clock, Sleep};
use kalends_recurrence::Instant;

/// Time that passes evenly, whatever clocks show. In steps of 100 ns.
#[derive(Debug)]
pub struct VirtualTime(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    now: i64,
    number: u64,
    waiters: BTreeMap<(i64, u64), (u64, Waker)>,
    /// Whose waits have ended since somebody asked.
    woken: Vec<u64>,
}

impl VirtualTime {
    /// Time that begins at an instant.
    pub fn new(start: Instant) -> Arc<VirtualTime> {
        let inner =
            Inner { now: start.ticks(), number: 0, waiters: BTreeMap::new(), woken: vec![] };
        Arc::new(VirtualTime(Mutex::new(inner)))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present.
    pub fn now(&self) -> i64 {
        self.inner().now
    }

    /// The next instant that somebody waits for.
    pub fn next(&self) -> Option<i64> {
        self.inner().waiters.keys().next().map(|&(at, _)| at)
    }

    /// Moves on, and wakes who waited for that.
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

    /// Whose waits have ended since this was last asked.
    pub(crate) fn take_woken(&self) -> Vec<u64> {
        std::mem::take(&mut self.inner().woken)
    }
}

/// Ticks of a duration.
pub(crate) fn ticks(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos() / 100).unwrap_or(i64::MAX / 4)
}

struct Wait<D> {
    time: Arc<VirtualTime>,
    owner: u64,
    /// When it is over, in virtual time; asked anew after the clock was set.
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

/// A clock on the wall: it shows virtual time, and can be set wrong.
#[derive(Debug)]
pub struct VirtualClock {
    time: Arc<VirtualTime>,
    owner: u64,
    offset: Arc<AtomicI64>,
}

impl VirtualClock {
    /// A clock that is right.
    pub fn new(time: &Arc<VirtualTime>) -> VirtualClock {
        let mut inner = time.inner();
        inner.number += 1;
        let owner = inner.number;
        drop(inner);
        VirtualClock { time: Arc::clone(time), owner, offset: Arc::default() }
    }

    /// Who waits by this clock.
    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }

    /// Lets some time pass, whatever the clock shows.
    pub(crate) fn lets_pass(&self, by: Duration) -> impl Future<Output = ()> + use<> {
        let at = self.time.now() + ticks(by);
        let (time, owner) = (Arc::clone(&self.time), self.owner);
        Wait { time, owner, due: move || at, registered: None }
    }

    /// What it shows, in ticks.
    pub(crate) fn shows(&self) -> i64 {
        self.time.now() + self.offset()
    }

    /// How far it is ahead.
    pub(crate) fn offset(&self) -> i64 {
        self.offset.load(Ordering::Relaxed)
    }

    /// Somebody sets it; who waits for it looks again.
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
        let shown = Instant::from_ticks(self.shows()).unwrap_or(Instant::MAX);
        shown.timestamp().unwrap_or(Timestamp::MAX)
    }

    fn sleep_until(&self, until: Timestamp) -> Sleep<'_> {
        let until = Instant::from(until).ticks();
        let offset = Arc::clone(&self.offset);
        let due = move || until.saturating_sub(offset.load(Ordering::Relaxed));
        Box::pin(Wait { time: Arc::clone(&self.time), owner: self.owner, due, registered: None })
    }

    fn uptime(&self) -> Duration {
        // From the year 1 on, so that it is not negative.
        let ticks = self.time.now() - Instant::MIN.ticks();
        let ticks = ticks.unsigned_abs();
        Duration::new(ticks / 10_000_000, (ticks % 10_000_000) as u32 * 100)
    }

    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        Box::pin(self.lets_pass(duration))
    }
}
