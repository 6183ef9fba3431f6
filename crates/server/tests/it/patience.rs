//! Slow clients, and a server that stops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kalends_environment::{SeededEntropy, SystemClock};
use kalends_server::{App, Events, PageKey, Patience, Settings, serve};
use kalends_store::memory::MemoryStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const COLLECTION: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/rg/providers/Microsoft.Scheduler/jobCollections/jc?api-version=2026-11-01";
/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(50);

struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

async fn start(head: Duration, body: Duration) -> Server {
    let clock = Arc::new(SystemClock);
    let entropy = Arc::new(SeededEntropy::new(1));
    let app = App {
        store: Arc::new(MemoryStore::new(clock.clone())),
        clock,
        page_key: PageKey::new(&*entropy).unwrap(),
        events: Events::default(),
        changed: Arc::new(|| {}),
        entropy,
        settings: Arc::new(Settings { patience: Patience { head, body }, ..Settings::default() }),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(serve(listener, app, async {
        let _ = stopped.await;
    }));
    Server { address, stop, task }
}

/// What comes back until the server closes.
async fn answers(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text).await;
    text
}

#[tokio::test]
async fn a_head_that_does_not_come_closes_the_connection() {
    let server = start(SHORT, LONG).await;
    for begin in ["", "GET / HTTP/1.1\r\nHost: local"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(begin.as_bytes()).await.unwrap();
        assert_eq!(answers(&mut stream).await, "", "{begin:?}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_is_answered_and_closes_the_connection() {
    let server = start(LONG, SHORT).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    let request = format!("PUT {COLLECTION} HTTP/1.1\r\n{head}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = answers(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains(r#""code":"RequestTimeout""#), "{answer}");
}

#[tokio::test]
async fn many_slow_clients_do_not_keep_others_from_being_answered() {
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
    assert!(answers(&mut stream).await.ends_with("\r\n\r\nok"));
}

#[tokio::test]
async fn a_server_that_stops_finishes_what_is_under_way() {
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
    // The server asks for the body: the request is under way.
    let mut asked = [0; 25];
    busy.read_exact(&mut asked).await.unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    server.stop.send(()).unwrap();
    answers(&mut idle).await;
    busy.write_all(body.as_bytes()).await.unwrap();
    let answer = answers(&mut busy).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    server.task.await.unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}
