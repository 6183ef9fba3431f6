//! Lord Howe, 2026-04-05: 02:00 becomes 01:30. 2026-10-04: 02:00 becomes 02:30.

use super::*;

const ZONE: &str = "Australia/Lord_Howe";

#[test]
fn a_daily_time_in_the_gap_runs_half_an_hour_later() {
    let definition = every(1, Day, ZONE, "2026-09-01T02:15+10:30");
    let expected = ["2026-10-03T02:15+10:30", "2026-10-04T02:45+11:00", "2026-10-05T02:15+11:00"];
    check(&definition, ["2026-10-03T00:00+10:30", "2026-10-05T23:59+11:00"], &expected);
}

#[test]
fn a_daily_time_in_the_overlap_runs_in_the_first_pass() {
    let definition = every(1, Day, ZONE, "2026-03-01T01:45+11:00");
    let expected = ["2026-04-04T01:45+11:00", "2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"];
    check(&definition, ["2026-04-04T00:00+11:00", "2026-04-06T23:59+10:30"], &expected);
}

#[test]
fn a_minutes_only_schedule_skips_or_repeats_half_an_hour() {
    let quarters = minutes_only(&[0, 15, 30, 45]);
    let definition = with(every(1, Day, ZONE, "2026-03-01T00:00+11:00"), quarters);
    let expected = [
        "2026-10-04T01:45+10:30",
        "2026-10-04T02:30+11:00",
        "2026-10-04T02:45+11:00",
        "2026-10-04T03:00+11:00",
    ];
    check(&definition, ["2026-10-04T01:45+10:30", "2026-10-04T03:00+11:00"], &expected);
    let expected = [
        "2026-04-05T01:30+11:00",
        "2026-04-05T01:45+11:00",
        "2026-04-05T01:30+10:30",
        "2026-04-05T01:45+10:30",
        "2026-04-05T02:00+10:30",
    ];
    check(&definition, ["2026-04-05T01:30+11:00", "2026-04-05T02:00+10:30"], &expected);
}

#[test]
fn an_hourly_rule_counts_elapsed_hours_and_changes_its_local_minute() {
    let definition = every(1, Hour, ZONE, "2026-10-03T00:15+10:30");
    let expected = ["2026-10-04T01:15+10:30", "2026-10-04T02:45+11:00", "2026-10-04T03:45+11:00"];
    check(&definition, ["2026-10-04T01:00+10:30", "2026-10-04T04:00+11:00"], &expected);
}

#[test]
fn minutes_of_every_second_hour_follow_elapsed_hours_after_the_gap() {
    // The selected hours are 00:00–01:00, then with the new offset 02:30–03:30 and 04:30–05:30.
    let start = "2026-10-04T00:15+10:30";
    let definition = with(every(2, Hour, ZONE, start), minutes_only(&[15, 45]));
    let expected = [
        "2026-10-04T00:15+10:30",
        "2026-10-04T00:45+10:30",
        "2026-10-04T02:45+11:00",
        "2026-10-04T03:15+11:00",
        "2026-10-04T04:45+11:00",
        "2026-10-04T05:15+11:00",
    ];
    check(&definition, ["2026-10-04T00:00+10:30", "2026-10-04T06:00+11:00"], &expected);
}

#[test]
fn minutes_of_every_second_hour_follow_elapsed_hours_after_the_overlap() {
    // The selected hours are 23:00–24:00 and 01:00–02:00, then with the new offset 02:30–03:30.
    let start = "2026-04-04T23:00+11:00";
    let definition = with(every(2, Hour, ZONE, start), minutes_only(&[15, 45]));
    let expected = [
        "2026-04-04T23:15+11:00",
        "2026-04-04T23:45+11:00",
        "2026-04-05T01:15+11:00",
        "2026-04-05T01:45+11:00",
        "2026-04-05T02:45+10:30",
        "2026-04-05T03:15+10:30",
    ];
    check(&definition, [start, "2026-04-05T04:00+10:30"], &expected);
}

#[test]
fn minutes_of_every_hour_follow_local_time() {
    let start = "2026-04-04T23:00+11:00";
    let definition = with(every(1, Hour, ZONE, start), minutes_only(&[45]));
    let expected = [
        "2026-04-05T00:45+11:00",
        "2026-04-05T01:45+11:00",
        "2026-04-05T01:45+10:30",
        "2026-04-05T02:45+10:30",
    ];
    check(&definition, ["2026-04-05T00:00+11:00", "2026-04-05T03:00+10:30"], &expected);
}

#[test]
fn an_elapsed_hour_can_contain_a_minute_twice_and_miss_another() {
    // Counted from an hour in winter, elapsed hours in summer start at half past. During the
    // overlap, one covers 01:30 to 02:00 twice.
    let start = "2025-07-01T01:00+10:30";
    let definition = with(every(2, Hour, ZONE, start), minutes_only(&[10, 50]));
    let expected = [
        "2026-04-04T23:50+11:00",
        "2026-04-05T00:10+11:00",
        "2026-04-05T01:50+11:00",
        "2026-04-05T01:50+10:30",
        "2026-04-05T03:10+10:30",
        "2026-04-05T03:50+10:30",
    ];
    check(&definition, ["2026-04-04T23:30+11:00", "2026-04-05T04:59+10:30"], &expected);
}
