//! Edits of one-time jobs while their run is open.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use kalends_environment::{Clock, SystemClock};
use kalends_recurrence::Instant;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::target::{get, history, job, path, start, target, wait_for};

/// Starts a target whose first response is an error.
fn target_that_heals() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
                line.clear();
            }
            let status = if number == 0 { "503 Service Unavailable" } else { "200 OK" };
            let text =
                format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            // The client may have closed the connection.
            let _ = reader.get_mut().write_all(text.as_bytes());
        }
    });
    address
}

fn properties(connection: &mut Connection, name: &str) -> Value {
    get(connection, &path(&format!("/jobs/{name}")))["properties"].clone()
}

fn describe(connection: &mut Connection, name: &str, description: &str) -> u16 {
    let patch = json!({"properties": {"description": description}}).to_string();
    connection.request("PATCH", &path(&format!("/jobs/{name}")), Some(&patch)).status
}

#[test]
fn a_retrying_one_time_job_completes_after_an_edit_of_its_description() {
    let address = target_that_heals();
    let (_server, mut connection) = start();
    let retry = json!({"retryType": "Fixed", "retryInterval": "PT15S", "retryCount": 2});
    let definition = job(&format!("http://{address}/"), retry);
    assert_eq!(connection.request("PUT", &path("/jobs/j"), Some(&definition)).status, 201);
    wait_for(|| history(&mut connection, "j").pop()).expect("a failed attempt");
    assert_eq!(describe(&mut connection, "j", "edited"), 200);
    assert_eq!(properties(&mut connection, "j")["state"], "Enabled");
    let completed = wait_for(|| {
        let properties = properties(&mut connection, "j");
        (properties["state"] != "Enabled").then_some(properties)
    });
    let completed = completed.expect("the retry");
    assert_eq!(completed["state"], "Completed");
    assert_eq!(completed["status"]["executionCount"], 2);
    assert_eq!(completed["status"]["failureCount"], 1);
}

/// A one-time job is claimed 20 ms before its time; edits until then hit the time between.
#[test]
fn edits_around_the_start_time_lose_no_one_time_job() {
    let (address, calls) = target();
    let (_server, mut connection) = start();
    for round in 0..25 {
        let start_time = SystemClock.now().checked_add(Duration::from_millis(150)).unwrap();
        let mut definition: Value =
            serde_json::from_str(&job(&format!("http://{address}/{round}"), Value::Null)).unwrap();
        definition["properties"]["startTime"] = json!(Instant::from(start_time).to_string());
        definition["properties"]["action"].as_object_mut().unwrap().remove("retryPolicy");
        let name = format!("j{round}");
        let put = path(&format!("/jobs/{name}"));
        assert_eq!(connection.request("PUT", &put, Some(&definition.to_string())).status, 201);
        let mut edits = 0;
        // The job has finished when an edit is refused.
        while describe(&mut connection, &name, &edits.to_string()) == 200 {
            edits += 1;
        }
        let finished = properties(&mut connection, &name);
        assert_eq!(finished["state"], "Completed", "round {round} after {edits} edits");
        assert_eq!(finished["status"]["executionCount"], 1, "round {round} after {edits} edits");
        assert!(edits > 0);
    }
    assert_eq!(calls.try_iter().count(), 25);
}
