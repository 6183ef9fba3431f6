//! Calendar patterns: selected dates, each with the same times of day.

use crate::civil;
use crate::expand::{Months, Stride, Times};
use crate::instant::{TICKS_PER_DAY, Ticks};

/// A day number before every supported day.
pub(crate) const FIRST_DAY: i64 = civil::day_number(-1_000, 1, 1);

/// Selected dates, each with the same times of day.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    pub(crate) dates: Dates,
    pub(crate) times: Times,
}

/// The dates of a calendar pattern, as day numbers ([`civil`]).
#[derive(Clone, Debug)]
pub(crate) enum Dates {
    Stride(Stride),
    Months(Months),
}

impl Calendar {
    pub(crate) fn at_or_after(&self, local: Ticks) -> Option<Ticks> {
        let today = local.div_euclid(TICKS_PER_DAY);
        let mut day = self.dates.at_or_after(today)?;
        if day == today {
            if let Some(time) = self.times.at_or_after(local.rem_euclid(TICKS_PER_DAY)) {
                return Some(day * TICKS_PER_DAY + time);
            }
            day = self.dates.at_or_after(today + 1)?;
        }
        Some(day * TICKS_PER_DAY + self.times.first())
    }

    pub(crate) fn at_or_before(&self, local: Ticks) -> Option<Ticks> {
        let today = local.div_euclid(TICKS_PER_DAY);
        let mut day = self.dates.at_or_before(today)?;
        if day == today {
            if let Some(time) = self.times.at_or_before(local.rem_euclid(TICKS_PER_DAY)) {
                return Some(day * TICKS_PER_DAY + time);
            }
            day = self.dates.at_or_before(today - 1)?;
        }
        Some(day * TICKS_PER_DAY + self.times.last())
    }

    pub(crate) fn count(&self, from: Ticks, to: Ticks) -> u64 {
        if to <= from {
            return 0;
        }
        let (first, last) = (from.div_euclid(TICKS_PER_DAY), to.div_euclid(TICKS_PER_DAY));
        self.dates.count(first, last) * self.times.per_day() + self.count_on_day_before(last, to)
            - self.count_on_day_before(first, from)
    }

    pub(crate) fn shortest_gap(&self) -> Option<Ticks> {
        let days = match &self.dates {
            Dates::Stride(stride) => Some(stride.shortest_gap()),
            Dates::Months(months) => months.shortest_gap(),
        };
        let across_days =
            days.map(|days| days * TICKS_PER_DAY + self.times.first() - self.times.last());
        self.times.shortest_gap().into_iter().chain(across_days).min()
    }

    /// Number of points on `day` before a local time of that day.
    fn count_on_day_before(&self, day: i64, local: Ticks) -> u64 {
        if self.dates.at_or_after(day) != Some(day) {
            return 0;
        }
        self.times.count_before(local.rem_euclid(TICKS_PER_DAY))
    }
}

impl Dates {
    fn at_or_after(&self, day: i64) -> Option<i64> {
        match self {
            Dates::Stride(stride) => Some(stride.at_or_after(day)),
            Dates::Months(months) => months.at_or_after(day),
        }
    }

    fn at_or_before(&self, day: i64) -> Option<i64> {
        match self {
            Dates::Stride(stride) => Some(stride.at_or_before(day)),
            Dates::Months(months) => months.at_or_before(day),
        }
    }

    fn count(&self, from: i64, to: i64) -> u64 {
        match self {
            Dates::Stride(stride) => stride.count(from, to),
            Dates::Months(months) => months.count(from, to),
        }
    }
}
