//! The timer that wakes the loop.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kalends_environment::Clock;
use kalends_recurrence::Instant;

/// Tolerated delay. Rearming the timer costs more than an unnecessary iteration of the loop.
const SLACK: Duration = Duration::from_micros(200);

/// A timer that is rearmed only if it would fire too late.
#[derive(Default)]
pub(super) struct WakeUp {
    armed: Option<(Instant, Timer)>,
}

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

impl WakeUp {
    /// Makes the timer fire at `at` or earlier.
    pub(super) fn arm(&mut self, clock: &Arc<dyn Clock>, now: Instant, at: Instant) {
        let is_in_time = |fires: Instant| fires > now && fires <= at.saturating_add(SLACK);
        if !self.armed.as_ref().is_some_and(|(fires, _)| is_in_time(*fires)) {
            let clock = Arc::clone(clock);
            self.armed = Some((at, Box::pin(async move { wait(&*clock, now, at).await })));
        }
    }

    /// Waits until the timer fires; returns at once if it is not armed.
    pub(super) async fn fired(&mut self) {
        if let Some((_, timer)) = &mut self.armed {
            timer.await;
        }
        self.armed = None;
    }
}

/// Waits until the clock shows `until`, but at most `until - now`: the clock may be stepped back.
async fn wait(clock: &dyn Clock, now: Instant, until: Instant) {
    let duration = until.since(now);
    let Some(until) = until.timestamp() else { return clock.sleep(duration).await };
    tokio::select! {
        biased;
        () = clock.sleep_until(until) => {}
        () = clock.sleep(duration) => {}
    }
}
