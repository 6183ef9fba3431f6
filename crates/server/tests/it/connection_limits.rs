//! Limits on the connections of a client, and keep-alive connections.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use kalends_server::{Settings, Timeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::test_server::{LONG, SHORT, Server, start_with};

const REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";

async fn start(per_client: u16) -> Server {
    let timeouts = Timeouts { request_head: LONG, request_body: LONG, keep_alive: LONG };
    let connections_per_client_max = NonZeroU16::new(per_client);
    start_with(Settings { timeouts, connections_per_client_max, ..Settings::default() }, None).await
}

/// A connection from one of the loopback addresses.
async fn connect(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

/// The status line of the response, or nothing if the connection is closed.
async fn send(stream: &mut TcpStream) -> String {
    // Fails if the server has closed the connection already.
    let _ = stream.write_all(REQUEST).await;
    let mut response = Vec::new();
    while !response.ends_with(b"\r\n\r\nok")
        && stream.read_buf(&mut response).await.unwrap_or(0) > 0
    {}
    String::from_utf8(response).unwrap().chars().take(15).collect()
}

const ONE: [u8; 4] = [127, 0, 0, 1];
const OTHER: [u8; 4] = [127, 0, 0, 2];

#[tokio::test]
async fn a_client_at_its_limit_gets_no_further_connection_and_others_do() {
    let server = start(3).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut stream = connect(ONE, server.address).await;
        assert_eq!(send(&mut stream).await, "HTTP/1.1 200 OK");
        open.push(stream);
    }
    for _ in 0..20 {
        assert_eq!(send(&mut connect(ONE, server.address).await).await, "", "closed at once");
    }
    assert_eq!(send(&mut connect(OTHER, server.address).await).await, "HTTP/1.1 200 OK");
    for stream in &mut open {
        assert_eq!(send(stream).await, "HTTP/1.1 200 OK", "open connections stay open");
    }
    let metrics = open.first_mut().unwrap();
    metrics
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut page = String::new();
    metrics.read_to_string(&mut page).await.unwrap();
    assert!(page.contains("\nkalends_connections_refused_total 20\n"), "{page}");
}

#[tokio::test]
async fn a_closed_connection_allows_another() {
    let server = start(1).await;
    let mut first = connect(ONE, server.address).await;
    assert_eq!(send(&mut first).await, "HTTP/1.1 200 OK");
    drop(first);
    // The server notices asynchronously.
    let again = async {
        while send(&mut connect(ONE, server.address).await).await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), again)
        .await
        .expect("another connection is accepted");
}

#[tokio::test]
async fn silent_clients_use_up_their_own_limit_only() {
    let server = start(50).await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(connect(ONE, server.address).await);
    }
    assert_eq!(send(&mut connect(OTHER, server.address).await).await, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn an_idle_keep_alive_connection_outlasts_the_head_timeout() {
    let timeouts = Timeouts { request_head: SHORT, request_body: LONG, keep_alive: LONG };
    let server = start_with(Settings { timeouts, ..Settings::default() }, None).await;
    let mut idle = connect(ONE, server.address).await;
    assert_eq!(send(&mut idle).await, "HTTP/1.1 200 OK");
    // Wait until the head timeout has passed for another connection.
    let mut slow = connect(ONE, server.address).await;
    slow.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    assert_eq!(slow.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    assert_eq!(send(&mut idle).await, "HTTP/1.1 200 OK");
    idle.write_all(b"GET /livez HTTP/1.1\r\nHo").await.unwrap();
    let mut rest = Vec::new();
    let _ = idle.read_to_end(&mut rest).await;
    assert_eq!(rest, b"", "the head timeout applies to the second request too");
}

#[tokio::test]
async fn an_idle_keep_alive_connection_is_closed_after_its_timeout() {
    let timeouts = Timeouts { request_head: LONG, request_body: LONG, keep_alive: SHORT };
    let server = start_with(Settings { timeouts, ..Settings::default() }, None).await;
    let mut idle = connect(ONE, server.address).await;
    assert_eq!(send(&mut idle).await, "HTTP/1.1 200 OK");
    assert_eq!(idle.read_to_end(&mut Vec::new()).await.unwrap(), 0);
}
