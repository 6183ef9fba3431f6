//! One line of the log.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use crate::log::Format;

/// Characters of a value; what is longer is cut. The longest that is of use is a path.
const VALUE_CHARS_MAX: usize = 1_000;
/// The field that is the message itself.
const MESSAGE: &str = "message";

/// One line of the log.
pub(super) struct Line {
    at: jiff::Timestamp,
    level: Level,
    target: &'static str,
    message: String,
    fields: Vec<(&'static str, Value)>,
}

impl Line {
    pub(super) fn of(event: &Event<'_>, at: jiff::Timestamp) -> Line {
        let data = event.metadata();
        let mut line = Line {
            at,
            level: *data.level(),
            target: data.target(),
            message: String::new(),
            fields: Vec::new(),
        };
        event.record(&mut line);
        line
    }

    /// The line, with its end.
    pub(super) fn written(self, format: Format) -> String {
        match format {
            Format::Text => self.text(),
            Format::Json => self.json(),
        }
    }

    fn text(self) -> String {
        let mut text = format!("{:.3} {:<5} {}", self.at, self.level, plain(&self.message));
        for (name, value) in &self.fields {
            // Writing to a text does not fail.
            let _ = match value {
                Value::String(value) if is_word(value) => write!(text, " {name}={value}"),
                Value::String(value) => write!(text, " {name}=\"{}\"", value.escape_debug()),
                value => write!(text, " {name}={value}"),
            };
        }
        text.push('\n');
        text
    }

    fn json(self) -> String {
        let mut object = Map::new();
        object.insert("time".into(), format!("{:.3}", self.at).into());
        object.insert("level".into(), self.level.as_str().to_ascii_lowercase().into());
        object.insert("target".into(), self.target.into());
        object.insert(MESSAGE.into(), plain(&self.message).into());
        for (name, value) in self.fields {
            let value = match value {
                Value::String(value) => plain(&value).into(),
                value => value,
            };
            object.insert(name.into(), value);
        }
        format!("{}\n", Value::Object(object))
    }

    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            (MESSAGE, Value::String(message)) => self.message = message,
            (name, value) => self.fields.push((name, value)),
        }
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, cut(value).into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.put(field, cut(&format!("{value:?}")).into());
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Whether a value needs no quotes.
fn is_word(text: &str) -> bool {
    let is_plain = |char: char| !char.is_control() && !char.is_whitespace() && char != '"';
    !text.is_empty() && text.chars().all(|char| is_plain(char) && !is_hidden(char))
}

/// A text without what moves a terminal's cursor or turns its letters around.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for char in text.chars() {
        match char.is_control() || is_hidden(char) {
            true => plain.extend(char.escape_unicode()),
            false => plain.push(char),
        }
    }
    plain
}

/// Marks of direction and of no width, which make a line look like another.
fn is_hidden(char: char) -> bool {
    matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

    use super::*;

    struct Kept(Format, Arc<Mutex<String>>);

    impl<S: tracing::Subscriber> Layer<S> for Kept {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let at = jiff::Timestamp::UNIX_EPOCH;
            self.1.lock().unwrap().push_str(&Line::of(event, at).written(self.0));
        }
    }

    fn check(format: Format, tell: impl FnOnce(), expected: &str) {
        let kept = Arc::new(Mutex::new(String::new()));
        let subscriber = tracing_subscriber::registry().with(Kept(format, kept.clone()));
        tracing::subscriber::with_default(subscriber, tell);
        assert_eq!(*kept.lock().unwrap(), expected);
    }

    #[test]
    fn a_line_is_one_line_whatever_is_in_it() {
        let nasty = "a\nb\u{1b}[31m\"\u{202e}";
        check(
            Format::Text,
            || tracing::warn!(name = nasty, plain = "x", number = 3, "said {nasty}"),
            "1970-01-01T00:00:00.000Z WARN  said a\\u{a}b\\u{1b}[31m\"\\u{202e} name=\"a\\nb\\u{1b}[31m\\\"\\u{202e}\" plain=x number=3\n",
        );
        check(
            Format::Json,
            || tracing::info!(target: "t", name = nasty, flag = true, "said"),
            "{\"flag\":true,\"level\":\"info\",\"message\":\"said\",\"name\":\"a\\\\u{a}b\\\\u{1b}[31m\\\"\\\\u{202e}\",\"target\":\"t\",\"time\":\"1970-01-01T00:00:00.000Z\"}\n",
        );
    }

    #[test]
    fn a_long_value_is_cut() {
        let long = "é".repeat(2_000);
        let expected = format!("1970-01-01T00:00:00.000Z ERROR it x={}…\n", "é".repeat(1_000));
        check(Format::Text, || tracing::error!(x = long, "it"), &expected);
    }
}
