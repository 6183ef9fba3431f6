//! Events: followed, resumed after a cut, and seen on every node.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::running::{Running, database};
use crate::target::{STANDARD, job, path, start, target};
use crate::timed::job_path;

/// A client that follows events: the id, the kind and the data of each.
struct Follower(Connection);

impl Follower {
    fn new(mut connection: Connection, query: &str, last: Option<&str>) -> Follower {
        let last = last.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        let head = format!(
            "GET /events?api-version=2026-11-01{query} HTTP/1.1\r\nHost: localhost\r\n{last}\r\n"
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
    assert_eq!((open.as_str(), kind.as_str()), ("0", "open"));
    let mut some = Follower::new(server.connect(), "&job=B&collection=JC", None);
    some.next().unwrap();
    let mut ids = Vec::new();
    for (name, path) in [("a", "/"), ("b", "/fail")] {
        let put = connection.ask("PUT", &job_path(name, ""), Some(&definition(path)));
        assert_eq!(put.status, 201, "{put:?}");
        let (id, kind, data) = all.next().unwrap();
        assert_eq!((kind.as_str(), &data["name"]), ("attempt", &data["name"]));
        assert!(data["id"].as_str().unwrap().contains(&format!("/jobs/{name}/history/")), "{data}");
        let status = if path == "/" { "Completed" } else { "Failed" };
        assert_eq!(data["properties"]["status"], status);
        ids.push(id);
    }
    let (id, _, data) = some.next().unwrap();
    assert_eq!(id, ids[1], "{data}");
    // Whoever comes back goes on where it was.
    let mut again = Follower::new(server.connect(), "", Some(&ids[0]));
    assert_eq!(again.next().unwrap().1, "open");
    assert_eq!(again.next().unwrap().0, ids[1]);
    let mut lost = Follower::new(server.connect(), "", Some("999999"));
    let (_, kind, data) = lost.next().unwrap();
    assert_eq!((kind.as_str(), &data["before"]), ("gap", &json!("999999")));
    assert_eq!(connection.ask("DELETE", &job_path("a", ""), None).status, 200);
    let mut late = Follower::new(server.connect(), "&lastEventId=0", None);
    let told: Vec<_> = (0..3).map(|_| late.next().unwrap()).collect();
    let told: Vec<_> = told.iter().map(|(_, kind, _)| kind.as_str()).collect();
    assert_eq!(told, ["open", "gap", "attempt"], "the deleted job's entry is gone");
    for bad in ["&job=..", "&subscription=x", "&lastEventId=x"] {
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
        let number = |id: String| id.parse::<u64>().unwrap();
        attempts.map(|(id, _, data)| (number(id), data["name"].to_string())).collect::<Vec<_>>()
    });
    assert_eq!(told[0], told[1]);
    assert!(told[0].is_sorted_by(|(one, _), (next, _)| one < next));
    let jobs = told[0].iter().map(|(_, name)| name.split('/').nth(1).unwrap());
    assert_eq!(jobs.collect::<BTreeSet<_>>().len(), JOBS);
}
