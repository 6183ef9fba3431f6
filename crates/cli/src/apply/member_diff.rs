//! The members in which two definitions differ.

use kalends_wire::Json;

use crate::definitions::{Located, Value, has_reference};

/// Longest value in a diff, in characters.
const VALUE_CHARS_MAX: usize = 120;

/// A member with different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberChange {
    /// Such as `recurrence.schedule.hours`.
    pub(crate) path: String,
    /// As JSON; `None` if the member is added.
    pub(crate) before: Option<String>,
    /// As JSON, or as written if it contains a reference; `None` if the member is removed.
    pub(crate) after: Option<String>,
}

/// Compares two definitions. `written` is the second one as its file has it: the values of its
/// references are not shown.
pub(crate) fn compare(
    before: &Json<'static>,
    after: &Json<'static>,
    written: &Located,
) -> Vec<MemberChange> {
    let mut changes = Vec::new();
    visit(&mut Vec::new(), Some(before), Some(after), Some(written), &mut changes);
    changes
}

fn visit(
    path: &mut Vec<String>,
    before: Option<&Json<'static>>,
    after: Option<&Json<'static>>,
    written: Option<&Located>,
    changes: &mut Vec<MemberChange>,
) {
    if before == after {
        return;
    }
    let members = |value: Option<&Json<'static>>| match value {
        Some(Json::Object(members)) => Some(members.clone()),
        _ => None,
    };
    if let (Some(old), Some(new)) = (members(before), members(after)) {
        let added = new.iter().filter(|(name, _)| find(&old, name).is_none());
        for name in old.iter().chain(added).map(|(name, _)| name) {
            path.push(name.to_string());
            let written = written.and_then(|written| written.get(name));
            visit(path, find(&old, name), find(&new, name), written, changes);
            path.pop();
        }
        return;
    }
    let hides = written.is_some_and(contains_reference);
    let show = |value: &Json<'static>| match hides {
        true => "(hidden)".to_owned(),
        false => shortened(&value.to_string()),
    };
    let after = match (hides, written.and_then(Located::text)) {
        (true, Some(text)) => after.map(|_| shortened(&Json::from(text).to_string())),
        _ => after.map(show),
    };
    changes.push(MemberChange { path: path.join("."), before: before.map(show), after });
}

fn find<'a>(
    members: &'a [(std::borrow::Cow<'static, str>, Json<'static>)],
    name: &str,
) -> Option<&'a Json<'static>> {
    members.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn contains_reference(value: &Located) -> bool {
    match &value.value {
        Value::String(text) => has_reference(text),
        Value::List(entries) => entries.iter().any(contains_reference),
        Value::Object(members) => members.iter().any(|member| contains_reference(&member.value)),
        _ => false,
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::parse_json;

    #[test]
    fn differences_are_named_by_their_path_and_hide_references() {
        let written = r#"{"a": {"b": 2, "token": "Bearer ${env:T}", "list": [1, 2]}, "new": "x"}"#;
        let after = r#"{"a": {"b": 2, "token": "Bearer secret", "list": [1, 2]}, "new": "x"}"#;
        let before = r#"{"a": {"b": 1, "token": "old", "list": [1]}, "gone": true}"#;
        let json = |text: &str| Json::parse(text.as_bytes()).unwrap().into_owned();
        let changes = compare(&json(before), &json(after), &parse_json("f", written).unwrap());
        let change = |path: &str, before: Option<&str>, after: Option<&str>| MemberChange {
            path: path.to_owned(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
        };
        assert_eq!(
            changes,
            [
                change("a.b", Some("1"), Some("2")),
                change("a.token", Some("(hidden)"), Some("\"Bearer ${env:T}\"")),
                change("a.list", Some("[1]"), Some("[1,2]")),
                change("gone", Some("true"), None),
                change("new", None, Some("\"x\"")),
            ]
        );
        assert_eq!(compare(&json(after), &json(after), &parse_json("f", written).unwrap()), []);
    }
}
