//! HTTP/2, where a target offers it.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::TlsAcceptor;

use crate::trust::Authority;
use crate::world::{Sink, get, has_succeeded, headers, order, perform, performer, post};

#[derive(Clone)]
struct Tasks;

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for Tasks {
    fn execute(&self, task: F) {
        drop(tokio::spawn(task));
    }
}

/// A server that speaks HTTP/2 alone: tells of requests, and answers by their paths.
async fn serve(authority: &Authority) -> Sink {
    let certified = authority.certify("localhost", |_| ());
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certified.chain, PrivatePkcs8KeyDer::from(certified.key).into())
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
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
async fn a_target_that_offers_http2_gets_it_over_one_connection() {
    let authority = Authority::new();
    let mut sink = serve(&authority).await;
    let performer = performer(authority.trusted());
    let uri = format!("https://localhost:{}", sink.address.port());
    let mut first = post(&format!("{uri}/a?b=c"), "hello");
    first.headers = headers(&[("X-Mine", "1")]);
    let report = perform(&performer, order(first)).await;
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
    let report = get(&performer, &format!("{uri}/large")).await;
    assert!(has_succeeded(&report) && report.message.contains("Body: xxxx"));
    let report = get(&performer, &format!("{uri}/many")).await;
    assert!(report.message.contains("too many headers"), "{}", report.message);
    assert!(has_succeeded(&get(&performer, &uri).await), "after both the connection still serves");
    for _ in 0..3 {
        assert_eq!(sink.next().await.0, 0);
    }
}
