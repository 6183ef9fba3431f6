//! Timeouts of slow clients, and graceful shutdown.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::test_server::{COLLECTION, LONG, SHORT, start};

/// Everything that is received until the server closes the connection.
async fn receive(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text).await;
    text
}

#[tokio::test]
async fn an_incomplete_head_closes_the_connection() {
    let server = start(SHORT, LONG).await;
    for begin in ["", "GET / HTTP/1.1\r\nHost: local"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(begin.as_bytes()).await.unwrap();
        assert_eq!(receive(&mut stream).await, "", "{begin:?}");
    }
}

#[tokio::test]
async fn an_incomplete_body_returns_408_and_closes_the_connection() {
    let server = start(LONG, SHORT).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    let request = format!("PUT {COLLECTION} HTTP/1.1\r\n{head}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let response = receive(&mut stream).await;
    assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
    assert!(response.contains(r#""code":"RequestTimeout""#), "{response}");
}

#[tokio::test]
async fn slow_clients_do_not_block_others() {
    let server = start(LONG, LONG).await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        slow.push(stream);
    }
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    assert!(receive(&mut stream).await.ends_with("\r\n\r\nok"));
}

#[tokio::test]
async fn shutdown_finishes_requests_in_flight() {
    let server = start(LONG, LONG).await;
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut first = [0; 8];
    idle.read_exact(&mut first).await.unwrap();
    let mut busy = TcpStream::connect(server.address).await.unwrap();
    let body = r#"{"location":"West US","properties":{"sku":{"name":"Standard"}}}"#;
    let head = format!(
        "PUT {COLLECTION} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    );
    busy.write_all(head.as_bytes()).await.unwrap();
    // The request is in flight once the server requests the body.
    let mut interim = [0; 25];
    busy.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    server.stop.send(()).unwrap();
    receive(&mut idle).await;
    busy.write_all(body.as_bytes()).await.unwrap();
    let response = receive(&mut busy).await;
    assert!(response.starts_with("HTTP/1.1 201 "), "{response}");
    server.task.await.unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn shutdown_does_not_wait_for_silent_clients() {
    let server = start(LONG, LONG).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut busy = TcpStream::connect(server.address).await.unwrap();
    busy.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut first = [0; 8];
    busy.read_exact(&mut first).await.unwrap();
    server.stop.send(()).unwrap();
    assert_eq!(receive(&mut silent).await, "");
    server.task.await.unwrap().unwrap();
}
