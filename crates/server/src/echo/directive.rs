//! The status and the delay that a request asks for.

use std::time::Duration;

use http::StatusCode;
use kalends_wire::{parse_duration, parse_short_duration, quoted};

/// Longest delay of a response.
pub(super) const DELAY_MAX: Duration = Duration::from_secs(10);
/// Statuses that a path can select. Informational ones are not final responses.
const STATUSES: std::ops::RangeInclusive<u16> = 200..=599;
/// Query parameter of the delay.
const DELAY: &str = "delay";

/// The response to a request, and its delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Directive {
    pub(super) status: StatusCode,
    pub(super) delay: Duration,
}

/// A path or query without a meaning.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DirectiveError {
    #[error("The path must be / or a status from 200 to 599, such as /503 (found {0})")]
    Path(String),
    #[error("delay must be at most 10 s, such as 2s, 2 or PT2S (found {0})")]
    Delay(String),
}

impl Directive {
    /// Reads `/`, `/{status}` and `/{status}/…`, and `delay` of the query.
    pub(super) fn read(path: &str, query: Option<&str>) -> Result<Directive, DirectiveError> {
        let status = match path.trim_start_matches('/').split('/').next() {
            None | Some("") => Some(StatusCode::OK),
            Some(text) => {
                let number = text.parse().ok().filter(|number| STATUSES.contains(number));
                number.and_then(|number| StatusCode::from_u16(number).ok())
            }
        };
        let status = status.ok_or_else(|| DirectiveError::Path(quoted(path)))?;
        let pairs = query.into_iter().flat_map(|query| query.split('&'));
        let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let delay = match pairs.find(|(name, _)| *name == DELAY) {
            None => Some(Duration::ZERO),
            Some((_, text)) => delay(text).filter(|delay| *delay <= DELAY_MAX),
        };
        let text = || query.map(quoted).unwrap_or_default();
        let delay = delay.ok_or_else(|| DirectiveError::Delay(text()))?;
        Ok(Directive { status, delay })
    }
}

/// Parses `2`, `2s`, `PT2S` or `00:00:02`.
fn delay(text: &str) -> Option<Duration> {
    let seconds = || text.parse().ok().map(Duration::from_secs);
    seconds().or_else(|| parse_short_duration(text)).or_else(|| parse_duration(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_selects_the_status() {
        let status = |path| Directive::read(path, None).ok().map(|found| found.status.as_u16());
        for (path, expected) in [
            ("/", Some(200)),
            ("", Some(200)),
            ("/200", Some(200)),
            ("/599", Some(599)),
            ("/503/orders", Some(503)),
            ("/199", None),
            ("/600", None),
            ("/99999999999", None),
            ("/hello", None),
        ] {
            assert_eq!(status(path), expected, "{path}");
        }
    }

    #[test]
    fn a_delay_is_at_most_ten_seconds() {
        let delay = |query| Directive::read("/", Some(query)).ok().map(|found| found.delay);
        let seconds = |number| Some(Duration::from_secs(number));
        for (query, expected) in [
            ("", seconds(0)),
            ("delay=2", seconds(2)),
            ("a=1&delay=2s", seconds(2)),
            ("delay=PT2S", seconds(2)),
            ("delay=PT10S", seconds(10)),
            ("delay=PT10.1S", None),
            ("delay=11", None),
            ("delay=18446744073709551615", None),
            ("delay=-1", None),
            ("delay=soon", None),
            ("delay", None),
        ] {
            assert_eq!(delay(query), expected, "{query}");
        }
    }
}
