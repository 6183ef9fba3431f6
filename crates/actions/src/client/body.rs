//! The body of an HTTP/1 answer, as its bytes come in. Pure.

use super::BODY_BYTES_READ_MAX;
use super::head::Framing;

/// Where a body stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// More is to come.
    Open,
    /// That was all. What follows is not of this answer.
    Done,
    /// As much as is read; more is to come.
    Enough,
}

/// A body being read.
#[derive(Debug)]
pub(super) struct Body {
    state: State,
    /// Bytes of the body so far.
    read: usize,
    /// Bytes around chunks so far.
    around: usize,
    kept: Vec<u8>,
    kept_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Length(u64),
    UntilClosed,
    /// Digits of a chunk's size; how many there were.
    Size {
        size: u64,
        digits: usize,
    },
    /// What follows a size on its line.
    Extension {
        size: u64,
    },
    SizeLineFeed {
        size: u64,
    },
    Chunk(u64),
    ChunkReturn,
    ChunkLineFeed,
    /// At the beginning of a line of the trailer.
    Trailer,
    TrailerLine,
    LastLineFeed,
    Done,
}

impl Body {
    /// A body of which `kept_max` bytes are kept.
    pub(super) fn new(framing: Framing, kept_max: usize) -> Body {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Size { size: 0, digits: 0 },
            Framing::UntilClosed => State::UntilClosed,
        };
        Body { state, read: 0, around: 0, kept: Vec::new(), kept_max }
    }

    pub(super) fn stand(&self) -> Stand {
        match self.state {
            State::Done => Stand::Done,
            _ if self.read >= BODY_BYTES_READ_MAX || self.around >= BODY_BYTES_READ_MAX => {
                Stand::Enough
            }
            _ => Stand::Open,
        }
    }

    /// Whether the end of the connection is the end of the body.
    pub(super) fn ends_when_closed(&self) -> bool {
        matches!(self.state, State::UntilClosed | State::Done)
    }

    pub(super) fn into_kept(self) -> Vec<u8> {
        self.kept
    }

    /// Takes bytes in, until the body has ended or enough is read; tells how many were taken.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            if self.stand() != Stand::Open {
                break;
            }
            taken += match self.state {
                State::Length(left) => {
                    let count = self.keep(rest, left);
                    self.state = match left - count as u64 {
                        0 => State::Done,
                        left => State::Length(left),
                    };
                    count
                }
                State::UntilClosed => self.keep(rest, u64::MAX),
                State::Chunk(left) => {
                    let count = self.keep(rest, left);
                    self.state = match left - count as u64 {
                        0 => State::ChunkReturn,
                        left => State::Chunk(left),
                    };
                    count
                }
                _ => {
                    let byte = rest.first().copied().unwrap_or_default();
                    self.state = step(self.state, byte)?;
                    self.around += 1;
                    1
                }
            };
        }
        Ok(taken)
    }

    /// Keeps the first of `left` bytes, and tells how many of them are there.
    fn keep(&mut self, bytes: &[u8], left: u64) -> usize {
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let count = bytes.len().min(left).min(BODY_BYTES_READ_MAX - self.read);
        let room = self.kept_max.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(bytes.get(..count.min(room)).unwrap_or_default());
        self.read += count;
        count
    }
}

/// What a byte around the chunks leads to.
fn step(state: State, byte: u8) -> Result<State, &'static str> {
    /// More digits than a size of 64 bits has.
    const DIGITS_MAX: usize = 16;
    const GARBAGE: &str = "the chunks of the answer cannot be read";
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

    /// What is read of bytes that come in pieces of `piece`.
    fn read(
        framing: Framing,
        bytes: &[u8],
        piece: usize,
    ) -> Result<(Stand, String, usize), &'static str> {
        let mut body = Body::new(framing, 100);
        let mut taken = 0;
        for piece in bytes.chunks(piece) {
            let count = body.take(piece)?;
            taken += count;
            if count < piece.len() {
                break;
            }
        }
        Ok((body.stand(), String::from_utf8(body.into_kept()).unwrap(), taken))
    }

    #[test]
    fn bodies_end_where_they_say_however_they_are_cut() {
        let chunked = b"5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nA: b\r\n\r\nHTTP/1.1 200";
        for piece in 1..chunked.len() {
            let all = chunked.len() - 12;
            assert_eq!(
                read(Framing::Chunked, chunked, piece),
                Ok((Stand::Done, "hello!".into(), all))
            );
            assert_eq!(
                read(Framing::Length(3), b"abcdef", piece),
                Ok((Stand::Done, "abc".into(), 3))
            );
        }
        assert_eq!(read(Framing::Length(9), b"abc", 1), Ok((Stand::Open, "abc".into(), 3)));
        assert_eq!(read(Framing::None, b"abc", 1), Ok((Stand::Done, String::new(), 0)));
        assert_eq!(read(Framing::UntilClosed, b"abc", 2), Ok((Stand::Open, "abc".into(), 3)));
    }

    #[test]
    fn garbage_around_chunks_is_told_from_chunks() {
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
    fn no_more_is_read_than_enough_and_no_more_kept_than_asked() {
        let endless = vec![b'x'; 2 * BODY_BYTES_READ_MAX];
        for framing in [Framing::UntilClosed, Framing::Length(10 << 30)] {
            let (stand, kept, taken) = read(framing, &endless, 7_000).unwrap();
            assert_eq!((stand, kept.len(), taken), (Stand::Enough, 100, BODY_BYTES_READ_MAX));
        }
        let small = b"1\r\nx\r\n".repeat(BODY_BYTES_READ_MAX);
        let (stand, _, taken) = read(Framing::Chunked, &small, 9_999).unwrap();
        assert_eq!(stand, Stand::Enough);
        assert!(taken < 2 * BODY_BYTES_READ_MAX);
        let trailers = [b"0\r\n".to_vec(), b"a: b\r\n".repeat(BODY_BYTES_READ_MAX)].concat();
        assert_eq!(read(Framing::Chunked, &trailers, 9_999).unwrap().0, Stand::Enough);
    }
}
