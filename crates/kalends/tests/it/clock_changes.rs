//! Clock adjustments while the server runs, DST changes and leap days: no occurrence runs twice, no job
//! stalls, and missed occurrences are recorded.

use std::io::Write;
use std::net::TcpListener;

use kalends_recurrence::Instant;
use serde_json::{Value, json};

use crate::clocked_server::ClockedServer;

const SECOND: i64 = 1;
const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;
const YEAR: i64 = 365 * DAY;

/// The time this many seconds after the first occurrence of the job.
fn at(seconds: i64) -> String {
    let first: Instant = "2026-11-15T12:01:00Z".parse().unwrap();
    Instant::from_ticks(first.ticks() + seconds * 10_000_000).unwrap().to_string()
}

/// A minutely job whose first occurrence has just run.
fn minutely() -> Option<ClockedServer> {
    let mut server = ClockedServer::at(&at(-30))?;
    server.put("j", &at(0), json!({"frequency": "Minute"}));
    server.set(&at(0));
    assert_eq!(server.call(), format!("j {}", at(0)));
    server.rows_become("j", &at(0), &at(0), &[&format!("{} Completed", at(0))]);
    Some(server)
}

#[test]
fn after_a_forward_clock_step_the_latest_occurrence_runs_and_the_others_are_missed() {
    for step in [SECOND, MINUTE, HOUR, DAY, YEAR] {
        let Some(mut server) = minutely() else { return };
        server.set(&at(step));
        let mut expected = Vec::new();
        if step > MINUTE {
            let (last, count) = (at(step - MINUTE), step / MINUTE - 1);
            expected.push(format!("{}-{last} {count} Missed", at(MINUTE)));
        }
        // The first whole minute after the step, and the next one.
        let first = step.max(MINUTE);
        for next in [first, first + MINUTE] {
            server.set(&at(next));
            assert_eq!(server.call(), format!("j {}", at(next)), "after {step} s");
            // Wait, or the next occurrence would overlap with this one.
            expected.push(format!("{} Completed", at(next)));
            server.rows_become("j", &at(next), &at(next), &[&expected[expected.len() - 1]]);
        }
        expected.push(format!("{} Scheduled", at(first + 2 * MINUTE)));
        let expected: Vec<_> = expected.iter().map(String::as_str).collect();
        server.rows_become("j", &at(MINUTE), &at(first + 2 * MINUTE), &expected);
        server.no_more_calls();
    }
}

#[test]
fn after_a_backward_clock_step_nothing_is_repeated_and_nothing_stalls() {
    for step in [SECOND, MINUTE, HOUR, DAY, YEAR] {
        let Some(mut server) = minutely() else { return };
        server.set(&at(-step));
        let next = &server.job("j")["properties"]["status"]["nextExecutionTime"];
        assert_eq!(*next, at(MINUTE), "after {step} s");
        // Other jobs follow the new time.
        let soon = at(-step).parse::<Instant>().unwrap().ticks() + 5_000_000;
        let soon = Instant::from_ticks(soon).unwrap().to_string();
        server.put("other", &soon, json!({"frequency": "Hour"}));
        server.set(&soon);
        assert_eq!(server.call(), format!("other {soon}"));
        // The scheduled time of the first occurrence again, long enough to run another job, and then
        // the next occurrence.
        server.set(&at(0));
        let uri = format!("http://{}/once", server.target);
        server.put_with("once", &uri, json!({}));
        assert_eq!(call_except_of(&server, "other"), format!("once {}", at(0)), "after {step} s");
        server.set(&at(MINUTE));
        assert_eq!(call_except_of(&server, "other"), format!("j {}", at(MINUTE)), "after {step} s");
        let expected = [0, MINUTE].map(|s| format!("{} Completed", at(s)));
        let expected: Vec<_> = expected.iter().map(String::as_str).collect();
        server.rows_become("j", &at(0), &at(MINUTE), &expected);
    }
}

/// The next call of another job.
fn call_except_of(server: &ClockedServer, name: &str) -> String {
    std::iter::repeat_with(|| server.call()).find(|call| !call.starts_with(name)).unwrap()
}

#[test]
fn jobs_run_after_the_clock_was_temporarily_ahead() {
    let Some(mut server) = minutely() else { return };
    server.set(&at(YEAR));
    assert_eq!(server.call(), format!("j {}", at(YEAR)));
    server.set(&at(30));
    // Occurrences before the reading of the clock that was ahead are not missed.
    let uri = format!("http://{}/strict", server.target);
    server.put_with(
        "strict",
        &uri,
        json!({
            "startTime": at(MINUTE),
            "recurrence": {"frequency": "Minute"},
            "missedRuns": {"policy": "Skip"}
        }),
    );
    for minute in [MINUTE, 2 * MINUTE] {
        server.set(&at(minute));
        assert_eq!(server.call(), format!("strict {}", at(minute)));
        let completed = format!("{} Completed", at(minute));
        server.rows_become("strict", &at(minute), &at(minute), &[&completed]);
    }
    server.no_more_calls();
}

#[test]
fn an_attempt_in_flight_during_a_clock_step_is_made_once() {
    for step in [HOUR, -HOUR, YEAR, -YEAR] {
        let Some(mut server) = ClockedServer::at(&at(0)) else { return };
        let slow = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("http://{}/", slow.local_addr().unwrap());
        server.put_with("slow", &uri, json!({"startTime": at(0)}));
        let (mut stream, _) = slow.accept().unwrap();
        server.set(&at(step));
        // Other jobs run in the meantime: the engine has processed the clock step.
        for number in 0..3 {
            let (name, uri) = (format!("once{number}"), format!("http://{}/", server.target));
            server.put_with(&name, &uri, json!({}));
            assert_eq!(server.call(), format!("{name} {}", at(step)), "after {step} s");
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        server.rows_become("slow", &at(0), &at(0), &[&format!("{} Completed", at(0))]);
        slow.set_nonblocking(true).unwrap();
        assert!(slow.accept().is_err(), "attempted twice after {step} s");
    }
}

/// Checks that a job runs at these times and at no other between the first and the last.
fn check(recurrence: Value, start: &str, scheduled: &[&str]) {
    let Some(mut server) = ClockedServer::at(start) else { return };
    server.put("j", start, recurrence);
    let completed: Vec<_> = scheduled.iter().map(|at| format!("{at} Completed")).collect();
    let completed: Vec<_> = completed.iter().map(String::as_str).collect();
    for (number, at) in scheduled.iter().enumerate() {
        let instant: Instant = at.parse().unwrap();
        // Shortly before the scheduled time nothing may run.
        server.set(&Instant::from_ticks(instant.ticks() - 5_000_000).unwrap().to_string());
        let next = server.job("j")["properties"]["status"]["nextExecutionTime"].clone();
        assert_eq!(next, *at);
        server.set(at);
        assert_eq!(server.call(), format!("j {at}"));
        server.rows_become("j", at, at, &completed[number..=number]);
    }
    server.no_more_calls();
}

#[test]
fn a_daily_job_runs_once_on_days_with_a_dst_gap_or_overlap() {
    let nightly = || {
        json!({
            "frequency": "Day", "timeZone": "Europe/Berlin",
            "schedule": {"hours": [2], "minutes": [30]}
        })
    };
    let spring = ["2026-03-28T01:30:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"];
    check(nightly(), "2026-03-27T12:00:00Z", &spring);
    let autumn = ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
    check(nightly(), "2026-10-23T12:00:00Z", &autumn);
}

#[test]
fn an_hourly_job_runs_in_both_hours_of_a_dst_overlap() {
    let half_hourly = json!({
        "frequency": "Hour", "timeZone": "Europe/Berlin", "schedule": {"minutes": [30]}
    });
    let night = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"];
    check(half_hourly, "2026-10-25T00:00:00Z", &night);
}

#[test]
fn the_last_day_of_february_follows_leap_years() {
    let yearly = json!({
        "frequency": "Year",
        "schedule": {"monthDays": [-1], "months": [2], "hours": [6], "minutes": [0]}
    });
    let days = ["2027-02-28T06:00:00Z", "2028-02-29T06:00:00Z", "2029-02-28T06:00:00Z"];
    check(yearly, "2027-01-31T00:00:00Z", &days);
}
