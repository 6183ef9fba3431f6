//! HTTP/2 targets.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kalends_actions::ActionExecutor as _;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use crate::harness::{
    Sink, attempt, execute, executor, get, has_succeeded, headers, post, request,
};
use crate::tls::Authority;

#[derive(Clone)]
pub(crate) struct Tasks;

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for Tasks {
    fn execute(&self, task: F) {
        drop(tokio::spawn(task));
    }
}

/// Accepts HTTP/2 only.
pub(crate) fn acceptor(authority: &Authority) -> TlsAcceptor {
    let certified = authority.certify("localhost", |_| ());
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certified.chain, PrivatePkcs8KeyDer::from(certified.key).into())
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// An HTTP/2-only server that reports requests and responds according to their path.
async fn serve(authority: &Authority) -> Sink {
    let acceptor = acceptor(authority);
    Sink::start("127.0.0.1:0", move |stream, number, requests| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request: Request<Incoming>| {
                let requests = requests.clone();
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let text = format!("{head:?} {}", String::from_utf8_lossy(&body));
                    let _ = requests.send((number, text));
                    let answer = Response::builder().header("x-answer", "yes");
                    let answer = match head.uri.path() {
                        "/many" => {
                            (0..101).fold(answer, |answer, n| answer.header(format!("x{n}"), "1"))
                        }
                        _ => answer,
                    };
                    let body = match head.uri.path() {
                        "/large" => Bytes::from(vec![b'x'; 1 << 20]),
                        _ => Bytes::from_static(b"ok"),
                    };
                    Ok::<_, Infallible>(answer.body(Full::new(body)).unwrap())
                }
            });
            let serving = hyper::server::conn::http2::Builder::new(Tasks);
            let _ = serving.serve_connection(TokioIo::new(stream), service).await;
        }
    })
    .await
}

#[tokio::test]
async fn requests_share_one_http2_connection() {
    let authority = Authority::new();
    let mut sink = serve(&authority).await;
    let executor = executor(authority.trusted());
    let uri = format!("https://localhost:{}", sink.address.port());
    let mut first = post(&format!("{uri}/a?b=c"), "hello");
    first.headers = headers(&[("X-Mine", "1")]);
    let report = execute(&executor, attempt(first)).await;
    assert!(has_succeeded(&report), "{}", report.message);
    assert!(
        report.message.contains("'OK' Response Headers: X-Answer: yes\r\n"),
        "{}",
        report.message
    );
    assert!(report.message.ends_with("Body: ok"), "{}", report.message);
    let (number, request) = sink.next().await;
    assert_eq!(number, 0);
    for part in ["HTTP/2.0", "POST", "/a?b=c", "\"x-mine\": \"1\"", "idempotency-key", " hello"] {
        assert!(request.contains(part), "{part}: {request}");
    }
    let report = get(&executor, &format!("{uri}/large")).await;
    assert!(has_succeeded(&report) && report.message.contains("Body: xxxx"));
    let report = get(&executor, &format!("{uri}/many")).await;
    assert!(report.message.contains("too many headers"), "{}", report.message);
    assert!(has_succeeded(&get(&executor, &uri).await), "the connection is still usable");
    for _ in 0..3 {
        assert_eq!(sink.next().await.0, 0);
    }
}

#[tokio::test]
async fn one_prewarmed_http2_connection_is_enough() {
    let authority = Authority::new();
    let mut sink = serve(&authority).await;
    let executor = executor(authority.trusted());
    let uri = format!("https://localhost:{}", sink.address.port());
    let attempts = [(); 9].map(|()| attempt(request(&uri)));
    for ready in executor.prewarm(&attempts, Duration::from_secs(60)) {
        ready.await;
    }
    for attempt in attempts {
        let report = execute(&executor, attempt).await;
        assert!(has_succeeded(&report), "{}", report.message);
        assert_eq!((report.timing.connect, report.timing.tls), (None, None));
        assert_eq!(sink.next().await.0, 0);
    }
}

/// Frame types.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
/// Stream id of the first request of a connection.
const FIRST: u32 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[high, middle, low, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// A head with a status only.
fn head(status: &str, flags: u8) -> Vec<u8> {
    let written = [&[0x08, 3][..], status.as_bytes()].concat();
    frame(HEADERS, END_HEADERS | flags, FIRST, &written)
}

/// Waits for a request, sends `begin`, then `again` until the client closes the connection, and
/// reports the close.
async fn serve_raw(authority: &Authority, begin: Vec<u8>, again: Vec<u8>) -> Sink {
    let acceptor = acceptor(authority);
    Sink::start("127.0.0.1:0", move |stream, number, closed| {
        let (acceptor, begin, again) = (acceptor.clone(), begin.clone(), again.clone());
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let (mut reader, mut writer) = tokio::io::split(stream);
            writer.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
            writer.flush().await.unwrap();
            reader.read_exact(&mut [0; 24]).await.unwrap();
            loop {
                let mut head = [0; 9];
                reader.read_exact(&mut head).await.unwrap();
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                reader.read_exact(&mut vec![0; length as usize]).await.unwrap();
                if head[3] == HEADERS {
                    break;
                }
            }
            // Reads what the client sends, so that its writes do not block.
            let reading = tokio::spawn(async move {
                let _ = tokio::io::copy(&mut reader, &mut tokio::io::sink()).await;
            });
            let mut sent = writer.write_all(&begin).await;
            let _ = writer.flush().await;
            while sent.is_ok() && !again.is_empty() {
                sent = writer.write_all(&again).await;
            }
            let _ = reading.await;
            let _ = closed.send((number, "closed".into()));
        }
    })
    .await
}

#[tokio::test]
async fn a_connection_that_a_target_floods_is_closed() {
    let authority = Authority::new();
    let executor = executor(authority.trusted());
    let interim = head("103", 0);
    let answer = [head("200", 0), frame(DATA, END_STREAM, FIRST, b"ok")].concat();
    let eight = [interim.repeat(8), answer.clone()].concat();
    let slow = [interim.clone(), head("200", 0)].concat();
    let ping = frame(PING, 0, 0, &[0; 8]);
    for (name, begin, again, expected) in [
        ("eight interim answers", eight, vec![], Ok("Body: ok")),
        ("more of them", vec![], interim.repeat(100), Err("too many interim answers")),
        ("pings before the answer", vec![], ping.repeat(100), Err("more than was asked for")),
        ("pings in the answer", slow, ping.repeat(100), Err("more than was asked for")),
        ("empty pieces", head("200", 0), frame(DATA, 0, FIRST, b"").repeat(100), Err("")),
    ] {
        let sink = serve_raw(&authority, begin, again).await;
        let uri = format!("https://localhost:{}/", sink.address.port());
        let report = get(&executor, &uri).await;
        let words = match expected {
            Ok(words) => {
                assert!(has_succeeded(&report), "{name}: {}", report.message);
                words
            }
            Err(words) => {
                assert!(!has_succeeded(&report), "{name}: {}", report.message);
                assert!(!report.message.contains("Timeout"), "{name}: {}", report.message);
                words
            }
        };
        assert!(report.message.contains(words), "{name}: {}", report.message);
    }
    // A flood after the response closes the idle connection.
    let mut sink = serve_raw(&authority, answer, ping.repeat(100)).await;
    let uri = format!("https://localhost:{}/", sink.address.port());
    assert!(has_succeeded(&get(&executor, &uri).await));
    assert_eq!(sink.next().await.1, "closed");
}
