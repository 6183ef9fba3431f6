//! Conflicting edits, full disks and database outages.

use std::sync::Barrier;

use crate::connection::{Connection, Response};
use crate::forwarder::{Forwarder, Link};
use crate::small_disk::SmallDisk;
use crate::test_server::TestServer;
use crate::tokens::{JOB, STANDARD, code, collection, new, request_as};

const TOKEN: &str = "correct-horse-battery";

fn job(name: &str) -> String {
    format!("{}/jobs/{name}", collection("g", "c"))
}

/// Creates a completed job. Only the old versions accept an `endTime` in the past.
fn create_completed_job(connection: &mut Connection) {
    assert_eq!(connection.request("PUT", &new(&collection("g", "c")), Some(STANDARD)).status, 201);
    let ended = JOB
        .replace(r#""frequency":"Day""#, r#""frequency":"Day","endTime":"2020-01-01""#)
        .replace("Disabled", "Enabled");
    let refused = connection.request("PUT", &new(&job("completed")), Some(&ended));
    assert_eq!(code(&refused), (400, "RecurrenceNeverFires".into()));
    let created = connection.request("PUT", &old(&job("completed")), Some(&ended));
    assert!(created.status == 201 && created.body.contains("completed"), "{created:?}");
}

/// A path with an old API version.
fn old(path: &str) -> String {
    format!("{path}?api-version=2016-03-01")
}

#[test]
fn a_completed_job_cannot_be_run_in_the_old_versions() {
    let server = TestServer::start();
    let mut connection = server.connect();
    create_completed_job(&mut connection);
    let run = format!("{}/run", job("completed"));
    let response = connection.request("POST", &old(&run), None);
    assert_eq!(code(&response), (409, "Conflict".into()));
    assert_eq!(connection.request("POST", &new(&run), None).status, 200);
}

/// The job would appear enabled but never run.
#[test]
fn a_completed_job_cannot_be_enabled_again() {
    let server = TestServer::start();
    let mut connection = server.connect();
    create_completed_job(&mut connection);
    for state in ["Enabled", "Disabled"] {
        let edit = format!(r#"{{"properties":{{"state":"{state}"}}}}"#);
        let target = new(&job("completed"));
        let response = connection.request("PATCH", &target, Some(&edit));
        assert_eq!(code(&response), (409, "JobStateFinal".into()));
        let response =
            connection.request("PATCH", &target.replace("2026-11-01", "2016-03-01"), Some(&edit));
        assert_eq!(code(&response), (409, "Conflict".into()));
    }
    let shown = connection.request("GET", &new(&job("completed")), None);
    assert!(shown.status == 200 && shown.body.contains("Completed"), "{shown:?}");
}

/// Method, target, headers and body.
type Request<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], Option<&'a str>);

/// Sends two requests concurrently.
fn send_concurrently(server: &TestServer, requests: [Request<'_>; 2]) -> [Response; 2] {
    let (together, address) = (Barrier::new(2), server.address);
    std::thread::scope(|scope| {
        let threads = requests.map(|(method, target, headers, body)| {
            let together = &together;
            scope.spawn(move || {
                let mut connection = Connection::new(address);
                together.wait();
                connection.request_with(method, target, headers, body)
            })
        });
        threads.map(|thread| thread.join().unwrap())
    })
}

#[test]
fn of_two_concurrent_edits_of_one_version_one_succeeds() {
    let server = TestServer::start();
    let mut connection = server.connect();
    assert_eq!(connection.request("PUT", &new(&collection("g", "c")), Some(STANDARD)).status, 201);
    let target = new(&job("j"));
    let mut etag = connection.request("PUT", &target, Some(JOB)).header("ETag").unwrap().to_owned();
    for round in 0..20 {
        let edit =
            |number: u32| JOB.replace("example.org", &format!("example.org/{round}-{number}"));
        let (one, other) = (edit(1), edit(2));
        let condition = [("If-Match", etag.as_str())];
        let put = |body| ("PUT", target.as_str(), condition.as_slice(), Some(body));
        let responses = send_concurrently(&server, [put(one.as_str()), put(other.as_str())]);
        let mut statuses = responses.each_ref().map(|response| response.status);
        statuses.sort();
        assert_eq!(statuses, [200, 412], "{responses:?}");
        let created = responses.iter().find(|response| response.status == 200).unwrap();
        etag = created.header("ETag").unwrap().to_owned();
        let refused = responses.iter().find(|response| response.status == 412).unwrap();
        assert_eq!(code(refused).1, "PreconditionFailed");
    }
}

#[test]
fn a_job_created_while_its_collection_is_deleted_does_not_survive() {
    let server = TestServer::start();
    let parent = new(&collection("g", "c"));
    for _ in 0..20 {
        let mut connection = server.connect();
        assert_eq!(connection.request("PUT", &parent, Some(STANDARD)).status, 201);
        let target = new(&job("j"));
        let requests: [Request<'_>; 2] =
            [("PUT", &target, &[], Some(JOB)), ("DELETE", &parent, &[], None)];
        let [put, deleted] = send_concurrently(&server, requests);
        assert_eq!(deleted.status, 200, "{deleted:?}");
        assert!(matches!(put.status, 201 | 404), "{put:?}");
        assert_eq!(connection.request("GET", &target, None).status, 404);
        assert_eq!(connection.request("PUT", &parent, Some(STANDARD)).status, 201);
        assert_eq!(connection.request("GET", &target, None).status, 404, "the job did not survive");
        assert_eq!(connection.request("DELETE", &parent, None).status, 200);
    }
}

#[test]
fn a_full_disk_returns_507_and_acknowledged_writes_survive() {
    let Some(disk) = SmallDisk::mount("3m") else { return };
    let server = TestServer::start_in(&disk.store(), |command| {
        command.env("KALENDS_AUDIT_LOG", "off");
    });
    let mut connection = server.connect();
    let premium = STANDARD.replace("Standard", "P20Premium");
    assert_eq!(connection.request("PUT", &new(&collection("g", "c")), Some(&premium)).status, 201);
    let large =
        JOB.replace("http://example.org/", &format!("http://example.org/{}", "x".repeat(1_900)));
    let mut created = Vec::new();
    let refused = loop {
        let name = format!("j{}", created.len());
        let response = connection.request("PUT", &new(&job(&name)), Some(&large));
        if response.status != 201 {
            break response;
        }
        created.push(name);
        assert!(created.len() < 5_000, "the disk does not fill");
    };
    assert_eq!(code(&refused), (507, "InsufficientStorage".into()));
    assert!(refused.header("Retry-After").is_some());
    for name in created.iter().rev().take(10) {
        assert_eq!(connection.request("GET", &new(&job(name)), None).status, 200, "{name}");
    }
    let next = new(&job(&format!("j{}", created.len())));
    assert_eq!(
        connection.request("GET", &next, None).status,
        404,
        "the refused job does not exist"
    );
}

#[test]
fn a_database_outage_returns_503_and_an_unknown_outcome_its_own_code() {
    let Ok(database) = std::env::var("KALENDS_TEST_POSTGRES") else {
        eprintln!("SKIPPED: no KALENDS_TEST_POSTGRES; see scripts/with-postgres");
        return;
    };
    let (user, rest) = database.split_once('@').unwrap();
    let (address, name) = rest.split_once('/').unwrap();
    let forwarder = Forwarder::start(address);
    let store = format!("{user}@{}/{name}", forwarder.address);
    let server = TestServer::start_in(&store, |command| {
        command
            .env("KALENDS_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
            .env("KALENDS_TOKEN", TOKEN)
            .env("KALENDS_AUDIT_LOG", "off");
    });
    let mut connection = server.connect();
    let mut put = |target: &str, body: &str| {
        request_as(&mut connection, TOKEN, "PUT", &new(target), Some(body))
    };
    assert_eq!(put(&collection("g", "c"), STANDARD).status, 201);
    assert!(matches!(put(&job("before"), JOB).status, 200 | 201));

    forwarder.set(Link::DownDuringCommit);
    let unknown = put(&job("unknown"), JOB);
    assert_eq!(code(&unknown), (503, "OperationOutcomeUnknown".into()));
    assert!(unknown.header("Retry-After").is_some());
    forwarder.set(Link::Up);
    assert!(matches!(put(&job("unknown"), JOB).status, 200 | 201), "a repeated PUT is safe");

    forwarder.set(Link::Down);
    for target in [job("j"), collection("g", "c")] {
        let response = put(&target, if target.contains("/jobs/") { JOB } else { STANDARD });
        assert_eq!(code(&response), (503, "StoreUnavailable".into()), "{target}");
        assert!(response.header("Retry-After").is_some());
    }
    // Stored tokens cannot be verified during the outage: 503, not 401.
    let mut connection = server.connect();
    let stored = format!("kal_0123456789abcdef_{}", "A".repeat(43));
    let response = request_as(&mut connection, &stored, "GET", &new(&job("before")), None);
    assert_eq!(code(&response), (503, "StoreUnavailable".into()));
    assert_eq!(connection.request("GET", "/livez", None).status, 200);
    assert_eq!(connection.request("GET", "/readyz", None).status, 503);

    forwarder.set(Link::Up);
    let response = request_as(&mut connection, TOKEN, "GET", &new(&job("before")), None);
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(request_as(&mut connection, TOKEN, "GET", &new(&job("j")), None).status, 404);
    let group = collection("g", "c");
    assert_eq!(request_as(&mut connection, TOKEN, "DELETE", &new(&group), None).status, 200);
}
