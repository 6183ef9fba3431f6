//! Reading a JSON value member by member, with the path of every error.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use kalends_domain::{Limits, Secret, ValidationError, Verbatim};
use kalends_recurrence::{Instant, InstantError, Zone};

use crate::duration::parse_duration;
use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::{Json, Number};
use crate::shape::{Contents, Shape};
use crate::version::Version;

/// Characters of a client's value that a message quotes at most.
const QUOTED_CHARS_MAX: usize = 100;

/// Settings that apply to a whole body while it is read.
#[derive(Clone, Copy)]
pub(crate) struct Context<'c> {
    pub(crate) version: Version,
    pub(crate) limits: &'c Limits,
    pub(crate) strictness: Strictness,
}

/// Whether a definition must be complete.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// Required members and secrets may be missing, as in the retired service.
    Lenient,
    /// A missing required member or secret is an error.
    Complete,
}

impl<'c> Context<'c> {
    pub(crate) fn new(version: Version, limits: &'c Limits) -> Context<'c> {
        let strictness = if version.is_old() { Strictness::Lenient } else { Strictness::Complete };
        Context { version, limits, strictness }
    }
}

/// Path of a value in a body. A linked list on the stack: the text is built only for an error.
#[derive(Clone, Copy)]
pub(crate) struct JsonPath<'p> {
    parent: Option<&'p JsonPath<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    Member(&'p str),
    Index(usize),
}

impl<'p> JsonPath<'p> {
    pub(crate) const ROOT: JsonPath<'static> = JsonPath { parent: None, step: Step::Root };

    pub(crate) fn member(&'p self, name: &'p str) -> JsonPath<'p> {
        JsonPath { parent: Some(self), step: Step::Member(name) }
    }

    pub(crate) fn index(&'p self, index: usize) -> JsonPath<'p> {
        JsonPath { parent: Some(self), step: Step::Index(index) }
    }

    /// Whether the last step is a member called `name`.
    pub(crate) fn is_member(&self, name: &str) -> bool {
        matches!(self.step, Step::Member(own) if own.eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for JsonPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Member(name) => {
                let below_root = self.parent.is_none_or(|parent| matches!(parent.step, Step::Root));
                write!(f, "{}{}", if below_root { "" } else { "." }, shortened(name))
            }
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A value with its path.
#[derive(Clone, Copy)]
pub(crate) struct Node<'v> {
    pub(crate) value: &'v Json<'v>,
    pub(crate) path: JsonPath<'v>,
    /// The code of errors in this value, unless a check returns its own.
    pub(crate) code: ErrorCode,
    pub(crate) contents: Contents,
    pub(crate) version: Version,
}

impl<'v> Node<'v> {
    /// The body of a request in `version`, an object with the members of `shape`.
    pub(crate) fn root(value: &'v Json<'v>, shape: &'static Shape, version: Version) -> Node<'v> {
        Node {
            value,
            path: JsonPath::ROOT,
            code: ErrorCode::InvalidRequestContent,
            contents: Contents::Object(shape),
            version,
        }
    }

    /// Sets the code of errors in this value.
    pub(crate) fn with_code(self, code: ErrorCode) -> Node<'v> {
        Node { code, ..self }
    }

    pub(crate) fn reject(&self, message: impl Into<String>, errors: &mut ErrorDetails) {
        errors.add(self.code, self.path.to_string(), message);
    }

    /// Adds the error of a check.
    pub(crate) fn add_error(&self, error: &ValidationError, errors: &mut ErrorDetails) {
        errors.add(error.kind.into(), self.path.to_string(), &error.message);
    }

    /// Adds the error of a missing member.
    pub(crate) fn missing(
        &self,
        name: &str,
        code: ErrorCode,
        expected: impl fmt::Display,
        errors: &mut ErrorDetails,
    ) {
        let path = self.path.member(name).to_string();
        errors.add(code, path, format!("it is missing; {expected}"));
    }

    /// Adds an error for each missing member that the action requires. Bodies of the old versions
    /// may omit them.
    pub(crate) fn require(&self, names: &[&str], context: Context<'_>, errors: &mut ErrorDetails) {
        let missing = names.iter().filter(|name| self.member(name).is_none());
        for name in missing.filter(|_| context.strictness == Strictness::Complete) {
            let expected = "nothing can be sent without it";
            self.missing(name, ErrorCode::MissingRequiredProperty, expected, errors);
        }
    }

    /// Returns the member `name`, case-insensitively. `null` counts as absent.
    pub(crate) fn member<'s>(&'s self, name: &'s str) -> Option<Node<'s>> {
        let Json::Object(members) = self.value else {
            return None;
        };
        let found = members.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        let (_, value) = found.filter(|(_, value)| *value != Json::Null)?;
        let contents = match self.contents {
            Contents::Object(shape) => shape.find(name).map_or(Contents::Value, |it| it.contents),
            other => other,
        };
        Some(Node { value, path: self.path.member(name), contents, ..*self })
    }

    /// Returns whether the value is an object, and adds an error if not.
    pub(crate) fn is_object(&self, errors: &mut ErrorDetails) -> bool {
        let is_object = matches!(self.value, Json::Object(_));
        if !is_object {
            self.reject(format!("expected an object, found {}", self.value.kind()), errors);
        }
        is_object
    }

    pub(crate) fn text(&self, errors: &mut ErrorDetails) -> Option<&'v str> {
        match self.value {
            Json::String(text) => Some(text),
            other => {
                self.reject(format!("expected a string, found {}", other.kind()), errors);
                None
            }
        }
    }

    pub(crate) fn integer(&self, errors: &mut ErrorDetails) -> Option<i64> {
        match self.value {
            Json::Number(Number::Integer(number)) => Some(*number),
            other => {
                self.reject(format!("expected a whole number, found {}", other.kind()), errors);
                None
            }
        }
    }

    pub(crate) fn boolean(&self, errors: &mut ErrorDetails) -> Option<bool> {
        match self.value {
            Json::Bool(value) => Some(*value),
            other => {
                self.reject(format!("expected true or false, found {}", other.kind()), errors);
                None
            }
        }
    }

    /// Reads a required secret, which no message may quote. Bodies of the old versions may omit it.
    pub(crate) fn required_secret(
        &self,
        name: &str,
        context: Context<'_>,
        errors: &mut ErrorDetails,
    ) -> Option<Secret> {
        let member = self.member(name);
        if member.is_none() && context.strictness == Strictness::Complete {
            let expected = "secrets are never answered and must be sent with every definition";
            self.missing(name, ErrorCode::MissingSecret, expected, errors);
        }
        member?.text(errors).map(|text| Secret::new(text.to_owned()))
    }

    /// Reads a string of at most `max` characters.
    pub(crate) fn text_within(&self, max: usize, errors: &mut ErrorDetails) -> Option<String> {
        let text = self.text(errors)?;
        let length = text.chars().count();
        if length > max {
            self.reject(format!("it has {length} characters; allowed are {max}"), errors);
            return None;
        }
        Some(text.to_owned())
    }

    /// Reads a string that passes `check`.
    pub(crate) fn checked(
        &self,
        check: impl Fn(&str) -> Result<(), ValidationError>,
        errors: &mut ErrorDetails,
    ) -> Option<String> {
        let text = self.text(errors)?;
        match check(text) {
            Ok(()) => Some(text.to_owned()),
            Err(error) => {
                self.add_error(&error, errors);
                None
            }
        }
    }

    /// Reads a date-time; errors have the code `InvalidDateTime`.
    pub(crate) fn instant(&self, errors: &mut ErrorDetails) -> Option<Instant> {
        self.with_code(ErrorCode::InvalidDateTime).date_time(errors)
    }

    /// Reads a date-time, which is a wall time of `zone` if it has no offset; errors have the code
    /// `InvalidDateTime`.
    pub(crate) fn instant_in(&self, zone: &Zone, errors: &mut ErrorDetails) -> Option<Instant> {
        let node = self.with_code(ErrorCode::InvalidDateTime);
        let text = node.text(errors)?;
        node.parsed_date_time(text, Instant::parse_in(text, zone), errors)
    }

    /// Reads a date-time; errors have the code of this node.
    pub(crate) fn date_time(&self, errors: &mut ErrorDetails) -> Option<Instant> {
        let text = self.text(errors)?;
        self.parsed_date_time(text, text.parse(), errors)
    }

    fn parsed_date_time(
        &self,
        text: &str,
        parsed: Result<Instant, InstantError>,
        errors: &mut ErrorDetails,
    ) -> Option<Instant> {
        match parsed {
            Ok(instant) => Some(instant),
            Err(error) => {
                self.reject(format!("{} is not a date-time: {error}", quoted(text)), errors);
                None
            }
        }
    }

    pub(crate) fn duration(&self, errors: &mut ErrorDetails) -> Option<Verbatim<Duration>> {
        let text = self.text(errors)?;
        let value = parse_duration(text);
        if value.is_none() {
            let message = format!(
                "{} is not a duration; expected one such as PT30S, P1DT12H or 1.12:00:00",
                quoted(text)
            );
            self.reject(message, errors);
        }
        value.map(|value| Verbatim::new(text, value))
    }

    /// Reads one of the enum values `allowed`, case-insensitively.
    pub(crate) fn enum_value<T: Copy>(
        &self,
        allowed: impl Iterator<Item = (&'static str, T)> + Clone,
        errors: &mut ErrorDetails,
    ) -> Option<T> {
        let text = self.text(errors)?;
        let found = allowed.clone().find(|(known, _)| known.eq_ignore_ascii_case(text));
        if found.is_none() {
            let allowed: Vec<_> = allowed.map(|(known, _)| known).collect();
            let message =
                format!("{} is not allowed; allowed are {}", quoted(text), allowed.join(", "));
            self.reject(message, errors);
        }
        found.map(|(_, value)| value)
    }

    /// Reads an object with arbitrary names and string values, such as headers.
    pub(crate) fn map(&self, errors: &mut ErrorDetails) -> Option<Vec<(String, String)>> {
        let Json::Object(members) = self.value else {
            self.is_object(errors);
            return None;
        };
        let mut entries = Vec::with_capacity(members.len());
        for (name, value) in members {
            let node = Node { value, path: self.path.member(name), ..*self };
            entries.extend(node.text(errors).map(|text| (name.to_string(), text.to_owned())));
        }
        Some(entries)
    }

    /// Reads a list entry by entry. A scalar counts as a list of one.
    pub(crate) fn list<T>(
        &self,
        errors: &mut ErrorDetails,
        mut read: impl FnMut(Node<'_>, &mut ErrorDetails) -> Option<T>,
    ) -> Option<Vec<T>> {
        let Json::Array(values) = self.value else {
            return read(*self, errors).map(|value| vec![value]);
        };
        let mut list = Vec::with_capacity(values.len());
        for (index, value) in values.iter().enumerate() {
            list.extend(read(Node { value, path: self.path.index(index), ..*self }, errors));
        }
        Some(list)
    }
}

/// Quotes a client's value for a message: escaped, and cut to [`QUOTED_CHARS_MAX`].
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}

fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}
