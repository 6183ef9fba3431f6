//! Elapsed time that a schedule filters or splits: every n minutes or hours counted from the anchor,
//! some of them left out, or hours split into minutes.

use crate::civil;
use crate::expand::{Periods, least_common_multiple};
use crate::instant::{TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MINUTE, Ticks};

/// Before everything that is ever asked for: the year -1000.
pub(crate) const EARLIEST: Ticks = civil::day_number(-1_000, 1, 1) * TICKS_PER_DAY;

/// Points that repeat exactly: `base + k × period + offset`, for every offset of `offsets`.
#[derive(Clone, Debug)]
pub(crate) struct Cycle {
    periods: Periods,
    /// Ascending, each within a period. Empty when the schedule leaves nothing.
    offsets: Box<[Ticks]>,
}

impl Cycle {
    /// Of the points `base + k × step`, those whose hour and minute on a wall clock that is
    /// `zone_offset` ahead of UTC are chosen. `step` is a multiple of a minute.
    pub(crate) fn filtered(
        base: Ticks,
        step: Ticks,
        zone_offset: Ticks,
        hours: u32,
        minutes: u64,
    ) -> Cycle {
        // The wall clock repeats after a day, so the pattern does after as many steps as it takes
        // to make whole days.
        let period = least_common_multiple(step, TICKS_PER_DAY);
        let first = (base + zone_offset).rem_euclid(TICKS_PER_DAY);
        let offsets = (0..period).step_by(step as usize).filter(|offset| {
            let time_of_day = (first + offset) % TICKS_PER_DAY;
            let hour = time_of_day / TICKS_PER_HOUR;
            let minute = time_of_day / TICKS_PER_MINUTE % 60;
            hours >> hour & 1 == 1 && minutes >> minute & 1 == 1
        });
        Cycle { periods: Periods::new(base, period, EARLIEST), offsets: offsets.collect() }
    }

    /// In the hours that begin at `base + k × step`, every full minute whose number on a wall clock
    /// that is `zone_offset` ahead of UTC is chosen, as is its hour there. `step` is a multiple of
    /// an hour.
    pub(crate) fn minutes_of_hours(
        base: Ticks,
        step: Ticks,
        zone_offset: Ticks,
        hours: u32,
        minutes: u64,
    ) -> Cycle {
        let period = least_common_multiple(step, TICKS_PER_DAY);
        let first = (base + zone_offset).rem_euclid(TICKS_PER_DAY);
        // Where the zone has moved by less than an hour since the anchor, full minutes on the wall
        // do not begin with the hour counted from it.
        let to_full_minute = (-first).rem_euclid(TICKS_PER_MINUTE);
        let mut offsets = Vec::new();
        for hour_begins in (0..period).step_by(step as usize) {
            for minute in 0..60 {
                let offset = hour_begins + to_full_minute + minute * TICKS_PER_MINUTE;
                let time_of_day = (first + offset) % TICKS_PER_DAY;
                let hour = time_of_day / TICKS_PER_HOUR;
                let minute = time_of_day / TICKS_PER_MINUTE % 60;
                if hours >> hour & 1 == 1 && minutes >> minute & 1 == 1 {
                    offsets.push(offset);
                }
            }
        }
        Cycle { periods: Periods::new(base, period, EARLIEST), offsets: offsets.into() }
    }

    pub(crate) fn at_or_after(&self, at: Ticks) -> Option<Ticks> {
        let (begin, index) = self.position(at);
        match self.offsets.get(index) {
            Some(offset) => Some(begin + offset),
            None => self.offsets.first().map(|offset| begin + self.periods.length() + offset),
        }
    }

    pub(crate) fn at_or_before(&self, at: Ticks) -> Option<Ticks> {
        let (begin, index) = self.position(at + 1);
        match index.checked_sub(1).and_then(|index| self.offsets.get(index)) {
            Some(offset) => Some(begin + offset),
            None => self.offsets.last().map(|offset| begin - self.periods.length() + offset),
        }
    }

    /// How many lie in `from..to`.
    pub(crate) fn count(&self, from: Ticks, to: Ticks) -> u64 {
        let rank = |at| {
            let (_, index) = self.position(at);
            self.periods.index(at) * self.offsets.len() as i64 + index as i64
        };
        (rank(to) - rank(from)).max(0).unsigned_abs()
    }

    /// The shortest distance between two neighbours; none where there are no points.
    pub(crate) fn shortest_gap(&self) -> Option<Ticks> {
        let around = self.offsets.first()? + self.periods.length() - self.offsets.last()?;
        let inside = self.offsets.windows(2).filter_map(|pair| match pair {
            [first, second] => Some(second - first),
            _ => None,
        });
        inside.chain([around]).min()
    }

    /// The beginning of the period that holds `at`, and how many offsets of it lie before `at`.
    fn position(&self, at: Ticks) -> (Ticks, usize) {
        let passed = self.periods.passed(at);
        (at - passed, self.offsets.partition_point(|&offset| offset < passed))
    }
}
