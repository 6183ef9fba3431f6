//! JSON with line breaks. Only white space between tokens changes: order, duplicate names and numbers
//! stay as they were written, and the start of a JSON text is enough.

/// Deeper texts are not indented: their lines would be mostly spaces.
const DEPTH_MAX: usize = 32;

/// The text with a line for each member; `None` if it is no object or array, nor the start of one.
pub(crate) fn indented(text: &str) -> Option<String> {
    let mut writer = Writer { lines: String::with_capacity(text.len() * 2), open: vec![] };
    let mut next = Next::Value;
    let mut rest = text.trim_start();
    if !rest.starts_with(['{', '[']) {
        return None;
    }
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            '{' | '[' | '}' | ']' | ':' | ',' => 1,
            _ => scalar_length(rest)?,
        };
        let (token, after) = rest.split_at_checked(length)?;
        rest = after.trim_start();
        next = match (next, first) {
            (Next::Value | Next::ValueOrEnd, '{') => writer.start('{', rest)?,
            (Next::Value | Next::ValueOrEnd, '[') => writer.start('[', rest)?,
            (Next::MemberOrEnd, '}') | (Next::ValueOrEnd, ']') => writer.end(first, true)?,
            (Next::CommaOrEnd, '}' | ']') => writer.end(first, false)?,
            (Next::CommaOrEnd, ',') => writer.separate(rest),
            (Next::Member | Next::MemberOrEnd, '"') => {
                writer.lines.push_str(token);
                Next::Colon
            }
            (Next::Colon, ':') => {
                writer.lines.push_str(if rest.is_empty() { ":" } else { ": " });
                Next::Value
            }
            (Next::Value | Next::ValueOrEnd, first) if !"}]:,".contains(first) => {
                let is_valid = first == '"' || is_scalar(token, rest.is_empty());
                writer.lines.push_str(Some(token).filter(|_| is_valid)?);
                Next::CommaOrEnd
            }
            _ => return None,
        };
    }
    Some(writer.lines)
}

/// The tokens that may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Value,
    ValueOrEnd,
    Member,
    MemberOrEnd,
    Colon,
    CommaOrEnd,
    Nothing,
}

struct Writer {
    lines: String,
    /// The brackets that are open.
    open: Vec<char>,
}

impl Writer {
    fn start(&mut self, bracket: char, rest: &str) -> Option<Next> {
        self.lines.push(bracket);
        self.open.push(bracket);
        if !rest.is_empty() && !rest.starts_with(['}', ']']) {
            self.new_line();
        }
        let next = if bracket == '{' { Next::MemberOrEnd } else { Next::ValueOrEnd };
        (self.open.len() <= DEPTH_MAX).then_some(next)
    }

    fn end(&mut self, bracket: char, is_empty: bool) -> Option<Next> {
        let expected = if bracket == '}' { '{' } else { '[' };
        self.open.pop().filter(|open| *open == expected)?;
        if !is_empty {
            self.new_line();
        }
        self.lines.push(bracket);
        Some(if self.open.is_empty() { Next::Nothing } else { Next::CommaOrEnd })
    }

    fn separate(&mut self, rest: &str) -> Next {
        self.lines.push(',');
        if !rest.is_empty() {
            self.new_line();
        }
        if self.open.last() == Some(&'{') { Next::Member } else { Next::Value }
    }

    fn new_line(&mut self) {
        self.lines.push('\n');
        self.lines.extend(std::iter::repeat_n("  ", self.open.len()));
    }
}

/// Length of the string at the start of a text, which may end within it.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of the number or word at the start of a text; `None` if there is none.
fn scalar_length(text: &str) -> Option<usize> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let length = text.find(|c| !is_part(c)).unwrap_or(text.len());
    (length > 0).then_some(length)
}

/// Whether a token is a number, `true`, `false` or `null`, or the start of one if the text was cut.
fn is_scalar(token: &str, is_cut: bool) -> bool {
    let is_word = |word: &&str| *word == token || (is_cut && word.starts_with(token));
    let is_number = |text: &str| serde_json::from_str::<serde_json::Number>(text).is_ok();
    ["true", "false", "null"].iter().any(is_word)
        || is_number(token)
        || (is_cut && token.starts_with(|c: char| c == '-' || c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, lines: &[&str]) {
        assert_eq!(indented(text).as_deref(), Some(lines.join("\n").as_str()), "{text}");
    }

    #[test]
    fn members_keep_their_order_and_their_spelling() {
        check(
            r#" {"b":1.50,"a":[1e3 , null],"b":12345678901234567890123,"c":{},"d":[],"e":"\u00e4 \" {,"}"#,
            &[
                "{",
                "  \"b\": 1.50,",
                "  \"a\": [",
                "    1e3,",
                "    null",
                "  ],",
                "  \"b\": 12345678901234567890123,",
                "  \"c\": {},",
                "  \"d\": [],",
                "  \"e\": \"\\u00e4 \\\" {,\"",
                "}",
            ],
        );
    }

    #[test]
    fn the_start_of_a_text_is_indented_up_to_its_end() {
        let whole = r#"{"a": ["x\"y", -1.5, true], "b": {"c": null}}"#;
        for length in 1..=whole.len() {
            let lines = indented(&whole[..length]);
            let lines = lines.unwrap_or_else(|| panic!("{}", &whole[..length]));
            let bare = |text: &str| text.replace([' ', '\n'], "");
            assert_eq!(bare(&lines), bare(&whole[..length]));
        }
        check(r#"{"a":{"text":"cut wi"#, &["{", "  \"a\": {", "    \"text\": \"cut wi"]);
        check(r#"[1,fal"#, &["[", "  1,", "  fal"]);
    }

    #[test]
    fn other_texts_are_left_alone() {
        let deep = "[".repeat(DEPTH_MAX + 1);
        for text in [
            "",
            "plain",
            "\"text\"",
            "1",
            "[masked] by a proxy",
            "{not json}",
            "{\"a\" 1}",
            "[1 2]",
            "{\"a\":1}{\"b\":2}",
            "{\"a\":1} end",
            "[1,]",
            "{,}",
            "[}",
            "{\"a\":1]",
            "{1:2}",
            "[ä]",
            &deep,
        ] {
            assert_eq!(indented(text), None, "{text}");
        }
    }
}
