//! Calendar arithmetic on plain integers: day numbers, month numbers, weekdays.
//!
//! A *day number* counts days from 1970-01-01 (day 0, a Thursday). A *month number* is
//! `year × 12 + month − 1`. The proleptic Gregorian calendar holds throughout, and repeats exactly
//! after [`DAYS_PER_CYCLE`] days, which is also a whole number of weeks. So whatever can be asked
//! of a month is worked out once for the 4,800 of a cycle, when the crate is compiled.

/// 400 years.
pub(crate) const DAYS_PER_CYCLE: i64 = 146_097;
/// 400 years.
pub(crate) const MONTHS_PER_CYCLE: i64 = 4_800;

/// 2000-01-01, where cycles are counted from.
const CYCLE_BEGINS: i64 = 10_957;
const CYCLE_BEGINS_MONTH: i64 = 2_000 * 12;

/// For each month of a cycle and the one after it, the day of the cycle on which it begins.
#[expect(
    clippy::indexing_slicing,
    reason = "worked out by the compiler, where a slip fails the build"
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

/// The ways in which a month can look.
pub(crate) const LOOKS: usize = 28;

/// For each month of a cycle, its look: the number of its days and the weekday of its first.
#[expect(
    clippy::indexing_slicing,
    reason = "worked out by the compiler, where a slip fails the build"
)]
static MONTH_LOOKS: [u8; MONTHS_PER_CYCLE as usize] = {
    let mut looks = [0; MONTHS_PER_CYCLE as usize];
    let mut month = 0;
    while month < MONTHS_PER_CYCLE as usize {
        let length = MONTH_BEGINS[month + 1] - MONTH_BEGINS[month];
        let first = weekday(CYCLE_BEGINS + MONTH_BEGINS[month] as i64);
        looks[month] = (length - 28) as u8 * 7 + first as u8;
        month += 1;
    }
    looks
};

/// A month, found in the cycle.
#[derive(Clone, Copy)]
pub(crate) struct Month {
    /// Its number.
    pub(crate) number: i64,
    /// The first day of its cycle.
    cycle: i64,
    /// Its place in the cycle, below [`MONTHS_PER_CYCLE`].
    of_cycle: usize,
}

impl Month {
    pub(crate) fn new(number: i64) -> Month {
        let months = number - CYCLE_BEGINS_MONTH;
        let cycle = CYCLE_BEGINS + months.div_euclid(MONTHS_PER_CYCLE) * DAYS_PER_CYCLE;
        Month { number, cycle, of_cycle: months.rem_euclid(MONTHS_PER_CYCLE) as usize }
    }

    /// The month that holds a day, and which of its days that is.
    pub(crate) fn of_day(day_number: i64) -> (Month, i64) {
        let days = day_number - CYCLE_BEGINS;
        let cycles = days.div_euclid(DAYS_PER_CYCLE);
        let day_of_cycle = days.rem_euclid(DAYS_PER_CYCLE) as u32;
        // Months are nearly equal, so the guess is off by one at most.
        let mut of_cycle = (day_of_cycle * 32 / 974) as usize;
        of_cycle -= usize::from(begins(of_cycle) > day_of_cycle);
        of_cycle += usize::from(begins(of_cycle + 1) <= day_of_cycle);
        let number = CYCLE_BEGINS_MONTH + cycles * MONTHS_PER_CYCLE + of_cycle as i64;
        let cycle = CYCLE_BEGINS + cycles * DAYS_PER_CYCLE;
        (Month { number, cycle, of_cycle }, i64::from(day_of_cycle - begins(of_cycle)) + 1)
    }

    /// The month so many months later.
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

    /// Below [`LOOKS`].
    pub(crate) fn look(self) -> usize {
        MONTH_LOOKS.get(self.of_cycle).map_or(0, |&look| usize::from(look))
    }

    /// How many days it has.
    pub(crate) fn length(self) -> i64 {
        of_look(self.look()).0
    }

    /// January is 0.
    pub(crate) fn of_year(self) -> u32 {
        // A cycle begins in January and has whole years.
        self.of_cycle as u32 % 12
    }
}

/// The day of a cycle on which one of its months begins.
fn begins(of_cycle: usize) -> u32 {
    MONTH_BEGINS.get(of_cycle).copied().unwrap_or(u32::MAX)
}

/// How many days the months of a look have, and on which weekday (Sunday = 0) they begin.
pub(crate) fn of_look(look: usize) -> (i64, i64) {
    (28 + look as i64 / 7, look as i64 % 7)
}

/// The day number of a date.
pub(crate) const fn day_number(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March put the leap day at their end, so that one line gives the day of
    // the year for every month.
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

/// How many days a month has.
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
            assert_eq!(of_look(known.look()), (known.length(), weekday(known.first_day())));
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
