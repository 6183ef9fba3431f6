//! Concurrent exchanges over one HTTP/2 connection.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use kalends_environment::Stopwatch;

use super::error::ClientError;
use super::receive_budget::{LimitedTransport, ReceiveBudget};
use super::request::Request;
use super::response::{Response, ResponseHeaders};
use super::{BODY_BYTES_READ_MAX, HEAD_BYTES_MAX, HEADERS_MAX};
use crate::egress::Transport;
use crate::send_fence::AttemptContext;
use crate::timing::Phase;

/// Flow-control window of each stream and of the connection: unread bytes of a target.
const UNREAD_BYTES_MAX: u32 = 64 * 1024;

/// A connection; clones share it. It is closed when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Http2 {
    requests: SendRequest<TakenBody>,
    budget: ReceiveBudget,
}

/// Why an exchange over HTTP/2 failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Http2Error {
    /// The target did not process the request.
    #[error("the target did not accept the request")]
    NotSent,
    /// The exchange failed after the request was sent.
    #[error(transparent)]
    Failed(#[from] ClientError),
}

#[derive(Clone)]
struct TokioExecutor;

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for TokioExecutor {
    fn execute(&self, task: F) {
        drop(tokio::spawn(task));
    }
}

impl Http2 {
    pub(super) async fn new(transport: Transport) -> Result<Http2, ClientError> {
        let budget = ReceiveBudget::new();
        let transport = LimitedTransport::new(transport, budget.clone());
        let (requests, connection) = Builder::new(TokioExecutor)
            .initial_stream_window_size(UNREAD_BYTES_MAX)
            .initial_connection_window_size(UNREAD_BYTES_MAX)
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
            .handshake(TokioIo::new(transport))
            .await
            .map_err(|error| ClientError::Http2Handshake(Arc::new(error)))?;
        // The task ends with the connection.
        drop(tokio::spawn(connection));
        Ok(Http2 { requests, budget })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.requests.is_closed()
    }

    /// Sends a request and reads the response, with at most `body_bytes_max` bytes of its body.
    pub(super) async fn exchange(
        &mut self,
        request: &Request,
        body_bytes_max: usize,
        context: AttemptContext<'_>,
    ) -> Result<Response, Http2Error> {
        let _in_flight = self.budget.begin();
        let result = self.exchange_within_budget(request, body_bytes_max, context).await;
        match (result, self.budget.exceeded()) {
            (Err(Http2Error::Failed(_)), Some(limit)) => Err(ClientError::Protocol(limit).into()),
            (result, _) => result,
        }
    }

    async fn exchange_within_budget(
        &mut self,
        request: &Request,
        body_bytes_max: usize,
        context: AttemptContext<'_>,
    ) -> Result<Response, Http2Error> {
        let stopwatch = Stopwatch::start();
        let is_taken = Arc::new(AtomicBool::new(false));
        let request = to_hyper(request, &is_taken)?;
        let AttemptContext { timer, guard } = context;
        guard.permit().map_err(ClientError::Fenced)?;
        let sending = self.requests.try_send_request(request);
        tokio::pin!(sending);
        // A request waits for a free stream of the connection. Dropping it then withdraws it.
        let result = tokio::select! {
            biased;
            result = &mut sending => result,
            () = guard.closed() => match is_taken.load(Ordering::Relaxed) {
                true => sending.await,
                false => {
                    guard.return_permit();
                    return Err(ClientError::Fenced(guard.refuse()).into());
                }
            },
        };
        let response = match result {
            Ok(response) => response,
            Err(mut error) => {
                return Err(match error.take_message() {
                    Some(_) => {
                        guard.return_permit();
                        Http2Error::NotSent
                    }
                    None => ClientError::from(error.into_error()).into(),
                });
            }
        };
        timer.record(Phase::FirstByte, stopwatch);
        Ok(read_response(response, body_bytes_max).await?)
    }
}

/// The body of a request. It records when the connection takes the request, which it does right before
/// it writes the head: hyper then asks whether the body is empty.
struct TakenBody {
    inner: Full<Bytes>,
    is_taken: Arc<AtomicBool>,
}

impl Body for TakenBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.is_taken.store(true, Ordering::Relaxed);
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn to_hyper(
    request: &Request,
    is_taken: &Arc<AtomicBool>,
) -> Result<hyper::Request<TakenBody>, ClientError> {
    let mut builder = hyper::Request::builder()
        .method(&*request.method)
        .uri(format!("https://{}{}", request.authority, request.target));
    for (name, value) in request.headers.iter() {
        builder = builder.header(name, value);
    }
    let built = builder
        .body(TakenBody { inner: Full::new(request.body.clone()), is_taken: Arc::clone(is_taken) });
    built.map_err(|_| ClientError::Protocol("the request cannot be sent over HTTP/2"))
}

async fn read_response(
    response: hyper::Response<Incoming>,
    body_bytes_max: usize,
) -> Result<Response, ClientError> {
    let (head, mut incoming) = response.into_parts();
    if head.headers.len() > HEADERS_MAX {
        return Err(ClientError::Protocol("the response has too many headers"));
    }
    let mut headers = ResponseHeaders::with_capacity(head.headers.len(), 1_024);
    for (name, value) in &head.headers {
        headers.push(name.as_str().as_bytes(), value.as_bytes());
    }
    let (mut body, mut read) = (Vec::new(), 0);
    while let Some(frame) = incoming.frame().await {
        let frame = frame?;
        let Some(data) = frame.data_ref() else { continue };
        read += data.len();
        let room = data.len().min(body_bytes_max.saturating_sub(body.len()));
        body.extend_from_slice(data.get(..room).unwrap_or_default());
        if read >= BODY_BYTES_READ_MAX {
            break;
        }
    }
    Ok(Response { status: head.status.as_u16(), headers, body })
}
