//! History messages of attempts: a summary in one line, and the parts of an HTTP response.

use http::StatusCode;
use kalends_domain::{RESPONSE_MESSAGE, status_of_name};

/// Characters of a body that history keeps.
pub(crate) const BODY_CHARS_MAX: usize = 1_024;
/// Characters of a summary.
const SUMMARY_MAX: usize = 160;

const REQUEST: &str = "Http Action - Request to host '";

/// An HTTP response, as far as history keeps it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response<'a> {
    pub(crate) host: &'a str,
    /// Code and reason phrase, such as `503 Service Unavailable`.
    pub(crate) status: String,
    /// Names and values.
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    pub(crate) body: &'a str,
}

impl<'a> Response<'a> {
    /// Reads the message of an attempt that got a response.
    pub(crate) fn read(message: &'a str) -> Option<Response<'a>> {
        let (host, rest) = message.strip_prefix(RESPONSE_MESSAGE)?.split_once("': '")?;
        let (status, rest) = rest.split_once("' Response Headers: ")?;
        // Every header ends with a line break, so the first line that starts with ` Body: ` or the
        // start itself ends them.
        let (headers, body) = match rest.strip_prefix(" Body: ") {
            Some(body) => ("", body),
            None => rest.split_once("\r\n Body: ")?,
        };
        let headers = headers.split("\r\n").filter_map(|line| line.split_once(": ")).collect();
        Some(Response { host, status: status_text(status), headers, body })
    }

    /// Whether history kept the start of the body only.
    pub(crate) fn is_cut(&self) -> bool {
        self.body.chars().count() >= BODY_CHARS_MAX
    }
}

/// The message in one line: `503 Service Unavailable from erp.example.com`.
pub(crate) fn summary(message: &str) -> String {
    if let Some(Response { host, status, .. }) = Response::read(message) {
        return format!("{status} from {host}");
    }
    let text = match message.strip_prefix(REQUEST).and_then(|rest| rest.split_once("' failed: ")) {
        Some((host, reason)) => format!("Request to {host} failed: {reason}"),
        None => message.to_owned(),
    };
    let line = text.lines().next().unwrap_or_default();
    match line.chars().count() > SUMMARY_MAX {
        true => line.chars().take(SUMMARY_MAX - 1).chain(['…']).collect(),
        false => line.to_owned(),
    }
}

/// The message of an occurrence without its own scheduled time, which is beside it.
pub(crate) fn without_own_time(message: String, scheduled: &str) -> String {
    let rest =
        message.strip_prefix("The occurrence of ").and_then(|rest| rest.strip_prefix(scheduled));
    match rest.and_then(|rest| rest.strip_prefix(' ')) {
        Some(rest) => {
            let mut letters = rest.chars();
            letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
        }
        None => message,
    }
}

/// `503 Service Unavailable` for `ServiceUnavailable`.
fn status_text(name: &str) -> String {
    let status = status_of_name(name).and_then(|code| StatusCode::from_u16(code).ok());
    match status.map(|status| (status.as_str().to_owned(), status.canonical_reason())) {
        Some((code, Some(reason))) => format!("{code} {reason}"),
        Some((code, None)) => code,
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_taken_apart() {
        let message = "Http Action - Response from host 'a.example': 'ServiceUnavailable' Response \
                       Headers: Retry-After: 120\r\nServer: x\r\n Body: {\"a\": 1}";
        let response = Response::read(message).unwrap();
        assert_eq!(response.host, "a.example");
        assert_eq!(response.headers, [("Retry-After", "120"), ("Server", "x")]);
        assert_eq!(response.body, "{\"a\": 1}");
        assert_eq!(summary(message), "503 Service Unavailable from a.example");
        let empty = "Http Action - Response from host 'a': 'OK' Response Headers:  Body: ";
        assert_eq!(Response::read(empty).unwrap().body, "");
        assert_eq!(Response::read(empty).unwrap().headers, []);
    }

    #[test]
    fn statuses_have_their_code_and_the_reason_of_the_standard() {
        for (name, expected) in [
            ("OK", "200 OK"),
            ("RequestUriTooLong", "414 URI Too Long"),
            ("429", "429 Too Many Requests"),
            ("599", "599"),
            ("Odd", "Odd"),
        ] {
            assert_eq!(status_text(name), expected);
        }
    }

    #[test]
    fn an_occurrence_does_not_repeat_its_own_time() {
        let message = "The occurrence of 2026-11-16T01:30:00Z did not run.";
        let short = |scheduled| without_own_time(message.to_owned(), scheduled);
        assert_eq!(short("2026-11-16T01:30:00Z"), "Did not run.");
        assert_eq!(short("2026-11-16T01:30:0"), message);
        assert_eq!(short("2026-11-17T01:30:00Z"), message);
    }

    #[test]
    fn other_messages_are_one_line() {
        let failed = "Http Action - Request to host 'a' failed: the connection was refused";
        assert_eq!(summary(failed), "Request to a failed: the connection was refused");
        assert_eq!(summary("one\ntwo"), "one");
        assert_eq!(summary(&"x".repeat(500)).chars().count(), SUMMARY_MAX);
    }
}
