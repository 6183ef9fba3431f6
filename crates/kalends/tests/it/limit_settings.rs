//! Settings of retention, timeouts and schedule limits, each with its effect on a running server.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use kalends_environment::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::connection::{Connection, Response};
use crate::target::{get, target, wait_for};
use crate::test_server::{TestServer, clock_library, run_jobs};
use crate::tokens::code;

const JOB: &str = "/api/collections/web/jobs/j";
const HISTORY: &str = "/api/collections/web/jobs/j/history";

fn start_with(arguments: &[&str]) -> TestServer {
    TestServer::start_with(|command, _| {
        run_jobs(command);
        command.args(arguments);
    })
}

fn put(connection: &mut Connection, members: Value) -> Response {
    let request = json!({"uri": "http://127.0.0.1:1/", "method": "GET"});
    let mut properties = json!({"action": {"type": "Http", "request": request}});
    properties.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    connection.request("PUT", JOB, Some(&json!({ "properties": properties }).to_string()))
}

/// A job that calls this address once, without retries.
fn call_once(connection: &mut Connection, address: SocketAddr) {
    let request = json!({"uri": format!("http://{address}/"), "method": "GET"});
    let action = json!({"type": "Http", "request": request, "retryPolicy": {"retryType": "None"}});
    let response = put(connection, json!({ "action": action }));
    assert_eq!(response.status, 201, "{response:?}");
}

fn entries(connection: &mut Connection) -> Vec<Value> {
    get(connection, HISTORY)["value"].as_array().unwrap().clone()
}

/// The message of the first attempt.
fn first_message(connection: &mut Connection) -> String {
    let found = wait_for(|| entries(connection).first().cloned());
    found.unwrap()["properties"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn raised_interval_limits_accept_longer_intervals() {
    let intervals = [
        ("minutes", "Minute", 1_000),
        ("hours", "Hour", 1_000),
        ("days", "Day", 548),
        ("weeks", "Week", 78),
        ("months", "Month", 18),
        ("years", "Year", 1),
    ];
    let put = |connection: &mut Connection, frequency: &str, interval: i64| {
        put(connection, json!({"recurrence": {"frequency": frequency, "interval": interval}}))
    };
    let default = start_with(&["--hold"]);
    let mut connection = default.connect();
    for (_, frequency, max) in intervals {
        let longer = put(&mut connection, frequency, max + 1);
        assert_eq!(code(&longer), (400, "RecurrenceSpanExceeded".into()), "{longer:?}");
    }
    let flags: Vec<_> =
        intervals.iter().map(|(unit, _, max)| format!("--interval-{unit}={}", max + 1)).collect();
    let mut arguments: Vec<_> = flags.iter().map(String::as_str).collect();
    arguments.push("--hold");
    let raised = start_with(&arguments);
    let mut connection = raised.connect();
    for (_, frequency, max) in intervals {
        let longer = put(&mut connection, frequency, max + 1);
        assert!(longer.status < 300, "{longer:?}");
        let longest = put(&mut connection, frequency, max + 2);
        assert!(longest.body.contains(&format!("between 1 and {}", max + 1)), "{longest:?}");
    }
}

#[test]
fn the_start_of_a_job_is_limited_by_a_setting() {
    let start = SystemClock.now() + jiff::SignedDuration::from_hours(24 * 600);
    let later = json!({ "startTime": start.to_string() });
    let refused = put(&mut start_with(&["--hold"]).connect(), later.clone());
    assert_eq!(code(&refused), (400, "StartTimeOutOfRange".into()), "{refused:?}");
    let raised = start_with(&["--hold", "--start-months-ahead", "24"]);
    assert_eq!(put(&mut raised.connect(), later).status, 201);
}

#[test]
fn an_attempt_without_its_own_timeout_has_that_of_the_setting() {
    // Accepts connections and never responds.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = start_with(&["--attempt-timeout", "PT1S"]);
    let mut connection = server.connect();
    call_once(&mut connection, silent.local_addr().unwrap());
    let message = first_message(&mut connection);
    assert!(message.contains("Timeout"), "{message}");
    let entry = &entries(&mut connection)[0]["properties"];
    let [start, end] = ["startTime", "endTime"]
        .map(|name| entry[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap());
    // Within the default of 60 seconds.
    assert!(end.duration_since(start).as_secs() < 30, "{entry}");
}

#[test]
fn a_connect_has_the_timeout_of_the_setting() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let _inside = runtime.enter();
    // The kernel drops further connects once the accept queue is full.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let full = socket.listen(1).unwrap();
    let address = full.local_addr().unwrap();
    let wait = std::time::Duration::from_millis(500);
    let taken: Vec<_> =
        (0..8).map_while(|_| std::net::TcpStream::connect_timeout(&address, wait).ok()).collect();
    assert!(taken.len() < 8, "the accept queue is not full");
    // The default of 20 seconds would be cut short by the attempt's time limit.
    let server = start_with(&["--connect-timeout", "PT1S", "--attempt-timeout", "PT15S"]);
    let mut connection = server.connect();
    call_once(&mut connection, address);
    let message = first_message(&mut connection);
    assert!(!message.contains("The operation has timed out"), "{message}");
    assert!(message.contains("connect"), "{message}");
}

#[test]
fn history_beyond_the_number_of_entries_is_removed() {
    let (address, _calls) = target();
    let entries_file = "entries";
    let mut server = TestServer::start_restartable(move |command, folder| {
        run_jobs(command);
        if folder.join(entries_file).exists() {
            command.args(["--history-entries-per-job", "1"]);
        }
    });
    let mut connection = server.connect();
    call_once(&mut connection, address);
    for runs in 1..=3 {
        let complete = wait_for(|| (entries(&mut connection).len() == runs).then_some(()));
        assert_eq!(complete, Some(()), "{runs}");
        if runs < 3 {
            assert_eq!(connection.request("POST", &format!("{JOB}/run"), None).status, 200);
        }
    }
    let newest = entries(&mut connection)[0].clone();
    std::fs::write(server.folder().join(entries_file), "").unwrap();
    assert!(server.stop());
    server.restart();
    let mut connection = server.connect();
    let one = wait_for(|| Some(entries(&mut connection)).filter(|entries| entries.len() == 1));
    assert_eq!(one.unwrap(), [newest]);
}

#[test]
fn history_and_finished_jobs_are_removed_after_their_retention() {
    let Some(library) = clock_library() else { return };
    let (address, _calls) = target();
    let mut server = TestServer::start_restartable(move |command, folder| {
        override_clock(command, folder, &library);
        run_jobs(command);
        command.args(["--history-retention", "P1D", "--finished-job-retention", "P3D"]);
    });
    let mut connection = server.connect();
    call_once(&mut connection, address);
    let completed = wait_for(|| {
        (get(&mut connection, JOB)["properties"]["state"] == "Completed").then_some(())
    });
    assert_eq!(completed, Some(()));
    assert_eq!(entries(&mut connection).len(), 1);
    server.set_clock("2026-11-03 12:00:00");
    assert!(server.stop());
    server.restart();
    let mut connection = server.connect();
    let removed = wait_for(|| entries(&mut connection).is_empty().then_some(()));
    assert_eq!(removed, Some(()), "history of two days ago");
    assert_eq!(connection.request("GET", JOB, None).status, 200);
    server.set_clock("2026-11-05 12:00:00");
    assert!(server.stop());
    server.restart();
    let mut connection = server.connect();
    let removed = wait_for(|| (connection.request("GET", JOB, None).status == 404).then_some(()));
    assert_eq!(removed, Some(()), "a job that finished four days ago");
}

fn override_clock(command: &mut Command, folder: &Path, library: &Path) {
    crate::test_server::override_clock(command, folder, library, "2026-11-01 12:00:00");
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    for (argument, expected) in [
        ("--history-retention=PT1M", "must be between PT1H and P3650D (found \"PT1M\")"),
        ("--finished-job-retention=forever", "must be a duration such as PT20S"),
        ("--history-entries-per-job=0", "0 is not in 1..=1000000"),
        ("--attempt-timeout=PT31M", "must be between PT0.1S and PT30M (found \"PT31M\")"),
        ("--connect-timeout=0s", "must be between PT0.1S and PT30M (found \"0s\")"),
        ("--interval-years=401", "401 is not in 1..=400"),
        ("--start-months-ahead=0", "0 is not in 1..=1200"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_kalends"))
            .args(["serve", "--print-config", argument])
            .output()
            .unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && message.contains(expected), "{argument}: {message}");
    }
}
