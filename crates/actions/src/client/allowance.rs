//! What a target may send over an HTTP/2 connection. The library that reads it bounds each head and
//! what is not read yet, but takes any number of interim answers and of frames that say nothing.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::INTERIM_MAX;
use crate::egress::Transport;

/// Heads that come with an exchange: interim answers, the answer's own, and trailers.
const HEADS_MAX: u64 = INTERIM_MAX as u64 + 2;
/// Bytes that come with an exchange: a body of the longest that is read, a byte to a frame, and
/// what may follow it before the target hears that nobody reads on.
const BYTES_MAX: u64 = 1024 * 1024;
/// Bytes of a frame before what it holds: three of its length, one of its kind, and more.
const FRAME_HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;

/// Why a target may send no more.
const INTERIM: &str = "the target sends too many interim answers";
const FLOOD: &str = "the target sends more than was asked for";

/// How much may still come. Every exchange adds its share, and what is over when it ends is not
/// saved up; one share is there also when nothing is under way, for what comes late.
#[derive(Debug)]
struct Left {
    under_way: u64,
    heads: u64,
    bytes: u64,
    broken: Option<&'static str>,
}

/// How much may still come over one connection.
#[derive(Clone, Debug)]
pub(super) struct Allowance(Arc<Mutex<Left>>);

impl Allowance {
    pub(super) fn new() -> Allowance {
        let (heads, bytes) = (HEADS_MAX, BYTES_MAX);
        Allowance(Arc::new(Mutex::new(Left { under_way: 0, heads, bytes, broken: None })))
    }

    /// An exchange begins. It ends when what is returned is dropped.
    pub(super) fn begin(&self) -> UnderWay {
        let mut left = self.lock();
        left.under_way += 1;
        left.heads += HEADS_MAX;
        left.bytes += BYTES_MAX;
        left.cut();
        UnderWay(self.clone())
    }

    /// Why no more is read.
    pub(super) fn broken(&self) -> Option<&'static str> {
        self.lock().broken
    }

    fn take(&self, heads: u64, bytes: u64) -> io::Result<()> {
        let mut left = self.lock();
        match (left.heads.checked_sub(heads), left.bytes.checked_sub(bytes)) {
            (Some(heads), Some(bytes)) => (left.heads, left.bytes) = (heads, bytes),
            (None, _) => left.broken = Some(INTERIM),
            (_, None) => left.broken = Some(FLOOD),
        }
        left.broken.map_or(Ok(()), |why| Err(io::Error::new(io::ErrorKind::InvalidData, why)))
    }

    fn lock(&self) -> MutexGuard<'_, Left> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Left {
    fn cut(&mut self) {
        self.heads = self.heads.min((self.under_way + 1) * HEADS_MAX);
        self.bytes = self.bytes.min((self.under_way + 1) * BYTES_MAX);
    }
}

/// An exchange under way.
pub(super) struct UnderWay(Allowance);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut left = self.0.lock();
        left.under_way = left.under_way.saturating_sub(1);
        left.cut();
    }
}

/// Finds the frames in a stream of bytes.
#[derive(Debug, Default)]
struct Frames {
    /// What there is of the head of a frame.
    head: [u8; FRAME_HEAD_BYTES],
    filled: usize,
    /// What is still to come of what the frame holds.
    rest: usize,
}

impl Frames {
    /// How many frames that begin a head are begun by these bytes.
    fn heads_in(&mut self, mut bytes: &[u8]) -> u64 {
        let mut heads = 0;
        while !bytes.is_empty() {
            let passed = self.rest.min(bytes.len());
            self.rest -= passed;
            bytes = bytes.get(passed..).unwrap_or_default();
            if let (0, Some((&byte, after))) = (self.rest, bytes.split_first()) {
                if let Some(place) = self.head.get_mut(self.filled) {
                    *place = byte;
                }
                self.filled += 1;
                bytes = after;
            }
            if self.filled == FRAME_HEAD_BYTES {
                let [high, middle, low, kind, ..] = self.head;
                self.rest = u32::from_be_bytes([0, high, middle, low]) as usize;
                self.filled = 0;
                heads += u64::from(kind == HEADERS);
            }
        }
        heads
    }
}

/// A connection over which no more comes than is allowed.
pub(super) struct Metered {
    inner: Transport,
    frames: Frames,
    allowance: Allowance,
}

impl Metered {
    pub(super) fn new(inner: Transport, allowance: Allowance) -> Metered {
        Metered { inner, frames: Frames::default(), allowance }
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        let read = buffer.filled().get(before..).unwrap_or_default();
        let (heads, bytes) = (self.frames.heads_in(read), read.len() as u64);
        self.allowance.take(heads, bytes)?;
        polled
    }
}

impl AsyncWrite for Metered {
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
        // What it holds looks like heads of frames.
        [&[high, middle, low, kind, 4, 0, 0, 0, 1][..], &vec![HEADERS; length]].concat()
    }

    #[test]
    fn frames_are_found_however_the_bytes_are_cut() {
        let kinds = [(4, 0), (HEADERS, 5), (0, 70_000), (HEADERS, 0), (6, 8), (HEADERS, 300)];
        let bytes: Vec<u8> = kinds.iter().flat_map(|&(kind, length)| frame(kind, length)).collect();
        for piece in [1, 2, 7, 9, 10, 1_000, 100_000] {
            let mut frames = Frames::default();
            let heads: u64 = bytes.chunks(piece).map(|piece| frames.heads_in(piece)).sum();
            assert_eq!(heads, 3, "{piece}");
            assert_eq!((frames.filled, frames.rest), (0, 0), "{piece}");
        }
    }

    #[test]
    fn every_exchange_has_its_share_and_nothing_is_saved_up() {
        let allowance = Allowance::new();
        for _ in 0..100 {
            let _exchange = allowance.begin();
            assert!(allowance.take(3, 100_000).is_ok());
        }
        let several = [allowance.begin(), allowance.begin()];
        assert!(allowance.take(2 * HEADS_MAX, 2 * BYTES_MAX).is_ok());
        drop(several);
        assert!(allowance.take(HEADS_MAX, BYTES_MAX).is_ok(), "the share of what comes late");
        assert_eq!(allowance.broken(), None);
        assert!(allowance.take(1, 0).is_err());
        assert_eq!(allowance.broken(), Some(INTERIM));
        let other = Allowance::new();
        assert!(other.take(0, BYTES_MAX + 1).is_err());
        assert_eq!(other.broken(), Some(FLOOD));
    }
}
