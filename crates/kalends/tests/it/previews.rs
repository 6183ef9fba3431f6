//! Previews: the effect of saving definitions, for tools that apply them.

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::test_server::TestServer;

const JOBS: &str = "/api/collections/web/jobs";

fn job(properties: Value) -> Value {
    let mut job = json!({"properties": {
        "action": {"type": "Http", "request": {"uri": "http://example.org/", "method": "GET"}},
    }});
    job["properties"].as_object_mut().unwrap().extend(properties.as_object().unwrap().clone());
    job
}

fn send(connection: &mut Connection, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let response = connection.request(method, path, Some(&body.to_string()));
    (response.status, serde_json::from_str(&response.body).unwrap_or_default())
}

fn preview(connection: &mut Connection, name: &str, job: &Value) -> Value {
    let (status, preview) = send(connection, "POST", &format!("{JOBS}/{name}/preview"), job);
    assert_eq!(status, 200, "{preview}");
    preview
}

#[test]
fn previews_work_before_the_first_job_creates_the_collection() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let nightly = job(json!({"recurrence": {"cron": "0 2 * * *"}}));
    let never = job(json!({"recurrence": {"cron": "0 2 31 2 *"}}));
    let jobs = json!({"jobs": [{"name": "nightly", "definition": nightly},
        {"name": "never", "definition": never}]});
    let (status, previews) = send(&mut connection, "POST", &format!("{JOBS}/preview"), &jobs);
    assert_eq!(status, 200, "{previews}");
    assert_eq!(previews["value"][0]["preview"]["effect"], "Create", "{previews}");
    assert_eq!(previews["value"][1]["error"]["code"], "RecurrenceNeverFires", "{previews}");
    assert_eq!(preview(&mut connection, "nightly", &nightly)["effect"], "Create");
    assert_eq!(connection.request("GET", "/api/collections/web", None).status, 404);
    let arm = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/default/providers\
               /Microsoft.Scheduler/jobCollections/web/jobs/preview?api-version=2026-11-01";
    let (_, previews) = send(&mut connection, "POST", arm, &jobs);
    assert_eq!(previews["value"][0]["error"]["code"], "ResourceNotFound", "{previews}");
}

#[test]
fn a_preview_has_the_etag_of_the_job_that_it_was_decided_on() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let nightly = job(json!({"recurrence": {"cron": "0 2 * * *"}}));
    assert!(preview(&mut connection, "nightly", &nightly).get("etag").is_none());
    let path = format!("{JOBS}/nightly");
    let created = connection.request("PUT", &path, Some(&nightly.to_string()));
    let preview = preview(&mut connection, "nightly", &nightly);
    assert_eq!(preview["effect"], "Nothing");
    assert_eq!(preview["etag"].as_str(), created.header("ETag"));
}

#[test]
fn a_preview_says_whether_saving_starts_a_run() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let daily = json!({"frequency": "Day"});
    let (past, future) = ("2020-01-01T00:00:00Z", "2027-01-01T00:00:00Z");
    for (name, properties, expected) in [
        ("new", json!({}), true),
        ("new", json!({"startTime": past}), true),
        ("new", json!({"startTime": past, "state": "Disabled"}), false),
        ("new", json!({"startTime": future}), false),
        ("new", json!({"recurrence": daily}), true),
        ("new", json!({"recurrence": daily, "startTime": past}), false),
        ("new", json!({"recurrence": {"cron": "* * * * *"}}), false),
    ] {
        let preview = preview(&mut connection, name, &job(properties.clone()));
        assert_eq!(preview["runsAtOnce"], expected, "{properties}: {preview}");
    }
    let mut put = |name: &str, properties: Value| {
        let (status, _) = send(&mut connection, "PUT", &format!("{JOBS}/{name}"), &job(properties));
        assert_eq!(status, 201);
    };
    put("recurring", json!({"recurrence": daily, "startTime": past}));
    put("once", json!({"startTime": future}));
    put("paused", json!({"startTime": past, "state": "Disabled"}));
    for (name, properties, expected) in [
        ("recurring", json!({"recurrence": daily, "startTime": past, "timeout": "PT5M"}), false),
        ("recurring", json!({"recurrence": {"frequency": "Hour"}}), false),
        ("recurring", json!({"startTime": past}), true),
        ("once", json!({"startTime": future, "timeout": "PT5M"}), false),
        ("once", json!({"startTime": past}), true),
        ("paused", json!({"startTime": past, "state": "Disabled"}), false),
        ("paused", json!({"startTime": past, "state": "Enabled"}), true),
    ] {
        let preview = preview(&mut connection, name, &job(properties.clone()));
        assert_eq!(preview["runsAtOnce"], expected, "{name} {properties}: {preview}");
    }
}
