//! Parses the head of an HTTP/1 response: status, headers, framing of the body. Pure.

use super::response::ResponseHeaders;
use super::{HEAD_BYTES_MAX, HEADERS_MAX};

/// How the end of a body is determined (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// No body.
    None,
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The target closes the connection after the body.
    UntilClosed,
}

/// Whether a connection may be reused after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Persistence {
    KeepAlive,
    Close,
}

/// The head of a response.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: ResponseHeaders,
    pub(super) framing: Framing,
    pub(super) persistence: Persistence,
}

/// The index after the blank line that ends a head. Bytes before `from` were searched already.
pub(super) fn find_head_end(bytes: &[u8], from: usize) -> Option<usize> {
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

/// Parses a complete head.
pub(super) fn parse_head(bytes: &[u8], request: RequestKind) -> Result<Head, &'static str> {
    if bytes.len() > HEAD_BYTES_MAX {
        return Err("the response headers are too long");
    }
    let mut parsed = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut parsed);
    match response.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err("the response has too many headers"),
        _ => return Err("what the target sent is not HTTP/1"),
    }
    let status = response.code.unwrap_or_default();
    if status == 101 {
        return Err("the target switches to another protocol");
    }
    let mut headers = ResponseHeaders::with_capacity(response.headers.len(), bytes.len());
    response.headers.iter().for_each(|header| headers.push(header.name.as_bytes(), header.value));
    let FramingHeaders { chunked, length, close, keep_alive } = FramingHeaders::of(&headers)?;
    let has_no_body = request == RequestKind::Head || matches!(status, 100..=199 | 204 | 304);
    let framing = match (has_no_body, chunked, length) {
        (true, _, _) => Framing::None,
        (_, true, _) => Framing::Chunked,
        (_, _, Some(length)) => Framing::Length(length),
        _ => Framing::UntilClosed,
    };
    let is_current = response.version == Some(1);
    let is_unambiguous = framing != Framing::UntilClosed && !(chunked && length.is_some());
    let persistence = match is_unambiguous && !close && (is_current || keep_alive) {
        true => Persistence::KeepAlive,
        false => Persistence::Close,
    };
    Ok(Head { status, headers, framing, persistence })
}

/// Whether the request had the method HEAD: its response has no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Head,
    Other,
}

/// The headers that determine framing and persistence.
#[derive(Default)]
struct FramingHeaders {
    chunked: bool,
    length: Option<u64>,
    close: bool,
    keep_alive: bool,
}

impl FramingHeaders {
    fn of(headers: &ResponseHeaders) -> Result<FramingHeaders, &'static str> {
        let mut framing = FramingHeaders::default();
        for (name, value) in headers.iter() {
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            if is("content-length") {
                let length = length(value).ok_or("the response has an invalid Content-Length")?;
                if framing.length.is_some_and(|other| other != length) {
                    return Err("the response has two Content-Length headers");
                }
                framing.length = Some(length);
            } else if is("transfer-encoding") {
                if framing.chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err("the response has a transfer encoding other than chunked");
                }
                framing.chunked = true;
            } else if is("connection") {
                for word in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    framing.close |= word.eq_ignore_ascii_case(b"close");
                    framing.keep_alive |= word.eq_ignore_ascii_case(b"keep-alive");
                }
            }
        }
        Ok(framing)
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

    fn read(text: &str) -> Result<(u16, Framing, Persistence), &'static str> {
        let head = parse_head(text.as_bytes(), RequestKind::Other)?;
        Ok((head.status, head.framing, head.persistence))
    }

    #[test]
    fn the_end_of_a_head_is_found_in_any_split() {
        let text = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody";
        for cut in 0..text.len() - 4 {
            assert_eq!(find_head_end(&text[..cut], 0), None, "{cut}");
            assert_eq!(find_head_end(text, cut), Some(text.len() - 4), "{cut}");
        }
        assert_eq!(find_head_end(b"HTTP/1.1 200 OK\n\nx", 0), Some(17));
    }

    #[test]
    fn headers_determine_framing_and_persistence() {
        use Persistence::{Close, KeepAlive};
        for (text, framing, persistence) in [
            ("Content-Length: 5\r\n", Framing::Length(5), KeepAlive),
            ("content-length: 5\r\nContent-Length: 5\r\n", Framing::Length(5), KeepAlive),
            ("Transfer-Encoding: Chunked\r\n", Framing::Chunked, KeepAlive),
            ("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", Framing::Chunked, Close),
            ("Content-Length: 5\r\nConnection: x, CLOSE\r\n", Framing::Length(5), Close),
            ("", Framing::UntilClosed, Close),
        ] {
            let head = format!("HTTP/1.1 200 OK\r\n{text}\r\n");
            assert_eq!(read(&head), Ok((200, framing, persistence)), "{text}");
        }
        let old = "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n";
        assert_eq!(read(&format!("{old}\r\n")), Ok((200, Framing::Length(1), Close)));
        let kept = format!("{old}Connection: keep-alive\r\n\r\n");
        assert_eq!(read(&kept), Ok((200, Framing::Length(1), KeepAlive)));
        let nothing = "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(read(nothing), Ok((204, Framing::None, KeepAlive)));
    }

    #[test]
    fn ambiguous_or_malformed_heads_are_refused() {
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
        assert_eq!(read(&many), Err("the response has too many headers"));
        let most = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX));
        assert!(read(&most).is_ok());
    }
}
