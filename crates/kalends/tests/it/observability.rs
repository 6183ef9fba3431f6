//! Metrics and the log.

use std::collections::HashMap;
use std::process::Command;

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::target;
use crate::test_server::{TestServer, clock_library};

const COLLECTION: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/rg/providers/Microsoft.Scheduler/jobCollections/jc";
const STANDARD: &str = r#"{"location":"westus","properties":{"sku":{"name":"Standard"}}}"#;

fn path(below: &str) -> String {
    format!("{COLLECTION}{below}?api-version=2026-11-01")
}

/// Reads all metrics. Checks that each series appears once, after the TYPE line of its metric.
fn metrics(connection: &mut Connection) -> HashMap<String, f64> {
    let response = connection.request("GET", "/metrics", None);
    assert_eq!(response.header("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let mut known = Vec::new();
    let mut metrics = HashMap::new();
    for line in response.body.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            known.push(kind.split(' ').next().unwrap().to_owned());
        }
        if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with(known.last().unwrap()), "{line}");
            assert!(metrics.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{line}");
        }
    }
    metrics
}

#[test]
fn requests_and_runs_are_counted() {
    let server = TestServer::start_with(|command, _| {
        command.env_remove("KALENDS_HOLD").env_remove("KALENDS_START_DELAY");
    });
    let mut connection = server.connect();
    assert_eq!(connection.request("PUT", &path(""), Some(STANDARD)).status, 201);
    assert_eq!(connection.request("GET", "/nonsense", None).status, 404);
    // Nothing listens on that port: the only attempt fails.
    let request = json!({"uri": "http://127.0.0.1:1/", "method": "GET"});
    let policy = json!({"retryType": "None"});
    let action = json!({"type": "Http", "request": request, "retryPolicy": policy});
    let job = json!({"properties": {"action": action}}).to_string();
    assert_eq!(connection.request("PUT", &path("/jobs/j"), Some(&job)).status, 201);
    let closed = "kalends_occurrences_closed_total{disposition=\"failed\"}";
    let seen = (0..100_000).map(|_| metrics(&mut connection)).find(|seen| seen[closed] > 0.0);
    let seen = seen.unwrap();
    for (name, expected) in [
        ("kalends_http_requests_total{route=\"jobCollection\",method=\"PUT\",status=\"2xx\"}", 1.0),
        ("kalends_http_requests_total{route=\"job\",method=\"PUT\",status=\"2xx\"}", 1.0),
        ("kalends_http_requests_total{route=\"other\",method=\"GET\",status=\"4xx\"}", 1.0),
        ("kalends_http_request_duration_seconds_count{route=\"job\"}", 1.0),
        ("kalends_http_requests_under_way", 1.0),
        ("kalends_connections_total{tls=\"no\",http=\"1.1\"}", 1.0),
        ("kalends_connections_open", 1.0),
        ("kalends_occurrences_closed_total{disposition=\"missed\"}", 0.0),
        ("kalends_attempts_total{outcome=\"failed\"}", 1.0),
        ("kalends_attempts_under_way", 0.0),
        ("kalends_start_lag_seconds_count", 1.0),
        ("kalends_attempt_duration_seconds_bucket{le=\"+Inf\"}", 1.0),
        (closed, 1.0),
    ] {
        assert_eq!(seen.get(name), Some(&expected), "{name}");
    }
    assert!(seen["kalends_commit_duration_seconds_count"] >= 2.0);
    assert!(seen["process_resident_memory_bytes"] > 1e6);
    assert!(seen["process_open_fds"] > 3.0);
    assert!(seen["process_start_time_seconds"] > 1.7e9);
}

#[test]
fn requests_are_logged_at_debug_level_without_their_bodies() {
    let server = TestServer::start_with(|command, _| {
        command.env("KALENDS_LOG", "kalends_server=debug").env("KALENDS_LOG_FORMAT", "json");
    });
    let mut connection = server.connect();
    let body = STANDARD.replace("westus", "c4nary");
    let response = connection.request("PUT", &path(""), Some(&body));
    let id = response.header("x-ms-request-id").unwrap();
    let line = server.line_with(id);
    assert!(!line.contains("c4nary"), "{line}");
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&line["level"], &line["message"], &line["method"], &line["route"], &line["status"]),
        (
            &json!("debug"),
            &json!("request handled"),
            &json!("PUT"),
            &json!("jobCollection"),
            &json!(201)
        )
    );
}

#[test]
fn the_default_log_contains_start_and_shutdown_only() {
    let server = TestServer::start();
    let mut connection = server.connect();
    assert_eq!(connection.request("GET", "/nonsense", None).status, 404);
    drop(connection);
    let killed = Command::new("kill").arg(server.id().to_string()).status().unwrap();
    assert!(killed.success());
    let line = server.line_with("");
    for expected in [
        "INFO  starting",
        concat!("version=", env!("CARGO_PKG_VERSION")),
        "store=sqlite:",
        "authentication=\"none, single user\"",
        "egress=single-user",
        "hold=true",
        "zone_data=2",
    ] {
        assert!(line.contains(expected), "{expected}: {line}");
    }
    for expected in [
        "INFO  jobs may reach this machine and the private network",
        "INFO  API stopped, waiting for attempts in flight",
        "INFO  stopped",
    ] {
        let line = server.line_with("");
        assert!(line.ends_with(expected), "{line}");
    }
}

#[test]
fn an_unknown_log_level_is_an_error() {
    for levels in ["inof", "info,kalends_server=loud", ""] {
        let output = Command::new(env!("CARGO_BIN_EXE_kalends"))
            .args(["serve", "--log", levels, "--store", "sqlite:/nonexistent/kalends.db"])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{levels}: {text}");
        assert!(text.contains("must have levels out of"), "{levels}: {text}");
    }
}

#[test]
fn a_wrong_or_missing_key_is_reported_as_such_and_not_as_damage() {
    let mut server = TestServer::start();
    assert!(server.stop());
    let store = format!("sqlite:{}", server.folder().join("kalends.db").display());
    let serve = |key: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kalends"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", &store]);
        if let Some(key) = key {
            command.env("KALENDS_KEY", key);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let wrong = serve(Some("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));
    assert!(wrong.contains("another key") && !wrong.contains("damaged"), "{wrong}");
    for entry in std::fs::read_dir(server.folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "key") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let missing = serve(None);
    assert!(missing.contains("key") && !missing.contains("damaged"), "{missing}");
}

#[test]
fn a_run_whose_attempts_all_failed_is_logged_once_without_the_response() {
    let (mut server, mut connection) = target::start();
    let (address, calls) = target::target();
    let request = json!({"uri": format!("http://{address}/fail?key=c4nary"), "method": "GET"});
    let policy = json!({"retryType": "None"});
    let succeeds = json!({"uri": format!("http://{address}/"), "method": "GET"});
    let error_action = json!({"type": "Http", "request": succeeds});
    let action = json!({"type": "Http", "request": request, "retryPolicy": policy, "errorAction": error_action});
    let job = json!({"properties": {"action": action}}).to_string();
    let path = format!("{}/jobs/j?api-version=2026-11-01", target::COLLECTION);
    assert_eq!(connection.request("PUT", &path, Some(&job)).status, 201);
    calls.recv_timeout(target::TIMEOUT).unwrap();
    calls.recv_timeout(target::TIMEOUT).unwrap();
    // The error action has ended when the job has.
    let is_finished = |_| connection.request("GET", &path, None).body.contains("Faulted");
    assert!((0..100_000).any(is_finished));
    let line = server.line_with("run failed");
    for expected in ["WARN", "jobCollections/jc/jobs/j", "scheduled=", "ServiceUnavailable"] {
        assert!(line.contains(expected), "{line}");
    }
    for secret in ["hello", "X-Target", "c4nary"] {
        assert!(!line.contains(secret), "{line}");
    }
    let log = server.kill_and_read_log();
    assert!(
        !log.iter().any(|line| line.contains("run failed")),
        "the error action succeeded: {log:?}"
    );
}

#[test]
fn a_store_with_entries_of_the_future_is_opened_with_a_warning() {
    let Some(library) = clock_library() else { return };
    let mut server = TestServer::start_working_at(&library, "2026-03-30 20:40:55");
    let mut connection = server.connect();
    assert_eq!(connection.request("PUT", &path(""), Some(STANDARD)).status, 201);
    let (address, calls) = target::target();
    let request = json!({"uri": format!("http://{address}/"), "method": "GET"});
    let job = json!({"properties": {"action": {"type": "Http", "request": request}}}).to_string();
    assert_eq!(connection.request("PUT", &path("/jobs/j"), Some(&job)).status, 201);
    calls.recv_timeout(target::TIMEOUT).unwrap();
    let history = path("/jobs/j/history");
    let is_recorded = |_| connection.request("GET", &history, None).body.contains("Completed");
    assert!((0..100_000).any(is_recorded));
    drop(connection);
    server.kill();
    server.set_clock("2026-03-30 19:00:00");
    server.restart();
    let line = server.line_with("check the clock");
    assert!(line.contains("WARN") && line.contains("newest=2026-03-30T20:40:55"), "{line}");
}
