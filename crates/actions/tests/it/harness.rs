//! Executors, attempts and targets for tests, over sockets of this machine.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kalends_actions::{
    ActionExecutor, AttemptReport, AttemptRequest, EgressSettings, ExecutorSettings,
    NetworkExecutor, SendFence,
};
use kalends_domain::{
    Action, ActionRole, AllowEntry, Cause, CollectionName, CollectionPath, EgressMode,
    EgressPolicy, GroupName, GroupPath, Headers, HttpRequest, JobName, JobPath, Limits, Method,
    Outcome, Signing, SubscriptionId, Target, Uri,
};
use kalends_environment::{SeededEntropy, SystemClock};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Timeout of attempts that are expected to get a response.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of attempts that are expected to time out.
pub(crate) const SHORT: Duration = Duration::from_millis(400);
/// A minimal response.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

pub(crate) fn executor(egress: EgressSettings) -> NetworkExecutor {
    let settings = ExecutorSettings { egress, ..ExecutorSettings::default() };
    with_settings(settings)
}

pub(crate) fn with_settings(settings: ExecutorSettings) -> NetworkExecutor {
    let entropy = Arc::new(SeededEntropy::new(1));
    NetworkExecutor::new(settings, Arc::new(SystemClock), entropy).unwrap()
}

/// Settings that allow connections to this machine.
pub(crate) fn open() -> EgressSettings {
    let policy = EgressPolicy { mode: EgressMode::SingleUser, ..EgressPolicy::default() };
    EgressSettings { policy, ..EgressSettings::default() }
}

/// Settings that allow public addresses and the entries of `allow`.
pub(crate) fn guarded(allow: &[String]) -> EgressSettings {
    let allow = allow.iter().map(|text| AllowEntry::parse(text).unwrap()).collect();
    let policy = EgressPolicy { mode: EgressMode::Guarded, allow, forbidden: vec![] };
    EgressSettings { policy, ..EgressSettings::default() }
}

pub(crate) fn collection(name: &str) -> CollectionPath {
    let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
    let group = GroupPath { subscription, group: GroupName::new("rg").unwrap() };
    CollectionPath { group, collection: CollectionName::new(name).unwrap() }
}

pub(crate) fn request(uri: &str) -> HttpRequest {
    HttpRequest {
        uri: Uri::new(uri, &Limits::default()).unwrap(),
        method: Method::new("GET").unwrap(),
        headers: None,
        body: None,
        authentication: None,
    }
}

pub(crate) fn post(uri: &str, body: &str) -> HttpRequest {
    let method = Method::new("POST").unwrap();
    HttpRequest { method, body: Some(body.into()), ..request(uri) }
}

pub(crate) fn headers(list: &[(&str, &str)]) -> Option<Headers> {
    let list = list.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    Some(Headers::restore(list.collect()))
}

/// A definition that lives until the end of the test process.
pub(crate) fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

pub(crate) fn attempt(request: HttpRequest) -> AttemptRequest<'static> {
    AttemptRequest {
        path: leak(JobPath { collection: collection("jc"), job: JobName::new("j").unwrap() }),
        uid: [1; 16],
        generation: 1,
        region: "West US",
        action: leak(Action { type_as_written: "Http".into(), target: Target::Http(request) }),
        role: ActionRole::Main,
        scheduled: "2026-11-15T12:00:00Z".parse().unwrap(),
        cause: Cause::Scheduled,
        retry: 0,
        timeout: TEST_TIMEOUT,
        signing: Signing::Off,
    }
}

/// Executes an attempt and fails if it exceeds its timeout.
pub(crate) async fn execute(
    executor: &NetworkExecutor,
    attempt: AttemptRequest<'_>,
) -> AttemptReport {
    let outer = attempt.timeout + TEST_TIMEOUT;
    tokio::time::timeout(outer, executor.execute(attempt, SendFence::unlimited()))
        .await
        .expect("the attempt ends within its timeout")
        .expect("the fence is open")
}

pub(crate) async fn get(executor: &NetworkExecutor, uri: &str) -> AttemptReport {
    execute(executor, attempt(request(uri))).await
}

pub(crate) fn has_succeeded(report: &AttemptReport) -> bool {
    report.outcome == Outcome::Succeeded
}

/// A target on this machine. It stops with the test's runtime.
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    /// The received requests, each with the number of its connection.
    pub(crate) requests: UnboundedReceiver<(usize, String)>,
}

impl Sink {
    /// Responds to every request with the result of `respond`.
    pub(crate) async fn responding(
        respond: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Sink {
        Sink::responding_at("127.0.0.1:0", respond).await
    }

    pub(crate) async fn responding_at(
        at: &str,
        respond: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Sink {
        let respond = Arc::new(respond);
        Sink::start(at, move |stream, number, requests| {
            let respond = respond.clone();
            async move { respond_to_all(stream, number, &requests, &*respond).await }
        })
        .await
    }

    /// Serves every connection with `serve`.
    pub(crate) async fn start<F, D>(at: &str, serve: F) -> Sink
    where
        F: Fn(TcpStream, usize, UnboundedSender<(usize, String)>) -> D + Send + Sync + 'static,
        D: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = unbounded_channel();
        tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, number, sender.clone()));
            }
        });
        Sink { address, requests }
    }

    pub(crate) fn uri(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Waits for the next request.
    pub(crate) async fn next(&mut self) -> (usize, String) {
        let next = tokio::time::timeout(TEST_TIMEOUT, self.requests.recv()).await;
        next.expect("a request arrives").unwrap()
    }
}

/// Responds to all requests of one connection.
pub(crate) async fn respond_to_all(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    number: usize,
    requests: &UnboundedSender<(usize, String)>,
    respond: &(dyn Fn(&str) -> String + Send + Sync),
) {
    while let Some(request) = read_request(&mut stream).await {
        let text = respond(&request);
        // The receiver is gone after the end of the test.
        let _ = requests.send((number, request));
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
        let _ = stream.flush().await;
    }
}

/// Reads one request with its body; `None` if the client closed the connection.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(bytes).unwrap();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    Some(head + &String::from_utf8(body).unwrap())
}

/// The value of a header in a request.
pub(crate) fn header<'a>(request: &'a str, wanted: &str) -> Option<&'a str> {
    request.lines().take_while(|line| !line.is_empty()).find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case(wanted).then_some(value)
    })
}
