//! What comes back.

use std::ops::Range;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: AnswerHeaders,
    /// Its beginning, as much as is kept.
    pub(crate) body: Vec<u8>,
}

/// Headers in the order in which they came, in one piece of memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerHeaders {
    bytes: Vec<u8>,
    places: Vec<(Range<usize>, Range<usize>)>,
}

impl AnswerHeaders {
    pub(crate) fn with_capacity(headers: usize, bytes: usize) -> AnswerHeaders {
        let (bytes, places) = (Vec::with_capacity(bytes), Vec::with_capacity(headers));
        AnswerHeaders { bytes, places }
    }

    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) {
        let mut put = |part: &[u8]| {
            let from = self.bytes.len();
            self.bytes.extend_from_slice(part);
            from..self.bytes.len()
        };
        let place = (put(name), put(value));
        self.places.push(place);
    }

    /// Names, as they came, and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let part = |place: &Range<usize>| self.bytes.get(place.clone()).unwrap_or_default();
        self.places
            .iter()
            .map(move |(name, value)| (str::from_utf8(part(name)).unwrap_or_default(), part(value)))
    }

    /// The value of the first header of a name, where it is text.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.iter().find(|(own, _)| own.eq_ignore_ascii_case(name))?;
        str::from_utf8(value).ok()
    }
}
