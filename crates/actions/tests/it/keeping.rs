//! Connections that are kept, and who shares them.

use std::time::Duration;

use kalends_actions::ActionExecutor as _;
use kalends_domain::Outcome;
use tokio::io::AsyncWriteExt;

use crate::world::{
    OK, Sink, collection, execute, executor, get, guarded, has_succeeded, open, order, post,
    read_request, request,
};

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let mut sink = Sink::answering(|_| OK.into()).await;
    let executor = executor(open());
    for turn in 0..5 {
        let report = get(&executor, &sink.uri("/")).await;
        assert!(has_succeeded(&report), "{}", report.message);
        assert_eq!(report.timing.connect.is_some(), turn == 0, "connected once");
        assert!(
            report.timing.first_byte.is_some() && report.timing.first_byte <= report.timing.total
        );
        assert_eq!(sink.next().await.0, 0);
    }
}

#[tokio::test]
async fn connections_that_were_made_ahead_are_used_and_nothing_is_said_on_them_before() {
    let mut sink = Sink::answering(|_| OK.into()).await;
    let executor = executor(open());
    let orders = [(); 3].map(|()| order(request(&sink.uri("/"))));
    let ahead = Duration::from_secs(60);
    // Again: what is there is not made a second time.
    for _ in 0..2 {
        for ready in executor.prewarm(&orders.each_ref(), ahead) {
            ready.await;
        }
    }
    assert!(sink.requests.try_recv().is_err());
    let [a, b, c] = orders.map(|order| execute(&executor, order));
    for report in <[_; 3]>::from(tokio::join!(a, b, c)) {
        assert!(has_succeeded(&report), "{}", report.message);
        assert_eq!(report.timing.connect, None, "connected before");
    }
    let mut connections = Vec::new();
    for _ in 0..3 {
        connections.push(sink.next().await.0);
    }
    connections.sort_unstable();
    assert_eq!(connections, [0, 1, 2]);
}

#[tokio::test]
async fn what_is_made_ready_is_given_up_in_time_and_never_where_jobs_may_not_go() {
    let mut silent = Sink::start("127.0.0.1:0", |stream, number, connected| async move {
        let _ = connected.send((number, String::new()));
        // As if the handshake went on for ever.
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let secure = silent.uri("/").replace("http:", "https:");
    let ready = executor(open()).prewarm(&[&order(request(&secure))], Duration::from_millis(1));
    assert_eq!(ready.len(), 1);
    for ready in ready {
        ready.await;
    }
    let denied = order(request(&silent.uri("/")));
    for ready in executor(guarded(&[])).prewarm(&[&denied], Duration::from_secs(60)) {
        ready.await;
    }
    assert!(silent.requests.try_recv().map_or(true, |(number, _)| number == 0));
    assert!(silent.requests.try_recv().is_err(), "nobody else connected");
}

#[tokio::test]
async fn collections_do_not_share_a_connection() {
    let mut sink = Sink::answering(|_| OK.into()).await;
    let executor = executor(open());
    for (name, connection) in [("a", 0), ("b", 1), ("A", 0), ("b", 1)] {
        let mut order = order(request(&sink.uri("/")));
        order.path.collection = collection(name);
        assert!(has_succeeded(&execute(&executor, order).await));
        assert_eq!(sink.next().await.0, connection, "{name}");
    }
}

#[tokio::test]
async fn a_second_answer_to_one_request_is_for_nobody() {
    let sink = Sink::answering(|request| match request.starts_with("GET /two ") {
        true => format!("{OK}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"),
        false => OK.into(),
    })
    .await;
    let executor = executor(open());
    for path in ["/two", "/one", "/two", "/one"] {
        let report = get(&executor, &sink.uri(path)).await;
        assert!(report.message.ends_with("Body: ok"), "{}", report.message);
    }
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_not_used() {
    // Closes after every answer without a word of it.
    let mut sink = Sink::start("127.0.0.1:0", |mut stream, number, requests| async move {
        if let Some(request) = read_request(&mut stream).await {
            let _ = stream.write_all(OK.as_bytes()).await;
            let _ = stream.shutdown().await;
            drop(stream);
            let _ = requests.send((number, request));
        }
    })
    .await;
    let executor = executor(open());
    for connection in 0..20 {
        let report = execute(&executor, order(post(&sink.uri("/"), "once"))).await;
        assert!(has_succeeded(&report), "{}", report.message);
        // It is closed when this is told.
        assert_eq!(sink.next().await.0, connection);
    }
}

#[tokio::test]
async fn a_request_that_may_have_been_seen_is_not_sent_again() {
    // Closes just when the second request has come.
    let mut sink = Sink::start("127.0.0.1:0", |mut stream, number, requests| async move {
        for turn in 0.. {
            let Some(request) = read_request(&mut stream).await else { return };
            let _ = requests.send((number, request));
            if turn == 1 {
                return;
            }
            let _ = stream.write_all(OK.as_bytes()).await;
        }
    })
    .await;
    let executor = executor(open());
    let send = || execute(&executor, order(post(&sink.uri("/"), "once")));
    assert!(has_succeeded(&send().await));
    let report = send().await;
    assert_eq!(report.outcome, Outcome::Failed { retry_after: None });
    assert!(report.message.contains("failed: KeepAliveFailure"), "{}", report.message);
    assert!(has_succeeded(&send().await), "the next one has a connection of its own");
    let mut numbers = Vec::new();
    while let Ok((number, _)) = sink.requests.try_recv() {
        numbers.push(number);
    }
    assert_eq!(numbers, [0, 0, 1]);
}

#[tokio::test]
async fn a_burst_for_one_target_keeps_to_its_limit_of_connections() {
    let mut sink = Sink::answering(|_| OK.into()).await;
    let mut settings = open();
    settings.connections_per_target_max = 3;
    let executor = std::sync::Arc::new(executor(settings));
    let mut attempts = Vec::new();
    for _ in 0..200 {
        let (executor, order) = (executor.clone(), order(request(&sink.uri("/"))));
        attempts.push(tokio::spawn(async move { execute(&executor, order).await }));
    }
    for attempt in attempts {
        assert!(has_succeeded(&attempt.await.unwrap()));
    }
    for _ in 0..200 {
        assert!(sink.next().await.0 < 3);
    }
}
