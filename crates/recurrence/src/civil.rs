//! Calendar arithmetic on plain integers: day numbers, month numbers, weekdays.
//!
//! A *day number* counts days from 1970-01-01 (day 0, a Thursday). A *month number* is
//! `year × 12 + month − 1`. The proleptic Gregorian calendar holds throughout, and repeats exactly
//! after [`DAYS_PER_CYCLE`] days, which is also a whole number of weeks.

/// 400 years.
pub(crate) const DAYS_PER_CYCLE: i64 = 146_097;
/// 400 years.
pub(crate) const MONTHS_PER_CYCLE: i64 = 4_800;

/// Days from 0000-03-01, where 400-year cycles are counted from, to 1970-01-01.
const EPOCH_FROM_MARCH: i64 = 719_468;

/// The day number of a date.
pub(crate) const fn day_number(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March put the leap day at their end, so that one line gives the day of
    // the year for every month.
    let march_month = (month + 9) % 12;
    let march_year = if month <= 2 { year - 1 } else { year };
    let cycle = march_year.div_euclid(400);
    let year_of_cycle = march_year.rem_euclid(400);
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    cycle * DAYS_PER_CYCLE + day_of_cycle - EPOCH_FROM_MARCH
}

/// Year, month and day of a day number.
pub(crate) const fn date(day_number: i64) -> (i64, i64, i64) {
    let shifted = day_number + EPOCH_FROM_MARCH;
    let cycle = shifted.div_euclid(DAYS_PER_CYCLE);
    let day_of_cycle = shifted.rem_euclid(DAYS_PER_CYCLE);
    // Subtract the leap days so that what remains divides evenly into years of 365.
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524
        - day_of_cycle / (DAYS_PER_CYCLE - 1))
        / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = cycle * 400 + year_of_cycle + if month <= 2 { 1 } else { 0 };
    (year, month, day)
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

/// Where a month lies and how long it is.
#[derive(Clone, Copy)]
pub(crate) struct Month {
    pub(crate) first_day: i64,
    pub(crate) length: i64,
}

impl Month {
    pub(crate) const fn new(month_number: i64) -> Month {
        let (year, month) = (month_number.div_euclid(12), month_number.rem_euclid(12) + 1);
        Month { first_day: day_number(year, month, 1), length: days_in_month(year, month) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_two_cycles_round_trips_and_follows_its_predecessor() {
        let (mut year, mut month, mut day) = (1600, 1, 1);
        let first = day_number(1600, 1, 1);
        for number in first..first + 2 * DAYS_PER_CYCLE {
            assert_eq!(date(number), (year, month, day));
            assert_eq!(day_number(year, month, day), number);
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
