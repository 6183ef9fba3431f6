//! Every `nextExecutionTime` that the retired service returned for a recurring job with a start time.
//!
//! The recordings are in the directory `shared` next to the checkout, or in `KALENDS_SHARED`. A
//! selection is included here, so that it is always tested.

use std::path::PathBuf;

use crate::rule;

/// The recorded schedules: hours 5, 10, 15 and 20, every ten minutes.
const TIMES: &str = r#""minutes":[0,10,20,30,40,50],"hours":[5,10,15,20]"#;

fn check(now: &str, start: &str, recurrence: &str, expected: &str) {
    let text = format!(r#"{{"startTime":"{start}","recurrence":{recurrence}}}"#);
    let rule = rule(&text, now).expect(&text);
    assert_eq!(rule.first().map(|at| at.to_string()).as_deref(), Some(expected), "{now} {text}");
}

#[test]
fn a_selection_of_the_recorded_next_execution_times_is_reproduced() {
    check(
        "2015-07-01T00:00:34Z",
        "2015-07-01T00:00:32.104381",
        r#"{"frequency":"minute","interval":30}"#,
        "2015-07-01T00:30:32.104381Z",
    );
    let weekly = r#"{"frequency":"week","interval":1}"#;
    check("2016-01-04T18:39:11Z", "2015-07-13T00:00:00Z", weekly, "2016-01-11T00:00:00Z");
    let scheduled = |frequency: &str, days: &str| {
        format!(r#"{{"frequency":"{frequency}","schedule":{{{TIMES}{days}}}}}"#)
    };
    let start = "2015-07-13T00:00:00Z";
    check("2016-03-30T19:36:08Z", start, &scheduled("day", ""), "2016-03-30T20:00:00Z");
    let mondays = scheduled("week", r#","weekDays":["monday"]"#);
    check("2016-01-04T18:36:34Z", start, &mondays, "2016-01-04T20:00:00Z");
    let days = scheduled("month", r#","monthDays":[15,30]"#);
    check("2015-07-17T19:08:30Z", start, &days, "2015-07-30T05:00:00Z");
    let firsts = r#","monthlyOccurrences":[{"day":"monday","Occurrence":1},{"day":"friday","Occurrence":1}]"#;
    let firsts = scheduled("month", firsts);
    check("2015-12-09T21:20:10Z", start, &firsts, "2016-01-01T05:00:00Z");
    check("2016-03-30T19:35:16Z", start, &firsts, "2016-04-01T05:00:00Z");
    check(
        "2016-07-21T22:24:19Z",
        "2016-07-22T22:24:16.6617338Z",
        r#"{"frequency":"minute","count":10,"endTime":"2021-07-21T00:00:00Z"}"#,
        "2016-07-22T22:24:16.6617338Z",
    );
}

#[test]
fn every_recorded_next_execution_time_is_reproduced() {
    let shared = std::env::var_os("KALENDS_SHARED").map(PathBuf::from);
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared"));
    let path = shared.unwrap_or_else(beside).join("spec/recordings/next-execution-vectors.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("SKIPPED: the recordings are not at {}", path.display());
        return;
    };
    let mut checked = 0;
    for line in text.lines() {
        let vector: serde_json::Value = serde_json::from_str(line).expect(line);
        let text = |name: &str| vector[name].as_str();
        let (Some(start), Some(expected)) = (text("startTime"), text("nextExecutionTime")) else {
            continue;
        };
        if vector["recurrence"].is_object() {
            let now = text("server_date").expect(line);
            check(now, start, &vector["recurrence"].to_string(), expected);
            checked += 1;
        }
    }
    assert!(checked >= 100, "only {checked} recorded responses with a start and a recurrence");
}
