//! What history says of an attempt, in the words of the retired service.

use super::mask::{Mask, is_secret_header};
use crate::client::Answer;
use crate::status::status_name;

/// Characters of an answer's body that history keeps.
const BODY_CHARS_KEPT: usize = 1_024;

/// There was no answer.
pub(super) fn failure(host: &str, why: &str) -> String {
    format!("Http Action - Request to host '{host}' failed: {why}")
}

/// There was an answer.
pub(super) fn answer(host: &str, answer: &Answer, mask: &Mask) -> String {
    let status = status_name(answer.status);
    let headers = mask.apply(headers_in_words(answer));
    // Masked before it is cut, or half a secret could be left at the end.
    let body = mask.apply(String::from_utf8_lossy(&answer.body).into_owned());
    let body: String = body.chars().map(shown).take(BODY_CHARS_KEPT).collect();
    format!(
        "Http Action - Response from host '{host}': '{status}' Response Headers: {headers} Body: {body}"
    )
}

/// Stores cannot keep a NUL.
fn shown(c: char) -> char {
    if c == '\0' { '\u{fffd}' } else { c }
}

/// Each header on a line, equal names joined; headers of the content are left out.
fn headers_in_words(answer: &Answer) -> String {
    let mut joined: Vec<(&str, String)> = Vec::new();
    for (name, value) in answer.headers.iter() {
        let lower = name.to_ascii_lowercase();
        let is_of_content = lower.starts_with("content-")
            || matches!(lower.as_str(), "allow" | "expires" | "last-modified");
        if is_of_content {
            continue;
        }
        let value = match is_secret_header(name, &[]) {
            true => "[masked]".into(),
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
    let mut words = String::new();
    for (name, values) in joined {
        words.push_str(&capitalised(name));
        words.push_str(": ");
        words.extend(values.chars().map(shown));
        words.push_str("\r\n");
    }
    words
}

/// `cache-control` as `Cache-Control`: over HTTP/2 case is lost, and people are used to this one.
/// What a target spelled with capitals is left as it is.
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
