//! Reading YAML 1.2 documents, with the core schema.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};
use kalends_wire::Number;

use super::file_error::FileError;
use super::located::{Located, Member, Value};

/// Values of one file, aliases expanded. A file of ten thousand jobs has about half a million.
const VALUES_MAX: usize = 2_000_000;
/// Nesting of values. Definitions nest about ten levels deep.
const DEPTH_MAX: usize = 64;

/// Reads all documents of a file. Empty documents are left out.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<Located>, FileError> {
    let mut builder = Builder { file, anchors: HashMap::new(), values: 0 };
    let mut events = Parser::new_from_str(text);
    let mut documents = Vec::new();
    while let Some((event, span)) = builder.next(&mut events)? {
        match event {
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
            Event::StreamEnd => break,
            event => {
                let document = builder.node(event, span, &mut events, 0)?;
                if document.value != Value::Null {
                    documents.push(document);
                }
            }
        }
    }
    Ok(documents)
}

struct Builder<'f> {
    file: &'f str,
    anchors: HashMap<usize, Located>,
    values: usize,
}

type Events<'i> = Parser<'i, granit_parser::StrInput<'i>>;

impl Builder<'_> {
    /// The next event that is not a comment.
    fn next<'i>(&self, events: &mut Events<'i>) -> Result<Option<(Event<'i>, Span)>, FileError> {
        loop {
            match events.next() {
                None => return Ok(None),
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok(next)) => return Ok(Some(next)),
                Some(Err(error)) => return Err(self.syntax_error(&error)),
            }
        }
    }

    fn syntax_error(&self, error: &ScanError) -> FileError {
        let hint = match error.info().contains("anchor") || error.info().contains("alias") {
            true => "; quote a value that begins with * or &",
            false => "",
        };
        let message = format!("invalid YAML: {}{hint}", error.info());
        FileError::new(self.file, error.marker().line(), message)
    }

    fn node<'i>(
        &mut self,
        event: Event<'i>,
        span: Span,
        events: &mut Events<'i>,
        depth: usize,
    ) -> Result<Located, FileError> {
        let line = span.start.line();
        let error = |message: &str| FileError::new(self.file, line, message);
        if depth > DEPTH_MAX {
            return Err(error("values must not be nested deeper than 64 levels"));
        }
        let (value, anchor, tag) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (scalar(&text, style, tag.as_deref()), anchor, tag)
            }
            Event::SequenceStart(_, anchor, tag) => (self.list(events, depth)?, anchor, tag),
            Event::MappingStart(_, anchor, tag) => (self.object(events, depth)?, anchor, tag),
            Event::Alias(anchor) => {
                let found = self.anchors.get(&anchor);
                let found = found.ok_or_else(|| error("invalid YAML: unknown anchor"))?;
                let values = size(found);
                self.count(values, line)?;
                let found = self.anchors.get(&anchor).cloned();
                return found.ok_or_else(|| FileError::new(self.file, line, "unknown anchor"));
            }
            _ => return Err(error("invalid YAML: unexpected end of the document")),
        };
        self.count(1, line)?;
        let value = Located { line, value };
        let value = match tag.filter(|tag| !tag.is_yaml_core_schema()) {
            Some(tag) => {
                let name = format!("!{}", tag.suffix().trim_start_matches('!'));
                Located { line, value: Value::Object(vec![Member { name, line, value }]) }
            }
            None => value,
        };
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn list(&mut self, events: &mut Events<'_>, depth: usize) -> Result<Value, FileError> {
        let mut entries = Vec::new();
        while let Some((event, span)) = self.next(events)? {
            if event == Event::SequenceEnd {
                break;
            }
            entries.push(self.node(event, span, events, depth + 1)?);
        }
        Ok(Value::List(entries))
    }

    fn object(&mut self, events: &mut Events<'_>, depth: usize) -> Result<Value, FileError> {
        let mut members: Vec<Member> = Vec::new();
        let mut names = HashMap::new();
        while let Some((event, span)) = self.next(events)? {
            let line = span.start.line();
            let name = match event {
                Event::MappingEnd => break,
                Event::Scalar(text, ..) => text.into_owned(),
                _ => {
                    let message = "invalid YAML: a name of a member must be a string";
                    return Err(FileError::new(self.file, line, message));
                }
            };
            if let Some(first) = names.insert(name.to_ascii_lowercase(), line) {
                let message = format!("{name} is given twice, first in line {first}");
                return Err(FileError::new(self.file, line, message));
            }
            let Some((event, span)) = self.next(events)? else { break };
            let value = self.node(event, span, events, depth + 1)?;
            members.push(Member { name, line, value });
        }
        Ok(Value::Object(members))
    }

    /// Counts values, so that aliases of aliases cannot fill the memory.
    fn count(&mut self, values: usize, line: usize) -> Result<(), FileError> {
        self.values += values;
        match self.values > VALUES_MAX {
            true => Err(FileError::new(self.file, line, "the file has too many values")),
            false => Ok(()),
        }
    }
}

fn size(value: &Located) -> usize {
    let entries = value.entries().iter().map(size).sum::<usize>();
    let members = value.members().iter().map(|member| size(&member.value)).sum::<usize>();
    1 + entries + members
}

/// The value of a scalar. Only plain ones can be something else than strings.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let core_tag = tag.and_then(Tag::core_suffix);
    if style != ScalarStyle::Plain || core_tag == Some("str") {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    match number(text) {
        Some(number) => Value::Number(number),
        None => Value::String(text.to_owned()),
    }
}

/// A number of the core schema: decimal digits, a fraction, an exponent, or 0x and 0o.
fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let radix = |prefix, radix| {
        let digits = text.strip_prefix(prefix)?;
        i64::from_str_radix(digits, radix).ok().map(Number::Integer)
    };
    if let Some(number) = radix("0x", 16).or_else(|| radix("0o", 8)) {
        return Some(number);
    }
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        || !digits.contains(|any: char| any.is_ascii_digit())
        || !digits.chars().all(|any| any.is_ascii_digit() || "+-.eE".contains(any))
    {
        return None;
    }
    match text.parse() {
        Ok(number) => Some(Number::Integer(number)),
        Err(_) => text.parse().ok().filter(|number: &f64| number.is_finite()).map(Number::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        let documents = parse("f.yaml", text).unwrap();
        documents.iter().map(|document| document.to_json().to_string()).collect()
    }

    fn error(text: &str) -> String {
        parse("f.yaml", text).unwrap_err().to_string()
    }

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        for (text, expected) in [
            ("On", r#""On""#),
            ("no", r#""no""#),
            ("2026-11-20", r#""2026-11-20""#),
            ("00:05:00", r#""00:05:00""#),
            ("1.12:00:00", r#""1.12:00:00""#),
            ("0 2 * * *", r#""0 2 * * *""#),
            ("PT5M", r#""PT5M""#),
            ("-1", "-1"),
            ("08", "8"),
            ("1.5", "1.5"),
            ("true", "true"),
            ("~", "null"),
            ("\"1\"", r#""1""#),
            ("'true'", r#""true""#),
            ("!!str 5", r#""5""#),
            (".", r#"".""#),
            ("1-2", r#""1-2""#),
        ] {
            assert_eq!(json(&format!("v: {text}")), format!("{{\"v\":{expected}}}"), "{text}");
        }
    }

    #[test]
    fn documents_lists_and_aliases_are_read() {
        assert_eq!(json("---\na: [1, {b: 2}]\n---\n- x\n"), r#"{"a":[1,{"b":2}]}["x"]"#);
        let shared = "base: &b {hours: [2]}\none: *b\ntwo: *b\n";
        assert_eq!(
            json(shared),
            r#"{"base":{"hours":[2]},"one":{"hours":[2]},"two":{"hours":[2]}}"#
        );
        assert_eq!(json("arn: !GetAtt Queue.Arn"), r#"{"arn":{"!GetAtt":"Queue.Arn"}}"#);
        assert_eq!(json("# nothing\n"), "");
    }

    #[test]
    fn errors_have_their_line() {
        assert_eq!(error("a: 1\nA: 2\n"), "f.yaml:2: A is given twice, first in line 1");
        assert!(error("a: 1\nb: [1\nc: 2\n").starts_with("f.yaml:"));
        assert!(error("x:\n  cron: */5 * * * *\n").starts_with("f.yaml:2: invalid YAML"));
    }

    #[test]
    fn aliases_of_aliases_are_limited() {
        let mut text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned();
        for level in 1..12 {
            let before = level - 1;
            let many = vec![format!("*a{before}"); 10].join(", ");
            text += &format!("a{level}: &a{level} [{many}]\n");
        }
        assert!(error(&text).ends_with("the file has too many values"));
        let deep = "[".repeat(200);
        assert!(parse("f.yaml", &deep).is_err());
    }
}
