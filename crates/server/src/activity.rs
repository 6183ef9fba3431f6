//! What happens on a connection, so that one on which nothing does can be closed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that a connection may send without asking for anything, between two looks: as much as the
/// bodies of all its requests. A flood of frames that say nothing is cut off there.
const UNASKED_BYTES_MAX: u64 = 5 * 1024 * 1024;

/// Counts what happens on a connection.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    begun: AtomicU64,
    ended: AtomicU64,
    written: AtomicU64,
    /// Since the last request began, or the last look.
    read: AtomicU64,
    /// What was counted at the last look.
    seen: AtomicU64,
}

impl Activity {
    /// A request begins. It ends when what is returned is dropped.
    pub(crate) fn begin(self: &Arc<Activity>) -> UnderWay {
        self.begun.fetch_add(1, Relaxed);
        self.read.store(0, Relaxed);
        UnderWay(Arc::clone(self))
    }

    /// Whether nothing was asked for, answered or written since this was last looked at.
    pub(crate) fn is_idle(&self) -> bool {
        self.read.store(0, Relaxed);
        let (begun, ended) = (self.begun.load(Relaxed), self.ended.load(Relaxed));
        let counted = begun.wrapping_add(self.written.load(Relaxed));
        self.seen.swap(counted, Relaxed) == counted && begun == ended
    }

    fn count_read(&self, bytes: u64) -> io::Result<()> {
        match self.read.fetch_add(bytes, Relaxed) {
            before if before > UNASKED_BYTES_MAX => Err(io::ErrorKind::ConnectionAborted.into()),
            _ => Ok(()),
        }
    }
}

/// A request under way.
pub(crate) struct UnderWay(Arc<Activity>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

/// A stream whose traffic is counted.
pub(crate) struct Counted<S> {
    /// What was read of it before, and is yet to be read here.
    begin: Bytes,
    inner: S,
    activity: Arc<Activity>,
}

impl<S> Counted<S> {
    pub(crate) fn new(begin: Bytes, inner: S, activity: Arc<Activity>) -> Counted<S> {
        Counted { begin, inner, activity }
    }

    fn count_written(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = polled {
            self.activity.written.fetch_add(*bytes as u64, Relaxed);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = if self.begin.is_empty() {
            Pin::new(&mut self.inner).poll_read(context, buffer)
        } else {
            let length = self.begin.len().min(buffer.remaining());
            buffer.put_slice(&self.begin.split_to(length));
            Poll::Ready(Ok(()))
        };
        self.activity.count_read(buffer.filled().len().saturating_sub(before) as u64)?;
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.count_written(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.count_written(&polled);
        polled
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
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[test]
    fn a_connection_is_idle_where_nothing_happened_between_two_looks() {
        let activity = Arc::new(Activity::default());
        assert!(activity.is_idle());
        let request = activity.begin();
        assert!(!activity.is_idle());
        assert!(!activity.is_idle(), "a request under way is no idleness");
        drop(request);
        assert!(activity.is_idle());
        activity.written.fetch_add(1, Relaxed);
        assert!(!activity.is_idle());
        assert!(activity.is_idle());
        drop(activity.begin());
        assert!(!activity.is_idle());
    }

    #[tokio::test]
    async fn what_was_read_before_is_read_first_and_counted_too() {
        let activity = Arc::new(Activity::default());
        let mut counted =
            Counted::new(Bytes::from_static(b"begun "), &b"and gone on"[..], activity.clone());
        let mut read = [0; 4];
        counted.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"begu");
        let mut rest = String::new();
        counted.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "n and gone on");
        assert_eq!(activity.read.load(Relaxed), 17);
    }

    #[test]
    fn a_flood_that_asks_for_nothing_is_cut_off() {
        let activity = Arc::new(Activity::default());
        for _ in 0..3 {
            assert!(activity.count_read(UNASKED_BYTES_MAX).is_ok());
            activity.begin();
        }
        assert!(activity.count_read(UNASKED_BYTES_MAX + 1).is_ok());
        assert!(activity.count_read(1).is_err());
    }
}
