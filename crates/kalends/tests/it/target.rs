//! A target for jobs, and a server that calls it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::test_server::{TestServer, run_jobs};

/// Limit for a call; a run usually starts within milliseconds.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
pub(crate) const COLLECTION: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/rg/providers/Microsoft.Scheduler/jobCollections/jc";
pub(crate) const STANDARD: &str =
    r#"{"location":"westus","properties":{"sku":{"name":"Standard"}}}"#;

/// A request that a target received.
pub(crate) struct Call {
    pub(crate) line: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

/// Starts a target that returns a status depending on the path and reports every request.
pub(crate) fn target() -> (SocketAddr, Receiver<Call>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (calls, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            respond(stream.unwrap(), &calls);
        }
    });
    (address, received)
}

fn respond(stream: TcpStream, calls: &Sender<Call>) {
    let mut reader = BufReader::new(stream);
    let mut lines = reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty());
    let Some(line) = lines.next() else { return };
    let headers: HashMap<_, _> = lines
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        })
        .collect();
    let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let status = match &line {
        line if line.contains("/fail") => "503 Service Unavailable",
        line if line.contains("/metadata") => "302 Found\r\nLocation: http://169.254.169.254/",
        _ => "200 OK",
    };
    // Without the header, the server could send its next request on a connection that is being closed.
    let text = format!(
        "HTTP/1.1 {status}\r\nX-Target: yes\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"
    );
    reader.get_mut().write_all(text.as_bytes()).unwrap();
    let body = String::from_utf8(body).unwrap();
    // The test may have ended.
    let _ = calls.send(Call { line, headers, body });
}

/// A server that runs jobs immediately, with a collection.
pub(crate) fn start() -> (TestServer, Connection) {
    start_with(&[])
}

/// The same with additional arguments.
pub(crate) fn start_with(arguments: &[&str]) -> (TestServer, Connection) {
    let arguments: Vec<_> = arguments.iter().map(|&text| text.to_owned()).collect();
    let server = TestServer::start_restartable(move |command, _| {
        run_jobs(command);
        command.args(&arguments);
        // Unreachable proxies: the server ignores these variables.
        command.env("HTTP_PROXY", "http://127.0.0.1:1").env("http_proxy", "http://127.0.0.1:1");
    });
    let mut connection = server.connect();
    assert_eq!(connection.request("PUT", &path(""), Some(STANDARD)).status, 201);
    (server, connection)
}

pub(crate) fn path(below: &str) -> String {
    format!("{COLLECTION}{below}?api-version=2026-11-01")
}

pub(crate) fn job(uri: &str, retry: Value) -> String {
    let headers = json!({"Content-Type": "text/plain"});
    let request = json!({"uri": uri, "method": "post", "headers": headers, "body": "hello"});
    let action = json!({"type": "Http", "request": request, "retryPolicy": retry});
    json!({"properties": {"action": action}}).to_string()
}

pub(crate) fn history(connection: &mut Connection, name: &str) -> Vec<Value> {
    let response = connection.request("GET", &path(&format!("/jobs/{name}/history")), None);
    let list: Value = serde_json::from_str(&response.body).unwrap();
    list["value"].as_array().unwrap().iter().map(|entry| entry["properties"].clone()).collect()
}

/// Polls until there is a result; `None` after the time limit.
pub(crate) fn wait_for<T>(mut poll: impl FnMut() -> Option<T>) -> Option<T> {
    const POLLS: u32 = 6_000;
    (0..POLLS).find_map(|_| {
        let found = poll();
        if found.is_none() {
            std::thread::sleep(TIMEOUT / POLLS);
        }
        found
    })
}

/// Reads a JSON resource.
pub(crate) fn get(connection: &mut Connection, target: &str) -> Value {
    let response = connection.request("GET", target, None);
    assert_eq!(response.status, 200, "{target}: {response:?}");
    serde_json::from_str(&response.body).unwrap()
}
