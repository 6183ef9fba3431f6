//! Building JSON objects with members in a fixed order.

use std::borrow::Cow;

use kalends_recurrence::Instant;

use crate::json::{Json, Number};

/// Members of a typical object, for which it is allocated once.
const MEMBERS_TYPICAL: usize = 8;

/// Members of an object under construction.
#[derive(Default)]
pub(crate) struct ObjectBuilder<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

impl<'a> ObjectBuilder<'a> {
    pub(crate) fn new() -> ObjectBuilder<'a> {
        ObjectBuilder(Vec::with_capacity(MEMBERS_TYPICAL))
    }

    pub(crate) fn put(
        mut self,
        name: &'static str,
        value: impl Into<Json<'a>>,
    ) -> ObjectBuilder<'a> {
        self.0.push((Cow::Borrowed(name), value.into()));
        self
    }

    /// Adds the member only if there is a value.
    pub(crate) fn put_some<T: Into<Json<'a>>>(
        self,
        name: &'static str,
        value: Option<T>,
    ) -> ObjectBuilder<'a> {
        match value {
            Some(value) => self.put(name, value),
            None => self,
        }
    }

    /// Adds the members of `others` at the end.
    pub(crate) fn append(mut self, mut others: ObjectBuilder<'a>) -> ObjectBuilder<'a> {
        self.0.append(&mut others.0);
        self
    }
}

impl<'a> From<ObjectBuilder<'a>> for Json<'a> {
    fn from(members: ObjectBuilder<'a>) -> Json<'a> {
        Json::Object(members.0)
    }
}

/// Builds an object with arbitrary names and string values, such as headers.
pub(crate) fn map<'a>(entries: impl Iterator<Item = (&'a str, &'a str)>) -> Json<'a> {
    Json::Object(entries.map(|(name, value)| (Cow::Borrowed(name), Json::from(value))).collect())
}

/// Like [`map`], for owned strings.
pub(crate) fn pairs(entries: &[(String, String)]) -> Json<'_> {
    map(entries.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}

pub(crate) fn list<'a, T: Into<Json<'a>>>(values: impl Iterator<Item = T>) -> Json<'a> {
    Json::Array(values.map(Into::into).collect())
}

impl<'a> From<&'a str> for Json<'a> {
    fn from(text: &'a str) -> Json<'a> {
        Json::String(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Json<'a> {
    fn from(text: &'a String) -> Json<'a> {
        Json::from(text.as_str())
    }
}

impl From<String> for Json<'_> {
    fn from(text: String) -> Self {
        Json::String(Cow::Owned(text))
    }
}

impl From<Instant> for Json<'_> {
    fn from(instant: Instant) -> Self {
        Json::from(instant.to_string())
    }
}

impl From<bool> for Json<'_> {
    fn from(value: bool) -> Self {
        Json::Bool(value)
    }
}

impl From<i64> for Json<'_> {
    fn from(value: i64) -> Self {
        Json::Number(Number::Integer(value))
    }
}

impl From<u32> for Json<'_> {
    fn from(value: u32) -> Self {
        Json::from(i64::from(value))
    }
}

impl From<u64> for Json<'_> {
    fn from(value: u64) -> Self {
        Json::from(i64::try_from(value).unwrap_or(i64::MAX))
    }
}
