//! Requests that come at the same time, and stores that cannot do as they are asked.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;

use crate::connection::{Answer, Connection};
use crate::forwarder::{Forwarder, Line};
use crate::running::Running;
use crate::tokens::{JOB, STANDARD, ask, code, collection, new};

const TOKEN: &str = "correct-horse-battery";

fn job(name: &str) -> String {
    format!("{}/jobs/{name}", collection("g", "c"))
}

/// Makes a job that is over.
fn finish(connection: &mut Connection) {
    assert_eq!(connection.ask("PUT", &new(&collection("g", "c")), Some(STANDARD)).status, 201);
    let ended = JOB
        .replace(r#""frequency":"Day""#, r#""frequency":"Day","endTime":"2020-01-01""#)
        .replace("Disabled", "Enabled");
    let made = connection.ask("PUT", &new(&job("over")), Some(&ended));
    assert!(made.status == 201 && made.body.contains("Completed"), "{made:?}");
}

#[test]
fn a_finished_job_cannot_be_run() {
    let server = Running::start();
    let mut connection = server.connect();
    finish(&mut connection);
    let run = new(&format!("{}/run", job("over")));
    let answer = connection.ask("POST", &run, None);
    assert_eq!(code(&answer), (409, "JobNotRunnable".into()));
    let answer = connection.ask("POST", &run.replace("2026-11-01", "2016-03-01"), None);
    assert_eq!(code(&answer), (409, "Conflict".into()));
}

/// It would look enabled and be dead.
#[test]
fn a_finished_job_cannot_be_switched_on_again() {
    let server = Running::start();
    let mut connection = server.connect();
    finish(&mut connection);
    for state in ["Enabled", "Disabled"] {
        let edit = format!(r#"{{"properties":{{"state":"{state}"}}}}"#);
        let target = new(&job("over"));
        let answer = connection.ask("PATCH", &target, Some(&edit));
        assert_eq!(code(&answer), (409, "JobStateFinal".into()));
        let answer =
            connection.ask("PATCH", &target.replace("2026-11-01", "2016-03-01"), Some(&edit));
        assert_eq!(code(&answer), (409, "Conflict".into()));
    }
    let shown = connection.ask("GET", &new(&job("over")), None);
    assert!(shown.status == 200 && shown.body.contains("Completed"), "{shown:?}");
}

/// Method, target, headers and body.
type Asking<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], Option<&'a str>);

/// Asks two things at the same time.
fn at_once(server: &Running, asks: [Asking<'_>; 2]) -> [Answer; 2] {
    let (together, address) = (Barrier::new(2), server.address);
    std::thread::scope(|scope| {
        let threads = asks.map(|(method, target, headers, body)| {
            let together = &together;
            scope.spawn(move || {
                let mut connection = Connection::new(address);
                together.wait();
                connection.ask_with(method, target, headers, body)
            })
        });
        threads.map(|thread| thread.join().unwrap())
    })
}

#[test]
fn of_two_edits_of_one_version_one_is_made() {
    let server = Running::start();
    let mut connection = server.connect();
    assert_eq!(connection.ask("PUT", &new(&collection("g", "c")), Some(STANDARD)).status, 201);
    let target = new(&job("j"));
    let mut etag = connection.ask("PUT", &target, Some(JOB)).header("ETag").unwrap().to_owned();
    for round in 0..20 {
        let edit =
            |number: u32| JOB.replace("example.org", &format!("example.org/{round}-{number}"));
        let (one, other) = (edit(1), edit(2));
        let condition = [("If-Match", etag.as_str())];
        let put = |body| ("PUT", target.as_str(), condition.as_slice(), Some(body));
        let answers = at_once(&server, [put(one.as_str()), put(other.as_str())]);
        let mut statuses = answers.each_ref().map(|answer| answer.status);
        statuses.sort();
        assert_eq!(statuses, [200, 412], "{answers:?}");
        let made = answers.iter().find(|answer| answer.status == 200).unwrap();
        etag = made.header("ETag").unwrap().to_owned();
        let refused = answers.iter().find(|answer| answer.status == 412).unwrap();
        assert_eq!(code(refused).1, "PreconditionFailed");
    }
}

#[test]
fn a_job_that_is_put_while_its_collection_is_deleted_is_deleted_with_it_or_not_made() {
    let server = Running::start();
    let place = new(&collection("g", "c"));
    for _ in 0..20 {
        let mut connection = server.connect();
        assert_eq!(connection.ask("PUT", &place, Some(STANDARD)).status, 201);
        let target = new(&job("j"));
        let asks: [Asking<'_>; 2] =
            [("PUT", &target, &[], Some(JOB)), ("DELETE", &place, &[], None)];
        let [put, deleted] = at_once(&server, asks);
        assert_eq!(deleted.status, 200, "{deleted:?}");
        assert!(matches!(put.status, 201 | 404), "{put:?}");
        assert_eq!(connection.ask("GET", &target, None).status, 404);
        assert_eq!(connection.ask("PUT", &place, Some(STANDARD)).status, 201);
        assert_eq!(connection.ask("GET", &target, None).status, 404, "nothing is left behind");
        assert_eq!(connection.ask("DELETE", &place, None).status, 200);
    }
}

/// A file system with little room. It is gone with the test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`, and loudly so, where there can be none.
    fn mount(folder: &Path, size: &str) -> Option<SmallDisk> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(folder)
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(SmallDisk(folder.to_owned()));
        }
        eprintln!("SKIPPED: a full disk needs the right to mount one");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_507_and_what_was_answered_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(folder.path(), "3m") else { return };
    let store = format!("sqlite:{}", folder.path().join("kalends.db").display());
    let server = Running::start_in(&store, |command| {
        command.env("KALENDS_AUDIT_LOG", "off");
    });
    let mut connection = server.connect();
    let premium = STANDARD.replace("Standard", "P20Premium");
    assert_eq!(connection.ask("PUT", &new(&collection("g", "c")), Some(&premium)).status, 201);
    let large =
        JOB.replace("http://example.org/", &format!("http://example.org/{}", "x".repeat(1_900)));
    let mut made = Vec::new();
    let refused = loop {
        let name = format!("j{}", made.len());
        let answer = connection.ask("PUT", &new(&job(&name)), Some(&large));
        if answer.status != 201 {
            break answer;
        }
        made.push(name);
        assert!(made.len() < 5_000, "the disk does not fill");
    };
    assert_eq!(code(&refused), (507, "InsufficientStorage".into()));
    assert!(refused.header("Retry-After").is_some());
    for name in made.iter().rev().take(10) {
        assert_eq!(connection.ask("GET", &new(&job(name)), None).status, 200, "{name}");
    }
    let next = new(&job(&format!("j{}", made.len())));
    assert_eq!(connection.ask("GET", &next, None).status, 404, "half of nothing");
}

#[test]
fn a_database_out_of_reach_is_503_and_an_unknown_outcome_is_said_so() {
    let Ok(database) = std::env::var("KALENDS_TEST_POSTGRES") else {
        eprintln!("SKIPPED: no KALENDS_TEST_POSTGRES; see scripts/with-postgres");
        return;
    };
    let (user, rest) = database.split_once('@').unwrap();
    let (address, name) = rest.split_once('/').unwrap();
    let forwarder = Forwarder::start(address);
    let store = format!("{user}@{}/{name}", forwarder.address);
    let server = Running::start_in(&store, |command| {
        command
            .env("KALENDS_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
            .env("KALENDS_TOKEN", TOKEN)
            .env("KALENDS_AUDIT_LOG", "off");
    });
    let mut connection = server.connect();
    let mut put =
        |target: &str, body: &str| ask(&mut connection, TOKEN, "PUT", &new(target), Some(body));
    assert_eq!(put(&collection("g", "c"), STANDARD).status, 201);
    assert!(matches!(put(&job("before"), JOB).status, 200 | 201));

    forwarder.set(Line::CutInCommit);
    let unknown = put(&job("unknown"), JOB);
    assert_eq!(code(&unknown), (503, "OperationOutcomeUnknown".into()));
    assert!(unknown.header("Retry-After").is_some());
    forwarder.set(Line::Whole);
    assert!(matches!(put(&job("unknown"), JOB).status, 200 | 201), "a repeated PUT is safe");

    forwarder.set(Line::Cut);
    for target in [job("j"), collection("g", "c")] {
        let answer = put(&target, if target.contains("/jobs/") { JOB } else { STANDARD });
        assert_eq!(code(&answer), (503, "ServerBusy".into()), "{target}");
        assert!(answer.header("Retry-After").is_some());
    }
    // A token of the store cannot be looked up; that is not the fault of who has it.
    let mut connection = server.connect();
    let stored = format!("kal_0123456789abcdef_{}", "A".repeat(43));
    let answer = ask(&mut connection, &stored, "GET", &new(&job("before")), None);
    assert_eq!(code(&answer), (503, "ServerBusy".into()));
    assert_eq!(connection.ask("GET", "/livez", None).status, 200);
    assert_eq!(connection.ask("GET", "/readyz", None).status, 503);

    forwarder.set(Line::Whole);
    let answer = ask(&mut connection, TOKEN, "GET", &new(&job("before")), None);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(ask(&mut connection, TOKEN, "GET", &new(&job("j")), None).status, 404);
    let group = collection("g", "c");
    assert_eq!(ask(&mut connection, TOKEN, "DELETE", &new(&group), None).status, 200);
}
