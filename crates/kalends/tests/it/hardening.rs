//! Protection of the process and its files, and of its CPU time.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;

use crate::target::{STANDARD, path};
use crate::test_server::TestServer;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_server_writes_no_core_dumps() {
    let server = TestServer::start();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    let values: Vec<_> = core.split_whitespace().skip(4).take(2).collect();
    assert_eq!(values, ["0", "0"], "soft and hard limit: {core}");
}

#[test]
fn the_directory_of_a_new_store_is_for_its_owner_only() {
    let server = TestServer::start_with(|command, folder| {
        let store = format!("sqlite:{}", folder.join("new/store/kalends.db").display());
        command.env("KALENDS_STORE", store);
    });
    for directory in ["new", "new/store"] {
        assert_eq!(mode(&server.folder().join(directory)), 0o700, "{directory}");
    }
}

#[test]
fn a_directory_or_a_key_file_that_others_can_read_is_reported() {
    let mut server = TestServer::start_restartable(|_, _| {});
    let key = server.folder().join("kalends.db.key");
    assert_eq!(mode(&key), 0o600);
    server.kill();
    set_mode(&key, 0o640);
    set_mode(server.folder(), 0o755);
    server.restart();
    // The first line, as always.
    server.line_with("starting");
    let line = server.line_with("directory of the store");
    assert!(line.contains("WARN") && line.contains("0755"), "{line}");
    let line = server.line_with("key file of the store");
    assert!(line.contains("WARN") && line.contains("0640"), "{line}");
}

/// Many clients send certificates whose keys are expensive to derive. The server reads a few at a time,
/// refuses those that would wait long, and serves other clients meanwhile.
#[test]
fn expensive_certificates_do_not_keep_other_clients_waiting() {
    // More than the server reads and lets wait, on half of the cores.
    let cores = std::thread::available_parallelism().unwrap().get();
    let clients_max = 5 * (cores / 2).max(1) + 32;
    let server = TestServer::start_with(|command, _| {
        command.env("KALENDS_LIMITS_PLANS", "off");
    });
    let mut connection = server.connect();
    assert_eq!(connection.request("PUT", &path(""), Some(STANDARD)).status, 201);
    let pfx = BASE64.encode(include_bytes!("../data/costly.pfx"));
    let authentication = json!({"type": "ClientCertificate", "pfx": pfx, "password": "secret"});
    let request = json!({"uri": "https://example.com/", "method": "GET",
        "authentication": authentication});
    let job = json!({"properties": {"state": "Disabled", "action": {
        "type": "Https", "request": request}}});
    let job = job.to_string();
    let mut clients: Vec<_> = (0..clients_max).map(|_| server.connect()).collect();
    std::thread::scope(|scope| {
        let puts = clients.iter_mut().enumerate().map(|(number, client)| {
            let job = &job;
            scope.spawn(move || {
                let put = client.request("PUT", &path(&format!("/jobs/j{number}")), Some(job));
                (put.status, put.header("Retry-After").is_some())
            })
        });
        let puts: Vec<_> = puts.collect();
        let mut gets = 0;
        while !puts.iter().all(|put| put.is_finished()) {
            assert_eq!(connection.request("GET", &path(""), None).status, 200);
            gets += 1;
        }
        let puts: Vec<_> = puts.into_iter().map(|put| put.join().unwrap()).collect();
        let created = puts.iter().filter(|(status, _)| *status == 201).count();
        let busy = puts.iter().filter(|put| **put == (503, true)).count();
        assert_eq!(created + busy, clients_max, "{puts:?}");
        assert!(created > 0 && busy > 0, "{created} created, {busy} refused");
        assert!(gets >= created, "{gets} reads while {created} certificates were read");
    });
    // A refused client can try again.
    assert!(matches!(connection.request("PUT", &path("/jobs/j0"), Some(&job)).status, 200 | 201));
}
