//! Malformed, ambiguous and oversized requests.

use crate::test_server::TestServer;
use crate::tokens::{JOB, STANDARD};

const COLLECTION: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/rg/providers/Microsoft.Scheduler/jobCollections/jc?api-version=2026-11-01";

/// Sends bytes followed by another request. The server must refuse the first with this status, close the
/// connection and ignore the second.
fn check(server: &TestServer, bytes: &str, status: &str) {
    let mut connection = server.connect();
    connection.send(bytes.as_bytes());
    connection.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let responses = connection.read_to_end();
    let shown: String = bytes.chars().take(300).collect();
    assert!(responses.starts_with(&format!("HTTP/1.1 {status} ")), "{shown:?}: {responses}");
    assert_eq!(responses.matches("HTTP/1.1 ").count(), 1, "{shown:?}: {responses}");
}

#[test]
fn ambiguous_requests_are_refused() {
    let server = TestServer::start();
    let put = |headers: &str, body: &str| {
        let head = "Host: localhost\r\nContent-Type: application/json\r\n";
        format!("PUT {COLLECTION} HTTP/1.1\r\n{head}{headers}\r\n\r\n{body}")
    };
    let chunked = "Transfer-Encoding: chunked";
    for bytes in [
        put("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
        put("Transfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\n"),
        put("Content-Length: 2\r\nContent-Length: 2", "{}"),
        put("Content-Length: 2\r\nContent-Length: 40", "{}"),
        put("Content-Length: 2, 2", "{}"),
        put("Content-Length: +2", "{}"),
        put("Content-Length: 2\r\nX-Folded: a\r\n b", "{}"),
        put("Content-Length: 2\nX-Bare: a", "{}"),
        put("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"),
        put("Transfer-Encoding: identity", "{}"),
        put("Transfer-Encoding : chunked", "0\r\n\r\n"),
        put(chunked, "zz\r\n{}\r\n0\r\n\r\n"),
        put(chunked, "0x2\r\n{}\r\n0\r\n\r\n"),
        put(chunked, "2\r\n{}x\r\n0\r\n\r\n"),
        put(chunked, "2\n{}\n0\n\n"),
        put(chunked, "ffffffffffffffff\r\n{}"),
        "GET / HTTP/1.1\nHost: localhost\n\n".to_owned(),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            .to_owned(),
        "nonsense\r\n\r\n".to_owned(),
        "GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
    ] {
        // Requests with only an invalid Host do not close the connection by themselves.
        let bytes = bytes.replace("HTTP/1.1\r\n\r\n", "HTTP/1.1\r\nConnection: close\r\n\r\n");
        check(&server, &bytes, "400");
    }
}

#[test]
fn a_broken_body_is_refused_where_no_body_is_needed() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let job = COLLECTION.replace("?", "/jobs/j?");
    assert_eq!(connection.request("PUT", COLLECTION, Some(STANDARD)).status, 201);
    assert_eq!(connection.request("PUT", &job, Some(JOB)).status, 201);
    let run = job.replace("?", "/run?");
    for (method, target) in [
        ("GET", COLLECTION),
        ("GET", &job),
        ("GET", "/livez"),
        ("POST", &run),
        ("DELETE", &job),
        ("DELETE", COLLECTION),
    ] {
        for body in ["zz\r\n{}\r\n0\r\n\r\n", "2\r\n{}x\r\n0\r\n\r\n", "2\n{}\n0\n\n"] {
            let head = "Host: localhost\r\nTransfer-Encoding: chunked\r\n";
            let bytes = format!("{method} {target} HTTP/1.1\r\n{head}\r\n{body}");
            check(&server, &bytes, "400");
        }
    }
    assert_eq!(connection.request("GET", &job, None).status, 200, "nothing was deleted");
    // A body that nobody needs is accepted, as long as it is sound.
    let sound = connection.request("POST", &job.replace("?", "/run?"), Some("{}"));
    assert_eq!(sound.status, 200, "{sound:?}");
}

#[test]
fn a_malformed_header_is_refused_when_it_arrives_in_pieces() {
    let server = TestServer::start();
    for piece in [1, 30, 60] {
        let mut connection = server.connect();
        let head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n";
        head.chunks(piece).for_each(|piece| connection.send(piece));
        let responses = connection.read_to_end();
        assert!(responses.starts_with("HTTP/1.1 400 "), "{responses}");
    }
}

#[test]
fn oversized_requests_are_refused() {
    let server = TestServer::start();
    let long_header = "x".repeat(20 * 1024);
    check(&server, &format!("GET / HTTP/1.1\r\nX: {long_header}\r\n\r\n"), "431");
    let many = "X: y\r\n".repeat(200);
    check(&server, &format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"), "431");
    let headers = format!("X: {}\r\n", "x".repeat(1000)).repeat(64);
    check(&server, &format!("GET / HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"), "431");
    let path = "x".repeat(10_000);
    let rest = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    check(&server, &format!("GET /{path} {rest}"), "414");
    let head = "Host: localhost\r\nContent-Type: application/json\r\n";
    let announced =
        format!("PUT {COLLECTION} HTTP/1.1\r\n{head}Content-Length: 9999999999\r\n\r\n");
    check(&server, &announced, "413");
    let chunk = format!("ffff\r\n{}\r\n", "x".repeat(0xffff));
    let chunks = format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunk}{chunk}0\r\n\r\n");
    check(&server, &format!("PUT {COLLECTION} HTTP/1.1\r\n{chunks}"), "413");
}

#[test]
fn chunked_bodies_and_pipelined_requests_are_accepted() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let body = r#"{"location":"West US","properties":{"sku":{"name":"Standard"}}}"#;
    let (first, second) = body.split_at(20);
    let head = "Host: localhost\r\nContent-Type: text/json\r\nTransfer-Encoding: chunked\r\n";
    let chunks = format!("14\r\n{first}\r\n{:x};a=b\r\n{second}\r\n0\r\n\r\n", second.len());
    let get = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    connection.send(format!("PUT {COLLECTION} HTTP/1.1\r\n{head}\r\n{chunks}{get}").as_bytes());
    let response = connection.read(true);
    assert_eq!(response.status, 201, "{response:?}");
    assert_eq!(connection.read(true).body, "ok");
}
