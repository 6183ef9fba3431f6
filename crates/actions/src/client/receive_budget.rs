//! Limits how much a target may send over an HTTP/2 connection. hyper bounds each head and the
//! unread bytes, but accepts any number of interim responses and of frames without content.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::INTERIM_MAX;
use crate::egress::Transport;

/// HEADERS frames per exchange: interim responses, the response's head, and trailers.
const HEADS_MAX: u64 = INTERIM_MAX as u64 + 2;
/// Bytes per exchange: the longest body that is read, at one byte per frame, and the frames that
/// may follow until the target sees that the stream is closed.
const BYTES_MAX: u64 = 1024 * 1024;
/// Bytes of a frame header: three of the length, one of the type, flags and stream.
const FRAME_HEAD_BYTES: usize = 9;
/// Type of a HEADERS frame.
const HEADERS: u8 = 1;

/// Error texts for an exhausted budget.
const INTERIM: &str = "the target sends too many interim answers";
const FLOOD: &str = "the target sends more than was asked for";

/// The unused part of the budget. Every exchange adds its share; unused shares do not accumulate.
/// One share remains while no exchange is in flight, for frames that arrive late.
#[derive(Debug)]
struct Remaining {
    in_flight: u64,
    heads: u64,
    bytes: u64,
    exceeded: Option<&'static str>,
}

/// The receive budget of one connection; clones share it.
#[derive(Clone, Debug)]
pub(super) struct ReceiveBudget(Arc<Mutex<Remaining>>);

impl ReceiveBudget {
    pub(super) fn new() -> ReceiveBudget {
        let remaining =
            Remaining { in_flight: 0, heads: HEADS_MAX, bytes: BYTES_MAX, exceeded: None };
        ReceiveBudget(Arc::new(Mutex::new(remaining)))
    }

    /// Begins an exchange, which ends when the guard is dropped.
    pub(super) fn begin(&self) -> ExchangeGuard {
        let mut remaining = self.lock();
        remaining.in_flight += 1;
        remaining.heads += HEADS_MAX;
        remaining.bytes += BYTES_MAX;
        remaining.cap();
        ExchangeGuard(self.clone())
    }

    /// The limit that was exceeded, if any. The connection then reads nothing more.
    pub(super) fn exceeded(&self) -> Option<&'static str> {
        self.lock().exceeded
    }

    fn consume(&self, heads: u64, bytes: u64) -> io::Result<()> {
        let mut remaining = self.lock();
        match (remaining.heads.checked_sub(heads), remaining.bytes.checked_sub(bytes)) {
            (Some(heads), Some(bytes)) => (remaining.heads, remaining.bytes) = (heads, bytes),
            (None, _) => remaining.exceeded = Some(INTERIM),
            (_, None) => remaining.exceeded = Some(FLOOD),
        }
        match remaining.exceeded {
            Some(limit) => Err(io::Error::new(io::ErrorKind::InvalidData, limit)),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Remaining> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remaining {
    fn cap(&mut self) {
        self.heads = self.heads.min((self.in_flight + 1) * HEADS_MAX);
        self.bytes = self.bytes.min((self.in_flight + 1) * BYTES_MAX);
    }
}

/// An exchange in flight.
pub(super) struct ExchangeGuard(ReceiveBudget);

impl Drop for ExchangeGuard {
    fn drop(&mut self) {
        let mut remaining = self.0.lock();
        remaining.in_flight = remaining.in_flight.saturating_sub(1);
        remaining.cap();
    }
}

/// Finds frame boundaries in a byte stream.
#[derive(Debug, Default)]
struct FrameScanner {
    /// The part of a frame header received so far.
    head: [u8; FRAME_HEAD_BYTES],
    filled: usize,
    /// Payload bytes of the current frame still to come.
    payload: usize,
}

impl FrameScanner {
    /// The number of HEADERS frames whose header is completed by `bytes`.
    fn count_heads(&mut self, mut bytes: &[u8]) -> u64 {
        let mut heads = 0;
        while !bytes.is_empty() {
            let skipped = self.payload.min(bytes.len());
            self.payload -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            if let (0, Some((&byte, after))) = (self.payload, bytes.split_first()) {
                if let Some(slot) = self.head.get_mut(self.filled) {
                    *slot = byte;
                }
                self.filled += 1;
                bytes = after;
            }
            if self.filled == FRAME_HEAD_BYTES {
                let [high, middle, low, kind, ..] = self.head;
                self.payload = u32::from_be_bytes([0, high, middle, low]) as usize;
                self.filled = 0;
                heads += u64::from(kind == HEADERS);
            }
        }
        heads
    }
}

/// A transport that fails when the target exceeds the receive budget.
pub(super) struct LimitedTransport {
    inner: Transport,
    scanner: FrameScanner,
    budget: ReceiveBudget,
}

impl LimitedTransport {
    pub(super) fn new(inner: Transport, budget: ReceiveBudget) -> LimitedTransport {
        LimitedTransport { inner, scanner: FrameScanner::default(), budget }
    }
}

impl AsyncRead for LimitedTransport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        let read = buffer.filled().get(before..).unwrap_or_default();
        let (heads, bytes) = (self.scanner.count_heads(read), read.len() as u64);
        self.budget.consume(heads, bytes)?;
        polled
    }
}

impl AsyncWrite for LimitedTransport {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let [_, high, middle, low] = u32::try_from(length).unwrap().to_be_bytes();
        // The payload looks like frame headers.
        [&[high, middle, low, kind, 4, 0, 0, 0, 1][..], &vec![HEADERS; length]].concat()
    }

    #[test]
    fn frames_are_found_in_any_split_of_the_bytes() {
        let kinds = [(4, 0), (HEADERS, 5), (0, 70_000), (HEADERS, 0), (6, 8), (HEADERS, 300)];
        let bytes: Vec<u8> = kinds.iter().flat_map(|&(kind, length)| frame(kind, length)).collect();
        for piece in [1, 2, 7, 9, 10, 1_000, 100_000] {
            let mut scanner = FrameScanner::default();
            let heads: u64 = bytes.chunks(piece).map(|piece| scanner.count_heads(piece)).sum();
            assert_eq!(heads, 3, "{piece}");
            assert_eq!((scanner.filled, scanner.payload), (0, 0), "{piece}");
        }
    }

    #[test]
    fn every_exchange_adds_its_share_and_unused_shares_do_not_accumulate() {
        let budget = ReceiveBudget::new();
        for _ in 0..100 {
            let _exchange = budget.begin();
            assert!(budget.consume(3, 100_000).is_ok());
        }
        let several = [budget.begin(), budget.begin()];
        assert!(budget.consume(2 * HEADS_MAX, 2 * BYTES_MAX).is_ok());
        drop(several);
        assert!(budget.consume(HEADS_MAX, BYTES_MAX).is_ok(), "the share for late frames");
        assert_eq!(budget.exceeded(), None);
        assert!(budget.consume(1, 0).is_err());
        assert_eq!(budget.exceeded(), Some(INTERIM));
        let other = ReceiveBudget::new();
        assert!(other.consume(0, BYTES_MAX + 1).is_err());
        assert_eq!(other.exceeded(), Some(FLOOD));
    }
}
