//! A response of bounded size.

use std::ops::Range;

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: ResponseHeaders,
    /// The body, cut to the caller's limit.
    pub(crate) body: Vec<u8>,
}

/// Headers in the order of arrival, in one allocation.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseHeaders {
    bytes: Vec<u8>,
    /// Name and value of each header in `bytes`.
    spans: Vec<(Range<usize>, Range<usize>)>,
}

impl ResponseHeaders {
    pub(crate) fn with_capacity(headers: usize, bytes: usize) -> ResponseHeaders {
        let (bytes, spans) = (Vec::with_capacity(bytes), Vec::with_capacity(headers));
        ResponseHeaders { bytes, spans }
    }

    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) {
        let mut append = |part: &[u8]| {
            let from = self.bytes.len();
            self.bytes.extend_from_slice(part);
            from..self.bytes.len()
        };
        let span = (append(name), append(value));
        self.spans.push(span);
    }

    /// Names, in the target's spelling, and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let part = |span: &Range<usize>| self.bytes.get(span.clone()).unwrap_or_default();
        self.spans
            .iter()
            .map(move |(name, value)| (str::from_utf8(part(name)).unwrap_or_default(), part(value)))
    }

    /// The value of the first header with this name, if it is UTF-8.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.iter().find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        str::from_utf8(value).ok()
    }
}
