//! Reading a JSON value member by member, with the path of every error.

use std::fmt;
use std::time::Duration;

use kalends_domain::{Found, Limits, Secret, ValidationError, Verbatim};
use kalends_recurrence::{Instant, InstantError, Zone};

use crate::duration::{parse_duration, suggest_duration};
use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::{Json, Number};
use crate::quoting::{quoted, shortened};
use crate::shape::{Contents, Shape};
use crate::unknown_members::{names, nearest_word};
use crate::version::Version;

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

    /// Whether this is the path of the whole body.
    pub(crate) fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
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
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-$".contains(c);
                let below_root = self.parent.is_none_or(|parent| matches!(parent.step, Step::Root));
                match !name.is_empty() && name.chars().all(is_plain) {
                    true if below_root => f.write_str(&shortened(name)),
                    true => write!(f, ".{}", shortened(name)),
                    false => write!(f, "[{}]", quoted(name)),
                }
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

    /// Adds an error: `problem`, a sentence whose subject is this value, and the value found.
    pub(crate) fn reject(&self, problem: impl fmt::Display, errors: &mut ErrorDetails) {
        self.reject_found(problem, Some(self.found()), None, errors);
    }

    /// Like [`Node::reject`], with advice after the value found.
    pub(crate) fn reject_with_hint(
        &self,
        problem: impl fmt::Display,
        hint: Option<String>,
        errors: &mut ErrorDetails,
    ) {
        self.reject_found(problem, Some(self.found()), hint, errors);
    }

    /// Like [`Node::reject`], with the number of entries of a list.
    pub(crate) fn reject_with_list_length(
        &self,
        problem: impl fmt::Display,
        errors: &mut ErrorDetails,
    ) {
        let found = match self.value {
            Json::Array(entries) => entries.len().to_string(),
            _ => self.found(),
        };
        self.reject_found(problem, Some(found), None, errors);
    }

    /// Adds an error that does not depend on the value.
    pub(crate) fn reject_any(&self, problem: impl fmt::Display, errors: &mut ErrorDetails) {
        self.reject_found(problem, None, None, errors);
    }

    fn reject_found(
        &self,
        problem: impl fmt::Display,
        found: Option<String>,
        hint: Option<String>,
        errors: &mut ErrorDetails,
    ) {
        let subject = if self.path.is_root() { "The request body " } else { "" };
        let found = found.map_or_else(String::new, |found| format!(" (found {found})"));
        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
        let message = format!("{subject}{problem}{found}{hint}");
        errors.add(self.code, self.path.to_string(), message);
    }

    /// The value for a message: quoted and cut, or only its type if it can contain a secret.
    fn found(&self) -> String {
        let is_secret = match self.contents {
            Contents::Value => false,
            Contents::Secret => true,
            Contents::Object(shape) => shape.has_secrets(),
        };
        match self.value {
            _ if is_secret => self.value.kind().to_owned(),
            Json::String(text) => quoted(text),
            Json::Number(_) | Json::Bool(_) => shortened(&self.value.to_string()),
            Json::Null | Json::Array(_) | Json::Object(_) => self.value.kind().to_owned(),
        }
    }

    /// Adds the error of a check.
    pub(crate) fn add_error(&self, error: &ValidationError, errors: &mut ErrorDetails) {
        let found = match &error.found {
            Found::Value => Some(self.found()),
            Found::Text(text) => Some(text.clone()),
            Found::Nothing => None,
        };
        let node = self.with_code(error.kind.into());
        node.reject_found(&error.message, found, error.hint.clone(), errors);
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
        errors.add(code, path, format!("is missing; {expected}"));
    }

    /// Adds the error of a missing member that is an object.
    pub(crate) fn missing_object(&self, name: &str, errors: &mut ErrorDetails) {
        let member = match self.contents {
            Contents::Object(shape) => shape.find(name).map(|member| member.contents),
            Contents::Value | Contents::Secret => None,
        };
        let members = match member {
            Some(Contents::Object(shape)) => format!(" with {}", names(shape, self.version)),
            _ => String::new(),
        };
        let expected = format!("it must be an object{members}");
        self.missing(name, ErrorCode::MissingRequiredProperty, expected, errors);
    }

    /// Adds an error for each missing member that the action requires. Bodies of the old versions
    /// may omit them.
    pub(crate) fn require(&self, names: &[&str], context: Context<'_>, errors: &mut ErrorDetails) {
        let missing = names.iter().filter(|name| self.member(name).is_none());
        for name in missing.filter(|_| context.strictness == Strictness::Complete) {
            let expected = "this type of action requires it";
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
            let members = match self.contents {
                Contents::Object(shape) => format!(" with {}", names(shape, self.version)),
                Contents::Value | Contents::Secret => " of strings".to_owned(),
            };
            self.reject(format!("must be an object{members}"), errors);
        }
        is_object
    }

    pub(crate) fn text(&self, errors: &mut ErrorDetails) -> Option<&'v str> {
        match self.value {
            Json::String(text) => Some(text),
            _ => {
                self.reject("must be a string", errors);
                None
            }
        }
    }

    pub(crate) fn integer(&self, errors: &mut ErrorDetails) -> Option<i64> {
        match self.value {
            Json::Number(Number::Integer(number)) => Some(*number),
            _ => {
                self.reject("must be a whole number", errors);
                None
            }
        }
    }

    pub(crate) fn boolean(&self, errors: &mut ErrorDetails) -> Option<bool> {
        match self.value {
            Json::Bool(value) => Some(*value),
            _ => {
                self.reject("must be true or false", errors);
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
            let expected = "send the secret, or \"${stored}\" to keep the stored one";
            self.missing(name, ErrorCode::MissingSecret, expected, errors);
        }
        member?.text(errors).map(|text| Secret::new(text.to_owned()))
    }

    /// Reads a string of at most `max` characters.
    pub(crate) fn text_within(&self, max: usize, errors: &mut ErrorDetails) -> Option<String> {
        let text = self.text(errors)?;
        let length = text.chars().count();
        if length > max {
            let problem = format!("must have at most {max} characters");
            self.reject_found(problem, Some(format!("{length} characters")), None, errors);
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
        node.parsed_date_time(Instant::parse_in(node.text(errors)?, zone), errors)
    }

    /// Reads a date-time; errors have the code of this node.
    pub(crate) fn date_time(&self, errors: &mut ErrorDetails) -> Option<Instant> {
        self.parsed_date_time(self.text(errors)?.parse(), errors)
    }

    fn parsed_date_time(
        &self,
        parsed: Result<Instant, InstantError>,
        errors: &mut ErrorDetails,
    ) -> Option<Instant> {
        parsed.map_err(|error| self.reject(error, errors)).ok()
    }

    pub(crate) fn duration(&self, errors: &mut ErrorDetails) -> Option<Verbatim<Duration>> {
        let text = self.text(errors)?;
        let value = parse_duration(text);
        if value.is_none() {
            let problem = "must be a duration such as PT30S, P1DT12H or 1.12:00:00";
            let hint = suggest_duration(text).map(|near| format!("did you mean {near}?"));
            self.reject_with_hint(problem, hint, errors);
        }
        value.map(|value| Verbatim::new(text, value))
    }

    /// Reads one of the enum values `allowed`, case-insensitively.
    pub(crate) fn enum_value<T: Copy>(
        &self,
        allowed: impl Iterator<Item = (&'static str, T)> + Clone,
        errors: &mut ErrorDetails,
    ) -> Option<T> {
        let Json::String(text) = self.value else {
            let allowed: Vec<_> = allowed.map(|(known, _)| known).collect();
            self.reject(one_of(&allowed), errors);
            return None;
        };
        let found = allowed.clone().find(|(known, _)| known.eq_ignore_ascii_case(text));
        if found.is_none() {
            let allowed: Vec<_> = allowed.map(|(known, _)| known).collect();
            let hint = nearest_word(text, &allowed).map(|near| format!("did you mean {near}?"));
            self.reject_with_hint(one_of(&allowed), hint, errors);
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

fn one_of(allowed: &[&str]) -> String {
    format!("must be one of {}", allowed.join(", "))
}
