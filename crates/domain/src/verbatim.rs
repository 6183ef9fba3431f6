//! A value together with the words it was written in, for members that are answered as sent.

/// A value as its author wrote it. Two are equal when both are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verbatim<T> {
    text: Box<str>,
    value: T,
}

impl<T> Verbatim<T> {
    /// A value and its text.
    pub fn new(text: &str, value: T) -> Verbatim<T> {
        Verbatim { text: text.into(), value }
    }

    /// What it means.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// How it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}
