//! Attacks by one client on the capacity of the server. Each test prints the memory of the server
//! and the latency of another client, and asserts that the other client makes progress.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use kalends_environment::{Clock as _, SystemClock};
use serde_json::json;

use crate::connection::{Connection, connect_from};
use crate::http2_frames::{Body, Http2Connection};
use crate::identity_provider::SigningKey;
use crate::test_server::TestServer;
use crate::tls_and_http2::{curl, write_certificate};
use crate::tokens::{JOB, STANDARD, SUBSCRIPTION, collection, create, guarded, new, request_as};

const ATTACKER: [u8; 4] = [127, 0, 0, 2];
const OTHER: [u8; 4] = [127, 0, 0, 1];
/// Concurrent requests that HTTP/2 allows on a connection.
const STREAMS: usize = 64;

/// Runs a request of another client and prints its latency.
fn measure<T>(server: &TestServer, attack: &str, request: impl FnOnce() -> T) -> T {
    let start = SystemClock.uptime();
    let result = request();
    let took = SystemClock.uptime() - start;
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let memory = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or("");
    println!("{attack}: another client waited {} ms; server {memory}", took.as_millis());
    result
}

/// Statuses of the routes for monitoring, and of a read and a write with this token.
fn statuses(address: SocketAddr, from: [u8; 4], token: &str) -> Vec<u16> {
    let mut connection = Connection::from(from, address);
    let target = new(&collection("other", "c"));
    let mut request = |method, target: &str, body| {
        request_as(&mut connection, token, method, target, body).status
    };
    vec![
        request("GET", "/livez", None),
        request("GET", "/readyz", None),
        request("GET", "/metrics", None),
        request("PUT", &target, Some(STANDARD)),
        request("GET", &target, None),
    ]
}

#[test]
fn unsent_bodies_of_one_caller_do_not_block_other_callers() {
    let (server, owner) = guarded(&[]);
    let attacker = create(server.folder(), "contributor", SUBSCRIPTION, &[]);
    let target = new(&collection("g", "c"));
    let mut attack = Vec::new();
    for _ in 0..20 {
        let mut connection = Http2Connection::from(ATTACKER, server.address);
        for _ in 0..STREAMS {
            connection.send_head("PUT", &target, &attacker, Body::Unsent);
        }
        connection.ping();
        attack.push(connection);
    }
    // Also from the address of the attacker: they may share a NAT gateway.
    for from in [OTHER, ATTACKER] {
        let found = measure(&server, "unsent bodies", || statuses(server.address, from, &owner));
        assert_eq!(found, [200, 200, 200, 201, 200], "{from:?}");
    }
    drop(attack);
}

#[test]
fn unsent_bodies_of_large_previews_do_not_block_those_of_other_callers() {
    let (server, owner) = guarded(&[]);
    let reader = create(server.folder(), "reader", SUBSCRIPTION, &[]);
    let mut connection = server.connect();
    let parent = collection("g", "c");
    let put = request_as(&mut connection, &owner, "PUT", &new(&parent), Some(STANDARD));
    assert_eq!(put.status, 201);
    let target = new(&format!("{parent}/jobs/preview"));
    let mut attack = Http2Connection::from(ATTACKER, server.address);
    for _ in 0..STREAMS {
        attack.send_head("POST", &target, &reader, Body::Unsent);
    }
    attack.ping();
    let body = format!(r#"{{"jobs":[{{"name":"j","definition":{JOB}}}]}}"#);
    for from in [OTHER, ATTACKER] {
        let mut connection = Connection::from(from, server.address);
        let response = measure(&server, "unsent previews", || {
            request_as(&mut connection, &owner, "POST", &target, Some(&body))
        });
        assert_eq!(response.status, 200, "{from:?}: {response:?}");
    }
    drop(attack);
}

#[test]
fn an_issuer_that_hangs_does_not_block_callers_with_other_tokens() {
    let issuer = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", issuer.local_addr().unwrap());
    let mut owner = String::new();
    let server = TestServer::start_with(|command, folder| {
        owner = create(folder, "owner", "/", &[]);
        command.env("KALENDS_OIDC_ISSUER", url).env("KALENDS_OIDC_AUDIENCE", "api://kalends");
    });
    let jwt = SigningKey::p256().sign(&json!({"alg": "ES256", "kid": "k"}), &json!({}));
    let target = new(&format!("{SUBSCRIPTION}/resourceGroups"));
    let mut attack = Vec::new();
    for _ in 0..20 {
        let mut connection = Http2Connection::from(ATTACKER, server.address);
        for _ in 0..STREAMS {
            connection.send_head("GET", &target, &jwt, Body::None);
        }
        connection.ping();
        attack.push(connection);
    }
    for from in [OTHER, ATTACKER] {
        let found = measure(&server, "hanging issuer", || statuses(server.address, from, &owner));
        assert_eq!(found, [200, 200, 200, 201, 200], "{from:?}");
    }
    drop((attack, issuer));
}

#[test]
fn silent_connections_do_not_stall_tls_handshakes() {
    let server = TestServer::start_with(|command, folder| {
        create(folder, "owner", "/", &[]);
        write_certificate(folder);
        command.arg("--tls-cert").arg(folder.join("tls.pem"));
        command.arg("--tls-key").arg(folder.join("tls.key"));
    });
    let attack: Vec<_> = (0..100).map(|_| connect_from(ATTACKER, server.address)).collect();
    let authority = server.folder().join("tls.pem");
    let url = format!("https://localhost:{}/livez", server.address.port());
    let trusted = ["-4", "--cacert", authority.to_str().unwrap()];
    let response = measure(&server, "silent connections", || curl(&trusted, &url));
    let Some(response) = response else { return };
    assert_eq!(response, "ok over HTTP/2");
    let still_open = attack.iter().filter(|stream| is_open(stream)).count();
    assert!(still_open > 0, "the other client had to wait until the silent connections timed out");
}

fn is_open(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    stream.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn idle_connections_of_four_addresses_do_not_shut_out_others() {
    let (server, owner) = guarded(&[]);
    let mut attack = Vec::new();
    let mut first = Connection::from(OTHER, server.address);
    assert_eq!(first.request("GET", "/livez", None).status, 200);
    for host in 2..=5 {
        for _ in 0..128 {
            let mut stream = connect_from([127, 0, 0, host], server.address);
            stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            attack.push(stream);
        }
    }
    // Many more connections than the server has left.
    let mut open = Vec::new();
    for number in 0..40 {
        let mut connection = Connection::from([127, 0, 1, number], server.address);
        let target = new(&format!("{SUBSCRIPTION}/resourceGroups"));
        let response = measure(&server, "idle connections", || {
            request_as(&mut connection, &owner, "GET", &target, None)
        });
        assert_eq!(response.status, 200);
        open.push(connection);
    }
    // The attackers hold the most connections: they lose theirs first.
    for connection in open.iter_mut().chain([&mut first]) {
        assert_eq!(connection.request("GET", "/livez", None).status, 200);
    }
    let closed = attack.iter().filter(|stream| !is_open_after_response(stream)).count();
    println!("idle connections: the server closed {closed} of {}", attack.len());
    assert!(closed > 0);
}

/// Whether a connection is open after the response that it received.
fn is_open_after_response(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}
