//! Test runs: attempts of definitions that are not saved.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::audit::lines;
use crate::connection::{Connection, Response};
use crate::target::{TIMEOUT, history, path, start, target};
use crate::test_server::TestServer;
use crate::tokens::{STANDARD, code, collection, create, guarded, new, request_as};

fn definition(uri: &str) -> Value {
    json!({"properties": {
        "startTime": "2026-12-01T00:00:00Z",
        "recurrence": {"frequency": "Day", "interval": 1},
        "action": {"type": "Http", "request": {"uri": uri, "method": "POST", "body": "hello"}},
    }})
}

fn test_run(connection: &mut Connection, name: &str, definition: &Value) -> Response {
    let target = path(&format!("/jobs/{name}/test-run"));
    connection.request("POST", &target, Some(&definition.to_string()))
}

fn result(response: &Response) -> Value {
    assert_eq!(response.status, 200, "{response:?}");
    serde_json::from_str(&response.body).unwrap()
}

#[test]
fn a_test_run_is_one_attempt_that_leaves_nothing_behind() {
    let (address, calls) = target();
    let (_server, mut connection) = start();
    let mut job = definition(&format!("http://{address}/fail"));
    job["properties"]["action"]["retryPolicy"] = json!({"retryType": "Fixed", "retryCount": 3});
    job["properties"]["action"]["errorAction"] =
        definition(&format!("http://{address}/error"))["properties"]["action"].clone();
    let put = connection.request("PUT", &path("/jobs/saved"), Some(&job.to_string()));
    assert_eq!(put.status, 201, "{put:?}");
    for name in ["saved", "new"] {
        let run = result(&test_run(&mut connection, name, &job));
        assert_eq!(run["status"], "Failed", "{run}");
        let message = run["message"].as_str().unwrap();
        assert!(message.contains("ServiceUnavailable") && message.contains("hello"), "{run}");
        assert!(run["timing"]["total"].is_string(), "{run}");
        assert!(run["startTime"].as_str() <= run["endTime"].as_str(), "{run}");
        let call = calls.recv_timeout(TIMEOUT).unwrap();
        assert_eq!((call.line.as_str(), call.body.as_str()), ("POST /fail HTTP/1.1", "hello"));
        assert!(calls.try_recv().is_err());
    }
    assert_eq!(connection.request("GET", &path("/jobs/new"), None).status, 404);
    assert!(history(&mut connection, "saved").is_empty());
    let saved = connection.request("GET", &path("/jobs/saved"), None);
    assert_eq!(saved.header("ETag"), put.header("ETag"));
    let saved: Value = serde_json::from_str(&saved.body).unwrap();
    assert_eq!(saved["properties"]["status"]["executionCount"], 0, "{saved}");

    let run = result(&test_run(&mut connection, "new", &definition(&format!("http://{address}/"))));
    assert_eq!(run["status"], "Completed", "{run}");
}

#[test]
fn test_runs_of_one_job_have_idempotency_keys_of_their_own() {
    let (address, calls) = target();
    let (_server, mut connection) = start();
    let job = definition(&format!("http://{address}/"));
    let mut key = || {
        result(&test_run(&mut connection, "j", &job));
        calls.recv_timeout(TIMEOUT).unwrap().headers["idempotency-key"].clone()
    };
    assert_ne!(key(), key());
}

#[test]
fn a_test_run_sends_a_stored_secret_to_its_own_host_only() {
    let (trusted, trusted_calls) = target();
    let (attacker, attacker_calls) = target();
    let (_server, mut connection) = start();
    let with_password = |address, password: &str| {
        let mut job = definition(&format!("http://{address}/"));
        job["properties"]["action"]["request"]["authentication"] =
            json!({"type": "Basic", "username": "user", "password": password});
        job
    };
    let stored = with_password(trusted, "canary").to_string();
    assert_eq!(connection.request("PUT", &path("/jobs/j"), Some(&stored)).status, 201);
    let run = test_run(&mut connection, "j", &with_password(trusted, "${stored}"));
    assert_eq!(result(&run)["status"], "Completed", "{run:?}");
    let call = trusted_calls.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(call.headers["authorization"], "Basic dXNlcjpjYW5hcnk=", "user:canary");

    for (name, address) in [("j", attacker), ("other", trusted)] {
        let refused = test_run(&mut connection, name, &with_password(address, "${stored}"));
        assert_eq!(code(&refused), (400, "MissingSecret".into()), "{refused:?}");
    }
    assert!(attacker_calls.try_recv().is_err());
    assert!(trusted_calls.try_recv().is_err());
}

#[test]
fn a_test_run_cannot_reach_addresses_that_jobs_may_not_call() {
    let (address, calls) = target();
    let (_server, mut connection) = start();
    // The metadata service of a cloud, directly and by a redirect.
    let refused = test_run(&mut connection, "j", &definition("http://169.254.169.254/"));
    assert_eq!(code(&refused), (400, "DestinationNotAllowed".into()));
    let redirected = format!("http://{address}/metadata");
    let run = result(&test_run(&mut connection, "j", &definition(&redirected)));
    assert_eq!(run["status"], "Failed", "{run}");
    calls.recv_timeout(TIMEOUT).unwrap();

    let (server, owner) = guarded(&[("KALENDS_HOLD", "0")]);
    let mut connection = server.connect();
    let path = collection("g", "c");
    let put = request_as(&mut connection, &owner, "PUT", &new(&path), Some(STANDARD));
    assert_eq!(put.status, 201, "{put:?}");
    let target = new(&format!("{path}/jobs/j/test-run"));
    let port = address.port();
    for host in ["127.0.0.1", "[::ffff:127.0.0.1]", "2130706433", "localhost"] {
        let body = definition(&format!("http://{host}:{port}/")).to_string();
        let refused = request_as(&mut connection, &owner, "POST", &target, Some(&body));
        assert_eq!(code(&refused), (400, "DestinationNotAllowed".into()), "{host}");
    }
    assert!(calls.try_recv().is_err());
}

#[test]
fn a_test_run_requires_the_permission_to_save_and_is_in_the_audit_log() {
    let (server, owner) = guarded(&[("KALENDS_HOLD", "0")]);
    let mut connection = server.connect();
    let path = collection("g", "c");
    let put = request_as(&mut connection, &owner, "PUT", &new(&path), Some(STANDARD));
    assert_eq!(put.status, 201, "{put:?}");
    let target = new(&format!("{path}/jobs/j/test-run"));
    let body = definition("http://127.0.0.1/").to_string();
    for (role, scope, expected) in [
        ("reader", &path, (403, "AuthorizationFailed")),
        ("operator", &path, (403, "AuthorizationFailed")),
        ("owner", &collection("g", "other"), (404, "ResourceNotFound")),
        ("contributor", &path, (400, "DestinationNotAllowed")),
    ] {
        let token = create(server.folder(), role, scope, &[]);
        let response = request_as(&mut connection, &token, "POST", &target, Some(&body));
        let (status, found) = code(&response);
        assert_eq!((status, found.as_str()), expected, "{role}");
    }
    let logged = lines(&server.folder().join("audit.log"));
    let operation = "Microsoft.Scheduler/jobCollections/jobs/testRun/action";
    let statuses: Vec<_> = logged
        .iter()
        .filter(|line| line["operation"] == operation)
        .map(|line| line["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [403, 403, 404, 400]);
}

#[test]
fn a_fifth_test_run_at_the_same_time_is_refused() {
    // Accepts connections and never responds.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let job = definition(&format!("http://{}/", listener.local_addr().unwrap()));
    let (server, mut connection) = start();
    std::thread::scope(|scope| {
        let (job, server) = (&job, &server);
        let mut waiting = vec![];
        let mut streams = vec![];
        for _ in 0..4 {
            let mut connection = server.connect();
            waiting.push(scope.spawn(move || test_run(&mut connection, "j", job)));
            streams.push(listener.accept().unwrap());
        }
        let refused = test_run(&mut connection, "j", job);
        assert_eq!(code(&refused), (429, "TooManyRequests".into()));
        assert!(refused.header("Retry-After").is_some(), "{refused:?}");
        // The target closes the connections.
        drop((streams, listener));
        for thread in waiting {
            assert_eq!(result(&thread.join().unwrap())["status"], "Failed");
        }
    });
    let unreachable = definition("http://127.0.0.1:9999/");
    assert_eq!(result(&test_run(&mut connection, "j", &unreachable))["status"], "Failed");
}

#[test]
fn test_runs_count_as_manual_runs() {
    let (server, owner) = guarded(&[("KALENDS_HOLD", "0"), ("KALENDS_RUNS_PER_MINUTE", "1")]);
    let mut connection = server.connect();
    let path = collection("g", "c");
    let put = request_as(&mut connection, &owner, "PUT", &new(&path), Some(STANDARD));
    assert_eq!(put.status, 201, "{put:?}");
    let target = new(&format!("{path}/jobs/j/test-run"));
    // The name does not resolve, so nothing is sent.
    let body = definition("http://target.invalid/").to_string();
    let mut run = || request_as(&mut connection, &owner, "POST", &target, Some(&body));
    assert_eq!(result(&run())["status"], "Failed");
    assert_eq!(code(&run()), (429, "TooManyRequests".into()));
}

#[test]
fn a_server_on_hold_refuses_test_runs() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let target = "/api/collections/web/jobs/j/test-run";
    let body = definition("http://127.0.0.1:9999/").to_string();
    let refused = connection.request("POST", target, Some(&body));
    assert_eq!(code(&refused), (409, "JobNotRunnable".into()));
}

#[test]
fn a_pause_of_all_jobs_holds_for_test_runs_too() {
    let (address, calls) = target();
    let (_server, mut connection) = start();
    let pause = json!({"reason": "maintenance"}).to_string();
    assert_eq!(connection.request("POST", "/api/pause", Some(&pause)).status, 200);
    let job = definition(&format!("http://{address}/"));
    let refused = test_run(&mut connection, "j", &job);
    assert_eq!(code(&refused), (409, "Paused".into()));
    // The collection of this path does not exist.
    let target = "/api/collections/none/jobs/j/test-run";
    let refused = connection.request("POST", target, Some(&job.to_string()));
    assert_eq!(code(&refused), (409, "Paused".into()));
    assert!(calls.try_recv().is_err());
    assert_eq!(connection.request("POST", "/api/resume", None).status, 200);
    assert_eq!(result(&test_run(&mut connection, "j", &job))["status"], "Completed");
}
