//! Short texts that users give with an action, such as the reason of a pause.

/// A text of 1 to [`NoteText::CHARACTERS_MAX`] characters, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteText(String);

/// Why a text is not a [`NoteText`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteTextError {
    /// It is empty or too long: the number of its characters.
    #[error("must have 1 to {max} characters (found {0})", max = NoteText::CHARACTERS_MAX)]
    Length(usize),
    /// It contains a control character, such as a line break.
    #[error("must have no control characters, such as line breaks")]
    ControlCharacter,
}

impl NoteText {
    /// Maximum number of characters.
    pub const CHARACTERS_MAX: usize = 500;

    /// Checks a text.
    pub fn new(text: &str) -> Result<NoteText, NoteTextError> {
        let characters = text.chars().count();
        if !(1..=NoteText::CHARACTERS_MAX).contains(&characters) {
            return Err(NoteTextError::Length(characters));
        }
        match text.chars().any(char::is_control) {
            true => Err(NoteTextError::ControlCharacter),
            false => Ok(NoteText(text.to_owned())),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_1_to_500_characters_in_one_line() {
        for text in ["x", &"ä".repeat(500)] {
            assert_eq!(NoteText::new(text).map(|text| text.0), Ok(text.to_owned()));
        }
        assert_eq!(NoteText::new(""), Err(NoteTextError::Length(0)));
        assert_eq!(NoteText::new(&"x".repeat(501)), Err(NoteTextError::Length(501)));
        for text in ["a\nb", "a\u{7f}", "\u{85}"] {
            assert_eq!(NoteText::new(text), Err(NoteTextError::ControlCharacter), "{text:?}");
        }
    }
}
