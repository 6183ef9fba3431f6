//! Days at a fixed stride: every n-th day, or chosen weekdays of every n-th week.

/// Periods of `length` days counted from `origin`; in each, the days of `chosen`.
#[derive(Clone, Debug)]
pub(crate) struct Stride {
    /// The first day of the period that holds the anchor.
    origin: i64,
    /// Days from one period to the next.
    length: i64,
    /// Bit d: the d-th day of a period is chosen. Never empty; only the first seven are looked at.
    chosen: u32,
}

impl Stride {
    /// Every `interval`-th day from `anchor`.
    pub(crate) fn days(anchor: i64, interval: i64) -> Stride {
        Stride { origin: anchor, length: interval, chosen: 1 }
    }

    /// In every `interval`-th week from the one that begins on `first_day`, the days of `chosen`
    /// (bit 0 being the first day of the week).
    pub(crate) fn weeks(first_day: i64, interval: i64, chosen: u32) -> Stride {
        Stride { origin: first_day, length: 7 * interval, chosen }
    }

    pub(crate) fn at_or_after(&self, day: i64) -> i64 {
        let passed = (day - self.origin).rem_euclid(self.length);
        let ahead = if passed < 7 { self.chosen >> passed } else { 0 };
        if ahead != 0 {
            day + i64::from(ahead.trailing_zeros())
        } else {
            day - passed + self.length + i64::from(self.chosen.trailing_zeros())
        }
    }

    pub(crate) fn at_or_before(&self, day: i64) -> i64 {
        let passed = (day - self.origin).rem_euclid(self.length);
        let behind = self.chosen & ((2 << passed.min(7)) - 1);
        let period = day - passed;
        if behind != 0 {
            period + i64::from(behind.ilog2())
        } else {
            period - self.length + i64::from(self.chosen.ilog2())
        }
    }

    /// How many lie in `from..to`.
    pub(crate) fn count(&self, from: i64, to: i64) -> u64 {
        (self.rank(to) - self.rank(from)).max(0).unsigned_abs()
    }

    /// How many lie before a day, counted from the origin.
    fn rank(&self, day: i64) -> i64 {
        let periods = (day - self.origin).div_euclid(self.length);
        let passed = (day - self.origin).rem_euclid(self.length);
        let in_this_one = self.chosen & ((1 << passed.min(7)) - 1);
        periods * i64::from(self.chosen.count_ones()) + i64::from(in_this_one.count_ones())
    }
}
