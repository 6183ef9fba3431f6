//! `kalends store migrate`: copies between SQLite and PostgreSQL.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc::Receiver;

use serde_json::{Value, json};

use crate::target::{Call, TIMEOUT, get, target, wait_for};
use crate::test_server::{TestServer, database, run_jobs};

const JOBS: &str = "/api/collections/web/jobs";

pub(crate) fn kalends(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kalends"));
    command.args(arguments).env_remove("KALENDS_KEY").env_remove("KALENDS_STORE");
    command.output().unwrap()
}

/// Runs a command that must succeed; returns its output.
#[track_caller]
pub(crate) fn succeed(arguments: &[&str]) -> String {
    let output = kalends(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail; returns its error message.
#[track_caller]
pub(crate) fn fail(arguments: &[&str]) -> String {
    let output = kalends(arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{arguments:?}: {message}");
    message
}

/// All lines of `kalends store dump`.
pub(crate) fn dump(store: &str, key_file: &Path) -> Vec<Value> {
    let key_file = key_file.to_str().unwrap();
    let lines = succeed(&["store", "dump", "--store", store, "--key-file", key_file]);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A job with a secret.
pub(crate) fn job(uri: &str, more: Value) -> String {
    let authentication = json!({"type": "Basic", "username": "user", "password": "canary"});
    let headers = json!({"X-Token": "canary-token"});
    let request = json!({"uri": uri, "method": "GET", "headers": headers,
        "authentication": authentication});
    let retry = json!({"retryType": "Fixed", "retryInterval": "PT1H", "retryCount": 3});
    let action = json!({"type": "Http", "request": request, "retryPolicy": retry});
    let mut properties = json!({"action": action});
    properties.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"properties": properties}).to_string()
}

/// A server with jobs in several states, which has stopped.
fn stopped_server(address: std::net::SocketAddr, calls: &Receiver<Call>) -> TestServer {
    let mut server = TestServer::start_with(|command, _| {
        run_jobs(command);
        command.args(["--secrets-headers", "X-Token"]);
    });
    let mut connection = server.connect();
    let ok = format!("http://{address}/ok");
    let nightly = json!({"cron": "0 2 * * *"});
    for (name, uri, more) in [
        ("once", &ok, json!({})),
        ("nightly", &ok, json!({"recurrence": nightly, "tags": {"team": "α \"β\""}})),
        ("retrying", &format!("http://{address}/fail"), json!({})),
        ("disabled", &ok, json!({"recurrence": nightly, "state": "Disabled"})),
        ("deleted", &ok, json!({"recurrence": nightly})),
    ] {
        let created = connection.request("PUT", &format!("{JOBS}/{name}"), Some(&job(uri, more)));
        assert_eq!(created.status, 201, "{name}: {created:?}");
    }
    let group = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/Other\
                 ?api-version=2026-11-01";
    let tagged = json!({"location": "West US", "tags": {"a": "b \"c\""}}).to_string();
    let put = connection.request("PUT", group, Some(&tagged));
    assert!(put.status < 300, "{put:?}");
    for name in ["nightly", "deleted"] {
        let run = connection.request("POST", &format!("{JOBS}/{name}/run"), None);
        assert_eq!(run.status, 200, "{run:?}");
    }
    for _ in 0..4 {
        calls.recv_timeout(TIMEOUT).unwrap();
    }
    for name in ["once", "nightly", "retrying", "deleted"] {
        let recorded = wait_for(|| {
            let history = get(&mut connection, &format!("{JOBS}/{name}/history"));
            (!history["value"].as_array().unwrap().is_empty()).then_some(())
        });
        assert_eq!(recorded, Some(()), "{name}");
    }
    // Retains the definition that the run used.
    let disable = Some(r#"{"properties": {"state": "Disabled"}}"#);
    for body in [disable, Some(r#"{"properties": {"state": "Enabled"}}"#)] {
        let edited = connection.request("PATCH", &format!("{JOBS}/nightly"), body);
        assert_eq!(edited.status, 200, "{edited:?}");
    }
    assert_eq!(connection.request("DELETE", &format!("{JOBS}/deleted"), None).status, 200);
    assert!(server.stop());
    server
}

/// Starts a server with a store, runs the job with the secret, and returns the request of the target.
fn call_of(store: &str, key_file: &Path, token: &str, calls: &Receiver<Call>) -> Call {
    let key_file = key_file.to_owned();
    let server = TestServer::start_in(store, |command| {
        run_jobs(command);
        command.arg("--key-file").arg(key_file).args(["--egress-mode", "single-user"]);
    });
    let headers = [("Authorization", format!("Bearer {token}"))];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mut connection = server.connect();
    let run = connection.request_with("POST", &format!("{JOBS}/nightly/run"), &headers, None);
    assert_eq!(run.status, 200, "{run:?}");
    calls.recv_timeout(TIMEOUT).unwrap()
}

#[test]
fn a_store_migrates_to_postgresql_and_back_without_a_difference() {
    let Some(postgres) = database("migrate") else { return };
    let (address, calls) = target();
    let server = stopped_server(address, &calls);
    let folder = server.folder();
    let sqlite = format!("sqlite:{}", folder.join("kalends.db").display());
    let back = format!("sqlite:{}", folder.join("copies/back.db").display());
    let key_file: PathBuf = folder.join("kalends.db.key");
    let key = key_file.to_str().unwrap();
    let token = succeed(&[
        "token",
        "create",
        "--role",
        "owner",
        "--scope",
        "/",
        "--store",
        &sqlite,
        "--key-file",
        key,
    ]);
    let original = dump(&sqlite, &key_file);
    let kinds = |kind| original.iter().filter(|line| line["kind"] == kind).count();
    assert_eq!((kinds("job"), kinds("run"), kinds("history")), (4, 1, 3));

    let summary = succeed(&["store", "migrate", "--from", &sqlite, "--to", &postgres]);
    for line in [
        "jobs: 4",
        "open runs: 1",
        "history entries: 3",
        "tokens: 1",
        "earlier definitions: 2",
        "compared",
    ] {
        assert!(summary.contains(line), "{line}: {summary}");
    }
    assert_eq!(dump(&postgres, &key_file), original);
    let again = fail(&["store", "migrate", "--from", &sqlite, "--to", &postgres]);
    assert!(again.contains("the target is not empty"), "{again}");

    let migrate = ["store", "migrate", "--from", &postgres, "--to", &back, "--key-file", key];
    succeed(&migrate);
    assert_eq!(dump(&back, &key_file), original);
    let checked = succeed(&["store", "check", "--store", &postgres, "--key-file", key]);
    assert!(checked.contains("no problems found"), "{checked}");

    for store in [&postgres, &back] {
        let call = call_of(store, &key_file, token.trim_end(), &calls);
        assert_eq!(call.headers["authorization"], "Basic dXNlcjpjYW5hcnk=", "{store}");
        assert_eq!(call.headers["x-token"], "canary-token");
    }
}

#[test]
fn a_store_that_a_server_uses_is_not_migrated() {
    let target = database("migrate_target");
    let server = TestServer::start();
    let sqlite = format!("sqlite:{}", server.folder().join("kalends.db").display());
    let copy = format!("sqlite:{}", server.folder().join("copy.db").display());
    let message = fail(&["store", "migrate", "--from", &sqlite, "--to", &copy]);
    assert!(message.contains("another process has"), "{message}");
    let Some(target) = target else { return };
    let key_file = server.folder().join("kalends.db.key");
    let key = key_file.to_str().unwrap();
    // Also a server that runs no jobs.
    let on_hold = TestServer::start_in(&target, |command| {
        command.arg("--key-file").arg(&key_file);
    });
    let migrate = ["store", "migrate", "--from", &target, "--to", &copy, "--key-file", key];
    let message = fail(&migrate);
    assert!(message.contains("a server uses the database"), "{message}");
    drop(on_hold);
}

#[test]
fn backups_of_postgresql_are_left_to_its_own_tool() {
    let message = fail(&["store", "backup", "--store", "postgres://h/d", "/nowhere/copy"]);
    assert!(message.contains("pg_dump"), "{message}");
}
