//! Strict validation of HTTP/1.1 message framing against request smuggling.
//!
//! If a proxy and a server disagree on where a request ends, a client can hide a request in the body
//! of another. Everything that parsers are known to frame differently is rejected: Content-Length
//! together with chunked encoding, a repeated Content-Length, bare LF or CR, obsolete line folding in headers,
//! lengths and chunk sizes that are not plain numbers. The module works on bytes and does no I/O.

use memchr::memchr2;

/// Bytes of one line of a head. The parser of the head has a lower limit for all of it.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a chunk-size or trailer line.
const CHUNK_LINE_BYTES_MAX: usize = 1024;
/// Trailer lines; no client of this API sends any.
const TRAILERS_MAX: usize = 16;
/// Digits of a length; anything longer exceeds every accepted body.
const LENGTH_DIGITS_MAX: usize = 10;

/// Framing that is rejected as ambiguous or invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FramingError {
    BareLineFeed,
    BareCarriageReturn,
    FoldedLine,
    LineTooLong,
    MissingColon,
    InvalidLength,
    RepeatedLength,
    LengthAndChunked,
    TransferEncoding,
    ChunkSize,
    ChunkEnd,
    TooManyTrailers,
}

/// Validates the framing of the requests of a connection.
#[derive(Debug, Default)]
pub(crate) struct FramingValidator {
    state: State,
    line: Vec<u8>,
    length: Option<u64>,
    is_chunked: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the request line.
    #[default]
    Start,
    Headers,
    Body {
        left: u64,
    },
    ChunkSize,
    Chunk {
        left: u64,
    },
    ChunkEnd,
    Trailers {
        seen: usize,
    },
}

impl FramingValidator {
    /// Whether a request head has started and is incomplete.
    pub(crate) fn is_in_head(&self) -> bool {
        match self.state {
            State::Start => !self.line.is_empty(),
            state => state == State::Headers,
        }
    }

    /// Consumes bytes up to the first that is rejected, and returns how many were accepted.
    pub(crate) fn accept(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            let passed = match self.state {
                State::Body { left } => {
                    let passed = shorter(left, rest);
                    let left = left.saturating_sub(passed as u64);
                    self.state = if left == 0 { State::Start } else { State::Body { left } };
                    passed
                }
                State::Chunk { left } => {
                    let passed = shorter(left, rest);
                    let left = left.saturating_sub(passed as u64);
                    self.state = if left == 0 { State::ChunkEnd } else { State::Chunk { left } };
                    passed
                }
                _ => match self.whole_line(rest) {
                    Some(line) => {
                        if self.take_line(line).is_err() {
                            // The line feed is rejected.
                            return bytes.len() - rest.len() + line.len() + 1;
                        }
                        line.len() + 2
                    }
                    None => match self.take_until_line_end(rest) {
                        0 if self.take_line_byte(byte).is_err() => break,
                        0 => 1,
                        plain => plain,
                    },
                },
            };
            rest = rest.get(passed..).unwrap_or_default();
        }
        bytes.len() - rest.len()
    }

    /// The next line without its CRLF, if it is complete and valid so far: it need not be copied.
    fn whole_line<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let end = memchr2(b'\r', b'\n', bytes).filter(|_| self.line.is_empty())?;
        let (line, rest) = bytes.split_at_checked(end)?;
        (rest.starts_with(b"\r\n") && line.len() < self.line_bytes_max()).then_some(line)
    }

    /// Consumes all bytes before the next CR or LF at once.
    fn take_until_line_end(&mut self, bytes: &[u8]) -> usize {
        if self.line.last() == Some(&b'\r') {
            return 0;
        }
        let room = self.line_bytes_max().saturating_sub(self.line.len());
        let bytes = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        let plain = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let plain = bytes.get(..plain.unwrap_or(bytes.len())).unwrap_or_default();
        self.line.extend_from_slice(plain);
        plain.len()
    }

    fn line_bytes_max(&self) -> usize {
        match self.state {
            State::Start | State::Headers => LINE_BYTES_MAX,
            _ => CHUNK_LINE_BYTES_MAX,
        }
    }

    /// Consumes one byte: the reference that `accept` is tested against.
    #[cfg(test)]
    fn accept_byte(&mut self, byte: u8) -> Result<(), FramingError> {
        match self.state {
            State::Body { left } => {
                self.state = match left {
                    0 | 1 => State::Start,
                    left => State::Body { left: left - 1 },
                };
                Ok(())
            }
            State::Chunk { left } => {
                self.state = match left {
                    0 | 1 => State::ChunkEnd,
                    left => State::Chunk { left: left - 1 },
                };
                Ok(())
            }
            _ => self.take_line_byte(byte),
        }
    }

    fn take_line_byte(&mut self, byte: u8) -> Result<(), FramingError> {
        let max = self.line_bytes_max();
        let after_return = self.line.last() == Some(&b'\r');
        match byte {
            b'\n' if after_return => {
                self.line.pop();
                let line = std::mem::take(&mut self.line);
                let taken = self.take_line(&line);
                // Reuse its allocation.
                self.line = line;
                self.line.clear();
                taken
            }
            b'\n' => Err(FramingError::BareLineFeed),
            _ if after_return => Err(FramingError::BareCarriageReturn),
            _ if self.line.len() >= max => Err(FramingError::LineTooLong),
            _ => {
                self.line.push(byte);
                Ok(())
            }
        }
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), FramingError> {
        match self.state {
            // RFC 9112, section 2.2: a server should ignore an empty line before the request line.
            State::Start if line.is_empty() => {}
            State::Start => self.state = State::Headers,
            State::Headers if line.is_empty() => self.state = self.end_of_head()?,
            State::Headers => self.take_header(line)?,
            State::ChunkSize => {
                self.state = match chunk_size(line)? {
                    0 => State::Trailers { seen: 0 },
                    left => State::Chunk { left },
                }
            }
            State::ChunkEnd if line.is_empty() => self.state = State::ChunkSize,
            State::ChunkEnd => return Err(FramingError::ChunkEnd),
            State::Trailers { .. } if line.is_empty() => self.state = State::Start,
            State::Trailers { seen } if seen < TRAILERS_MAX => {
                self.state = State::Trailers { seen: seen + 1 };
            }
            State::Trailers { .. } => return Err(FramingError::TooManyTrailers),
            State::Body { .. } | State::Chunk { .. } => {}
        }
        Ok(())
    }

    fn take_header(&mut self, line: &[u8]) -> Result<(), FramingError> {
        if line.first().is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
            return Err(FramingError::FoldedLine);
        }
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else {
            return Err(FramingError::MissingColon);
        };
        let value = value.trim_ascii();
        if name.trim_ascii().eq_ignore_ascii_case(b"Content-Length") {
            let length = number(value, 10).ok_or(FramingError::InvalidLength)?;
            if self.length.replace(length).is_some() {
                return Err(FramingError::RepeatedLength);
            }
        }
        if name.trim_ascii().eq_ignore_ascii_case(b"Transfer-Encoding") {
            if self.is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(FramingError::TransferEncoding);
            }
            self.is_chunked = true;
        }
        Ok(())
    }

    fn end_of_head(&mut self) -> Result<State, FramingError> {
        match (self.length.take(), std::mem::take(&mut self.is_chunked)) {
            (Some(_), true) => Err(FramingError::LengthAndChunked),
            (None, true) => Ok(State::ChunkSize),
            (None | Some(0), false) => Ok(State::Start),
            (Some(left), false) => Ok(State::Body { left }),
        }
    }
}

fn shorter(left: u64, bytes: &[u8]) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len())
}

/// The size in a chunk-size line. Chunk extensions are ignored.
fn chunk_size(line: &[u8]) -> Result<u64, FramingError> {
    let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
    number(size.trim_ascii_end(), 16).ok_or(FramingError::ChunkSize)
}

/// A number of digits alone, without sign or white space.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let is_number = !digits.is_empty()
        && digits.len() <= LENGTH_DIGITS_MAX
        && digits.iter().all(|byte| char::from(*byte).is_digit(radix));
    let text = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    u64::from_str_radix(text, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stream: &str, expected: Result<State, FramingError>) {
        let mut framing = FramingValidator::default();
        let accepted = stream.bytes().try_for_each(|byte| framing.accept_byte(byte));
        assert_eq!(accepted.map(|()| framing.state), expected, "{stream:?}");
        // The result does not depend on how the stream is split.
        let mut by_bytes = FramingValidator::default();
        let count = stream.bytes().take_while(|byte| by_bytes.accept_byte(*byte).is_ok()).count();
        for cut in (0..=stream.len()).step_by(stream.len() / 20 + 1) {
            let (first, second) = stream.as_bytes().split_at(cut);
            let mut framing = FramingValidator::default();
            let mut all = framing.accept(first);
            if all == cut {
                all += framing.accept(second);
            }
            assert_eq!(all, count, "{stream:?} cut at {cut}");
        }
    }

    #[test]
    fn pipelined_requests_are_accepted() {
        check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", Ok(State::Start));
        check("\r\nGET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n", Ok(State::Headers));
        check("PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\n\n\n\nGET", Ok(State::Start));
        check("PUT / HTTP/1.1\r\ncontent-length:3\r\n\r\nab", Ok(State::Body { left: 1 }));
        check("PUT / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", Ok(State::Start));
        let chunked = "PUT / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n";
        check(&format!("{chunked}3;x=y\r\na\nb\r\nA\r\n"), Ok(State::Chunk { left: 10 }));
        check(&format!("{chunked}1\r\na\r\n0\r\nX: y\r\n\r\nGET"), Ok(State::Start));
    }

    #[test]
    fn ambiguous_framing_is_rejected() {
        let check = |headers: &str, expected| {
            check(&format!("PUT / HTTP/1.1\r\n{headers}\r\n\r\n"), Err(expected));
        };
        check("Content-Length: 1\r\nTransfer-Encoding: chunked", FramingError::LengthAndChunked);
        check("Transfer-Encoding: chunked\r\nContent-Length: 1", FramingError::LengthAndChunked);
        check("Content-Length: 1\r\nContent-Length: 1", FramingError::RepeatedLength);
        check("Content-Length: 1, 1", FramingError::InvalidLength);
        check("Content-Length: +1", FramingError::InvalidLength);
        check("Content-Length:", FramingError::InvalidLength);
        check("Content-Length: 99999999999", FramingError::InvalidLength);
        check("Content-Length : 1\r\ncontent-length: 2", FramingError::RepeatedLength);
        check("Transfer-Encoding: gzip, chunked", FramingError::TransferEncoding);
        check("Transfer-Encoding: xchunked", FramingError::TransferEncoding);
        check(
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            FramingError::TransferEncoding,
        );
        check("X: a\r\n b", FramingError::FoldedLine);
        check("X: a\nY: b", FramingError::BareLineFeed);
        check("X: a\rY: b", FramingError::BareCarriageReturn);
        check("no header", FramingError::MissingColon);
        check(&format!("X: {}", "x".repeat(LINE_BYTES_MAX)), FramingError::LineTooLong);
    }

    #[test]
    fn invalid_chunks_are_rejected() {
        let check = |chunks: &str, expected| {
            let head = "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
            check(&format!("{head}{chunks}"), Err(expected));
        };
        check("x\r\n", FramingError::ChunkSize);
        check("\r\n", FramingError::ChunkSize);
        check("-1\r\n", FramingError::ChunkSize);
        check("0x1\r\n", FramingError::ChunkSize);
        check("fffffffffff\r\n", FramingError::ChunkSize);
        check("1\na", FramingError::BareLineFeed);
        check("1\r\nabc\r\n", FramingError::ChunkEnd);
        check(
            &format!("0\r\n{}", "X: y\r\n".repeat(TRAILERS_MAX + 1)),
            FramingError::TooManyTrailers,
        );
        check(&format!("1;{}", "x".repeat(CHUNK_LINE_BYTES_MAX)), FramingError::LineTooLong);
    }
}
