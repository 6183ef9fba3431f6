//! Notes on DST transitions.

use kalends_recurrence::{
    Definition, Frequency, Instant, Recurrence, Rule, Schedule, Settings, Zone,
};

fn check(zone: &str, frequency: Frequency, schedule: Option<Schedule>, expected: &[&str]) {
    let mut recurrence = Recurrence::every(1, frequency);
    if let Some(schedule) = schedule {
        recurrence = recurrence.with_schedule(schedule);
    }
    recurrence.zone = Some(Zone::named(zone).unwrap());
    check_recurrence(recurrence, expected);
}

/// Checks the notes on the year 2027 of a rule that starts with 2026.
fn check_recurrence(recurrence: Recurrence, expected: &[&str]) {
    let instant = |text: &str| text.parse::<Instant>().unwrap();
    let start = instant("2026-01-01T00:00:00Z");
    let definition =
        Definition { start: Some(start), created: start, recurrence: Some(recurrence) };
    let rule = Rule::new(definition, &Settings::default()).unwrap();
    let notes = rule.dst_notes(instant("2027-01-01"), instant("2028-01-01"));
    let texts: Vec<_> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(texts, expected);
}

fn times(hours: Option<&[i64]>, minutes: &[i64]) -> Option<Schedule> {
    let hours = hours.map(<[i64]>::to_vec);
    Some(Schedule { hours, minutes: Some(minutes.to_vec()), ..Schedule::default() })
}

#[test]
fn fixed_local_times_move_out_of_the_gap_and_run_once_in_the_overlap() {
    check(
        "Europe/Berlin",
        Frequency::Day,
        times(Some(&[2, 9]), &[30]),
        &[
            "On 2027-03-28 Europe/Berlin skips 02:00 to 03:00: 02:30 runs at 03:30",
            "On 2027-10-31 Europe/Berlin shows 02:00 to 03:00 twice: 02:30 runs once, the first time",
        ],
    );
    check("Europe/Berlin", Frequency::Day, times(Some(&[9]), &[30]), &[]);
    check("UTC", Frequency::Day, times(Some(&[2]), &[30]), &[]);
}

#[test]
fn elapsed_times_do_not_run_in_the_gap_and_run_twice_in_the_overlap() {
    let expected = [
        "On 2027-03-14 America/New_York skips 02:00 to 03:00: 02:00, 02:15, 02:30 and 1 more do not exist and do not run",
        "On 2027-11-07 America/New_York shows 01:00 to 02:00 twice: 01:00, 01:15, 01:30 and 1 more run both times",
    ];
    let quarters = times(None, &[0, 15, 30, 45]);
    check("America/New_York", Frequency::Day, quarters.clone(), &expected);
    check("America/New_York", Frequency::Hour, quarters, &expected);
    check("America/New_York", Frequency::Hour, None, &[]);
}

#[test]
fn transitions_after_the_end_of_a_rule_have_no_note() {
    let half_past_two = times(Some(&[2]), &[30]).unwrap();
    let mut recurrence = Recurrence::every(1, Frequency::Day).with_schedule(half_past_two);
    recurrence.zone = Some(Zone::named("Europe/Berlin").unwrap());
    recurrence.end = Some("2027-06-01".parse().unwrap());
    let expected = ["On 2027-03-28 Europe/Berlin skips 02:00 to 03:00: 02:30 runs at 03:30"];
    check_recurrence(recurrence, &expected);
}
