//! A request and its HTTP/1.1 encoding.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write as _;

use bytes::Bytes;

/// Headers in HTTP/1.1 encoding, in one allocation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headers {
    /// A line for each header: name, `: `, value, CR and LF.
    lines: Vec<u8>,
    spans: Vec<HeaderSpan>,
    /// Whether headers were removed, whose lines are still there.
    has_gaps: bool,
}

/// Positions of one header in the lines.
#[derive(Clone, Copy, Debug)]
struct HeaderSpan {
    start: usize,
    value: usize,
    end: usize,
}

/// Between name and value.
const SEPARATOR: &[u8] = b": ";
const LINE_END: &[u8] = b"\r\n";

impl Headers {
    pub(crate) fn with_capacity(headers: usize, bytes: usize) -> Headers {
        let (lines, spans) = (Vec::with_capacity(bytes), Vec::with_capacity(headers));
        Headers { lines, spans, has_gaps: false }
    }

    /// Names and values in order of insertion.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.spans.iter().map(|span| (self.name(span), self.text(span.value, span.end)))
    }

    fn name(&self, span: &HeaderSpan) -> &str {
        self.text(span.start, span.value - SEPARATOR.len())
    }

    fn text(&self, from: usize, to: usize) -> &str {
        // Names and values are ASCII.
        str::from_utf8(self.lines.get(from..to).unwrap_or_default()).unwrap_or_default()
    }

    /// Removes headers among the first `among`.
    fn remove(&mut self, among: usize, is_removed: impl Fn(&str) -> bool) {
        let mut spans = std::mem::take(&mut self.spans);
        let (before, mut number) = (spans.len(), 0);
        spans.retain(|span| {
            number += 1;
            number > among || !is_removed(self.name(span))
        });
        self.has_gaps |= spans.len() < before;
        self.spans = spans;
    }

    /// Appends a header whose value `write` appends. Without effect, and `false`, if the value cannot
    /// be sent.
    fn append(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let start = self.lines.len();
        self.lines.extend_from_slice(name.as_bytes());
        self.lines.extend_from_slice(SEPARATOR);
        let value = self.lines.len();
        write(&mut self.lines);
        let end = self.lines.len();
        if !is_visible(self.lines.get(value..).unwrap_or_default()) {
            self.lines.truncate(start);
            return false;
        }
        self.lines.extend_from_slice(LINE_END);
        self.spans.push(HeaderSpan { start, value, end });
        true
    }

    /// Appends the lines.
    fn encode(&self, bytes: &mut Vec<u8>) {
        if !self.has_gaps {
            return bytes.extend_from_slice(&self.lines);
        }
        for span in &self.spans {
            let line = self.lines.get(span.start..span.end + LINE_END.len());
            bytes.extend_from_slice(line.unwrap_or_default());
        }
    }
}

fn is_token(name: &str) -> bool {
    let is_token_byte = |byte: u8| {
        matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'!' | b'#' | b'$'
            | b'%' | b'&' | b'\'' | b'*' | b'+' | b'.' | b'^' | b'`' | b'|' | b'~')
    };
    !name.is_empty() && name.bytes().all(is_token_byte)
}

/// Whether all bytes are visible ASCII, space or tab. Without an early exit, which makes it several
/// times faster.
fn is_visible(value: &[u8]) -> bool {
    let is_invisible = |byte: u8| !(b' '..=b'~').contains(&byte) & (byte != b'\t');
    !value.iter().fold(false, |found, byte| found | is_invisible(*byte))
}

/// A request. Its builder ensures that method, target and authority contain no control characters;
/// [`Request::set_header`] refuses headers that do.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Cow<'static, str>,
    /// Path and query.
    pub(crate) target: String,
    /// Host and, unless it is the default, port.
    pub(crate) authority: String,
    /// Without `Host`, `Content-Length` and `Connection`, which the connection adds.
    pub(crate) headers: Headers,
    pub(crate) body: Bytes,
}

impl Request {
    /// Sets a header and replaces one of the same name. Returns `false` if the name or the value
    /// cannot be sent.
    #[must_use]
    pub(crate) fn set_header(&mut self, name: &str, value: impl Display) -> bool {
        // Writing to a vector does not fail.
        self.set(name, |line| drop(write!(line, "{value}")))
    }

    /// The same for a value that is a text, which needs no formatting.
    #[must_use]
    pub(crate) fn set_text_header(&mut self, name: &str, value: &str) -> bool {
        self.set(name, |line| line.extend_from_slice(value.as_bytes()))
    }

    /// Adds a header of the scheduler, whose value `write` appends to its line. The caller ensures that
    /// the name is a valid one that no other header has. Returns `false` if the value cannot be sent.
    #[must_use]
    pub(crate) fn append_header(
        &mut self,
        name: &'static str,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        self.headers.append(name, write)
    }

    fn set(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        if !is_token(name) {
            return false;
        }
        let others = self.headers.spans.len();
        let is_set = self.headers.append(name, write);
        if is_set {
            self.headers.remove(others, |other| other.eq_ignore_ascii_case(name));
        }
        is_set
    }

    /// Removes the headers for whose name `is_removed` returns true.
    pub(crate) fn remove_headers(&mut self, is_removed: impl Fn(&str) -> bool) {
        self.headers.remove(self.headers.spans.len(), is_removed);
    }

    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Whether `Content-Length` is sent: always for methods that usually have a body.
    fn sends_length(&self) -> bool {
        !self.body.is_empty() || matches!(&*self.method, "POST" | "PUT" | "PATCH")
    }

    /// Appends the HTTP/1.1 encoding, so that one write sends it.
    pub(crate) fn encode_http1(&self, bytes: &mut Vec<u8>) {
        let line = self.method.len() + self.target.len() + self.authority.len() + 64;
        bytes.reserve(line + self.headers.lines.len() + self.body.len());
        let line =
            [&self.method, " ", &self.target, " HTTP/1.1\r\nHost: ", &self.authority, "\r\n"];
        line.iter().for_each(|part| bytes.extend_from_slice(part.as_bytes()));
        self.headers.encode(bytes);
        if self.sends_length() {
            // Writing to a vector does not fail.
            drop(write!(bytes, "Content-Length: {}\r\n", self.body.len()));
        }
        bytes.extend_from_slice(LINE_END);
        bytes.extend_from_slice(&self.body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(request: &Request) -> String {
        let mut bytes = Vec::new();
        request.encode_http1(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    fn request() -> Request {
        Request {
            method: "POST".into(),
            target: "/x?y=1".into(),
            authority: "example.com:8080".into(),
            headers: Headers::default(),
            body: Bytes::from_static(b"hello"),
        }
    }

    #[test]
    fn host_and_content_length_are_added_by_the_encoder() {
        let mut request = request();
        assert!(request.set_header("X-A", 1));
        assert!(request.set_header("x-a", 2), "replaces the first");
        assert_eq!(
            encoded(&request),
            "POST /x?y=1 HTTP/1.1\r\nHost: example.com:8080\r\nx-a: 2\r\nContent-Length: 5\r\n\r\nhello"
        );
        let mut empty = Request { body: Bytes::new(), ..request };
        assert!(encoded(&empty).contains("Content-Length: 0"));
        empty.method = "GET".into();
        assert!(!encoded(&empty).contains("Content-Length"));
    }

    #[test]
    fn removed_headers_are_not_sent() {
        let mut request = request();
        for (name, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
            assert!(request.set_text_header(name, value));
        }
        request.remove_headers(|name| name == "b");
        assert_eq!(request.headers.iter().collect::<Vec<_>>(), [("a", "1"), ("c", "3")]);
        assert!(encoded(&request).contains("8080\r\na: 1\r\nc: 3\r\nContent-Length"));
        assert!(!request.set_text_header("c", "4\n"), "refused, the earlier one stays");
        assert!(request.set_text_header("C", "6"));
        assert!(request.append_header("d", |line| line.extend_from_slice(b"5")));
        assert!(encoded(&request).contains("8080\r\na: 1\r\nC: 6\r\nd: 5\r\nContent-Length"));
    }

    #[test]
    fn headers_with_control_characters_or_invalid_names_are_refused() {
        let mut request = request();
        for (name, value) in [("a b", "x"), ("", "x"), ("a", "x\r\ny: z"), ("a", "\0"), ("a:", "b")]
        {
            assert!(!request.set_header(name, value), "{name}: {value}");
        }
        assert_eq!(request.headers.iter().count(), 0);
    }
}
