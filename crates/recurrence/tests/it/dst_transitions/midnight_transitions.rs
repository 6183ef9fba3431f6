//! Transitions at or around midnight, where a day has no first hour or repeats its last one.

use super::*;

#[test]
fn midnight_is_in_the_gap_in_santiago_in_september() {
    let definition = every(1, Day, "America/Santiago", "2026-08-01T00:30-04:00");
    let expected = ["2026-09-05T00:30-04:00", "2026-09-06T01:30-03:00", "2026-09-07T00:30-03:00"];
    check(&definition, ["2026-09-05T00:00-04:00", "2026-09-07T23:59-03:00"], &expected);
}

#[test]
fn the_last_hour_of_a_day_repeats_in_santiago_in_april() {
    let definition = every(1, Day, "America/Santiago", "2026-03-01T23:30-03:00");
    let expected = ["2026-04-03T23:30-03:00", "2026-04-04T23:30-03:00", "2026-04-05T23:30-04:00"];
    check(&definition, ["2026-04-03T12:00-03:00", "2026-04-05T23:59-04:00"], &expected);

    let fourth = Schedule { month_days: Some(vec![4]), ..minutes_only(&[30]) };
    let definition = with(every(1, Month, "America/Santiago", "2026-03-01T00:00-03:00"), fourth);
    let expected = [
        "2026-04-04T22:30-03:00",
        "2026-04-04T23:30-03:00",
        "2026-04-04T23:30-04:00",
        "2026-05-04T00:30-04:00",
    ];
    check(&definition, ["2026-04-04T22:00-03:00", "2026-05-04T01:00-04:00"], &expected);
}

#[test]
fn a_friday_without_midnight_still_runs_in_cairo() {
    let definition = every(1, Week, "Africa/Cairo", "2026-04-17T00:00+02:00");
    let expected = ["2026-04-17T00:00+02:00", "2026-04-24T01:00+03:00", "2026-05-01T00:00+03:00"];
    check(&definition, ["2026-04-17T00:00+02:00", "2026-05-01T12:00+03:00"], &expected);
}

#[test]
fn midnight_and_01_00_coincide_in_beirut() {
    let times = Schedule { hours: Some(vec![0, 1]), minutes: Some(vec![0, 30]), ..last_sunday() };
    let definition = with(every(1, Month, "Asia/Beirut", "2026-03-01T00:00+02:00"), times);
    let expected = ["2026-03-29T01:00+03:00", "2026-03-29T01:30+03:00"];
    check(&definition, ["2026-03-01T00:00Z", "2026-04-20T00:00Z"], &expected);
}

#[test]
fn the_first_hour_of_a_day_repeats_in_havana() {
    // 2037-11-01: 01:00 becomes 00:00, so the second pass starts at midnight.
    let start = "2036-11-01T00:00-04:00";
    let definition = with(every(1, Year, "America/Havana", start), minutes_only(&[12]));
    let expected = ["2037-11-01T00:12-04:00", "2037-11-01T00:12-05:00"];
    check(&definition, ["2037-10-01T00:00-04:00", "2037-11-01T00:59-05:00"], &expected);
    let rule = Rule::new(definition, &Settings::default()).unwrap();
    let between_the_two = instant("2037-11-01T00:11-05:00");
    assert_eq!(rule.last_at_or_before(between_the_two), Some(instant(expected[0])));
    assert_eq!(rule.next_after(between_the_two), Some(instant(expected[1])));
}

#[test]
fn a_time_in_the_gap_moves_to_the_next_day_in_nuuk() {
    // 2026-03-28 ends at 23:00, when it becomes 00:00 of the 29th.
    let definition = every(1, Day, "America/Nuuk", "2026-03-01T23:30-02:00");
    let expected = ["2026-03-27T23:30-02:00", "2026-03-29T00:30-01:00", "2026-03-29T23:30-01:00"];
    check(&definition, ["2026-03-27T12:00-02:00", "2026-03-30T12:00-01:00"], &expected);
}

#[test]
fn a_time_moved_past_the_start_time_runs() {
    let start = "2026-09-06T01:10-03:00";
    let times = hours_and_minutes(&[0], &[30]);
    let definition = with(every(1, Day, "America/Santiago", start), times);
    let expected = ["2026-09-06T01:30-03:00", "2026-09-07T00:30-03:00"];
    check(&definition, [start, "2026-09-07T12:00-03:00"], &expected);
}

#[test]
fn a_time_before_the_first_day_does_not_move_into_it() {
    let start = "2026-03-29T00:10-01:00";
    let times = hours_and_minutes(&[23], &[30]);
    let definition = with(every(1, Day, "America/Nuuk", start), times);
    let expected = ["2026-03-29T23:30-01:00", "2026-03-30T23:30-01:00"];
    check(&definition, [start, "2026-03-31T12:00-01:00"], &expected);
}

#[test]
fn transitions_were_at_one_minute_past_midnight_in_st_johns() {
    let definition = every(1, Day, "America/St_Johns", "2010-03-01T00:00-03:30");
    let times = with(definition.clone(), hours_and_minutes(&[0], &[0, 1, 30]));
    let expected = ["2010-03-14T00:00-03:30", "2010-03-14T01:01-02:30", "2010-03-14T01:30-02:30"];
    check(&times, ["2010-03-14T00:00-03:30", "2010-03-14T12:00-02:30"], &expected);

    // 00:01 of 7 November became 23:01 of the 6th: the first minute of the 7th repeated.
    let midnight = ["2010-11-06T00:00-02:30", "2010-11-07T00:00-02:30"];
    let around = ["2010-11-06T00:00-02:30", "2010-11-07T12:00-03:30"];
    check(&definition, around, &midnight);
}

#[test]
fn an_offset_with_seconds_moves_times_by_seconds() {
    // Monrovia, 1972-01-07: 00:00:00 at −00:44:30 became 00:44:30 UTC.
    let definition = every(1, Day, "Africa/Monrovia", "1972-01-06T01:14:30Z");
    let expected = ["1972-01-06T01:14:30Z", "1972-01-07T01:14:30Z", "1972-01-08T00:30:00Z"];
    check(&definition, ["1972-01-06T00:00Z", "1972-01-08T12:00Z"], &expected);
}

#[test]
fn an_hour_can_start_within_a_shortened_minute() {
    // Lisbon, 1912-01-01: 23:23:15 at −00:36:45 became 00:00:00 UTC.
    let definition = every(1, Hour, "Europe/Lisbon", "1911-12-31T00:00:00Z");
    let definition = with(definition, minutes_only(&[0, 15]));
    let expected = ["1911-12-31T23:36:45Z", "1911-12-31T23:51:45Z", "1912-01-01T00:00:00Z"];
    check(&definition, ["1911-12-31T23:30:00Z", "1912-01-01T00:14:00Z"], &expected);
}
