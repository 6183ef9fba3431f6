//! An HTTP/1.1 stream that passes only bytes with unambiguous framing and that enforces the timeout
//! of request heads.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::framing::FramingValidator;

/// Replaces the first rejected byte and everything after it. No HTTP parser accepts it in a head or
/// between chunks, and none waits for more of that head: hyper responds with 400 and closes the
/// connection.
const POISON: &[u8] = b"\0\r\n\r\n";

/// A stream with the checks of [`crate::framing`] and a timeout for each request head.
pub(crate) struct StrictHttp1Stream<S> {
    inner: S,
    framing: FramingValidator,
    head_time_max: Duration,
    /// Deadline of the head being read, and at first of the first head. Mostly `None`, because a
    /// head usually arrives in one piece.
    head_deadline: Option<Pin<Box<Sleep>>>,
    /// The rest of [`POISON`] to return, once a byte was rejected.
    poison: Option<&'static [u8]>,
}

impl<S> StrictHttp1Stream<S> {
    pub(crate) fn new(inner: S, head_time_max: Duration) -> StrictHttp1Stream<S> {
        let head_deadline = Some(Box::pin(sleep(head_time_max)));
        StrictHttp1Stream {
            inner,
            framing: FramingValidator::default(),
            head_time_max,
            head_deadline,
            poison: None,
        }
    }

    /// Fails once the deadline of the head has passed.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.head_deadline {
            Some(deadline) => {
                deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
            None => Poll::Pending,
        }
    }

    fn put_poison(&mut self, buffer: &mut ReadBuf<'_>) {
        let left = self.poison.unwrap_or(POISON);
        let (now, later) = left.split_at(left.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.poison = Some(later);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StrictHttp1Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.poison.is_some() {
            self.put_poison(buffer);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        if polled.is_pending() {
            return self.poll_deadline(context);
        }
        let read = buffer.filled().get(before..).unwrap_or_default();
        let accepted = self.framing.accept(read);
        if accepted < read.len() {
            buffer.set_filled(before + accepted);
            self.put_poison(buffer);
        }
        match self.framing.is_in_head() {
            false => self.head_deadline = None,
            true if self.head_deadline.is_none() => {
                self.head_deadline = Some(Box::pin(sleep(self.head_time_max)));
            }
            true => {}
        }
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for StrictHttp1Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    /// A socket that is closed with unread bytes sends RST, after which the peer may discard data
    /// that it has not read yet, here the 400. The bytes after a rejected one are therefore drained.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_shutdown(context))?;
        while self.poison.is_some() {
            let mut discarded = [0; 1024];
            let mut buffer = ReadBuf::new(&mut discarded);
            match ready!(Pin::new(&mut self.inner).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                _ => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    /// The result does not depend on how the bytes are split.
    #[tokio::test]
    async fn bytes_after_a_rejected_one_are_not_passed_on() {
        let sent = b"GET / HTTP/1.1\r\nA: b\nB: c\r\n\r\nGET /secret HTTP/1.1\r\n\r\n";
        for piece in [1, 2, 3, 5, 22, 1000] {
            let (mut sender, receiver) = tokio::io::duplex(piece);
            tokio::spawn(async move {
                // Fails once the receiver is dropped.
                let _ = sender.write_all(sent).await;
            });
            let mut read = Vec::new();
            StrictHttp1Stream::new(receiver, LONG).read_to_end(&mut read).await.unwrap();
            assert_eq!(read, b"GET / HTTP/1.1\r\nA: b\0\r\n\r\n", "{piece}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_started_head_has_a_deadline_and_an_idle_connection_has_none() {
        let time_max = Duration::from_secs(10);
        let (mut sender, receiver) = tokio::io::duplex(1000);
        let mut strict = StrictHttp1Stream::new(receiver, time_max);
        let mut read = [0; 1000];
        let pause = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        sender.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        assert_eq!(strict.read(&mut read).await.unwrap(), 16);
        pause(9).await;
        sender.write_all(b"\r\n").await.unwrap();
        assert_eq!(strict.read(&mut read).await.unwrap(), 2);
        let next = tokio::time::timeout(Duration::from_secs(70), strict.read(&mut read)).await;
        assert!(next.is_err(), "no head has started");
        sender.write_all(b"G").await.unwrap();
        assert_eq!(strict.read(&mut read).await.unwrap(), 1);
        // Further bytes do not extend the deadline.
        pause(6).await;
        sender.write_all(b"E").await.unwrap();
        assert_eq!(strict.read(&mut read).await.unwrap(), 1);
        pause(6).await;
        let late = strict.read(&mut read).await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);

        let (_silent, receiver) = tokio::io::duplex(1000);
        let mut first = StrictHttp1Stream::new(receiver, time_max);
        let late = first.read(&mut read).await.unwrap_err();
        assert_eq!(
            late.kind(),
            io::ErrorKind::TimedOut,
            "the deadline of the first head starts at once"
        );
    }
}
