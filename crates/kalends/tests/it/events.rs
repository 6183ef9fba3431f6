//! The event stream: following, resuming, and several nodes.

use std::collections::BTreeSet;
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::clocked_server::job_path;
use crate::connection::Connection;
use crate::oidc::{Setup, now};
use crate::target::{STANDARD, job, path, start, target};
use crate::test_server::{TestServer, database};
use crate::tokens::{
    JOB, SUBSCRIPTION, code, collection, create, guarded, id, kalends_token, new, request_as,
};

/// A client of the event stream. Yields id, type and data of each event.
struct Follower(Connection);

impl Follower {
    fn new(connection: Connection, query: &str, last: Option<&str>) -> Follower {
        let last = last.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        Follower::with(connection, query, &last)
    }

    /// Follows with a token.
    fn of(connection: Connection, query: &str, token: &str) -> Follower {
        Follower::with(connection, query, &format!("Authorization: Bearer {token}\r\n"))
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

    /// The next event that is not the start of a run, which a stream need not see; `None` at the end
    /// of the stream.
    fn next(&mut self) -> Option<(String, String, Value)> {
        std::iter::from_fn(|| self.next_of_any_kind()).find(|(_, kind, _)| kind != "started")
    }

    fn next_of_any_kind(&mut self) -> Option<(String, String, Value)> {
        let (mut id, mut kind) = (String::new(), String::new());
        let mut comments = 0;
        loop {
            let line = self.0.line();
            comments += usize::from(line.starts_with(':'));
            assert!(comments < 4, "a minute without an event");
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
    let (beginning, kind, _) = all.next().unwrap();
    assert_eq!(kind, "open");
    let mut some = Follower::new(server.connect(), "&job=B&collection=JC", None);
    some.next().unwrap();
    let mut received = Vec::new();
    for (name, path) in [("a", "/"), ("b", "/fail")] {
        let put = connection.request("PUT", &job_path(name, ""), Some(&definition(path)));
        assert_eq!(put.status, 201, "{put:?}");
        let (id, kind, data) = all.next().unwrap();
        assert_eq!((kind.as_str(), &data["name"]), ("attempt", &data["name"]));
        assert!(data["id"].as_str().unwrap().contains(&format!("/jobs/{name}/history/")), "{data}");
        let (status, end) =
            if path == "/" { ("Completed", "Completed") } else { ("Failed", "Faulted") };
        assert_eq!(data["properties"]["status"], status);
        received.push((id, data));
        let (id, kind, data) = all.next().unwrap();
        assert_eq!(kind, "occurrence", "{data}");
        assert_eq!(data["jobName"], format!("jc/{name}"), "{data}");
        assert_eq!((&data["disposition"], &data["jobState"]), (&json!(status), &json!(end)));
        received.push((id, data));
    }
    for (_, expected) in &received[2..] {
        assert_eq!(some.next().unwrap().2, *expected);
    }
    // A client that reconnects resumes after its last event.
    let ids = std::iter::once(&beginning).chain(received.iter().map(|(id, _)| id));
    for (from, last) in ids.enumerate() {
        let mut again = Follower::new(server.connect(), "", Some(last));
        assert_eq!(again.next().unwrap().1, "open");
        for (_, expected) in &received[from..] {
            assert_eq!(again.next().unwrap().2, *expected, "after {last}");
        }
    }
    assert_eq!(connection.request("DELETE", &job_path("a", ""), None).status, 200);
    let kinds = |query: &str, count: usize| {
        let mut late = Follower::new(server.connect(), query, None);
        (0..count).map(|_| late.next().unwrap().1).collect::<Vec<_>>()
    };
    // Events of the deleted job are gone.
    let both = ["open", "gap", "gap", "attempt", "occurrence"];
    assert_eq!(kinds("&lastEventId=0", 5), both);
    for bad in
        ["&job=..", "&subscription=x", "&lastEventId=x", "&lastEventId=1", "&lastEventId=1-1"]
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
fn starts_of_runs_are_streamed() {
    // Accepts connections and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let definition =
        job(&format!("http://{}/", silent.local_addr().unwrap()), json!({"retryType": "None"}));
    let (server, mut connection) = start();
    let mut first = Follower::new(server.connect(), "", None);
    let mut other = Follower::new(server.connect(), "&job=b", None);
    for name in ["a", "b"] {
        let put = connection.request("PUT", &job_path(name, ""), Some(&definition));
        assert_eq!(put.status, 201, "{put:?}");
        assert_eq!(
            first.next_of_any_kind().unwrap().1,
            ["open", "started"][usize::from(name == "b")]
        );
    }
    let started = |follower: &mut Follower, name: &str| {
        let (id, kind, data) = follower.next_of_any_kind().unwrap();
        assert_eq!((id.as_str(), kind.as_str()), ("", "started"), "{data}");
        assert_eq!((&data["job"], &data["status"]), (&json!(name), &json!("Running")), "{data}");
        assert_eq!((&data["disposition"], &data["attempts"]), (&json!("Running"), &json!(0)));
    };
    started(&mut first, "b");
    assert_eq!(other.next_of_any_kind().unwrap().1, "open");
    started(&mut other, "b");
    // A client that opens the stream afterwards.
    let mut late = Follower::new(server.connect(), "&job=b", None);
    assert_eq!(late.next_of_any_kind().unwrap().1, "open");
    started(&mut late, "b");
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
        attempts.map(|(id, _, data)| (id, data["name"].to_string())).collect::<Vec<_>>()
    });
    let names = received
        .each_ref()
        .map(|events| events.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>());
    assert_eq!(names[0], names[1]);
    let jobs = names[0].iter().map(|name| name.split('/').nth(1).unwrap());
    assert_eq!(jobs.collect::<BTreeSet<_>>().len(), JOBS);
    // A client continues on another node.
    let last = &received[0][JOBS / 2].0;
    let mut other = Follower::new(nodes[1].connect(), "", Some(last));
    let mut events = std::iter::repeat_with(|| other.next().unwrap());
    let (.., next) = events.find(|(_, kind, _)| kind == "attempt").unwrap();
    assert_eq!(next["name"].to_string(), names[0][JOBS / 2 + 1]);
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
    let seen: Vec<_> = (0..2).map(|_| before.next().unwrap()).collect();
    assert_eq!(seen[1].1, "attempt");
    // The occurrence has finished; the client does not acknowledge its event.
    assert_eq!(before.next().unwrap().1, "occurrence");
    server.kill();
    server.restart();
    let mut connection = server.connect();
    put(&mut connection, "b");
    let mut after = Follower::new(server.connect(), "", Some(&seen[1].0));
    let received: Vec<_> = (0..4).map(|_| after.next().unwrap()).collect();
    let kinds: Vec<_> = received.iter().map(|(_, kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["open", "occurrence", "attempt", "occurrence"]);
    let jobs: Vec<_> = received.iter().map(|(.., data)| data["jobName"].clone()).collect();
    assert_eq!(jobs, [Value::Null, json!("jc/a"), Value::Null, json!("jc/b")]);
}

#[test]
fn events_of_resources_the_caller_cannot_read_are_not_sent() {
    let (server, owner) = guarded(&[("KALENDS_START_DELAY", "PT0S")]);
    let mut connection = server.connect();
    let reader = create(server.folder(), "reader", &collection("g", "theirs"), &[]);
    let follow = |token: &str| Follower::of(server.connect(), "&lastEventId=0", token);
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

/// Requests the stream and returns status and code of the refusal.
fn refusal(connection: &mut Connection, token: &str, last: &str) -> (u16, String) {
    let target = format!("/events?api-version=2026-11-01&lastEventId={last}");
    code(&request_as(connection, token, "GET", &target, None))
}

#[test]
fn event_ids_do_not_show_the_activity_of_others() {
    let (server, owner) = guarded(&[("KALENDS_START_DELAY", "PT0S")]);
    let mut connection = server.connect();
    let scope = collection("g", "theirs");
    let [reader, same_scope] = [(); 2].map(|()| create(server.folder(), "reader", &scope, &[]));
    let other_scope = create(server.folder(), "reader", &collection("g", "ours"), &[]);
    let mut readers = [(); 2].map(|()| Follower::of(server.connect(), "", &reader));
    let opened = readers.each_mut().map(|follower| follower.next().unwrap().0);
    assert_ne!(opened[0], opened[1], "equal positions have different ids");
    let mut change = |name: &str, job: &str| {
        let parent = collection("g", name);
        request_as(&mut connection, &owner, "PUT", &new(&parent), Some(STANDARD));
        let job = new(&format!("{parent}/jobs/{job}"));
        let created = JOB.replace("Disabled", "Enabled");
        assert_eq!(request_as(&mut connection, &owner, "PUT", &job, Some(&created)).status, 201);
        let edit = r#"{"properties":{"state":"Disabled","recurrence":{"frequency":"Month"}}}"#;
        assert_eq!(request_as(&mut connection, &owner, "PATCH", &job, Some(edit)).status, 200);
    };
    for number in 0..20 {
        change("ours", &format!("j{number}"));
    }
    change("theirs", "first");
    let first = readers[0].next().unwrap();
    assert_eq!(first.2["jobName"], "theirs/first");
    for id in opened.iter().chain([&first.0]) {
        assert_eq!(id.len(), 64, "all ids have the same length: {id}");
    }
    // A token with the same scope continues; other callers, other ids and numbers are refused.
    let last = format!("&lastEventId={}", opened[1]);
    let mut again = Follower::of(server.connect(), &last, &same_scope);
    assert_eq!(again.next().unwrap().1, "open");
    assert_eq!(again.next().unwrap().2, first.2);
    let mut connection = server.connect();
    let refused = (400, "InvalidQueryParameter".to_owned());
    for token in [&owner, &other_scope] {
        assert_eq!(refusal(&mut connection, token, &opened[0]), refused);
    }
    let turned = if opened[0].starts_with('A') { "B" } else { "A" };
    let changed = format!("{turned}{}", &opened[0][1..]);
    for last in [changed.as_str(), &opened[0][1..], "20", "20-20", "0-0", "-1", "A"] {
        assert_eq!(refusal(&mut connection, &reader, last), refused, "{last}");
    }
}

#[test]
fn history_entries_are_not_numbered_over_all_collections() {
    let (address, _calls) = target();
    let (server, mut connection) = start();
    let definition = job(&format!("http://{address}/"), json!({"retryType": "None"}));
    let mut follower = Follower::new(server.connect(), "", None);
    let mut of_event = || {
        let mut events = std::iter::repeat_with(|| follower.next().unwrap());
        let (.., data) = events.find(|(_, kind, _)| kind == "attempt").unwrap();
        data["name"].as_str().unwrap().to_owned()
    };
    let mut numbers = Vec::new();
    for name in ["a", "b"] {
        let put = connection.request("PUT", &job_path(name, ""), Some(&definition));
        assert_eq!(put.status, 201);
        let entry = of_event();
        let list = connection.request("GET", &job_path(name, "/history"), None).body;
        assert!(list.contains(&entry), "{entry} {list}");
        numbers.push(entry.rsplit_once(':').unwrap().1.parse::<i64>().unwrap());
    }
    assert!(numbers[0].abs_diff(numbers[1]) > 1_000_000, "{numbers:?}");
    assert!(numbers.iter().all(|number| i64::MAX - number > 1_000_000), "{numbers:?}");
}

#[test]
fn a_stream_ends_when_its_token_is_revoked_or_expires() {
    let (server, owner) = guarded(&[("KALENDS_START_DELAY", "PT0S")]);
    let revoked = create(server.folder(), "reader", "/", &[]);
    let expiring = create(server.folder(), "reader", "/", &["--expires", "PT3S"]);
    let mut followers =
        [&revoked, &expiring, &owner].map(|token| Follower::of(server.connect(), "", token));
    for follower in &mut followers {
        assert_eq!(follower.next().unwrap().1, "open");
    }
    assert!(kalends_token(server.folder(), &["revoke", id(&revoked)]).status.success());
    let [of_revoked, of_expiring, of_owner] = &mut followers;
    for (follower, expected) in
        [(of_revoked, "InvalidAuthenticationToken"), (of_expiring, "ExpiredAuthenticationToken")]
    {
        let (_, kind, data) = follower.next().unwrap();
        assert_eq!((kind.as_str(), data), ("end", json!({"code": expected})));
        assert!(follower.next().is_none());
    }
    // Other streams continue.
    let mut connection = server.connect();
    let job = new(&format!("{}/jobs/j", collection("g", "c")));
    let parent = new(&collection("g", "c"));
    assert_eq!(request_as(&mut connection, &owner, "PUT", &parent, Some(STANDARD)).status, 201);
    let due = JOB.replace("Disabled", "Enabled");
    assert_eq!(request_as(&mut connection, &owner, "PUT", &job, Some(&due)).status, 201);
    let edit = r#"{"properties":{"recurrence":{"frequency":"Month"}}}"#;
    assert_eq!(request_as(&mut connection, &owner, "PATCH", &job, Some(edit)).status, 200);
    assert_eq!(of_owner.next().unwrap().1, "occurrence");
}

#[test]
fn a_stream_ends_when_the_token_of_an_identity_provider_expires() {
    let setup = Setup::new(&[]);
    // Tokens are valid for two more minutes, because clocks may differ.
    let token = setup.sign(&setup.claims_with(json!({"exp": now() - 116})));
    let mut follower = Follower::of(setup.server.connect(), "", &token);
    assert_eq!(follower.next().unwrap().1, "open");
    let (_, kind, data) = follower.next().unwrap();
    assert_eq!((kind.as_str(), data), ("end", json!({"code": "ExpiredAuthenticationToken"})));
    assert!(follower.next().is_none());
}

#[test]
fn one_caller_has_a_share_of_the_event_streams() {
    let (server, owner) = guarded(&[]);
    let others = [(); 2].map(|()| create(server.folder(), "reader", SUBSCRIPTION, &[]));
    let [near, far] = [[127, 0, 0, 2], [127, 0, 0, 3]];
    let mut open = Vec::new();
    let mut follow = |from, token: &str| {
        let mut follower = Follower::of(Connection::from(from, server.address), "", token);
        assert_eq!(follower.next().unwrap().1, "open");
        open.push(follower);
    };
    (0..8).for_each(|_| follow(near, &owner));
    let full = (429, "TooManyRequests".to_owned());
    for from in [near, far] {
        let mut connection = Connection::from(from, server.address);
        assert_eq!(refusal(&mut connection, &owner, "0"), full, "the share of the caller");
    }
    (0..8).for_each(|_| follow(near, &others[0]));
    let mut connection = Connection::from(near, server.address);
    assert_eq!(refusal(&mut connection, &others[1], "0"), full, "the share of the address");
    follow(far, &others[1]);
}

#[test]
fn a_position_ahead_of_a_restored_store_is_reported_as_a_gap() {
    let (address, _calls) = target();
    let (mut server, mut connection) = start();
    let file = server.folder().join("kalends.db");
    let backup = server.folder().join("backup.db");
    drop(connection);
    assert!(server.stop());
    std::fs::copy(&file, &backup).unwrap();
    server.restart();
    connection = server.connect();
    let mut follower = Follower::new(server.connect(), "", None);
    let definition = job(&format!("http://{address}/"), json!({"retryType": "None"}));
    let put = connection.request("PUT", &job_path("a", ""), Some(&definition));
    assert_eq!(put.status, 201);
    let (last, ..) = (0..3).map(|_| follower.next().unwrap()).last().unwrap();
    server.kill();
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(file.with_file_name(format!("kalends.db{suffix}")));
    }
    std::fs::copy(&backup, &file).unwrap();
    server.restart();
    let mut again = Follower::new(server.connect(), "", Some(&last));
    let kinds: Vec<_> = (0..2).map(|_| again.next().unwrap().1).collect();
    assert_eq!(kinds, ["gap", "open"]);
}
