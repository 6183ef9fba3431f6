//! Clocks that are set while the server works, nights on which they change, and leap days: nothing
//! runs twice, nothing stalls, and what was missed is recorded.

use std::io::Write;
use std::net::TcpListener;

use kalends_recurrence::Instant;
use serde_json::{Value, json};

use crate::timed::Timed;

const SECOND: i64 = 1;
const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;
const YEAR: i64 = 365 * DAY;

/// Seconds after the first occurrence of the job.
fn at(seconds: i64) -> String {
    let first: Instant = "2026-11-15T12:01:00Z".parse().unwrap();
    Instant::from_ticks(first.ticks() + seconds * 10_000_000).unwrap().to_string()
}

/// A minutely job whose first occurrence has just run.
fn minutely() -> Option<Timed> {
    let mut timed = Timed::at(&at(-30))?;
    timed.put("j", &at(0), json!({"frequency": "Minute"}));
    timed.set(&at(0));
    assert_eq!(timed.call(), format!("j {}", at(0)));
    timed.rows_become("j", &at(0), &at(0), &[&format!("{} Completed", at(0))]);
    Some(timed)
}

#[test]
fn a_clock_that_is_set_forward_runs_the_newest_and_records_the_others() {
    for step in [SECOND, MINUTE, HOUR, DAY, YEAR] {
        let Some(mut timed) = minutely() else { return };
        timed.set(&at(step));
        let mut expected = Vec::new();
        if step > MINUTE {
            let (last, count) = (at(step - MINUTE), step / MINUTE - 1);
            expected.push(format!("{}-{last} {count} Missed", at(MINUTE)));
        }
        // The first whole minute that the clock shows, and the one after it.
        let first = step.max(MINUTE);
        for next in [first, first + MINUTE] {
            timed.set(&at(next));
            assert_eq!(timed.call(), format!("j {}", at(next)), "after {step} s");
            // The next one would overlap with this one otherwise.
            expected.push(format!("{} Completed", at(next)));
            timed.rows_become("j", &at(next), &at(next), &[&expected[expected.len() - 1]]);
        }
        expected.push(format!("{} Scheduled", at(first + 2 * MINUTE)));
        let expected: Vec<_> = expected.iter().map(String::as_str).collect();
        timed.rows_become("j", &at(MINUTE), &at(first + 2 * MINUTE), &expected);
        timed.no_more_calls();
    }
}

#[test]
fn a_clock_that_is_set_back_repeats_nothing_and_stalls_nothing() {
    for step in [SECOND, MINUTE, HOUR, DAY, YEAR] {
        let Some(mut timed) = minutely() else { return };
        timed.set(&at(-step));
        let next = &timed.job("j")["properties"]["status"]["nextExecutionTime"];
        assert_eq!(*next, at(MINUTE), "after {step} s");
        // Another job does not wait for the time that was.
        let soon = at(-step).parse::<Instant>().unwrap().ticks() + 5_000_000;
        let soon = Instant::from_ticks(soon).unwrap().to_string();
        timed.put("other", &soon, json!({"frequency": "Hour"}));
        timed.set(&soon);
        assert_eq!(timed.call(), format!("other {soon}"));
        // The same instant again, for long enough to run something, and then the one that is due.
        timed.set(&at(0));
        let uri = format!("http://{}/once", timed.target);
        timed.put_with("once", &uri, json!({}));
        assert_eq!(call_but_of(&timed, "other"), format!("once {}", at(0)), "after {step} s");
        timed.set(&at(MINUTE));
        assert_eq!(call_but_of(&timed, "other"), format!("j {}", at(MINUTE)), "after {step} s");
        let expected = [0, MINUTE].map(|s| format!("{} Completed", at(s)));
        let expected: Vec<_> = expected.iter().map(String::as_str).collect();
        timed.rows_become("j", &at(0), &at(MINUTE), &expected);
    }
}

/// The next call that is not of this job.
fn call_but_of(timed: &Timed, name: &str) -> String {
    std::iter::repeat_with(|| timed.call()).find(|call| !call.starts_with(name)).unwrap()
}

#[test]
fn a_clock_that_was_ahead_for_a_while_lets_everything_run() {
    let Some(mut timed) = minutely() else { return };
    timed.set(&at(YEAR));
    assert_eq!(timed.call(), format!("j {}", at(YEAR)));
    timed.set(&at(30));
    // What lies in the past of the clock that was ahead is not missed.
    let uri = format!("http://{}/strict", timed.target);
    timed.put_with(
        "strict",
        &uri,
        json!({
            "startTime": at(MINUTE),
            "recurrence": {"frequency": "Minute"},
            "missedRuns": {"policy": "Skip"}
        }),
    );
    for minute in [MINUTE, 2 * MINUTE] {
        timed.set(&at(minute));
        assert_eq!(timed.call(), format!("strict {}", at(minute)));
        let completed = format!("{} Completed", at(minute));
        timed.rows_become("strict", &at(minute), &at(minute), &[&completed]);
    }
    timed.no_more_calls();
}

#[test]
fn an_attempt_that_is_under_way_when_the_clock_is_set_is_made_once() {
    for step in [HOUR, -HOUR, YEAR, -YEAR] {
        let Some(mut timed) = Timed::at(&at(0)) else { return };
        let slow = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("http://{}/", slow.local_addr().unwrap());
        timed.put_with("slow", &uri, json!({"startTime": at(0)}));
        let (mut stream, _) = slow.accept().unwrap();
        timed.set(&at(step));
        // Other jobs run meanwhile, so what there is to do about this one has been done.
        for number in 0..3 {
            let (name, uri) = (format!("once{number}"), format!("http://{}/", timed.target));
            timed.put_with(&name, &uri, json!({}));
            assert_eq!(timed.call(), format!("{name} {}", at(step)), "after {step} s");
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        timed.rows_become("slow", &at(0), &at(0), &[&format!("{} Completed", at(0))]);
        slow.set_nonblocking(true).unwrap();
        assert!(slow.accept().is_err(), "made twice after {step} s");
    }
}

/// A job that runs at these instants and at no other between the first and the last.
fn check(recurrence: Value, start: &str, instants: &[&str]) {
    let Some(mut timed) = Timed::at(start) else { return };
    timed.put("j", start, recurrence);
    let completed: Vec<_> = instants.iter().map(|at| format!("{at} Completed")).collect();
    let completed: Vec<_> = completed.iter().map(String::as_str).collect();
    for (number, at) in instants.iter().enumerate() {
        let instant: Instant = at.parse().unwrap();
        // A little before, where nothing may happen yet, and then on the point.
        timed.set(&Instant::from_ticks(instant.ticks() - 5_000_000).unwrap().to_string());
        let next = timed.job("j")["properties"]["status"]["nextExecutionTime"].clone();
        assert_eq!(next, *at);
        timed.set(at);
        assert_eq!(timed.call(), format!("j {at}"));
        timed.rows_become("j", at, at, &completed[number..=number]);
    }
    timed.no_more_calls();
}

#[test]
fn half_past_two_in_berlin_runs_once_on_each_of_the_nights_on_which_clocks_change() {
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
fn the_hour_that_is_shown_twice_has_its_minutes_twice() {
    let half_hourly = json!({
        "frequency": "Hour", "timeZone": "Europe/Berlin", "schedule": {"minutes": [30]}
    });
    let night = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"];
    check(half_hourly, "2026-10-25T00:00:00Z", &night);
}

#[test]
fn the_last_day_of_february_is_the_29th_in_leap_years() {
    let yearly = json!({
        "frequency": "Year",
        "schedule": {"monthDays": [-1], "months": [2], "hours": [6], "minutes": [0]}
    });
    let days = ["2027-02-28T06:00:00Z", "2028-02-29T06:00:00Z", "2029-02-28T06:00:00Z"];
    check(yearly, "2027-01-31T00:00:00Z", &days);
}
