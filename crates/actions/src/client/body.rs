//! Incremental reader of an HTTP/1 response body. Pure.

use super::BODY_BYTES_READ_MAX;
use super::head::Framing;

/// How much of a body was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyProgress {
    /// More bytes are needed.
    Incomplete,
    /// The body ended. Further bytes do not belong to this response.
    Complete,
    /// The read limit is reached before the end of the body.
    LimitReached,
}

/// A body being read.
#[derive(Debug)]
pub(super) struct Body {
    state: State,
    /// Content bytes so far.
    read: usize,
    /// Bytes of chunk sizes, extensions and trailers so far.
    framing_bytes: usize,
    content: Vec<u8>,
    /// Content beyond this is read and discarded.
    content_bytes_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Length(u64),
    UntilClosed,
    /// In a chunk's size, after `digits` digits.
    Size {
        size: u64,
        digits: usize,
    },
    /// In a chunk extension.
    Extension {
        size: u64,
    },
    SizeLineFeed {
        size: u64,
    },
    Chunk(u64),
    ChunkReturn,
    ChunkLineFeed,
    /// At the beginning of a trailer line.
    Trailer,
    TrailerLine,
    LastLineFeed,
    Done,
}

impl Body {
    /// Reads a body and returns at most `content_bytes_max` bytes of it.
    pub(super) fn new(framing: Framing, content_bytes_max: usize) -> Body {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Size { size: 0, digits: 0 },
            Framing::UntilClosed => State::UntilClosed,
        };
        Body { state, read: 0, framing_bytes: 0, content: Vec::new(), content_bytes_max }
    }

    pub(super) fn progress(&self) -> BodyProgress {
        match self.state {
            State::Done => BodyProgress::Complete,
            _ if self.read.max(self.framing_bytes) >= BODY_BYTES_READ_MAX => {
                BodyProgress::LimitReached
            }
            _ => BodyProgress::Incomplete,
        }
    }

    /// Whether closing the connection ends the body.
    pub(super) fn ends_when_closed(&self) -> bool {
        matches!(self.state, State::UntilClosed | State::Done)
    }

    pub(super) fn into_content(self) -> Vec<u8> {
        self.content
    }

    /// Consumes bytes until the body is complete or the read limit is reached, and returns how many
    /// were consumed.
    pub(super) fn consume(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            if self.progress() != BodyProgress::Incomplete {
                break;
            }
            taken += match self.state {
                State::Length(left) => {
                    let count = self.append(rest, left);
                    self.state = match left - count as u64 {
                        0 => State::Done,
                        left => State::Length(left),
                    };
                    count
                }
                State::UntilClosed => self.append(rest, u64::MAX),
                State::Chunk(left) => {
                    let count = self.append(rest, left);
                    self.state = match left - count as u64 {
                        0 => State::ChunkReturn,
                        left => State::Chunk(left),
                    };
                    count
                }
                _ => {
                    let byte = rest.first().copied().unwrap_or_default();
                    self.state = step(self.state, byte)?;
                    self.framing_bytes += 1;
                    1
                }
            };
        }
        Ok(taken)
    }

    /// Appends content, of which `left` bytes are outstanding, and returns how many were read.
    fn append(&mut self, bytes: &[u8], left: u64) -> usize {
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let count = bytes.len().min(left).min(BODY_BYTES_READ_MAX - self.read);
        let room = self.content_bytes_max.saturating_sub(self.content.len());
        self.content.extend_from_slice(bytes.get(..count.min(room)).unwrap_or_default());
        self.read += count;
        count
    }
}

/// The next state after a byte of chunk framing.
fn step(state: State, byte: u8) -> Result<State, &'static str> {
    /// Hexadecimal digits of a 64-bit size.
    const DIGITS_MAX: usize = 16;
    const GARBAGE: &str = "the response has invalid chunks";
    let after_size = |size: u64| match size {
        0 => State::Trailer,
        size => State::Chunk(size),
    };
    Ok(match (state, byte) {
        (State::Size { size, digits }, byte) if byte.is_ascii_hexdigit() && digits < DIGITS_MAX => {
            let digit = char::from(byte).to_digit(16).unwrap_or_default();
            State::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }
        }
        (State::Size { size, digits: 1.. }, b'\r') => State::SizeLineFeed { size },
        (State::Size { size, digits: 1.. }, b';' | b' ' | b'\t') => State::Extension { size },
        (State::Extension { size }, b'\r') => State::SizeLineFeed { size },
        (State::Extension { .. }, b'\n' | 0) => return Err(GARBAGE),
        (State::Extension { size }, _) => State::Extension { size },
        (State::SizeLineFeed { size }, b'\n') => after_size(size),
        (State::ChunkReturn, b'\r') => State::ChunkLineFeed,
        (State::ChunkLineFeed, b'\n') => State::Size { size: 0, digits: 0 },
        (State::Trailer, b'\r') => State::LastLineFeed,
        (State::Trailer, b'\n' | 0) => return Err(GARBAGE),
        (State::TrailerLine, b'\n') => State::Trailer,
        (State::Trailer | State::TrailerLine, _) => State::TrailerLine,
        (State::LastLineFeed, b'\n') => State::Done,
        _ => return Err(GARBAGE),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads bytes that arrive in pieces of `piece`.
    fn read(
        framing: Framing,
        bytes: &[u8],
        piece: usize,
    ) -> Result<(BodyProgress, String, usize), &'static str> {
        let mut body = Body::new(framing, 100);
        let mut taken = 0;
        for piece in bytes.chunks(piece) {
            let count = body.consume(piece)?;
            taken += count;
            if count < piece.len() {
                break;
            }
        }
        Ok((body.progress(), String::from_utf8(body.into_content()).unwrap(), taken))
    }

    #[test]
    fn bodies_end_where_their_framing_says_in_any_split() {
        let chunked = b"5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nA: b\r\n\r\nHTTP/1.1 200";
        for piece in 1..chunked.len() {
            let all = chunked.len() - 12;
            assert_eq!(
                read(Framing::Chunked, chunked, piece),
                Ok((BodyProgress::Complete, "hello!".into(), all))
            );
            assert_eq!(
                read(Framing::Length(3), b"abcdef", piece),
                Ok((BodyProgress::Complete, "abc".into(), 3))
            );
        }
        assert_eq!(
            read(Framing::Length(9), b"abc", 1),
            Ok((BodyProgress::Incomplete, "abc".into(), 3))
        );
        assert_eq!(read(Framing::None, b"abc", 1), Ok((BodyProgress::Complete, String::new(), 0)));
        assert_eq!(
            read(Framing::UntilClosed, b"abc", 2),
            Ok((BodyProgress::Incomplete, "abc".into(), 3))
        );
    }

    #[test]
    fn malformed_chunk_framing_is_refused() {
        for text in [
            "x\r\n",
            "\r\n",
            "-1\r\n",
            "5\nhello",
            "5\r\nhelloX",
            "5\r\nhello\n",
            "11111111111111111\r\n",
            "0\r\n\n",
            "5 \n",
        ] {
            assert!(read(Framing::Chunked, text.as_bytes(), 1).is_err(), "{text:?}");
        }
    }

    #[test]
    fn reading_stops_at_the_limit_and_content_is_cut_to_the_callers_limit() {
        let endless = vec![b'x'; 2 * BODY_BYTES_READ_MAX];
        for framing in [Framing::UntilClosed, Framing::Length(10 << 30)] {
            let (progress, content, taken) = read(framing, &endless, 7_000).unwrap();
            assert_eq!(
                (progress, content.len(), taken),
                (BodyProgress::LimitReached, 100, BODY_BYTES_READ_MAX)
            );
        }
        let small = b"1\r\nx\r\n".repeat(BODY_BYTES_READ_MAX);
        let (progress, _, taken) = read(Framing::Chunked, &small, 9_999).unwrap();
        assert_eq!(progress, BodyProgress::LimitReached);
        assert!(taken < 2 * BODY_BYTES_READ_MAX);
        let trailers = [b"0\r\n".to_vec(), b"a: b\r\n".repeat(BODY_BYTES_READ_MAX)].concat();
        assert_eq!(read(Framing::Chunked, &trailers, 9_999).unwrap().0, BodyProgress::LimitReached);
    }
}
