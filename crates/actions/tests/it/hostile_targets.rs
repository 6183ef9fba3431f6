//! Hostile targets: every attempt ends within its timeout, reports the cause and does not affect
//! other attempts.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use kalends_actions::{EgressSettings, NetworkExecutor};
use kalends_domain::Outcome;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Duration, interval, timeout};

use crate::harness::{
    OK, SHORT, Sink, attempt, execute, executor, get, has_succeeded, open, read_request, request,
};

type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Executes an attempt against a target that serves connections with `serve`, and checks outcome and
/// message. Then checks that the same executor still reaches a good target.
async fn check(
    name: &str,
    serve: impl Fn(TcpStream) -> Serving + Send + Sync + 'static,
    expected: Result<&str, &str>,
) {
    let serve = Arc::new(serve);
    let sink = Sink::start("127.0.0.1:0", move |stream, _, _| serve(stream)).await;
    let executor = executor(open());
    let mut hostile = attempt(request(&sink.uri("/")));
    if expected == TIMEOUT {
        hostile.timeout = SHORT;
    }
    let report = execute(&executor, hostile).await;
    let text = match expected {
        Ok(text) => {
            assert_eq!(report.outcome, Outcome::Succeeded, "{name}: {}", report.message);
            text
        }
        Err(text) => {
            let failed = Outcome::Failed { retry_after: None };
            assert_eq!(report.outcome, failed, "{name}: {}", report.message);
            text
        }
    };
    assert!(report.message.contains(text), "{name}: {}", report.message);
    assert!(report.message.len() < 48 * 1024, "{name}");
    unaffected(name, &executor).await;
}

async fn unaffected(name: &str, executor: &NetworkExecutor) {
    let good = Sink::responding(|_| OK.into()).await;
    let report = get(executor, &good.uri("/")).await;
    assert!(has_succeeded(&report), "after {name}: {}", report.message);
}

/// Reads the request, then writes the bytes and hangs.
fn send(bytes: impl Into<Vec<u8>>) -> impl Fn(TcpStream) -> Serving + Send + Sync + 'static {
    let bytes: Vec<u8> = bytes.into();
    move |mut stream| {
        let bytes = bytes.clone();
        Box::pin(async move {
            if read_request(&mut stream).await.is_some() {
                let _ = stream.write_all(&bytes).await;
                std::future::pending::<()>().await;
            }
        })
    }
}

/// Reads the request, writes the bytes and closes.
fn send_and_close(bytes: &'static [u8]) -> impl Fn(TcpStream) -> Serving + Send + Sync + 'static {
    move |mut stream| {
        Box::pin(async move {
            if read_request(&mut stream).await.is_some() {
                let _ = stream.write_all(bytes).await;
                let _ = stream.shutdown().await;
            }
        })
    }
}

/// Reads the request, writes `start`, then `piece` repeatedly with a pause in between.
fn repeat(
    start: &'static [u8],
    piece: &'static [u8],
    pause: Duration,
) -> impl Fn(TcpStream) -> Serving + Send + Sync + 'static {
    move |mut stream| {
        Box::pin(async move {
            let Some(_) = read_request(&mut stream).await else { return };
            let mut going = stream.write_all(start).await;
            let mut turns = interval(pause.max(Duration::from_nanos(1)));
            while going.is_ok() {
                if !pause.is_zero() {
                    turns.tick().await;
                }
                going = stream.write_all(piece).await;
            }
        })
    }
}

const TIMEOUT: Result<&str, &str> = Err("failed: Timeout");
const BROKEN: Result<&str, &str> = Err("failed: ReceiveFailure");
const NOT_HTTP: Result<&str, &str> = Err("failed: ServerProtocolViolation");
const AT_ONCE: Duration = Duration::ZERO;
const SLOWLY: Duration = Duration::from_millis(50);

#[tokio::test]
async fn silent_and_slow_targets_time_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let executor = executor(open());
    let mut silent = attempt(request(&format!("http://{}/", listener.local_addr().unwrap())));
    silent.timeout = SHORT;
    let report = execute(&executor, silent).await;
    assert!(report.message.contains("failed: Timeout"), "{}", report.message);
    unaffected("never accepts", &executor).await;

    check("accepts and hangs", send(""), TIMEOUT).await;
    check("half a head", send("HTTP/1.1 200 OK\r\nX: "), TIMEOUT).await;
    check("a head byte by byte", repeat(b"HTTP/1.1 200 OK\r\nX: ", b"y", SLOWLY), TIMEOUT).await;
    let slow_body = repeat(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", b"y", SLOWLY);
    check("a body byte by byte", slow_body, TIMEOUT).await;
    let promise = "HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\nx";
    check("a promise of 10 GiB", send(promise), TIMEOUT).await;
}

/// A target with a full accept queue: new connections get no response.
async fn full() -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let (address, mut waiting) = (listener.local_addr().unwrap(), Vec::new());
    while let Ok(stream) = timeout(SHORT, TcpStream::connect(address)).await {
        waiting.push(stream.unwrap());
        assert!(waiting.len() < 100, "the accept queue is bounded");
    }
    (listener, waiting)
}

#[tokio::test]
async fn a_target_that_accepts_no_connection_times_out() {
    let (listener, _waiting) = full().await;
    let uri = format!("http://{}/", listener.local_addr().unwrap());
    let patient = executor(open());
    let mut short = attempt(request(&uri));
    short.timeout = SHORT;
    let report = execute(&patient, short).await;
    assert!(report.message.contains("failed: Timeout"), "{}", report.message);
    unaffected("takes no connection", &patient).await;
    // The connect timeout applies even if the attempt has more time.
    let impatient = executor(EgressSettings { connect_timeout: SHORT, ..open() });
    let report = get(&impatient, &uri).await;
    assert!(report.message.contains("failed: ConnectFailure"), "{}", report.message);
}

#[tokio::test]
async fn a_response_after_the_timeout_is_discarded() {
    let sink = Sink::start("127.0.0.1:0", |mut stream, number, _| async move {
        while read_request(&mut stream).await.is_some() {
            if number == 0 {
                // Longer than the attempt's timeout.
                let mut turns = interval(SHORT * 2);
                turns.tick().await;
                turns.tick().await;
            }
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
            let _ = stream.write_all(text.as_bytes()).await;
        }
    })
    .await;
    let executor = executor(open());
    let mut late = attempt(request(&sink.uri("/")));
    late.timeout = SHORT;
    let report = execute(&executor, late).await;
    assert!(report.message.contains("failed: Timeout"), "{}", report.message);
    let next = get(&executor, &sink.uri("/")).await;
    assert!(next.message.ends_with("Body: 1"), "not the late response: {}", next.message);
}

#[tokio::test]
async fn endless_responses_are_truncated() {
    let endless = repeat(b"HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 4096], AT_ONCE);
    check("an endless body", endless, Ok("Body: xxxx")).await;
    let large =
        repeat(b"HTTP/1.1 500 No\r\nContent-Length: 10737418240\r\n\r\n", &[b'x'; 4096], AT_ONCE);
    check("10 GiB", large, Err("'InternalServerError'")).await;
    let chunks =
        repeat(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", AT_ONCE);
    check("endless chunks", chunks, Ok("Body: xxxx")).await;
    let head = repeat(b"HTTP/1.1 200 OK\r\nX: ", &[b'x'; 4096], AT_ONCE);
    check("an endless head", head, Err("the response headers are too long")).await;
    let many = repeat(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n", AT_ONCE);
    check("100,000 headers", many, Err("the response headers are too long")).await;
    let hundred = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(101));
    check("101 headers", send(hundred), Err("too many headers")).await;
    let interim = repeat(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", AT_ONCE);
    check("interim answers", interim, Err("too many interim answers")).await;
    let few = [b"HTTP/1.1 100 Continue\r\n\r\n".repeat(8), OK.into()].concat();
    check("eight interim answers", send(few), Ok("Body: ok")).await;
}

#[tokio::test]
async fn malformed_responses_are_refused() {
    for (name, bytes) in [
        ("HTTP/0.9", &b"<html>hello</html>"[..]),
        ("another protocol", b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
        ("a NUL in a header", b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n"),
        ("two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"),
        ("garbage for chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n"),
        ("an upgrade", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
        ("HTTP/2 unasked", b"\0\0\0\x04\0\0\0\0\0"),
    ] {
        check(name, send_and_close(bytes), NOT_HTTP).await;
    }
    for (name, bytes) in [
        ("nothing", &b""[..]),
        ("half a head", b"HTTP/1.1 200 OK\r\nX: y"),
        ("half a body", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"),
        ("half a chunk", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe"),
    ] {
        check(name, send_and_close(bytes), BROKEN).await;
    }
}

#[tokio::test]
async fn a_connection_reset_within_a_body_fails_the_attempt() {
    let reset = |mut stream: TcpStream| -> Serving {
        Box::pin(async move {
            let Some(_) = read_request(&mut stream).await else { return };
            let half = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
            let _ = stream.write_all(half).await;
            stream.set_zero_linger().unwrap();
        })
    };
    check("a reset", reset, BROKEN).await;
}

#[tokio::test]
async fn nothing_is_decompressed() {
    // A gzip bomb: a thousand times longer when decompressed.
    let bomb =
        [&b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xed\xc1\x01\x01\0\0\0\x80\x90"[..], &[0; 500]].concat();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        bomb.len()
    );
    check("a gzip bomb", send([head.into_bytes(), bomb].concat()), Ok("Body: \u{1f}\u{fffd}\u{8}"))
        .await;
    let mut sink = Sink::responding(|_| OK.into()).await;
    let mut asks = request(&sink.uri("/"));
    asks.headers = crate::harness::headers(&[("Accept-Encoding", "gzip")]);
    assert!(has_succeeded(&execute(&executor(open()), attempt(asks)).await));
    let (_, request) = sink.next().await;
    assert_eq!(request.matches("ncoding").count(), 1, "{request}");
    assert!(request.contains("accept-encoding: identity\r\n"), "{request}");
}

#[tokio::test]
async fn a_hundred_hanging_targets_do_not_delay_a_good_one() {
    let hanging = Sink::start("127.0.0.1:0", |mut stream, _, requests| async move {
        while let Some(request) = read_request(&mut stream).await {
            let _ = requests.send((0, request));
        }
    })
    .await;
    let executor = Arc::new(executor(open()));
    let mut hanging_sink = hanging;
    let mut attempts = Vec::new();
    for _ in 0..100 {
        let executor = executor.clone();
        let attempt = attempt(request(&hanging_sink.uri("/")));
        attempts.push(tokio::spawn(async move { execute(&executor, attempt).await }));
    }
    for _ in 0..100 {
        hanging_sink.next().await;
    }
    unaffected("a hundred that hang", &executor).await;
    assert!(attempts.iter().all(|attempt| !attempt.is_finished()));
    attempts.iter().for_each(|attempt| attempt.abort());
}
