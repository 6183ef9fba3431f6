//! The times of day of a calendar rule: selected hours × selected minutes, at the same second.

use crate::instant::{TICKS_PER_DAY, TICKS_PER_MINUTE, Ticks};

/// Every selected hour combined with every selected minute, as bit sets, so that searches are bit
/// operations.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    /// Bit h: hour h is selected. Never empty.
    pub(crate) hours: u32,
    /// Bit m: minute m is selected. Never empty.
    pub(crate) minutes: u64,
    /// Ticks after the full minute, below [`TICKS_PER_MINUTE`].
    pub(crate) within_minute: Ticks,
}

impl Times {
    /// Number of times in a day.
    pub(crate) fn per_day(&self) -> u64 {
        u64::from(self.hours.count_ones() * self.minutes.count_ones())
    }

    pub(crate) fn first(&self) -> Ticks {
        self.at(self.hours.trailing_zeros(), self.minutes.trailing_zeros())
    }

    pub(crate) fn last(&self) -> Ticks {
        self.at(self.hours.ilog2(), self.minutes.ilog2())
    }

    pub(crate) fn at_or_after(&self, time_of_day: Ticks) -> Option<Ticks> {
        let (hour, minute) = self.minute_reached_by(time_of_day)?;
        if self.hours >> hour & 1 == 1 {
            let later = self.minutes >> minute;
            if later != 0 {
                return Some(self.at(hour, minute + later.trailing_zeros()));
            }
        }
        let later = self.hours >> hour >> 1;
        (later != 0)
            .then(|| self.at(hour + 1 + later.trailing_zeros(), self.minutes.trailing_zeros()))
    }

    pub(crate) fn at_or_before(&self, time_of_day: Ticks) -> Option<Ticks> {
        let reached = (time_of_day - self.within_minute).div_euclid(TICKS_PER_MINUTE);
        if reached < 0 {
            return None;
        }
        let (hour, minute) = ((reached / 60) as u32, (reached % 60) as u32);
        if self.hours >> hour & 1 == 1 {
            let earlier = self.minutes & ((2 << minute) - 1);
            if earlier != 0 {
                return Some(self.at(hour, earlier.ilog2()));
            }
        }
        let earlier = self.hours & ((1 << hour) - 1);
        (earlier != 0).then(|| self.at(earlier.ilog2(), self.minutes.ilog2()))
    }

    /// Number of times before `time_of_day`.
    pub(crate) fn count_before(&self, time_of_day: Ticks) -> u64 {
        let Some((hour, minute)) = self.minute_reached_by(time_of_day) else {
            return self.per_day();
        };
        let full_hours = (self.hours & ((1 << hour) - 1)).count_ones();
        let in_this_hour = (self.minutes & ((1 << minute) - 1)).count_ones();
        let this_hour = self.hours >> hour & 1;
        u64::from(full_hours * self.minutes.count_ones() + this_hour * in_this_hour)
    }

    /// The shortest distance between consecutive times of a day; `None` if there is only one.
    pub(crate) fn shortest_gap(&self) -> Option<Ticks> {
        let after = |time: &Ticks| self.at_or_after(time + 1);
        let times = std::iter::successors(Some(self.first()), after);
        times.clone().zip(times.skip(1)).map(|(first, second)| second - first).min()
    }

    fn at(&self, hour: u32, minute: u32) -> Ticks {
        i64::from(hour * 60 + minute) * TICKS_PER_MINUTE + self.within_minute
    }

    /// The first hour and minute whose time (with `within_minute`) is not before `time_of_day`.
    fn minute_reached_by(&self, time_of_day: Ticks) -> Option<(u32, u32)> {
        debug_assert!((0..TICKS_PER_DAY).contains(&time_of_day));
        let passed = time_of_day - self.within_minute + TICKS_PER_MINUTE - 1;
        let minute = (passed / TICKS_PER_MINUTE) as u32;
        (minute < 24 * 60).then_some((minute / 60, minute % 60))
    }
}
