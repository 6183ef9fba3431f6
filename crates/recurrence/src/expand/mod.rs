//! Where the points of a rule lie before a time zone comes into it.
//!
//! A [`Pattern`] is a set of points on a straight line of time. A calendar pattern lives on the
//! wall clock; an elapsed-time pattern lives on real time, and only its filters read the wall
//! clock. Every operation jumps there by arithmetic: none walks from the anchor.
//!
//! | frequency | module |
//! |---|---|
//! | minute, hour | [`cycle`] |
//! | day, week | [`stride`] with [`times`] |
//! | month, year | [`month`] with [`times`] |

mod cycle;
mod month;
mod stride;
mod times;

pub(crate) use cycle::Cycle;
pub(crate) use month::{Days, Months};
pub(crate) use stride::Stride;
pub(crate) use times::Times;

use crate::instant::{TICKS_PER_DAY, Ticks};

/// The points of a rule, before gaps and overlaps of its zone.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// Elapsed time that no wall clock filters: the zone plays no part.
    Elapsed(Cycle),
    /// Elapsed time filtered by the wall clock: one cycle for each offset that the zone ever has.
    ElapsedByOffset(Box<[(Ticks, Cycle)]>),
    /// Dates and times of day.
    Calendar(Calendar),
}

impl Pattern {
    /// The first point at or after a local time, while the zone is `offset` ahead of UTC.
    pub(crate) fn at_or_after(&self, local: Ticks, offset: Ticks) -> Option<Ticks> {
        match self {
            Pattern::Calendar(calendar) => calendar.at_or_after(local),
            _ => Some(self.cycle(offset)?.at_or_after(local - offset)? + offset),
        }
    }

    /// The last point at or before a local time, while the zone is `offset` ahead of UTC.
    pub(crate) fn at_or_before(&self, local: Ticks, offset: Ticks) -> Option<Ticks> {
        match self {
            Pattern::Calendar(calendar) => calendar.at_or_before(local),
            _ => Some(self.cycle(offset)?.at_or_before(local - offset)? + offset),
        }
    }

    /// How many points lie in the local times `from..to`, while the zone is `offset` ahead of UTC.
    pub(crate) fn count(&self, from: Ticks, to: Ticks, offset: Ticks) -> u64 {
        match self {
            Pattern::Calendar(calendar) => calendar.count(from, to),
            _ => self.cycle(offset).map_or(0, |cycle| cycle.count(from - offset, to - offset)),
        }
    }

    fn cycle(&self, offset: Ticks) -> Option<&Cycle> {
        match self {
            Pattern::Elapsed(cycle) => Some(cycle),
            Pattern::ElapsedByOffset(cycles) => {
                cycles.iter().find(|(of, _)| *of == offset).map(|(_, cycle)| cycle)
            }
            Pattern::Calendar(_) => None,
        }
    }
}

/// Chosen dates, each with the same times of day.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    pub(crate) dates: Dates,
    pub(crate) times: Times,
}

/// The dates of a calendar pattern, as day numbers.
#[derive(Clone, Debug)]
pub(crate) enum Dates {
    Stride(Stride),
    Months(Months),
}

impl Calendar {
    fn at_or_after(&self, local: Ticks) -> Option<Ticks> {
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

    fn at_or_before(&self, local: Ticks) -> Option<Ticks> {
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

    fn count(&self, from: Ticks, to: Ticks) -> u64 {
        if to <= from {
            return 0;
        }
        let (first, last) = (from.div_euclid(TICKS_PER_DAY), to.div_euclid(TICKS_PER_DAY));
        self.dates.count(first, last) * self.times.per_day() + self.count_on_day_before(last, to)
            - self.count_on_day_before(first, from)
    }

    /// How many lie on `day` before a local time on it.
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

fn least_common_multiple(a: i64, b: i64) -> i64 {
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}
