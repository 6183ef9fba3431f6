//! Waking at an instant, to a fraction of a millisecond.
//!
//! The runtime's own timer counts whole milliseconds and rounds up. Its last stretch is waited for
//! by a thread that sleeps.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Alarms that may wait for the thread to see them. Who finds no room waits with the runtime's timer.
const UNSEEN_MAX: usize = 1_024;
/// The longest wait worth a thread: above it the runtime's timer comes first.
pub(crate) const ALARM_MAX: Duration = Duration::from_millis(2);

struct Alarm {
    at: Instant,
    wake: oneshot::Sender<()>,
}

/// Waits for a short time. It may end early, where there is no thread to wait.
pub(crate) async fn sleep_short(time: Duration) {
    let (wake, woken) = oneshot::channel();
    let alarm = Alarm { at: monotonic().checked_add(time).unwrap_or_else(monotonic), wake };
    match sleeper().is_some_and(|sleeper| sleeper.try_send(alarm).is_ok()) {
        // A thread that has ended wakes everybody.
        true => drop(woken.await),
        false => tokio::time::sleep(time).await,
    }
}

#[expect(clippy::disallowed_methods, reason = "an alarm measures time, it does not tell it")]
fn monotonic() -> Instant {
    Instant::now()
}

fn sleeper() -> Option<&'static SyncSender<Alarm>> {
    static SLEEPER: OnceLock<Option<SyncSender<Alarm>>> = OnceLock::new();
    let start = || {
        let (alarms, unseen) = sync_channel(UNSEEN_MAX);
        let thread = thread::Builder::new().name("alarm".into()).spawn(move || wake_all(&unseen));
        thread.is_ok().then_some(alarms)
    };
    SLEEPER.get_or_init(start).as_ref()
}

fn wake_all(unseen: &Receiver<Alarm>) {
    let mut waiting: BinaryHeap<Reverse<Waiting>> = BinaryHeap::new();
    loop {
        let now = monotonic();
        while waiting.peek().is_some_and(|next| next.0.0.at <= now) {
            if let Some(Reverse(Waiting(alarm))) = waiting.pop() {
                // Who waited may have gone meanwhile.
                let _ = alarm.wake.send(());
            }
        }
        let next = waiting.peek().map(|next| next.0.0.at.saturating_duration_since(now));
        let alarm = match next {
            Some(time) => unseen.recv_timeout(time),
            None => unseen.recv().map_err(RecvTimeoutError::from),
        };
        match alarm {
            Ok(alarm) => waiting.push(Reverse(Waiting(alarm))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// An alarm in the order of its instant.
struct Waiting(Alarm);

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.0.at == other.0.at
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        self.0.at.cmp(&other.0.at)
    }
}
