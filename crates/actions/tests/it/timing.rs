//! How long the parts of an attempt took: those that ended are told, whatever came after them.

use kalends_domain::Timing;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::trust::{Authority, serve_plainly};
use crate::world::{OK, SHORT, Sink, execute, executor, get, open, order, read_request, request};

/// Which parts are known: d(ns), c(onnect), t(ls), f(irst byte), and all of it.
fn known(timing: &Timing) -> String {
    let parts = [
        ('d', timing.dns),
        ('c', timing.connect),
        ('t', timing.tls),
        ('f', timing.first_byte),
        ('a', timing.total),
    ];
    let longest = parts.iter().filter_map(|(_, time)| *time).max();
    assert_eq!(longest, timing.total, "no part is longer than all: {timing:?}");
    parts.into_iter().filter(|(_, time)| time.is_some()).map(|(part, _)| part).collect()
}

#[tokio::test]
async fn a_new_connection_has_all_parts_and_a_kept_one_only_its_answer() {
    let authority = Authority::new();
    let sink = serve_plainly(authority.certify("localhost", |_| ())).await;
    let executor = executor(authority.trusted());
    let uri = format!("https://localhost:{}/", sink.address.port());
    assert_eq!(known(&get(&executor, &uri).await.timing), "dctfa");
    // The name is looked at every time, its addresses are not asked for.
    assert_eq!(known(&get(&executor, &uri).await.timing), "dfa");
    let plain = Sink::answering(|_| OK.into()).await;
    assert_eq!(known(&get(&executor, &plain.uri("/")).await.timing), "cfa");
}

#[tokio::test]
async fn an_attempt_that_fails_says_how_far_it_came() {
    let executor = executor(open());
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let report = get(&executor, &format!("http://localhost:{}/", nobody.port())).await;
    assert_eq!(known(&report.timing), "da", "{}", report.message);

    let sink = serve_plainly(Authority::new().certify("localhost", |_| ())).await;
    let report = get(&executor, &format!("https://localhost:{}/", sink.address.port())).await;
    assert_eq!(known(&report.timing), "dca", "not trusted: {}", report.message);

    for (begin, expected) in [("", "ca"), ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", "cfa")]
    {
        let sink = Sink::start("127.0.0.1:0", move |mut stream, _, _| async move {
            let _ = read_request(&mut stream).await;
            let _ = stream.write_all(begin.as_bytes()).await;
            std::future::pending::<()>().await;
        })
        .await;
        let mut hanging = order(request(&sink.uri("/")));
        hanging.timeout = SHORT;
        let report = execute(&executor, hanging).await;
        assert_eq!(known(&report.timing), expected, "{begin:?}: {}", report.message);
    }
    let refused = get(&executor, "http://169.254.169.254/").await;
    assert_eq!(known(&refused.timing), "a", "{}", refused.message);
}

#[tokio::test]
async fn parts_are_those_of_the_last_hop() {
    let last = Sink::answering(|_| OK.into()).await;
    let to = last.uri("/");
    let sink = Sink::answering(move |_| {
        format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
    })
    .await;
    let executor = executor(open());
    let uri = format!("http://localhost:{}/", sink.address.port());
    assert_eq!(known(&get(&executor, &uri).await.timing), "cfa");
    assert_eq!(known(&get(&executor, &uri).await.timing), "fa", "both were kept");
}
