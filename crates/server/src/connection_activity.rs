//! Activity of a connection, by which idle connections and floods are detected.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::{Context, Poll};

use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that a client may send between two idle checks without starting a request: as much as the
/// bodies of all requests that a connection may have in flight. A flood of HTTP/2 frames that carry
/// no request, such as PING or SETTINGS, ends there.
const BYTES_WITHOUT_REQUEST_MAX: u64 = 5 * 1024 * 1024;

/// Counters of a connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionActivity {
    requests_started: AtomicU64,
    requests_ended: AtomicU64,
    bytes_written: AtomicU64,
    /// Bytes read since the last request started or the last idle check, whichever is later.
    bytes_read: AtomicU64,
    /// `requests_started` plus `bytes_written` at the last idle check.
    last_checked: AtomicU64,
    /// Responses whose body is a stream.
    streams: AtomicU64,
    /// Number of the last activity in the order of all connections.
    last: AtomicU64,
    /// Counts the activities of all connections.
    activities: Arc<AtomicU64>,
    /// Whether the connection makes room for another.
    is_closing: AtomicBool,
}

impl ConnectionActivity {
    /// The activity of a new connection. `activities` counts those of all connections.
    pub(crate) fn new(activities: Arc<AtomicU64>) -> ConnectionActivity {
        let activity = ConnectionActivity { activities, ..ConnectionActivity::default() };
        activity.note();
        activity
    }

    /// Counts a request as in flight until the returned guard is dropped. `None` if the connection
    /// is being closed.
    pub(crate) fn begin_request(self: &Arc<ConnectionActivity>) -> Option<RequestInFlight> {
        self.requests_started.fetch_add(1, SeqCst);
        let request = RequestInFlight(Arc::clone(self));
        if self.is_closing.load(SeqCst) {
            return None;
        }
        self.bytes_read.store(0, Relaxed);
        self.note();
        Some(request)
    }

    /// Counts a response whose body is a stream until the returned guard is dropped.
    pub(crate) fn begin_stream(self: &Arc<ConnectionActivity>) -> StreamInFlight {
        self.streams.fetch_add(1, SeqCst);
        StreamInFlight(Arc::clone(self))
    }

    /// Whether a request or a stream is in flight.
    pub(crate) fn has_requests(&self) -> bool {
        let ended = self.requests_ended.load(SeqCst);
        self.requests_started.load(SeqCst) != ended || self.streams.load(SeqCst) > 0
    }

    /// Lets no further request start if none is in flight. Returns whether that is so.
    pub(crate) fn close_if_idle(&self) -> bool {
        // A request that starts now sees the flag, or is seen here.
        self.is_closing.store(true, SeqCst);
        let is_idle = !self.has_requests();
        if !is_idle {
            self.is_closing.store(false, SeqCst);
        }
        is_idle
    }

    /// Number of the last activity: the lower, the longer the connection is idle.
    pub(crate) fn last(&self) -> u64 {
        self.last.load(Relaxed)
    }

    fn note(&self) {
        self.last.store(self.activities.fetch_add(1, Relaxed), Relaxed);
    }

    /// Whether no request is in flight, and none was started and no byte written since the last
    /// call.
    pub(crate) fn is_idle(&self) -> bool {
        self.bytes_read.store(0, Relaxed);
        let started = self.requests_started.load(Relaxed);
        let ended = self.requests_ended.load(Relaxed);
        let counted = started.wrapping_add(self.bytes_written.load(Relaxed));
        self.last_checked.swap(counted, Relaxed) == counted && started == ended
    }

    fn count_read(&self, bytes: u64) -> io::Result<()> {
        match self.bytes_read.fetch_add(bytes, Relaxed) {
            before if before > BYTES_WITHOUT_REQUEST_MAX => {
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            _ => Ok(()),
        }
    }
}

/// Guard of a request in flight.
pub(crate) struct RequestInFlight(Arc<ConnectionActivity>);

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.0.note();
        self.0.requests_ended.fetch_add(1, SeqCst);
    }
}

/// Guard of a response whose body is a stream.
#[derive(Debug)]
pub(crate) struct StreamInFlight(Arc<ConnectionActivity>);

impl Drop for StreamInFlight {
    fn drop(&mut self) {
        self.0.note();
        self.0.streams.fetch_sub(1, SeqCst);
    }
}

/// A stream that counts its traffic.
pub(crate) struct MeteredStream<S> {
    /// Bytes read during protocol detection. They are returned first.
    prefix: Bytes,
    inner: S,
    activity: Arc<ConnectionActivity>,
}

impl<S> MeteredStream<S> {
    pub(crate) fn new(
        prefix: Bytes,
        inner: S,
        activity: Arc<ConnectionActivity>,
    ) -> MeteredStream<S> {
        MeteredStream { prefix, inner, activity }
    }

    fn count_written(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = polled {
            self.activity.bytes_written.fetch_add(*bytes as u64, Relaxed);
            self.activity.note();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = if self.prefix.is_empty() {
            Pin::new(&mut self.inner).poll_read(context, buffer)
        } else {
            let length = self.prefix.len().min(buffer.remaining());
            buffer.put_slice(&self.prefix.split_to(length));
            Poll::Ready(Ok(()))
        };
        self.activity.count_read(buffer.filled().len().saturating_sub(before) as u64)?;
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
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
    fn a_connection_without_activity_between_two_checks_is_idle() {
        let activity = Arc::new(ConnectionActivity::default());
        assert!(activity.is_idle());
        let request = activity.begin_request();
        assert!(!activity.is_idle());
        assert!(!activity.is_idle(), "a request is in flight");
        drop(request);
        assert!(activity.is_idle());
        activity.bytes_written.fetch_add(1, Relaxed);
        assert!(!activity.is_idle());
        assert!(activity.is_idle());
        drop(activity.begin_request());
        assert!(!activity.is_idle());
    }

    #[tokio::test]
    async fn the_detected_prefix_is_read_first_and_counted() {
        let activity = Arc::new(ConnectionActivity::default());
        let mut counted = MeteredStream::new(
            Bytes::from_static(b"begun "),
            &b"and gone on"[..],
            activity.clone(),
        );
        let mut read = [0; 4];
        counted.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"begu");
        let mut rest = String::new();
        counted.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "n and gone on");
        assert_eq!(activity.bytes_read.load(Relaxed), 17);
    }

    #[test]
    fn a_flood_without_requests_is_aborted() {
        let activity = Arc::new(ConnectionActivity::default());
        for _ in 0..3 {
            assert!(activity.count_read(BYTES_WITHOUT_REQUEST_MAX).is_ok());
            activity.begin_request();
        }
        assert!(activity.count_read(BYTES_WITHOUT_REQUEST_MAX + 1).is_ok());
        assert!(activity.count_read(1).is_err());
    }
}
