//! Pauses of all jobs.

use serde_json::{Value, json};

use crate::clocked_server::{ClockedServer, job_path};
use crate::connection::{Connection, Response};
use crate::target::{self, TIMEOUT, get, path, start, target, wait_for};
use crate::test_server::{TestServer, database};
use crate::tokens::{JOB, STANDARD, code, collection, create, guarded, new, request_as};

const DAY: &str = "2026-11-15T";

fn at(time: &str) -> String {
    format!("{DAY}{time}:00Z")
}

fn pause(connection: &mut Connection, body: &Value) -> Value {
    let response = connection.request("POST", "/api/pause", Some(&body.to_string()));
    assert_eq!(response.status, 200, "{response:?}");
    let answer: Value = serde_json::from_str(&response.body).unwrap();
    assert_eq!(answer, get(connection, "/api/pause"));
    answer
}

fn resume(connection: &mut Connection) {
    let response = connection.request("POST", "/api/resume", None);
    assert_eq!((response.status, response.body.as_str()), (200, r#"{"paused":false}"#));
    assert_eq!(get(connection, "/api/pause"), json!({"paused": false}));
}

fn readyz(connection: &mut Connection) -> (u16, String) {
    let Response { status, body, .. } = connection.request("GET", "/readyz", None);
    (status, body)
}

fn is_paused_by_metrics(connection: &mut Connection) -> bool {
    let page = connection.request("GET", "/metrics", None).body;
    let line = page.lines().find_map(|line| line.strip_prefix("kalends_paused "));
    line.expect("the metric") == "1"
}

#[test]
fn a_pause_skips_recurring_occurrences_and_holds_everything_else() {
    let Some(mut server) = ClockedServer::at(&at("10:00")) else { return };
    server.put("j", &at("10:01"), json!({"frequency": "Minute"}));
    server.put("once", &at("10:03"), Value::Null);
    server.set(&at("10:01"));
    assert_eq!(server.call(), format!("j {}", at("10:01")));
    server.rows_become(
        "j",
        &at("10:01"),
        &at("10:02"),
        &[&format!("{} Completed", at("10:01")), &format!("{} Scheduled", at("10:02"))],
    );
    assert_eq!(readyz(&mut server.connection), (200, "ready".into()));
    assert!(!is_paused_by_metrics(&mut server.connection));
    assert_eq!(server.job("j")["properties"]["status"]["nextExecutionTime"], at("10:02"));

    let answer = pause(&mut server.connection, &json!({"reason": "moving"}));
    let expected = json!({
        "paused": true, "reason": "moving", "since": at("10:01"), "by": "single-user"
    });
    assert_eq!(answer, expected);
    let line = server.server.line_with("all jobs are paused");
    assert!(line.contains("moving") && line.contains("single-user"), "{line}");
    server.set(&at("10:05"));
    server.rows_become(
        "j",
        &at("10:02"),
        &at("10:06"),
        &[&format!("{}-{} 4 Paused", at("10:02"), at("10:05")), &format!("{} Paused", at("10:06"))],
    );
    let job = server.job("j");
    assert_eq!(job["properties"]["state"], "Enabled", "its own state");
    assert_eq!(job["properties"]["status"]["nextExecutionTime"], Value::Null);
    let listed = get(&mut server.connection, "/api/jobs?search=j")["value"][0].clone();
    assert_eq!(listed["properties"]["status"]["nextExecutionTime"], Value::Null, "{listed}");
    assert_eq!(listed["properties"]["state"], "Enabled");
    let explanation = get(&mut server.connection, &job_path("j", "/explain"));
    assert_eq!(explanation["reason"], "Paused");
    let why = json!({"reason": "moving", "since": at("10:01"), "by": "single-user"});
    assert_eq!(explanation["pause"], why);
    let refused = server.connection.request("POST", &job_path("j", "/run"), None);
    assert_eq!(code(&refused), (409, "Paused".into()));
    assert!(refused.body.contains("moving"), "{refused:?}");
    let old = job_path("j", "/run").replace("2026-11-01", "2016-03-01");
    let refused = server.connection.request("POST", &old, None);
    assert_eq!(code(&refused), (409, "Conflict".into()));
    assert_eq!(readyz(&mut server.connection), (200, "ready; paused: moving".into()));
    assert_eq!(get(&mut server.connection, "/api/node")["scheduler"]["state"], "Paused");
    assert!(is_paused_by_metrics(&mut server.connection));

    resume(&mut server.connection);
    server.server.line_with("all jobs resumed");
    let mut calls = [server.call(), server.call()];
    calls.sort();
    // An occurrence at the end of the pause runs.
    assert_eq!(calls, [format!("j {}", at("10:05")), format!("once {}", at("10:03"))]);
    let skipped = format!("{}-{} 3 SkippedPaused", at("10:02"), at("10:04"));
    let rows = [skipped.as_str(), &format!("{} Completed", at("10:05"))];
    server.rows_become("j", &at("10:02"), &at("10:05"), &rows);
    server.set(&at("10:06"));
    assert_eq!(server.call(), format!("j {}", at("10:06")));
    server.no_more_calls();
    assert_eq!(readyz(&mut server.connection), (200, "ready".into()));
    let history = target::history(&mut server.connection, "j");
    let message = "did not run because all jobs were paused.";
    let postponed: Vec<_> = history.iter().filter(|entry| entry["status"] == "Postponed").collect();
    assert_eq!(postponed.len(), 1, "{history:?}");
    assert!(postponed[0]["message"].as_str().unwrap().ends_with(message), "{postponed:?}");
}

#[test]
fn a_pause_survives_a_restart_and_ends_by_itself() {
    let Some(mut server) = ClockedServer::at(&at("10:00")) else { return };
    server.put("j", &at("10:30"), json!({"frequency": "Hour"}));
    let body = json!({"reason": "an upgrade", "until": "2026-11-15T11:00:00+00:00"});
    let answer = pause(&mut server.connection, &body);
    assert_eq!((&answer["until"], &answer["since"]), (&json!(at("11:00")), &json!(at("10:00"))));
    let longer = json!({"reason": "a longer upgrade", "until": at("12:00")});
    let answer = pause(&mut server.connection, &longer);
    assert_eq!(answer["since"], at("10:00"), "the pause keeps its start");
    // The scheduler says that it resumes only if it noticed the pause.
    server.server.line_with("a longer upgrade");
    server.set(&at("11:59"));
    let rows = [
        &*format!("{}-{} 2 Paused", at("10:30"), at("11:30")),
        &*format!("{} Scheduled", at("12:30")),
    ];
    server.rows_become("j", &at("10:00"), &at("12:30"), &rows);
    server.set(&at("12:00"));
    assert_eq!(get(&mut server.connection, "/api/pause"), json!({"paused": false}));
    server.server.line_with("all jobs resumed");
    let rows = [
        &*format!("{}-{} 2 SkippedPaused", at("10:30"), at("11:30")),
        &*format!("{} Scheduled", at("12:30")),
    ];
    server.rows_become("j", &at("10:00"), &at("12:30"), &rows);
    server.set(&at("12:30"));
    assert_eq!(server.call(), format!("j {}", at("12:30")));
    server.no_more_calls();
}

#[test]
fn a_server_that_starts_during_a_pause_says_so_and_runs_nothing_until_it_ends() {
    let (address, calls) = target();
    let (mut server, mut connection) = start();
    pause(&mut connection, &json!({"reason": "a restart"}));
    let definition = target::job(&format!("http://{address}/"), json!({"retryType": "None"}));
    assert_eq!(connection.request("PUT", &path("/jobs/j"), Some(&definition)).status, 201);
    server.kill();
    server.restart();
    let line = server.line_with("all jobs are paused");
    assert!(line.contains("a restart"), "{line}");
    let mut connection = server.connect();
    assert_eq!(get(&mut connection, "/api/pause")["reason"], "a restart");
    assert!(calls.try_recv().is_err());
    resume(&mut connection);
    calls.recv_timeout(TIMEOUT).expect("the job runs after the pause");
}

#[test]
fn invalid_requests_to_pause_are_refused_and_change_nothing() {
    let (_server, mut connection) = start();
    let too_long = "x".repeat(501);
    for (body, expected) in [
        (json!({}), "MissingRequiredProperty"),
        (json!({"reason": ""}), "InvalidRequestContent"),
        (json!({"reason": too_long}), "InvalidRequestContent"),
        (json!({"reason": "a\nb"}), "InvalidRequestContent"),
        (json!({"reason": 5}), "InvalidRequestContent"),
        (json!({"reason": "x", "until": "soon"}), "InvalidDateTime"),
        (json!({"reason": "x", "until": "2020-01-01T00:00:00Z"}), "InvalidDateTime"),
        (json!({"reason": "x", "untill": "2020-01-01T00:00:00Z"}), "UnknownProperty"),
    ] {
        let response = connection.request("POST", "/api/pause", Some(&body.to_string()));
        assert_eq!(code(&response), (400, expected.into()), "{body}: {response:?}");
    }
    resume(&mut connection);
    let response = connection.request("PUT", "/api/pause", Some("{}"));
    assert_eq!(response.header("allow"), Some("GET, HEAD, POST"));
}

#[test]
fn only_operators_of_everything_pause_and_their_name_is_recorded() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    let path = collection("g", "c");
    assert_eq!(request_as(&mut connection, &owner, "PUT", &new(&path), Some(STANDARD)).status, 201);
    let job = format!("{path}/jobs/j");
    assert_eq!(request_as(&mut connection, &owner, "PUT", &new(&job), Some(JOB)).status, 201);
    let local = create(server.folder(), "owner", &path, &[]);
    let operator = create(server.folder(), "operator", "/", &[]);
    let body = Some(r#"{"reason":"maintenance"}"#);
    let refused = request_as(&mut connection, &local, "POST", "/api/pause", body);
    assert_eq!(code(&refused), (403, "AuthorizationFailed".into()));
    let refused = request_as(&mut connection, &local, "POST", "/api/resume", None);
    assert_eq!(code(&refused), (403, "AuthorizationFailed".into()));
    let paused = request_as(&mut connection, &operator, "POST", "/api/pause", body);
    assert_eq!(paused.status, 200, "{paused:?}");
    let seen = request_as(&mut connection, &local, "GET", "/api/pause", None);
    let seen: Value = serde_json::from_str(&seen.body).unwrap();
    assert!(seen["by"].as_str().unwrap().starts_with("token:"), "{seen}");
    let log = std::fs::read_to_string(server.folder().join("audit.log")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |operation: &str| -> Vec<u64> {
        let lines = lines.iter().filter(|line| line["operation"] == operation);
        lines.map(|line| line["status"].as_u64().unwrap()).collect()
    };
    assert_eq!(of("Microsoft.Scheduler/pause/action"), [403, 200]);
    assert_eq!(of("Microsoft.Scheduler/resume/action"), [403]);
}

#[test]
fn a_pause_holds_for_every_node_of_a_database() {
    let Some(database) = database("pause") else { return };
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    let first = TestServer::start_node(&database, &key);
    let second = TestServer::start_node(&database, &key);
    let (mut one, mut other) = (first.connect(), second.connect());
    assert_eq!(one.request("PUT", &path(""), Some(target::STANDARD)).status, 201);
    pause(&mut one, &json!({"reason": "maintenance"}));
    assert_eq!(get(&mut other, "/api/pause")["reason"], "maintenance");
    second.line_with("all jobs are paused");
    let (address, calls) = target();
    let definition = target::job(&format!("http://{address}/"), json!({"retryType": "none"}));
    assert_eq!(other.request("PUT", &path("/jobs/j"), Some(&definition)).status, 201);
    let refused = other.request("POST", &path("/jobs/j/run"), None);
    assert_eq!(code(&refused), (409, "Paused".into()));
    assert!(calls.try_recv().is_err());
    resume(&mut other);
    calls.recv_timeout(TIMEOUT).expect("the job runs after the pause");
    let history = wait_for(|| {
        let history = target::history(&mut one, "j");
        (!history.is_empty()).then_some(history)
    });
    assert_eq!(history.map(|history| history.len()), Some(1));
}
