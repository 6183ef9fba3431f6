//! Keep-alive connections and which attempts share them.

use std::pin::pin;
use std::time::Duration;

use kalends_actions::{ActionExecutor as _, AttemptRequest};
use kalends_domain::{JobPath, Outcome};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::harness::{
    OK, Sink, attempt, collection, execute, executor, get, guarded, has_succeeded, leak, open,
    post, read_request, request,
};

#[tokio::test]
async fn a_connection_is_reused_for_later_requests() {
    let mut sink = Sink::responding(|_| OK.into()).await;
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
async fn prewarmed_connections_are_used_and_carry_no_request_before() {
    let mut sink = Sink::responding(|_| OK.into()).await;
    let executor = executor(open());
    let attempts = [(); 3].map(|()| attempt(request(&sink.uri("/"))));
    let ahead = Duration::from_secs(60);
    // The second call finds the connections and opens none.
    for _ in 0..2 {
        for ready in executor.prewarm(&attempts, ahead) {
            ready.await;
        }
    }
    assert!(sink.requests.try_recv().is_err());
    let [a, b, c] = attempts.map(|attempt| execute(&executor, attempt));
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
async fn prewarming_gives_up_in_time_and_obeys_the_egress_policy() {
    let mut silent = Sink::start("127.0.0.1:0", |stream, number, connected| async move {
        let _ = connected.send((number, String::new()));
        // The TLS handshake never completes.
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let secure = silent.uri("/").replace("http:", "https:");
    let ready = executor(open()).prewarm(&[attempt(request(&secure))], Duration::from_millis(1));
    assert_eq!(ready.len(), 1);
    for ready in ready {
        ready.await;
    }
    let denied = attempt(request(&silent.uri("/")));
    for ready in executor(guarded(&[])).prewarm(&[denied], Duration::from_secs(60)) {
        ready.await;
    }
    assert!(silent.requests.try_recv().map_or(true, |(number, _)| number == 0));
    assert!(silent.requests.try_recv().is_err(), "no other connection");
}

#[tokio::test]
async fn collections_do_not_share_a_connection() {
    let mut sink = Sink::responding(|_| OK.into()).await;
    let executor = executor(open());
    for (name, connection) in [("a", 0), ("b", 1), ("A", 0), ("b", 1)] {
        let attempt = attempt(request(&sink.uri("/")));
        let path = leak(JobPath { collection: collection(name), ..attempt.path.clone() });
        let attempt = AttemptRequest { path, ..attempt };
        assert!(has_succeeded(&execute(&executor, attempt).await));
        assert_eq!(sink.next().await.0, connection, "{name}");
    }
}

#[tokio::test]
async fn a_second_response_to_one_request_is_discarded() {
    let sink = Sink::responding(|request| match request.starts_with("GET /two ") {
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
async fn a_connection_that_the_target_closed_is_not_reused() {
    // Closes after every response without announcing it.
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
        let report = execute(&executor, attempt(post(&sink.uri("/"), "once"))).await;
        assert!(has_succeeded(&report), "{}", report.message);
        // The connection is closed before the request is reported.
        assert_eq!(sink.next().await.0, connection);
    }
}

#[tokio::test]
async fn a_request_does_not_wait_for_its_own_connection_while_another_is_idle() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let (arrived, has_arrived) = oneshot::channel();
    let (respond, may_respond) = oneshot::channel::<()>();
    let target = tokio::spawn(async move {
        // Accepts no other connection.
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await.unwrap();
        arrived.send(()).unwrap();
        may_respond.await.unwrap();
        stream.write_all(OK.as_bytes()).await.unwrap();
        read_request(&mut stream).await.unwrap();
        stream.write_all(OK.as_bytes()).await.unwrap();
        listener
    });
    let executor = executor(open());
    let uri = format!("http://{address}/");
    let first = async { execute(&executor, attempt(request(&uri))).await };
    let second = async {
        has_arrived.await.unwrap();
        // Until the kernel drops the next one, because the queue of the listener is full.
        let mut waiting = Vec::new();
        while let Ok(connected) =
            timeout(Duration::from_millis(200), TcpStream::connect(address)).await
        {
            waiting.push(connected.unwrap());
            assert!(waiting.len() < 16, "the queue is short");
        }
        let mut second = pin!(execute(&executor, attempt(request(&uri))));
        assert!(timeout(Duration::from_millis(50), &mut second).await.is_err(), "not connected");
        respond.send(()).unwrap();
        second.await
    };
    let (first, second) = tokio::join!(first, second);
    assert!(has_succeeded(&first), "{}", first.message);
    assert!(has_succeeded(&second), "{}", second.message);
    assert_eq!(second.timing.connect, None, "the connection of the first request");
    target.await.unwrap();
}

#[tokio::test]
async fn a_request_that_the_target_may_have_seen_is_not_resent() {
    // Closes when it has received the second request.
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
    let send = || execute(&executor, attempt(post(&sink.uri("/"), "once")));
    assert!(has_succeeded(&send().await));
    let report = send().await;
    assert_eq!(report.outcome, Outcome::Failed { retry_after: None });
    assert!(report.message.contains("failed: KeepAliveFailure"), "{}", report.message);
    assert!(has_succeeded(&send().await), "the next one opens a connection");
    let mut numbers = Vec::new();
    while let Ok((number, _)) = sink.requests.try_recv() {
        numbers.push(number);
    }
    assert_eq!(numbers, [0, 0, 1]);
}

#[tokio::test]
async fn a_burst_to_one_target_obeys_the_connection_limit() {
    let mut sink = Sink::responding(|_| OK.into()).await;
    let mut settings = open();
    settings.connections_per_target_max = 3;
    let executor = std::sync::Arc::new(executor(settings));
    let mut attempts = Vec::new();
    for _ in 0..200 {
        let (executor, attempt) = (executor.clone(), attempt(request(&sink.uri("/"))));
        attempts.push(tokio::spawn(async move { execute(&executor, attempt).await }));
    }
    for attempt in attempts {
        assert!(has_succeeded(&attempt.await.unwrap()));
    }
    for _ in 0..200 {
        assert!(sink.next().await.0 < 3);
    }
}
