//! The words of a search.

/// Splits a search into the texts that must all occur: words between spaces, and phrases between double
/// quotes, of which the last one may be left open.
pub(super) fn search_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(phrase) => phrase.split_once('"').unwrap_or((phrase, "")),
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        let word = word.trim().to_lowercase();
        if !word.is_empty() && !words.contains(&word) {
            words.push(word);
        }
        rest = after.trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_separated_by_spaces_and_phrases_quoted() {
        for (text, expected) in [
            ("", &[][..]),
            (" night \t Billing ", &["night", "billing"]),
            ("a a A", &["a"]),
            ("\"two words\" three", &["two words", "three"]),
            ("one \"two  words", &["one", "two  words"]),
            ("\"\" \" \"", &[]),
            ("6\" x", &["6\"", "x"]),
            ("\"a\"b", &["a", "b"]),
            ("team=billing https://a.example/x", &["team=billing", "https://a.example/x"]),
        ] {
            assert_eq!(search_words(text), expected, "{text:?}");
        }
    }
}
