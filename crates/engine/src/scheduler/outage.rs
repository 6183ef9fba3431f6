//! Outage detection. Occurrences that came due during an outage are missed; occurrences that come due
//! under load are merely late.

use std::time::Duration;

use kalends_recurrence::Instant;

use crate::status::CallKind;

/// A longer gap between two iterations of the loop is an outage: the process was suspended or the clock
/// was stepped. Store calls that fail for this duration are an outage too.
const OUTAGE_MIN: Duration = Duration::from_secs(5);
/// Calls that failed are repeated at once, so a failure this long ago without another one has ended.
const FAILURE_STALE_AFTER: Duration = Duration::from_secs(30);

/// Tracks since when the engine has been operating without an outage.
pub(super) struct OutageDetector {
    since: Instant,
    last_tick: Instant,
    /// Longest regular gap between two ticks.
    tick_interval: Duration,
    reads: Option<Failures>,
    writes: Option<Failures>,
}

/// Failed calls of one kind since the last successful one.
#[derive(Clone, Copy)]
struct Failures {
    first: Instant,
    last: Instant,
}

impl Failures {
    fn is_recent(self, now: Instant) -> bool {
        now <= self.last.saturating_add(FAILURE_STALE_AFTER)
    }

    /// The end of the outage if the failures are one: `now` as long as they are recent.
    fn outage_until(self, now: Instant) -> Option<Instant> {
        let until = if self.is_recent(now) { now } else { self.last };
        (until > self.first.saturating_add(OUTAGE_MIN)).then_some(until)
    }
}

impl OutageDetector {
    pub(super) fn new(now: Instant, tick_interval: Duration) -> OutageDetector {
        OutageDetector { since: now, last_tick: now, tick_interval, reads: None, writes: None }
    }

    /// Start of the current period without an outage; `now` during an outage.
    pub(super) fn continuous_since(&self, now: Instant) -> Instant {
        let outages = [self.reads, self.writes].into_iter().flatten();
        let ends = outages.filter_map(|failures| failures.outage_until(now));
        ends.fold(self.since, Instant::max)
    }

    /// Whether store calls have been failing for so long that it is an outage.
    pub(super) fn is_in_outage(&self, now: Instant) -> bool {
        let mut failures = [self.reads, self.writes].into_iter().flatten();
        failures.any(|failures| failures.outage_until(now) == Some(now))
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

    /// Records a failed call.
    pub(super) fn call_failed(&mut self, kind: CallKind, now: Instant) {
        let failures = self.failures(kind);
        let first = failures.map_or(now, |failures| failures.first.min(now));
        *failures = Some(Failures { first, last: now });
    }

    /// Records a successful call, which ends the failures of its kind: writes may fail while reads
    /// succeed.
    pub(super) fn call_succeeded(&mut self, kind: CallKind, now: Instant) {
        let ended = self.failures(kind).take();
        if let Some(until) = ended.and_then(|failures| failures.outage_until(now)) {
            self.since = self.since.max(until);
        }
    }

    /// Whether calls fail at present.
    pub(super) fn is_failing(&self, now: Instant) -> bool {
        [self.reads, self.writes].into_iter().flatten().any(|failures| failures.is_recent(now))
    }

    fn failures(&mut self, kind: CallKind) -> &mut Option<Failures> {
        match kind {
            CallKind::Read => &mut self.reads,
            CallKind::Write => &mut self.writes,
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
        assert_eq!(outage.continuous_since(at(25)), at(0));
        assert!(outage.tick(at(41)), "the clock jumped");
        assert_eq!(outage.continuous_since(at(41)), at(41));
        outage.call_failed(CallKind::Read, at(41));
        outage.call_failed(CallKind::Read, at(44));
        outage.call_succeeded(CallKind::Read, at(46));
        assert_eq!(outage.continuous_since(at(46)), at(41), "a short failure");
        outage.call_failed(CallKind::Read, at(50));
        outage.call_succeeded(CallKind::Read, at(60));
        assert_eq!(outage.continuous_since(at(60)), at(60));
    }

    #[test]
    fn only_a_successful_write_ends_a_write_outage() {
        let mut outage = OutageDetector::new(at(0), Duration::from_secs(10));
        for second in 10..100 {
            outage.call_failed(CallKind::Write, at(second));
            outage.call_succeeded(CallKind::Read, at(second));
        }
        assert_eq!(outage.continuous_since(at(100)), at(100), "it lasts");
        outage.call_succeeded(CallKind::Write, at(105));
        assert_eq!(outage.continuous_since(at(200)), at(105));
    }

    #[test]
    fn a_failed_write_that_nothing_repeated_is_no_outage() {
        let mut outage = OutageDetector::new(at(0), Duration::from_secs(10));
        outage.call_failed(CallKind::Write, at(10));
        assert_eq!(outage.continuous_since(at(1_000)), at(0));
        outage.call_succeeded(CallKind::Write, at(1_000));
        assert_eq!(outage.continuous_since(at(1_000)), at(0));
    }

    #[test]
    fn a_backward_clock_step_is_detected_and_is_no_outage() {
        let mut outage = OutageDetector::new(at(100), Duration::from_secs(10));
        assert!(outage.tick(at(50)));
        assert_eq!(outage.continuous_since(at(50)), at(50), "later occurrences are not missed");
        assert!(!outage.tick(at(51)));
    }
}
