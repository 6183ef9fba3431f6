//! What requests are counted under. There are few such names, whatever is asked for.

use axum::http::{Method, StatusCode};

pub(super) const METHODS: [&str; 7] = ["GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "other"];
pub(super) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// Kinds of paths: words of paths, by which the rest of a path goes, and for three of them what one
/// of that kind is called.
pub(super) const ROUTES: [&str; 26] = [
    "other",
    "home",
    "livez",
    "readyz",
    "metrics",
    "openapi.json",
    "operations",
    "register",
    "Microsoft.Scheduler",
    "resourceGroups",
    "resourceGroup",
    "jobCollections",
    "jobCollection",
    "enable",
    "disable",
    "jobs",
    "job",
    "bulk",
    "run",
    "history",
    "preview",
    "occurrences",
    "explain",
    "events",
    "console",
    "whoami",
];
/// What follows these words is a name, which may be any.
const BEFORE_NAMES: [(&str, &str); 3] =
    [("resourceGroups", "resourceGroup"), ("jobCollections", "jobCollection"), ("jobs", "job")];

pub(super) fn method(method: &Method) -> usize {
    let found = METHODS.iter().position(|known| *known == method.as_str());
    found.unwrap_or(METHODS.len() - 1)
}

pub(super) fn class(status: StatusCode) -> usize {
    usize::from(status.as_u16() / 100).saturating_sub(1).min(CLASSES.len() - 1)
}

/// The place of a path's kind in [`ROUTES`].
pub(super) fn route(path: &str) -> usize {
    if path == "/" {
        return known("home");
    }
    let mut segments = path.rsplit('/').take(2);
    let (last, before) = (segments.next().unwrap_or_default(), segments.next().unwrap_or_default());
    let is = |word: &str, segment: &str| word.eq_ignore_ascii_case(segment);
    let of_names = BEFORE_NAMES.iter().find(|(word, _)| is(word, before));
    match of_names {
        Some((_, one)) if !(*one == "job" && is(last, "bulk")) => known(one),
        _ => known(last),
    }
}

fn known(word: &str) -> usize {
    ROUTES.iter().position(|route| route.eq_ignore_ascii_case(word)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_counted_under() {
        let group = "/subscriptions/s/resourceGroups/rg";
        let collection = &format!("{group}/providers/Microsoft.Scheduler/jobCollections/jc");
        for (path, expected) in [
            ("/", "home"),
            ("/livez", "livez"),
            ("/nonsense", "other"),
            ("/subscriptions/s", "other"),
            ("/subscriptions/s/resourcegroups", "resourceGroups"),
            (group, "resourceGroup"),
            ("/subscriptions/s/resourceGroups/run", "resourceGroup"),
            ("/subscriptions/s/providers/Microsoft.Scheduler/jobCollections", "jobCollections"),
            (collection, "jobCollection"),
            (&format!("{collection}/disable"), "disable"),
            (&format!("{collection}/jobs"), "jobs"),
            (&format!("{collection}/jobs/history"), "job"),
            (&format!("{collection}/jobs/bulk"), "bulk"),
            (&format!("{collection}/jobs/j/HISTORY"), "history"),
            (&format!("{collection}/jobs/j/nonsense"), "other"),
        ] {
            assert_eq!(ROUTES[route(path)], expected, "{path}");
        }
        assert_eq!(METHODS[method(&Method::PATCH)], "PATCH");
        assert_eq!(METHODS[method(&Method::TRACE)], "other");
        assert_eq!(CLASSES[class(StatusCode::NOT_FOUND)], "4xx");
        assert_eq!(CLASSES[class(StatusCode::from_u16(999).unwrap())], "5xx");
    }
}
