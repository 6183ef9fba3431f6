//! How often somebody may ask.

use crate::connection::Connection;
use crate::tokens::{JOB, STANDARD, SUBSCRIPTION, ask, code, collection, create, guarded, new};

#[test]
fn a_token_that_writes_too_often_is_told_to_wait_and_others_are_not() {
    let (server, owner) = guarded(&[("KALENDS_WRITES_PER_MINUTE", "5")]);
    let mut connection = server.connect();
    let target = new(&collection("g", "c"));
    for left in (0..5).rev() {
        let answer = ask(&mut connection, &owner, "PUT", &target, Some(STANDARD));
        assert_eq!(answer.status, 201);
        let header = answer.header("x-ms-ratelimit-remaining-subscription-writes");
        assert_eq!(header, Some(left.to_string().as_str()));
    }
    let answer = ask(&mut connection, &owner, "PUT", &target, Some(STANDARD));
    assert_eq!(code(&answer), (429, "TooManyRequests".into()));
    let left = answer.header("x-ms-ratelimit-remaining-subscription-writes");
    assert_eq!(left, Some("0"));
    let wait: u64 = answer.header("Retry-After").unwrap().parse().unwrap();
    assert!((1..=12).contains(&wait), "{wait}");
    let old = target.replace("2026-11-01", "2016-03-01");
    let answer = ask(&mut connection, &owner, "PUT", &old, Some(STANDARD));
    assert_eq!(code(&answer), (429, "TooManyRequests".into()));
    assert_eq!(ask(&mut connection, &owner, "GET", &target, None).status, 200);
    let other = create(server.folder(), "contributor", SUBSCRIPTION, &[]);
    assert_eq!(ask(&mut connection, &other, "PUT", &target, Some(STANDARD)).status, 201);
}

#[test]
fn an_address_with_too_many_wrong_tokens_is_told_to_wait_and_a_right_one_passes() {
    let (server, owner) = guarded(&[("KALENDS_FAILURES_PER_MINUTE", "3")]);
    let mut connection = server.connect();
    let target = new(&format!("{SUBSCRIPTION}/resourceGroups"));
    for number in 0..5 {
        let answer = ask(&mut connection, &format!("guess-{number}"), "GET", &target, None);
        let expected = if number < 3 { 401 } else { 429 };
        assert_eq!(answer.status, expected, "{number}");
        assert_eq!(answer.header("Retry-After").is_some(), number >= 3);
        assert_eq!(ask(&mut connection, &owner, "GET", &target, None).status, 200);
    }
}

#[test]
fn ten_thousand_runs_at_once_are_cut_to_what_is_allowed() {
    const ASKED: usize = 10_000;
    let (server, owner) =
        guarded(&[("KALENDS_WRITES_PER_MINUTE", "1000000"), ("KALENDS_RUNS_PER_MINUTE", "50")]);
    let path = collection("g", "c");
    let run = new(&format!("{path}/jobs/j/run"));
    let mut connection = server.connect();
    assert_eq!(ask(&mut connection, &owner, "PUT", &new(&path), Some(STANDARD)).status, 201);
    let job = new(&format!("{path}/jobs/j"));
    assert_eq!(ask(&mut connection, &owner, "PUT", &job, Some(JOB)).status, 201);
    let address = server.address;
    let asked = |_| {
        let mut connection = Connection::new(address);
        let statuses = (0..ASKED / 8).map(|_| ask(&mut connection, &owner, "POST", &run, None));
        statuses
            .filter(|answer| match answer.status {
                200 => true,
                429 => answer.header("Retry-After").is_none(),
                status => panic!("{status}"),
            })
            .count()
    };
    let run_count: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|number| scope.spawn(move || asked(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!((50..ASKED / 10).contains(&run_count), "{run_count}");
    // Another collection has its own.
    let mut connection = server.connect();
    let other = collection("g", "d");
    assert_eq!(ask(&mut connection, &owner, "PUT", &new(&other), Some(STANDARD)).status, 201);
    let job = format!("{other}/jobs/j");
    assert_eq!(ask(&mut connection, &owner, "PUT", &new(&job), Some(JOB)).status, 201);
    let run = new(&format!("{job}/run"));
    assert_eq!(ask(&mut connection, &owner, "POST", &run, None).status, 200);
}

#[test]
fn an_address_with_enough_connections_gets_no_more() {
    let (server, owner) = guarded(&[("KALENDS_CONNECTIONS_PER_CLIENT", "2")]);
    let target = new(&format!("{SUBSCRIPTION}/resourceGroups"));
    let mut kept = [server.connect(), server.connect()];
    for connection in &mut kept {
        assert_eq!(ask(connection, &owner, "GET", &target, None).status, 200);
    }
    let mut refused = server.connect();
    refused.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(refused.read_to_end(), "", "closed at once");
}
