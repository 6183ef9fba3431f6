//! A connection on which only what everybody reads alike comes through.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::framing::Framing;

/// Stands for every byte from a refused one on. No HTTP parser accepts it in a head or between
/// chunks, so the request is answered with 400 and the connection is closed.
const REFUSED: u8 = 0;

/// A connection whose requests are read strictly, see [`crate::framing`].
pub(crate) struct Strict<S> {
    inner: S,
    /// `None` once something was refused.
    framing: Option<Framing>,
}

impl<S> Strict<S> {
    pub(crate) fn new(inner: S) -> Strict<S> {
        Strict { inner, framing: Some(Framing::default()) }
    }

    fn inspect(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            let taken = self.framing.as_mut().map(|framing| framing.take(*byte));
            if !matches!(taken, Some(Ok(()))) {
                self.framing = None;
                *byte = REFUSED;
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Strict<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        self.inspect(buffer.filled_mut().get_mut(before..).unwrap_or_default());
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Strict<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
