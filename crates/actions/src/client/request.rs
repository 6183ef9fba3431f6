//! What is sent.

use std::fmt::{Display, Write as _};
use std::ops::Range;

use bytes::Bytes;

/// Headers, spelled as they go over the wire, in one piece of memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headers {
    text: String,
    places: Vec<(Range<usize>, Range<usize>)>,
}

impl Headers {
    pub(crate) fn with_capacity(headers: usize, bytes: usize) -> Headers {
        Headers { text: String::with_capacity(bytes), places: Vec::with_capacity(headers) }
    }

    /// Names and values, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let part = |place: &Range<usize>| self.text.get(place.clone()).unwrap_or_default();
        self.places.iter().map(move |(name, value)| (part(name), part(value)))
    }

    /// Removes headers by name.
    fn drop_named(&mut self, is_dropped: impl Fn(&str) -> bool) {
        let Headers { text, places } = self;
        places.retain(|(name, _)| !is_dropped(text.get(name.clone()).unwrap_or_default()));
    }

    fn put(&mut self, part: impl Display) -> Range<usize> {
        let from = self.text.len();
        // A text takes everything.
        let _ = write!(self.text, "{part}");
        from..self.text.len()
    }
}

/// A request. Who builds it sees to it that method, target, authority and headers hold no control
/// characters; [`Request::header`] refuses those that do.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// Host and, where it is not the usual one, port.
    pub(crate) authority: String,
    /// Without `Host`, `Content-Length` and `Connection`, which the connection sets.
    pub(crate) headers: Headers,
    pub(crate) body: Bytes,
}

impl Request {
    /// Sets a header, in the place of one of the same name. `false` where it cannot be sent.
    #[must_use]
    pub(crate) fn header(&mut self, name: &str, value: impl Display) -> bool {
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-_!#$%&'*+.^`|~".contains(&byte);
        let is_visible = |byte: u8| (b' '..=b'~').contains(&byte) || byte == b'\t';
        if name.is_empty() || !name.bytes().all(is_token) {
            return false;
        }
        let begin = self.headers.text.len();
        let place = self.headers.put(value);
        if !self.headers.text.get(place.clone()).unwrap_or_default().bytes().all(is_visible) {
            self.headers.text.truncate(begin);
            return false;
        }
        self.headers.drop_named(|other| other.eq_ignore_ascii_case(name));
        let name = self.headers.put(name);
        self.headers.places.push((name, place));
        true
    }

    /// Removes headers by name.
    pub(crate) fn drop_headers(&mut self, is_dropped: impl Fn(&str) -> bool) {
        self.headers.drop_named(is_dropped);
    }

    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Whether the length of the body is told even if it is zero.
    fn has_length(&self) -> bool {
        !self.body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH")
    }

    /// The bytes of HTTP/1.1, all in one, so that they leave in one go.
    pub(crate) fn to_http1(&self) -> Vec<u8> {
        let headers = self.headers.text.len() + 4 * self.headers.places.len();
        let line = self.method.len() + self.target.len() + self.authority.len() + 64;
        let mut bytes = Vec::with_capacity(line + headers + self.body.len());
        let mut put = |parts: &[&str]| {
            parts.iter().for_each(|part| bytes.extend_from_slice(part.as_bytes()));
        };
        put(&[&self.method, " ", &self.target, " HTTP/1.1\r\nHost: ", &self.authority, "\r\n"]);
        for (name, value) in self.headers.iter() {
            put(&[name, ": ", value, "\r\n"]);
        }
        if self.has_length() {
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
    fn a_request_is_framed_by_us() {
        let mut request = request();
        assert!(request.header("X-A", 1));
        assert!(request.header("x-a", 2), "in the place of the first");
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
    fn headers_that_could_end_a_head_are_refused() {
        let mut request = request();
        for (name, value) in [("a b", "x"), ("", "x"), ("a", "x\r\ny: z"), ("a", "\0"), ("a:", "b")]
        {
            assert!(!request.header(name, value), "{name}: {value}");
        }
        assert_eq!(request.headers.iter().count(), 0);
    }
}
