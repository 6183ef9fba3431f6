//! A JSON value that preserves the order of members and distinguishes integers from fractions.
//!
//! Parsing rejects valid JSON that no request needs: duplicate members (names are case-insensitive),
//! NUL in a string, deep nesting, and very many members.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json_text::write_value;
use crate::node::JsonPath;

/// Bodies of this API nest at most eight levels deep.
const DEPTH_MAX: usize = 16;
/// Bytes of a typical document, the first allocation of its text.
const TEXT_BYTES_TYPICAL: usize = 1_000;
/// Bytes of a member's name; not less than the limit of all headers of a request together.
const NAME_BYTES_MAX: usize = 4_096;

/// A JSON value. Strings without escapes are borrowed from the input.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "named as in JSON")]
pub enum Json<'a> {
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// A JSON number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// No fraction, no exponent, and within the range of `i64`.
    Integer(i64),
    /// Any other number.
    Other(f64),
}

impl<'a> Json<'a> {
    /// Members of a document. A job has about sixty, and at most fifty headers.
    pub const MEMBERS_MAX: usize = 500;

    /// Parses one JSON document and checks the limits of this module.
    pub fn parse(text: &'a [u8]) -> Result<Json<'a>, ErrorDetails> {
        Json::parse_up_to(text, Json::MEMBERS_MAX)
    }

    /// Parses a document of many definitions, with at most `members_max` members in all.
    pub fn parse_up_to(text: &'a [u8], members_max: usize) -> Result<Json<'a>, ErrorDetails> {
        let mut errors = ErrorDetails::default();
        let value = match serde_json::from_slice::<Json<'a>>(text) {
            Ok(value) => value,
            Err(error) => {
                let message = syntax_message(text, &error);
                errors.add(ErrorCode::InvalidRequestContent, "", message);
                return Err(errors);
            }
        };
        let mut members = 0;
        value.check(JsonPath::ROOT, 0, &mut members, &mut errors);
        if members > members_max {
            let message = format!(
                "The request body must have at most {members_max} members (found {members})"
            );
            errors.add(ErrorCode::InvalidRequestContent, "", message);
        }
        if errors.is_empty() { Ok(value) } else { Err(errors) }
    }

    /// Copies borrowed strings, so that the value can outlive the input.
    pub fn into_owned(self) -> Json<'static> {
        match self {
            Json::Null => Json::Null,
            Json::Bool(value) => Json::Bool(value),
            Json::Number(number) => Json::Number(number),
            Json::String(text) => Json::String(Cow::Owned(text.into_owned())),
            Json::Array(values) => Json::Array(values.into_iter().map(Json::into_owned).collect()),
            Json::Object(members) => {
                let owned = |(name, value): (Cow<'a, str>, Json<'a>)| {
                    (Cow::Owned(name.into_owned()), value.into_owned())
                };
                Json::Object(members.into_iter().map(owned).collect())
            }
        }
    }

    /// Returns the size as compact JSON, in bytes.
    pub fn compact_bytes(&self) -> usize {
        self.to_text().len()
    }

    /// Returns compact JSON: no whitespace, and only the escapes that JSON requires.
    pub fn to_text(&self) -> String {
        let mut text = String::with_capacity(TEXT_BYTES_TYPICAL);
        write_value(self, &mut text);
        text
    }

    /// Names the type of the value in error messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Number(Number::Integer(_)) => "a number",
            Json::Number(Number::Other(_)) => "a number that is not whole or too large",
            Json::String(_) => "a string",
            Json::Array(_) => "a list",
            Json::Object(_) => "an object",
        }
    }

    fn check(
        &self,
        path: JsonPath<'_>,
        depth: usize,
        members: &mut usize,
        errors: &mut ErrorDetails,
    ) {
        if depth > DEPTH_MAX {
            let message = format!("must not be nested deeper than {DEPTH_MAX} levels");
            errors.add(ErrorCode::InvalidRequestContent, path.to_string(), message);
            return;
        }
        match self {
            Json::String(text) => check_text(text, path, errors),
            Json::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    value.check(path.index(index), depth + 1, members, errors);
                }
            }
            Json::Object(entries) => {
                *members += entries.len();
                let is_headers = path.is_member("headers");
                let duplicate = if is_headers {
                    ErrorCode::DuplicateHeader
                } else {
                    ErrorCode::DuplicateProperty
                };
                for (number, (name, value)) in entries.iter().enumerate().take(Json::MEMBERS_MAX) {
                    if name.len() > NAME_BYTES_MAX {
                        let message = format!(
                            "must have names of at most {NAME_BYTES_MAX} bytes (found {})",
                            name.len()
                        );
                        errors.add(ErrorCode::InvalidRequestContent, path.to_string(), message);
                        continue;
                    }
                    let path = path.member(name);
                    check_text(name, path, errors);
                    let earlier = entries.iter().take(number);
                    if earlier.into_iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                        let message = "is given twice; names are case-insensitive";
                        errors.add(duplicate, path.to_string(), message);
                    }
                    value.check(path, depth + 1, members, errors);
                }
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
}

/// The message of invalid JSON, with the line and column.
fn syntax_message(text: &[u8], error: &serde_json::Error) -> String {
    if text.trim_ascii().is_empty() {
        return "The request body must be a JSON object (found an empty body)".to_owned();
    }
    let lines = text.split(|&byte| byte == b'\n');
    let rest = lines
        .skip(error.line().saturating_sub(1))
        .flat_map(|line| line.get(error.column().saturating_sub(1)..));
    let at = rest.into_iter().next().unwrap_or_default();
    let hint = match at.first() {
        Some(b'/') => "; comments are not allowed",
        Some(b'\'') => "; strings have double quotes",
        Some(0xef) if text.starts_with(b"\xef\xbb\xbf") => "; remove the byte order mark",
        _ => "",
    };
    format!("The request body must be valid JSON: {error}{hint}")
}

fn check_text(text: &str, path: JsonPath<'_>, errors: &mut ErrorDetails) {
    if text.contains('\0') {
        errors.add(
            ErrorCode::InvalidCharacter,
            path.to_string(),
            "must not contain the character NUL (\\u0000)",
        );
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json<'a>, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => serializer.serialize_unit(),
            Json::Bool(value) => serializer.serialize_bool(*value),
            Json::Number(Number::Integer(value)) => serializer.serialize_i64(*value),
            Json::Number(Number::Other(value)) => serializer.serialize_f64(*value),
            Json::String(text) => serializer.serialize_str(text),
            Json::Array(values) => serializer.collect_seq(values),
            Json::Object(members) => {
                serializer.collect_map(members.iter().map(|(name, value)| (name, value)))
            }
        }
    }
}

/// See [`Json::to_text`].
impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(Number::Integer(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'de>, E> {
        let integer = i64::try_from(value).map(Number::Integer);
        Ok(Json::Number(integer.unwrap_or(Number::Other(value as f64))))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json<'de>, E> {
        Ok(Json::Number(Number::Other(value)))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Owned(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Owned(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Json<'de>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = entries.next_element()? {
            values.push(value);
        }
        Ok(Json::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some((Name(name), value)) = entries.next_entry()? {
            members.push((name, value));
        }
        Ok(Json::Object(members))
    }
}

/// A member's name, borrowed if possible: serde's own `Cow` always copies.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name<'a>, D::Error> {
        match deserializer.deserialize_str(JsonVisitor)? {
            Json::String(name) => Ok(Name(name)),
            _ => Err(serde::de::Error::custom("a member's name must be a string")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, code: ErrorCode, path: &str, phrase: &str) {
        let errors = Json::parse(text.as_bytes()).unwrap_err();
        let first = errors.iter().next().unwrap();
        assert_eq!((first.code, first.path.as_str()), (code, path), "{text}: {first}");
        assert!(first.message.contains(phrase), "{text}: {first}");
    }

    #[test]
    fn invalid_json_is_rejected_with_its_position() {
        let code = ErrorCode::InvalidRequestContent;
        check("", code, "", "(found an empty body)");
        check("{\"a\":", code, "", "line 1 column 5");
        check("{} x", code, "", "trailing characters at line 1 column 4");
        check("{'a':1}", code, "", "line 1 column 2; strings have double quotes");
        check("{\"a\":NaN}", code, "", "line 1");
        check("{\"a\":1e400}", code, "", "number out of range");
        check("{\"a\":1,}", code, "", "trailing comma");
        check("// note\n{}", code, "", "line 1 column 1; comments are not allowed");
        check("{}\n /* x */", code, "", "line 2 column 2; comments are not allowed");
        check("\u{feff}{}", code, "", "remove the byte order mark");
        check("\"\\ud800\"", code, "", "line 1");
        check(&"[".repeat(100_000), code, "", "recursion limit");
    }

    #[test]
    fn duplicate_members_are_rejected_at_any_level_and_in_any_case() {
        check(r#"{"a":1,"a":2}"#, ErrorCode::DuplicateProperty, "a", "twice");
        check(r#"{"a":{"b":[{"c":1,"C":2}]}}"#, ErrorCode::DuplicateProperty, "a.b[0].C", "twice");
    }

    #[test]
    fn nul_is_rejected_in_values_and_names() {
        check("{\"a\":\"x\\u0000\"}", ErrorCode::InvalidCharacter, "a", "NUL");
        check("{\"a\\u0000\":1}", ErrorCode::InvalidCharacter, "[\"a\\0\"]", "NUL");
    }

    #[test]
    fn nesting_members_and_name_lengths_are_limited() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::parse(nested(16).as_bytes()).is_ok());
        check(&nested(17), ErrorCode::InvalidRequestContent, &"[0]".repeat(17), "deeper");

        let members = |count: usize| {
            let members: Vec<_> = (0..count).map(|number| format!("\"m{number}\":0")).collect();
            format!("{{{}}}", members.join(","))
        };
        let named = |length: usize| format!("{{\"a\":{{\"{}\":0}}}}", "x".repeat(length));
        assert!(Json::parse(named(4_096).as_bytes()).is_ok());
        check(&named(4_097), ErrorCode::InvalidRequestContent, "a", "4096 bytes (found 4097)");
        assert!(Json::parse(members(500).as_bytes()).is_ok());
        check(&members(501), ErrorCode::InvalidRequestContent, "", "(found 501)");
    }

    #[test]
    fn member_order_and_integers_are_preserved() {
        let parsed = Json::parse(br#"{"b":1,"a":-2,"c":1.0}"#).unwrap();
        let Json::Object(members) = parsed else { panic!("an object") };
        let numbers = [Number::Integer(1), Number::Integer(-2), Number::Other(1.0)];
        let expected: Vec<_> = ["b", "a", "c"]
            .into_iter()
            .zip(numbers)
            .map(|(name, number)| (Cow::Borrowed(name), Json::Number(number)))
            .collect();
        assert_eq!(members, expected);
        let written = serde_json::to_string(&Json::Object(members)).unwrap();
        assert_eq!(written, r#"{"b":1,"a":-2,"c":1.0}"#);
    }
}
