//! Rate limits and connection limits.

use serde_json::{Value, json};

use crate::connection::{Connection, Response};
use crate::tokens::{
    JOB, STANDARD, SUBSCRIPTION, code, collection, create, guarded, new, request_as,
};

#[test]
fn the_write_limit_applies_to_each_token() {
    let (server, owner) = guarded(&[("KALENDS_WRITES_PER_MINUTE", "5")]);
    let mut connection = server.connect();
    let target = new(&collection("g", "c"));
    for left in (0..5).rev() {
        let response = request_as(&mut connection, &owner, "PUT", &target, Some(STANDARD));
        assert_eq!(response.status, 201);
        let header = response.header("x-ms-ratelimit-remaining-subscription-writes");
        assert_eq!(header, Some(left.to_string().as_str()));
    }
    let response = request_as(&mut connection, &owner, "PUT", &target, Some(STANDARD));
    assert_eq!(code(&response), (429, "TooManyRequests".into()));
    let left = response.header("x-ms-ratelimit-remaining-subscription-writes");
    assert_eq!(left, Some("0"));
    let wait: u64 = response.header("Retry-After").unwrap().parse().unwrap();
    assert!((1..=12).contains(&wait), "{wait}");
    let old = target.replace("2026-11-01", "2016-03-01");
    let response = request_as(&mut connection, &owner, "PUT", &old, Some(STANDARD));
    assert_eq!(code(&response), (429, "TooManyRequests".into()));
    assert_eq!(request_as(&mut connection, &owner, "GET", &target, None).status, 200);
    let other = create(server.folder(), "contributor", SUBSCRIPTION, &[]);
    assert_eq!(request_as(&mut connection, &other, "PUT", &target, Some(STANDARD)).status, 201);
}

#[test]
fn a_preview_counts_as_a_write_and_a_preview_of_many_definitions_once() {
    let (server, owner) = guarded(&[("KALENDS_WRITES_PER_MINUTE", "5")]);
    let mut connection = server.connect();
    let path = collection("g", "c");
    assert_eq!(request_as(&mut connection, &owner, "PUT", &new(&path), Some(STANDARD)).status, 201);
    let left = |response: &Response| {
        let header = response.header("x-ms-ratelimit-remaining-subscription-writes");
        header.map(str::to_owned)
    };
    let one = new(&format!("{path}/jobs/j/preview"));
    let preview = request_as(&mut connection, &owner, "POST", &one, Some(JOB));
    assert_eq!((preview.status, left(&preview).as_deref()), (200, Some("3")));
    let many = new(&format!("{path}/jobs/preview"));
    let definition: Value = serde_json::from_str(JOB).unwrap();
    let job = |number: usize| match number {
        7 => json!({"name": "j7", "definition": {"properties": {}}}),
        _ => json!({"name": format!("j{number}"), "definition": definition}),
    };
    let body = |count: usize| json!({"jobs": (0..count).map(job).collect::<Vec<_>>()}).to_string();
    let preview = request_as(&mut connection, &owner, "POST", &many, Some(&body(1_000)));
    assert_eq!((preview.status, left(&preview).as_deref()), (200, Some("2")), "{preview:?}");
    let list: Value = serde_json::from_str(&preview.body).unwrap();
    let values = list["value"].as_array().unwrap();
    assert_eq!(values.len(), 1_000);
    for (number, value) in values.iter().enumerate() {
        assert_eq!(value["name"], format!("c/j{number}"));
        match number {
            7 => {
                assert_eq!(value["error"]["code"], "MissingRequiredProperty");
                assert_eq!(value["error"]["target"], "properties.action");
            }
            _ => assert_eq!(value["preview"]["effect"], "Create", "{value}"),
        }
    }
    let more = request_as(&mut connection, &owner, "POST", &many, Some(&body(1_001)));
    assert_eq!(code(&more), (400, "InvalidRequestContent".into()));
    let unknown = r#"{"jobs":[{"name":"a","definition":{},"kind":"x"}]}"#;
    let unknown = request_as(&mut connection, &owner, "POST", &many, Some(unknown));
    assert_eq!(code(&unknown), (400, "UnknownProperty".into()));
    let refused = request_as(&mut connection, &owner, "POST", &one, Some(JOB));
    assert_eq!(code(&refused), (429, "TooManyRequests".into()));
    let listed = request_as(&mut connection, &owner, "GET", &new(&format!("{path}/jobs")), None);
    assert!(listed.body.contains(r#""value":[]"#), "nothing was saved: {listed:?}");
}

#[test]
fn failed_authentications_are_limited_and_valid_tokens_still_pass() {
    let (server, owner) = guarded(&[("KALENDS_FAILURES_PER_MINUTE", "3")]);
    let mut connection = server.connect();
    let target = new(&format!("{SUBSCRIPTION}/resourceGroups"));
    for number in 0..5 {
        let response =
            request_as(&mut connection, &format!("guess-{number}"), "GET", &target, None);
        let expected = if number < 3 { 401 } else { 429 };
        assert_eq!(response.status, expected, "{number}");
        assert_eq!(response.header("Retry-After").is_some(), number >= 3);
        assert_eq!(request_as(&mut connection, &owner, "GET", &target, None).status, 200);
    }
}

#[test]
fn concurrent_run_requests_are_limited_per_collection() {
    const REQUESTS: usize = 10_000;
    let (server, owner) =
        guarded(&[("KALENDS_WRITES_PER_MINUTE", "1000000"), ("KALENDS_RUNS_PER_MINUTE", "50")]);
    let path = collection("g", "c");
    let run = new(&format!("{path}/jobs/j/run"));
    let mut connection = server.connect();
    assert_eq!(request_as(&mut connection, &owner, "PUT", &new(&path), Some(STANDARD)).status, 201);
    let job = new(&format!("{path}/jobs/j"));
    assert_eq!(request_as(&mut connection, &owner, "PUT", &job, Some(JOB)).status, 201);
    let address = server.address;
    let count_accepted = |_| {
        let mut connection = Connection::new(address);
        let statuses =
            (0..REQUESTS / 8).map(|_| request_as(&mut connection, &owner, "POST", &run, None));
        statuses
            .filter(|response| match response.status {
                200 => true,
                429 => response.header("Retry-After").is_none(),
                status => panic!("{status}"),
            })
            .count()
    };
    let run_count: usize = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|number| scope.spawn(move || count_accepted(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!((50..REQUESTS / 10).contains(&run_count), "{run_count}");
    // Another collection has its own limit.
    let mut connection = server.connect();
    let other = collection("g", "d");
    assert_eq!(
        request_as(&mut connection, &owner, "PUT", &new(&other), Some(STANDARD)).status,
        201
    );
    let job = format!("{other}/jobs/j");
    assert_eq!(request_as(&mut connection, &owner, "PUT", &new(&job), Some(JOB)).status, 201);
    let run = new(&format!("{job}/run"));
    assert_eq!(request_as(&mut connection, &owner, "POST", &run, None).status, 200);
}

#[test]
fn connections_are_limited_per_client_address() {
    let (server, owner) = guarded(&[("KALENDS_CONNECTIONS_PER_CLIENT", "2")]);
    let target = new(&format!("{SUBSCRIPTION}/resourceGroups"));
    let mut open = [server.connect(), server.connect()];
    for connection in &mut open {
        assert_eq!(request_as(connection, &owner, "GET", &target, None).status, 200);
    }
    let mut refused = server.connect();
    refused.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(refused.read_to_end(), "", "the server closes it immediately");
}
