//! Label values of request metrics. Their number is fixed: names in paths never become labels.

use http::{Method, StatusCode};

pub(super) const METHODS: [&str; 7] = ["GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "other"];
pub(super) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// Route labels: the last keyword of a path, or the singular of the keyword before a name.
pub(super) const ROUTES: [&str; 37] = [
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
    "skip",
    "history",
    "preview",
    "occurrences",
    "explain",
    "events",
    "console",
    "me",
    "node",
    "session",
    "pause",
    "resume",
    "test-run",
    "statistics",
    "definition",
    "runs",
    "run-counts",
    "notes",
];
/// Keywords that precede a name, with the label of the named resource.
const NAMED_RESOURCES: [(&str, &str); 4] = [
    ("resourceGroups", "resourceGroup"),
    ("jobCollections", "jobCollection"),
    ("jobs", "job"),
    ("definitions", "definition"),
];

pub(super) fn method_index(method: &Method) -> usize {
    let found = METHODS.iter().position(|known| *known == method.as_str());
    found.unwrap_or(METHODS.len() - 1)
}

pub(super) fn class_index(status: StatusCode) -> usize {
    usize::from(status.as_u16() / 100).saturating_sub(1).min(CLASSES.len() - 1)
}

/// The index of a path's label in [`ROUTES`].
pub(super) fn route_index(path: &str) -> usize {
    if path == "/" {
        return label_index("home");
    }
    let mut segments = path.rsplit('/').take(2);
    let (last, before) = (segments.next().unwrap_or_default(), segments.next().unwrap_or_default());
    let is = |word: &str, segment: &str| word.eq_ignore_ascii_case(segment);
    let resource = NAMED_RESOURCES.iter().find(|(keyword, _)| is(keyword, before));
    match resource {
        Some((_, label)) if !(*label == "job" && is(last, "bulk")) => label_index(label),
        _ => label_index(last),
    }
}

fn label_index(label: &str) -> usize {
    ROUTES.iter().position(|route| route.eq_ignore_ascii_case(label)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths_are_never_labels() {
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
            (&format!("{collection}/jobs/j/definitions/3"), "definition"),
            (&format!("{collection}/jobs/j/nonsense"), "other"),
        ] {
            assert_eq!(ROUTES[route_index(path)], expected, "{path}");
        }
        assert_eq!(METHODS[method_index(&Method::PATCH)], "PATCH");
        assert_eq!(METHODS[method_index(&Method::TRACE)], "other");
        assert_eq!(CLASSES[class_index(StatusCode::NOT_FOUND)], "4xx");
        assert_eq!(CLASSES[class_index(StatusCode::from_u16(999).unwrap())], "5xx");
    }
}
