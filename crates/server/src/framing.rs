//! Where requests begin and end in a stream of bytes, read more strictly than servers usually do.
//!
//! Two programs that disagree on where a request ends let a third one hide a request in another.
//! What two programs may read differently is refused here: a length and chunks at once, a length
//! given twice, lines that end without CR, lines that go on in the next, sizes that are no numbers.
//! It decides on bytes and does no I/O.

/// Bytes of one line of a head. The head as a whole is bounded to less by who parses it.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a line between chunks: a size, or a trailer.
const CHUNK_LINE_BYTES_MAX: usize = 1024;
/// Lines of trailers, of which no client of this API sends any.
const TRAILERS_MAX: usize = 16;
/// Digits of a length; more is longer than anything that is accepted.
const LENGTH_DIGITS_MAX: usize = 10;

/// Why a stream is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    BareLineFeed,
    BareCarriageReturn,
    FoldedLine,
    LineTooLong,
    NoHeader,
    Length,
    LengthTwice,
    LengthAndChunks,
    Encoding,
    ChunkSize,
    ChunkEnd,
    Trailers,
}

/// Reads a stream byte by byte.
#[derive(Debug, Default)]
pub(crate) struct Framing {
    state: State,
    line: Vec<u8>,
    length: Option<u64>,
    is_chunked: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the first line of a request.
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

impl Framing {
    /// Whether a head has begun and not ended.
    pub(crate) fn is_in_head(&self) -> bool {
        match self.state {
            State::Start => !self.line.is_empty(),
            state => state == State::Headers,
        }
    }

    /// Takes bytes up to the first that is refused; says how many that are.
    pub(crate) fn take_all(&mut self, bytes: &[u8]) -> usize {
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
                _ => match self.take_plain(rest) {
                    0 if self.take_of_line(byte).is_err() => break,
                    0 => 1,
                    plain => plain,
                },
            };
            rest = rest.get(passed..).unwrap_or_default();
        }
        bytes.len() - rest.len()
    }

    /// Takes what is certainly no end of a line, in one go.
    fn take_plain(&mut self, bytes: &[u8]) -> usize {
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

    /// Takes the next byte.
    #[cfg(test)]
    fn take(&mut self, byte: u8) -> Result<(), Refused> {
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
            _ => self.take_of_line(byte),
        }
    }

    fn take_of_line(&mut self, byte: u8) -> Result<(), Refused> {
        let max = self.line_bytes_max();
        let after_return = self.line.last() == Some(&b'\r');
        match byte {
            b'\n' if after_return => {
                self.line.pop();
                let line = std::mem::take(&mut self.line);
                let taken = self.take_line(&line);
                // Its room is of use for the next.
                self.line = line;
                self.line.clear();
                taken
            }
            b'\n' => Err(Refused::BareLineFeed),
            _ if after_return => Err(Refused::BareCarriageReturn),
            _ if self.line.len() >= max => Err(Refused::LineTooLong),
            _ => {
                self.line.push(byte);
                Ok(())
            }
        }
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), Refused> {
        match self.state {
            // Empty lines before a request are an old habit of clients, and harmless.
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
            State::ChunkEnd => return Err(Refused::ChunkEnd),
            State::Trailers { .. } if line.is_empty() => self.state = State::Start,
            State::Trailers { seen } if seen < TRAILERS_MAX => {
                self.state = State::Trailers { seen: seen + 1 };
            }
            State::Trailers { .. } => return Err(Refused::Trailers),
            State::Body { .. } | State::Chunk { .. } => {}
        }
        Ok(())
    }

    fn take_header(&mut self, line: &[u8]) -> Result<(), Refused> {
        if line.first().is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
            return Err(Refused::FoldedLine);
        }
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else {
            return Err(Refused::NoHeader);
        };
        let value = value.trim_ascii();
        if name.trim_ascii().eq_ignore_ascii_case(b"Content-Length") {
            let length = number(value, 10).ok_or(Refused::Length)?;
            if self.length.replace(length).is_some() {
                return Err(Refused::LengthTwice);
            }
        }
        if name.trim_ascii().eq_ignore_ascii_case(b"Transfer-Encoding") {
            if self.is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Refused::Encoding);
            }
            self.is_chunked = true;
        }
        Ok(())
    }

    fn end_of_head(&mut self) -> Result<State, Refused> {
        match (self.length.take(), std::mem::take(&mut self.is_chunked)) {
            (Some(_), true) => Err(Refused::LengthAndChunks),
            (None, true) => Ok(State::ChunkSize),
            (None | Some(0), false) => Ok(State::Start),
            (Some(left), false) => Ok(State::Body { left }),
        }
    }
}

fn shorter(left: u64, bytes: &[u8]) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len())
}

/// The size of a chunk; what follows a semicolon says nothing that matters here.
fn chunk_size(line: &[u8]) -> Result<u64, Refused> {
    let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
    number(size.trim_ascii_end(), 16).ok_or(Refused::ChunkSize)
}

/// Digits alone: no sign, no blanks.
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

    fn check(stream: &str, expected: Result<State, Refused>) {
        let mut framing = Framing::default();
        let taken = stream.bytes().try_for_each(|byte| framing.take(byte));
        assert_eq!(taken.map(|()| framing.state), expected, "{stream:?}");
        // All at once, or cut in two anywhere, the same comes through.
        let mut by_bytes = Framing::default();
        let count = stream.bytes().take_while(|byte| by_bytes.take(*byte).is_ok()).count();
        for cut in (0..=stream.len()).step_by(stream.len() / 20 + 1) {
            let (first, second) = stream.as_bytes().split_at(cut);
            let mut framing = Framing::default();
            let mut all = framing.take_all(first);
            if all == cut {
                all += framing.take_all(second);
            }
            assert_eq!(all, count, "{stream:?} cut at {cut}");
        }
    }

    #[test]
    fn requests_follow_each_other() {
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
    fn what_two_programs_may_read_differently_is_refused() {
        let check = |headers: &str, refused| {
            check(&format!("PUT / HTTP/1.1\r\n{headers}\r\n\r\n"), Err(refused));
        };
        check("Content-Length: 1\r\nTransfer-Encoding: chunked", Refused::LengthAndChunks);
        check("Transfer-Encoding: chunked\r\nContent-Length: 1", Refused::LengthAndChunks);
        check("Content-Length: 1\r\nContent-Length: 1", Refused::LengthTwice);
        check("Content-Length: 1, 1", Refused::Length);
        check("Content-Length: +1", Refused::Length);
        check("Content-Length:", Refused::Length);
        check("Content-Length: 99999999999", Refused::Length);
        check("Content-Length : 1\r\ncontent-length: 2", Refused::LengthTwice);
        check("Transfer-Encoding: gzip, chunked", Refused::Encoding);
        check("Transfer-Encoding: xchunked", Refused::Encoding);
        check("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", Refused::Encoding);
        check("X: a\r\n b", Refused::FoldedLine);
        check("X: a\nY: b", Refused::BareLineFeed);
        check("X: a\rY: b", Refused::BareCarriageReturn);
        check("no header", Refused::NoHeader);
        check(&format!("X: {}", "x".repeat(LINE_BYTES_MAX)), Refused::LineTooLong);
    }

    #[test]
    fn chunks_that_are_none_are_refused() {
        let check = |chunks: &str, refused| {
            let head = "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
            check(&format!("{head}{chunks}"), Err(refused));
        };
        check("x\r\n", Refused::ChunkSize);
        check("\r\n", Refused::ChunkSize);
        check("-1\r\n", Refused::ChunkSize);
        check("0x1\r\n", Refused::ChunkSize);
        check("fffffffffff\r\n", Refused::ChunkSize);
        check("1\na", Refused::BareLineFeed);
        check("1\r\nabc\r\n", Refused::ChunkEnd);
        check(&format!("0\r\n{}", "X: y\r\n".repeat(TRAILERS_MAX + 1)), Refused::Trailers);
        check(&format!("1;{}", "x".repeat(CHUNK_LINE_BYTES_MAX)), Refused::LineTooLong);
    }
}
