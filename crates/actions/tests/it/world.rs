//! Targets and orders for tests: real sockets on this machine.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kalends_actions::{
    ActionExecutor, AttemptReport, AttemptRequest, EgressSettings, ExecutorSettings,
    NetworkExecutor,
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

/// No attempt of a test that is meant to get an answer takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// What an attempt is given that is meant to time out.
pub(crate) const SHORT: Duration = Duration::from_millis(400);
/// A plain answer.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

pub(crate) fn executor(egress: EgressSettings) -> NetworkExecutor {
    let settings = ExecutorSettings { egress, ..ExecutorSettings::default() };
    with_settings(settings)
}

pub(crate) fn with_settings(settings: ExecutorSettings) -> NetworkExecutor {
    let entropy = Arc::new(SeededEntropy::new(1));
    NetworkExecutor::new(settings, Arc::new(SystemClock), entropy).unwrap()
}

/// Everything on this machine may be reached.
pub(crate) fn open() -> EgressSettings {
    let policy = EgressPolicy { mode: EgressMode::SingleUser, ..EgressPolicy::default() };
    EgressSettings { policy, ..EgressSettings::default() }
}

/// Only what is public, and what is named.
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

pub(crate) fn order(request: HttpRequest) -> AttemptRequest {
    AttemptRequest {
        path: JobPath { collection: collection("jc"), job: JobName::new("j").unwrap() },
        uid: [1; 16],
        generation: 1,
        region: "West US".into(),
        action: Action { type_as_written: "Http".into(), target: Target::Http(request) },
        role: ActionRole::Main,
        scheduled: "2026-11-15T12:00:00Z".parse().unwrap(),
        cause: Cause::Scheduled,
        retry: 0,
        timeout: PATIENCE,
        signing: Signing::Off,
    }
}

/// Makes an attempt; none may outlive its own time-out by itself.
pub(crate) async fn execute(executor: &NetworkExecutor, order: AttemptRequest) -> AttemptReport {
    let outer = order.timeout + PATIENCE;
    tokio::time::timeout(outer, executor.execute(order)).await.expect("it ends by itself")
}

pub(crate) async fn get(executor: &NetworkExecutor, uri: &str) -> AttemptReport {
    execute(executor, order(request(uri))).await
}

pub(crate) fn has_succeeded(report: &AttemptReport) -> bool {
    report.outcome == Outcome::Succeeded
}

/// A target on this machine. It ends with the test's runtime.
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    /// The requests that came, as they came, each with the number of its connection.
    pub(crate) requests: UnboundedReceiver<(usize, String)>,
}

impl Sink {
    /// Answers every request with what `answer` makes of it.
    pub(crate) async fn answering(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Sink {
        Sink::answering_at("127.0.0.1:0", answer).await
    }

    pub(crate) async fn answering_at(
        at: &str,
        answer: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Sink {
        let answer = Arc::new(answer);
        Sink::start(at, move |stream, number, requests| {
            let answer = answer.clone();
            async move { answer_all(stream, number, &requests, &*answer).await }
        })
        .await
    }

    /// Does with every connection what `serve` says.
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

    /// The next request.
    pub(crate) async fn next(&mut self) -> (usize, String) {
        let next = tokio::time::timeout(PATIENCE, self.requests.recv()).await;
        next.expect("a request comes").unwrap()
    }
}

/// Answers request after request on one connection.
pub(crate) async fn answer_all(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    number: usize,
    requests: &UnboundedSender<(usize, String)>,
    answer: &(dyn Fn(&str) -> String + Send + Sync),
) {
    while let Some(request) = read_request(&mut stream).await {
        let text = answer(&request);
        // A test that has ended no longer listens.
        let _ = requests.send((number, request));
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
        let _ = stream.flush().await;
    }
}

/// One request, head and body; none where the other side has gone.
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
