//! Pacific/Apia skipped 30 December 2011, a Friday: a gap of 24 hours.

use super::*;

const ZONE: &str = "Pacific/Apia";
const WEEK: [&str; 2] = ["2011-12-29T00:00-10:00", "2012-01-07T00:00+14:00"];

#[test]
fn the_daily_run_of_the_skipped_day_coincides_with_the_next() {
    let definition = every(1, Day, ZONE, "2011-12-01T08:00-10:00");
    let expected = ["2011-12-29T08:00-10:00", "2011-12-31T08:00+14:00", "2012-01-01T08:00+14:00"];
    check(&definition, [WEEK[0], "2012-01-01T23:59+14:00"], &expected);
}

#[test]
fn every_second_day_counts_the_skipped_day() {
    let definition = every(2, Day, ZONE, "2011-12-28T08:00-10:00");
    let expected = [
        "2011-12-28T08:00-10:00",
        "2011-12-31T08:00+14:00",
        "2012-01-01T08:00+14:00",
        "2012-01-03T08:00+14:00",
    ];
    check(&definition, ["2011-12-28T00:00-10:00", "2012-01-03T23:59+14:00"], &expected);
}

#[test]
fn the_run_of_the_skipped_friday_is_on_saturday() {
    let definition = every(1, Week, ZONE, "2011-12-02T08:00-10:00");
    check(&definition, WEEK, &["2011-12-31T08:00+14:00", "2012-01-06T08:00+14:00"]);
    let both = with(definition, week_days(&[Weekday::Friday, Weekday::Saturday]));
    check(&both, WEEK, &["2011-12-31T08:00+14:00", "2012-01-06T08:00+14:00"]);
}

#[test]
fn the_run_of_the_skipped_30th_is_on_the_31st() {
    let thirtieth = Schedule { month_days: Some(vec![30]), ..Schedule::default() };
    let definition = with(every(1, Month, ZONE, "2011-11-01T08:00-10:00"), thirtieth);
    let expected = ["2011-11-30T08:00-10:00", "2011-12-31T08:00+14:00", "2012-01-30T08:00+14:00"];
    check(&definition, ["2011-11-01T00:00Z", "2012-02-15T00:00Z"], &expected);
}

#[test]
fn a_minutes_only_schedule_does_not_run_on_the_skipped_day() {
    let thirtieth = Schedule { month_days: Some(vec![30]), ..minutes_only(&[0]) };
    let definition = with(every(1, Month, ZONE, "2011-12-01T00:00-10:00"), thirtieth);
    let month = ["2011-12-01T00:00Z", "2012-01-30T01:00+14:00"];
    check(&definition, month, &["2012-01-30T00:00+14:00", "2012-01-30T01:00+14:00"]);
}

#[test]
fn elapsed_hours_continue_across_the_skipped_day() {
    let definition = every(12, Hour, ZONE, "2011-12-29T06:00-10:00");
    let expected = [
        "2011-12-29T06:00-10:00",
        "2011-12-29T18:00-10:00",
        "2011-12-31T06:00+14:00",
        "2011-12-31T18:00+14:00",
    ];
    check(&definition, [WEEK[0], "2011-12-31T23:00+14:00"], &expected);
}

#[test]
fn the_skipped_friday_counts_in_the_week_of_the_start_time() {
    let start = "2011-12-31T07:00+14:00";
    let friday = Schedule { hours: Some(vec![8]), ..week_days(&[Weekday::Friday]) };
    let mut definition = with(every(1, Week, ZONE, start), friday);
    check(&definition, WEEK, &["2011-12-31T08:00+14:00", "2012-01-06T08:00+14:00"]);
    let pattern = &mut definition.recurrence.as_mut().unwrap().pattern;
    let kalends_recurrence::RecurrencePattern::Interval(interval) = pattern else {
        panic!("no interval")
    };
    interval.first_day_of_week = Weekday::Saturday;
    check(&definition, WEEK, &["2012-01-06T08:00+14:00"]);
}

#[test]
fn a_skipped_last_day_belongs_to_its_year() {
    // Kiritimati had no 31 December 1994.
    let last = Schedule { month_days: Some(vec![31]), ..hours_and_minutes(&[8], &[0]) };
    let new_year = ["1994-12-01T00:00-10:00", "1995-02-01T00:00+14:00"];
    let from_december = every(1, Month, "Pacific/Kiritimati", "1994-12-01T00:00-10:00");
    let expected = ["1995-01-01T08:00+14:00", "1995-01-31T08:00+14:00"];
    check(&with(from_december, last.clone()), new_year, &expected);
    let from_january = every(1, Month, "Pacific/Kiritimati", "1995-01-01T07:00+14:00");
    check(&with(from_january, last), new_year, &["1995-01-31T08:00+14:00"]);
}
