//! Elapsed-time patterns with a schedule: every n minutes or hours from the reference time, filtered
//! by hour and minute, or with hours split into minutes.

use crate::civil;
use crate::expand::{Periods, least_common_multiple};
use crate::instant::{TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MINUTE, Ticks};

/// The year −1000, before every supported time.
pub(crate) const EARLIEST: Ticks = civil::day_number(-1_000, 1, 1) * TICKS_PER_DAY;

/// The points `base + k × period + offset` for all integers `k` and all `offset` in `offsets`.
#[derive(Clone, Debug)]
pub(crate) struct Cycle {
    periods: Periods,
    /// Ascending, each below the period. Empty if the schedule filters out every point.
    offsets: Box<[Ticks]>,
}

impl Cycle {
    /// The points `base + k × step` whose local hour and minute are selected, at a UTC offset of
    /// `zone_offset`. `step` is a multiple of a minute.
    pub(crate) fn filtered(
        base: Ticks,
        step: Ticks,
        zone_offset: Ticks,
        hours: u32,
        minutes: u64,
    ) -> Cycle {
        // Local time of day repeats daily, so the pattern repeats after the least common multiple
        // of the step and a day.
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

    /// In the hours that start at `base + k × step`, the full minutes whose local hour and minute
    /// are selected, at a UTC offset of `zone_offset`. `step` is a multiple of an hour.
    pub(crate) fn minutes_of_hours(
        base: Ticks,
        step: Ticks,
        zone_offset: Ticks,
        hours: u32,
        minutes: u64,
    ) -> Cycle {
        let period = least_common_multiple(step, TICKS_PER_DAY);
        let first = (base + zone_offset).rem_euclid(TICKS_PER_DAY);
        // If the offset has changed by a fraction of a minute since the reference time, full local
        // minutes are not aligned with the hours counted from it.
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

    /// Number of points in `from..to`.
    pub(crate) fn count(&self, from: Ticks, to: Ticks) -> u64 {
        let rank = |at| {
            let (_, index) = self.position(at);
            self.periods.index(at) * self.offsets.len() as i64 + index as i64
        };
        (rank(to) - rank(from)).max(0).unsigned_abs()
    }

    /// The shortest distance between consecutive points; `None` if there are none.
    pub(crate) fn shortest_gap(&self) -> Option<Ticks> {
        let across = self.offsets.first()? + self.periods.length() - self.offsets.last()?;
        let within = self.offsets.windows(2).filter_map(|pair| match pair {
            [first, second] => Some(second - first),
            _ => None,
        });
        within.chain([across]).min()
    }

    /// The start of the period that contains `at`, and the number of its points before `at`.
    fn position(&self, at: Ticks) -> (Ticks, usize) {
        let passed = self.periods.passed(at);
        (at - passed, self.offsets.partition_point(|&offset| offset < passed))
    }
}
