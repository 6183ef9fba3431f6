//! Days of months: the 15th, the last day, the third Wednesday, the last Friday, of every n-th
//! month or of chosen months of every n-th year.
//!
//! A month looks one of 28 ways: it has 28 to 31 days and begins on one of seven weekdays. What a
//! schedule chooses depends on nothing else, so the chosen days of all 28 are worked out once, as
//! bits, and every search reads them.

use crate::civil::{self, MONTHS_PER_CYCLE, Month};
use crate::definition::MonthlyOccurrence;
use crate::expand::least_common_multiple;

/// How far a search looks before it gives up: the calendar repeats after 400 years.
const MONTHS_SEARCHED_MAX: i64 = MONTHS_PER_CYCLE;

/// How many periods are tried for one that holds a chosen month: n-th months meet each of the
/// twelve they can meet within twelve periods.
const PERIODS_TRIED_MAX: usize = 13;

/// Days of months.
#[derive(Clone, Debug)]
pub(crate) struct Months {
    /// The first month of the period that holds the anchor.
    origin: i64,
    /// Months from one period to the next.
    length: i64,
    /// How many months belong to a period: one, or the twelve of a year.
    span: i64,
    /// Bit m: the month m (January = 0) is chosen. Never empty.
    months: u32,
    days: Days,
}

impl Months {
    /// In every `interval`-th month from `anchor` that is one of `months`, the days of `days`.
    pub(crate) fn monthly(anchor: i64, interval: i64, months: u32, days: Days) -> Months {
        Months { origin: anchor, length: interval, span: 1, months, days }
    }

    /// In every `interval`-th year from `year`, in each of `months`, the days of `days`.
    pub(crate) fn yearly(year: i64, interval: i64, months: u32, days: Days) -> Months {
        Months { origin: year * 12, length: 12 * interval, span: 12, months, days }
    }

    pub(crate) fn at_or_after(&self, day: i64) -> Option<i64> {
        let (year, month, day_of_month) = civil::date(day);
        let given = year * 12 + month - 1;
        let mut month = self.month_at_or_after(given)?;
        if month == given {
            let chosen = self.days.of(Month::new(month)) >> day_of_month;
            if chosen != 0 {
                return Some(day + i64::from(chosen.trailing_zeros()));
            }
            month = self.month_at_or_after(month + 1)?;
        }
        while month <= given + MONTHS_SEARCHED_MAX + self.length {
            let found = Month::new(month);
            let chosen = self.days.of(found);
            if chosen != 0 {
                return Some(found.first_day - 1 + i64::from(chosen.trailing_zeros()));
            }
            month = self.month_at_or_after(month + 1)?;
        }
        None
    }

    pub(crate) fn at_or_before(&self, day: i64) -> Option<i64> {
        let (year, month, day_of_month) = civil::date(day);
        let given = year * 12 + month - 1;
        let mut month = self.month_at_or_before(given)?;
        while month >= given - MONTHS_SEARCHED_MAX - self.length {
            let found = Month::new(month);
            let mut chosen = self.days.of(found);
            if month == given {
                chosen &= ((2_u64 << day_of_month) - 1) as u32;
            }
            if chosen != 0 {
                return Some(found.first_day - 1 + i64::from(chosen.ilog2()));
            }
            month = self.month_at_or_before(month - 1)?;
        }
        None
    }

    /// How many lie in `from..to`.
    pub(crate) fn count(&self, from: i64, to: i64) -> u64 {
        if to <= from {
            return 0;
        }
        let month_of = |day| {
            let (year, month, _) = civil::date(day);
            year * 12 + month - 1
        };
        let (first, last) = (month_of(from), month_of(to));
        // Whole repetitions of calendar and rule together are multiplied, not walked.
        let repetition = least_common_multiple(self.length, MONTHS_PER_CYCLE);
        let repetitions = (last - first) / repetition;
        let mut days = 0;
        if repetitions > 0 {
            let in_one = self.count_in_months(first, first + repetition);
            days += in_one * repetitions.unsigned_abs();
        }
        days += self.count_in_months(first + repetitions * repetition, last);
        days + self.count_in_month_before(last, to) - self.count_in_month_before(first, from)
    }

    /// How many lie in the months `from..to`.
    fn count_in_months(&self, from: i64, to: i64) -> u64 {
        let mut days = 0;
        let mut next = from;
        while let Some(month) = self.month_at_or_after(next).filter(|&month| month < to) {
            days += u64::from(self.days.of(Month::new(month)).count_ones());
            next = month + 1;
        }
        days
    }

    /// How many lie in a month before one of its days.
    fn count_in_month_before(&self, month: i64, day: i64) -> u64 {
        if self.month_at_or_after(month) != Some(month) {
            return 0;
        }
        let found = Month::new(month);
        let before = ((1_u64 << (day - found.first_day + 1)) - 1) as u32;
        u64::from((self.days.of(found) & before).count_ones())
    }

    /// The first chosen month from `month` on.
    fn month_at_or_after(&self, month: i64) -> Option<i64> {
        let passed = (month - self.origin).rem_euclid(self.length);
        let mut period = month - passed;
        let mut from = month;
        for _ in 0..=PERIODS_TRIED_MAX {
            let of_year = from.rem_euclid(12);
            let ahead = (self.months | self.months << 12) >> of_year;
            let found = from + i64::from(ahead.trailing_zeros());
            if found < period + self.span {
                return Some(found);
            }
            period += self.length;
            from = period;
        }
        None
    }

    /// The last chosen month up to `month`.
    fn month_at_or_before(&self, month: i64) -> Option<i64> {
        let passed = (month - self.origin).rem_euclid(self.length);
        let mut period = month - passed;
        let mut until = month.min(period + self.span - 1);
        for _ in 0..=PERIODS_TRIED_MAX {
            let of_year = until.rem_euclid(12);
            let behind = (self.months | self.months << 12) & ((2 << (of_year + 12)) - 1);
            let found = until - (of_year + 12 - i64::from(behind.ilog2()));
            if found >= period {
                return Some(found);
            }
            period -= self.length;
            until = period + self.span - 1;
        }
        None
    }
}

/// The chosen days of a month, for each way a month can look. Bit d is the d-th day; bit 0 is
/// unused.
#[derive(Clone, Debug)]
pub(crate) struct Days([u32; 28]);

impl Days {
    /// One day of the month; the last one where the month is shorter.
    pub(crate) fn clamped(day: i64) -> Days {
        Days::build(|length, _| 1 << day.min(length))
    }

    /// Days counted from the beginning (1 to 31) or from the end (−1 to −31). A day that a month
    /// does not have is left out.
    pub(crate) fn numbered(numbers: &[i64]) -> Days {
        Days::build(|length, _| {
            let in_month = |&number: &i64| match number {
                1.. => number,
                _ => length + 1 + number,
            };
            let days = numbers.iter().map(in_month);
            days.filter(|day| (1..=length).contains(day)).fold(0, |bits, day| bits | 1 << day)
        })
    }

    /// Weekdays counted from the beginning (1 to 5) or from the end (−1 to −5), or every such day.
    /// A fifth one that a month does not have is left out.
    pub(crate) fn weekdays(occurrences: &[MonthlyOccurrence]) -> Days {
        Days::build(|length, begins_on| {
            let in_month = |wanted: &MonthlyOccurrence| {
                let first = 1 + (wanted.day as i64 - begins_on).rem_euclid(7);
                let last = first + (length - first) / 7 * 7;
                match wanted.occurrence {
                    None => (first..=length).step_by(7).fold(0, |bits, day| bits | 1 << day),
                    Some(number @ 1..) if first + (number - 1) * 7 <= length => {
                        1 << (first + (number - 1) * 7)
                    }
                    Some(number @ ..=-1) if last + (number + 1) * 7 >= 1 => {
                        1 << (last + (number + 1) * 7)
                    }
                    Some(_) => 0,
                }
            };
            occurrences.iter().fold(0, |bits, wanted| bits | in_month(wanted))
        })
    }

    fn build(chosen: impl Fn(i64, i64) -> u32) -> Days {
        Days(std::array::from_fn(|look| chosen(28 + look as i64 / 7, look as i64 % 7)))
    }

    fn of(&self, month: Month) -> u32 {
        let look = (month.length - 28) * 7 + civil::weekday(month.first_day);
        self.0.get(look as usize).copied().unwrap_or(0)
    }
}
