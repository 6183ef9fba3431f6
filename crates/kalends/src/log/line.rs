//! Formatting of one log line.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use crate::log::Format;

/// Most characters of a field's value; longer values are truncated. Resource paths fit.
const VALUE_CHARS_MAX: usize = 1_000;
/// Name of the field with the message of the event.
const MESSAGE: &str = "message";

/// One event of the log.
pub(super) struct LogLine {
    at: jiff::Timestamp,
    level: Level,
    target: &'static str,
    message: String,
    fields: Vec<(&'static str, Value)>,
}

impl LogLine {
    pub(super) fn of(event: &Event<'_>, at: jiff::Timestamp) -> LogLine {
        let data = event.metadata();
        let mut line = LogLine {
            at,
            level: *data.level(),
            target: data.target(),
            message: String::new(),
            fields: Vec::new(),
        };
        event.record(&mut line);
        line
    }

    /// The formatted line, including its newline.
    pub(super) fn format(self, format: Format) -> String {
        match format {
            Format::Text => self.text(),
            Format::Json => self.json(),
        }
    }

    fn text(self) -> String {
        let mut text = format!("{:.3} {:<5} {}", self.at, self.level, escape(&self.message));
        for (name, value) in &self.fields {
            // Writing to a String does not fail.
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
        object.insert(MESSAGE.into(), escape(&self.message).into());
        for (name, value) in self.fields {
            let value = match value {
                Value::String(value) => escape(&value).into(),
                value => value,
            };
            object.insert(name.into(), value);
        }
        format!("{}\n", Value::Object(object))
    }

    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            (MESSAGE, Value::String(message)) => self.message = message,
            (name, value) => self.fields.push((name, value)),
        }
    }
}

impl Visit for LogLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, truncate(value).into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.add(field, truncate(&format!("{value:?}")).into());
    }
}

fn truncate(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Whether a value needs no quotes.
fn is_word(text: &str) -> bool {
    let is_plain = |char: char| !char.is_control() && !char.is_whitespace() && char != '"';
    !text.is_empty() && text.chars().all(|char| is_plain(char) && !is_invisible(char))
}

/// Escapes control characters and invisible characters, which could forge log lines or drive a
/// terminal.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char.is_control() || is_invisible(char) {
            true => escaped.extend(char.escape_unicode()),
            false => escaped.push(char),
        }
    }
    escaped
}

/// Zero-width characters and bidirectional controls, which disguise text.
fn is_invisible(char: char) -> bool {
    matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

    use super::*;

    struct Capture(Format, Arc<Mutex<String>>);

    impl<S: tracing::Subscriber> Layer<S> for Capture {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let at = jiff::Timestamp::UNIX_EPOCH;
            self.1.lock().unwrap().push_str(&LogLine::of(event, at).format(self.0));
        }
    }

    fn check(format: Format, log: impl FnOnce(), expected: &str) {
        let captured = Arc::new(Mutex::new(String::new()));
        let subscriber = tracing_subscriber::registry().with(Capture(format, captured.clone()));
        tracing::subscriber::with_default(subscriber, log);
        assert_eq!(*captured.lock().unwrap(), expected);
    }

    #[test]
    fn control_and_invisible_characters_are_escaped() {
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
    fn long_values_are_truncated() {
        let long = "é".repeat(2_000);
        let expected = format!("1970-01-01T00:00:00.000Z ERROR it x={}…\n", "é".repeat(1_000));
        check(Format::Text, || tracing::error!(x = long, "it"), &expected);
    }
}
