//! A connection on which only what everybody reads alike comes through.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::framing::Framing;

/// Stands in the place of the first refused byte and everything behind it. No HTTP parser accepts
/// it in a head or between chunks, and none waits for more of that head: the request is answered
/// with 400 and the connection is closed.
const REFUSED: &[u8] = b"\0\r\n\r\n";

/// A connection whose requests are read strictly, see [`crate::framing`], and whose heads come in
/// time.
pub(crate) struct Strict<S> {
    inner: S,
    framing: Framing,
    head_time_max: Duration,
    /// Until when the head is to be there that has begun, or the first one of all. There is mostly
    /// none: a head comes in one piece.
    late: Option<Pin<Box<Sleep>>>,
    /// What is still to be read of [`REFUSED`], once something was refused.
    refused: Option<&'static [u8]>,
}

impl<S> Strict<S> {
    pub(crate) fn new(inner: S, head_time_max: Duration) -> Strict<S> {
        let late = Some(Box::pin(sleep(head_time_max)));
        Strict { inner, framing: Framing::default(), head_time_max, late, refused: None }
    }

    /// Looks at the time while nothing comes.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.late {
            Some(late) => late.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into())),
            None => Poll::Pending,
        }
    }

    fn refuse(&mut self, buffer: &mut ReadBuf<'_>) {
        let left = self.refused.unwrap_or(REFUSED);
        let (now, later) = left.split_at(left.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.refused = Some(later);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Strict<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.refused.is_some() {
            self.refuse(buffer);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        if polled.is_pending() {
            return self.wait(context);
        }
        let read = buffer.filled().get(before..).unwrap_or_default();
        let taken = self.framing.take_all(read);
        if taken < read.len() {
            buffer.set_filled(before + taken);
            self.refuse(buffer);
        }
        match self.framing.is_in_head() {
            false => self.late = None,
            true if self.late.is_none() => {
                self.late = Some(Box::pin(sleep(self.head_time_max)));
            }
            true => {}
        }
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Strict<S> {
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

    /// A system that closes with bytes unread tells so in a way that makes the other side forget
    /// what it was sent last. So the refusal would be lost, unless what follows what was refused
    /// is read too, and thrown away.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_shutdown(context))?;
        while self.refused.is_some() {
            let mut thrown_away = [0; 1024];
            let mut buffer = ReadBuf::new(&mut thrown_away);
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

    /// However the bytes are cut into pieces, the same comes through.
    #[tokio::test]
    async fn what_follows_something_refused_does_not_come_through() {
        let sent = b"GET / HTTP/1.1\r\nA: b\nB: c\r\n\r\nGET /secret HTTP/1.1\r\n\r\n";
        for piece in [1, 2, 3, 5, 22, 1000] {
            let (mut sender, receiver) = tokio::io::duplex(piece);
            tokio::spawn(async move {
                // Nobody reads on behind what is refused.
                let _ = sender.write_all(sent).await;
            });
            let mut read = Vec::new();
            Strict::new(receiver, LONG).read_to_end(&mut read).await.unwrap();
            assert_eq!(read, b"GET / HTTP/1.1\r\nA: b\0\r\n\r\n", "{piece}");
        }
    }

    /// Moves the clock, and so tells who is late by the head from who is only silent.
    #[tokio::test(start_paused = true)]
    async fn a_head_that_has_begun_comes_in_time_and_the_next_one_whenever_it_likes() {
        let patience = Duration::from_secs(10);
        let (mut sender, receiver) = tokio::io::duplex(1000);
        let mut strict = Strict::new(receiver, patience);
        let mut read = [0; 1000];
        let pause = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        sender.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        assert_eq!(strict.read(&mut read).await.unwrap(), 16);
        pause(9).await;
        sender.write_all(b"\r\n").await.unwrap();
        assert_eq!(strict.read(&mut read).await.unwrap(), 2);
        let next = tokio::time::timeout(Duration::from_secs(70), strict.read(&mut read)).await;
        assert!(next.is_err(), "nothing has begun");
        sender.write_all(b"G").await.unwrap();
        assert_eq!(strict.read(&mut read).await.unwrap(), 1);
        // Dripping does not help.
        pause(6).await;
        sender.write_all(b"E").await.unwrap();
        assert_eq!(strict.read(&mut read).await.unwrap(), 1);
        pause(6).await;
        let late = strict.read(&mut read).await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);

        let (_silent, receiver) = tokio::io::duplex(1000);
        let mut first = Strict::new(receiver, patience);
        let late = first.read(&mut read).await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut, "the first head has begun at once");
    }
}
