//! Worked examples, computed by hand, of cases that the documentation leaves undefined.

use crate::{instant, rule};

/// Compares the first occurrences of a rule that starts when it is created.
fn check(start: &str, recurrence: &str, expected: &[&str]) {
    let start = instant(start).to_string();
    let text = format!(r#"{{"startTime":"{start}","recurrence":{recurrence}}}"#);
    let rule = rule(&text, &start).expect(recurrence);
    let found: Vec<_> = rule.occurrences().take(expected.len()).collect();
    let expected: Vec<_> = expected.iter().map(|text| instant(text)).collect();
    assert_eq!(found, expected, "{start} {recurrence}");
}

#[test]
fn a_daily_job_with_a_count_of_seven_ends_on_sunday() {
    let days = ["03-02", "03-03", "03-04", "03-05", "03-06", "03-07", "03-08"];
    let expected = days.map(|day| format!("{day} 09:00"));
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    check("03-02 09:00", r#"{"frequency":"day","count":7}"#, &expected);
    let text = r#"{"startTime":"2026-03-02T09:00:00Z","recurrence":{"frequency":"day","count":7}}"#;
    assert_eq!(rule(text, "2026-03-01T00:00:00Z").unwrap().occurrences().count(), 7);
}

#[test]
fn every_third_day_runs_at_two_hours() {
    check(
        "03-04 12:25",
        r#"{"frequency":"day","interval":3,"schedule":{"hours":[6,18],"minutes":[0]}}"#,
        &["03-04 18:00", "03-07 06:00", "03-07 18:00", "03-10 06:00", "03-10 18:00"],
    );
}

#[test]
fn minutes_alone_mean_all_hours_of_one_day_a_week_or_month() {
    let hours = |day: &str, from: usize| {
        (from..24).map(|hour| format!("{day} {hour:02}:00")).collect::<Vec<_>>()
    };
    let weekly = [hours("03-04", 13), hours("03-11", 0)].concat();
    let weekly: Vec<_> = weekly.iter().map(String::as_str).collect();
    check("03-04 12:25", r#"{"frequency":"week","schedule":{"minutes":[0]}}"#, &weekly);
    let monthly = [hours("03-04", 13), hours("04-04", 0)].concat();
    let monthly: Vec<_> = monthly.iter().map(String::as_str).collect();
    check("03-04 12:25", r#"{"frequency":"month","schedule":{"minutes":[0]}}"#, &monthly);
}

#[test]
fn hours_alone_keep_the_minute_of_the_start() {
    check(
        "01-15 08:20",
        r#"{"frequency":"month","schedule":{"hours":[6,18]}}"#,
        &["01-15 18:20", "02-15 06:20", "02-15 18:20", "03-15 06:20", "03-15 18:20"],
    );
}

#[test]
fn every_second_week_is_counted_from_the_week_of_the_start() {
    check(
        "03-04 09:00",
        r#"{"frequency":"week","interval":2}"#,
        &["03-04 09:00", "03-18 09:00", "04-01 09:00", "04-15 09:00"],
    );
    check(
        "03-04 09:00",
        r#"{"frequency":"week","interval":2,"schedule":{"hours":[6,18]}}"#,
        &["03-04 18:00", "03-18 06:00", "03-18 18:00", "04-01 06:00", "04-01 18:00"],
    );
}

#[test]
fn the_first_day_of_the_week_decides_where_a_sunday_belongs() {
    let days = |first: &str, week_days: &str| {
        format!(
            r#"{{"frequency":"week","interval":2,"firstDayOfWeek":"{first}","schedule":{{"weekDays":{week_days}}}}}"#
        )
    };
    let at_nine = |days: &[&str]| days.iter().map(|day| format!("{day} 09:00")).collect::<Vec<_>>();
    let check = |start: &str, recurrence: String, days: &[&str]| {
        let expected = at_nine(days);
        check(start, &recurrence, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    };
    let three = r#"["sunday","monday","wednesday"]"#;
    check(
        "03-04 09:00",
        days("Monday", three),
        &["03-04", "03-08", "03-16", "03-18", "03-22", "03-30", "04-01"],
    );
    check(
        "03-04 09:00",
        days("Sunday", three),
        &["03-04", "03-15", "03-16", "03-18", "03-29", "03-30", "04-01"],
    );
    let two = r#"["sunday","wednesday"]"#;
    check("03-01 09:00", days("monday", two), &["03-01", "03-11", "03-15", "03-25", "03-29"]);
    check("03-01 09:00", days("sunday", two), &["03-01", "03-04", "03-15", "03-18", "03-29"]);
}

#[test]
fn days_that_a_month_does_not_have_are_skipped() {
    let on = |days: &str| format!(r#"{{"frequency":"month","schedule":{{"monthDays":{days}}}}}"#);
    let start = "01-01 08:00";
    let at_eight =
        |days: &[&str]| days.iter().map(|day| format!("{day} 08:00")).collect::<Vec<_>>();
    let check = |start: &str, recurrence: String, days: &[&str]| {
        let expected = at_eight(days);
        check(start, &recurrence, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    };
    check(start, on("[31]"), &["01-31", "03-31", "05-31", "07-31", "08-31", "10-31", "12-31"]);
    check(start, on("[-1]"), &["01-31", "02-28", "03-31", "04-30"]);
    check(start, on("[-31]"), &["01-01", "03-01", "05-01", "07-01", "08-01", "10-01", "12-01"]);
    check(
        start,
        on("[30,31,-1]"),
        &["01-30", "01-31", "02-28", "03-30", "03-31", "04-30", "05-30", "05-31"],
    );
    check(
        "2027-12-01 08:00",
        on("[29]"),
        &["2027-12-29", "2028-01-29", "2028-02-29", "2028-03-29"],
    );
}

#[test]
fn weekdays_of_the_month_are_counted_from_either_end() {
    let on = |which: &str| {
        format!(r#"{{"frequency":"month","schedule":{{"monthlyOccurrences":[{which}]}}}}"#)
    };
    check(
        "01-01 08:00",
        &on(r#"{"day":"friday","Occurrence":5}"#),
        &[
            "01-30 08:00",
            "05-29 08:00",
            "07-31 08:00",
            "10-30 08:00",
            "2027-01-29 08:00",
            "2027-04-30 08:00",
        ],
    );
    check(
        "01-01 08:00",
        &on(r#"{"day":"friday","occurrence":-3}"#),
        &["01-16 08:00", "02-13 08:00", "03-13 08:00", "04-10 08:00"],
    );
    let days = ["02-01", "02-08", "02-15", "02-22", "04-05", "04-12", "04-19", "04-26", "06-07"];
    let expected = days.map(|day| format!("{day} 08:00"));
    check(
        "02-01 08:00",
        r#"{"frequency":"month","interval":2,"schedule":{"monthlyOccurrences":[{"day":"sunday"}]}}"#,
        &expected.iter().map(String::as_str).collect::<Vec<_>>(),
    );
}

#[test]
fn every_third_month_on_two_days_skips_dates_before_the_start() {
    check(
        "01-15 08:00",
        r#"{"frequency":"month","interval":3,"schedule":{"monthDays":[10,20]}}"#,
        &["01-20 08:00", "04-10 08:00", "04-20 08:00", "07-10 08:00", "07-20 08:00", "10-10 08:00"],
    );
}

#[test]
fn a_monthly_job_of_the_31st_runs_on_the_last_day_of_shorter_months() {
    check(
        "01-31 08:00",
        r#"{"frequency":"month"}"#,
        &["01-31 08:00", "02-28 08:00", "03-31 08:00", "04-30 08:00", "05-31 08:00"],
    );
}

#[test]
fn minute_and_hour_are_split_and_filtered() {
    check(
        "03-04 12:25",
        r#"{"frequency":"hour","interval":2,"schedule":{"minutes":[0,30]}}"#,
        &["03-04 12:30", "03-04 14:00", "03-04 14:30", "03-04 16:00", "03-04 16:30"],
    );
    check(
        "03-04 12:25",
        r#"{"frequency":"minute","interval":15,"schedule":{"hours":[9,10]}}"#,
        &["03-05 09:10", "03-05 09:25", "03-05 09:40", "03-05 09:55", "03-05 10:10"],
    );
}

#[test]
fn a_yearly_job_of_a_leap_day_runs_on_the_28th_in_other_years() {
    check(
        "2024-02-29 10:00",
        r#"{"frequency":"year"}"#,
        &[
            "2024-02-29 10:00",
            "2025-02-28 10:00",
            "2026-02-28 10:00",
            "2027-02-28 10:00",
            "2028-02-29 10:00",
        ],
    );
    check(
        "05-10 10:00",
        r#"{"frequency":"year","schedule":{"months":[1,7],"monthDays":[-1]}}"#,
        &["07-31 10:00", "2027-01-31 10:00", "2027-07-31 10:00"],
    );
}

#[test]
fn a_past_start_keeps_its_phase_and_occurrences_before_the_creation_do_not_count() {
    let expected = ["2015-04-09 14:00", "2015-04-11 14:00", "2015-04-13 14:00", "2015-04-15 14:00"];
    for start in ["2015-04-07", "2015-04-05", "2015-04-01"] {
        let text = format!(
            r#"{{"startTime":"{start}T14:00:00Z","recurrence":{{"frequency":"Day","interval":2,"count":4}}}}"#
        );
        let rule = rule(&text, "2015-04-08T13:00:00Z").unwrap();
        let found: Vec<_> = rule.occurrences().collect();
        assert_eq!(found, expected.map(instant), "{start}");
    }
}

#[test]
fn count_and_end_time_stop_at_whichever_is_reached_first() {
    let text = |count: &str| {
        format!(
            r#"{{"startTime":"2012-08-04T00:00Z","recurrence":{{"frequency":"week",{count}"endTime":"2012-11-04","schedule":{{"hours":[10,22],"minutes":[0],"weekDays":["monday","wednesday","friday"]}}}}}}"#
        )
    };
    let counted = rule(&text(r#""count":10,"#), "2012-08-01T00:00:00Z").unwrap();
    assert_eq!(counted.occurrences().last(), Some(instant("2012-08-15 22:00")));
    assert_eq!(counted.occurrences().count(), 10);
    let ended = rule(&text(""), "2012-08-01T00:00:00Z").unwrap();
    assert_eq!(ended.occurrences().count(), 78);
    assert_eq!(ended.occurrences().last(), Some(instant("2012-11-02 22:00")));
    assert_eq!(counted.without_count().occurrences().count(), 78);
}

#[test]
fn without_a_start_time_the_first_run_is_immediate_and_counts() {
    let created = "2026-03-04T12:25:30.5Z";
    let text = r#"{"recurrence":{"frequency":"day","count":3,"schedule":{"hours":[5]}}}"#;
    let rule = rule(text, created).unwrap();
    let found: Vec<_> = rule.occurrences().map(|at| at.to_string()).collect();
    assert_eq!(
        found,
        ["2026-03-04T12:25:30.5Z", "2026-03-05T05:25:30.5Z", "2026-03-06T05:25:30.5Z"]
    );
    assert_eq!(rule.describe(), "At once, then at 05:25:30 every day, UTC, 3 times");
}

#[test]
fn without_a_start_time_nothing_runs_after_the_end_time() {
    let text = r#"{"recurrence":{"frequency":"day","endTime":"2026-03-01"}}"#;
    assert_eq!(rule(text, "2026-03-04T12:25:30Z").unwrap().first(), None);
}

#[test]
fn a_job_without_a_recurrence_runs_once() {
    let cases = [
        (r#"{"startTime":"2026-04-01T00:00:00Z"}"#, "2026-04-01T00:00:00Z"),
        (r#"{"startTime":"2026-03-04T12:25:30Z"}"#, "2026-03-04T12:25:30Z"),
        (r#"{"startTime":"2025-01-01T00:00:00Z"}"#, "2026-03-04T12:25:30Z"),
        (r#"{}"#, "2026-03-04T12:25:30Z"),
        (r#"{"recurrence":null}"#, "2026-03-04T12:25:30Z"),
    ];
    for (text, expected) in cases {
        let rule = rule(text, "2026-03-04T12:25:30Z").unwrap();
        let found: Vec<_> = rule.occurrences().map(|at| at.to_string()).collect();
        assert_eq!(found, [expected], "{text}");
    }
}

#[test]
fn the_shortest_interval_is_that_of_the_expanded_schedule() {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    for (recurrence, seconds) in [
        (r#"{"frequency":"minute","interval":7}"#, 7 * MINUTE),
        (r#"{"frequency":"hour","schedule":{"minutes":[0,50]}}"#, 10 * MINUTE),
        (r#"{"frequency":"hour","interval":5,"schedule":{"hours":[0,1]}}"#, 25 * HOUR),
        (r#"{"frequency":"day","interval":2}"#, 2 * DAY),
        (r#"{"frequency":"day","schedule":{"hours":[1,23],"minutes":[0]}}"#, 2 * HOUR),
        (r#"{"frequency":"week"}"#, 7 * DAY),
        (r#"{"frequency":"week","schedule":{"weekDays":["monday","saturday"]}}"#, 2 * DAY),
        (
            r#"{"frequency":"week","interval":2,"schedule":{"weekDays":["sunday","saturday"]}}"#,
            6 * DAY,
        ),
        (r#"{"frequency":"month"}"#, 28 * DAY),
        (r#"{"frequency":"month","schedule":{"monthDays":[1,-1]}}"#, DAY),
        (
            r#"{"frequency":"month","schedule":{"monthlyOccurrences":[{"day":"friday","occurrence":-1}]}}"#,
            28 * DAY,
        ),
        (r#"{"frequency":"year"}"#, 365 * DAY),
        (r#"{"frequency":"day","schedule":{"minutes":[0,1]}}"#, MINUTE),
    ] {
        let text = format!(r#"{{"startTime":"2026-03-04T12:00:00Z","recurrence":{recurrence}}}"#);
        let gap = rule(&text, "2026-03-04T00:00:00Z").unwrap().shortest_gap();
        assert_eq!(gap, Some(std::time::Duration::from_secs(seconds)), "{recurrence}");
    }
    assert_eq!(rule("{}", "2026-03-04T00:00:00Z").unwrap().shortest_gap(), None);
}
