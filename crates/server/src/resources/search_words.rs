//! The words of a search.

/// Splits a search into the texts that must all occur: words between spaces, and phrases between double
/// quotes, of which the last one may be left open. A word `tag=value`, in which double quotes may enclose
/// the value, matches a whole tag: it has the line breaks that enclose tags in the texts of jobs.
pub(super) fn search_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(phrase) => {
                let (phrase, after) = until_quote(phrase);
                (phrase.trim().to_lowercase(), after)
            }
            None => unquoted(rest),
        };
        if !word.is_empty() && !words.contains(&word) {
            words.push(word);
        }
        rest = after.trim_start();
    }
    words
}

fn until_quote(text: &str) -> (&str, &str) {
    text.split_once('"').unwrap_or((text, ""))
}

/// The first word of a text that does not begin with a quote, and the rest.
fn unquoted(text: &str) -> (String, &str) {
    let (word, after) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    // The texts of jobs have no query of a URL.
    if word.split('=').next().is_some_and(|start| start.contains("://")) {
        let path = word.split(['?', '#']).next().unwrap_or(word);
        return (path.to_lowercase(), after);
    }
    match word.split_once('=') {
        Some((name, value)) if value.starts_with('"') && !name.is_empty() => {
            let quoted = text.split_once("=\"").map_or("", |(_, quoted)| quoted);
            let (value, after) = until_quote(quoted);
            (tag(name, value), after)
        }
        Some((name, value)) if !name.is_empty() && !value.is_empty() => (tag(name, value), after),
        _ => (word.to_lowercase(), after),
    }
}

fn tag(name: &str, value: &str) -> String {
    format!("\n{name}={value}\n").to_lowercase()
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
            ("Team=Billing x", &["\nteam=billing\n", "x"]),
            ("owner=\"Alice Smith\" x", &["\nowner=alice smith\n", "x"]),
            ("owner=\"Alice", &["\nowner=alice\n"]),
            ("owner= =alice", &["owner=", "=alice"]),
            ("\"team=bill\"", &["team=bill"]),
            ("https://a.example/x?a=B#c y", &["https://a.example/x", "y"]),
            ("docs=https://a.example/x?a=B", &["\ndocs=https://a.example/x?a=b\n"]),
        ] {
            assert_eq!(search_words(text), expected, "{text:?}");
        }
    }
}
