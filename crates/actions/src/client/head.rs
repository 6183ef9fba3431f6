//! The head of an HTTP/1 answer: where it ends, what it says, how the body ends. Pure.

use super::answer::AnswerHeaders;
use super::{HEAD_BYTES_MAX, HEADERS_MAX};

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is none.
    None,
    /// It has so many bytes.
    Length(u64),
    /// It comes in chunks that say how long they are.
    Chunked,
    /// The connection is closed after it.
    UntilClosed,
}

/// Whether a connection may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Afterwards {
    Keep,
    Close,
}

/// A head.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: AnswerHeaders,
    pub(super) framing: Framing,
    pub(super) afterwards: Afterwards,
}

/// Where a head ends, looking from `from` on.
pub(super) fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let from = from.saturating_sub(3);
    let rest = bytes.get(from..)?;
    let mut after_line_end = false;
    for (offset, byte) in rest.iter().enumerate() {
        match byte {
            b'\n' if after_line_end => return Some(from + offset + 1),
            b'\n' => after_line_end = true,
            b'\r' => {}
            _ => after_line_end = false,
        }
    }
    None
}

/// Reads a head that is there as a whole.
pub(super) fn read_head(bytes: &[u8], is_head_request: IsHead) -> Result<Head, &'static str> {
    if bytes.len() > HEAD_BYTES_MAX {
        return Err("the head of the answer is too long");
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err("the answer has too many headers"),
        _ => return Err("what the target sent is not HTTP/1"),
    }
    let status = response.code.unwrap_or_default();
    if status == 101 {
        return Err("the target switches to another protocol");
    }
    let mut kept = AnswerHeaders::with_capacity(response.headers.len(), bytes.len());
    response.headers.iter().for_each(|header| kept.push(header.name.as_bytes(), header.value));
    let wishes = Wishes::of(&kept)?;
    let has_no_body = is_head_request == IsHead::Yes || matches!(status, 100..=199 | 204 | 304);
    let framing = match (has_no_body, wishes.chunked, wishes.length) {
        (true, _, _) => Framing::None,
        (_, true, _) => Framing::Chunked,
        (_, _, Some(length)) => Framing::Length(length),
        _ => Framing::UntilClosed,
    };
    let is_current = response.version == Some(1);
    let is_clear = framing != Framing::UntilClosed && !(wishes.chunked && wishes.length.is_some());
    let afterwards = match is_clear && !wishes.close && (is_current || wishes.keep_alive) {
        true => Afterwards::Keep,
        false => Afterwards::Close,
    };
    Ok(Head { status, headers: kept, framing, afterwards })
}

/// Whether the request was one for a head alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IsHead {
    Yes,
    No,
}

/// What headers say of body and connection.
#[derive(Default)]
struct Wishes {
    chunked: bool,
    length: Option<u64>,
    close: bool,
    keep_alive: bool,
}

impl Wishes {
    fn of(headers: &AnswerHeaders) -> Result<Wishes, &'static str> {
        let mut wishes = Wishes::default();
        for (name, value) in headers.iter() {
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            if is("content-length") {
                let length = length(value).ok_or("the length of the answer cannot be read")?;
                if wishes.length.is_some_and(|other| other != length) {
                    return Err("the answer has two lengths");
                }
                wishes.length = Some(length);
            } else if is("transfer-encoding") {
                if wishes.chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err("the answer has a transfer encoding other than chunked");
                }
                wishes.chunked = true;
            } else if is("connection") {
                for word in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    wishes.close |= word.eq_ignore_ascii_case(b"close");
                    wishes.keep_alive |= word.eq_ignore_ascii_case(b"keep-alive");
                }
            }
        }
        Ok(wishes)
    }
}

fn length(value: &[u8]) -> Option<u64> {
    let text = str::from_utf8(value.trim_ascii()).ok()?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(u16, Framing, Afterwards), &'static str> {
        let head = read_head(text.as_bytes(), IsHead::No)?;
        Ok((head.status, head.framing, head.afterwards))
    }

    #[test]
    fn the_end_of_a_head_is_found_in_any_cut() {
        let text = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody";
        for cut in 0..text.len() - 4 {
            assert_eq!(end_of_head(&text[..cut], 0), None, "{cut}");
            assert_eq!(end_of_head(text, cut), Some(text.len() - 4), "{cut}");
        }
        assert_eq!(end_of_head(b"HTTP/1.1 200 OK\n\nx", 0), Some(17));
    }

    #[test]
    fn heads_say_how_bodies_end_and_whether_connections_do() {
        use Afterwards::{Close, Keep};
        for (text, framing, afterwards) in [
            ("Content-Length: 5\r\n", Framing::Length(5), Keep),
            ("content-length: 5\r\nContent-Length: 5\r\n", Framing::Length(5), Keep),
            ("Transfer-Encoding: Chunked\r\n", Framing::Chunked, Keep),
            ("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", Framing::Chunked, Close),
            ("Content-Length: 5\r\nConnection: x, CLOSE\r\n", Framing::Length(5), Close),
            ("", Framing::UntilClosed, Close),
        ] {
            let head = format!("HTTP/1.1 200 OK\r\n{text}\r\n");
            assert_eq!(read(&head), Ok((200, framing, afterwards)), "{text}");
        }
        let old = "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n";
        assert_eq!(read(&format!("{old}\r\n")), Ok((200, Framing::Length(1), Close)));
        let kept = format!("{old}Connection: keep-alive\r\n\r\n");
        assert_eq!(read(&kept), Ok((200, Framing::Length(1), Keep)));
        let nothing = "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(read(nothing), Ok((204, Framing::None, Keep)));
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        for text in [
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: 99999999999999999999999\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "X: a\0b\r\n",
            "X : a\r\n",
            "X: a\r\n folded\r\n",
        ] {
            assert!(read(&format!("HTTP/1.1 200 OK\r\n{text}\r\n")).is_err(), "{text}");
        }
        for text in
            ["hello\r\n\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 101 Upgrade\r\n\r\n", "\r\n\r\n"]
        {
            assert!(read(text).is_err(), "{text}");
        }
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(read(&many), Err("the answer has too many headers"));
        let most = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX));
        assert!(read(&most).is_ok());
    }
}
