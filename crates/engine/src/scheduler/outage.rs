//! Outage detection. Occurrences that came due during an outage are missed; occurrences that come due
//! under load are merely late.

use std::time::Duration;

use kalends_recurrence::Instant;

/// A longer gap between two iterations of the loop is an outage: the process was suspended or the clock
/// was stepped. A store failure of this duration is an outage too.
const OUTAGE_MIN: Duration = Duration::from_secs(5);

/// Tracks since when the engine has been operating without an outage.
pub(super) struct OutageDetector {
    since: Instant,
    last_tick: Instant,
    /// Longest regular gap between two ticks.
    tick_interval: Duration,
    failing_since: Option<Instant>,
}

impl OutageDetector {
    pub(super) fn new(now: Instant, tick_interval: Duration) -> OutageDetector {
        OutageDetector { since: now, last_tick: now, tick_interval, failing_since: None }
    }

    /// Start of the current period without an outage.
    pub(super) fn continuous_since(&self) -> Instant {
        self.since
    }

    /// Called in each iteration of the loop. Returns `true` after a clock step or an outage: due times
    /// in memory must then be loaded again.
    pub(super) fn tick(&mut self, now: Instant) -> bool {
        let backwards = now < self.last_tick;
        let is_outage = now > self.last_tick.saturating_add(self.tick_interval + OUTAGE_MIN);
        if is_outage {
            self.since = now;
        }
        // After a backward step, the period starts no later than now.
        self.since = self.since.min(now);
        self.last_tick = now;
        backwards || is_outage
    }

    /// Records a failed store call.
    pub(super) fn store_failed(&mut self, now: Instant) {
        self.failing_since.get_or_insert(now);
    }

    /// Records a successful store call, which ends a failure.
    pub(super) fn store_responded(&mut self, now: Instant) {
        if self.failing_since.take().is_some_and(|failed| now > failed.saturating_add(OUTAGE_MIN)) {
            self.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        "2026-01-01".parse::<Instant>().unwrap().saturating_add(Duration::from_secs(seconds))
    }

    #[test]
    fn a_long_suspension_and_a_long_store_failure_are_outages() {
        let mut outage = OutageDetector::new(at(0), Duration::from_secs(10));
        assert!(!outage.tick(at(10)));
        assert!(!outage.tick(at(25)));
        assert_eq!(outage.continuous_since(), at(0));
        assert!(outage.tick(at(41)), "the clock jumped");
        assert_eq!(outage.continuous_since(), at(41));
        outage.store_failed(at(41));
        outage.store_failed(at(44));
        outage.store_responded(at(46));
        assert_eq!(outage.continuous_since(), at(41), "a short failure");
        outage.store_failed(at(50));
        outage.store_responded(at(60));
        assert_eq!(outage.continuous_since(), at(60));
    }

    #[test]
    fn a_backward_clock_step_is_detected_and_is_no_outage() {
        let mut outage = OutageDetector::new(at(100), Duration::from_secs(10));
        assert!(outage.tick(at(50)));
        assert_eq!(outage.continuous_since(), at(50), "later occurrences are not missed");
        assert!(!outage.tick(at(51)));
    }
}
