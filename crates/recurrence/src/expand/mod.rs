//! Where the points of a rule lie before a time zone comes into it.
//!
//! A [`Pattern`] is a set of points on a straight line of time. A calendar pattern lives on the
//! wall clock; an elapsed-time pattern lives on real time, and only its filters read the wall
//! clock. Every operation jumps there by arithmetic: none walks from the anchor.
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

/// The points of a rule, before gaps and overlaps of its zone.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// Elapsed time that no wall clock filters: the beginnings of periods. The zone plays no part.
    Elapsed(Periods),
    /// Elapsed time filtered by the wall clock: one cycle for each offset that the zone ever has.
    ElapsedByOffset(Box<[(Ticks, Cycle)]>),
    /// Dates and times of day.
    Calendar(Calendar),
}

impl Pattern {
    /// The first point at or after a local time, while the zone is `offset` ahead of UTC.
    #[inline]
    pub(crate) fn at_or_after(&self, local: Ticks, offset: Ticks) -> Option<Ticks> {
        match self {
            Pattern::Elapsed(periods) => match periods.passed(local - offset) {
                0 => Some(local),
                passed => Some(local - passed + periods.length()),
            },
            Pattern::ElapsedByOffset(cycles) => {
                Some(at_offset(cycles, offset)?.at_or_after(local - offset)? + offset)
            }
            Pattern::Calendar(calendar) => calendar.at_or_after(local),
        }
    }

    /// The last point at or before a local time, while the zone is `offset` ahead of UTC.
    pub(crate) fn at_or_before(&self, local: Ticks, offset: Ticks) -> Option<Ticks> {
        match self {
            Pattern::Elapsed(periods) => Some(local - periods.passed(local - offset)),
            Pattern::ElapsedByOffset(cycles) => {
                Some(at_offset(cycles, offset)?.at_or_before(local - offset)? + offset)
            }
            Pattern::Calendar(calendar) => calendar.at_or_before(local),
        }
    }

    /// How many points lie in the local times `from..to`, while the zone is `offset` ahead of UTC.
    pub(crate) fn count(&self, from: Ticks, to: Ticks, offset: Ticks) -> u64 {
        match self {
            Pattern::Elapsed(periods) => {
                let begun_before = |local: Ticks| periods.index(local - offset - 1);
                (begun_before(to) - begun_before(from)).max(0).unsigned_abs()
            }
            Pattern::ElapsedByOffset(cycles) => {
                at_offset(cycles, offset).map_or(0, |cycle| cycle.count(from - offset, to - offset))
            }
            Pattern::Calendar(calendar) => calendar.count(from, to),
        }
    }

    /// The shortest distance between two neighbours; none where there are not two.
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

/// The cycle of an offset.
fn at_offset(cycles: &[(Ticks, Cycle)], offset: Ticks) -> Option<&Cycle> {
    cycles.iter().find(|(of, _)| *of == offset).map(|(_, cycle)| cycle)
}

fn least_common_multiple(a: i64, b: i64) -> i64 {
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}
