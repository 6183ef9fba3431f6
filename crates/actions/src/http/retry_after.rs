//! The `Retry-After` header of a busy target, in seconds or as a date.

use std::time::Duration;

use kalends_recurrence::Instant;

use crate::client::Response;

/// Longer delays are cut to this. The limits of retries are lower.
const SECONDS_MAX: u64 = 366 * 86_400;

/// The delay until the next retry, of responses with the status 429 or 503.
pub(super) fn of(response: &Response, now: Instant) -> Option<Duration> {
    let is_busy = matches!(response.status, 429 | 503);
    parse(response.headers.get("retry-after").filter(|_| is_busy)?.trim(), now)
}

fn parse(text: &str, now: Instant) -> Option<Duration> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text.parse().unwrap_or(SECONDS_MAX);
        return Some(Duration::from_secs(seconds.min(SECONDS_MAX)));
    }
    let seconds = parse_date(text)?.unix_seconds().saturating_sub(now.unix_seconds());
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0).min(SECONDS_MAX)))
}

/// Parses an HTTP date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn parse_date(text: &str) -> Option<Instant> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.split_once(", ")?;
    let parts: Vec<_> = rest.split(' ').collect();
    let [day, month, year, time, "GMT"] = parts.as_slice() else { return None };
    let month = MONTHS.iter().position(|known| known.eq_ignore_ascii_case(month))? + 1;
    format!("{year}-{month:02}-{day}T{time}Z").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_parsed() {
        let now: Instant = "1994-11-06T08:49:07Z".parse().unwrap();
        let seconds = |text: &str| parse(text, now).map(|pause| pause.as_secs());
        for (text, expected) in [
            ("120", Some(120)),
            ("0", Some(0)),
            ("99999999999999999999999", Some(SECONDS_MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(30)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(SECONDS_MAX)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("Sun, 31 Feb 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
