//! A target for jobs to call, and a server that calls it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::running::{Running, run_jobs};

/// No call of a test takes longer; a run is made within milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const COLLECTION: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/rg/providers/Microsoft.Scheduler/jobCollections/jc";
pub(crate) const STANDARD: &str =
    r#"{"location":"westus","properties":{"sku":{"name":"Standard"}}}"#;

/// A call that a target got.
pub(crate) struct Call {
    pub(crate) line: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

/// A target: answers every request with a status of its path, and tells of it.
pub(crate) fn target() -> (SocketAddr, Receiver<Call>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (calls, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), &calls);
        }
    });
    (address, received)
}

fn answer(stream: TcpStream, calls: &Sender<Call>) {
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
    let text = format!("HTTP/1.1 {status}\r\nX-Target: yes\r\nContent-Length: 5\r\n\r\nhello");
    reader.get_mut().write_all(text.as_bytes()).unwrap();
    let body = String::from_utf8(body).unwrap();
    // A test that has ended no longer listens.
    let _ = calls.send(Call { line, headers, body });
}

/// A server that runs jobs at once, with a collection.
pub(crate) fn start() -> (Running, Connection) {
    start_with(&[])
}

/// The same with arguments.
pub(crate) fn start_with(arguments: &[&str]) -> (Running, Connection) {
    let arguments: Vec<_> = arguments.iter().map(|&text| text.to_owned()).collect();
    let server = Running::start_repeatedly(move |command, _| {
        run_jobs(command);
        command.args(&arguments);
        // Nobody is there; what the environment says of proxies is not listened to.
        command.env("HTTP_PROXY", "http://127.0.0.1:1").env("http_proxy", "http://127.0.0.1:1");
    });
    let mut connection = server.connect();
    assert_eq!(connection.ask("PUT", &path(""), Some(STANDARD)).status, 201);
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
    let answer = connection.ask("GET", &path(&format!("/jobs/{name}/history")), None);
    let list: Value = serde_json::from_str(&answer.body).unwrap();
    list["value"].as_array().unwrap().iter().map(|entry| entry["properties"].clone()).collect()
}

/// Asks again until there is an answer, or nobody would wait any longer.
pub(crate) fn wait_for<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    const TRIES: u32 = 6_000;
    (0..TRIES).find_map(|_| {
        let found = ask();
        if found.is_none() {
            std::thread::sleep(PATIENCE / TRIES);
        }
        found
    })
}

/// Asks for JSON.
pub(crate) fn get(connection: &mut Connection, target: &str) -> Value {
    let answer = connection.ask("GET", target, None);
    assert_eq!(answer.status, 200, "{target}: {answer:?}");
    serde_json::from_str(&answer.body).unwrap()
}
