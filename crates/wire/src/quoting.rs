//! Values of clients in messages: escaped, cut, and without the parts of a URI that can be secret.

/// Characters of a value that a message quotes at most.
const CHARS_MAX: usize = 64;

/// Quotes a value for a message. Control characters are escaped. A URI loses its query and fragment,
/// which can contain keys, and one with a user name is left out.
pub fn quoted(text: &str) -> String {
    let (shown, is_cut) = match text.split_once("://") {
        Some((_, rest))
            if rest.split(['/', '?', '#']).next().is_some_and(|it| it.contains('@')) =>
        {
            return "a URI with a user name".to_owned();
        }
        Some(_) => match text.find(['?', '#']) {
            Some(end) => (text.get(..end).unwrap_or_default(), true),
            None => (text, false),
        },
        None => (text, false),
    };
    let cut = shortened(shown);
    let ellipsis = if is_cut && !cut.ends_with('…') { "…" } else { "" };
    format!("{:?}", format!("{cut}{ellipsis}"))
}

/// Cuts a value to the length that messages show.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_values_are_escaped_and_cut() {
        assert_eq!(quoted("a\"b\r\n\u{1}"), r#""a\"b\r\n\u{1}""#);
        assert_eq!(quoted(&"x".repeat(64)), format!("\"{}\"", "x".repeat(64)));
        assert_eq!(quoted(&"x".repeat(65)), format!("\"{}…\"", "x".repeat(64)));
    }

    #[test]
    fn quoted_uris_contain_no_secret() {
        assert_eq!(quoted("ftp://h/p?sig=secret#x"), "\"ftp://h/p…\"");
        assert_eq!(quoted("http://user:secret@host/"), "a URI with a user name");
        assert_eq!(quoted("http://host/a@b"), "\"http://host/a@b\"");
    }
}
