//! How quick a host is.

use std::time::Duration;

/// How many attempts at a host have ended recently: in the current or the last [`Pace::PERIOD`].
#[derive(Default)]
pub(crate) struct Pace {
    since: Duration,
    current: usize,
    last: usize,
}

impl Pace {
    pub(crate) const PERIOD: Duration = Duration::from_millis(50);

    pub(crate) fn attempt_ended(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.since);
        if elapsed >= Pace::PERIOD {
            self.last = if elapsed < 2 * Pace::PERIOD { self.current } else { 0 };
            (self.since, self.current) = (now, 0);
        }
        self.current += 1;
    }

    pub(crate) fn recently_ended(&self, now: Duration) -> usize {
        let elapsed = now.saturating_sub(self.since);
        match elapsed {
            _ if elapsed < Pace::PERIOD => self.current.max(self.last),
            _ if elapsed < 2 * Pace::PERIOD => self.current,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_count_for_one_to_two_periods() {
        let mut pace = Pace::default();
        let at = |millis| Duration::from_secs(100) + Duration::from_millis(millis);
        assert_eq!(pace.recently_ended(at(0)), 0);
        (0..10).for_each(|_| pace.attempt_ended(at(0)));
        assert_eq!(pace.recently_ended(at(49)), 10);
        pace.attempt_ended(at(50));
        assert_eq!(pace.recently_ended(at(60)), 10, "the last period counts");
        assert_eq!(pace.recently_ended(at(100)), 1);
        assert_eq!(pace.recently_ended(at(150)), 0);
        pace.attempt_ended(at(900));
        assert_eq!(pace.recently_ended(at(900)), 1);
    }
}
