//! One request and its answer over HTTP, for services whose answers are read by us and not shown as
//! they are. Redirects are not followed.

use std::time::Duration;

use bytes::Bytes;
use hyper::{Request, StatusCode};
use kalends_domain::CollectionPath;
use url::{Position, Url};

use crate::client::{self, Client, Failure};
use crate::egress::{Destination, Identity, NoConnection};
use crate::laps::Laps;

/// How much of an answer is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerLimits {
    /// Bytes of the body that are kept.
    pub(crate) body_bytes_max: usize,
}

/// What a service answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// For how long a busy service wants to be left alone.
    pub(crate) retry_after: Option<Duration>,
    /// The body, or as much of it as is taken.
    pub(crate) body: Vec<u8>,
}

/// Why there is no answer. Printed as history has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// There was no connection, so nothing was sent.
    NotSent(NoConnection),
    /// The connection broke: the service may or may not have taken the request.
    Lost(String),
}

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoAnswer::NotSent(why) => why.fmt(f),
            NoAnswer::Lost(why) => f.write_str(why),
        }
    }
}

/// Sends `request` to where `url` points, on behalf of a collection, and reads the answer. The
/// request's own address is put in here; method, headers and body are the caller's.
pub(crate) async fn exchange(
    client: &Client,
    url: &Url,
    collection: &CollectionPath,
    request: Request<Bytes>,
    limits: AnswerLimits,
    laps: &Laps,
) -> Result<Answer, NoAnswer> {
    let unusable = || NoAnswer::Lost("the address or a header cannot be sent".into());
    let to = Destination::of_url(url, collection).ok_or_else(unusable)?;
    let (head, body) = request.into_parts();
    let mut message = client::Request {
        method: head.method.to_string(),
        target: url[Position::BeforePath..Position::AfterQuery].to_owned(),
        authority: url[Position::BeforeHost..Position::AfterPort].to_owned(),
        headers: client::Headers::default(),
        body,
    };
    for (name, value) in &head.headers {
        let value = value.to_str().map_err(|_| unusable())?;
        if !message.header(name.as_str(), value) {
            return Err(unusable());
        }
    }
    let sent = client.send(&message, &to, &Identity::none(), limits.body_bytes_max, laps).await;
    let answer = sent.map_err(|failure| match failure {
        Failure::NoConnection(why) => NoAnswer::NotSent(why),
        lost => NoAnswer::Lost(lost.to_string()),
    })?;
    let status = StatusCode::from_u16(answer.status).map_err(|_| unusable())?;
    let is_busy = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS];
    let asked_for = answer.headers.get("retry-after").filter(|_| is_busy.contains(&status));
    let retry_after = asked_for.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    Ok(Answer { status, retry_after, body: answer.body })
}
