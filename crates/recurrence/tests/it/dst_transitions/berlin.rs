//! Europe/Berlin, 2026-03-29: 02:00 becomes 03:00. 2026-10-25: 03:00 becomes 02:00.

use super::*;

const ZONE: &str = "Europe/Berlin";
const SPRING: [&str; 2] = ["2026-03-28T00:00+01:00", "2026-03-30T23:59+02:00"];
const AUTUMN: [&str; 2] = ["2026-10-24T00:00+02:00", "2026-10-26T23:59+01:00"];

#[test]
fn a_daily_time_in_the_gap_runs_an_hour_later() {
    let definition = every(1, Day, ZONE, "2026-03-01T02:30+01:00");
    let expected = ["2026-03-28T02:30+01:00", "2026-03-29T03:30+02:00", "2026-03-30T02:30+02:00"];
    check(&definition, SPRING, &expected);
}

#[test]
fn a_time_moved_onto_another_runs_once() {
    let definition = every(1, Day, ZONE, "2026-03-01T00:00+01:00");
    let definition = with(definition, hours_and_minutes(&[2, 3], &[30]));
    let expected = [
        "2026-03-28T02:30+01:00",
        "2026-03-28T03:30+01:00",
        "2026-03-29T03:30+02:00",
        "2026-03-30T02:30+02:00",
        "2026-03-30T03:30+02:00",
    ];
    check(&definition, SPRING, &expected);
}

#[test]
fn moved_and_unmoved_times_are_in_order() {
    let definition = every(1, Day, ZONE, "2026-03-01T00:00+01:00");
    let definition = with(definition, hours_and_minutes(&[2, 3], &[0, 40]));
    let night = ["2026-03-29T00:00+01:00", "2026-03-29T12:00+02:00"];
    check(&definition, night, &["2026-03-29T03:00+02:00", "2026-03-29T03:40+02:00"]);
}

#[test]
fn two_times_that_coincide_count_once() {
    let definition = every(1, Day, ZONE, "2026-03-29T00:00+01:00");
    let mut definition = with(definition, hours_and_minutes(&[2, 3], &[30]));
    definition.recurrence.as_mut().unwrap().count = Some(2);
    let ever = ["2026-03-01T00:00Z", "2030-01-01T00:00Z"];
    check(&definition, ever, &["2026-03-29T03:30+02:00", "2026-03-30T02:30+02:00"]);
}

#[test]
fn a_daily_time_in_the_overlap_runs_in_the_first_pass() {
    let definition = every(1, Day, ZONE, "2026-03-01T02:30+01:00");
    let expected = ["2026-10-24T02:30+02:00", "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"];
    check(&definition, AUTUMN, &expected);
}

#[test]
fn the_end_of_a_gap_or_overlap_has_the_later_offset() {
    let definition = every(1, Day, ZONE, "2026-03-01T00:00+01:00");
    let definition = with(definition, hours_and_minutes(&[2, 3], &[0]));
    let spring = ["2026-03-29T00:00+01:00", "2026-03-29T12:00+02:00"];
    check(&definition, spring, &["2026-03-29T03:00+02:00"]);
    let autumn = ["2026-10-25T00:00+02:00", "2026-10-25T12:00+01:00"];
    check(&definition, autumn, &["2026-10-25T02:00+02:00", "2026-10-25T03:00+01:00"]);
}

#[test]
fn a_minutes_only_schedule_does_not_run_in_the_gap() {
    let definition = with(every(1, Day, ZONE, "2026-03-01T00:00+01:00"), minutes_only(&[0, 30]));
    let expected = [
        "2026-03-29T01:00+01:00",
        "2026-03-29T01:30+01:00",
        "2026-03-29T03:00+02:00",
        "2026-03-29T03:30+02:00",
    ];
    check(&definition, ["2026-03-29T01:00+01:00", "2026-03-29T03:59+02:00"], &expected);
}

#[test]
fn a_minutes_only_schedule_runs_in_both_passes_of_the_overlap() {
    let definition = with(every(1, Day, ZONE, "2026-03-01T00:00+01:00"), minutes_only(&[0, 30]));
    let expected = [
        "2026-10-25T01:30+02:00",
        "2026-10-25T02:00+02:00",
        "2026-10-25T02:30+02:00",
        "2026-10-25T02:00+01:00",
        "2026-10-25T02:30+01:00",
        "2026-10-25T03:00+01:00",
    ];
    check(&definition, ["2026-10-25T01:30+02:00", "2026-10-25T03:00+01:00"], &expected);
}

#[test]
fn a_start_time_in_the_second_pass_is_an_occurrence_and_later_years_use_the_first() {
    let definition = every(1, Day, ZONE, "2026-10-25T02:30+01:00");
    let expected = ["2026-10-25T02:30+01:00", "2026-10-26T02:30+01:00"];
    check(&definition, AUTUMN, &expected);
    let next_year = ["2027-10-31T00:00+02:00", "2027-10-31T23:59+01:00"];
    check(&definition, next_year, &["2027-10-31T02:30+02:00"]);
}

#[test]
fn in_the_second_pass_only_the_start_time_itself_runs() {
    let start = "2026-10-25T02:15+01:00";
    let definition = with(every(1, Day, ZONE, start), hours_and_minutes(&[2], &[15, 30]));
    let expected = [start, "2026-10-26T02:15+01:00", "2026-10-26T02:30+01:00"];
    check(&definition, AUTUMN, &expected);
}

#[test]
fn a_start_time_in_the_second_pass_that_does_not_match_is_no_occurrence() {
    for start in ["2026-10-25T02:20+01:00", "2026-10-25T02:15:01+01:00"] {
        let definition = with(every(1, Day, ZONE, start), hours_and_minutes(&[2], &[15]));
        check(&definition, AUTUMN, &["2026-10-26T02:15+01:00"]);
    }
}

#[test]
fn a_past_start_time_in_the_second_pass_does_not_run() {
    let mut definition = every(1, Day, ZONE, "2026-10-25T02:30+01:00");
    definition.created = instant("2026-10-25T02:30:00.0000001+01:00");
    check(&definition, AUTUMN, &["2026-10-26T02:30+01:00"]);
}

#[test]
fn elapsed_hours_and_minutes_ignore_dst() {
    let spring = ["2026-03-29T01:00+01:00", "2026-03-29T04:59+02:00"];
    let hourly = every(1, Hour, ZONE, "2026-03-28T00:30+01:00");
    let expected = ["2026-03-29T01:30+01:00", "2026-03-29T03:30+02:00", "2026-03-29T04:30+02:00"];
    check(&hourly, spring, &expected);

    let autumn = ["2026-10-25T02:00+02:00", "2026-10-25T02:59+01:00"];
    let half_hourly = every(30, Minute, ZONE, "2026-10-24T00:10+02:00");
    let expected = [
        "2026-10-25T02:10+02:00",
        "2026-10-25T02:40+02:00",
        "2026-10-25T02:10+01:00",
        "2026-10-25T02:40+01:00",
    ];
    check(&half_hourly, autumn, &expected);
}

#[test]
fn a_filtered_hour_is_skipped_in_the_gap_and_runs_twice_in_the_overlap() {
    let start = "2026-03-01T00:10+01:00";
    let night = ["2026-03-29T00:00+01:00", "2026-03-29T23:59+02:00"];
    check(&with(every(1, Hour, ZONE, start), hours_only(&[2])), night, &[]);
    check(&with(every(20, Minute, ZONE, start), hours_only(&[2])), night, &[]);
    let night = ["2026-10-25T00:00+02:00", "2026-10-25T23:59+01:00"];
    let hourly = with(every(1, Hour, ZONE, start), hours_only(&[2]));
    check(&hourly, night, &["2026-10-25T02:10+02:00", "2026-10-25T02:10+01:00"]);
    let both = with(every(1, Hour, ZONE, start), hours_and_minutes(&[2], &[45]));
    check(&both, night, &["2026-10-25T02:45+02:00", "2026-10-25T02:45+01:00"]);
}

#[test]
fn every_second_elapsed_hour_changes_its_local_parity() {
    let definition = with(every(2, Hour, ZONE, "2026-03-28T00:10+01:00"), minutes_only(&[5]));
    let expected = [
        "2026-03-28T22:05+01:00",
        "2026-03-29T00:05+01:00",
        "2026-03-29T03:05+02:00",
        "2026-03-29T05:05+02:00",
    ];
    check(&definition, ["2026-03-28T22:00+01:00", "2026-03-29T06:00+02:00"], &expected);
}

#[test]
fn the_last_sunday_of_the_month_has_both_transitions() {
    let schedule = Schedule { hours: Some(vec![2]), minutes: Some(vec![0]), ..last_sunday() };
    let definition = with(every(1, Month, ZONE, "2026-01-01T00:00+01:00"), schedule);
    let expected = ["2026-02-22T02:00+01:00", "2026-03-29T03:00+02:00", "2026-04-26T02:00+02:00"];
    check(&definition, ["2026-02-01T00:00Z", "2026-05-01T00:00Z"], &expected);
    let expected = ["2026-10-25T02:00+02:00", "2026-11-29T02:00+01:00"];
    check(&definition, ["2026-10-01T00:00Z", "2026-12-01T00:00Z"], &expected);
}

#[test]
fn in_the_second_pass_the_last_occurrence_is_in_the_first_pass() {
    // Regardless of the distance to the previous occurrence.
    let rules = [
        (1, Day, "2026-10-24T02:30+02:00"),
        (1, Month, "2026-09-25T02:30+02:00"),
        (12, Month, "2025-10-25T02:30+02:00"),
        (52, Week, "2025-10-26T02:30+01:00"),
        (365, Day, "2025-10-25T02:30+02:00"),
        (1, Year, "2025-10-25T02:30+02:00"),
    ];
    let answers = rules.map(|(interval, frequency, start)| {
        let definition = every(interval, frequency, ZONE, start);
        let rule = Rule::new(definition, &Settings::default()).unwrap();
        (interval, frequency, rule.last_at_or_before(instant("2026-10-25T02:10+01:00")))
    });
    let first_pass = Some(instant("2026-10-25T02:30+02:00"));
    assert_eq!(answers, rules.map(|(interval, frequency, _)| (interval, frequency, first_pass)));
}
