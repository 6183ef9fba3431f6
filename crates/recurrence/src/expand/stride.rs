//! Days at a fixed stride: every n-th day, or chosen weekdays of every n-th week.

use crate::expand::Periods;
use crate::expand::calendar::FIRST_DAY;

/// Periods of days; in each, the days of `chosen`.
#[derive(Clone, Debug)]
pub(crate) struct Stride {
    periods: Periods,
    /// Bit d: the d-th day of a period is chosen. Never empty; only the first seven are looked at.
    chosen: u32,
}

impl Stride {
    /// Every `interval`-th day from `anchor`.
    pub(crate) fn days(anchor: i64, interval: i64) -> Stride {
        Stride { periods: Periods::new(anchor, interval, FIRST_DAY), chosen: 1 }
    }

    /// In every `interval`-th week from the one that begins on `first_day`, the days of `chosen`
    /// (bit 0 being the first day of the week).
    pub(crate) fn weeks(first_day: i64, interval: i64, chosen: u32) -> Stride {
        Stride { periods: Periods::new(first_day, 7 * interval, FIRST_DAY), chosen }
    }

    pub(crate) fn at_or_after(&self, day: i64) -> i64 {
        let passed = self.periods.passed(day);
        let ahead = self.chosen >> passed.min(7);
        if ahead != 0 {
            day + i64::from(ahead.trailing_zeros())
        } else {
            day - passed + self.periods.length() + i64::from(self.chosen.trailing_zeros())
        }
    }

    pub(crate) fn at_or_before(&self, day: i64) -> i64 {
        let passed = self.periods.passed(day);
        let behind = self.chosen & ((2 << passed.min(7)) - 1);
        let period = day - passed;
        if behind != 0 {
            period + i64::from(behind.ilog2())
        } else {
            period - self.periods.length() + i64::from(self.chosen.ilog2())
        }
    }

    /// The fewest days between two neighbours.
    pub(crate) fn shortest_gap(&self) -> i64 {
        let first = self.at_or_after(0);
        let days =
            std::iter::successors(Some(first), |day| Some(self.at_or_after(day + 1))).take(8);
        let gaps = days.clone().zip(days.skip(1)).map(|(first, second)| second - first);
        gaps.min().unwrap_or(self.periods.length())
    }

    /// How many lie in `from..to`.
    pub(crate) fn count(&self, from: i64, to: i64) -> u64 {
        (self.rank(to) - self.rank(from)).max(0).unsigned_abs()
    }

    /// How many lie before a day, counted from the first period.
    fn rank(&self, day: i64) -> i64 {
        let passed = self.periods.passed(day);
        let in_this_one = self.chosen & ((1 << passed.min(7)) - 1);
        self.periods.index(day) * i64::from(self.chosen.count_ones())
            + i64::from(in_this_one.count_ones())
    }
}
