//! Numbers over all collections: each caller sees those of the collections that it may read.

use serde_json::{Value, json};

use crate::clocked_server::{ClockedServer, job_path};
use crate::connection::Connection;
use crate::oidc::now;
use crate::target::{get as read, wait_for};
use crate::test_server::TestServer;
use crate::tokens::{code, collection, create, guarded, new, request_as};

const FULL: &str =
    r#"{"location":"West US","properties":{"sku":{"name":"Standard"},"quota":{"maxJobCount":1}}}"#;

/// A job that is due in half an hour, and then every hour.
fn hourly() -> String {
    let minute = (now() / 60 + 30) % 60;
    let request = json!({"uri": "http://example.org/", "method": "GET"});
    json!({"properties": {
        "recurrence": {"cron": format!("{minute} * * * *")},
        "action": {"type": "Http", "request": request},
    }})
    .to_string()
}

/// The body of a response after the first scan has ended.
fn get(connection: &mut Connection, token: &str, path: &str) -> Value {
    for _ in 0..10_000 {
        let response = request_as(connection, token, "GET", path, None);
        assert_eq!(response.status, 200, "{response:?}");
        let body: Value = serde_json::from_str(&response.body).unwrap();
        if !body["calculatedAt"].is_null() {
            return body;
        }
    }
    panic!("no scan has ended");
}

#[test]
fn a_reader_of_one_collection_sees_no_number_of_another() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    for (group, name) in [("g", "a"), ("g", "b"), ("h", "hidden")] {
        let path = collection(group, name);
        for (path, body) in [(path.clone(), FULL), (format!("{path}/jobs/j-{name}"), &*hourly())] {
            let created = request_as(&mut connection, &owner, "PUT", &new(&path), Some(body));
            assert_eq!(created.status, 201, "{created:?}");
        }
    }
    let group = collection("g", "x");
    let (group, _) = group.split_once("/providers").unwrap();
    for (scope, count) in [
        (collection("g", "A"), 1),
        (group.to_owned(), 2),
        (collection("g", "none"), 0),
        ("/".to_owned(), 3),
    ] {
        let token = create(server.folder(), "reader", &scope, &[]);
        let overview = get(&mut connection, &token, "/api/overview");
        assert_eq!(overview["jobs"]["all"], count, "{scope}: {overview}");
        assert_eq!(overview["dueWithinHour"], count, "{scope}: {overview}");
        assert_eq!(overview["attention"], count, "{scope}: {overview}");
        assert_eq!(overview["collections"].as_array().unwrap().len(), count, "{overview}");
        let attention = get(&mut connection, &token, "/api/attention");
        let entries = attention["value"].as_array().unwrap();
        assert_eq!(entries.len(), count, "{scope}: {attention}");
        assert!(entries.iter().all(|entry| entry["kind"] == "QuotaNear"), "{attention}");
        let first = get(&mut connection, &token, "/api/attention?limit=1");
        assert_eq!(first["value"].as_array().unwrap()[..], entries[..count.min(1)], "{first}");
        assert_eq!(first["more"], count > 1, "{scope}: {first}");
        let expected = get(&mut connection, &token, "/api/expected-runs?by=collection");
        let last = expected["buckets"].as_array().unwrap().last().unwrap();
        assert_eq!(last["count"], count, "{scope}: {expected}");
        assert_eq!(last["collections"].as_object().unwrap().len(), count, "{expected}");
        for body in [&overview, &attention, &expected] {
            assert_eq!(body.to_string().contains("hidden"), scope == "/", "{scope}: {body}");
        }
    }
    for path in ["/api/overview", "/api/attention", "/api/expected-runs"] {
        assert_eq!(connection.request("GET", path, None).status, 401, "{path}");
    }
}

#[test]
fn invalid_spans_of_expected_runs_are_rejected() {
    let server = TestServer::start();
    let mut connection = server.connect();
    for query in [
        "bucket=PT2H",
        "by=job",
        "from=2020-01-01T00:00:00Z",
        "to=2020-01-01T00:00:00Z",
        "to=2100-01-01T00:00:00Z",
        "from=soon",
    ] {
        let response = connection.request("GET", &format!("/api/expected-runs?{query}"), None);
        assert_eq!(code(&response), (400, "InvalidQueryParameter".into()), "{query}");
    }
}

#[test]
fn failing_and_stuck_jobs_have_their_error_and_their_run() {
    let Some(mut server) = ClockedServer::at("2026-11-16T12:00:00Z") else { return };
    // The system completes the handshake; nobody reads the request.
    let hanging = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("http://{}/", hanging.local_addr().unwrap());
    let (first, every_minute) = ("2026-11-16T12:01:00Z", json!({"frequency": "Minute"}));
    let slow = json!({"startTime": first, "recurrence": every_minute, "timeout": "PT30M"});
    server.put_with("slow", &uri, slow);
    server.put("fail", first, every_minute);
    let mut expected: [Vec<String>; 2] = Default::default();
    for minute in 1..=4 {
        let now = format!("2026-11-16T12:{minute:02}:00Z");
        server.set(&now);
        let slow = if minute == 1 { "Running" } else { "SkippedOverlap" };
        for (rows, (job, row)) in expected.iter_mut().zip([("slow", slow), ("fail", "Failed")]) {
            rows.push(format!("{now} {row}"));
            let rows: Vec<_> = rows.iter().map(String::as_str).collect();
            server.rows_become(job, first, &now, &rows);
        }
    }
    let mut list = Value::Null;
    let found = wait_for(|| {
        list = read(&mut server.connection, "/api/attention");
        (list["value"].as_array().unwrap().len() == 2).then_some(())
    });
    assert!(found.is_some(), "{list}");
    let entry = |index: usize, kind: &str, count: u64| {
        let entry = &list["value"][index];
        assert_eq!((&entry["kind"], &entry["count"]), (&json!(kind), &json!(count)), "{list}");
        assert_eq!(entry["since"], first, "{list}");
        entry
    };
    let message = entry(0, "Failing", 4)["lastMessage"].as_str().unwrap();
    assert!(message.contains("'ServiceUnavailable'"), "{message}");
    assert!(entry(1, "Stuck", 3).get("lastMessage").is_none(), "{list}");

    let skipped = format!("{}&at=2026-11-16T12:03:00Z", job_path("slow", "/explain"));
    let skipped = read(&mut server.connection, &skipped);
    assert_eq!(skipped["blockedBy"], first, "{skipped}");
}
