//! One exchange over an HTTP/1.1 connection.

use bytes::{Buf, BytesMut};
use kalends_environment::Stopwatch;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::body::{Body, BodyProgress};
use super::error::ClientError;
use super::head::{Head, Persistence, RequestKind, find_head_end, parse_head};
use super::request::Request;
use super::response::Response;
use super::{HEAD_BYTES_MAX, INTERIM_MAX};
use crate::egress::Transport;
use crate::send_fence::AttemptContext;
use crate::timing::{AttemptTimer, Phase};

/// Buffer space reserved for each read.
const READ_BYTES: usize = 4 * 1024;

/// Capacity for requests that a connection keeps.
const SENT_CAPACITY_MAX: usize = 2 * 1024;

/// Whether a body was read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyEnd {
    Reached,
    /// The rest, beyond the read limit, was not read.
    NotReached,
}

/// A connection without an exchange in flight.
pub(super) struct Http1 {
    transport: Transport,
    /// Received bytes that are not read yet.
    buffer: BytesMut,
    /// The encoded request while it is sent. Its allocation serves the next request too.
    sent: Vec<u8>,
}

/// Why an exchange over HTTP/1.1 failed, and how far it got.
#[derive(Debug, thiserror::Error)]
pub(super) enum Http1Error {
    /// No byte of the request was written.
    #[error("the request could not be sent")]
    NotSent,
    /// The request was written, at least partly, and no byte of a response arrived.
    #[error(transparent)]
    NoResponse(ClientError),
    /// Some bytes of a response arrived.
    #[error(transparent)]
    Failed(#[from] ClientError),
}

impl Http1 {
    pub(super) fn new(transport: Transport) -> Http1 {
        Http1 { transport, buffer: BytesMut::new(), sent: Vec::new() }
    }

    /// Whether the connection can be reused: it is open and has no unread bytes.
    pub(super) fn is_reusable(&mut self) -> bool {
        self.buffer.is_empty() && self.transport.is_idle()
    }

    /// Sends a request and reads the response, with at most `body_bytes_max` bytes of its body.
    pub(super) async fn exchange(
        &mut self,
        request: &Request,
        body_bytes_max: usize,
        context: AttemptContext<'_>,
    ) -> Result<(Response, Persistence), Http1Error> {
        let stopwatch = Stopwatch::start();
        request.encode_http1(&mut self.sent);
        context.guard.permit().map_err(ClientError::Fenced)?;
        self.write().await.inspect_err(|_| context.guard.return_permit())?;
        self.sent.clear();
        self.sent.shrink_to(SENT_CAPACITY_MAX);
        let head = self.read_head(request, stopwatch, context.timer).await?;
        let (body, end) = self.read_body(&head, body_bytes_max).await?;
        let is_clean = end == BodyEnd::Reached && self.buffer.is_empty();
        let persistence = if is_clean { head.persistence } else { Persistence::Close };
        let response = Response { status: head.status, headers: head.headers, body };
        Ok((response, persistence))
    }

    async fn write(&mut self) -> Result<(), Http1Error> {
        let mut written = 0;
        while let Some(rest) = self.sent.get(written..).filter(|rest| !rest.is_empty()) {
            match self.transport.write(rest).await {
                Ok(0) | Err(_) if written == 0 => return Err(Http1Error::NotSent),
                // The target may have responded before it read the whole request.
                Ok(0) | Err(_) => return Ok(()),
                Ok(count) => written += count,
            }
        }
        // An error here shows up again when the response is read.
        let _ = self.transport.flush().await;
        Ok(())
    }

    /// Reads the head of the response and skips interim responses.
    async fn read_head(
        &mut self,
        request: &Request,
        stopwatch: Stopwatch,
        timer: &AttemptTimer,
    ) -> Result<Head, Http1Error> {
        let kind = if request.is_head() { RequestKind::Head } else { RequestKind::Other };
        let mut has_bytes = false;
        for _ in 0..=INTERIM_MAX {
            let mut searched = 0;
            let end = loop {
                if let Some(end) = find_head_end(&self.buffer, searched) {
                    break end;
                }
                searched = self.buffer.len();
                if searched >= HEAD_BYTES_MAX {
                    return Err(ClientError::Protocol("the response headers are too long").into());
                }
                match self.read().await {
                    Ok(0) if searched == 0 && !has_bytes => {
                        return Err(Http1Error::NoResponse(ClientError::Closed("no answer came")));
                    }
                    Ok(0) => return Err(self.incomplete_head().into()),
                    Err(error) if searched == 0 && !has_bytes => {
                        return Err(Http1Error::NoResponse(error.into()));
                    }
                    Err(error) => return Err(ClientError::from(error).into()),
                    Ok(_) if has_bytes => {}
                    Ok(_) => {
                        timer.record(Phase::FirstByte, stopwatch);
                        has_bytes = true;
                    }
                }
            };
            let head = self.buffer.get(..end).unwrap_or_default();
            let head = parse_head(head, kind).map_err(ClientError::Protocol)?;
            // Not `split_to`: the next read would need another buffer.
            self.buffer.advance(end);
            if head.status >= 200 {
                return Ok(head);
            }
        }
        Err(ClientError::Protocol("the target sends too many interim answers").into())
    }

    /// The error for a connection that was closed within the head.
    fn incomplete_head(&self) -> ClientError {
        match self.buffer.starts_with(b"HTTP/") {
            true => ClientError::Closed("the response ended in its headers"),
            false => ClientError::Protocol("what the target sent is not HTTP/1"),
        }
    }

    async fn read_body(
        &mut self,
        head: &Head,
        body_bytes_max: usize,
    ) -> Result<(Vec<u8>, BodyEnd), ClientError> {
        let mut body = Body::new(head.framing, body_bytes_max);
        loop {
            let consumed = body.consume(&self.buffer).map_err(ClientError::Protocol)?;
            self.buffer.advance(consumed);
            match body.progress() {
                BodyProgress::Complete => return Ok((body.into_content(), BodyEnd::Reached)),
                BodyProgress::LimitReached => {
                    return Ok((body.into_content(), BodyEnd::NotReached));
                }
                BodyProgress::Incomplete => {}
            }
            match self.read().await? {
                0 if body.ends_when_closed() => {
                    return Ok((body.into_content(), BodyEnd::Reached));
                }
                0 => return Err(ClientError::Closed("the response ended in its body")),
                _ => {}
            }
        }
    }

    async fn read(&mut self) -> std::io::Result<usize> {
        self.buffer.reserve(READ_BYTES);
        // Bounded by the longest head: body bytes leave the buffer at once.
        let room = (HEAD_BYTES_MAX + READ_BYTES).saturating_sub(self.buffer.len());
        let mut limited = bytes::BufMut::limit(&mut self.buffer, room.min(READ_BYTES));
        self.transport.read_buf(&mut limited).await
    }
}
