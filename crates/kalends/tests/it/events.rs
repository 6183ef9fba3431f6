//! The event stream: following, resuming, and several nodes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::clocked_server::job_path;
use crate::connection::Connection;
use crate::target::{STANDARD, job, path, start, target};
use crate::test_server::{TestServer, database};
use crate::tokens::{JOB, collection, create, guarded, new, request_as};

/// A client of the event stream. Yields id, type and data of each event.
struct Follower(Connection);

impl Follower {
    fn new(connection: Connection, query: &str, last: Option<&str>) -> Follower {
        let last = last.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        Follower::with(connection, query, &last)
    }

    /// Follows with additional header lines.
    fn with(mut connection: Connection, query: &str, lines: &str) -> Follower {
        let head = format!(
            "GET /events?api-version=2026-11-01{query} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n"
        );
        connection.send(head.as_bytes());
        assert_eq!(connection.line(), "HTTP/1.1 200 OK");
        let mut is_stream = false;
        loop {
            let line = connection.line().to_ascii_lowercase();
            is_stream |= line == "content-type: text/event-stream";
            if line.is_empty() {
                assert!(is_stream);
                return Follower(connection);
            }
        }
    }

    /// The next event; `None` at the end of the stream.
    fn next(&mut self) -> Option<(String, String, Value)> {
        let (mut id, mut kind) = (String::new(), String::new());
        loop {
            let line = self.0.line();
            if line == "0" {
                return None; // the last chunk
            }
            let (name, value) = line.split_once(": ").unwrap_or((&line, ""));
            match name {
                "id" => id = value.to_owned(),
                "event" => kind = value.to_owned(),
                "data" => return Some((id, kind, serde_json::from_str(value).unwrap())),
                _ => {}
            }
        }
    }
}

#[test]
fn events_are_followed_and_resumed() {
    let (address, _calls) = target();
    let (mut server, mut connection) = start();
    let definition = |path: &str| {
        let uri = format!("http://{address}{path}");
        job(&uri, json!({"retryType": "None"}))
    };
    let mut all = Follower::new(server.connect(), "", None);
    let (open, kind, _) = all.next().unwrap();
    assert_eq!((open.as_str(), kind.as_str()), ("0-0", "open"));
    let mut some = Follower::new(server.connect(), "&job=B&collection=JC", None);
    some.next().unwrap();
    let mut ids = Vec::new();
    for (name, path) in [("a", "/"), ("b", "/fail")] {
        let put = connection.request("PUT", &job_path(name, ""), Some(&definition(path)));
        assert_eq!(put.status, 201, "{put:?}");
        let (id, kind, data) = all.next().unwrap();
        assert_eq!((kind.as_str(), &data["name"]), ("attempt", &data["name"]));
        assert!(data["id"].as_str().unwrap().contains(&format!("/jobs/{name}/history/")), "{data}");
        let (status, end) =
            if path == "/" { ("Completed", "Completed") } else { ("Failed", "Faulted") };
        assert_eq!(data["properties"]["status"], status);
        ids.push(id);
        let (id, kind, data) = all.next().unwrap();
        assert_eq!(kind, "occurrence", "{data}");
        assert_eq!(data["jobName"], format!("jc/{name}"), "{data}");
        assert_eq!((&data["disposition"], &data["jobState"]), (&json!(status), &json!(end)));
        ids.push(id);
    }
    assert_eq!(ids, ["1-0", "1-1", "2-1", "2-2"]);
    for expected in &ids[2..] {
        let (id, _, data) = some.next().unwrap();
        assert_eq!(id, *expected, "{data}");
    }
    // A client that reconnects resumes after its last event.
    for (from, last) in ids.iter().enumerate() {
        let mut again = Follower::new(server.connect(), "", Some(last));
        assert_eq!(again.next().unwrap().1, "open");
        for expected in &ids[from + 1..] {
            assert_eq!(again.next().unwrap().0, *expected, "after {last}");
        }
    }
    for (wrong, after) in [("999999", "2-2"), ("999999-1", "2-1"), ("1-999999", "1-2")] {
        let mut lost = Follower::new(server.connect(), "", Some(wrong));
        let (_, kind, data) = lost.next().unwrap();
        let before = if wrong.contains('-') { wrong.to_owned() } else { format!("{wrong}-2") };
        let expected = json!({"after": after, "before": before});
        assert_eq!((kind.as_str(), data), ("gap", expected));
    }
    assert_eq!(connection.request("DELETE", &job_path("a", ""), None).status, 200);
    let kinds = |query: &str, count: usize| {
        let mut late = Follower::new(server.connect(), query, None);
        (0..count).map(|_| late.next().unwrap().1).collect::<Vec<_>>()
    };
    // Events of the deleted job are gone. An id of the old form covers history only.
    assert_eq!(kinds("&lastEventId=0", 3), ["open", "gap", "attempt"]);
    let both = ["open", "gap", "gap", "attempt", "occurrence"];
    assert_eq!(kinds("&lastEventId=0-0", 5), both);
    for bad in
        ["&job=..", "&subscription=x", "&lastEventId=x", "&lastEventId=1-", "&lastEventId=-1"]
    {
        let target = format!("/events?api-version=2026-11-01{bad}");
        assert_eq!(connection.request("GET", &target, None).status, 400, "{bad}");
    }
    assert_eq!(connection.request("GET", "/events?api-version=2016-03-01", None).status, 404);
    drop(connection);
    assert!(server.stop(), "a shutdown does not wait for event streams");
    assert!(all.next().is_none() && some.next().is_none());
}

#[test]
fn every_node_streams_the_events_of_all_nodes() {
    /// More than a follower reads at once.
    const JOBS: usize = 150;
    let Some(database) = database("events") else { return };
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    let nodes = [(); 2].map(|()| TestServer::start_node(&database, &key));
    let mut followers = nodes.each_ref().map(|node| Follower::new(node.connect(), "", None));
    for follower in &mut followers {
        assert_eq!(follower.next().unwrap().1, "open");
    }
    let (address, _calls) = target();
    let mut connections = nodes.each_ref().map(TestServer::connect);
    let collections = ["a", "b", "c"];
    let in_collection = |number: usize, target: String| {
        target.replace("/jc", &format!("/{}", collections[number % collections.len()]))
    };
    for number in 0..collections.len() {
        let created =
            connections[0].request("PUT", &in_collection(number, path("")), Some(STANDARD));
        assert_eq!(created.status, 201, "{created:?}");
    }
    let definition = job(&format!("http://{address}/"), json!({"retryType": "None"}));
    for number in 0..JOBS {
        let target = in_collection(number, job_path(&format!("j{number}"), ""));
        let created = connections[number % 2].request("PUT", &target, Some(&definition));
        assert_eq!(created.status, 201, "{created:?}");
    }
    // Each node sends each event once, in the same order.
    let received = followers.map(|mut follower| {
        let events = std::iter::repeat_with(|| follower.next().unwrap());
        let attempts = events.filter(|(_, kind, _)| kind == "attempt").take(JOBS);
        // The second part of an id, the position among occurrences, may differ between nodes.
        let number = |id: String| id.split_once('-').unwrap().0.parse::<u64>().unwrap();
        attempts.map(|(id, _, data)| (number(id), data["name"].to_string())).collect::<Vec<_>>()
    });
    assert_eq!(received[0], received[1]);
    assert!(received[0].is_sorted_by(|(one, _), (next, _)| one < next));
    let jobs = received[0].iter().map(|(_, name)| name.split('/').nth(1).unwrap());
    assert_eq!(jobs.collect::<BTreeSet<_>>().len(), JOBS);
}

#[test]
fn events_not_sent_before_a_restart_are_sent_once_after_it() {
    let (address, _calls) = target();
    let (mut server, mut connection) = start();
    let definition = job(&format!("http://{address}/"), json!({"retryType": "None"}));
    let put = |connection: &mut Connection, name: &str| {
        assert_eq!(connection.request("PUT", &job_path(name, ""), Some(&definition)).status, 201);
    };
    let mut before = Follower::new(server.connect(), "", None);
    put(&mut connection, "a");
    let seen: Vec<_> = (0..2).map(|_| before.next().unwrap().0).collect();
    assert_eq!(seen, ["0-0", "1-0"]);
    // The occurrence has finished; the client does not acknowledge its event.
    assert_eq!(before.next().unwrap().1, "occurrence");
    server.kill();
    server.restart();
    let mut connection = server.connect();
    put(&mut connection, "b");
    let mut after = Follower::new(server.connect(), "", Some("1-0"));
    let received: Vec<_> = (0..4).map(|_| after.next().unwrap()).collect();
    let ids: Vec<_> = received.iter().map(|(id, ..)| id.as_str()).collect();
    assert_eq!(ids, ["1-0", "1-1", "2-1", "2-2"]);
    let jobs: Vec<_> = received.iter().map(|(.., data)| data["jobName"].clone()).collect();
    assert_eq!(jobs, [Value::Null, json!("jc/a"), Value::Null, json!("jc/b")]);
}

#[test]
fn events_of_resources_the_caller_cannot_read_are_not_sent() {
    let (server, owner) = guarded(&[("KALENDS_START_DELAY", "PT0S")]);
    let mut connection = server.connect();
    let reader = create(server.folder(), "reader", &collection("g", "theirs"), &[]);
    let follow = |token: &str| {
        let token = format!("Authorization: Bearer {token}\r\n");
        Follower::with(server.connect(), "&lastEventId=0-0", &token)
    };
    let mut followers = [follow(&owner), follow(&reader)];
    for name in ["ours", "theirs"] {
        let parent = collection("g", name);
        assert_eq!(
            request_as(&mut connection, &owner, "PUT", &new(&parent), Some(STANDARD)).status,
            201
        );
        let job = new(&format!("{parent}/jobs/j"));
        let created = JOB.replace("Disabled", "Enabled");
        assert_eq!(request_as(&mut connection, &owner, "PUT", &job, Some(&created)).status, 201);
        // The job was due immediately and the engine is off: the new schedule supersedes the occurrence.
        let edit = r#"{"properties":{"state":"Disabled","recurrence":{"frequency":"Month"}}}"#;
        assert_eq!(request_as(&mut connection, &owner, "PATCH", &job, Some(edit)).status, 200);
    }
    let received = followers.each_mut().map(|follower| {
        let events = std::iter::repeat_with(|| follower.next().unwrap());
        let rows = events.filter(|(_, kind, _)| kind == "occurrence");
        let of_last = |data: &Value| data["jobName"] == "theirs/j";
        let mut names = Vec::new();
        for (.., data) in rows {
            assert_eq!(
                (&data["disposition"], &data["jobState"]),
                (&json!("Superseded"), &json!("Disabled"))
            );
            names.push(data["jobName"].clone());
            if of_last(&data) {
                break;
            }
        }
        names
    });
    assert_eq!(received, [vec!["ours/j", "theirs/j"], vec!["theirs/j"]]);
}
