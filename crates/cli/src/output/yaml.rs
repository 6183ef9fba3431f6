//! JSON values as YAML.

use std::io::{self, Write};

use kalends_wire::Json;

/// Writes a value in block style. Strings that are not plain words are quoted as in JSON, which YAML
/// accepts.
pub(super) fn write(value: &Json<'_>, output: &mut impl Write) -> io::Result<()> {
    match value {
        Json::Array(_) | Json::Object(_) => write_block(value, 0, output),
        scalar => writeln!(output, "{}", inline(scalar)),
    }
}

fn write_block(value: &Json<'_>, indent: usize, output: &mut impl Write) -> io::Result<()> {
    match value {
        Json::Array(values) if !values.is_empty() => {
            for value in values {
                write!(output, "{:indent$}-", "")?;
                write_nested(value, indent + 2, Position::AfterDash, output)?;
            }
        }
        Json::Object(members) if !members.is_empty() => {
            for (name, value) in members {
                write!(output, "{:indent$}{}:", "", string(name))?;
                write_nested(value, indent, Position::AfterName, output)?;
            }
        }
        empty => writeln!(output, "{:indent$}{}", "", inline(empty))?,
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    AfterDash,
    AfterName,
}

/// Writes the value of a list or a member, whose first line has begun.
fn write_nested(
    value: &Json<'_>,
    indent: usize,
    position: Position,
    output: &mut impl Write,
) -> io::Result<()> {
    match (value, position) {
        (Json::Object(members), Position::AfterDash) if !members.is_empty() => {
            for (number, (name, value)) in members.iter().enumerate() {
                let margin = if number == 0 { 1 } else { indent };
                write!(output, "{:margin$}{}:", "", string(name))?;
                write_nested(value, indent, Position::AfterName, output)?;
            }
            Ok(())
        }
        (Json::Object(members), _) if !members.is_empty() => {
            writeln!(output)?;
            write_block(value, indent + 2, output)
        }
        (Json::Array(values), Position::AfterName) if !values.is_empty() => {
            writeln!(output)?;
            write_block(value, indent, output)
        }
        (Json::Array(values), Position::AfterDash) if !values.is_empty() => {
            writeln!(output)?;
            write_block(value, indent, output)
        }
        (scalar, _) => writeln!(output, " {}", inline(scalar)),
    }
}

/// A scalar, or an empty list or object.
fn inline(value: &Json<'_>) -> String {
    match value {
        Json::String(text) => string(text),
        other => other.to_string(),
    }
}

fn string(text: &str) -> String {
    match is_plain(text) {
        true => text.to_owned(),
        false => Json::from(text).to_string(),
    }
}

/// Whether a string needs no quotes in any version of YAML.
fn is_plain(text: &str) -> bool {
    let has_plain_characters = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./ ".contains(c))
        && !text.ends_with(' ');
    // Other values than strings, at least in YAML 1.1.
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    has_plain_characters && !words.iter().any(|word| word.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_in_block_style() {
        let json = r##"{"name":"web/a","on":"yes","n":1,"f":1.5,"t":true,"z":null,"e":[],"o":{},
            "s":"2026-01-01","c":"a: b","u":"","l":[1,"x",{"a":1,"b":[{"c":2}]},[3]],"d":{"k v":"#"}}"##;
        let value: Json<'_> = serde_json::from_str(json).unwrap();
        let mut text = Vec::new();
        write(&value, &mut text).unwrap();
        let expected = "\
name: web/a
\"on\": \"yes\"
\"n\": 1
f: 1.5
t: true
z: null
e: []
o: {}
s: \"2026-01-01\"
c: \"a: b\"
u: \"\"
l:
- 1
- x
- a: 1
  b:
  - c: 2
-
  - 3
d:
  k v: \"#\"
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
