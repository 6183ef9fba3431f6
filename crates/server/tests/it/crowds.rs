//! Clients that open many connections, or keep one for long.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use kalends_server::{Patience, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::serving::{LONG, SHORT, Server, start_with};

const REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";

async fn start(per_client: u16) -> Server {
    let patience = Patience { head: LONG, body: LONG, next: LONG };
    let connections_per_client_max = NonZeroU16::new(per_client);
    start_with(Settings { patience, connections_per_client_max, ..Settings::default() }, None).await
}

/// A connection from one of the addresses of this machine.
async fn connect(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

/// What comes back to a request: the status, or nothing where the connection is closed.
async fn ask(stream: &mut TcpStream) -> String {
    // Where the connection is closed already, the request may not even be sent.
    let _ = stream.write_all(REQUEST).await;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nok") && stream.read_buf(&mut answer).await.unwrap_or(0) > 0 {}
    String::from_utf8(answer).unwrap().chars().take(15).collect()
}

const ONE: [u8; 4] = [127, 0, 0, 1];
const OTHER: [u8; 4] = [127, 0, 0, 2];

#[tokio::test]
async fn a_client_that_has_enough_connections_gets_no_more_and_others_do() {
    let server = start(3).await;
    let mut kept = Vec::new();
    for _ in 0..3 {
        let mut stream = connect(ONE, server.address).await;
        assert_eq!(ask(&mut stream).await, "HTTP/1.1 200 OK");
        kept.push(stream);
    }
    for _ in 0..20 {
        assert_eq!(ask(&mut connect(ONE, server.address).await).await, "", "closed at once");
    }
    assert_eq!(ask(&mut connect(OTHER, server.address).await).await, "HTTP/1.1 200 OK");
    for stream in &mut kept {
        assert_eq!(ask(stream).await, "HTTP/1.1 200 OK", "those that are there stay");
    }
    let metrics = kept.first_mut().unwrap();
    metrics
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut page = String::new();
    metrics.read_to_string(&mut page).await.unwrap();
    assert!(page.contains("\nkalends_connections_refused_total 20\n"), "{page}");
}

#[tokio::test]
async fn a_connection_that_is_closed_makes_room() {
    let server = start(1).await;
    let mut first = connect(ONE, server.address).await;
    assert_eq!(ask(&mut first).await, "HTTP/1.1 200 OK");
    drop(first);
    // The server hears of it in its own time.
    let again = async {
        while ask(&mut connect(ONE, server.address).await).await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), again).await.expect("there is room again");
}

#[tokio::test]
async fn clients_that_say_nothing_use_up_their_own_share_alone() {
    let server = start(50).await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(connect(ONE, server.address).await);
    }
    assert_eq!(ask(&mut connect(OTHER, server.address).await).await, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn a_connection_is_kept_between_requests_for_longer_than_a_head_may_take() {
    let patience = Patience { head: SHORT, body: LONG, next: LONG };
    let server = start_with(Settings { patience, ..Settings::default() }, None).await;
    let mut kept = connect(ONE, server.address).await;
    assert_eq!(ask(&mut kept).await, "HTTP/1.1 200 OK");
    // As long as it takes the server to lose its patience with others.
    let mut slow = connect(ONE, server.address).await;
    slow.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    assert_eq!(slow.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    assert_eq!(ask(&mut kept).await, "HTTP/1.1 200 OK");
    kept.write_all(b"GET /livez HTTP/1.1\r\nHo").await.unwrap();
    let mut rest = Vec::new();
    let _ = kept.read_to_end(&mut rest).await;
    assert_eq!(rest, b"", "the second head is not waited for longer than the first");
}

#[tokio::test]
async fn a_connection_on_which_nothing_is_asked_any_more_is_closed() {
    let patience = Patience { head: LONG, body: LONG, next: SHORT };
    let server = start_with(Settings { patience, ..Settings::default() }, None).await;
    let mut kept = connect(ONE, server.address).await;
    assert_eq!(ask(&mut kept).await, "HTTP/1.1 200 OK");
    assert_eq!(kept.read_to_end(&mut Vec::new()).await.unwrap(), 0);
}
