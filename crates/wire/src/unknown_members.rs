//! Members that an object does not have, and the known members that are nearest to them.

use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::Json;
use crate::node::{JsonPath, Node};
use crate::shape::{Access, Contents, Shape};
use crate::version::Version;

/// Edits that turn a misspelt name into a known one, at most.
const DISTANCE_MAX: usize = 2;

/// Names that other schedulers and clients use, and the names of this API.
const SYNONYMS: &[(&str, &str)] = &[
    ("account", "storageAccount"),
    ("auth", "authentication"),
    ("clientSecret", "secret"),
    ("count", "retryCount"),
    ("days", "weekDays"),
    ("end", "endTime"),
    ("endpoint", "uri"),
    ("every", "interval"),
    ("labels", "tags"),
    ("payload", "body"),
    ("plan", "sku"),
    ("queue", "queueName"),
    ("region", "location"),
    ("repeat", "count"),
    ("retries", "retryCount"),
    ("retry", "retryPolicy"),
    ("start", "startTime"),
    ("tier", "name"),
    ("topic", "topicPath"),
    ("tz", "timeZone"),
    ("until", "endTime"),
    ("url", "uri"),
    ("user", "username"),
    ("verb", "method"),
    ("zone", "timeZone"),
];

/// Adds an error for each member of a body, at any depth, that its object does not have. Bodies of
/// the old versions may have any.
pub(crate) fn reject_unknown_members(root: Node<'_>, errors: &mut ErrorDetails) {
    if !root.version.is_old() {
        visit(root, root, errors);
    }
}

fn visit(node: Node<'_>, root: Node<'_>, errors: &mut ErrorDetails) {
    let Contents::Object(shape) = node.contents else { return };
    match node.value {
        Json::Object(members) => {
            for (name, value) in members {
                let path = node.path.member(name);
                match shape.find(name) {
                    Some(known) if known.access == Access::Ignored => {}
                    Some(known) => {
                        visit(Node { value, path, contents: known.contents, ..node }, root, errors);
                    }
                    None => {
                        let message = message(name, node, shape, root);
                        errors.add(ErrorCode::UnknownProperty, path.to_string(), message);
                    }
                }
            }
        }
        Json::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                visit(Node { value, path: node.path.index(index), ..node }, root, errors);
            }
        }
        _ => {}
    }
}

fn message(name: &str, node: Node<'_>, shape: &Shape, root: Node<'_>) -> String {
    if name.eq_ignore_ascii_case("resources") {
        return "is not supported; create nested resources with requests of their own".to_owned();
    }
    let object = match node.path.to_string() {
        path if path.is_empty() => "the body".to_owned(),
        path => path,
    };
    let known = names(shape, node.version);
    let message = format!("is unknown; the members of {object} are {known}");
    match suggestion(name, node, shape, root) {
        Some(near) => format!("{message}; did you mean {near}?"),
        None => message,
    }
}

/// The members that a client can set, for a message.
pub(crate) fn names(shape: &Shape, version: Version) -> String {
    let names: Vec<_> = shape.settable(version).map(|member| member.name).collect();
    names.join(", ")
}

/// The known member nearest to `name`: its name if the object has it, else its path.
fn suggestion(name: &str, node: Node<'_>, shape: &Shape, root: Node<'_>) -> Option<String> {
    let own = || shape.settable(node.version).map(|member| member.name);
    let near = own().find(|known| is_same(name, known)).or_else(|| nearest(name, own()));
    if let Some(near) = near {
        return Some(near.to_owned());
    }
    let below = |node: Node<'_>| find_below(name, node.contents, node.path, node.version);
    below(node).or_else(|| below(root))
}

/// The name that fewest edits turn into `name`. Short names allow fewer edits than long ones.
fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let name = plain(name);
    let distances = known.map(|known| (distance(&name, &plain(known)), known));
    let near = distances.filter(|(distance, known)| {
        *distance <= DISTANCE_MAX && distance * 2 + 1 < known.len().max(name.len())
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// The known name that `name` probably means.
pub fn nearest_name<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let same = known.iter().find(|known| is_same(name, known));
    same.copied().or_else(|| nearest(name, known.iter().copied()))
}

/// The path of the member called `name` in the objects below, nearest to the top.
fn find_below(
    name: &str,
    contents: Contents,
    path: JsonPath<'_>,
    version: Version,
) -> Option<String> {
    let Contents::Object(shape) = contents else { return None };
    let found = shape.settable(version).find(|member| is_same(name, member.name));
    if let Some(found) = found {
        return Some(path.member(found.name).to_string());
    }
    let below = shape
        .settable(version)
        .filter_map(|member| find_below(name, member.contents, path.member(member.name), version));
    below.min_by_key(|path| path.matches('.').count())
}

/// Values that users write for a value of an enum.
const ENUM_SYNONYMS: &[(&str, &str)] = &[
    ("active", "Enabled"),
    ("annually", "year"),
    ("constant", "Fixed"),
    ("daily", "day"),
    ("disable", "Disabled"),
    ("enable", "Enabled"),
    ("off", "Disabled"),
    ("on", "Enabled"),
    ("paused", "Disabled"),
    ("yearly", "year"),
];

/// The word of `known` that `text` probably means: a misspelt, longer or shorter form.
pub(crate) fn nearest_word<'k>(text: &str, known: &[&'k str]) -> Option<&'k str> {
    let plain_text = plain(text);
    let is_form = |word: &str| {
        let word = plain(word);
        let shorter = plain_text.len().min(word.len());
        shorter >= 3 && (word.starts_with(&plain_text) || plain_text.starts_with(&word))
            || plain_text == word
    };
    let is_synonym = |word: &str| {
        ENUM_SYNONYMS
            .iter()
            .any(|(other, own)| *other == plain_text && word.eq_ignore_ascii_case(own))
    };
    let exact = known.iter().find(|word| is_form(word) || is_synonym(word));
    exact.copied().or_else(|| nearest(text, known.iter().copied()))
}

/// Whether two names differ only in case, style or number, or are synonyms.
fn is_same(name: &str, known: &str) -> bool {
    let (name, wanted) = (plain(name), plain(known));
    let singular = |text: &str| text.strip_suffix('s').unwrap_or(text).to_owned();
    let is_synonym =
        |(other, own): &(&str, &str)| plain(other) == name && own.eq_ignore_ascii_case(known);
    name == wanted || singular(&name) == singular(&wanted) || SYNONYMS.iter().any(is_synonym)
}

/// The letters and digits of a name, in lower case.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).take(64).collect()
}

/// The number of characters to insert, delete, replace or swap with their neighbour to turn one text
/// into the other (optimal string alignment).
pub(crate) fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().collect();
    let other: Vec<char> = other.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let cell =
                |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX);
            let replaced = cell(&above, j).saturating_add(usize::from(a != b));
            let inserted = cell(&row, j).saturating_add(1);
            let deleted = cell(&above, j + 1).saturating_add(1);
            let swapped = match (i.checked_sub(1), j.checked_sub(1)) {
                (Some(up), Some(left)) if one.get(up) == Some(b) && other.get(left) == Some(a) => {
                    cell(&before, left).saturating_add(1)
                }
                _ => usize::MAX,
            };
            row.push(replaced.min(inserted).min(deleted).min(swapped));
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_counts_insertions_deletions_replacements_and_swaps() {
        for (one, other, expected) in [
            ("", "", 0),
            ("", "ab", 2),
            ("uri", "url", 1),
            ("hour", "hours", 1),
            ("freqeuncy", "frequency", 1),
            ("intervall", "interval", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
            assert_eq!(distance(other, one), expected, "{other} {one}");
        }
    }
}
