//! Several nodes on one PostgreSQL database.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

use serde_json::json;

use crate::target::{self, STANDARD, TIMEOUT, path};
use crate::test_server::{TestServer, database};

/// A target that reports the request line and the idempotency key of every request, and does not
/// respond to the first `hanging` ones.
fn target(hanging: usize) -> (SocketAddr, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, received) = channel();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let lines = reader.by_ref().lines().map_while(Result::ok);
            let head: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
            let Some(line) = head.first().cloned() else { continue };
            let key = head.iter().find(|line| line.to_lowercase().starts_with("idempotency-key"));
            if requests.send((line, key.cloned().unwrap_or_default())).is_err() {
                return;
            }
            if open.len() < hanging {
                open.push(reader);
                continue;
            }
            let ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = reader.get_mut().write_all(ok.as_bytes());
        }
    });
    (address, received)
}

#[test]
fn another_node_takes_over_the_run_of_a_killed_node() {
    let Some(database) = database("take_over") else { return };
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    let mut first = TestServer::start_node(&database, &key);
    let mut connection = first.connect();
    assert_eq!(connection.request("PUT", &path(""), Some(STANDARD)).status, 201);
    let (target, requests) = target(1);
    let job = target::job(&format!("http://{target}/"), json!({"retryType": "none"}));
    assert_eq!(connection.request("PUT", &path("/jobs/j"), Some(&job)).status, 201);
    let (_, sent) = requests.recv_timeout(TIMEOUT).unwrap();
    // Started after the attempt, so the first node certainly executes it.
    let second = TestServer::start_node(&database, &key);
    first.kill();
    let (_, repeated) = requests.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(repeated, sent, "the attempt is repeated with its idempotency key");
    let mut connection = second.connect();
    let history = target::wait_for(|| {
        let history = target::history(&mut connection, "j");
        (!history.is_empty()).then_some(history)
    });
    assert_eq!(history.unwrap().len(), 1);
}
