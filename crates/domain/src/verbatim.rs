//! Values with their original text, for members that the API returns as they were sent.

/// A parsed value and the text it was parsed from. Equality compares both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verbatim<T> {
    text: Box<str>,
    value: T,
}

impl<T> Verbatim<T> {
    /// Pairs a value with its original text.
    pub fn new(text: &str, value: T) -> Verbatim<T> {
        Verbatim { text: text.into(), value }
    }

    /// The parsed value.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The original text.
    pub fn text(&self) -> &str {
        &self.text
    }
}
