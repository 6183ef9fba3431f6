//! A request and its HTTP/1.1 encoding.

use std::fmt::{Display, Write as _};
use std::ops::Range;

use bytes::Bytes;

/// Headers in wire spelling, in one allocation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headers {
    text: String,
    /// Name and value of each header in `text`.
    spans: Vec<(Range<usize>, Range<usize>)>,
}

impl Headers {
    pub(crate) fn with_capacity(headers: usize, bytes: usize) -> Headers {
        Headers { text: String::with_capacity(bytes), spans: Vec::with_capacity(headers) }
    }

    /// Names and values in order of insertion.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let part = |span: &Range<usize>| self.text.get(span.clone()).unwrap_or_default();
        self.spans.iter().map(move |(name, value)| (part(name), part(value)))
    }

    fn remove(&mut self, is_removed: impl Fn(&str) -> bool) {
        let Headers { text, spans } = self;
        spans.retain(|(name, _)| !is_removed(text.get(name.clone()).unwrap_or_default()));
    }

    fn remove_name(&mut self, name: &str) {
        let Headers { text, spans } = self;
        let is_same = |span: &Range<usize>| {
            span.len() == name.len()
                && text.get(span.clone()).is_some_and(|other| other.eq_ignore_ascii_case(name))
        };
        spans.retain(|(span, _)| !is_same(span));
    }

    fn append(&mut self, part: &str) -> Range<usize> {
        let from = self.text.len();
        self.text.push_str(part);
        from..self.text.len()
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
fn is_visible(value: &str) -> bool {
    let is_invisible = |byte: u8| !(b' '..=b'~').contains(&byte) & (byte != b'\t');
    !value.bytes().fold(false, |found, byte| found | is_invisible(byte))
}

/// A request. Its builder ensures that method, target and authority contain no control characters;
/// [`Request::set_header`] refuses headers that do.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
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
        let from = self.headers.text.len();
        // Writing to a String does not fail.
        let _ = write!(self.headers.text, "{value}");
        let value = from..self.headers.text.len();
        if !is_visible(self.headers.text.get(value.clone()).unwrap_or_default()) {
            self.headers.text.truncate(from);
            return false;
        }
        self.add_header(name, value)
    }

    /// The same for a value that is a text, which needs no formatting.
    #[must_use]
    pub(crate) fn set_text_header(&mut self, name: &str, value: &str) -> bool {
        if !is_visible(value) {
            return false;
        }
        let value = self.headers.append(value);
        self.add_header(name, value)
    }

    /// Adds a header of the scheduler. The caller ensures that the name is a valid one that no other header
    /// has. Returns `false` if the value cannot be sent.
    #[must_use]
    pub(crate) fn append_header(&mut self, name: &'static str, value: &str) -> bool {
        if !is_visible(value) {
            return false;
        }
        let value = self.headers.append(value);
        let name = self.headers.append(name);
        self.headers.spans.push((name, value));
        true
    }

    /// Adds a header whose value is in the text already.
    fn add_header(&mut self, name: &str, value: Range<usize>) -> bool {
        if !is_token(name) {
            self.headers.text.truncate(value.start);
            return false;
        }
        self.headers.remove_name(name);
        let name = self.headers.append(name);
        self.headers.spans.push((name, value));
        true
    }

    /// Removes the headers for whose name `is_removed` returns true.
    pub(crate) fn remove_headers(&mut self, is_removed: impl Fn(&str) -> bool) {
        self.headers.remove(is_removed);
    }

    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Whether `Content-Length` is sent: always for methods that usually have a body.
    fn sends_length(&self) -> bool {
        !self.body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH")
    }

    /// The HTTP/1.1 encoding in one buffer, so that one write sends it.
    pub(crate) fn to_http1(&self) -> Vec<u8> {
        let headers = self.headers.text.len() + 4 * self.headers.spans.len();
        let line = self.method.len() + self.target.len() + self.authority.len() + 64;
        let mut bytes = Vec::with_capacity(line + headers + self.body.len());
        let mut put = |parts: &[&str]| {
            parts.iter().for_each(|part| bytes.extend_from_slice(part.as_bytes()));
        };
        put(&[&self.method, " ", &self.target, " HTTP/1.1\r\nHost: ", &self.authority, "\r\n"]);
        for (name, value) in self.headers.iter() {
            put(&[name, ": ", value, "\r\n"]);
        }
        if self.sends_length() {
            put(&["Content-Length: ", &self.body.len().to_string(), "\r\n"]);
        }
        put(&["\r\n"]);
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let text = String::from_utf8(request.to_http1()).unwrap();
        assert_eq!(
            text,
            "POST /x?y=1 HTTP/1.1\r\nHost: example.com:8080\r\nx-a: 2\r\nContent-Length: 5\r\n\r\nhello"
        );
        let mut empty = Request { body: Bytes::new(), ..request };
        assert!(String::from_utf8(empty.to_http1()).unwrap().contains("Content-Length: 0"));
        empty.method = "GET".into();
        assert!(!String::from_utf8(empty.to_http1()).unwrap().contains("Content-Length"));
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
