//! Events: followed, resumed after a cut, and seen on every node.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::running::{Running, database};
use crate::target::{STANDARD, job, path, start, target};
use crate::timed::job_path;
use crate::tokens::{JOB, ask, collection, create, guarded, new};

/// A client that follows events: the id, the kind and the data of each.
struct Follower(Connection);

impl Follower {
    fn new(connection: Connection, query: &str, last: Option<&str>) -> Follower {
        let last = last.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        Follower::with(connection, query, &last)
    }

    /// With lines of the head.
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

    /// The next event; none when the stream has ended.
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
        let put = connection.ask("PUT", &job_path(name, ""), Some(&definition(path)));
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
    // Whoever comes back goes on where it was.
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
    assert_eq!(connection.ask("DELETE", &job_path("a", ""), None).status, 200);
    let kinds = |query: &str, count: usize| {
        let mut late = Follower::new(server.connect(), query, None);
        (0..count).map(|_| late.next().unwrap().1).collect::<Vec<_>>()
    };
    // What was told of the deleted job is gone. An id of old knows history only.
    assert_eq!(kinds("&lastEventId=0", 3), ["open", "gap", "attempt"]);
    let both = ["open", "gap", "gap", "attempt", "occurrence"];
    assert_eq!(kinds("&lastEventId=0-0", 5), both);
    for bad in
        ["&job=..", "&subscription=x", "&lastEventId=x", "&lastEventId=1-", "&lastEventId=-1"]
    {
        let target = format!("/events?api-version=2026-11-01{bad}");
        assert_eq!(connection.ask("GET", &target, None).status, 400, "{bad}");
    }
    assert_eq!(connection.ask("GET", "/events?api-version=2016-03-01", None).status, 404);
    drop(connection);
    assert!(server.stop(), "a stop does not wait for who follows");
    assert!(all.next().is_none() && some.next().is_none());
}

#[test]
fn a_node_tells_of_what_others_did() {
    /// More than one look of a follower reads at once.
    const JOBS: usize = 150;
    let Some(database) = database("events") else { return };
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    let nodes = [(); 2].map(|()| Running::start_node(&database, &key));
    let mut followers = nodes.each_ref().map(|node| Follower::new(node.connect(), "", None));
    for follower in &mut followers {
        assert_eq!(follower.next().unwrap().1, "open");
    }
    let (address, _calls) = target();
    let mut connections = nodes.each_ref().map(Running::connect);
    let collections = ["a", "b", "c"];
    let in_collection = |number: usize, target: String| {
        target.replace("/jc", &format!("/{}", collections[number % collections.len()]))
    };
    for number in 0..collections.len() {
        let made = connections[0].ask("PUT", &in_collection(number, path("")), Some(STANDARD));
        assert_eq!(made.status, 201, "{made:?}");
    }
    let definition = job(&format!("http://{address}/"), json!({"retryType": "None"}));
    for number in 0..JOBS {
        let target = in_collection(number, job_path(&format!("j{number}"), ""));
        let made = connections[number % 2].ask("PUT", &target, Some(&definition));
        assert_eq!(made.status, 201, "{made:?}");
    }
    // Each is told once by each node, in the order of the same numbers.
    let told = followers.map(|mut follower| {
        let events = std::iter::repeat_with(|| follower.next().unwrap());
        let attempts = events.filter(|(_, kind, _)| kind == "attempt").take(JOBS);
        // How far it has come with what became of them may differ.
        let number = |id: String| id.split_once('-').unwrap().0.parse::<u64>().unwrap();
        attempts.map(|(id, _, data)| (number(id), data["name"].to_string())).collect::<Vec<_>>()
    });
    assert_eq!(told[0], told[1]);
    assert!(told[0].is_sorted_by(|(one, _), (next, _)| one < next));
    let jobs = told[0].iter().map(|(_, name)| name.split('/').nth(1).unwrap());
    assert_eq!(jobs.collect::<BTreeSet<_>>().len(), JOBS);
}

#[test]
fn what_was_not_told_before_a_restart_is_told_after_it_and_once() {
    let (address, _calls) = target();
    let (mut server, mut connection) = start();
    let definition = job(&format!("http://{address}/"), json!({"retryType": "None"}));
    let put = |connection: &mut Connection, name: &str| {
        assert_eq!(connection.ask("PUT", &job_path(name, ""), Some(&definition)).status, 201);
    };
    let mut before = Follower::new(server.connect(), "", None);
    put(&mut connection, "a");
    let seen: Vec<_> = (0..2).map(|_| before.next().unwrap().0).collect();
    assert_eq!(seen, ["0-0", "1-0"]);
    // What became of it has happened when it is told, and is not taken.
    assert_eq!(before.next().unwrap().1, "occurrence");
    server.kill();
    server.start_again();
    let mut connection = server.connect();
    put(&mut connection, "b");
    let mut after = Follower::new(server.connect(), "", Some("1-0"));
    let told: Vec<_> = (0..4).map(|_| after.next().unwrap()).collect();
    let ids: Vec<_> = told.iter().map(|(id, ..)| id.as_str()).collect();
    assert_eq!(ids, ["1-0", "1-1", "2-1", "2-2"]);
    let jobs: Vec<_> = told.iter().map(|(.., data)| data["jobName"].clone()).collect();
    assert_eq!(jobs, [Value::Null, json!("jc/a"), Value::Null, json!("jc/b")]);
}

#[test]
fn what_may_not_be_read_is_not_told() {
    let (server, owner) = guarded(&[("KALENDS_START_DELAY", "PT0S")]);
    let mut connection = server.connect();
    let reader = create(server.folder(), "reader", &collection("g", "theirs"), &[]);
    let follow = |token: &str| {
        let token = format!("Authorization: Bearer {token}\r\n");
        Follower::with(server.connect(), "&lastEventId=0-0", &token)
    };
    let mut followers = [follow(&owner), follow(&reader)];
    for name in ["ours", "theirs"] {
        let place = collection("g", name);
        assert_eq!(ask(&mut connection, &owner, "PUT", &new(&place), Some(STANDARD)).status, 201);
        let job = new(&format!("{place}/jobs/j"));
        let made = JOB.replace("Disabled", "Enabled");
        assert_eq!(ask(&mut connection, &owner, "PUT", &job, Some(&made)).status, 201);
        // It was due at once, and nothing runs here: the edit closes it.
        let edit = r#"{"properties":{"state":"Disabled"}}"#;
        assert_eq!(ask(&mut connection, &owner, "PATCH", &job, Some(edit)).status, 200);
    }
    let told = followers.each_mut().map(|follower| {
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
    assert_eq!(told, [vec!["ours/j", "theirs/j"], vec!["theirs/j"]]);
}
