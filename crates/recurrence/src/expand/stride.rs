//! Days at a fixed stride: every n-th day, or selected weekdays of every n-th week.

use crate::expand::Periods;
use crate::expand::calendar::FIRST_DAY;

/// Periods of days with the same selected days in each.
#[derive(Clone, Debug)]
pub(crate) struct Stride {
    periods: Periods,
    /// Bit d: day d of a period (from 0) is selected. Never empty; only bits 0 to 6 are used.
    chosen: u32,
}

impl Stride {
    /// Every `interval`-th day from `first_day`.
    pub(crate) fn days(first_day: i64, interval: i64) -> Stride {
        Stride { periods: Periods::new(first_day, interval, FIRST_DAY), chosen: 1 }
    }

    /// The days `chosen` (bit 0 is the first day of the week) of every `interval`-th week from the one
    /// that starts on `first_day`.
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

    /// The smallest number of days between consecutive points.
    pub(crate) fn shortest_gap(&self) -> i64 {
        let first = self.at_or_after(0);
        let days =
            std::iter::successors(Some(first), |day| Some(self.at_or_after(day + 1))).take(8);
        let gaps = days.clone().zip(days.skip(1)).map(|(first, second)| second - first);
        gaps.min().unwrap_or(self.periods.length())
    }

    /// Number of days in `from..to`.
    pub(crate) fn count(&self, from: i64, to: i64) -> u64 {
        (self.rank(to) - self.rank(from)).max(0).unsigned_abs()
    }

    /// Number of selected days before `day`, counted from the first period.
    fn rank(&self, day: i64) -> i64 {
        let passed = self.periods.passed(day);
        let in_this_period = self.chosen & ((1 << passed.min(7)) - 1);
        self.periods.index(day) * i64::from(self.chosen.count_ones())
            + i64::from(in_this_period.count_ones())
    }
}
