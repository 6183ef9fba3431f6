//! `kalends store`.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use kalends_environment::{SystemClock, SystemEntropy};
use kalends_store::KeyFile;
use kalends_store::encryption::Cipher;
use kalends_store::sqlite::{SqliteSettings, SqliteStore};
use kalends_store::stored_form::DefinitionCodec;
use serde_json::{Value, json};

use crate::target::{STANDARD, TIMEOUT, get, job, path, target, wait_for};
use crate::test_server::{TestServer, run_jobs};

/// Creates a store and its key file, as a server does at its first start.
fn create_store(path: &Path) -> SqliteStore {
    let entropy = Arc::new(SystemEntropy);
    let key = KeyFile::beside(path).read_or_create(path, &*entropy).unwrap();
    let codec = DefinitionCodec::new(Cipher::new(key, vec![], entropy), Default::default());
    SqliteStore::open(path, SqliteSettings::default(), codec, Arc::new(SystemClock)).unwrap()
}

fn kalends(arguments: &[&str], key: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kalends"));
    command.arg("store").args(arguments).env_remove("KALENDS_KEY").env_remove("KALENDS_STORE");
    key.map(|key| command.env("KALENDS_KEY", key));
    command.output().unwrap()
}

#[track_caller]
fn check(arguments: &[&str], key: Option<&str>, code: i32, message: &str) {
    let output = kalends(arguments, key);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.contains(message), "{text}");
}

#[test]
fn a_store_is_checked_and_backed_up_while_it_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    let copy = folder.path().join("copy.db").display().to_string();
    let key_file = folder.path().join("kalends.db.key").display().to_string();
    let _open = create_store(&path);
    let store = format!("sqlite:{}", path.display());
    check(&["check", "--store", &store], None, 0, "no problems found");
    check(&["backup", "--store", &store, &copy], None, 0, "backed up");
    check(&["backup", "--store", &store, &copy], None, 1, "exists already");
    let copied = format!("sqlite:{copy}");
    check(&["check", "--store", &copied], None, 1, "there is no key");
    check(&["check", "--store", &copied, "--key-file", &key_file], None, 0, "no problems found");
    let key = std::fs::read_to_string(&key_file).unwrap();
    check(&["check", "--store", &copied], Some(&key), 0, "no problems found");
}

#[test]
fn problems_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    drop(create_store(&path));
    let store = format!("sqlite:{}", path.display());
    let other = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    check(&["check", "--store", &store], Some(other), 1, "another key");
    check(&["check", "--store", &store], Some("no key"), 1, "KALENDS_KEY");
    check(&["check", "--store", "mysql:x"], Some(other), 1, "--store must be sqlite:PATH");
    check(&["check", "--store", "sqlite:/nowhere/x.db"], Some(other), 1, "there is no file");

    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8_192].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let output = kalends(&["check", "--store", &store], None);
    assert_eq!(output.status.code(), Some(1), "a damaged page is detected");
}

/// The lines of `kalends store dump` of one kind.
fn dump(store: &str, kind: &str) -> Vec<Value> {
    let output = kalends(&["dump", "--store", store], None);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["kind"] == kind).collect()
}

#[test]
fn a_dump_shows_runs_of_a_running_server_that_are_not_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kalends.db");
    let store = format!("sqlite:{}", file.display());
    let (address, calls) = target();
    let server = TestServer::start_in(&store, run_jobs);
    let mut connection = server.connect();
    assert_eq!(connection.request("PUT", &path(""), Some(STANDARD)).status, 201);
    let definition = job(&format!("http://{address}/"), json!({"retryType": "None"}));
    for name in ["first", "second"] {
        let put = connection.request("PUT", &path(&format!("/jobs/{name}")), Some(&definition));
        assert_eq!(put.status, 201, "{put:?}");
        calls.recv_timeout(TIMEOUT).unwrap();
        // The server commits the result shortly after the response of the target.
        let completed = wait_for(|| {
            let job = get(&mut connection, &path(&format!("/jobs/{name}")));
            (job["properties"]["state"] == "Completed").then_some(job)
        });
        let jobs = dump(&store, "job");
        let found = jobs.iter().find(|job| job["name"] == name).unwrap();
        let properties = &completed.unwrap()["properties"];
        assert_eq!(found["state"], properties["state"]);
        assert_eq!(found["executions"], properties["status"]["executionCount"]);
        assert_eq!(found["next_run"], Value::Null);
    }
    let collections = dump(&store, "collection");
    assert_eq!((collections.len(), &collections[0]["jobs"]), (1, &json!(2)));
    let history = dump(&store, "history");
    assert!(history.len() == 2 && history.iter().all(|entry| entry["status"] == "Completed"));
    let ledger = dump(&store, "ledger");
    assert!(ledger.len() == 2 && ledger.iter().all(|row| row["disposition"] == "Completed"));

    let copy = folder.path().join("copy.db").display().to_string();
    check(&["dump", "--store", &store, "--to", &copy], None, 0, "dumped to");
    check(&["dump", "--store", &store, "--to", &copy], None, 1, "exists already");
    let key_file = folder.path().join("kalends.db.key").display().to_string();
    let copied = format!("sqlite:{copy}");
    check(&["check", "--store", &copied, "--key-file", &key_file], None, 0, "no problems found");
    let postgres = ["dump", "--store", "postgres://localhost/x", "--to", "x.db"];
    check(&postgres, None, 1, "--to requires --store sqlite:PATH");
}
