//! Elapsed-time rules: every n minutes or hours counted from the anchor, some of them left out or
//! split into minutes by the schedule.

use crate::expand::least_common_multiple;
use crate::instant::{TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MINUTE, Ticks};

/// Points that repeat exactly: `base + k × period + offset`, for every offset of `offsets`.
#[derive(Clone, Debug)]
pub(crate) struct Cycle {
    base: Ticks,
    period: Ticks,
    /// Ascending, each in `0..period`. Empty when the schedule leaves nothing.
    offsets: Box<[Ticks]>,
}

impl Cycle {
    /// Every `step` from `base`.
    pub(crate) fn plain(base: Ticks, step: Ticks) -> Cycle {
        Cycle { base, period: step, offsets: Box::new([0]) }
    }

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
        Cycle { base, period, offsets: offsets.collect() }
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
        Cycle { base, period, offsets: offsets.into() }
    }

    pub(crate) fn at_or_after(&self, at: Ticks) -> Option<Ticks> {
        let (begin, index) = self.position(at);
        match self.offsets.get(index) {
            Some(offset) => Some(begin + offset),
            None => self.offsets.first().map(|offset| begin + self.period + offset),
        }
    }

    pub(crate) fn at_or_before(&self, at: Ticks) -> Option<Ticks> {
        let (begin, index) = self.position(at + 1);
        match index.checked_sub(1).and_then(|index| self.offsets.get(index)) {
            Some(offset) => Some(begin + offset),
            None => self.offsets.last().map(|offset| begin - self.period + offset),
        }
    }

    /// How many lie in `from..to`.
    pub(crate) fn count(&self, from: Ticks, to: Ticks) -> u64 {
        let rank = |at| {
            let (begin, index) = self.position(at);
            (begin - self.base) / self.period * self.offsets.len() as i64 + index as i64
        };
        (rank(to) - rank(from)).max(0).unsigned_abs()
    }

    /// The beginning of the period that holds `at`, and how many offsets of it lie before `at`.
    fn position(&self, at: Ticks) -> (Ticks, usize) {
        let passed = (at - self.base).rem_euclid(self.period);
        (at - passed, self.offsets.partition_point(|&offset| offset < passed))
    }
}
