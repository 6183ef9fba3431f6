//! Transitions of two hours, and transitions that follow the lunar calendar.

use super::*;

#[test]
fn troll_has_two_hour_transitions() {
    // 2026-03-29: 01:00 becomes 03:00. 2026-10-25: 03:00 becomes 01:00.
    let definition = every(1, Day, "Antarctica/Troll", "2026-03-01T00:00+00:00");
    let times = with(definition.clone(), hours_and_minutes(&[1, 2, 3], &[30]));
    let expected = ["2026-03-29T03:30+02:00", "2026-03-29T04:30+02:00"];
    check(&times, ["2026-03-29T00:00+00:00", "2026-03-29T12:00+02:00"], &expected);
    let expected = ["2026-10-25T01:30+02:00", "2026-10-25T02:30+02:00", "2026-10-25T03:30+00:00"];
    check(&times, ["2026-10-25T00:00+02:00", "2026-10-25T12:00+00:00"], &expected);

    let hourly = with(definition, minutes_only(&[0]));
    let expected = ["2026-03-29T00:00+00:00", "2026-03-29T03:00+02:00"];
    check(&hourly, ["2026-03-29T00:00+00:00", "2026-03-29T03:59+02:00"], &expected);
    let expected = [
        "2026-10-25T01:00+02:00",
        "2026-10-25T02:00+02:00",
        "2026-10-25T01:00+00:00",
        "2026-10-25T02:00+00:00",
        "2026-10-25T03:00+00:00",
    ];
    check(&hourly, ["2026-10-25T01:00+02:00", "2026-10-25T03:00+00:00"], &expected);
}

#[test]
fn casablanca_suspends_dst_for_ramadan() {
    // In 2026 from 15 February, 03:00 to 02:00, until 22 March, 02:00 to 03:00.
    let definition = every(1, Day, "Africa/Casablanca", "2026-01-01T02:30+01:00");
    let expected = ["2026-02-14T02:30+01:00", "2026-02-15T02:30+01:00", "2026-02-16T02:30+00:00"];
    check(&definition, ["2026-02-14T00:00+01:00", "2026-02-16T23:59+00:00"], &expected);
    let expected = ["2026-03-21T02:30+00:00", "2026-03-22T03:30+01:00", "2026-03-23T02:30+01:00"];
    check(&definition, ["2026-03-21T00:00+00:00", "2026-03-23T23:59+01:00"], &expected);

    let monthly = every(1, Month, "Africa/Casablanca", "2026-01-01T09:00+01:00");
    let expected = [
        "2026-01-01T09:00+01:00",
        "2026-02-01T09:00+01:00",
        "2026-03-01T09:00+00:00",
        "2026-04-01T09:00+01:00",
    ];
    check(&monthly, ["2026-01-01T00:00Z", "2026-04-15T00:00Z"], &expected);
}
