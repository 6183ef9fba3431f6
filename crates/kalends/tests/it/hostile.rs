//! Targets that send as much as they can: what one attempt costs.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier};

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::running::Running;
use crate::target::{PATIENCE, history, job, path, start_with, target, wait_for};

/// Attempts at the same time.
const ATTEMPTS: usize = 200;
/// What one of them may take.
const BYTES_MAX: u64 = 128 * 1024;

/// The most memory that the server has had at once.
fn most_memory(server: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kibibytes: u64 = line.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    kibibytes * 1024
}

/// Answers nobody before all are there, then all at once with what `say` makes of their number, and
/// closes when all of it is written.
fn greedy(say: fn(usize) -> Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (come, written) = (Arc::new(Barrier::new(ATTEMPTS)), Arc::new(Barrier::new(ATTEMPTS)));
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().take(ATTEMPTS).enumerate() {
            let (come, written) = (Arc::clone(&come), Arc::clone(&written));
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                read_head(&stream);
                come.wait();
                // Who has read enough may have gone.
                let _ = stream.write_all(&say(number));
                written.wait();
            });
        }
    });
    address
}

fn read_head(stream: &TcpStream) {
    let mut lines = BufReader::new(stream).lines();
    while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
}

/// A head of which the end does not come, or a body that is far too long.
fn half_of_something_large(number: usize) -> Vec<u8> {
    let (begin, length) = match number % 2 {
        0 => ("HTTP/1.1 200 OK\r\nX-Long: ", 32_000),
        _ => ("HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n", 60_000),
    };
    [begin.as_bytes(), &vec![b'x'; length]].concat()
}

fn put_idle(connection: &mut Connection, name: &str, uri: &str) {
    let mut definition: Value =
        serde_json::from_str(&job(uri, json!({"retryType": "None"}))).unwrap();
    definition["properties"]["state"] = "Disabled".into();
    definition["properties"]["recurrence"] = json!({"frequency": "Day"});
    let put = connection.ask("PUT", &path(&format!("/jobs/{name}")), Some(&definition.to_string()));
    assert_eq!(put.status, 201, "{put:?}");
}

#[test]
fn an_attempt_takes_little_memory_whatever_its_target_sends() {
    let (server, mut connection) = start_with(&["--limits-plans", "off"]);
    let address = greedy(half_of_something_large);
    let names: Vec<_> = (0..ATTEMPTS).map(|number| format!("greedy-{number}")).collect();
    for name in &names {
        put_idle(&mut connection, name, &format!("http://{address}/"));
    }
    let (good, calls) = target();
    put_idle(&mut connection, "good", &format!("http://{good}/"));
    let before = most_memory(&server);
    for name in names.iter().map(String::as_str).chain(["good"]) {
        assert_eq!(connection.ask("POST", &path(&format!("/jobs/{name}/run")), None).status, 200);
    }
    calls.recv_timeout(PATIENCE).expect("others are not held up");
    for name in &names {
        let entry = wait_for(|| history(&mut connection, name).pop()).expect("it ends");
        assert_eq!(entry["status"], "Failed", "{entry}");
        let message = entry["message"].as_str().unwrap();
        assert!(message.contains("failed: ReceiveFailure"), "{message}");
    }
    let each = most_memory(&server).saturating_sub(before) / ATTEMPTS as u64;
    assert!(each <= BYTES_MAX, "{each} bytes for each attempt");
}
