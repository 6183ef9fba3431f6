//! A target that accepts connections and never responds.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::target::{TIMEOUT, get, job, path, start, target, wait_for};

const JOBS: usize = 20;
/// Manual runs of each job, beside the scheduled one.
const MANUAL_RUNS: usize = 50;
/// Maximum number of attempts in flight per host.
const SLOTS: usize = 256;

fn gauge(connection: &mut Connection, name: &str) -> usize {
    let page = connection.request("GET", "/metrics", None).body;
    let line = page.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().parse().unwrap()
}

/// A daily job that runs at once and whose attempts wait for half an hour.
fn hanging(uri: &str) -> String {
    let mut job: Value = serde_json::from_str(&job(uri, json!({"retryType": "None"}))).unwrap();
    job["properties"]["recurrence"] = json!({"frequency": "day", "interval": 1});
    job["properties"]["timeout"] = json!("PT30M");
    job.to_string()
}

#[test]
fn a_thousand_runs_at_a_target_that_hangs_do_not_delay_other_jobs_of_their_collection() {
    // The system completes the handshake; nobody reads the request.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = hanging(&format!("http://{}/", listener.local_addr().unwrap()));
    let (healthy, calls) = target();
    let (_server, mut connection) = start();
    for number in 0..JOBS {
        let put = connection.request("PUT", &path(&format!("/jobs/dead{number}")), Some(&dead));
        assert_eq!(put.status, 201, "{put:?}");
    }
    for run in 0..JOBS * MANUAL_RUNS {
        let target = path(&format!("/jobs/dead{}/run", run % JOBS));
        let response = connection.request("POST", &target, None);
        assert!(response.status < 300, "{response:?}");
    }
    let in_flight = wait_for(|| {
        let in_flight = gauge(&mut connection, "kalends_attempts_under_way ");
        (in_flight == SLOTS).then_some(in_flight)
    });
    assert_eq!(in_flight, Some(SLOTS));

    let healthy = job(&format!("http://{healthy}/"), json!({"retryType": "None"}));
    assert_eq!(connection.request("PUT", &path("/jobs/healthy"), Some(&healthy)).status, 201);
    let call = calls.recv_timeout(TIMEOUT).expect("the healthy job runs");
    assert_eq!(call.headers["x-ms-scheduler-jobid"], "healthy");

    let mut disabled: Value = serde_json::from_str(&dead).unwrap();
    disabled["properties"]["state"] = json!("Disabled");
    let disabled = disabled.to_string();
    let parked = JOBS * (MANUAL_RUNS + 1) - SLOTS;
    let found = wait_for(|| {
        // An edit makes the engine count them.
        connection.request("PUT", &path("/jobs/disabled"), Some(&disabled));
        let found = gauge(&mut connection, "kalends_runs_parked ");
        (found == parked).then_some(found)
    });
    assert_eq!(found, Some(parked), "the other runs wait in the store");
    assert_eq!(gauge(&mut connection, "kalends_attempts_under_way "), SLOTS);
    let explained = get(&mut connection, &path(&format!("/jobs/dead{}/explain", JOBS - 1)));
    assert_eq!(explained["reason"], "Waiting", "{explained}");
    let sentence = explained["explanation"].as_str().unwrap_or_default();
    assert!(sentence.contains("free slot"), "{explained}");
}
