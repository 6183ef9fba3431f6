//! Recorded traffic of the retired service.
//!
//! The files are in the directory `shared` next to the checkout, or in `KALENDS_SHARED`.

use std::path::PathBuf;

use kalends_wire::Json;

/// Returns the directory of the recordings, or prints that it is missing.
pub(crate) fn recordings() -> Option<PathBuf> {
    let shared = std::env::var_os("KALENDS_SHARED").map(PathBuf::from);
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared"));
    let path = shared.unwrap_or_else(beside).join("spec/recordings");
    let found = path.is_dir();
    if !found {
        eprintln!("SKIPPED: the recordings are not at {}", path.display());
    }
    found.then_some(path)
}

/// Returns the lines of all recordings whose file name passes `is_wanted`, ordered by file name.
pub(crate) fn lines(is_wanted: impl Fn(&str) -> bool) -> Option<Vec<Json<'static>>> {
    let directory = recordings()?;
    let entries = std::fs::read_dir(directory).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.ends_with(".jsonl") && is_wanted(name)
    });
    paths.sort();
    let mut lines = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(path).unwrap();
        // A line contains a whole exchange, which may exceed the limits of a body.
        let parse = |line| serde_json::from_str::<Json<'_>>(line).unwrap().into_owned();
        lines.extend(text.lines().map(parse));
    }
    Some(lines)
}

/// Returns a member of an object.
pub(crate) fn member<'j>(value: &'j Json<'static>, name: &str) -> Option<&'j Json<'static>> {
    let Json::Object(members) = value else { return None };
    let found = members.iter().find(|(other, _)| other == name)?;
    Some(&found.1)
}

/// Returns a nested member, `a.b.c`.
pub(crate) fn at<'j>(value: &'j Json<'static>, path: &str) -> Option<&'j Json<'static>> {
    path.split('.').try_fold(value, member)
}

/// Returns the text of a nested member.
pub(crate) fn text_at<'j>(value: &'j Json<'static>, path: &str) -> Option<&'j str> {
    match at(value, path) {
        Some(Json::String(text)) => Some(text),
        _ => None,
    }
}

/// Removes a nested member and returns whether it existed.
pub(crate) fn remove(value: &mut Json<'static>, path: &str) -> bool {
    let Json::Object(members) = value else { return false };
    let (first, rest) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
    let Some(position) = members.iter().position(|(name, _)| name == first) else { return false };
    match rest {
        Some(rest) => remove(&mut members[position].1, rest),
        None => {
            members.remove(position);
            true
        }
    }
}
