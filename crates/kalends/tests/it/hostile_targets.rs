//! Targets that send as much as possible: memory use of an attempt.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier};

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::target::{TIMEOUT, history, job, path, start_with, target, wait_for};
use crate::test_server::TestServer;

/// Number of concurrent attempts.
const ATTEMPTS: usize = 200;
/// Memory limit of an attempt in bytes.
const BYTES_MAX: u64 = 128 * 1024;

/// Peak memory of the server in bytes.
fn peak_memory(server: &TestServer) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kibibytes: u64 = line.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    kibibytes * 1024
}

/// Waits for all attempts, then sends all responses at the same time and closes when they are written.
/// `respond` returns the response for the number of an attempt.
fn greedy(respond: fn(usize) -> Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (arrived, written) = (Arc::new(Barrier::new(ATTEMPTS)), Arc::new(Barrier::new(ATTEMPTS)));
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().take(ATTEMPTS).enumerate() {
            let (arrived, written) = (Arc::clone(&arrived), Arc::clone(&written));
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                read_head(&stream);
                arrived.wait();
                // The client may have closed the connection.
                let _ = stream.write_all(&respond(number));
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

/// An endless header or a body that is far too long.
fn incomplete_response(number: usize) -> Vec<u8> {
    let (begin, length) = match number % 2 {
        0 => ("HTTP/1.1 200 OK\r\nX-Long: ", 32_000),
        _ => ("HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n", 60_000),
    };
    [begin.as_bytes(), &vec![b'x'; length]].concat()
}

fn put_disabled(connection: &mut Connection, name: &str, uri: &str) {
    let mut definition: Value =
        serde_json::from_str(&job(uri, json!({"retryType": "None"}))).unwrap();
    definition["properties"]["state"] = "Disabled".into();
    definition["properties"]["recurrence"] = json!({"frequency": "Day"});
    let put =
        connection.request("PUT", &path(&format!("/jobs/{name}")), Some(&definition.to_string()));
    assert_eq!(put.status, 201, "{put:?}");
}

#[test]
fn the_memory_of_an_attempt_is_bounded() {
    let (server, mut connection) = start_with(&["--limits-plans", "off"]);
    let address = greedy(incomplete_response);
    let names: Vec<_> = (0..ATTEMPTS).map(|number| format!("greedy-{number}")).collect();
    for name in &names {
        put_disabled(&mut connection, name, &format!("http://{address}/"));
    }
    let (good, calls) = target();
    put_disabled(&mut connection, "good", &format!("http://{good}/"));
    let before = peak_memory(&server);
    for name in names.iter().map(String::as_str).chain(["good"]) {
        assert_eq!(
            connection.request("POST", &path(&format!("/jobs/{name}/run")), None).status,
            200
        );
    }
    calls.recv_timeout(TIMEOUT).expect("other jobs are not delayed");
    for name in &names {
        let entry = wait_for(|| history(&mut connection, name).pop()).expect("the attempt ends");
        assert_eq!(entry["status"], "Failed", "{entry}");
        let message = entry["message"].as_str().unwrap();
        assert!(message.contains("failed: ReceiveFailure"), "{message}");
    }
    let each = peak_memory(&server).saturating_sub(before) / ATTEMPTS as u64;
    assert!(each <= BYTES_MAX, "{each} bytes for each attempt");
}
