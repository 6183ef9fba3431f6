//! Expansion of a recurrence into points, before DST applies.
//!
//! A [`Pattern`] is a set of points in time. The points of a calendar pattern are local times. The
//! points of an elapsed-time pattern are UTC times, and only its filters use local time. Every
//! operation is arithmetic: none iterates from the reference time.
//!
//! | frequency | module |
//! |---|---|
//! | minute, hour | [`cycle`] |
//! | day, week | [`calendar`]: [`stride`] with [`times`] |
//! | month, year | [`calendar`]: [`month`] with [`times`] |

mod calendar;
mod cycle;
mod month;
mod periods;
mod stride;
mod times;

pub(crate) use calendar::{Calendar, Dates};
pub(crate) use cycle::{Cycle, EARLIEST};
pub(crate) use month::{Days, Months};
pub(crate) use periods::Periods;
pub(crate) use stride::Stride;
pub(crate) use times::Times;

use crate::instant::Ticks;

/// The points of a rule, before DST gaps and overlaps of its zone apply.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// Elapsed time without a schedule: the starts of periods, independent of the zone.
    Elapsed(Periods),
    /// Elapsed time filtered by local time: one cycle for each UTC offset of the zone.
    ElapsedByOffset(Box<[(Ticks, Cycle)]>),
    /// Local dates and times of day.
    Calendar(Calendar),
}

impl Pattern {
    /// The first point at or after a local time, at the given UTC offset.
    #[inline]
    pub(crate) fn at_or_after(&self, local: Ticks, offset: Ticks) -> Option<Ticks> {
        match self {
            Pattern::Elapsed(periods) => match periods.passed(local - offset) {
                0 => Some(local),
                passed => Some(local - passed + periods.length()),
            },
            Pattern::ElapsedByOffset(cycles) => {
                Some(cycle_at_offset(cycles, offset)?.at_or_after(local - offset)? + offset)
            }
            Pattern::Calendar(calendar) => calendar.at_or_after(local),
        }
    }

    /// The last point at or before a local time, at the given UTC offset.
    pub(crate) fn at_or_before(&self, local: Ticks, offset: Ticks) -> Option<Ticks> {
        match self {
            Pattern::Elapsed(periods) => Some(local - periods.passed(local - offset)),
            Pattern::ElapsedByOffset(cycles) => {
                Some(cycle_at_offset(cycles, offset)?.at_or_before(local - offset)? + offset)
            }
            Pattern::Calendar(calendar) => calendar.at_or_before(local),
        }
    }

    /// Number of points in the local times `from..to`, at the given UTC offset.
    pub(crate) fn count(&self, from: Ticks, to: Ticks, offset: Ticks) -> u64 {
        match self {
            Pattern::Elapsed(periods) => {
                let started_before = |local: Ticks| periods.index(local - offset - 1);
                (started_before(to) - started_before(from)).max(0).unsigned_abs()
            }
            Pattern::ElapsedByOffset(cycles) => cycle_at_offset(cycles, offset)
                .map_or(0, |cycle| cycle.count(from - offset, to - offset)),
            Pattern::Calendar(calendar) => calendar.count(from, to),
        }
    }

    /// The shortest distance between consecutive points; `None` if there are fewer than two.
    pub(crate) fn shortest_gap(&self) -> Option<Ticks> {
        match self {
            Pattern::Elapsed(periods) => Some(periods.length()),
            Pattern::ElapsedByOffset(cycles) => {
                cycles.iter().filter_map(|(_, cycle)| cycle.shortest_gap()).min()
            }
            Pattern::Calendar(calendar) => calendar.shortest_gap(),
        }
    }
}

fn cycle_at_offset(cycles: &[(Ticks, Cycle)], offset: Ticks) -> Option<&Cycle> {
    cycles.iter().find(|(of, _)| *of == offset).map(|(_, cycle)| cycle)
}

fn least_common_multiple(a: i64, b: i64) -> i64 {
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}
