//! Days of months: the 15th, the last day, the third Wednesday or the last Friday of every n-th month
//! or of selected months of every n-th year.
//!
//! A month has one of 28 shapes: 28 to 31 days, and one of seven first weekdays. The selected days
//! depend on the shape only, so they are computed once for each shape, as bit sets.

use crate::civil::{self, MONTHS_PER_CYCLE, Month};
use crate::definition::MonthlyOccurrence;
use crate::expand::{Periods, least_common_multiple};

/// A month number before every supported month.
const FIRST_MONTH: i64 = -1_000 * 12;

/// Limit of a search. The calendar repeats after 400 years.
const MONTHS_SEARCHED_MAX: i64 = MONTHS_PER_CYCLE;

/// Limit of the search for a period with a selected month. Every n-th month reaches all calendar
/// months that it can reach within twelve periods.
const PERIODS_TRIED_MAX: usize = 13;

/// Value of [`Months::span`] if periods are contiguous, so that every month belongs to one.
const ALL: i64 = i64::MAX / 4;

/// Selected days of selected months.
#[derive(Clone, Debug)]
pub(crate) struct Months {
    periods: Periods,
    /// Number of months at the start of each period that belong to the rule: 1, 12 or [`ALL`].
    span: i64,
    /// Bit m: month m (January = 0) is selected. Never empty.
    months: u32,
    days: Days,
}

impl Months {
    /// The days `days` of every `interval`-th month from month number `first` that is in `months`.
    pub(crate) fn monthly(first: i64, interval: i64, months: u32, days: Days) -> Months {
        let span = if interval == 1 { ALL } else { 1 };
        Months { periods: Periods::new(first, interval, FIRST_MONTH), span, months, days }
    }

    /// The days `days` of each month in `months` of every `interval`-th year from `year`.
    pub(crate) fn yearly(year: i64, interval: i64, months: u32, days: Days) -> Months {
        let periods = Periods::new(year * 12, 12 * interval, FIRST_MONTH);
        let span = if interval == 1 { ALL } else { 12 };
        Months { periods, span, months, days }
    }

    pub(crate) fn at_or_after(&self, day: i64) -> Option<i64> {
        let (given, day_of_month) = Month::of_day(day);
        if self.contains(given) {
            let chosen = self.days.of(given) >> day_of_month;
            if chosen != 0 {
                return Some(day + i64::from(chosen.trailing_zeros()));
            }
        }
        let last = given.number + MONTHS_SEARCHED_MAX + self.periods.length();
        let mut months = self.months_after(given);
        while let Some(month) = months.next().filter(|month| month.number <= last) {
            let chosen = self.days.of(month);
            if chosen != 0 {
                return Some(month.first_day() - 1 + i64::from(chosen.trailing_zeros()));
            }
        }
        None
    }

    pub(crate) fn at_or_before(&self, day: i64) -> Option<i64> {
        let (given, day_of_month) = Month::of_day(day);
        if self.contains(given) {
            let chosen = self.days.of(given) & ((2_u64 << day_of_month) - 1) as u32;
            if chosen != 0 {
                return Some(day - day_of_month + i64::from(chosen.ilog2()));
            }
        }
        let first = given.number - MONTHS_SEARCHED_MAX - self.periods.length();
        let mut next = given.number - 1;
        while let Some(number) = self.month_at_or_before(next).filter(|&number| number >= first) {
            let month = Month::new(number);
            let chosen = self.days.of(month);
            if chosen != 0 {
                return Some(month.first_day() - 1 + i64::from(chosen.ilog2()));
            }
            next = number - 1;
        }
        None
    }

    /// The smallest number of days between consecutive points in 400 years; `None` if there are
    /// fewer than two.
    pub(crate) fn shortest_gap(&self) -> Option<i64> {
        let begin = self.periods.begin(0);
        let end = begin + MONTHS_PER_CYCLE + self.periods.length();
        let mut shortest: Option<i64> = None;
        let mut last_day: Option<i64> = None;
        for month in
            self.months_after(Month::new(begin - 1)).take_while(|month| month.number <= end)
        {
            let mut chosen = self.days.of(month);
            while chosen != 0 {
                let day = month.first_day() - 1 + i64::from(chosen.trailing_zeros());
                let gap = last_day.map(|last| day - last);
                shortest = shortest.into_iter().chain(gap).min();
                last_day = Some(day);
                chosen &= chosen - 1;
            }
            if shortest == Some(1) {
                break;
            }
        }
        shortest
    }

    /// Number of days in `from..to`.
    pub(crate) fn count(&self, from: i64, to: i64) -> u64 {
        if to <= from {
            return 0;
        }
        let (first_month, first_day) = Month::of_day(from);
        let (last_month, last_day) = Month::of_day(to);
        let (first, last) = (first_month.number, last_month.number);
        // Calendar and rule together repeat, so whole repetitions are multiplied.
        let repetition = least_common_multiple(self.periods.length(), MONTHS_PER_CYCLE);
        let repetitions = (last - first) / repetition;
        let mut days = 0;
        if repetitions > 0 {
            let in_one = self.count_in_months(first, first + repetition);
            days += in_one * repetitions.unsigned_abs();
        }
        days += self.count_in_months(first + repetitions * repetition, last);
        days + self.count_in_month_before(last_month, last_day)
            - self.count_in_month_before(first_month, first_day)
    }

    /// Number of days in the months `from..to`.
    fn count_in_months(&self, from: i64, to: i64) -> u64 {
        let months = self.months_after(Month::new(from - 1)).take_while(|month| month.number < to);
        months.map(|month| u64::from(self.days.of(month).count_ones())).sum()
    }

    /// Number of days in `month` before its day `day_of_month`.
    fn count_in_month_before(&self, month: Month, day_of_month: i64) -> u64 {
        if !self.contains(month) {
            return 0;
        }
        let before = (1_u32 << day_of_month) - 1;
        u64::from((self.days.of(month) & before).count_ones())
    }

    /// Whether a month belongs to a period and is selected.
    fn contains(&self, month: Month) -> bool {
        self.months >> month.of_year() & 1 == 1 && self.periods.passed(month.number) < self.span
    }

    /// The selected months after `month`, in order. Ends if no period contains a selected month.
    fn months_after(&self, month: Month) -> impl Iterator<Item = Month> + '_ {
        let chosen = self.months | self.months << 12;
        let mut period = self.periods.begin(month.number);
        let mut last = month;
        std::iter::from_fn(move || {
            for _ in 0..=PERIODS_TRIED_MAX {
                let ahead = i64::from((chosen >> last.of_year() >> 1).trailing_zeros()) + 1;
                if last.number + ahead < period + self.span {
                    last = last.later(ahead);
                    return Some(last);
                }
                period += self.periods.length();
                last = last.later(period - 1 - last.number);
            }
            None
        })
    }

    /// The last selected month at or before `month`.
    fn month_at_or_before(&self, month: i64) -> Option<i64> {
        let mut period = self.periods.begin(month);
        let mut until = month.min(period + self.span - 1);
        for _ in 0..=PERIODS_TRIED_MAX {
            let of_year = until.rem_euclid(12);
            let behind = (self.months | self.months << 12) & ((2 << (of_year + 12)) - 1);
            let found = until - (of_year + 12 - i64::from(behind.ilog2()));
            if found >= period || self.span == ALL {
                return Some(found);
            }
            period -= self.periods.length();
            until = period + self.span - 1;
        }
        None
    }
}

/// The selected days of a month for each month shape. Bit d is the d-th day; bit 0 is unused.
#[derive(Clone, Debug)]
pub(crate) struct Days([u32; civil::MONTH_SHAPE_COUNT]);

impl Days {
    /// One day of the month, or the last day if the month is shorter.
    pub(crate) fn clamped(day: i64) -> Days {
        Days::build(|length, _| 1 << day.min(length))
    }

    /// Days counted from the start (1 to 31) or the end (−1 to −31) of the month. Days that a month
    /// does not have are omitted.
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

    /// Weekdays counted from the start (1 to 5) or the end (−1 to −5) of the month, or all of them.
    /// A fifth one that a month does not have is omitted.
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

    /// Days that both select.
    pub(crate) fn and(&self, other: &Days) -> Days {
        Days(std::array::from_fn(|shape| self.of_shape(shape) & other.of_shape(shape)))
    }

    /// Days that either selects.
    pub(crate) fn or(&self, other: &Days) -> Days {
        Days(std::array::from_fn(|shape| self.of_shape(shape) | other.of_shape(shape)))
    }

    fn build(chosen: impl Fn(i64, i64) -> u32) -> Days {
        Days(std::array::from_fn(|shape| {
            let (length, begins_on) = civil::length_and_first_weekday(shape);
            chosen(length, begins_on)
        }))
    }

    fn of(&self, month: Month) -> u32 {
        self.of_shape(month.shape())
    }

    fn of_shape(&self, shape: usize) -> u32 {
        self.0.get(shape).copied().unwrap_or(0)
    }
}
