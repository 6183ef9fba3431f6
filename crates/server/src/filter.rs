//! `$filter`: comparisons joined by `and`.

use kalends_domain::AttemptStatus;
use kalends_store::{HistoryFilter, JobFilter, JobFilterState};
use kalends_wire::{ErrorCode, ErrorDetails};

/// Characters of a filter.
const CHARS_MAX: usize = 256;
/// Comparisons of a filter.
const TERMS_MAX: usize = 4;

/// Parses a filter of jobs: `state eq Enabled`, `contains(name,'export')`, `tag eq 'team=billing'`.
pub(crate) fn jobs(text: &str) -> Result<JobFilter, ErrorDetails> {
    read_jobs(text).map_err(|error| error.of(text))
}

fn read_jobs(text: &str) -> Result<JobFilter, FilterError> {
    let mut filter = JobFilter::default();
    for term in terms(text)? {
        match term {
            Term::Equal("state", value) => {
                let states = [
                    ("Enabled", JobFilterState::Enabled),
                    ("Disabled", JobFilterState::Disabled),
                    ("Completed", JobFilterState::Completed),
                    ("Faulted", JobFilterState::Faulted),
                ];
                filter.state = Some(word(&states, &value)?);
            }
            Term::Equal("tag", value) => {
                let (name, value) = match value.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (value, None),
                };
                filter.tag = Some((name, value));
            }
            Term::Contains(text) => filter.contains = Some(text),
            Term::Equal(..) => return Err(unknown("state, tag or contains")),
        }
    }
    Ok(filter)
}

/// Parses a filter of history entries: `status eq 'Failed'`.
pub(crate) fn history(text: &str) -> Result<HistoryFilter, ErrorDetails> {
    read_history(text).map_err(|error| error.of(text))
}

fn read_history(text: &str) -> Result<HistoryFilter, FilterError> {
    let mut filter = HistoryFilter::default();
    for term in terms(text)? {
        match term {
            Term::Equal("status" | "state", value) => {
                let statuses = [
                    ("Completed", AttemptStatus::Completed),
                    ("Failed", AttemptStatus::Failed),
                    ("Postponed", AttemptStatus::Postponed),
                ];
                filter.status = Some(word(&statuses, &value)?);
            }
            Term::Equal(..) => return Err(unknown("status")),
            Term::Contains(_) => return Err(unknown("status")),
        }
    }
    Ok(filter)
}

enum Term<'a> {
    Equal(&'a str, String),
    Contains(String),
}

fn terms(text: &str) -> Result<Vec<Term<'_>>, FilterError> {
    if text.chars().count() > CHARS_MAX {
        return Err(invalid(format!("must have at most {CHARS_MAX} characters")));
    }
    let mut rest = text.trim();
    let mut terms = Vec::new();
    loop {
        let (term, after) = term(rest)?;
        terms.push(term);
        rest = after.trim_start();
        if rest.is_empty() {
            return Ok(terms);
        }
        let joined = rest.get(..3).is_some_and(|word| word.eq_ignore_ascii_case("and"));
        match rest.get(3..).filter(|_| joined && terms.len() < TERMS_MAX) {
            Some(after) if after.starts_with(' ') => rest = after.trim_start(),
            _ => {
                return Err(invalid(format!(
                    "must have at most {TERMS_MAX} comparisons, joined by and"
                )));
            }
        }
    }
}

fn term(text: &str) -> Result<(Term<'_>, &str), FilterError> {
    let call = "contains(";
    if text.get(..call.len()).is_some_and(|head| head.eq_ignore_ascii_case(call)) {
        let inside = text.get(call.len()..).unwrap_or_default();
        let inside = match inside.split_once(',') {
            Some((field, rest)) if !field.contains('\'') => rest.trim_start(),
            _ => inside,
        };
        let (value, rest) = quoted(inside)?;
        let rest = rest.trim_start().strip_prefix(')');
        return match rest {
            Some(rest) => Ok((Term::Contains(value), rest)),
            None => Err(invalid("must have the form contains(name,'text')")),
        };
    }
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (operator, rest) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
    if !operator.eq_ignore_ascii_case("eq") {
        return Err(invalid("must have comparisons such as state eq 'Enabled'"));
    }
    let name =
        ["state", "status", "tag"].into_iter().find(|known| known.eq_ignore_ascii_case(name));
    let name = name.ok_or_else(|| invalid("must compare state, status or tag, or use contains"))?;
    let rest = rest.trim_start();
    if rest.starts_with('\'') {
        let (value, rest) = quoted(rest)?;
        return Ok((Term::Equal(name, value), rest));
    }
    let (value, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    match !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => Ok((Term::Equal(name, value.to_owned()), rest)),
        false => Err(invalid("must compare with a word, or a text in single quotes")),
    }
}

/// A string in single quotes; two quotes stand for one.
fn quoted(text: &str) -> Result<(String, &str), FilterError> {
    let mut rest =
        text.strip_prefix('\'').ok_or_else(|| invalid("must have texts in single quotes"))?;
    let mut value = String::new();
    loop {
        let (part, after) =
            rest.split_once('\'').ok_or_else(|| invalid("must close its single quotes"))?;
        value.push_str(part);
        match after.strip_prefix('\'') {
            Some(after) => {
                value.push('\'');
                rest = after;
            }
            None => return Ok((value, after)),
        }
    }
}

fn word<T: Copy>(words: &[(&str, T)], value: &str) -> Result<T, FilterError> {
    let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(value));
    let allowed: Vec<_> = words.iter().map(|(word, _)| *word).collect();
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| invalid(format!("must compare with one of {}", allowed.join(", "))))
}

/// A problem of a filter.
struct FilterError(String);

impl FilterError {
    /// The error of the filter `text`.
    fn of(self, text: &str) -> ErrorDetails {
        let message = format!("{} (found {})", self.0, kalends_wire::quoted(text));
        ErrorDetails::one(ErrorCode::InvalidFilter, "$filter", message)
    }
}

fn unknown(allowed: &str) -> FilterError {
    invalid(format!("must use {allowed}"))
}

fn invalid(message: impl Into<String>) -> FilterError {
    FilterError(message.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_real_clients_are_parsed() {
        for text in ["state eq Disabled", "state eq 'disabled'", "STATE EQ DISABLED"] {
            assert_eq!(jobs(text).unwrap().state, Some(JobFilterState::Disabled), "{text}");
        }
        for text in ["status eq Failed", "status eq 'failed'", "state eq failed"] {
            assert_eq!(history(text).unwrap().status, Some(AttemptStatus::Failed), "{text}");
        }
        let filter =
            jobs("contains(name,'it''s, so') and tag eq 'team=billing' and state eq enabled")
                .unwrap();
        assert_eq!(filter.contains.as_deref(), Some("it's, so"));
        assert_eq!(filter.tag, Some(("team".into(), Some("billing".into()))));
        assert_eq!(jobs("contains('x')").unwrap().contains.as_deref(), Some("x"));
    }

    #[test]
    fn other_filters_are_rejected() {
        for text in [
            "state eq 'enabled' or 1 eq 1",
            "state eq 'x'' or ''1''=''1'",
            "'; DROP TABLE jobs;--",
            "state eq",
            "state ne enabled",
            "state eq 'enabled",
            "color eq 'red'",
            "status eq 'exploded'",
            "contains(name 'x')",
            &"(".repeat(10_000),
            "state eq enabled and state eq enabled and state eq enabled and state eq enabled and state eq enabled",
        ] {
            assert_eq!(jobs(text).unwrap_err().code(), ErrorCode::InvalidFilter, "{text}");
        }
        assert_eq!(history("status eq 'exploded'").unwrap_err().code(), ErrorCode::InvalidFilter);
    }
}
