//! Exchanges over an HTTP/2 connection, which many share at once.

use std::future::Future;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{Response, body::Incoming};
use hyper_util::rt::TokioIo;
use kalends_environment::Stopwatch;

use super::allowance::{Allowance, Metered};
use super::answer::{Answer, AnswerHeaders};
use super::failure::Failure;
use super::request::Request;
use super::{BODY_BYTES_READ_MAX, HEAD_BYTES_MAX, HEADERS_MAX};
use crate::egress::Transport;
use crate::laps::{Lap, Laps};

/// What a target may have sent that nobody has read yet, for each request and for all of one
/// connection.
const UNREAD_BYTES_MAX: u32 = 64 * 1024;

/// A connection; copies share it. It is closed when the last of them goes.
#[derive(Clone)]
pub(super) struct Http2 {
    requests: SendRequest<Full<Bytes>>,
    allowance: Allowance,
}

/// How an exchange failed.
pub(super) enum Failed {
    /// The target has not seen it.
    Unsent,
    Broken(Failure),
}

#[derive(Clone)]
struct Tasks;

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for Tasks {
    fn execute(&self, task: F) {
        drop(tokio::spawn(task));
    }
}

impl Http2 {
    pub(super) async fn new(transport: Transport) -> Result<Http2, Failure> {
        let allowance = Allowance::new();
        let transport = Metered::new(transport, allowance.clone());
        let (requests, connection) = Builder::new(Tasks)
            .initial_stream_window_size(UNREAD_BYTES_MAX)
            .initial_connection_window_size(UNREAD_BYTES_MAX)
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
            .handshake(TokioIo::new(transport))
            .await
            .map_err(|error| Failure::Receive(error.to_string()))?;
        // It ends when the connection does.
        drop(tokio::spawn(connection));
        Ok(Http2 { requests, allowance })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.requests.is_closed()
    }

    /// Sends a request and reads its answer, of whose body `kept_max` bytes are kept.
    pub(super) async fn exchange(
        &mut self,
        request: &Request,
        kept_max: usize,
        laps: &Laps,
    ) -> Result<Answer, Failed> {
        let _under_way = self.allowance.begin();
        let exchanged = self.exchange_bounded(request, kept_max, laps).await;
        match (exchanged, self.allowance.broken()) {
            (Err(Failed::Broken(_)), Some(why)) => Err(Failed::Broken(Failure::Protocol(why))),
            (exchanged, _) => exchanged,
        }
    }

    async fn exchange_bounded(
        &mut self,
        request: &Request,
        kept_max: usize,
        laps: &Laps,
    ) -> Result<Answer, Failed> {
        let watch = Stopwatch::start();
        let message = message(request).map_err(Failed::Broken)?;
        let response = match self.requests.try_send_request(message).await {
            Ok(response) => response,
            Err(mut failed) => {
                return Err(match failed.take_message() {
                    Some(_) => Failed::Unsent,
                    None => Failed::Broken(Failure::Receive(words(&failed.into_error()))),
                });
            }
        };
        laps.note(Lap::FirstByte, watch);
        read(response, kept_max).await.map_err(Failed::Broken)
    }
}

fn message(request: &Request) -> Result<hyper::Request<Full<Bytes>>, Failure> {
    let refused = |_| Failure::Protocol("the request cannot be sent over HTTP/2");
    let mut builder = hyper::Request::builder()
        .method(request.method.as_str())
        .uri(format!("https://{}{}", request.authority, request.target));
    for (name, value) in request.headers.iter() {
        builder = builder.header(name, value);
    }
    builder.body(Full::new(request.body.clone())).map_err(refused)
}

async fn read(response: Response<Incoming>, kept_max: usize) -> Result<Answer, Failure> {
    let (head, mut body) = response.into_parts();
    if head.headers.len() > HEADERS_MAX {
        return Err(Failure::Protocol("the answer has too many headers"));
    }
    let mut headers = AnswerHeaders::with_capacity(head.headers.len(), 1_024);
    for (name, value) in &head.headers {
        headers.push(name.as_str().as_bytes(), value.as_bytes());
    }
    let (mut kept, mut read) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::Receive(words(&error)))?;
        let Some(data) = frame.data_ref() else { continue };
        read += data.len();
        let room = data.len().min(kept_max.saturating_sub(kept.len()));
        kept.extend_from_slice(data.get(..room).unwrap_or_default());
        if read >= BODY_BYTES_READ_MAX {
            break;
        }
    }
    Ok(Answer { status: head.status.as_u16(), headers, body: kept })
}

/// An error with its cause, which hyper leaves out.
fn words(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
