//! Metrics and the log.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::test_server::TestServer;

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
    let killed = std::process::Command::new("kill").arg(server.id().to_string()).status().unwrap();
    assert!(killed.success());
    for expected in [
        "INFO  jobs may reach this machine and the private network",
        "INFO  API stopped, waiting for attempts in flight",
        "INFO  stopped",
    ] {
        let line = server.line_with("");
        assert!(line.ends_with(expected), "{line}");
    }
}
