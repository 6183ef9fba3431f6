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

/// The run that a request belongs to.
#[derive(Clone, Copy)]
pub(super) struct RequestOf<'a> {
    pub(super) address: &'a JobAddress,
    pub(super) scheduled: Instant,
    /// Idempotency key; empty if it is not known.
    pub(super) key: &'a str,
    /// Location of the collection; empty if it is not known.
    pub(super) region: &'a str,
    /// Whether the request is signed.
    pub(super) is_signed: bool,
}

/// A header that the scheduler adds.
struct OwnHeader {
    name: &'static str,
    /// The value, or in brackets what it is.
    shown: String,
    /// The header as a word of a shell.
    word: String,
}

pub(super) struct SentRequest {
    pub(super) title: &'static str,
    pub(super) text: String,
    /// Explains a placeholder in the text; empty if there is none.
    pub(super) note: &'static str,
    /// Empty if the action is no HTTP request.
    pub(super) curl: String,
    /// Name of the element with the command.
    pub(super) id: &'static str,
}

impl SentRequest {
    /// `action` without secrets.
    pub(super) fn new(title: &'static str, action: &Value, of: RequestOf<'_>) -> SentRequest {
        let id = if title == "Request" { "curl" } else { "curl-error-action" };
        if !action.has("request") {
            let message = ["queueMessage", "serviceBusQueueMessage", "serviceBusTopicMessage"];
            let message = message.iter().map(|name| action.text(&format!("{name}.message")));
            let message = message.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
            let text = format!("{}\n\n{message}", target(action));
            return SentRequest { title, text, note: "", curl: String::new(), id };
        }
        let request = action.member("request");
        let own = of.own_headers();
        let note = match of.key.is_empty() {
            true => {
                "Its idempotency key is another one than that of the job's own action, and is not recorded."
            }
            false => "",
        };
        SentRequest { title, text: text(request, &own), note, curl: curl(request, &own), id }
    }
}

impl RequestOf<'_> {
    /// The headers of the scheduler, in the order in which they are sent. Commands create values that
    /// are new in each attempt.
    fn own_headers(&self) -> Vec<OwnHeader> {
        let (shown_key, key) = match self.key.is_empty() {
            true => ("[idempotency key]", "\"$IDEMPOTENCY_KEY\"".to_owned()),
            false => (self.key, quoted(self.key)),
        };
        let new = "[new in each attempt]";
        let key_header = |name| OwnHeader::new(name, shown_key, &key);
        let mut headers = vec![
            OwnHeader::fixed("x-ms-scheduler-jobid", &self.address.job),
            OwnHeader::fixed("x-ms-scheduler-jobcollection", &self.address.collection.collection),
        ];
        if !self.region.is_empty() {
            headers.push(OwnHeader::fixed("x-ms-scheduler-region", self.region));
        }
        headers.extend([
            OwnHeader::fixed("Accept-Encoding", "identity"),
            OwnHeader::fixed("x-ms-scheduler-expected-execution-time", &self.scheduled.to_string()),
            OwnHeader::new("x-ms-client-request-id", new, "\"$(uuidgen)\""),
            OwnHeader::new(
                "traceparent",
                &format!("00-{shown_key}-{new}-01"),
                &format!("00-{key}-\"$(openssl rand -hex 8)\"-01"),
            ),
            key_header("Idempotency-Key"),
            key_header("x-ms-execution-tag"),
        ]);
        if self.is_signed {
            headers.extend([
                key_header("webhook-id"),
                OwnHeader::new("webhook-timestamp", new, "\"$(date +%s)\""),
                OwnHeader::new("webhook-signature", new, "\"$WEBHOOK_SIGNATURE\""),
            ]);
        }
        headers
    }
}

impl OwnHeader {
    /// `word`: the value as a word of a shell.
    fn new(name: &'static str, shown: &str, word: &str) -> OwnHeader {
        let word = format!("{}{word}", quoted(&format!("{name}: ")));
        OwnHeader { name, shown: shown.to_owned(), word }
    }

    fn fixed(name: &'static str, value: &str) -> OwnHeader {
        let word = quoted(&format!("{name}: {value}"));
        OwnHeader { name, shown: value.to_owned(), word }
    }
}

/// The request in the notation of HTTP/1.1.
fn text(request: &Value, own: &[OwnHeader]) -> String {
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
    lines.extend(own.iter().map(|OwnHeader { name, shown, .. }| format!("{name}: {shown}")));
    let body = request.text("body");
    if !body.is_empty() {
        lines.extend([format!("Content-Length: {}", body.len()), String::new(), body]);
    }
    lines.join("\n")
}

/// The command. Secrets are variables of the shell, which the user sets.
fn curl(request: &Value, own: &[OwnHeader]) -> String {
    let mut words = vec![format!("curl -X {}", quoted(&request.text("method").to_uppercase()))];
    words.push(url_word(&request.text("uri")));
    for (name, value) in request.members("headers") {
        let value = value.text("");
        words.push(match value.contains(STORED) {
            true => format!("-H {}\"${}\"", quoted(&format!("{name}: ")), variable(name)),
            false => format!("-H {}", quoted(&format!("{name}: {value}"))),
        });
    }
    words.extend(own.iter().map(|header| format!("-H {}", header.word)));
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
    use crate::address::CollectionAddress;

    #[test]
    fn the_command_has_variables_in_place_of_secrets_and_cannot_be_broken_out_of() {
        let request = json!({"method": "post", "uri": "https://a/?x='&sig=${stored}&y=1",
            "headers": {"X-Api-Key": STORED, "X-Note": "$(rm -rf /)'"}, "body": "`id`",
            "authentication": {"type": "Basic", "username": "u"}});
        let expected = "curl -X POST \\\n  'https://a/?x='\\''&sig='\"$SIG\"'&y=1' \\\n  \
            -H 'X-Api-Key: '\"$X_API_KEY\" \\\n  -H 'X-Note: $(rm -rf /)'\\''' \\\n  \
            -u u \\\n  --data-raw '`id`'";
        assert_eq!(curl(&request, &[]), expected);
    }

    #[test]
    fn a_request_is_shown_with_all_headers_that_the_scheduler_adds() {
        let collection = CollectionAddress { group: None, collection: "c".to_owned() };
        let address = JobAddress { collection, job: "j".to_owned() };
        let scheduled = "2026-11-16T01:30:00Z".parse().unwrap();
        let (key, region) = ("0123456789abcdef", "west");
        let of = RequestOf { address: &address, scheduled, key, region, is_signed: true };
        let action = json!({"request": {"method": "get", "uri": "https://a/"}});
        let sent = SentRequest::new("Request", &action, of);
        let expected = "GET / HTTP/1.1\nHost: a\nx-ms-scheduler-jobid: j\n\
            x-ms-scheduler-jobcollection: c\nx-ms-scheduler-region: west\n\
            Accept-Encoding: identity\n\
            x-ms-scheduler-expected-execution-time: 2026-11-16T01:30:00Z\n\
            x-ms-client-request-id: [new in each attempt]\n\
            traceparent: 00-0123456789abcdef-[new in each attempt]-01\n\
            Idempotency-Key: 0123456789abcdef\nx-ms-execution-tag: 0123456789abcdef\n\
            webhook-id: 0123456789abcdef\nwebhook-timestamp: [new in each attempt]\n\
            webhook-signature: [new in each attempt]";
        assert_eq!(sent.text, expected);
        for word in [
            "-H 'x-ms-scheduler-region: west'",
            "-H 'x-ms-client-request-id: '\"$(uuidgen)\"",
            "-H 'traceparent: '00-0123456789abcdef-\"$(openssl rand -hex 8)\"-01",
            "-H 'x-ms-execution-tag: '0123456789abcdef",
        ] {
            assert!(sent.curl.contains(word), "{word} in {}", sent.curl);
        }
    }
}
