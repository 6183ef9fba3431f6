//! Since when occurrences are watched for without a break. What came due in a break was missed;
//! what comes due while there is much to do is merely late.

use std::time::Duration;

use kalends_recurrence::Instant;

/// Looks so much further apart were no watch: the process or the machine slept, or the clock was
/// set. A store that failed for so long was no watch either.
const BREAK: Duration = Duration::from_secs(5);

pub(super) struct OutageDetector {
    since: Instant,
    looked: Instant,
    /// The loop looks at least so often.
    looks_every: Duration,
    failed: Option<Instant>,
}

impl OutageDetector {
    pub(super) fn new(now: Instant, looks_every: Duration) -> OutageDetector {
        OutageDetector { since: now, looked: now, looks_every, failed: None }
    }

    /// Since when there was no break.
    pub(super) fn continuous_since(&self) -> Instant {
        self.since
    }

    /// A look. `true` where the clock is not where it was expected, so that what is known of coming
    /// instants says little.
    pub(super) fn tick(&mut self, now: Instant) -> bool {
        let backwards = now < self.looked;
        let is_break = now > self.looked.saturating_add(self.looks_every + BREAK);
        if is_break {
            self.since = now;
        }
        // What comes now is watched for, however far ahead the clock was.
        self.since = self.since.min(now);
        self.looked = now;
        backwards || is_break
    }

    /// The store failed.
    pub(super) fn store_failed(&mut self, now: Instant) {
        self.failed.get_or_insert(now);
    }

    /// The store has answered.
    pub(super) fn store_responded(&mut self, now: Instant) {
        if self.failed.take().is_some_and(|failed| now > failed.saturating_add(BREAK)) {
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
    fn a_long_sleep_and_a_long_failure_are_breaks() {
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
    fn a_clock_that_is_set_back_is_noticed_and_is_no_break() {
        let mut outage = OutageDetector::new(at(100), Duration::from_secs(10));
        assert!(outage.tick(at(50)));
        assert_eq!(outage.continuous_since(), at(50), "what comes after it is not missed");
        assert!(!outage.tick(at(51)));
    }
}
