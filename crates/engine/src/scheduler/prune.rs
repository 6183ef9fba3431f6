//! Removes rows past their retention, and holds that after a step of the clock: retention by age would
//! remove everything at once if the clock is set to a wrong time.

use std::sync::Arc;
use std::time::Duration;

use kalends_recurrence::Instant;
use kalends_store::StoreError;

use super::Scheduler;
use super::store_calls::StoreResponse;

/// Maximum number of rows removed per call, so that other writes do not wait long.
const PRUNE_BATCH: usize = 1_000;
const PRUNE_INTERVAL: Duration = Duration::from_secs(60);
/// A longer step forward holds pruning.
const HOLDING_STEP_MIN: Duration = Duration::from_secs(3_600);
/// How long pruning is held after a step, in uptime: an operator can set the clock right meanwhile.
const HOLD: Duration = Duration::from_secs(86_400);
/// Smaller differences between the clock and the uptime are adjustments, not steps.
const STEP_MIN: Duration = Duration::from_secs(1);

/// When rows are removed next.
pub(super) struct PruneSchedule {
    at: Instant,
    /// Uptime before which nothing is removed.
    held_until: Duration,
}

impl PruneSchedule {
    pub(super) fn new(now: Instant) -> PruneSchedule {
        PruneSchedule { at: now, held_until: Duration::ZERO }
    }

    /// Makes the next call due now, unless pruning is held.
    pub(super) fn prune_now(&mut self, now: Instant) {
        self.at = now;
    }

    /// Time of the next call.
    pub(super) fn next(&self, now: Instant, elapsed: Duration) -> Instant {
        self.at.max(now.saturating_add(self.held_until.saturating_sub(elapsed)))
    }

    /// Records a step of the clock.
    fn clock_stepped(&mut self, step: ClockStep, elapsed: Duration) {
        if matches!(step, ClockStep::Forward(by) if by > HOLDING_STEP_MIN) {
            self.held_until = elapsed.saturating_add(HOLD);
        }
    }

    fn finished(&mut self, now: Instant, is_complete: bool) {
        let pause = if is_complete { PRUNE_INTERVAL } else { Duration::ZERO };
        self.at = now.saturating_add(pause);
    }
}

/// A difference between the progress of the clock and that of the uptime. Downtime is none, however
/// long: the uptime is only compared while the engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockStep {
    Forward(Duration),
    Backward(Duration),
}

/// Detects steps of the clock.
pub(super) struct ClockStepDetector {
    last: (Instant, Duration),
}

impl ClockStepDetector {
    pub(super) fn new(now: Instant, elapsed: Duration) -> ClockStepDetector {
        ClockStepDetector { last: (now, elapsed) }
    }

    fn observe(&mut self, now: Instant, elapsed: Duration) -> Option<ClockStep> {
        let (last_now, last_elapsed) = std::mem::replace(&mut self.last, (now, elapsed));
        let expected = last_now.saturating_add(elapsed.saturating_sub(last_elapsed));
        let (forward, backward) = (now.since(expected), expected.since(now));
        match forward.max(backward) >= STEP_MIN {
            false => None,
            true if forward > backward => Some(ClockStep::Forward(forward)),
            true => Some(ClockStep::Backward(backward)),
        }
    }
}

impl Scheduler {
    /// Compares the clock with the uptime, logs and counts a step, and holds pruning after a long one.
    pub(super) fn detect_clock_step(&mut self, now: Instant) {
        let elapsed = self.services.clock.uptime();
        let Some(step) = self.clock_steps.observe(now, elapsed) else { return };
        self.prune_schedule.clock_stepped(step, elapsed);
        self.settings.metrics.clock_stepped(step);
        let (direction, by) = match step {
            ClockStep::Forward(by) => ("forward", by),
            ClockStep::Backward(by) => ("backward", by),
        };
        let seconds = by.as_secs();
        let held = self.prune_schedule.held_until.saturating_sub(elapsed).as_secs();
        tracing::warn!(direction, seconds, prune_held_seconds = held, "clock stepped");
    }

    /// Removes rows past their retention.
    pub(super) fn prune(&mut self, now: Instant) {
        let next = self.prune_schedule.next(now, self.services.clock.uptime());
        if self.calls.pruning || now < next {
            return;
        }
        self.calls.pruning = true;
        let store = Arc::clone(&self.services.store);
        let retention = self.settings.retention;
        self.store_calls.push(Box::pin(async move {
            StoreResponse::Pruned(store.prune(retention, now, PRUNE_BATCH).await)
        }));
    }

    pub(super) fn handle_prune(&mut self, removed: Result<usize, StoreError>) {
        self.calls.pruning = false;
        let is_complete = removed.map_or(true, |removed| removed < PRUNE_BATCH);
        self.prune_schedule.finished(self.now(), is_complete);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_step_is_a_difference_between_clock_and_uptime() {
        let start: Instant = "2026-01-01".parse().unwrap();
        let at = |hours: u32| start.saturating_add(HOUR * hours);
        let mut steps = ClockStepDetector::new(start, HOUR);
        assert_eq!(steps.observe(at(1), 2 * HOUR), None, "a slow iteration");
        assert_eq!(steps.observe(at(5), 3 * HOUR), Some(ClockStep::Forward(3 * HOUR)));
        assert_eq!(steps.observe(at(5), 3 * HOUR), None);
        assert_eq!(steps.observe(at(3), 4 * HOUR), Some(ClockStep::Backward(3 * HOUR)));
    }

    #[test]
    fn only_a_long_step_forward_holds_pruning() {
        let now: Instant = "2026-01-01".parse().unwrap();
        let mut schedule = PruneSchedule::new(now);
        schedule.clock_stepped(ClockStep::Forward(HOUR), HOUR);
        schedule.clock_stepped(ClockStep::Backward(24 * HOUR), HOUR);
        assert_eq!(schedule.next(now, HOUR), now);
        schedule.clock_stepped(ClockStep::Forward(2 * HOUR), HOUR);
        assert_eq!(schedule.next(now, HOUR), now.saturating_add(HOLD));
        assert_eq!(schedule.next(now, HOUR + HOLD), now);
    }
}
