//! HTTP/2: the same responses as over HTTP/1.1, and limits against attacks that only HTTP/2 allows.

use std::net::SocketAddr;

use h2::client::SendRequest;
use http::{HeaderMap, Method, Request, StatusCode};
use hyper::body::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::test_server::{COLLECTION, LONG, SHORT, start};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const BODY: &str = r#"{"location":"West US","properties":{"sku":{"name":"Standard"}}}"#;

/// Frame types.
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
/// Frame flags.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

struct Client {
    requests: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
}

async fn connect(address: SocketAddr) -> Client {
    let stream = TcpStream::connect(address).await.unwrap();
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    Client { requests: requests.ready().await.unwrap(), connection: tokio::spawn(connection) }
}

fn request(method: Method, path: &str) -> Request<()> {
    let uri = format!("http://localhost{path}");
    let builder = Request::builder().method(method).uri(uri);
    builder.header("content-type", "application/json").body(()).unwrap()
}

impl Client {
    async fn send(&mut self, request: Request<()>, body: &str) -> (StatusCode, HeaderMap, String) {
        let (response, mut sender) = self.requests.send_request(request, body.is_empty()).unwrap();
        if !body.is_empty() {
            // Fails if the server has reset the stream already.
            let _ = sender.send_data(Bytes::from(body.to_owned()), true);
        }
        let (parts, mut body) = response.await.unwrap().into_parts();
        let mut text = Vec::new();
        while let Some(data) = body.data().await {
            text.extend(data.unwrap());
        }
        (parts.status, parts.headers, String::from_utf8(text).unwrap())
    }
}

#[tokio::test]
async fn a_connection_serves_several_requests() {
    let server = start(LONG, LONG).await;
    let mut client = connect(server.address).await;
    let (status, headers, body) = client.send(request(Method::GET, "/livez"), "").await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "ok"));
    assert!(headers.contains_key("x-ms-request-id"));
    assert!(!headers.contains_key("strict-transport-security"));
    let (status, _, body) = client.send(request(Method::PUT, COLLECTION), BODY).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    assert_eq!(client.send(request(Method::GET, COLLECTION), "").await.2, body);
}

#[tokio::test]
async fn hosts_and_origins_are_checked_as_over_http1() {
    let server = start(LONG, LONG).await;
    let mut client = connect(server.address).await;
    let foreign = Request::builder().uri("http://evil.test/livez").body(()).unwrap();
    assert_eq!(client.send(foreign, "").await.0, StatusCode::MISDIRECTED_REQUEST);
    let mut two = request(Method::GET, "/livez");
    two.headers_mut().insert("host", "127.0.0.1".parse().unwrap());
    assert_eq!(client.send(two, "").await.0, StatusCode::BAD_REQUEST);
    let mut page = request(Method::PUT, COLLECTION);
    page.headers_mut().insert("origin", "http://evil.test".parse().unwrap());
    assert_eq!(client.send(page, BODY).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn oversized_requests_are_rejected() {
    let server = start(LONG, LONG).await;
    let mut client = connect(server.address).await;
    let long = "x".repeat(100_000);
    let put = || request(Method::PUT, COLLECTION);
    assert_eq!(client.send(put(), &long).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    let mut announced = put();
    announced.headers_mut().insert("content-length", "9999999999".parse().unwrap());
    let (response, _sender) = client.requests.send_request(announced, false).unwrap();
    assert_eq!(response.await.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
    let mut many = request(Method::GET, "/livez");
    for number in 0..200 {
        let name: http::HeaderName = format!("x-{number}").parse().unwrap();
        many.headers_mut().insert(name, "y".parse().unwrap());
    }
    assert_eq!(client.send(many, "").await.0, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    let path = format!("/{}", "x".repeat(9_000));
    assert_eq!(client.send(request(Method::GET, &path), "").await.0, StatusCode::URI_TOO_LONG);
    let mut head = request(Method::GET, "/livez");
    head.headers_mut().insert("x", "x".repeat(20 * 1024).parse().unwrap());
    assert_eq!(client.send(head, "").await.0, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    assert_eq!(client.send(request(Method::GET, "/livez"), "").await.2, "ok");
}

#[tokio::test]
async fn an_incomplete_body_returns_408() {
    let server = start(LONG, SHORT).await;
    let mut client = connect(server.address).await;
    let put = request(Method::PUT, COLLECTION);
    let (response, _sender) = client.requests.send_request(put, false).unwrap();
    assert_eq!(response.await.unwrap().status(), StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let server = start(SHORT, SHORT).await;
    let mut client = connect(server.address).await;
    assert_eq!(client.send(request(Method::GET, "/livez"), "").await.2, "ok");
    // Gracefully, with GOAWAY.
    client.connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_incomplete_head_closes_the_connection() {
    let server = start(SHORT, SHORT).await;
    let mut client = RawConnection::connect(server.address).await;
    client.send(&frame(HEADERS, END_STREAM, 1, &[0x82])).await.unwrap();
    client.read_to_end().await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    silent.write_all(&PREFACE[..10]).await.unwrap();
    assert_eq!(silent.read_to_end(&mut Vec::new()).await.unwrap(), 0);
}

#[tokio::test]
async fn shutdown_finishes_requests_in_flight() {
    let server = start(LONG, LONG).await;
    let mut client = connect(server.address).await;
    assert_eq!(client.send(request(Method::GET, "/livez"), "").await.2, "ok");
    let put = request(Method::PUT, COLLECTION);
    let (response, mut sender) = client.requests.send_request(put, false).unwrap();
    // The response to a later request shows that this one has arrived.
    assert_eq!(client.send(request(Method::GET, "/livez"), "").await.2, "ok");
    server.stop.send(()).unwrap();
    sender.send_data(Bytes::from(BODY), true).unwrap();
    assert_eq!(response.await.unwrap().status(), StatusCode::CREATED);
    drop(client.requests);
    client.connection.await.unwrap().unwrap();
    server.task.await.unwrap().unwrap();
}

/// A connection for frames that no regular client sends.
struct RawConnection(TcpStream);

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

impl RawConnection {
    async fn connect(address: SocketAddr) -> RawConnection {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(PREFACE).await.unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        RawConnection(stream)
    }

    async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes).await
    }

    async fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = self.0.read_to_end(&mut bytes).await;
        bytes
    }

    /// Sends frames, and reads all that the server sends, until the server closes the connection.
    async fn flood(self, mut next: impl FnMut(u32) -> Vec<u8>) {
        let (mut reader, mut writer) = self.0.into_split();
        let drain =
            tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
        for round in 0.. {
            if writer.write_all(&next(round)).await.is_err() {
                break;
            }
        }
        let _ = drain.await.unwrap();
    }
}

/// The header block of `GET /livez`, with entries of the static HPACK table.
fn head() -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x04, 6];
    block.extend(b"/livez");
    block.extend([0x01, 9]);
    block.extend(b"localhost");
    block
}

#[tokio::test]
async fn limits_are_announced_in_settings() {
    let server = start(LONG, LONG).await;
    let mut client = RawConnection::connect(server.address).await;
    let mut head = [0; 9];
    client.0.read_exact(&mut head).await.unwrap();
    assert_eq!((head[3], head[4]), (SETTINGS, 0));
    let mut settings = vec![0; usize::from(head[2])];
    client.0.read_exact(&mut settings).await.unwrap();
    let settings: Vec<_> = settings
        .chunks(6)
        .map(|setting| {
            let value = u32::from_be_bytes(setting[2..].try_into().unwrap());
            (setting[1], value)
        })
        .collect();
    for limit in [(3, 64), (4, 64 * 1024), (6, 16 * 1024)] {
        assert!(settings.contains(&limit), "{limit:?}: {settings:?}");
    }
}

#[tokio::test]
async fn a_rapid_reset_attack_is_aborted() {
    let server = start(LONG, LONG).await;
    let flood = |round: u32| {
        let mut frames = Vec::new();
        for number in 0..100 {
            let stream = (round * 100 + number) * 2 + 1;
            frames.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &head()));
            frames.extend(frame(RESET, 0, stream, &8_u32.to_be_bytes()));
        }
        frames
    };
    RawConnection::connect(server.address).await.flood(flood).await;
    let mut client = connect(server.address).await;
    assert_eq!(client.send(request(Method::GET, "/livez"), "").await.2, "ok");
}

#[tokio::test]
async fn a_continuation_flood_is_aborted() {
    let server = start(LONG, LONG).await;
    let flood = |round: u32| match round {
        0 => frame(HEADERS, END_STREAM, 1, &head()),
        _ => frame(CONTINUATION, 0, 1, &[]),
    };
    RawConnection::connect(server.address).await.flood(flood).await;
    let flood = |round: u32| {
        let long = [&[0x00, 1, b'x', 100][..], &[b'x'; 100]].concat().repeat(100);
        frame(if round == 0 { HEADERS } else { CONTINUATION }, 0, 1, &long)
    };
    RawConnection::connect(server.address).await.flood(flood).await;
}

#[tokio::test]
async fn floods_of_settings_and_pings_are_aborted() {
    let server = start(LONG, LONG).await;
    for (kind, payload) in [(SETTINGS, &[][..]), (PING, &[0; 8])] {
        let frames = frame(kind, 0, 0, payload).repeat(1_000);
        RawConnection::connect(server.address).await.flood(|_| frames.clone()).await;
    }
    let mut client = connect(server.address).await;
    assert_eq!(client.send(request(Method::GET, "/livez"), "").await.2, "ok");
}
