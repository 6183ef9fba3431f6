//! A sender that loses its lease while it prepares a request sends none of it.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kalends_actions::{
    ActionExecutor as _, AttemptReport, AttemptRequest, Endpoint, ExecutorSettings,
    NetworkExecutor, NotSent, SendFence, Services,
};
use kalends_domain::{
    Action, HttpAuthentication, HttpRequest, MessageFormat, Outcome, Secret, StorageQueueMessage,
    Target,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::AsyncReadExt;
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::harness::{
    OK, Sink, attempt, executor, get, guarded, has_succeeded, leak, open, post, read_request,
    request, with_settings,
};
use crate::http2::{Tasks, acceptor};
use crate::tls::Authority;

pub(crate) type Execution = JoinHandle<Result<AttemptReport, NotSent>>;

/// Executes an attempt in the background.
pub(crate) fn begin(
    executor: &Arc<NetworkExecutor>,
    attempt: AttemptRequest<'static>,
    fence: &SendFence,
) -> Execution {
    let (executor, fence) = (Arc::clone(executor), fence.clone());
    tokio::spawn(async move { executor.execute(attempt, fence).await })
}

pub(crate) async fn end(execution: Execution) -> Result<AttemptReport, NotSent> {
    tokio::time::timeout(crate::harness::TEST_TIMEOUT, execution).await.unwrap().unwrap()
}

/// A server that reports a connection, waits for `proceed`, completes the TLS handshake, and reports
/// everything that it then receives until the client closes the connection.
async fn slow_tls(authority: &Authority, proceed: Arc<Notify>) -> Sink {
    let certified = authority.certify("localhost", |_| ());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certified.chain, PrivatePkcs8KeyDer::from(certified.key).into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Sink::start("127.0.0.1:0", move |stream, number, requests| {
        let (acceptor, proceed) = (acceptor.clone(), proceed.clone());
        async move {
            let _ = requests.send((number, "connected".into()));
            proceed.notified().await;
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut received = Vec::new();
            // An error is the end of the connection too.
            let _ = stream.read_to_end(&mut received).await;
            let _ = requests.send((number, String::from_utf8_lossy(&received).into_owned()));
        }
    })
    .await
}

#[tokio::test]
async fn a_fence_cancelled_during_the_tls_handshake_sends_no_byte() {
    let (authority, proceed) = (Authority::new(), Arc::new(Notify::new()));
    let mut sink = slow_tls(&authority, Arc::clone(&proceed)).await;
    let executor = Arc::new(executor(authority.trusted()));
    let fence = SendFence::unlimited();
    let uri = format!("https://localhost:{}/", sink.address.port());
    let execution = begin(&executor, attempt(post(&uri, "payload")), &fence);
    assert_eq!(sink.next().await.1, "connected");
    fence.cancel();
    proceed.notify_one();
    assert_eq!(end(execution).await, Err(NotSent));
    assert_eq!(sink.next().await.1, "", "the handshake was completed and nothing followed");
}

#[tokio::test]
async fn a_fence_cancelled_during_the_name_lookup_sends_nothing() {
    let name_server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut sink = Sink::responding(|_| OK.into()).await;
    let mut settings = guarded(&["127.0.0.1/32".into()]);
    settings.name_servers = vec![name_server.local_addr().unwrap()];
    let executor = Arc::new(executor(settings));
    let fence = SendFence::unlimited();
    let uri = format!("http://slow.test:{}/", sink.address.port());
    let execution = begin(&executor, attempt(request(&uri)), &fence);
    // The questions for both address families, answered only after the cancellation.
    let mut questions = Vec::new();
    let mut buffer = [0; 512];
    let (length, from) = name_server.recv_from(&mut buffer).await.unwrap();
    questions.push((buffer[..length].to_vec(), from));
    fence.cancel();
    while !execution.is_finished() {
        for (question, from) in questions.drain(..) {
            name_server.send_to(&answer(&question), from).await.unwrap();
        }
        tokio::select! {
            received = name_server.recv_from(&mut buffer) => {
                let (length, from) = received.unwrap();
                questions.push((buffer[..length].to_vec(), from));
            }
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(end(execution).await, Err(NotSent));
    assert!(sink.requests.try_recv().is_err());
}

/// A DNS response: 127.0.0.1 for questions of type A, otherwise no address.
fn answer(question: &[u8]) -> Vec<u8> {
    let end = question[12..].iter().position(|&byte| byte == 0).unwrap() + 13;
    let is_a = question[end..end + 2] == [0, 1];
    let mut response = question[..2].to_vec();
    response.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    response.extend(&question[12..end + 4]);
    if is_a {
        response.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
    }
    response
}

#[tokio::test]
async fn a_fence_cancelled_during_the_token_request_sends_nothing_to_the_target() {
    let proceed = Arc::new(Notify::new());
    let wait = Arc::clone(&proceed);
    let mut login = Sink::start("127.0.0.1:0", move |mut stream, number, requests| {
        let wait = Arc::clone(&wait);
        async move {
            let Some(request) = read_request(&mut stream).await else { return };
            let _ = requests.send((number, request));
            wait.notified().await;
            let token = "{\"access_token\":\"t\",\"expires_in\":\"3600\"}";
            let length = token.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{token}");
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, answer.as_bytes()).await;
        }
    })
    .await;
    let mut sink = Sink::responding(|_| OK.into()).await;
    let login_at = Endpoint::Base(login.uri("/").parse().unwrap());
    let executor = Arc::new(with_settings(ExecutorSettings {
        egress: open(),
        services: Services { login: login_at, ..Services::default() },
        ..ExecutorSettings::default()
    }));
    let authentication = HttpAuthentication::ActiveDirectoryOAuth {
        tenant: Some("tenant".into()),
        audience: Some("audience".into()),
        client_id: Some("client".into()),
        secret: Some(Secret::new("secret".into())),
    };
    let request =
        HttpRequest { authentication: Some(Box::new(authentication)), ..request(&sink.uri("/")) };
    let fence = SendFence::unlimited();
    let execution = begin(&executor, attempt(request.clone()), &fence);
    login.next().await;
    fence.cancel();
    proceed.notify_one();
    assert_eq!(end(execution).await, Err(NotSent));
    assert!(sink.requests.try_recv().is_err());
    let report = end(begin(&executor, attempt(request), &SendFence::unlimited())).await.unwrap();
    assert!(has_succeeded(&report), "the token is cached: {}", report.message);
    sink.next().await;
}

#[tokio::test]
async fn a_closed_fence_sends_nothing_over_a_keep_alive_connection() {
    let mut sink = Sink::responding(|_| OK.into()).await;
    let executor = Arc::new(executor(open()));
    assert!(has_succeeded(&get(&executor, &sink.uri("/")).await));
    assert_eq!(sink.next().await.0, 0);
    let fence = SendFence::unlimited();
    fence.cancel();
    let refused = end(begin(&executor, attempt(request(&sink.uri("/refused"))), &fence)).await;
    assert_eq!(refused, Err(NotSent));
    assert!(has_succeeded(&get(&executor, &sink.uri("/next")).await));
    assert!(sink.next().await.1.starts_with("GET /next "));
}

#[tokio::test]
async fn a_fence_that_closes_before_a_redirect_leaves_the_outcome_unknown() {
    let mut last = Sink::responding(|_| OK.into()).await;
    let (to, fence) = (last.uri("/"), SendFence::unlimited());
    let closing = fence.clone();
    let mut first = Sink::responding(move |_| {
        closing.cancel();
        format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
    })
    .await;
    let executor = Arc::new(executor(open()));
    let execution = begin(&executor, attempt(request(&first.uri("/"))), &fence);
    let report = end(execution).await.unwrap();
    assert_eq!(report.outcome, Outcome::Indeterminate, "{}", report.message);
    first.next().await;
    assert!(last.requests.try_recv().is_err());
}

#[tokio::test]
async fn a_storage_queue_message_is_not_sent_through_a_closed_fence() {
    let mut sink =
        Sink::responding(|_| "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n".into()).await;
    let queues = Endpoint::Base(sink.uri("/").parse().unwrap());
    let executor = Arc::new(with_settings(ExecutorSettings {
        egress: open(),
        services: Services { queues, ..Services::default() },
        ..ExecutorSettings::default()
    }));
    let message = StorageQueueMessage {
        storage_account: Some("account".into()),
        queue_name: Some("queue".into()),
        sas_token: Some(Secret::new("?sv=1&sig=2".into())),
        message: Some("text".into()),
        format: MessageFormat::Raw,
    };
    let target = Target::StorageQueue(message);
    let action = Action { type_as_written: "StorageQueue".into(), target };
    let attempt = AttemptRequest { action: leak(action), ..attempt(request(&sink.uri("/"))) };
    let fence = SendFence::unlimited();
    let report = end(begin(&executor, attempt, &fence)).await.unwrap();
    assert!(has_succeeded(&report), "{}", report.message);
    sink.next().await;
    fence.cancel();
    assert_eq!(end(begin(&executor, attempt, &fence)).await, Err(NotSent));
    assert!(sink.requests.try_recv().is_err());
}

#[tokio::test]
async fn a_request_that_waits_for_an_http2_stream_is_withdrawn_when_its_fence_closes() {
    let (authority, proceed) = (Authority::new(), Arc::new(Notify::new()));
    let (tls, wait) = (acceptor(&authority), Arc::clone(&proceed));
    // One stream at a time; each waits for permission to respond.
    let mut sink = Sink::start("127.0.0.1:0", move |stream, number, requests| {
        let (tls, wait) = (tls.clone(), Arc::clone(&wait));
        async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let service = service_fn(move |request: Request<Incoming>| {
                let (requests, wait) = (requests.clone(), Arc::clone(&wait));
                async move {
                    let _ = requests.send((number, request.uri().path().to_owned()));
                    wait.notified().await;
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"ok"))))
                }
            });
            let mut serving = hyper::server::conn::http2::Builder::new(Tasks);
            serving.max_concurrent_streams(1);
            let _ = serving.serve_connection(TokioIo::new(stream), service).await;
        }
    })
    .await;
    let executor = Arc::new(executor(authority.trusted()));
    let uri = |path: &str| format!("https://localhost:{}{path}", sink.address.port());
    let open = SendFence::unlimited();
    proceed.notify_one();
    assert!(has_succeeded(&get(&executor, &uri("/zero")).await), "the limit is known");
    let uris = [uri("/first"), uri("/second"), uri("/withdrawn"), uri("/last")];
    assert_eq!(sink.next().await.1, "/zero");
    let [first, second, withdrawn, last] = uris.map(|uri| attempt(request(&uri)));
    let first = begin(&executor, first, &open);
    assert_eq!(sink.next().await.1, "/first");
    // The library keeps one request ready for the next free stream, the others wait behind it.
    let second = begin(&executor, second, &open);
    tokio::task::yield_now().await;
    let fence = SendFence::unlimited();
    let withdrawn = begin(&executor, withdrawn, &fence);
    // Usually enough for the request to reach the queue; the result is the same if it is not.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    fence.cancel();
    assert_eq!(end(withdrawn).await, Err(NotSent));
    proceed.notify_one();
    assert!(has_succeeded(&end(first).await.unwrap()), "a request in flight is not cancelled");
    assert_eq!(sink.next().await.1, "/second");
    proceed.notify_one();
    assert!(has_succeeded(&end(second).await.unwrap()));
    proceed.notify_one();
    assert!(has_succeeded(&end(begin(&executor, last, &open)).await.unwrap()));
    assert_eq!(sink.next().await.1, "/last");
}
