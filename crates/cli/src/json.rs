//! Access to members of JSON values by path.

use kalends_wire::{Json, Number};

/// Reads members by path, such as `properties.status.nextExecutionTime`.
pub(crate) trait JsonMembers {
    /// The value at a path; `None` if it is absent or null.
    fn at(&self, path: &str) -> Option<&Json<'static>>;

    /// The string at a path; empty if it is absent.
    fn text(&self, path: &str) -> &str;

    /// The integer at a path; 0 if it is absent.
    fn integer(&self, path: &str) -> i64;

    /// The elements of the list at a path.
    fn items(&self, path: &str) -> &[Json<'static>];
}

impl JsonMembers for Json<'static> {
    fn at(&self, path: &str) -> Option<&Json<'static>> {
        let mut value = self;
        for name in path.split('.').filter(|name| !name.is_empty()) {
            let Json::Object(members) = value else { return None };
            value = members
                .iter()
                .find(|(other, _)| other.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)?;
        }
        Some(value).filter(|value| **value != Json::Null)
    }

    fn text(&self, path: &str) -> &str {
        match self.at(path) {
            Some(Json::String(text)) => text,
            _ => "",
        }
    }

    fn integer(&self, path: &str) -> i64 {
        match self.at(path) {
            Some(Json::Number(Number::Integer(number))) => *number,
            _ => 0,
        }
    }

    fn items(&self, path: &str) -> &[Json<'static>] {
        match self.at(path) {
            Some(Json::Array(items)) => items,
            _ => &[],
        }
    }
}

/// An object with the given members, without those that are null.
pub(crate) fn object<const N: usize>(members: [(&'static str, Json<'static>); N]) -> Json<'static> {
    let members = members.into_iter().filter(|(_, value)| *value != Json::Null);
    Json::Object(members.map(|(name, value)| (name.into(), value)).collect())
}

/// The value, or null.
pub(crate) fn or_null<T: Into<Json<'static>>>(value: Option<T>) -> Json<'static> {
    value.map_or(Json::Null, Into::into)
}

/// Sets a member of an object, in place of one with the same name.
pub(crate) fn set(target: &mut Json<'static>, name: &'static str, value: Json<'static>) {
    let Json::Object(members) = target else { return };
    match members.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
        Some((_, old)) => *old = value,
        None => members.push((name.into(), value)),
    }
}

/// Removes a member of an object and returns it.
pub(crate) fn remove(target: &mut Json<'static>, name: &str) -> Option<Json<'static>> {
    let Json::Object(members) = target else { return None };
    let position = members.iter().position(|(other, _)| other.eq_ignore_ascii_case(name))?;
    Some(members.remove(position).1)
}

/// The member of an object with this name, to change it.
pub(crate) fn member_mut<'a>(
    target: &'a mut Json<'static>,
    name: &str,
) -> Option<&'a mut Json<'static>> {
    let Json::Object(members) = target else { return None };
    members.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}
