//! Query parameters of the routes below `/api`. A misspelt one would select everything unnoticed.

use http::Method;
use kalends_wire::{ErrorDetails, nearest_name, quoted};

use super::Route;
use crate::request::{Query, invalid};

/// Accepted on every route.
const API_VERSION: &str = "api-version";
/// Accepted with every write.
const NOTE: &str = "note";
/// Characters of an unknown parameter in its error.
const NAME_CHARS_MAX: usize = 64;

impl Route {
    /// The names of the query parameters that reads of a route have on a short path, without the API
    /// version.
    fn query_parameters(&self) -> &'static [&'static str] {
        match self {
            Route::Me => &["scope"],
            Route::AllJobs => &["search", "state", "collection", "statistics", "limit", "cursor"],
            Route::Attention => &["limit"],
            Route::ExpectedRuns => &["from", "to", "bucket", "by"],
            Route::RunCounts => &["from", "to", "bucket"],
            Route::Runs => &["status", "from", "to", "collection", "job", "limit", "cursor"],
            Route::Notes => &["collection", "limit", "cursor"],
            Route::CollectionsOfGroup(_) | Route::NotesOfJob(_) => &["$top", "$skip", "$skiptoken"],
            Route::Jobs(_) | Route::History(_) => &["$filter", "$top", "$skip", "$skiptoken"],
            Route::Occurrences(_) => &["from", "to", "$top", "$skip", "$skiptoken"],
            Route::Explain(_) => &["at"],
            _ => &[],
        }
    }

    /// Rejects query parameters that a route does not have. For short paths: Azure clients send
    /// others.
    pub(crate) fn check_query(&self, method: &Method, query: &Query) -> Result<(), ErrorDetails> {
        let known: Vec<_> = match method.is_safe() {
            true => self.query_parameters().iter().copied().chain([API_VERSION]).collect(),
            false => vec![NOTE, API_VERSION],
        };
        let is_known = |name: &str| known.iter().any(|known| known.eq_ignore_ascii_case(name));
        let unknown = query.parameters().iter().find(|(name, _)| !is_known(name));
        let Some((name, value)) = unknown else { return Ok(()) };
        let (found, allowed) = (quoted(value), known.join(", "));
        let mut message = format!("is unknown (found {found}); the query parameters are {allowed}");
        if let Some(near) = nearest_name(name, &known) {
            message += &format!("; did you mean {near}?");
        }
        let shown: String = name.chars().take(NAME_CHARS_MAX).collect();
        Err(invalid(&shown, message))
    }
}

#[cfg(test)]
mod tests {
    use super::super::PathForm;
    use super::*;

    fn check(route: &Route, method: &Method, query: &str) -> Result<(), String> {
        let query = Query::read(query, PathForm::Short).unwrap();
        let checked = route.check_query(method, &query);
        checked.map_err(|errors| errors.to_string())
    }

    #[test]
    fn an_unknown_parameter_is_named_with_those_that_exist() {
        let (get, runs) = (Method::GET, Route::ExpectedRuns);
        assert_eq!(check(&runs, &get, "api-version=2026-11-01&FROM=x&by=collection"), Ok(()));
        let unknown = check(&runs, &get, "collection=demo").unwrap_err();
        let allowed = "the query parameters are from, to, bucket, by, api-version";
        assert_eq!(unknown, format!("collection is unknown (found \"demo\"); {allowed}"));
        let misspelt = check(&runs, &get, "buckt=PT1H").unwrap_err();
        assert_eq!(
            misspelt,
            format!("buckt is unknown (found \"PT1H\"); {allowed}; did you mean bucket?")
        );
        assert!(check(&Route::Overview, &get, "foo=1").is_err());
    }

    #[test]
    fn a_write_may_have_a_note() {
        assert_eq!(check(&Route::Resume, &Method::POST, "note=x"), Ok(()));
        assert!(check(&Route::Resume, &Method::POST, "nte=x").unwrap_err().contains("mean note?"));
        assert!(check(&Route::Me, &Method::GET, "note=x").is_err());
    }
}
