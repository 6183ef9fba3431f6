//! Values of a definition file with the lines they are on.

use std::borrow::Cow;

use kalends_wire::{Json, Number};

/// A value and the line, from 1, on which it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Located {
    pub(crate) line: usize,
    pub(crate) value: Value,
}

/// A value of a YAML or JSON document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    List(Vec<Located>),
    Object(Vec<Member>),
}

/// A member of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// The line of the name.
    pub(crate) line: usize,
    pub(crate) value: Located,
}

impl Located {
    /// The members of an object; none for any other value.
    pub(crate) fn members(&self) -> &[Member] {
        match &self.value {
            Value::Object(members) => members,
            _ => &[],
        }
    }

    /// The entries of a list; none for any other value.
    pub(crate) fn entries(&self) -> &[Located] {
        match &self.value {
            Value::List(entries) => entries,
            _ => &[],
        }
    }

    /// The member `name`, ignoring case. `null` counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&Located> {
        let found = self.members().iter().find(|member| member.name.eq_ignore_ascii_case(name))?;
        Some(&found.value).filter(|value| value.value != Value::Null)
    }

    /// The value at a path of member names.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Located> {
        path.iter().try_fold(self, |value, name| value.get(name))
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn boolean(&self) -> Option<bool> {
        match self.value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn integer(&self) -> Option<i64> {
        match self.value {
            Value::Number(Number::Integer(number)) => Some(number),
            _ => None,
        }
    }

    /// The text of the member `name`.
    pub(crate) fn text_of(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Located::text)
    }

    /// Names the type of the value in messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::List(_) => "a list",
            Value::Object(_) => "an object",
        }
    }

    /// The value without its lines.
    pub(crate) fn to_json(&self) -> Json<'static> {
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Number(number) => Json::Number(*number),
            Value::String(text) => Json::String(Cow::Owned(text.clone())),
            Value::List(entries) => Json::Array(entries.iter().map(Located::to_json).collect()),
            Value::Object(members) => {
                let member =
                    |member: &Member| (Cow::Owned(member.name.clone()), member.value.to_json());
                Json::Object(members.iter().map(member).collect())
            }
        }
    }

    /// The line of the member that an error path such as `recurrence.schedule.hours[1]` names, or of
    /// the nearest object around it.
    pub(crate) fn line_of(&self, path: &str) -> usize {
        let mut found = self;
        let mut line = self.line;
        let path = path.replace('[', ".").replace([']', '"'], "");
        for step in path.split('.').filter(|step| !step.is_empty()) {
            let next = match &found.value {
                Value::Object(members) => {
                    let is_named = |member: &&Member| member.name.eq_ignore_ascii_case(step);
                    members.iter().find(is_named).map(|member| (member.line, &member.value))
                }
                Value::List(entries) => {
                    let entry = step.parse().ok().and_then(|index: usize| entries.get(index));
                    entry.map(|entry| (entry.line, entry))
                }
                _ => None,
            };
            let Some((next_line, value)) = next else { break };
            (line, found) = (next_line, value);
        }
        line
    }
}
