//! HTTP and HTTPS requests, and what history says of them, in the words of the retired service.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::handshake;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use kalends_domain::{HttpAuthentication, HttpRequest, Outcome, Secret};
use kalends_environment::{Entropy, new_guid};
use url::{Position, Url};

use crate::egress::{Egress, NoConnection};
use crate::oauth::{Application, Tokens};
use crate::perform::{Order, Report};
use crate::status::status_name;
use crate::tag::execution_tag;

/// Characters of an answer's body that history keeps.
const BODY_CHARS_KEPT: usize = 1_024;
/// Bytes of an answer's body that are read at most; then the connection is closed.
const BODY_BYTES_READ_MAX: usize = 64 * 1024;

/// Makes requests.
#[derive(Clone)]
pub(crate) struct HttpPerformer {
    egress: Egress,
    entropy: Arc<dyn Entropy>,
    tokens: Arc<Tokens>,
}

impl HttpPerformer {
    pub(crate) fn new(
        egress: Egress,
        entropy: Arc<dyn Entropy>,
        tokens: Arc<Tokens>,
    ) -> HttpPerformer {
        HttpPerformer { egress, entropy, tokens }
    }

    pub(crate) async fn perform(&self, order: &Order, request: &HttpRequest) -> Report {
        let Ok(url) = Url::parse(request.uri.as_str()) else {
            return failed("the address cannot be read", "");
        };
        let host = url.host_str().unwrap_or_default().to_owned();
        match tokio::time::timeout(order.timeout, self.exchange(order, request, &url)).await {
            Ok(Ok(report)) => report,
            Ok(Err(why)) => failed(&why, &host),
            Err(_) => failed("Timeout The operation has timed out", &host),
        }
    }

    async fn exchange(
        &self,
        order: &Order,
        request: &HttpRequest,
        url: &Url,
    ) -> Result<Report, String> {
        let host = url.host_str().unwrap_or_default();
        let application = Application::of(request.authentication.as_ref())?;
        let token = match &application {
            Some(application) => Some(self.tokens.token(application).await?),
            None => None,
        };
        let message = self.message(order, request, url, token.as_ref())?;
        let stream = self.egress.connect(url).await.map_err(|why| no_connection(why, host))?;
        let (mut sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| receive_failure(&error))?;
        let driver = tokio::spawn(connection);
        let response = sender.send_request(message).await;
        if let (Some(application), Some(token), Ok(response)) = (&application, &token, &response)
            && response.status() == StatusCode::UNAUTHORIZED
        {
            self.tokens.forget(application, token).await;
        }
        let report = match response {
            Ok(response) => Ok(read_answer(response, host).await),
            Err(error) => Err(receive_failure(&error)),
        };
        driver.abort();
        report
    }

    fn message(
        &self,
        order: &Order,
        request: &HttpRequest,
        url: &Url,
        token: Option<&Secret>,
    ) -> Result<Request<Full<Bytes>>, String> {
        let body = Bytes::from(request.body.clone().unwrap_or_default());
        let method = request.method.as_str().to_ascii_uppercase();
        let target = &url[Position::BeforePath..Position::AfterQuery];
        let mut message = Request::builder()
            .method(method.as_str())
            .uri(target)
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        let headers = message.headers_mut();
        put(headers, header::HOST, &url[Position::BeforeHost..Position::AfterPort])?;
        for (name, value) in request.headers.iter().flat_map(|headers| headers.iter()) {
            let name =
                HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
            put(headers, name, value)?;
        }
        self.authenticate(headers, request, token)?;
        let tag = execution_tag(order);
        for (name, value) in [
            ("x-ms-scheduler-jobid", order.path.job.as_str()),
            ("x-ms-scheduler-jobcollection", order.path.collection.collection.as_str()),
            ("x-ms-scheduler-region", &order.region),
            ("x-ms-scheduler-expected-execution-time", &order.scheduled.to_string()),
            ("x-ms-execution-tag", &tag),
            ("x-ms-client-request-id", &new_guid(&*self.entropy)),
            ("idempotency-key", &tag),
            ("accept-encoding", "identity"),
        ] {
            put(headers, HeaderName::from_static(name), value)?;
        }
        Ok(message)
    }

    fn authenticate(
        &self,
        headers: &mut HeaderMap,
        request: &HttpRequest,
        token: Option<&Secret>,
    ) -> Result<(), String> {
        if let Some(token) = token {
            return put(headers, header::AUTHORIZATION, &format!("Bearer {}", token.reveal()));
        }
        match &request.authentication {
            None => Ok(()),
            Some(HttpAuthentication::Basic { username: Some(user), password: Some(password) }) => {
                let pair = STANDARD.encode(format!("{user}:{}", password.reveal()));
                put(headers, header::AUTHORIZATION, &format!("Basic {pair}"))
            }
            Some(HttpAuthentication::Basic { .. }) => {
                Err("the job has no user or no password for its authentication".into())
            }
            Some(_) => Err("this kind of authentication is not carried out yet".into()),
        }
    }
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) -> Result<(), String> {
    let value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
    headers.insert(name, value);
    Ok(())
}

fn failed(why: &str, host: &str) -> Report {
    Report {
        outcome: Outcome::Failed { retry_after: None },
        message: format!("Http Action - Request to host '{host}' failed: {why}"),
    }
}

fn no_connection(why: NoConnection, host: &str) -> String {
    match why {
        NoConnection::Unresolved => {
            format!("NameResolutionFailure The remote name could not be resolved: '{host}'")
        }
        NoConnection::Denied(address) => {
            format!("EgressDenied The address {address} may not be reached")
        }
        NoConnection::Refused => "ConnectFailure Unable to connect to the remote server".into(),
        NoConnection::Untrusted(why) => {
            format!(
                "TrustFailure Could not establish trust relationship for the SSL/TLS secure channel: {why}"
            )
        }
    }
}

fn receive_failure(error: &hyper::Error) -> String {
    format!("ReceiveFailure The connection was closed unexpectedly: {error}")
}

async fn read_answer(response: Response<Incoming>, host: &str) -> Report {
    let (head, mut body) = response.into_parts();
    let mut bytes = Vec::new();
    while bytes.len() < BODY_BYTES_READ_MAX {
        match body.frame().await {
            Some(Ok(frame)) => bytes.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
            _ => break,
        }
    }
    bytes.truncate(BODY_BYTES_READ_MAX);
    let text: String = String::from_utf8_lossy(&bytes)
        .chars()
        .map(|c| if c == '\0' { '\u{fffd}' } else { c })
        .take(BODY_CHARS_KEPT)
        .collect();
    let status = status_name(head.status.as_u16());
    let headers = headers_in_words(&head.headers);
    let message = format!(
        "Http Action - Response from host '{host}': '{status}' Response Headers: {headers} Body: {text}"
    );
    let outcome = match head.status.is_success() {
        true => Outcome::Succeeded,
        false => Outcome::Failed { retry_after: retry_after(head.status, &head.headers) },
    };
    Report { outcome, message }
}

/// Each header on a line, equal names joined; headers of the content are left out.
fn headers_in_words(headers: &HeaderMap) -> String {
    let mut words = String::new();
    for name in headers.keys() {
        let text = name.as_str();
        if text.starts_with("content-") || matches!(text, "allow" | "expires" | "last-modified") {
            continue;
        }
        let values =
            headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        let values = values.collect::<Vec<_>>().join(", ");
        words.push_str(&format!("{}: {values}\r\n", capitalised(text)));
    }
    words
}

/// `cache-control` as `Cache-Control`: on the wire case is lost, and people are used to this one.
fn capitalised(name: &str) -> String {
    let part = |part: &str| {
        let mut letters = part.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    name.split('-').map(part).collect::<Vec<_>>().join("-")
}

/// What the target asks for, in seconds.
fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<std::time::Duration> {
    let busy = status == StatusCode::SERVICE_UNAVAILABLE || status == StatusCode::TOO_MANY_REQUESTS;
    let text = headers.get(header::RETRY_AFTER).filter(|_| busy)?.to_str().ok()?;
    text.trim().parse().ok().map(std::time::Duration::from_secs)
}
