//! Reading JSON with comments and trailing commas.

use kalends_wire::Number;

use super::file_error::FileError;
use super::located::{Located, Member, Value};

/// Nesting of values. ARM templates nest about fifteen levels deep.
const DEPTH_MAX: usize = 64;

/// Reads the document of a file.
pub(crate) fn parse(file: &str, text: &str) -> Result<Located, FileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { file, text, rest: text, line: 1 };
    let value = reader.value(0)?;
    reader.skip_blanks()?;
    match reader.rest.chars().next() {
        None => Ok(value),
        Some(found) => {
            Err(reader.error(format!("unexpected {found:?} after the end of the value")))
        }
    }
}

struct Reader<'t> {
    file: &'t str,
    text: &'t str,
    rest: &'t str,
    line: usize,
}

impl Reader<'_> {
    fn error(&self, message: impl std::fmt::Display) -> FileError {
        let offset = self.text.len() - self.rest.len();
        let before = self.text.get(..offset).unwrap_or_default();
        let column = before.chars().rev().take_while(|&any| any != '\n').count() + 1;
        FileError::new(self.file, self.line, format!("invalid JSON, column {column}: {message}"))
    }

    fn advance(&mut self, bytes: usize) {
        let passed = self.rest.get(..bytes).unwrap_or_default();
        self.line += passed.matches('\n').count();
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn skip_blanks(&mut self) -> Result<(), FileError> {
        loop {
            let blanks = self.rest.len() - self.rest.trim_start().len();
            self.advance(blanks);
            if self.rest.starts_with("//") {
                self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if let Some(comment) = self.rest.strip_prefix("/*") {
                let end = comment.find("*/");
                let end = end.ok_or_else(|| self.error("the comment has no end"))?;
                self.advance(end + 4);
            } else {
                return Ok(());
            }
        }
    }

    /// Skips blanks and then `expected`, if it comes next.
    fn skip(&mut self, expected: char) -> Result<bool, FileError> {
        self.skip_blanks()?;
        let found = self.rest.starts_with(expected);
        if found {
            self.advance(expected.len_utf8());
        }
        Ok(found)
    }

    fn value(&mut self, depth: usize) -> Result<Located, FileError> {
        if depth > DEPTH_MAX {
            return Err(self.error("values must not be nested deeper than 64 levels"));
        }
        self.skip_blanks()?;
        let line = self.line;
        let value = match self.rest.chars().next() {
            Some('{') => self.object(depth)?,
            Some('[') => self.list(depth)?,
            Some('"') => Value::String(self.string()?),
            Some(_) => self.word()?,
            None => return Err(self.error("unexpected end of the file")),
        };
        Ok(Located { line, value })
    }

    fn list(&mut self, depth: usize) -> Result<Value, FileError> {
        self.advance(1);
        let mut entries = Vec::new();
        loop {
            if self.skip(']')? {
                return Ok(Value::List(entries));
            }
            entries.push(self.value(depth + 1)?);
            if !self.skip(',')? && !self.rest.starts_with(']') {
                return Err(self.error("expected , or ] after an entry"));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, FileError> {
        self.advance(1);
        let mut members: Vec<Member> = Vec::new();
        let mut names = std::collections::HashMap::new();
        loop {
            if self.skip('}')? {
                return Ok(Value::Object(members));
            }
            if !self.rest.starts_with('"') {
                return Err(self.error("expected a name in double quotes, or }"));
            }
            let line = self.line;
            let name = self.string()?;
            if let Some(first) = names.insert(name.to_ascii_lowercase(), line) {
                let message = format!("{name} is given twice, first in line {first}");
                return Err(FileError::new(self.file, line, message));
            }
            if !self.skip(':')? {
                return Err(self.error("expected : after the name of a member"));
            }
            let value = self.value(depth + 1)?;
            members.push(Member { name, line, value });
            if !self.skip(',')? && !self.rest.starts_with('}') {
                return Err(self.error("expected , or } after a member"));
            }
        }
    }

    fn string(&mut self) -> Result<String, FileError> {
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find(|&(_, found)| {
            let is_end = found == '"' && !escaped;
            escaped = found == '\\' && !escaped;
            is_end
        });
        let (end, _) = end.ok_or_else(|| self.error("the string has no end"))?;
        let quoted = self.rest.get(..=end).unwrap_or_default();
        let text = serde_json::from_str(quoted);
        let text = text.map_err(|_| self.error("the string has an invalid character or escape"))?;
        self.advance(end + 1);
        Ok(text)
    }

    fn word(&mut self) -> Result<Value, FileError> {
        let is_end = |any: char| any.is_whitespace() || ",:]}/[{\"".contains(any);
        let end = self.rest.find(is_end).unwrap_or(self.rest.len());
        let word = self.rest.get(..end).unwrap_or_default();
        let value = match word {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => match serde_json::from_str::<serde_json::Number>(word) {
                Ok(number) => Value::Number(match (number.as_i64(), number.as_f64()) {
                    (Some(integer), _) => Number::Integer(integer),
                    (None, other) => Number::Other(other.unwrap_or(f64::MAX)),
                }),
                Err(_) => {
                    return Err(self.error("expected a value; strings have double quotes"));
                }
            },
        };
        self.advance(end);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_accepted() {
        let text =
            "// a\n{ /* b\n */ \"a\": [1, -2.5, \"x // y\",], // c\n \"b\": {\"n\": null,},\n}";
        let value = parse("f.json", text).unwrap();
        assert_eq!(value.to_json().to_string(), r#"{"a":[1,-2.5,"x // y"],"b":{"n":null}}"#);
        assert_eq!((value.line, value.line_of("b.n"), value.line_of("a[2]")), (2, 4, 3));
        let escapes = parse("f.json", r#""\ud83d\ude00\u00e9\"\\""#).unwrap();
        assert_eq!(escapes.text(), Some("😀é\"\\"));
    }

    #[test]
    fn errors_have_line_and_column() {
        for (text, expected) in [
            ("{\n \"a\": 1\n \"b\": 2}", "f.json:3: invalid JSON, column 2: expected , or }"),
            ("{\"a\": tru}", "f.json:1: invalid JSON, column 7: expected a value"),
            ("{'a': 1}", "f.json:1: invalid JSON, column 2: expected a name"),
            ("{\"a\": 1,\n \"A\": 2}", "f.json:2: A is given twice, first in line 1"),
            ("[1", "f.json:1: invalid JSON, column 3: expected , or ]"),
            ("/* x", "f.json:1: invalid JSON, column 1: the comment has no end"),
            ("{} x", "f.json:1: invalid JSON, column 4: unexpected 'x'"),
            ("\"a", "f.json:1: invalid JSON, column 1: the string has no end"),
        ] {
            let error = parse("f.json", text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(parse("f.json", &"[".repeat(100_000)).is_err());
    }
}
