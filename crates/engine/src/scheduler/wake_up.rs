//! What wakes the loop when there is something to do.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kalends_environment::Clock;
use kalends_recurrence::Instant;

/// Waking so much late does no harm, and setting the wake_up again costs more than looking once too
/// often.
const SLACK: Duration = Duration::from_micros(200);

/// Wakes the loop. It is set anew only where it would ring too late.
#[derive(Default)]
pub(super) struct WakeUp {
    set: Option<(Instant, Ringing)>,
}

type Ringing = Pin<Box<dyn Future<Output = ()> + Send>>;

impl WakeUp {
    /// Sees to it that it rings at an instant, or before.
    pub(super) fn arm(&mut self, clock: &Arc<dyn Clock>, now: Instant, at: Instant) {
        let rings_in_time = |rings: Instant| rings > now && rings <= at.saturating_add(SLACK);
        if !self.set.as_ref().is_some_and(|(rings, _)| rings_in_time(*rings)) {
            let clock = Arc::clone(clock);
            self.set = Some((at, Box::pin(async move { wait(&*clock, now, at).await })));
        }
    }

    /// Waits until it rings.
    pub(super) async fn fired(&mut self) {
        if let Some((_, ringing)) = &mut self.set {
            ringing.await;
        }
        self.set = None;
    }
}

/// Waits from `now` until the clock shows `until`, and no longer than that should take: the clock
/// may be set back meanwhile.
async fn wait(clock: &dyn Clock, now: Instant, until: Instant) {
    let lasts = until.since(now);
    let Some(until) = until.timestamp() else { return clock.sleep(lasts).await };
    tokio::select! {
        biased;
        () = clock.sleep_until(until) => {}
        () = clock.sleep(lasts) => {}
    }
}
