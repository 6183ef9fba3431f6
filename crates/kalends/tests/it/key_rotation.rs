//! `kalends store rekey`: rotation of the encryption key.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::store_migration::{dump, fail, job, succeed};
use crate::target::{TIMEOUT, get, target};
use crate::test_server::{TestServer, database, run_jobs};

/// Jobs with secrets: several batches of the rotation.
const JOBS: usize = 600;
const COLLECTION: &str = "/api/collections/web/jobs";
const SIGNED: &str = "00000000-0000-0000-0000-000000000000/default/web";

fn start(store: &str, key_file: &Path) -> TestServer {
    let key_file = key_file.to_owned();
    TestServer::start_in(store, |command| {
        run_jobs(command);
        command.arg("--key-file").arg(key_file).args(["--secrets-headers", "X-Token"]);
    })
}

/// Begins a rotation and kills it after its first batch.
fn kill_in_the_middle(arguments: &[&str]) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kalends"))
        .args(arguments)
        .env_remove("KALENDS_KEY")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.contains("encrypted with the new key: 50"), "{line}");
}

fn rotate(store: &str, folder: &Path) {
    let (address, calls) = target();
    let [old, new] = ["old.key", "new.key"].map(|name| folder.join(name));
    let mut server = start(store, &old);
    let mut connection = server.connect();
    for number in 0..JOBS {
        let definition = job(
            &format!("http://{address}/"),
            serde_json::json!({"recurrence": {"cron": "0 2 * * *"}}),
        );
        let path = format!("{COLLECTION}/job{number}");
        let created = connection.request("PUT", &path, Some(&definition));
        assert_eq!(created.status, 201, "{created:?}");
    }
    // An edit after a run retains the definition that it replaces.
    let run = connection.request("POST", &format!("{COLLECTION}/job1/run"), None);
    assert_eq!(run.status, 200, "{run:?}");
    calls.recv_timeout(TIMEOUT).unwrap();
    let changed = job(&format!("http://{address}/changed"), serde_json::json!({}));
    let path = format!("{COLLECTION}/job1");
    assert_eq!(connection.request("PUT", &path, Some(&changed)).status, 200);
    let earlier = |server: &TestServer| {
        let mut connection = server.connect();
        let found = get(&mut connection, &format!("{path}/definitions/1"));
        assert_eq!(found["properties"]["recurrence"]["cron"], "0 2 * * *", "{found}");
        found
    };
    let earlier_before = earlier(&server);
    let [old_key, new_key] = [&old, &new].map(|path| path.to_str().unwrap());
    let with = |key| ["--store", store, "--key-file", key];
    let signing = |key| succeed(&[&["signing-keys", SIGNED], &with(key)[..]].concat());
    let signing_before = signing(old_key);
    let rekey = [&["store", "rekey", "--new-key-file", new_key], &with(old_key)[..]].concat();
    let message = fail(&rekey);
    assert!(message.contains("the store is busy"), "{message}");
    assert!(server.stop());
    let before = dump(store, &old);

    kill_in_the_middle(&rekey);
    for key in [old_key, new_key] {
        let message = fail(&[&["store", "check"], &with(key)[..]].concat());
        assert!(
            message.contains("the rotation of the key of this store is unfinished"),
            "{message}"
        );
        let serve = [&["serve", "--listen", "0", "--hold"], &with(key)[..]].concat();
        assert!(fail(&serve).contains("is unfinished"));
    }
    let third = folder.join("third.key");
    let other =
        [&["store", "rekey", "--new-key-file", third.to_str().unwrap()], &with(old_key)[..]];
    assert!(fail(&other.concat()).contains("is unfinished"));

    let summary = succeed(&rekey);
    assert!(summary.contains("after an interrupted rotation"), "{summary}");
    assert!(succeed(&rekey).contains("already"));
    let message = fail(&[&["store", "check"], &with(old_key)[..]].concat());
    assert!(message.contains("the store was written with another key"), "{message}");
    let checked = succeed(&[&["store", "check"], &with(new_key)[..]].concat());
    assert!(checked.contains("no problems found"), "{checked}");
    assert_eq!(dump(store, &new), before);
    assert_eq!(signing(new_key), signing_before, "signing keys survive");

    let server = start(store, &new);
    assert_eq!(earlier(&server), earlier_before);
    let run = server.connect().request("POST", &format!("{COLLECTION}/job0/run"), None);
    assert_eq!(run.status, 200, "{run:?}");
    let call = calls.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(call.headers["authorization"], "Basic dXNlcjpjYW5hcnk=");
    assert_eq!(call.headers["x-token"], "canary-token");
    drop(server);

    // A second rotation keeps the signing keys of the first key, too.
    let third = third.to_str().unwrap();
    succeed(&[&["store", "rekey", "--new-key-file", third], &with(new_key)[..]].concat());
    assert_eq!(signing(third), signing_before);
}

#[test]
fn a_killed_rotation_of_an_sqlite_store_can_be_finished() {
    let folder = tempfile::tempdir().unwrap();
    rotate(&format!("sqlite:{}", folder.path().join("kalends.db").display()), folder.path());
}

#[test]
fn a_killed_rotation_of_a_postgresql_store_can_be_finished() {
    let Some(store) = database("rekey") else { return };
    let folder = tempfile::tempdir().unwrap();
    rotate(&store, folder.path());
}
