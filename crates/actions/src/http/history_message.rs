//! History messages of HTTP actions, with the wording of the retired service.

use kalends_domain::{RESPONSE_MESSAGE, status_name};

use super::error::HttpActionError;
use crate::client::Response;
use crate::redaction::{HTTP_PLACEHOLDER, Redactor};

/// Characters of a response's body that history stores.
const BODY_CHARS_MAX: usize = 1_024;

/// The message of an attempt without a response.
pub(super) fn failure(host: &str, error: &HttpActionError) -> String {
    format!("Http Action - Request to host '{host}' failed: {error}")
}

/// The message of an attempt with a response.
pub(super) fn response(host: &str, response: &Response, redactor: &Redactor) -> String {
    let status = status_name(response.status);
    let headers = redactor.redact(format_headers(response, redactor));
    // Redacted before it is cut: otherwise the end could be a part of a secret.
    let body = redactor.redact_text(String::from_utf8_lossy(&response.body));
    let mut message =
        String::with_capacity(MESSAGE_BYTES + headers.len() + body.len().min(BODY_CHARS_MAX));
    for part in
        [RESPONSE_MESSAGE, host, "': '", &status, "' Response Headers: ", &headers, " Body: "]
    {
        message.push_str(part);
    }
    match body.len() <= BODY_CHARS_MAX && !body.contains('\0') {
        true => message.push_str(&body),
        false => message.extend(body.chars().map(replace_nul).take(BODY_CHARS_MAX)),
    }
    message
}

/// Approximate length of a message without headers and body.
const MESSAGE_BYTES: usize = 128;

/// PostgreSQL cannot store NUL in text.
fn replace_nul(c: char) -> char {
    if c == '\0' { '\u{fffd}' } else { c }
}

/// One line per header, with the values of repeated headers joined. Content headers are omitted.
fn format_headers(response: &Response, redactor: &Redactor) -> String {
    let mut joined: Vec<(&str, String)> = Vec::new();
    for (name, value) in response.headers.iter() {
        if is_content_header(name) {
            continue;
        }
        let value = match redactor.is_secret_header(name) {
            true => HTTP_PLACEHOLDER.into(),
            false => String::from_utf8_lossy(value),
        };
        match joined.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
            Some((_, values)) => {
                values.push_str(", ");
                values.push_str(&value);
            }
            None => joined.push((name, value.into_owned())),
        }
    }
    let mut text = String::new();
    for (name, values) in joined {
        text.push_str(&capitalised(name));
        text.push_str(": ");
        text.extend(values.chars().map(replace_nul));
        text.push_str("\r\n");
    }
    text
}

fn is_content_header(name: &str) -> bool {
    name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("content-"))
        || ["allow", "expires", "last-modified"]
            .iter()
            .any(|other| other.eq_ignore_ascii_case(name))
}

/// `cache-control` as `Cache-Control`: HTTP/2 names are lower case, and users expect this spelling.
/// A name with capitals is not changed.
fn capitalised(name: &str) -> String {
    if name.contains(|c: char| c.is_ascii_uppercase()) {
        return name.to_owned();
    }
    let part = |part: &str| {
        let mut letters = part.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    name.split('-').map(part).collect::<Vec<_>>().join("-")
}
