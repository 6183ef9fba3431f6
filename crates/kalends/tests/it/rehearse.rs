//! `kalends rehearse`.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn rehearse(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kalends"))
        .arg("rehearse")
        .args(arguments)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The process exits before it reads if its arguments are invalid.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn printed(arguments: &str, input: &str) -> Vec<String> {
    let arguments: Vec<_> = arguments.split(' ').collect();
    let output = rehearse(&arguments, input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn hourly(name: &str, more: &str) -> String {
    format!(
        r#"{{"name":"{name}","properties":{{"startTime":"2026-03-01T00:30:00Z","action":{{"type":"Http","request":{{"uri":"http://example.com","method":"GET"}},"retryPolicy":{{"retryType":"Fixed","retryInterval":"PT1M","retryCount":1}},"errorAction":{{"type":"Http","request":{{"uri":"http://example.com","method":"GET"}}}}}},"recurrence":{{"frequency":"Hour"{more}}}}}}}"#
    )
}

#[test]
fn runs_are_printed_in_order() {
    let jobs = format!("[{},{}]", hourly("a", ""), hourly("b", r#","interval":2"#));
    let lines = printed("--from 2026-03-01 --to 2026-03-01T02:45:00Z", &jobs);
    let expected = [
        "2026-03-01T00:30:00Z  a  run succeeds",
        "2026-03-01T00:30:00Z  b  run succeeds",
        "2026-03-01T01:30:00Z  a  run succeeds",
        "2026-03-01T02:30:00Z  a  run succeeds",
        "2026-03-01T02:30:00Z  b  run succeeds",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn occurrences_of_disabled_jobs_are_printed_at_the_end() {
    let off = |job: String| job.replace(r#""startTime""#, r#""state":"Disabled","startTime""#);
    let jobs = format!("[{},{}]", off(hourly("off", "")), hourly("on", r#","count":1"#));
    let lines = printed("--from 2026-03-01 --to 2026-03-01T02:45:00Z", &jobs);
    let expected = [
        "2026-03-01T00:30:00Z  on  run succeeds",
        "2026-03-01T02:45:00Z  off  disabled 3 occurrences from 2026-03-01T00:30:00Z to 2026-03-01T02:30:00Z",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn failures_are_retried_and_end_in_the_error_action() {
    let job = hourly("a", r#","count":1"#);
    let lines = printed("--from 2026-03-01 --to 2026-03-02 --fail a", &job);
    let expected = [
        "2026-03-01T00:30:00Z  a  run fails",
        "2026-03-01T00:31:00Z  a  retry 1 fails, due 2026-03-01T00:30:00Z",
        "2026-03-01T00:31:00Z  a  errorAction succeeds, due 2026-03-01T00:30:00Z",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn skipped_and_missed_occurrences_are_printed() {
    let slow =
        hourly("a", "").replace("\"properties\":{", "\"properties\":{\"timeout\":\"PT30M\",");
    let slow = slow.replace("\"Hour\"", "\"Minute\",\"interval\":20");
    let lines =
        printed("--from 2026-03-01 --to 2026-03-01T01:15:00Z --attempt-duration 1500s", &slow);
    let expected = [
        "2026-03-01T00:30:00Z  a  run succeeds",
        "2026-03-01T00:50:00Z  a  skipped due 2026-03-01T00:50:00Z",
        "2026-03-01T01:10:00Z  a  run succeeds",
    ];
    assert_eq!(lines, expected);
    let down = "--from 2026-03-01 --to 2026-03-01T07:00:00Z --json --down 2026-03-01T01:00Z/2026-03-01T05:45Z";
    let lines = printed(down, &hourly("a", ""));
    let event = |line: &String| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |member: &str| event[member].as_str().unwrap().to_owned();
        (text("event"), text("scheduled"), event["count"].as_u64())
    };
    let at = |hour: u32| format!("2026-03-01T{hour:02}:30:00Z");
    let run = |hour| ("run".to_owned(), at(hour), None);
    let mut events: Vec<_> = lines.iter().map(event).collect();
    events.sort_by(|a, b| a.1.cmp(&b.1));
    assert_eq!(events, [run(0), ("missed".to_owned(), at(1), Some(4)), run(5), run(6)]);
}

#[test]
fn a_daily_job_follows_dst_changes() {
    let job = r#"{"properties":{"startTime":"2026-01-01T00:00:00Z","action":{"type":"Http","request":{"uri":"http://example.com","method":"GET"}},"recurrence":{"frequency":"Day","timeZone":"Europe/Berlin","schedule":{"hours":[2],"minutes":[30]}}}}"#;
    let lines = printed("--from 2026-01-01 --to 2027-01-01", job);
    assert_eq!(lines.len(), 365);
    assert!(lines.contains(&"2026-03-29T01:30:00Z  job  run succeeds".to_owned()));
    assert!(lines.contains(&"2026-03-30T00:30:00Z  job  run succeeds".to_owned()));
}

#[test]
fn invalid_input_is_refused_with_an_explanation() {
    let refused = |arguments: &[&str], input: &str| {
        let output = rehearse(arguments, input);
        assert!(!output.status.success() && output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    let day = ["--from", "2026-03-01", "--to", "2026-03-02"];
    assert!(refused(&day, "{}").contains("properties"));
    assert!(
        refused(&["--from", "2026-03-01", "--to", "2026-03-01"], "{}").contains("must be before")
    );
    let unknown = [&day[..], &["--fail", "unknown"]].concat();
    assert!(refused(&unknown, &hourly("a", "")).contains("no such job"));
}
