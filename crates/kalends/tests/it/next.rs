//! `kalends next`.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Fixed times, so that the output does not depend on the day of the test.
const CREATED: [&str; 4] = ["--created", "2026-03-04T12:25:00Z", "--after", "2026-03-04T12:24:59Z"];

fn kalends(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kalends"))
        .arg("next")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The process exits before it reads if its arguments are invalid.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Checks the description and the first occurrences.
fn check(flags: &str, sentence: &str, occurrences: &[&str]) {
    let flags: Vec<_> = flags.split(' ').chain(CREATED).chain(["-n", "3"]).collect();
    let output = kalends(&flags, "");
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{flags:?}: {}", text(&output.stderr));
    assert_eq!(shown.lines().next(), Some(sentence), "{flags:?}");
    let rows = shown.lines().skip(3).take(occurrences.len());
    let found: Vec<_> = rows.map(|row| row.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(found, occurrences, "{flags:?}\n{shown}");
}

fn check_refused(arguments: &[&str], input: &str, phrase: &str) {
    let output = kalends(arguments, input);
    assert!(!output.status.success(), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    let message = text(&output.stderr);
    assert!(message.starts_with("error: ") && message.contains(phrase), "{arguments:?}: {message}");
}

#[test]
fn cron_expressions_are_described_and_listed() {
    let check = |cron: &str, sentence: &str, expected: &[&str]| {
        let zone = ["--zone", "Europe/Berlin", "-n", "3"];
        let flags: Vec<_> = ["--cron", cron].into_iter().chain(zone).chain(CREATED).collect();
        let output = kalends(&flags, "");
        let shown = text(&output.stdout);
        assert_eq!(shown.lines().next(), Some(sentence), "{cron}: {}", text(&output.stderr));
        let rows = shown.lines().skip(3).take(expected.len());
        let found: Vec<_> = rows.map(|row| row.split_whitespace().nth(1).unwrap()).collect();
        assert_eq!(found, expected, "{cron}");
    };
    check(
        "0 2 * * 1-5",
        "At 02:00 every day from Monday to Friday, Europe/Berlin",
        &["2026-03-05T01:00:00Z", "2026-03-06T01:00:00Z", "2026-03-09T01:00:00Z"],
    );
    check(
        "*/20 * * * *",
        "Every 20 minutes, Europe/Berlin",
        &["2026-03-04T12:40:00Z", "2026-03-04T13:00:00Z", "2026-03-04T13:20:00Z"],
    );
    check(
        "0 2 13 * 5",
        "At 02:00 on day 13 and every Friday of every month, Europe/Berlin",
        &["2026-03-06T01:00:00Z", "2026-03-13T01:00:00Z", "2026-03-20T01:00:00Z"],
    );
    check("@monthly", "At 00:00 on day 1 of every month, Europe/Berlin", &["2026-03-31T22:00:00Z"]);
    check(
        "0 9 */10 * MON",
        "At 09:00 on every Monday of every month that is day 1, day 11, day 21 and day 31, Europe/Berlin",
        &["2026-05-11T07:00:00Z"],
    );
    check_refused(&["--cron", "0 0 2 * * *"], "", "a field for seconds is not supported");
    check_refused(&["--cron", "0 0 31 2 *"], "", "400-year cycle");
}

#[test]
fn flags_make_a_schedule() {
    check(
        "--at 05:15,17:15 --on 3rd-wed",
        "At 05:15 and 17:15 on the third Wednesday of every month, UTC",
        &["2026-03-18T05:15:00Z", "2026-03-18T17:15:00Z", "2026-04-15T05:15:00Z"],
    );
    check(
        "--every 2w --on fri --at 05:15 --zone Europe/Berlin",
        "At 05:15 on Friday of every 2nd week, counted from 2026-03-04, Europe/Berlin",
        &["2026-03-06T04:15:00Z", "2026-03-20T04:15:00Z", "2026-04-03T03:15:00Z"],
    );
    check(
        "--every 15min --hours 9-10",
        "Every 15 minutes, only in hours 9 and 10, counted from 2026-03-04 12:25, UTC",
        &["2026-03-05T09:10:00Z", "2026-03-05T09:25:00Z", "2026-03-05T09:40:00Z"],
    );
    check(
        "--every month --on 1,last --hours 6 --minutes 0",
        "At 06:00 on day 1 and the last day of every month, UTC",
        &["2026-03-31T06:00:00Z", "2026-04-01T06:00:00Z", "2026-04-30T06:00:00Z"],
    );
    check(
        "--every month --on -2 --months 3-4 --at 06:00 --count 2",
        "At 06:00 on the 2nd-to-last day of every March or April, UTC, twice",
        &["2026-03-30T06:00:00Z", "2026-04-29T06:00:00Z"],
    );
    check("--every hour", "Every hour, UTC", &["2026-03-04T12:25:00Z", "2026-03-04T13:25:00Z"]);
    check("--start 2026-04-01", "At 00:00 every day, UTC", &["2026-04-01T00:00:00Z"]);
    check(
        "--start 2026-04-01 --zone Europe/Berlin",
        "At 00:00 every day, Europe/Berlin",
        &["2026-03-31T22:00:00Z"],
    );
}

#[test]
fn every_second_day_on_fridays_is_every_second_friday() {
    check(
        "--every 2d --at 05:15 --on fri --zone Europe/Berlin",
        "At 05:15 on Friday of every 2nd week, counted from 2026-03-06, Europe/Berlin",
        &["2026-03-06T04:15:00Z", "2026-03-20T04:15:00Z"],
    );
    check_refused(&["--every", "2d", "--on", "mon,fri"], "", "use --every 2w");
}

#[test]
fn a_job_is_read_from_a_file_or_standard_input() {
    let job = r#"{"properties":{"startTime":"2026-03-04T12:25:00Z","recurrence":{"frequency":"Day","timeZone":"Europe/Berlin","schedule":{"hours":[2],"minutes":[30]}}}}"#;
    let output = kalends(&[&["-n", "2"], &CREATED[..]].concat(), job);
    let expected = "\
At 02:30 every day, Europe/Berlin

   UTC                   Europe/Berlin                  from now
1  2026-03-05T01:30:00Z  Thu 2026-03-05T02:30:00+01:00";
    assert!(text(&output.stdout).starts_with(expected), "{}", text(&output.stdout));
    assert!(
        text(&output.stdout).contains(
            "On 2026-03-29 Europe/Berlin skips 02:00 to 03:00: 02:30 runs at 03:30\n\
             On 2026-10-25 Europe/Berlin shows 02:00 to 03:00 twice: 02:30 runs once, the first time"
        ),
        "{}",
        text(&output.stdout)
    );
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/patch-evening.json");
    let output = kalends(&[example], "");
    assert!(text(&output.stdout).starts_with("At 17:15 and 17:45 on the third Wednesday"));
}

#[test]
fn json_output_is_one_object() {
    let flags = [&["--at", "05:15", "-n", "1", "-o", "json"], &CREATED[..]].concat();
    let output = kalends(&flags, "");
    let response: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = serde_json::json!({
        "description": "At 05:15 every day, UTC",
        "timeZone": "UTC",
        "occurrences": [{ "utc": "2026-03-05T05:15:00Z", "local": "2026-03-05T05:15:00+00:00" }],
        "clockChanges": [],
    });
    assert_eq!(response, expected);
}

#[test]
fn ranges_of_days_stand_for_each_day() {
    for (range, list) in [
        ("mon-fri", "mon,tue,wed,thu,fri"),
        ("saturday-mon", "sat,sun,mon"),
        ("fri-fri", "fri"),
        ("1-3,last", "1,2,3,last"),
    ] {
        let next = |days: &str| {
            let flags = ["--on", days, "--at", "05:15", "-n", "9"].into_iter().chain(CREATED);
            kalends(&flags.collect::<Vec<_>>(), "")
        };
        let (of_range, of_list) = (next(range), next(list));
        assert!(of_range.status.success(), "{range}: {}", text(&of_range.stderr));
        assert_eq!(text(&of_range.stdout), text(&of_list.stdout), "{range}");
    }
    let found = |value: &str| format!("(found {value:?})");
    check_refused(&["--on", "mon-someday"], "", &found("mon-someday"));
    check_refused(&["--zone", "PST"], "", "did you mean America/Los_Angeles?");
    check_refused(&["--start", "soon"], "", "--start must be an ISO 8601 date-time");
    check_refused(&["--hours", "x"], "", "--hours must be numbers such as 9 or 9-16 (found \"x\")");
}

#[test]
fn jsonl_writes_one_response_per_line() {
    let output = kalends(&["--jsonl"], "{\"startTime\":\"2999-01-01\"}\nnonsense\n");
    let lines: Vec<_> = text(&output.stdout).lines().collect();
    assert!(output.status.success());
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with(
        r#"{"error":{"code":"StartTimeOutOfRange","message":"startTime must be at most 18 months "#
    ));
    assert!(lines[1].starts_with(
        r#"{"error":{"code":"InvalidRequestContent","message":"The request body must be valid JSON"#
    ));
}

#[test]
fn invalid_schedules_are_refused_with_an_explanation() {
    check_refused(&["--hours", "25"], "", "must be between 0 and 23 (found 25)");
    check_refused(&["--at", "05:15,17:45"], "", "use two jobs");
    check_refused(&["--at", "25:00"], "", "between 00:00 and 23:59");
    check_refused(&["--every", "3moons"], "", "such as 15min or 2w");
    check_refused(&["--on", "someday"], "", "last-fri");
    check_refused(&["--zone", "Mars/Olympus"], "", "IANA");
    check_refused(&["-"], "{\"recurrence\":{}}", "recurrence.frequency is missing");
    check_refused(&["/nonexistent.json"], "", "cannot open /nonexistent.json");
    check_refused(&["--every", "year", "--on", "30", "--months", "2"], "", "400-year");
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kalends"))
        .args(["next", "--every", "1min", "-n", "200000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn the_limits_are_those_of_the_settings_of_a_server() {
    let long = ["--every", "700d", "--at", "05:15"];
    check_refused(&long, "", "must be between 1 and 548 for frequency day (found 700)");
    let flags = [&long, &["--interval-days", "700", "-n", "2"], &CREATED[..]].concat();
    let by_flag = kalends(&flags, "");
    assert!(text(&by_flag.stdout).starts_with("At 05:15 every 700 days"), "{by_flag:?}");
    let by_variable = |variable: (&str, &str), arguments: &[&str], input: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kalends"))
            .arg("next")
            .args(arguments)
            .env(variable.0, variable.1)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    let flags = [&long[..], &["-n", "2"], &CREATED[..]].concat();
    let shown = by_variable(("KALENDS_INTERVAL_DAYS", "700"), &flags, "");
    assert_eq!(shown, text(&by_flag.stdout));
    let line = r#"{"createdAt":"2026-03-04T12:25:00Z","startTime":"2030-01-01T00:00:00Z"}"#;
    let months = ("KALENDS_START_MONTHS_AHEAD", "60");
    let shown = by_variable(months, &["--jsonl"], &format!("{line}\n"));
    assert_eq!(shown, "{\"occurrences\":[\"2030-01-01T00:00:00Z\"]}\n");
    // A limit of another value than the server accepts is refused here too.
    let output = kalends(&["--every", "1d", "--interval-days", "0"], "");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
