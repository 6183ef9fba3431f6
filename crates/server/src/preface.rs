//! Which protocol a connection speaks: HTTP/2 begins with a preface that no request of HTTP/1.1
//! is like.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// What every connection of HTTP/2 begins with.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How requests are framed on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// As lines.
    Http1,
    /// As frames, several requests at once.
    Http2,
}

/// Reads until it is clear what a connection speaks. What was read comes again from the stream.
pub(crate) async fn recognise<S: AsyncRead + Unpin>(
    mut stream: S,
) -> io::Result<(Protocol, Begun<S>)> {
    let mut begin = Vec::with_capacity(PREFACE.len());
    loop {
        let left = PREFACE.len().saturating_sub(begin.len());
        let read = (&mut stream).take(left as u64).read_buf(&mut begin).await?;
        let is_over = read == 0 || begin.len() == PREFACE.len();
        let is_preface = PREFACE.starts_with(&begin);
        let protocol = match (is_preface, is_over) {
            (true, false) => continue,
            (true, true) if read > 0 => Protocol::Http2,
            _ => Protocol::Http1,
        };
        return Ok((protocol, Begun::after(begin, stream)));
    }
}

/// A stream whose first bytes were read already.
pub(crate) struct Begun<S> {
    begin: Vec<u8>,
    inner: S,
}

impl<S> Begun<S> {
    fn after(mut begin: Vec<u8>, inner: S) -> Begun<S> {
        begin.reverse(); // what comes next is taken from the end
        Begun { begin, inner }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.begin.is_empty() {
            return Pin::new(&mut self.inner).poll_read(context, buffer);
        }
        while buffer.remaining() > 0
            && let Some(byte) = self.begin.pop()
        {
            buffer.put_slice(&[byte]);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
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

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes come one by one or all at once, and none is lost.
    async fn check(bytes: &[u8], expected: Protocol) {
        for slice in [1, 1000] {
            let (mut sender, receiver) = tokio::io::duplex(slice);
            let sent = bytes.to_vec();
            let send = tokio::spawn(async move {
                tokio::io::AsyncWriteExt::write_all(&mut sender, &sent).await.unwrap();
            });
            let (protocol, mut stream) = recognise(receiver).await.unwrap();
            assert_eq!(protocol, expected, "{bytes:?}");
            let mut read = Vec::new();
            stream.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, bytes);
            send.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_connection_speaks_http_2_where_it_begins_with_the_whole_preface() {
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Protocol::Http2).await;
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0", Protocol::Http2).await;
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r", Protocol::Http1).await;
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX and more", Protocol::Http1).await;
        check(b"PUT / HTTP/1.1\r\n\r\n", Protocol::Http1).await;
        check(b"", Protocol::Http1).await;
    }
}
