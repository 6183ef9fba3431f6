//! The recorded traffic of the retired service.
//!
//! It lies in the `shared` folder beside the checkout, or where `KALENDS_SHARED` says.

use std::path::PathBuf;

use kalends_wire::Json;

/// The folder of the recordings. Says so where there is none.
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

/// The lines of every recording whose file name passes `is_wanted`, in the order of the files.
pub(crate) fn lines(is_wanted: impl Fn(&str) -> bool) -> Option<Vec<Json<'static>>> {
    let folder = recordings()?;
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.ends_with(".jsonl") && is_wanted(name)
    });
    paths.sort();
    let mut lines = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(path).unwrap();
        // A line holds a whole exchange, which is larger than any body may be.
        let parse = |line| serde_json::from_str::<Json<'_>>(line).unwrap().into_owned();
        lines.extend(text.lines().map(parse));
    }
    Some(lines)
}

/// A member of an object.
pub(crate) fn member<'j>(value: &'j Json<'static>, name: &str) -> Option<&'j Json<'static>> {
    let Json::Object(members) = value else { return None };
    let found = members.iter().find(|(other, _)| other == name)?;
    Some(&found.1)
}

/// A member within members, `a.b.c`.
pub(crate) fn at<'j>(value: &'j Json<'static>, path: &str) -> Option<&'j Json<'static>> {
    path.split('.').try_fold(value, member)
}

/// The text of a member within members.
pub(crate) fn text_at<'j>(value: &'j Json<'static>, path: &str) -> Option<&'j str> {
    match at(value, path) {
        Some(Json::String(text)) => Some(text),
        _ => None,
    }
}

/// Removes a member within members, and tells whether it was there.
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
