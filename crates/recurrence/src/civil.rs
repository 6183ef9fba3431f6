//! Calendar arithmetic on plain integers: day numbers, month numbers, weekdays.
//!
//! A *day number* counts days from 1970-01-01 (day 0, a Thursday). A *month number* is
//! `year × 12 + month − 1`. All dates are in the proleptic Gregorian calendar, which repeats after
//! [`DAYS_PER_CYCLE`] days, a whole number of weeks. The tables of months cover the 4,800 months of
//! one cycle and are computed at compile time.

/// Days in the 400-year cycle of the calendar.
pub(crate) const DAYS_PER_CYCLE: i64 = 146_097;
/// Months in the 400-year cycle of the calendar.
pub(crate) const MONTHS_PER_CYCLE: i64 = 4_800;

/// 2000-01-01, the start of cycle 0.
const CYCLE_BEGINS: i64 = 10_957;
const CYCLE_BEGINS_MONTH: i64 = 2_000 * 12;

/// The day of the cycle on which each month starts, plus the start of the next cycle.
#[expect(
    clippy::indexing_slicing,
    reason = "evaluated at compile time, where an error fails the build"
)]
static MONTH_BEGINS: [u32; MONTHS_PER_CYCLE as usize + 1] = {
    let mut begins = [0; MONTHS_PER_CYCLE as usize + 1];
    let mut month = 0;
    while month < MONTHS_PER_CYCLE as usize {
        let length = days_in_month(2_000 + month as i64 / 12, month as i64 % 12 + 1);
        begins[month + 1] = begins[month] + length as u32;
        month += 1;
    }
    begins
};

/// Number of month shapes: four lengths × seven first weekdays.
pub(crate) const MONTH_SHAPE_COUNT: usize = 28;

/// The shape of each month of a cycle: its length and first weekday as one number.
#[expect(
    clippy::indexing_slicing,
    reason = "evaluated at compile time, where an error fails the build"
)]
static MONTH_SHAPES: [u8; MONTHS_PER_CYCLE as usize] = {
    let mut shapes = [0; MONTHS_PER_CYCLE as usize];
    let mut month = 0;
    while month < MONTHS_PER_CYCLE as usize {
        let length = MONTH_BEGINS[month + 1] - MONTH_BEGINS[month];
        let first = weekday(CYCLE_BEGINS + MONTH_BEGINS[month] as i64);
        shapes[month] = (length - 28) as u8 * 7 + first as u8;
        month += 1;
    }
    shapes
};

/// A month and its position in the 400-year cycle.
#[derive(Clone, Copy)]
pub(crate) struct Month {
    /// Month number.
    pub(crate) number: i64,
    /// Day number of the first day of the cycle.
    cycle: i64,
    /// Index in the cycle, below [`MONTHS_PER_CYCLE`].
    of_cycle: usize,
}

impl Month {
    pub(crate) fn new(number: i64) -> Month {
        let months = number - CYCLE_BEGINS_MONTH;
        let cycle = CYCLE_BEGINS + months.div_euclid(MONTHS_PER_CYCLE) * DAYS_PER_CYCLE;
        Month { number, cycle, of_cycle: months.rem_euclid(MONTHS_PER_CYCLE) as usize }
    }

    /// The month that contains a day, and the day of the month (from 1).
    pub(crate) fn of_day(day_number: i64) -> (Month, i64) {
        let days = day_number - CYCLE_BEGINS;
        let cycles = days.div_euclid(DAYS_PER_CYCLE);
        let day_of_cycle = days.rem_euclid(DAYS_PER_CYCLE) as u32;
        // Months have nearly the same length, so the estimate is off by one at most.
        let mut of_cycle = (day_of_cycle * 32 / 974) as usize;
        of_cycle -= usize::from(begins(of_cycle) > day_of_cycle);
        of_cycle += usize::from(begins(of_cycle + 1) <= day_of_cycle);
        let number = CYCLE_BEGINS_MONTH + cycles * MONTHS_PER_CYCLE + of_cycle as i64;
        let cycle = CYCLE_BEGINS + cycles * DAYS_PER_CYCLE;
        (Month { number, cycle, of_cycle }, i64::from(day_of_cycle - begins(of_cycle)) + 1)
    }

    /// The month `months` later; `months` must not be negative.
    pub(crate) fn later(mut self, months: i64) -> Month {
        self.number += months;
        self.of_cycle += months as usize;
        while self.of_cycle >= MONTHS_PER_CYCLE as usize {
            self.of_cycle -= MONTHS_PER_CYCLE as usize;
            self.cycle += DAYS_PER_CYCLE;
        }
        self
    }

    pub(crate) fn first_day(self) -> i64 {
        self.cycle + i64::from(begins(self.of_cycle))
    }

    /// Index of the shape, below [`MONTH_SHAPE_COUNT`].
    pub(crate) fn shape(self) -> usize {
        MONTH_SHAPES.get(self.of_cycle).map_or(0, |&shape| usize::from(shape))
    }

    /// Number of days in the month.
    pub(crate) fn length(self) -> i64 {
        length_and_first_weekday(self.shape()).0
    }

    /// Month of the year, January = 0.
    pub(crate) fn of_year(self) -> u32 {
        // A cycle starts in January.
        self.of_cycle as u32 % 12
    }
}

/// The day of the cycle on which a month starts.
fn begins(of_cycle: usize) -> u32 {
    MONTH_BEGINS.get(of_cycle).copied().unwrap_or(u32::MAX)
}

/// The number of days and the first weekday (Sunday = 0) of months of a shape.
pub(crate) fn length_and_first_weekday(shape: usize) -> (i64, i64) {
    (28 + shape as i64 / 7, shape as i64 % 7)
}

/// The day number of a date.
pub(crate) const fn day_number(year: i64, month: i64, day: i64) -> i64 {
    // Years that start in March have the leap day at their end, so one formula gives the day of the
    // year for every month.
    const FROM_MARCH_OF_YEAR_0: i64 = 719_468;
    let march_month = (month + 9) % 12;
    let march_year = if month <= 2 { year - 1 } else { year };
    let cycle = march_year.div_euclid(400);
    let year_of_cycle = march_year.rem_euclid(400);
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    cycle * DAYS_PER_CYCLE + day_of_cycle - FROM_MARCH_OF_YEAR_0
}

/// Year, month and day of a day number.
pub(crate) fn date(day_number: i64) -> (i64, i64, i64) {
    let (month, day) = Month::of_day(day_number);
    (month.number.div_euclid(12), i64::from(month.of_year()) + 1, day)
}

/// The weekday of a day number, Sunday = 0.
pub(crate) const fn weekday(day_number: i64) -> i64 {
    (day_number + 4).rem_euclid(7)
}

/// Number of days in a month.
pub(crate) const fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_three_cycles_round_trips_and_follows_its_predecessor() {
        let (mut year, mut month, mut day) = (1600, 1, 1);
        let first = day_number(1600, 1, 1);
        for number in first..first + 3 * DAYS_PER_CYCLE {
            assert_eq!(date(number), (year, month, day));
            assert_eq!(day_number(year, month, day), number);
            let known = Month::new(year * 12 + month - 1);
            assert_eq!(known.first_day(), number - day + 1);
            assert_eq!(known.length(), days_in_month(year, month));
            assert_eq!(
                length_and_first_weekday(known.shape()),
                (known.length(), weekday(known.first_day()))
            );
            let from_before = Month::new(1500 * 12).later((year - 1500) * 12 + month - 1);
            assert_eq!(from_before.first_day(), known.first_day());
            assert_eq!(from_before.number, known.number);
            day += 1;
            if day > days_in_month(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn the_epoch_is_a_thursday() {
        assert_eq!(day_number(1970, 1, 1), 0);
        assert_eq!(weekday(0), 4);
        assert_eq!(weekday(-1), 3);
        assert_eq!(weekday(DAYS_PER_CYCLE), 4);
    }
}
