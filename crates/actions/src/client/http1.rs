//! One exchange over an HTTP/1.1 connection.

use bytes::{Buf, BytesMut};
use kalends_environment::Stopwatch;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::answer::Answer;
use super::body::{Body, Stand};
use super::failure::Failure;
use super::head::{Afterwards, Head, IsHead, end_of_head, read_head};
use super::request::Request;
use super::{HEAD_BYTES_MAX, INTERIM_MAX};
use crate::egress::Transport;
use crate::laps::{Lap, Laps};

/// Room that is made for each read.
const READ_BYTES: usize = 4 * 1024;

/// Whether a body is there as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whole {
    Yes,
    /// More came than is read; the rest was not waited for.
    No,
}

/// A connection on which nothing is under way.
pub(super) struct Http1 {
    transport: Transport,
    buffer: BytesMut,
}

/// How an exchange failed.
pub(super) enum Failed {
    /// Nothing of the request was written.
    Unsent,
    /// All or some of it was, and not a byte came back.
    Unanswered(String),
    /// Something came back.
    Broken(Failure),
}

impl Http1 {
    pub(super) fn new(transport: Transport) -> Http1 {
        Http1 { transport, buffer: BytesMut::new() }
    }

    /// Whether it can be used again: nothing came in since, and nobody has gone.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.buffer.is_empty() && self.transport.is_quiet()
    }

    /// Sends a request and reads its answer, of whose body `kept_max` bytes are kept.
    pub(super) async fn exchange(
        &mut self,
        request: &Request,
        kept_max: usize,
        laps: &Laps,
    ) -> Result<(Answer, Afterwards), Failed> {
        let watch = Stopwatch::start();
        self.write(&request.to_http1()).await?;
        let head = self.head(request, watch, laps).await?;
        let (body, whole) = self.body(&head, kept_max).await.map_err(Failed::Broken)?;
        let is_clean = whole == Whole::Yes && self.buffer.is_empty();
        let afterwards = if is_clean { head.afterwards } else { Afterwards::Close };
        let answer = Answer { status: head.status, headers: head.headers, body };
        Ok((answer, afterwards))
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            match self.transport.write(rest).await {
                Ok(0) | Err(_) if written == 0 => return Err(Failed::Unsent),
                // The target may have answered before it read everything.
                Ok(0) | Err(_) => return Ok(()),
                Ok(count) => written += count,
            }
        }
        // What is lost here shows when the answer is read.
        let _ = self.transport.flush().await;
        Ok(())
    }

    /// The head of the answer. Interim answers are passed over.
    async fn head(
        &mut self,
        request: &Request,
        watch: Stopwatch,
        laps: &Laps,
    ) -> Result<Head, Failed> {
        let is_head = if request.is_head() { IsHead::Yes } else { IsHead::No };
        let mut is_answered = false;
        for _ in 0..=INTERIM_MAX {
            let mut looked = 0;
            let end = loop {
                if let Some(end) = end_of_head(&self.buffer, looked) {
                    break end;
                }
                looked = self.buffer.len();
                if looked >= HEAD_BYTES_MAX {
                    let why = "the head of the answer is too long";
                    return Err(Failed::Broken(Failure::Protocol(why)));
                }
                match self.read().await {
                    Ok(0) if looked == 0 && !is_answered => {
                        return Err(Failed::Unanswered("no answer came".into()));
                    }
                    Ok(0) => return Err(Failed::Broken(self.cut_in_head())),
                    Err(error) if looked == 0 && !is_answered => {
                        return Err(Failed::Unanswered(error.to_string()));
                    }
                    Err(error) => {
                        return Err(Failed::Broken(Failure::Receive(error.to_string())));
                    }
                    Ok(_) if is_answered => {}
                    Ok(_) => {
                        laps.note(Lap::FirstByte, watch);
                        is_answered = true;
                    }
                }
            };
            let bytes = self.buffer.split_to(end);
            let head = read_head(&bytes, is_head);
            let head = head.map_err(|why| Failed::Broken(Failure::Protocol(why)))?;
            if head.status >= 200 {
                return Ok(head);
            }
        }
        Err(Failed::Broken(Failure::Protocol("the target sends too many interim answers")))
    }

    /// Why a head that is not complete is none.
    fn cut_in_head(&self) -> Failure {
        match self.buffer.starts_with(b"HTTP/") {
            true => Failure::Receive("the answer ended in its head".into()),
            false => Failure::Protocol("what the target sent is not HTTP/1"),
        }
    }

    async fn body(&mut self, head: &Head, kept_max: usize) -> Result<(Vec<u8>, Whole), Failure> {
        let mut body = Body::new(head.framing, kept_max);
        loop {
            let taken = body.take(&self.buffer).map_err(Failure::Protocol)?;
            self.buffer.advance(taken);
            match body.stand() {
                Stand::Done => return Ok((body.into_kept(), Whole::Yes)),
                Stand::Enough => return Ok((body.into_kept(), Whole::No)),
                Stand::Open => {}
            }
            match self.read().await {
                Ok(0) if body.ends_when_closed() => return Ok((body.into_kept(), Whole::Yes)),
                Ok(0) => return Err(Failure::Receive("the answer ended in its body".into())),
                Ok(_) => {}
                Err(error) => return Err(Failure::Receive(error.to_string())),
            }
        }
    }

    async fn read(&mut self) -> std::io::Result<usize> {
        self.buffer.reserve(READ_BYTES);
        // Never more than a head may have: what a body has is taken out at once.
        let room = (HEAD_BYTES_MAX + READ_BYTES).saturating_sub(self.buffer.len());
        let mut limited = bytes::BufMut::limit(&mut self.buffer, room.min(READ_BYTES));
        self.transport.read_buf(&mut limited).await
    }
}
