//! The request of an action, as its definition sends it, and as a command of curl.

use kalends_recurrence::Instant;
use serde_json::Value;

use crate::address::JobAddress;
use crate::api::Json as _;
use crate::pages::job::target;
use crate::secrets::STORED;
use crate::shell::quoted;

/// Stands for a secret in a request that is shown.
const MASKED: &str = "[masked]";

pub(super) struct SentRequest {
    pub(super) title: &'static str,
    pub(super) text: String,
    /// Empty if the action is no HTTP request.
    pub(super) curl: String,
    /// Name of the element with the command.
    pub(super) id: &'static str,
}

impl SentRequest {
    /// `action` without secrets; `key` is the idempotency key, if it is known.
    pub(super) fn new(
        title: &'static str,
        action: &Value,
        key: &str,
        scheduled: Instant,
        address: &JobAddress,
    ) -> SentRequest {
        let id = if title == "Request" { "curl" } else { "curl-error-action" };
        if !action.has("request") {
            let message = ["queueMessage", "serviceBusQueueMessage", "serviceBusTopicMessage"];
            let message = message.iter().map(|name| action.text(&format!("{name}.message")));
            let message = message.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
            let text = format!("{}\n\n{message}", target(action));
            return SentRequest { title, text, curl: String::new(), id };
        }
        let request = action.member("request");
        SentRequest { title, text: text(request, key, scheduled, address), curl: curl(request), id }
    }
}

/// The request in the notation of HTTP/1.1.
fn text(request: &Value, key: &str, scheduled: Instant, address: &JobAddress) -> String {
    let url = request.text("uri").replace(STORED, MASKED);
    let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut lines = vec![
        format!("{} {slash}{path} HTTP/1.1", request.text("method").to_uppercase()),
        format!("Host: {host}"),
    ];
    for (name, value) in request.members("headers") {
        lines.push(format!("{name}: {}", value.text("").replace(STORED, MASKED)));
    }
    match request.text("authentication.type").as_str() {
        "Basic" => lines.push(format!("Authorization: Basic {MASKED}")),
        "ActiveDirectoryOAuth" => lines.push(format!("Authorization: Bearer {MASKED}")),
        _ => {}
    }
    if !key.is_empty() {
        lines.push(format!("Idempotency-Key: {key}"));
    }
    lines.push(format!("x-ms-scheduler-jobcollection: {}", address.collection.collection));
    lines.push(format!("x-ms-scheduler-jobid: {}", address.job));
    lines.push(format!("x-ms-scheduler-expected-execution-time: {scheduled}"));
    let body = request.text("body");
    if !body.is_empty() {
        lines.extend([String::new(), body]);
    }
    lines.join("\n")
}

/// The command. Secrets are variables of the shell, which the user sets.
fn curl(request: &Value) -> String {
    let mut words = vec![format!("curl -X {}", quoted(&request.text("method").to_uppercase()))];
    words.push(url_word(&request.text("uri")));
    for (name, value) in request.members("headers") {
        let value = value.text("");
        words.push(match value.contains(STORED) {
            true => format!("-H {}\"${}\"", quoted(&format!("{name}: ")), variable(name)),
            false => format!("-H {}", quoted(&format!("{name}: {value}"))),
        });
    }
    let authentication = request.member("authentication");
    match authentication.text("type").as_str() {
        "Basic" => words.push(format!("-u {}", quoted(&authentication.text("username")))),
        "ActiveDirectoryOAuth" => words.push("-H 'Authorization: Bearer '\"$TOKEN\"".to_owned()),
        "ClientCertificate" => words.push("--cert client.pem".to_owned()),
        _ => {}
    }
    let body = request.text("body");
    if !body.is_empty() {
        words.push(format!("--data-raw {}", quoted(&body)));
    }
    words.join(" \\\n  ")
}

/// A URL as a word; secret parameters are variables.
fn url_word(url: &str) -> String {
    let mut word = String::new();
    let mut rest = url;
    while let Some((before, after)) = rest.split_once(STORED) {
        let name = before.trim_end_matches('=').rsplit(['?', '&']).next().unwrap_or_default();
        word += &format!("{}\"${}\"", quoted(before), variable(name));
        rest = after;
    }
    match rest.is_empty() && !word.is_empty() {
        true => word,
        false => word + &quoted(rest),
    }
}

/// `X_API_KEY` for `X-Api-Key`.
fn variable(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    name.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_command_has_variables_in_place_of_secrets_and_cannot_be_broken_out_of() {
        let request = json!({"method": "post", "uri": "https://a/?x='&sig=${stored}&y=1",
            "headers": {"X-Api-Key": STORED, "X-Note": "$(rm -rf /)'"}, "body": "`id`",
            "authentication": {"type": "Basic", "username": "u"}});
        let expected = "curl -X POST \\\n  'https://a/?x='\\''&sig='\"$SIG\"'&y=1' \\\n  \
            -H 'X-Api-Key: '\"$X_API_KEY\" \\\n  -H 'X-Note: $(rm -rf /)'\\''' \\\n  \
            -u u \\\n  --data-raw '`id`'";
        assert_eq!(curl(&request), expected);
    }
}
