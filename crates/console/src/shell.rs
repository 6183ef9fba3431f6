//! Texts as words of a POSIX shell.

use std::fmt::Write as _;

/// Quotes a text so that a shell reads it as one word. Control characters are written as escapes:
/// pasted into a terminal they could do anything.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,~".contains(c);
    if !text.is_empty() && !text.starts_with('~') && text.chars().all(is_plain) {
        return text.to_owned();
    }
    if !text.contains(|c: char| c.is_control() && c != '\n') {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut word = "$'".to_owned();
    for letter in text.chars() {
        match letter {
            '\'' | '\\' => word.extend(['\\', letter]),
            '\n' => word.push_str("\\n"),
            '\t' => word.push_str("\\t"),
            '\r' => word.push_str("\\r"),
            letter if letter.is_control() => {
                let _ = write!(word, "\\u{:04x}", u32::from(letter));
            }
            letter => word.push(letter),
        }
    }
    word + "'"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_one_word_of_a_shell() {
        for (text, expected) in [
            ("plain/1.0", "plain/1.0"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$(id)", "'$(id)'"),
            ("~root", "'~root'"),
            ("a\u{1b}[2J'\\", r"$'a\u001b[2J\'\\'"),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }
}
