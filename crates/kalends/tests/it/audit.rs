//! The audit log.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::connection::Connection;
use crate::target::wait_for;
use crate::test_server::TestServer;
use crate::tokens::{
    JOB, STANDARD, SUBSCRIPTION, collection, create, guarded, id, new, request_as,
};

/// The entries of an audit log.
pub(crate) fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Caller, operation and status of an entry.
fn summary(line: &Value) -> (&str, &str, u64) {
    let text = |name: &str| line[name].as_str().unwrap_or("nobody");
    (text("who"), text("operation"), line["status"].as_u64().unwrap())
}

#[test]
fn the_audit_log_contains_every_write_and_every_refusal() {
    let (server, owner) = guarded(&[]);
    let file = server.folder().join("audit.log");
    let mut connection = server.connect();
    let path = collection("g", "c");
    let job = format!("{path}/jobs/j");
    let reader = create(server.folder(), "reader", &path, &["--name", "curious\u{202e}"]);
    let stranger = create(server.folder(), "owner", &collection("g", "other"), &[]);
    for (token, method, target, body) in [
        (owner.as_str(), "PUT", &path, Some(STANDARD)),
        (&owner, "PUT", &job, Some(JOB)),
        (&owner, "PUT", &job, Some("{ \"canary-in-a-body\"")),
        (&owner, "GET", &job, None),
        (&reader, "GET", &job, None),
        (&reader, "POST", &format!("{job}/run"), None),
        (&stranger, "GET", &job, None),
        ("canary-in-a-token", "GET", &job, None),
        (&owner, "GET", &format!("{path}/jobs/none"), None),
        (&owner, "POST", &format!("{job}/preview"), Some("{")),
        (&owner, "DELETE", &job, None),
    ] {
        let response = request_as(&mut connection, token, method, &new(target), body);
        assert_ne!(response.status, 500, "{response:?}");
    }
    let found = lines(&file);
    let summary: Vec<_> = found.iter().map(summary).collect();
    let call = |token: &str| format!("token:{}", id(token));
    let (owner_id, reader_id, stranger_id) = (call(&owner), call(&reader), call(&stranger));
    let jobs = "Microsoft.Scheduler/jobCollections/jobs";
    let read = format!("{jobs}/read");
    assert_eq!(
        summary,
        [
            (owner_id.as_str(), "Microsoft.Scheduler/jobCollections/write", 201),
            (&owner_id, &format!("{jobs}/write"), 201),
            (&owner_id, &format!("{jobs}/write"), 400),
            (&reader_id, &format!("{jobs}/run/action"), 403),
            (&stranger_id, &read, 404),
            ("nobody", &read, 401),
            (&owner_id, &format!("{jobs}/delete"), 200),
        ]
    );
    assert_eq!(found[0]["path"], path.as_str());
    assert_eq!(found[0]["client"], "127.0.0.1");
    assert_eq!(found[0]["name"], "admin");
    assert_eq!(found[3]["name"], "curious\u{202e}");
    let ids: BTreeSet<_> = found.iter().map(|line| line["request"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), found.len());
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)));
    for secret in ["canary", &owner[21..], &reader[21..], "example.org"] {
        assert!(!text.contains(secret), "{secret}");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "others may not read it");
    }
}

#[test]
fn the_audit_log_contains_every_job_of_a_bulk_edit() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let path = collection("g", "c");
    assert_eq!(connection.request("PUT", &new(&path), Some(STANDARD)).status, 201);
    for name in ["a", "b"] {
        let job = new(&format!("{path}/jobs/{name}"));
        assert_eq!(connection.request("PUT", &job, Some(JOB)).status, 201);
    }
    let bulk = new(&format!("{path}/jobs/bulk"));
    let body = r#"{"action":"Delete","names":["a","b","none"]}"#;
    assert_eq!(connection.request("POST", &bulk, Some(body)).status, 200);
    let found = lines(&server.folder().join("audit.log"));
    let summary: Vec<_> = found.iter().skip(3).map(summary).collect();
    let (who, delete) = ("single-user", "Microsoft.Scheduler/jobCollections/jobs/delete");
    let whole = "Microsoft.Scheduler/jobCollections/jobs/bulk/action";
    let expected = [(who, delete, 200), (who, delete, 200), (who, delete, 404), (who, whole, 200)];
    assert_eq!(summary, expected);
    assert_eq!(found[4]["path"], format!("{path}/jobs/b").as_str());
    assert_eq!(found[4]["request"], found[6]["request"]);
}

#[test]
fn audit_entries_contain_the_request_id_of_the_response() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let response = connection.request("PUT", &new(&collection("g", "c")), Some(STANDARD));
    let found = lines(&server.folder().join("audit.log"));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["request"].as_str(), response.header("x-ms-request-id"));
    assert_eq!(found[0]["who"], "single-user");
    let foreign = [("Origin", "http://evil.test")];
    let target = new(&collection("g", "c"));
    assert_eq!(connection.request_with("DELETE", &target, &foreign, None).status, 403);
    let wanted = |found: &[Value]| found.last().is_some_and(|line| line["status"] == 403);
    let file = server.folder().join("audit.log");
    // Requests that change nothing do not wait for their audit entry.
    let noted = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        wanted(&lines(&file))
    });
    assert!(noted);
}

#[test]
fn paths_are_escaped_to_one_line() {
    let (server, _) = guarded(&[]);
    let mut connection = server.connect();
    let path = "/%0a%1b[2J{\"who\":\"root\"}/\u{202e}x";
    assert_eq!(connection.request("GET", path, None).status, 401);
    let file = server.folder().join("audit.log");
    let found = wait_for(|| Some(lines(&file)).filter(|found| !found.is_empty())).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["path"], &found[0]["who"]), (&Value::from(path), &Value::Null));
}

#[test]
fn full_audit_logs_are_rotated_and_the_oldest_deleted() {
    let (server, owner) = guarded(&[
        ("KALENDS_AUDIT_LOG_BYTES", "4096"),
        ("KALENDS_AUDIT_LOG_FILES", "3"),
        ("KALENDS_WRITES_PER_MINUTE", "100000"),
    ]);
    let mut connection = server.connect();
    for number in 0..100 {
        let path = new(&collection("g", &format!("c{number}")));
        assert_eq!(request_as(&mut connection, &owner, "PUT", &path, Some(STANDARD)).status, 201);
    }
    let file = |name: &str| server.folder().join(name);
    let names = ["audit.log.2", "audit.log.1", "audit.log"];
    let mut paths = Vec::new();
    for name in names {
        assert!(std::fs::metadata(file(name)).unwrap().len() <= 4096, "{name}");
        paths.extend(lines(&file(name)).iter().map(|line| line["path"].to_string()));
    }
    assert!(!file("audit.log.3").exists());
    let first = 100 - paths.len();
    assert!(first > 0 && paths.len() > 20, "{}", paths.len());
    for (number, path) in (first..).zip(&paths) {
        assert!(path.ends_with(&format!("/c{number}\"")), "{path} is not {number}");
    }
}

#[test]
fn refused_requests_are_counted_and_push_no_write_out_of_the_log() {
    const REFUSALS: u64 = 100_000;
    const CONNECTIONS: u64 = 8;
    let (mut server, owner) =
        guarded(&[("KALENDS_AUDIT_LOG_BYTES", "16384"), ("KALENDS_AUDIT_LOG_FILES", "2")]);
    let path = collection("g", "c");
    let put = request_as(&mut server.connect(), &owner, "PUT", &new(&path), Some(STANDARD));
    assert_eq!(put.status, 201);
    let address = server.address;
    let target = new(&path);
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let flood = || {
        let mut connection = Connection::new(address);
        // Batches, so that most of the time is the server's.
        for _ in 0..REFUSALS / CONNECTIONS / 50 {
            connection.send(request.repeat(50).as_bytes());
            for _ in 0..50 {
                assert!(matches!(connection.read(true).status, 401 | 429));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(flood);
        }
    });
    assert!(server.stop());
    let file = |name: &str| lines(&server.folder().join(name));
    assert!(!server.folder().join("audit.log.1").exists(), "the log was rotated");
    let found = file("audit.log");
    assert_eq!(summary(&found[0]).2, 201, "the write is still in the log");
    let refused = found.iter().skip(1);
    let count = |line: &Value| line["count"].as_u64().unwrap_or(1);
    assert_eq!(refused.clone().map(count).sum::<u64>(), REFUSALS);
    assert!(refused.clone().all(|line| line["who"].is_null() && line["client"] == "127.0.0.1"));
    let reasons: BTreeSet<_> = refused.map(|line| line["status"].as_u64().unwrap()).collect();
    assert_eq!(reasons, BTreeSet::from([401, 429]));
}

#[test]
fn the_audit_log_can_be_moved_or_disabled() {
    let server = TestServer::start_with(|command, folder| {
        command.env("KALENDS_AUDIT_LOG", folder.join("elsewhere.jsonl"));
    });
    let target = new(&format!("{SUBSCRIPTION}/resourceGroups/g"));
    assert_eq!(server.connect().request("PUT", &target, Some("{}")).status, 201);
    assert_eq!(lines(&server.folder().join("elsewhere.jsonl")).len(), 1);
    assert!(!server.folder().join("audit.log").exists());

    let server = TestServer::start_with(|command, _| {
        command.env("KALENDS_AUDIT_LOG", "off");
    });
    assert_eq!(server.connect().request("PUT", &target, Some("{}")).status, 201);
    assert!(!server.folder().join("audit.log").exists() && !Path::new("off").exists());
}
