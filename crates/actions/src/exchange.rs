//! One request and its answer over HTTP, for services whose answers are read by us and not shown as
//! they are. Redirects are not followed.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::handshake;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use url::{Position, Url};

use crate::egress::{Egress, NoConnection};

/// How much of an answer is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerLimits {
    /// Bytes of the body; then the connection is closed.
    pub(crate) body_bytes_max: usize,
}

/// What a service answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The body, or as much of it as is taken.
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// For how long a busy service wants to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let busy = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS];
        let text = self.headers.get(header::RETRY_AFTER).filter(|_| busy.contains(&self.status))?;
        text.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// There was no connection, so nothing was sent.
    NotSent(NoConnection),
    /// The connection broke: the service may or may not have taken the request.
    Lost(String),
}

impl NoAnswer {
    /// In the words of history.
    pub(crate) fn words(&self, host: &str) -> String {
        match self {
            NoAnswer::NotSent(why) => no_connection_words(why, host),
            NoAnswer::Lost(why) => {
                format!("ReceiveFailure The connection was closed unexpectedly: {why}")
            }
        }
    }
}

/// Why there is no connection, in the words of history.
pub(crate) fn no_connection_words(why: &NoConnection, host: &str) -> String {
    match why {
        NoConnection::Unresolved => {
            format!("NameResolutionFailure The remote name could not be resolved: '{host}'")
        }
        NoConnection::Denied(address) => {
            format!("EgressDenied The address {address} may not be reached")
        }
        NoConnection::Refused => "ConnectFailure Unable to connect to the remote server".into(),
        NoConnection::Untrusted(why) => format!(
            "TrustFailure Could not establish trust relationship for the SSL/TLS secure channel: {why}"
        ),
    }
}

/// Sends `request` to where `url` points and reads the answer. The request's own address is put in
/// here; method, headers and body are the caller's.
pub(crate) async fn exchange(
    egress: &Egress,
    url: &Url,
    mut request: Request<Full<Bytes>>,
    limits: AnswerLimits,
) -> Result<Answer, NoAnswer> {
    let lost = |error: &dyn std::fmt::Display| NoAnswer::Lost(error.to_string());
    let target: Uri =
        url[Position::BeforePath..Position::AfterQuery].parse().map_err(|error| lost(&error))?;
    let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]);
    *request.uri_mut() = target;
    request.headers_mut().insert(header::HOST, host.map_err(|error| lost(&error))?);
    let stream = egress.connect(url).await.map_err(NoAnswer::NotSent)?;
    let (mut sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| lost(&error))?;
    // It ends with this call, whatever becomes of it.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let response = sender.send_request(request).await.map_err(|error| lost(&error))?;
    let (head, body) = response.into_parts();
    let body = read(body, limits.body_bytes_max).await;
    Ok(Answer { status: head.status, headers: head.headers, body })
}

/// As much of a body as comes, up to a limit. What breaks off is what there is.
async fn read(mut body: Incoming, bytes_max: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < bytes_max {
        let Some(Ok(frame)) = body.frame().await else { break };
        bytes.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
    }
    bytes.truncate(bytes_max);
    bytes
}
