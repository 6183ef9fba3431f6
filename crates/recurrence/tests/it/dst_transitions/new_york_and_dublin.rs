//! Transitions of one hour in other zones.

use super::*;

#[test]
fn new_york_moves_02_30_in_march_and_repeats_01_30_in_november() {
    let definition = every(1, Day, "America/New_York", "2026-01-01T00:00-05:00");
    let definition = with(definition, hours_and_minutes(&[1, 2], &[30]));
    let expected = [
        "2026-03-08T01:30-05:00",
        "2026-03-08T03:30-04:00",
        "2026-03-09T01:30-04:00",
        "2026-03-09T02:30-04:00",
    ];
    check(&definition, ["2026-03-08T00:00-05:00", "2026-03-09T23:59-04:00"], &expected);
    let expected = [
        "2026-11-01T01:30-04:00",
        "2026-11-01T02:30-05:00",
        "2026-11-02T01:30-05:00",
        "2026-11-02T02:30-05:00",
    ];
    check(&definition, ["2026-11-01T00:00-04:00", "2026-11-02T23:59-05:00"], &expected);
}

#[test]
fn negative_dst_in_winter_changes_nothing_in_dublin() {
    let definition = every(1, Day, "Europe/Dublin", "2026-01-01T01:30+00:00");
    let expected = ["2026-03-28T01:30+00:00", "2026-03-29T02:30+01:00", "2026-03-30T01:30+01:00"];
    check(&definition, ["2026-03-28T00:00+00:00", "2026-03-30T23:59+01:00"], &expected);
    let expected = ["2026-10-24T01:30+01:00", "2026-10-25T01:30+01:00", "2026-10-26T01:30+00:00"];
    check(&definition, ["2026-10-24T00:00+01:00", "2026-10-26T23:59+00:00"], &expected);
}
