//! Notes that callers give with actions.

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::target::get;
use crate::test_server::TestServer;
use crate::tokens::{
    JOB, STANDARD, SUBSCRIPTION, code, collection, create, guarded, id, new, request_as,
};

const JOBS: &str = "/api/collections/web/jobs";

/// A path with a note.
fn with_note(path: &str, note: &str) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    let encoded: String = note.bytes().map(|byte| format!("%{byte:02x}")).collect();
    format!("{path}{separator}note={encoded}")
}

/// Action and text of each note of a list.
fn summary(list: &Value) -> Vec<(&str, &str)> {
    let notes = list["value"].as_array().unwrap_or_else(|| panic!("{list}")).iter();
    notes.map(|note| (note["action"].as_str().unwrap(), note["note"].as_str().unwrap())).collect()
}

fn send(connection: &mut Connection, method: &str, path: &str, body: Option<&str>) {
    let response = connection.request(method, path, body);
    assert!(matches!(response.status, 200 | 201), "{method} {path}: {response:?}");
}

#[test]
fn the_note_of_a_collection_is_found_however_many_notes_are_newer() {
    let server = TestServer::start();
    let mut connection = server.connect();
    for job in ["a", "b"] {
        send(&mut connection, "PUT", &format!("{JOBS}/{job}"), Some(JOB));
    }
    send(&mut connection, "POST", &with_note("/api/collections/web/disable", "moving"), None);
    let enable = Some(r#"{"properties":{"state":"Enabled"}}"#);
    for number in 0..60 {
        for job in ["a", "b"] {
            let target = with_note(&format!("{JOBS}/{job}"), &format!("newer {number}"));
            send(&mut connection, "PATCH", &target, enable);
        }
    }
    for page in ["/collections/web", "/jobs/web/a"] {
        let page = connection.request("GET", page, None);
        assert!(page.body.contains("moving"), "{}", page.body);
    }
    let of_collection = get(&mut connection, "/api/notes?collection=WEB");
    assert_eq!(summary(&of_collection), [("Disabled", "moving")]);
    send(&mut connection, "POST", &with_note("/api/collections/web/enable", "moved"), None);
    let newest = get(&mut connection, "/api/notes?collection=web&limit=1");
    assert_eq!(summary(&newest), [("Enabled", "moved")]);
    let next = newest["nextLink"].as_str().unwrap();
    let rest = get(&mut connection, &next[next.find("/api").unwrap()..]);
    assert_eq!(summary(&rest), [("Disabled", "moving")]);
    assert_eq!(rest["nextLink"], json!(null));
    let missing = connection.request("GET", "/api/notes?collection=none", None);
    assert_eq!(missing.status, 404, "{missing:?}");
}

#[test]
fn notes_tell_who_did_what_and_survive_a_crash() {
    let mut server = TestServer::start_restartable(|_, _| {});
    let mut connection = server.connect();
    let job = format!("{JOBS}/nightly");
    let hostile = "<script>alert(1)</script> '; DROP TABLE notes; -- %00 \\u0000 ä😀 \u{202e}";
    send(&mut connection, "PUT", &with_note(&job, "first"), Some(JOB));
    let enable = Some(r#"{"properties":{"state":"Enabled"}}"#);
    send(&mut connection, "PATCH", &with_note(&job, hostile), enable);
    send(&mut connection, "POST", &with_note(&format!("{job}/run"), "a test"), None);
    send(&mut connection, "PATCH", &with_note(&job, "still on"), enable);
    send(&mut connection, "POST", &with_note("/api/collections/web/disable", "moving"), None);
    let patch = Some(r#"{"tags":{"team":"web"}}"#);
    send(&mut connection, "PATCH", &with_note("/api/collections/web", "tagged"), patch);
    // Without a note there is no row.
    send(&mut connection, "POST", "/api/collections/web/enable", None);

    let of_job =
        [("Noted", "still on"), ("Ran", "a test"), ("Enabled", hostile), ("Created", "first")];
    let all = [&[("Edited", "tagged"), ("Disabled", "moving")], &of_job[..]].concat();
    for attempt in ["before", "after"] {
        let list = get(&mut connection, &format!("{job}/notes"));
        assert_eq!(summary(&list), of_job, "{attempt} the crash");
        let list = get(&mut connection, "/api/notes");
        assert_eq!(summary(&list), all, "{attempt} the crash");
        let resource = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/default\
             /providers/Microsoft.Scheduler/jobCollections/web";
        let [tagged, _, noted, ..] = &list["value"].as_array().unwrap()[..] else { panic!() };
        let expected = json!({
            "time": tagged["time"], "action": "Edited", "note": "tagged", "by": "single-user",
            "collection": "web", "resource": resource,
        });
        assert_eq!(*tagged, expected);
        assert!(tagged["time"].as_str().unwrap().ends_with('Z'));
        assert_eq!(noted["job"], "nightly");
        assert_eq!(noted["resource"], format!("{resource}/jobs/nightly"));
        if attempt == "before" {
            server.kill();
            server.restart();
            connection = server.connect();
        }
    }
    send(&mut connection, "DELETE", &job, None);
    let list = get(&mut connection, "/api/notes");
    assert_eq!(summary(&list), all[..2], "the notes of the job are deleted with it");
}

#[test]
fn a_rejected_request_stores_no_note() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let job = format!("{JOBS}/j");
    send(&mut connection, "PUT", &job, Some(JOB));
    let long = "x".repeat(501);
    for (method, path, note, status) in [
        ("PUT", &*job, "", 400),
        ("PUT", &job, &long, 400),
        ("PUT", &job, "two\nlines", 400),
        ("PUT", &job, "a\0b", 400),
        ("POST", &format!("{job}/run"), "\u{7f}", 400),
        ("POST", "/api/collections/web/disable", "", 400),
        // Deletions have no notes.
        ("DELETE", &job, "why", 400),
        ("DELETE", "/api/collections/web", "why", 400),
        ("PUT", &format!("{JOBS}/1x"), "why", 400),
        ("PATCH", &format!("{JOBS}/missing"), "why", 404),
        ("POST", &format!("{JOBS}/missing/run"), "why", 404),
        ("POST", "/api/collections/missing/enable", "why", 404),
    ] {
        let body = matches!(method, "PUT" | "PATCH").then_some(JOB);
        let refused = connection.request(method, &with_note(path, note), body);
        assert_eq!(refused.status, status, "{method} {path} {note:?}: {refused:?}");
    }
    let refused = connection.request("PUT", &with_note(&job, "a\nb"), Some(JOB));
    assert_eq!(code(&refused), (400, "InvalidQueryParameter".into()));
    assert!(refused.body.contains("note must have no control characters"), "{refused:?}");
    let refused = connection.request("PUT", &with_note(&job, &long), Some(JOB));
    assert!(refused.body.contains("note must have 1 to 500 characters (found 501)"), "{refused:?}");
    let twice = with_note(&with_note(&job, "a"), "b");
    assert_eq!(connection.request("PUT", &twice, Some(JOB)).status, 400);
    let invalid = JOB.replace("Day", "Daily");
    let refused = connection.request("PUT", &with_note(&job, "why"), Some(&invalid));
    assert_eq!(refused.status, 400, "{refused:?}");
    let headers = [("If-Match", "\"99\"")];
    let refused = connection.request_with("PUT", &with_note(&job, "why"), &headers, Some(JOB));
    assert_eq!(refused.status, 412, "{refused:?}");
    // Old API versions have no notes.
    let old = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/default\
         /providers/Microsoft.Scheduler/jobCollections/web/jobs/j";
    let old = format!("{old}?api-version=2016-03-01");
    send(&mut connection, "PUT", &with_note(&old, "a\nb"), Some(JOB));
    let notes = old.replace("/j?", "/j/notes?");
    assert_eq!(connection.request("GET", &notes, None).status, 404);
    assert_eq!(summary(&get(&mut connection, "/api/notes")), []);
    assert_eq!(connection.request("GET", &format!("{JOBS}/missing/notes"), None).status, 404);
}

#[test]
fn a_bulk_edit_stores_its_note_for_each_job() {
    let server = TestServer::start();
    let mut connection = server.connect();
    for name in ["a", "b"] {
        send(&mut connection, "PUT", &format!("{JOBS}/{name}"), Some(JOB));
    }
    let bulk = |action: &str| json!({"action": action, "names": ["a", "b", "missing"]}).to_string();
    let path = with_note(&format!("{JOBS}/bulk"), "all on");
    send(&mut connection, "POST", &path, Some(&bulk("Enable")));
    for name in ["a", "b"] {
        let list = get(&mut connection, &format!("{JOBS}/{name}/notes"));
        assert_eq!(summary(&list), [("Enabled", "all on")]);
    }
    let refused = connection.request("POST", &path, Some(&bulk("Delete")));
    assert_eq!(code(&refused), (400, "InvalidQueryParameter".into()));
    assert_eq!(summary(&get(&mut connection, "/api/notes")).len(), 2);
}

#[test]
fn callers_read_the_notes_of_their_scope_and_readers_write_none() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    for name in ["a", "b"] {
        let path = new(&collection("g", name));
        let put = request_as(&mut connection, &owner, "PUT", &path, Some(STANDARD));
        assert_eq!(put.status, 201);
        let job = format!("{}/jobs/j", collection("g", name));
        let path = with_note(&new(&job), &format!("in {name}"));
        let put = request_as(&mut connection, &owner, "PUT", &path, Some(JOB));
        assert_eq!(put.status, 201);
    }
    let reader = create(server.folder(), "reader", &collection("g", "a"), &[]);
    let job = format!("{}/jobs/j", collection("g", "a"));
    for (method, path) in [("PUT", job.clone()), ("POST", format!("{job}/run"))] {
        let body = (method == "PUT").then_some(JOB);
        let path = with_note(&new(&path), "by a reader");
        let refused = request_as(&mut connection, &reader, method, &path, body);
        assert_eq!(code(&refused), (403, "AuthorizationFailed".into()));
    }
    let mut list = |token: &str, path: &str| -> Value {
        let response = request_as(&mut connection, token, "GET", path, None);
        assert_eq!(response.status, 200, "{response:?}");
        serde_json::from_str(&response.body).unwrap()
    };
    assert_eq!(summary(&list(&owner, "/api/notes")), [("Created", "in b"), ("Created", "in a")]);
    let notes = list(&reader, "/api/notes");
    assert_eq!(summary(&notes), [("Created", "in a")]);
    let note = &notes["value"][0];
    assert_eq!(note["by"], format!("token:{}", id(&owner)));
    assert_eq!(note["byName"], "admin");
    assert_eq!(notes, list(&reader, &new(&format!("{job}/notes"))));
    let elsewhere =
        create(server.folder(), "owner", &format!("{SUBSCRIPTION}/resourceGroups/x"), &[]);
    assert_eq!(summary(&list(&elsewhere, "/api/notes")), []);
    let hidden = new(&format!("{}/jobs/j/notes", collection("g", "b")));
    assert_eq!(request_as(&mut connection, &reader, "GET", &hidden, None).status, 404);
}

#[test]
fn the_reasons_of_pauses_are_notes_that_every_caller_reads() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    let mut post = |path: &str, body: Option<&str>| {
        let response = request_as(&mut connection, &owner, "POST", path, body);
        assert_eq!(response.status, 200, "{response:?}");
    };
    post("/api/pause", Some(r#"{"reason":"an upgrade"}"#));
    post("/api/pause", Some(r#"{"reason":"a longer upgrade"}"#));
    post(&with_note("/api/resume", "done"), None);
    post("/api/resume", None);
    let invalid = Some(r#"{"reason":"x","until":"2020-01-01T00:00:00Z"}"#);
    let refused = request_as(&mut connection, &owner, "POST", "/api/pause", invalid);
    assert_eq!(refused.status, 400);
    let reader = create(server.folder(), "reader", &collection("g", "a"), &[]);
    let response = request_as(&mut connection, &reader, "GET", "/api/notes", None);
    let notes: Value = serde_json::from_str(&response.body).unwrap();
    let expected = [("Resumed", "done"), ("Paused", "a longer upgrade"), ("Paused", "an upgrade")];
    assert_eq!(summary(&notes), expected);
    let note = &notes["value"][0];
    assert_eq!((&note["collection"], &note["job"]), (&Value::Null, &Value::Null));
    assert_eq!(note["byName"], "admin");
}

#[test]
fn notes_are_listed_in_pages() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let job = format!("{JOBS}/j");
    for number in 0..5 {
        send(&mut connection, "PUT", &with_note(&job, &number.to_string()), Some(JOB));
    }
    for path in ["/api/notes?limit=2".to_owned(), format!("{job}/notes?$top=2")] {
        let first = get(&mut connection, &path);
        assert_eq!(summary(&first), [("Noted", "4"), ("Noted", "3")], "{path}");
        let link = first["nextLink"].as_str().unwrap();
        let next = &link[link.find("/api").unwrap()..];
        let second = get(&mut connection, next);
        assert_eq!(summary(&second), [("Noted", "2"), ("Noted", "1")], "{path}");
        let link = second["nextLink"].as_str().unwrap();
        let last = get(&mut connection, &link[link.find("/api").unwrap()..]);
        assert_eq!(summary(&last), [("Created", "0")], "{path}");
        assert_eq!(last["nextLink"], Value::Null);
    }
    for path in ["/api/notes?limit=0", "/api/notes?limit=101", "/api/notes?cursor=x"] {
        let refused = connection.request("GET", path, None);
        assert_eq!(code(&refused), (400, "InvalidQueryParameter".into()), "{path}");
    }
}
