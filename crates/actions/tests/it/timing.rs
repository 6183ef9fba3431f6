//! Phase durations of attempts: completed phases are reported even if a later one fails.

use kalends_domain::Timing;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::harness::{
    OK, SHORT, Sink, attempt, execute, executor, get, open, read_request, request,
};
use crate::tls::{Authority, serve_plainly};

/// The recorded phases: d(ns), c(onnect), t(ls), f(irst byte), and the total as `a`(ll).
fn recorded(timing: &Timing) -> String {
    let parts = [
        ('d', timing.dns),
        ('c', timing.connect),
        ('t', timing.tls),
        ('f', timing.first_byte),
        ('a', timing.total),
    ];
    let longest = parts.iter().filter_map(|(_, time)| *time).max();
    assert_eq!(longest, timing.total, "no phase is longer than the total: {timing:?}");
    parts.into_iter().filter(|(_, time)| time.is_some()).map(|(part, _)| part).collect()
}

#[tokio::test]
async fn a_new_connection_has_all_phases_and_a_reused_one_only_the_response() {
    let authority = Authority::new();
    let sink = serve_plainly(authority.certify("localhost", |_| ())).await;
    let executor = executor(authority.trusted());
    let uri = format!("https://localhost:{}/", sink.address.port());
    assert_eq!(recorded(&get(&executor, &uri).await.timing), "dctfa");
    // The name is resolved every time, here from the cache.
    assert_eq!(recorded(&get(&executor, &uri).await.timing), "dfa");
    let plain = Sink::responding(|_| OK.into()).await;
    assert_eq!(recorded(&get(&executor, &plain.uri("/")).await.timing), "cfa");
}

#[tokio::test]
async fn a_failed_attempt_reports_its_completed_phases() {
    let executor = executor(open());
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let report = get(&executor, &format!("http://localhost:{}/", closed.port())).await;
    assert_eq!(recorded(&report.timing), "da", "{}", report.message);

    let sink = serve_plainly(Authority::new().certify("localhost", |_| ())).await;
    let report = get(&executor, &format!("https://localhost:{}/", sink.address.port())).await;
    assert_eq!(recorded(&report.timing), "dca", "not trusted: {}", report.message);

    for (begin, expected) in [("", "ca"), ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", "cfa")]
    {
        let sink = Sink::start("127.0.0.1:0", move |mut stream, _, _| async move {
            let _ = read_request(&mut stream).await;
            let _ = stream.write_all(begin.as_bytes()).await;
            std::future::pending::<()>().await;
        })
        .await;
        let mut hanging = attempt(request(&sink.uri("/")));
        hanging.timeout = SHORT;
        let report = execute(&executor, hanging).await;
        assert_eq!(recorded(&report.timing), expected, "{begin:?}: {}", report.message);
    }
    let refused = get(&executor, "http://169.254.169.254/").await;
    assert_eq!(recorded(&refused.timing), "a", "{}", refused.message);
}

#[tokio::test]
async fn phases_are_those_of_the_last_redirect() {
    let last = Sink::responding(|_| OK.into()).await;
    let to = last.uri("/");
    let sink = Sink::responding(move |_| {
        format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
    })
    .await;
    let executor = executor(open());
    let uri = format!("http://localhost:{}/", sink.address.port());
    assert_eq!(recorded(&get(&executor, &uri).await.timing), "cfa");
    assert_eq!(recorded(&get(&executor, &uri).await.timing), "fa", "both connections were reused");
}
