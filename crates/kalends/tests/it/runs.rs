//! Runs of jobs: requests to a target, history, egress and signatures.

use std::net::TcpListener;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::target::{TIMEOUT, get, history, job, path, start, start_with, target};
use crate::test_server::TestServer;

/// Waits until a job is no longer enabled.
fn finished(connection: &mut Connection, name: &str) -> Value {
    // The server records the response shortly after the target sent it.
    for _ in 0..100_000 {
        let response = connection.request("GET", &path(&format!("/jobs/{name}")), None);
        let job: Value = serde_json::from_str(&response.body).unwrap();
        if job["properties"]["state"] != "Enabled" {
            return job;
        }
    }
    panic!("{name} is still enabled");
}

#[test]
fn a_job_calls_its_target_once_and_its_history_contains_the_response() {
    let (address, calls) = target();
    let (_server, mut connection) = start();
    let definition = job(&format!("http://{address}/work?x=%2f"), json!({"retryType": "None"}));
    assert_eq!(connection.request("PUT", &path("/jobs/Once"), Some(&definition)).status, 201);
    let call = calls.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(call.line, "POST /work?x=%2f HTTP/1.1");
    assert_eq!(
        (call.body.as_str(), call.headers["content-type"].as_str()),
        ("hello", "text/plain")
    );
    assert_eq!(call.headers["x-ms-scheduler-jobid"], "Once");
    assert_eq!(call.headers["x-ms-scheduler-jobcollection"], "jc");
    assert_eq!(call.headers["x-ms-scheduler-region"], "West US");
    assert_eq!(call.headers["x-ms-execution-tag"].len(), 32);
    assert_eq!(call.headers["x-ms-execution-tag"], call.headers["idempotency-key"]);

    let job = finished(&mut connection, "Once");
    assert_eq!(job["properties"]["state"], "Completed");
    assert_eq!(job["properties"]["status"]["executionCount"], 1);
    let history = history(&mut connection, "Once");
    assert_eq!(history.len(), 1);
    assert_eq!(history[0]["status"], "Completed");
    assert_eq!(
        history[0]["message"],
        "Http Action - Response from host '127.0.0.1': 'OK' Response Headers: X-Target: yes\r\nConnection: close\r\n Body: hello"
    );
    assert!(calls.try_recv().is_err(), "called twice");
    let occurrences = get(&mut connection, &path("/jobs/Once/occurrences"));
    let key = &occurrences["value"][0]["idempotencyKey"];
    assert_eq!(*key, call.headers["idempotency-key"], "{occurrences}");
    let timing = history[0]["timing"].as_object().unwrap();
    let parts: Vec<_> = timing.keys().map(String::as_str).collect();
    assert_eq!(
        parts,
        ["connect", "firstByte", "total"],
        "an IP address needs no DNS lookup: {timing:?}"
    );
    assert!(timing.values().all(|time| time.as_str().unwrap().starts_with("PT")), "{timing:?}");
}

#[test]
fn a_failing_target_and_a_missing_one_fault_the_job() {
    let (address, _calls) = target();
    let (_server, mut connection) = start();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (name, uri, text) in [
        ("failing", format!("http://{address}/fail"), "'ServiceUnavailable'"),
        ("missing", format!("http://{closed}/"), "failed: ConnectFailure Unable to connect"),
        ("redirected", format!("http://{address}/metadata"), "failed: EgressDenied"),
    ] {
        let definition = job(&uri, json!({"retryType": "None"}));
        let put = connection.request("PUT", &path(&format!("/jobs/{name}")), Some(&definition));
        assert_eq!(put.status, 201, "{put:?}");
        let job = finished(&mut connection, name);
        assert_eq!(job["properties"]["state"], "Faulted", "{name}");
        assert_eq!(job["properties"]["status"]["faultedCount"], 1, "{name}");
        let history = history(&mut connection, name);
        let message = history[0]["message"].as_str().unwrap();
        assert!(message.contains(text), "{name}: {message}");
        assert_eq!(history[0]["status"], "Failed");
    }
    let run = path("/jobs/failing/run");
    let old = connection.request("POST", &run.replace("2026-11-01", "2016-03-01"), None);
    assert_eq!(old.status, 409, "the older versions do not run a faulted job: {old:?}");
    let again = connection.request("POST", &run, None);
    assert_eq!(again.status, 200, "the newest version runs it once more: {again:?}");
}

#[test]
fn a_disabled_job_runs_only_on_request() {
    let (address, calls) = target();
    let (_server, mut connection) = start();
    let mut definition: Value =
        serde_json::from_str(&job(&format!("http://{address}/"), json!({"retryType": "None"})))
            .unwrap();
    definition["properties"]["state"] = "Disabled".into();
    definition["properties"]["recurrence"] = json!({"frequency": "Minute"});
    let created = connection.request("PUT", &path("/jobs/off"), Some(&definition.to_string()));
    assert_eq!(created.status, 201, "{created:?}");
    for _ in 0..3 {
        assert_eq!(connection.request("POST", &path("/jobs/off/run"), None).status, 200);
        calls.recv_timeout(TIMEOUT).unwrap();
    }
    assert!(calls.try_recv().is_err());
    let response = connection.request("GET", &path("/jobs/off"), None);
    let job: Value = serde_json::from_str(&response.body).unwrap();
    assert_eq!(job["properties"]["state"], "Disabled");
}

#[test]
fn a_guarded_server_calls_allowed_targets_and_never_itself() {
    let (address, calls) = target();
    let (other, other_calls) = target();
    let entry = address.to_string();
    let arguments = ["--egress-mode", "guarded", "--egress-allow", &entry];
    let (server, mut connection) = start_with(&arguments);
    let none = json!({"retryType": "None"});
    for denied in [other, server.address] {
        let definition = job(&format!("http://{denied}/"), none.clone());
        let refused = connection.request("PUT", &path("/jobs/denied"), Some(&definition));
        assert_eq!(refused.status, 400, "{refused:?}");
        let error: Value = serde_json::from_str(&refused.body).unwrap();
        assert_eq!(error["error"]["code"], "DestinationNotAllowed");
        assert_eq!(error["error"]["target"], "properties.action.request.uri");
        let preview = connection.request("POST", &path("/jobs/denied/preview"), Some(&definition));
        assert_eq!(preview.status, 400, "{preview:?}");
    }
    let definition = job(&format!("http://{address}/"), none);
    assert_eq!(connection.request("PUT", &path("/jobs/allowed"), Some(&definition)).status, 201);
    calls.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(finished(&mut connection, "allowed")["properties"]["state"], "Completed");
    assert!(other_calls.try_recv().is_err());
}

#[test]
fn allow_entries_open_neither_metadata_services_nor_this_machine_by_name() {
    let (address, calls) = target();
    let port = address.port();
    let names = format!("localhost:{port},localhost=private:{port}");
    let ranges = "169.254.0.0/16,100.64.0.0/10,fe80::/10,168.63.129.16,fd00:ec2::254";
    let entries = format!("{names},{ranges},metadata.google.internal=private");
    let arguments = ["--egress-mode", "guarded", "--egress-allow", &entries];
    let (_server, mut connection) = start_with(&arguments);
    let none = json!({"retryType": "None"});
    for host in [
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "[fe80::1]",
        "168.63.129.16",
        "100.100.100.200",
        "[fd00:ec2::254]",
        "metadata.google.internal",
    ] {
        let definition = job(&format!("http://{host}/"), none.clone());
        let refused = connection.request("PUT", &path("/jobs/denied"), Some(&definition));
        assert_eq!(refused.status, 400, "{host}: {refused:?}");
        assert!(refused.body.contains("DestinationNotAllowed"), "{host}: {refused:?}");
    }
    let definition = job(&format!("http://localhost:{port}/"), none);
    let created = connection.request("PUT", &path("/jobs/named"), Some(&definition));
    assert_eq!(created.status, 201, "the address of a name is checked when the job runs");
    assert_eq!(finished(&mut connection, "named")["properties"]["state"], "Faulted");
    let message = history(&mut connection, "named")[0]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("EgressDenied"), "{message}");
    assert!(calls.try_recv().is_err());
}

/// The keys that `kalends signing-keys` prints with these flags.
fn printed_keys(server: &TestServer, flags: &[&str]) -> [String; 2] {
    let store = format!("sqlite:{}", server.folder().join("kalends.db").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_kalends"));
    let output = command
        .args(["signing-keys", "6c55a6f0-6593-472f-9b3e-a51a9a757b40/rg/jc", "--store", &store])
        .args(flags)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let keys: Vec<_> = text.lines().map(|line| line.split_once("  ").unwrap().1.trim()).collect();
    [keys[0].to_owned(), keys[1].to_owned()]
}

/// The signatures in the request of a job in the collection `jc`, and the expected ones, computed with
/// the keys that `kalends signing-keys` prints.
fn signed_with(server: &[&str], shown: &[&str]) -> ([String; 2], [String; 2]) {
    let (address, calls) = target();
    let (server, mut connection) = start_with(server);
    let mut definition: Value =
        serde_json::from_str(&job(&format!("http://{address}/"), json!({"retryType": "None"})))
            .unwrap();
    definition["properties"]["action"]["signing"] = "On".into();
    let created = connection.request("PUT", &path("/jobs/signed"), Some(&definition.to_string()));
    assert_eq!(created.status, 201, "{created:?}");
    let call = calls.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(call.headers["webhook-id"], call.headers["x-ms-execution-tag"]);
    let (new, old) = call.headers["webhook-signature"].split_once(' ').unwrap();
    let signed = format!(
        "{}.{}.{}",
        call.headers["webhook-id"], call.headers["webhook-timestamp"], call.body
    );
    let expected = printed_keys(&server, shown).map(|key| {
        let key = STANDARD.decode(key.strip_prefix("whsec_").unwrap()).unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        format!("v1,{}", STANDARD.encode(hmac::sign(&key, signed.as_bytes())))
    });
    ([new.to_owned(), old.to_owned()], expected)
}

#[test]
fn a_signed_request_can_be_verified_with_the_printed_keys() {
    let (sent, expected) = signed_with(&[], &[]);
    assert_eq!(sent, expected);
}

#[test]
fn a_collection_with_rotated_keys_also_signs_with_the_previous_key() {
    let collection = "6c55a6f0-6593-472f-9b3e-a51a9a757b40/rg/jc";
    let rotated = format!("--signing-epoch-of={collection}=2");
    let (sent, expected) = signed_with(&[&rotated], &[&rotated]);
    assert_eq!(sent, expected);
    // Receivers may still have the key from before the rotation.
    let (sent, [present, _]) = signed_with(&[&rotated], &[]);
    assert_eq!(sent[1], present);
    let (sent, expected) =
        signed_with(&["--signing-key-version-for", &format!("{collection}x=2")], &[]);
    assert_eq!(sent, expected, "the rotation of another collection has no effect");
}
