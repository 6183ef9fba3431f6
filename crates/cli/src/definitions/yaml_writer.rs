//! Writing a value as YAML, in block style.

use std::fmt::Write as _;

use kalends_wire::Json;

/// Words that a YAML 1.1 or 1.2 reader would not take for a string.
const RESERVED: [&str; 10] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "~"];

/// Writes a value as a YAML document.
pub(crate) fn write(value: &Json<'_>) -> String {
    let mut text = String::new();
    match value {
        Json::Object(members) if !members.is_empty() => write_object(members, 0, &mut text),
        Json::Array(entries) if !entries.is_empty() => write_list(entries, 0, &mut text),
        scalar => {
            text = scalar_text(scalar, 0);
            text.push('\n');
        }
    }
    text
}

type Members<'m, 'j> = &'m [(std::borrow::Cow<'j, str>, Json<'j>)];

fn write_object(members: Members<'_, '_>, indent: usize, text: &mut String) {
    for (name, value) in members {
        push_indent(indent, text);
        write_member(name, value, indent, text);
    }
}

fn write_member(name: &str, value: &Json<'_>, indent: usize, text: &mut String) {
    text.push_str(&plain_or_quoted(name));
    text.push(':');
    match value {
        Json::Object(members) if !members.is_empty() => {
            text.push('\n');
            write_object(members, indent + 2, text);
        }
        Json::Array(entries) if entries.iter().all(is_short) => {
            let entries: Vec<_> = entries.iter().map(|entry| scalar_text(entry, 0)).collect();
            let _ = writeln!(text, " [{}]", entries.join(", "));
        }
        Json::Array(entries) => {
            text.push('\n');
            write_list(entries, indent + 2, text);
        }
        scalar => {
            let _ = writeln!(text, " {}", scalar_text(scalar, indent + 2));
        }
    }
}

fn write_list(entries: &[Json<'_>], indent: usize, text: &mut String) {
    for entry in entries {
        push_indent(indent, text);
        text.push_str("- ");
        match entry {
            Json::Object(members) => {
                for (number, (name, value)) in members.iter().enumerate() {
                    if number > 0 {
                        push_indent(indent + 2, text);
                    }
                    write_member(name, value, indent + 2, text);
                }
                if members.is_empty() {
                    text.push_str("{}\n");
                }
            }
            // A list of lists, which definitions do not have, is written in one line.
            other => {
                let _ = writeln!(text, "{}", scalar_text(other, indent + 2));
            }
        }
    }
}

fn push_indent(indent: usize, text: &mut String) {
    text.extend(std::iter::repeat_n(' ', indent));
}

/// Whether a value fits into a list in one line.
fn is_short(value: &Json<'_>) -> bool {
    match value {
        Json::String(text) => text.len() <= 40 && !text.contains(['\n', ',', '[', ']', '{', '}']),
        Json::Object(_) | Json::Array(_) => false,
        _ => true,
    }
}

/// A value without members. Lists and objects are written as JSON, which is YAML too.
fn scalar_text(value: &Json<'_>, indent: usize) -> String {
    match value {
        Json::String(text) => match block(text, indent) {
            Some(block) if indent > 0 => block,
            _ => plain_or_quoted(text),
        },
        other => other.to_string(),
    }
}

/// A text of several lines as a literal block. `None` if that would not preserve it.
fn block(text: &str, indent: usize) -> Option<String> {
    let is_printable = |any: char| any == '\n' || !any.is_control() && any != '\u{feff}';
    let first = text.lines().next().unwrap_or_default();
    let is_literal = text.contains('\n')
        && !first.starts_with([' ', '\t'])
        && !first.is_empty()
        && text.chars().all(is_printable)
        && !text.contains(['\u{85}', '\u{2028}', '\u{2029}'])
        && text.lines().all(|line| line.trim_end() == line);
    if !is_literal {
        return None;
    }
    let chomping = match text.strip_suffix('\n') {
        None => "|-",
        Some(rest) if rest.ends_with('\n') => return None,
        Some(_) => "|",
    };
    let mut block = chomping.to_owned();
    for line in text.lines() {
        block.push('\n');
        if !line.is_empty() {
            push_indent(indent, &mut block);
            block.push_str(line);
        }
    }
    Some(block)
}

fn plain_or_quoted(text: &str) -> String {
    let is_plain_character =
        |any: char| any.is_ascii_alphanumeric() || " _./:@%+()=$;-".contains(any);
    let is_plain = text
        .starts_with(|first: char| first.is_ascii_alphabetic() || "/_".contains(first))
        && text.chars().all(is_plain_character)
        && !text.contains(": ")
        && !text.ends_with([':', ' '])
        && !RESERVED.iter().any(|word| word.eq_ignore_ascii_case(text));
    if is_plain {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    for any in Json::String(text.into()).to_string().chars() {
        let needs_escape = any.is_control() || matches!(any, '\u{feff}' | '\u{2028}' | '\u{2029}');
        match needs_escape {
            true => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(any));
            }
            false => quoted.push(any),
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::yaml;
    use super::*;

    #[test]
    fn written_values_read_as_themselves() {
        let texts = [
            "",
            " ",
            "plain text",
            "On",
            "null",
            "12",
            "1.5",
            "2026-11-20T00:00:00Z",
            "- x",
            "a: b",
            "a:",
            "a #b",
            "# c",
            "*/5 * * * *",
            "[x]",
            "{x}",
            "line 1\nline 2",
            "line 1\nline 2\n",
            "a\n\n",
            "\n",
            " indented\nx",
            "tab\there",
            "a \nb",
            "\u{85}\u{7f}\u{feff}x",
            "é 😀",
            "'single'",
            "\"double\"",
            "back\\slash",
            "C:\\x",
            "%x",
            "@daily",
            "!tag",
            "&anchor",
            "~",
            "=",
            "a, b",
            "${stored}",
            "https://example.com/x?sig=${stored}&a=b",
            "a\r\nb",
            "x\n---\ny",
            "...",
            "---",
            "{\n  \"a\": 1\n}",
            "\u{2028}",
            "a\u{2028}\nb",
            "?",
            "? x",
            "|",
            ">",
            "`",
            "x\n\ny\n",
        ];
        for text in texts {
            let string = || Json::String(text.into());
            let value = Json::Object(vec![
                ("a".into(), string()),
                (
                    text.into(),
                    Json::Array(vec![string(), Json::Number(kalends_wire::Number::Integer(1))]),
                ),
                (
                    "o".into(),
                    Json::Object(vec![
                        ("deep".into(), string()),
                        ("e".into(), Json::Object(vec![])),
                    ]),
                ),
                (
                    "l".into(),
                    Json::Array(vec![
                        Json::Object(vec![("x".into(), string()), ("y".into(), Json::Bool(true))]),
                        Json::Object(vec![("z".into(), Json::Array(vec![]))]),
                    ]),
                ),
            ]);
            let written = write(&value);
            let read =
                yaml::parse("f", &written).unwrap_or_else(|error| panic!("{error}\n{written}"));
            assert_eq!(read[0].to_json(), value, "{text:?}\n{written}");
        }
    }

    #[test]
    fn schedules_are_written_in_a_readable_form() {
        let json = r#"{"recurrence":{"cron":"*/5 2 * * 1","timeZone":"Europe/Berlin","schedule":{"hours":[1,2],"weekDays":["Monday","Friday"]}},"action":{"type":"Http","request":{"uri":"http://x/?a=b","body":"a\nb\n"}}}"#;
        let value = Json::parse(json.as_bytes()).unwrap();
        assert_eq!(
            write(&value),
            "recurrence:\n  cron: \"*/5 2 * * 1\"\n  timeZone: Europe/Berlin\n  schedule:\n    hours: [1, 2]\n    weekDays: [Monday, Friday]\naction:\n  type: Http\n  request:\n    uri: \"http://x/?a=b\"\n    body: |\n      a\n      b\n"
        );
    }
}
