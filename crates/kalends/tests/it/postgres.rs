//! Servers on PostgreSQL: whose clock they follow, and what clients receive while the database is
//! read-only or restarts.

use std::process::Command;

use kalends_recurrence::Instant;
use serde_json::json;

use crate::connection::Connection;
use crate::target::{TIMEOUT, target};
use crate::test_server::{TestServer, clock_library, database, run_jobs};
use crate::tokens::{JOB, STANDARD, code, collection, new};

pub(crate) const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn job(name: &str) -> String {
    format!("{}/jobs/{name}", collection("g", "c"))
}

/// The output of a script in `tests/data/postgres`.
pub(crate) fn psql(database: &str, script: &str, variables: &[(&str, &str)]) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/postgres");
    let mut command = Command::new("psql");
    command.args([database, "-qAtX", "-v", "ON_ERROR_STOP=1"]);
    command.args(["-f", &format!("{folder}/{script}.sql")]);
    for (name, value) in variables {
        command.args(["-v", &format!("{name}={value}")]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The clock of the database, in seconds.
fn database_seconds(database: &str) -> f64 {
    psql(database, "clock", &[]).parse().unwrap()
}

fn seconds(text: &str) -> f64 {
    let at: Instant = text.parse().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "a second is precise enough")]
    let seconds = at.ticks() as f64 / 1e7;
    seconds
}

/// Sets the clock of a process one hour ahead. Its monotonic clock is that of the machine.
pub(crate) fn one_hour_ahead(command: &mut Command, library: &std::path::Path) {
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME", "+1h")
        .env("DONT_FAKE_MONOTONIC", "1")
        .env("KALENDS_KEY", KEY);
}

/// Writes right after the address was printed, and compares the stored times with the database's.
fn assert_stored_times(server: &TestServer, database: &str) {
    let mut connection = server.connect();
    let before = database_seconds(database);
    assert_eq!(connection.request("PUT", &new(&collection("g", "c")), Some(STANDARD)).status, 201);
    let body = JOB.replace("Disabled", "Enabled").replace("Day", "Week");
    for number in 0..10 {
        let name = new(&job(&format!("j{number}")));
        assert_eq!(connection.request("PUT", &name, Some(&body)).status, 201);
    }
    let after = database_seconds(database);
    let stored = psql(database, "created", &[]);
    assert_eq!(stored.lines().count(), 11);
    for created in stored.lines() {
        let created = seconds(created);
        assert!(before <= created && created <= after, "{before} {created} {after}");
    }
}

#[test]
fn the_first_writes_of_a_node_whose_clock_is_ahead_are_stored_with_the_time_of_the_database() {
    let (Some(database), Some(library)) = (database("clock_ahead"), clock_library()) else {
        return;
    };
    let server = TestServer::start_in(&database, |command| {
        run_jobs(command);
        one_hour_ahead(command, &library);
    });
    assert_stored_times(&server, &database);
}

#[test]
fn a_server_that_runs_no_jobs_follows_the_clock_of_the_database() {
    let (Some(database), Some(library)) = (database("clock_hold"), clock_library()) else { return };
    let server = TestServer::start_in(&database, |command| one_hour_ahead(command, &library));
    assert_stored_times(&server, &database);
}

#[test]
fn a_signed_request_carries_the_time_of_the_database() {
    let (Some(database), Some(library)) = (database("clock_signing"), clock_library()) else {
        return;
    };
    let server = TestServer::start_in(&database, |command| {
        run_jobs(command);
        one_hour_ahead(command, &library);
    });
    let (target, calls) = target();
    let mut connection = server.connect();
    let before = database_seconds(&database).floor();
    assert_eq!(connection.request("PUT", &new(&collection("g", "c")), Some(STANDARD)).status, 201);
    let request = json!({"uri": format!("http://{target}/"), "method": "POST", "body": "x"});
    let action = json!({"type": "Http", "signing": "On", "request": request});
    let body = json!({"properties": {"action": action}}).to_string();
    assert_eq!(connection.request("PUT", &new(&job("signed")), Some(&body)).status, 201);
    let call = calls.recv_timeout(TIMEOUT).unwrap();
    let after = database_seconds(&database);
    let sent: f64 = call.headers["webhook-timestamp"].parse().unwrap();
    assert!(before <= sent && sent <= after, "{before} {sent} {after}");
}

#[test]
fn a_token_expires_by_the_clock_of_the_database() {
    let (Some(database), Some(library)) = (database("clock_tokens"), clock_library()) else {
        return;
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_kalends"));
    command.args(["token", "create", "--role", "owner", "--scope", "/", "--expires", "PT10M"]);
    command.args(["--store", &database]);
    one_hour_ahead(&mut command, &library);
    let before = database_seconds(&database);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let after = database_seconds(&database);
    let expires: f64 = psql(&database, "token_expiration", &[]).parse().unwrap();
    assert!(before + 600.0 <= expires && expires <= after + 600.0, "{before} {expires} {after}");
}

/// Creates the collection and a target, and runs a job.
fn run_job(connection: &mut Connection, name: &str) {
    let (target, calls) = target();
    let put = connection.request("PUT", &new(&collection("g", "c")), Some(STANDARD));
    assert!([200, 201].contains(&put.status), "{put:?}");
    let request = json!({"uri": format!("http://{target}/"), "method": "GET"});
    let body = json!({"properties": {"action": {"type": "Http", "request": request}}}).to_string();
    assert_eq!(connection.request("PUT", &new(&job(name)), Some(&body)).status, 201);
    calls.recv_timeout(TIMEOUT).expect("the job did not run");
}

/// A write is refused with the code of each API version.
fn assert_unavailable(connection: &mut Connection) {
    let target = new(&job("refused"));
    let refused = connection.request("PUT", &target, Some(JOB));
    assert_eq!(code(&refused), (503, "StoreUnavailable".into()), "{refused:?}");
    assert!(refused.header("Retry-After").is_some());
    let old = target.replace("2026-11-01", "2016-03-01");
    let refused = connection.request("PUT", &old, Some(JOB));
    assert_eq!(code(&refused), (503, "ServerBusy".into()), "{refused:?}");
}

#[test]
fn a_read_only_database_is_reported_and_jobs_run_when_it_is_writable_again() {
    let Some(database) = database("read_only") else { return };
    let administration = std::env::var("KALENDS_TEST_POSTGRES").unwrap();
    let name = database.rsplit('/').next().unwrap();
    let set_read_only = |value: &str| {
        psql(&administration, "set_read_only", &[("name", name), ("value", value)]);
        // The setting applies to new sessions.
        psql(&administration, "end_sessions", &[("name", name)]);
    };
    let server = TestServer::start_in(&database, |command| {
        run_jobs(command);
        command.env("KALENDS_KEY", KEY);
    });
    let mut connection = server.connect();
    run_job(&mut connection, "before");
    set_read_only("on");
    assert_unavailable(&mut connection);
    assert!(server.line_with("store unavailable, retrying").contains("read-only"));
    let ready = connection.request("GET", "/readyz", None);
    assert!(ready.status == 503 && ready.body.contains("read-only"), "{ready:?}");
    assert_eq!(connection.request("GET", &new(&job("before")), None).status, 200);
    set_read_only("off");
    server.line_with("store available again");
    run_job(&mut connection, "after");
    assert_eq!(connection.request("GET", "/readyz", None).status, 200);
    assert_eq!(connection.request("GET", &new(&job("refused")), None).status, 404);
}

#[test]
fn a_stopped_database_is_reported_and_jobs_run_after_its_restart() {
    if std::env::var("KALENDS_TEST_POSTGRES").is_err() {
        eprintln!("SKIPPED: no PostgreSQL server is named in KALENDS_TEST_POSTGRES");
        return;
    }
    // A separate server, because other tests use the shared one.
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let output = Command::new(format!("{root}/scripts/with-postgres"))
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "postgres::restarting_database", "--nocapture"])
        .env_remove("KALENDS_TEST_POSTGRES")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
}

#[test]
#[ignore = "stops the server; run by a_stopped_database_is_reported_and_jobs_run_after_its_restart"]
fn restarting_database() {
    let Some(database) = database("restarting") else { return };
    let server = TestServer::start_in(&database, |command| {
        run_jobs(command);
        command.env("KALENDS_KEY", KEY);
    });
    let mut connection = server.connect();
    run_job(&mut connection, "before");
    control_database(&["stop", "-m", "fast"]);
    assert_unavailable(&mut connection);
    let read = connection.request("GET", &new(&job("before")), None);
    assert_eq!(code(&read), (503, "StoreUnavailable".into()), "{read:?}");
    assert_eq!(connection.request("GET", "/livez", None).status, 200);
    // Unlike `start`, it uses the options of the first start.
    control_database(&["restart"]);
    run_job(&mut connection, "after");
    assert_eq!(connection.request("GET", &new(&job("before")), None).status, 200);
}

fn control_database(arguments: &[&str]) {
    let control = std::env::var("KALENDS_TEST_POSTGRES_CTL").unwrap();
    let mut words = control.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(arguments).arg("-w").current_dir("/");
    let null = std::process::Stdio::null;
    assert!(command.stdout(null()).stderr(null()).status().unwrap().success());
}
