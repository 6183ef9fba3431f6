//! Serialising JSON values to text. Responses consist of strings mostly: they are copied in pieces
//! instead of byte by byte.

use crate::json::{Json, Number};

/// Appends a value as compact JSON.
pub(crate) fn write_value(value: &Json<'_>, text: &mut String) {
    match value {
        Json::Null => text.push_str("null"),
        Json::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Json::Number(Number::Integer(value)) => write_integer(*value, text),
        Json::Number(Number::Other(value)) => match serde_json::to_string(value) {
            Ok(number) => text.push_str(&number),
            Err(_) => text.push_str("null"),
        },
        Json::String(string) => write_string(string, text),
        Json::Array(values) => {
            text.push('[');
            for (position, value) in values.iter().enumerate() {
                if position > 0 {
                    text.push(',');
                }
                write_value(value, text);
            }
            text.push(']');
        }
        Json::Object(members) => {
            text.push('{');
            for (position, (name, value)) in members.iter().enumerate() {
                if position > 0 {
                    text.push(',');
                }
                write_string(name, text);
                text.push(':');
                write_value(value, text);
            }
            text.push('}');
        }
    }
}

fn write_integer(value: i64, text: &mut String) {
    match u8::try_from(value) {
        Ok(digit @ 0..10) => text.push(char::from(b'0' + digit)),
        _ => text.push_str(&value.to_string()),
    }
}

fn write_string(string: &str, text: &mut String) {
    text.push('"');
    if has_escape(string.as_bytes()) {
        write_escaped(string, text);
    } else {
        text.push_str(string);
    }
    text.push('"');
}

/// Whether a byte must be escaped. Without a branch for each byte, so that the compiler can compare
/// many at once.
fn has_escape(bytes: &[u8]) -> bool {
    bytes.iter().fold(false, |found, &byte| found | is_escape(byte))
}

fn is_escape(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

fn write_escaped(string: &str, text: &mut String) {
    for letter in string.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '\0'..' ' => text.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => text.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Json<'static>> {
        let text = prop_oneof![".*", "[\\x00-\\x7f]*"].prop_map(|text: String| text);
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::Bool),
            any::<i64>().prop_map(|value| Json::Number(Number::Integer(value))),
            (-20_i64..20).prop_map(|value| Json::Number(Number::Integer(value))),
            any::<f64>().prop_map(|value| Json::Number(Number::Other(value))),
            text.clone().prop_map(|text| Json::String(text.into())),
        ];
        leaf.prop_recursive(4, 50, 8, move |inner| {
            let member = (text.clone().prop_map(Into::into), inner.clone());
            prop_oneof![
                prop::collection::vec(inner, 0..8).prop_map(Json::Array),
                prop::collection::vec(member, 0..8).prop_map(Json::Object),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_text_is_that_of_serde_json(value in values()) {
            prop_assert_eq!(value.to_text(), serde_json::to_string(&value).unwrap());
        }
    }
}
