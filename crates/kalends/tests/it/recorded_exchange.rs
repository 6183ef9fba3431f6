//! Recorded requests and responses of the retired service.
//!
//! The recordings are in the directory `shared` next to the checkout, or in the one that `KALENDS_SHARED` names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kalends_recurrence::Instant;
use kalends_wire::{Json, Number};

/// A recorded request and its response.
#[derive(Clone)]
pub(crate) struct Exchange {
    /// Name of the recording, for messages.
    pub(crate) recording: String,
    /// Time of the exchange, in whole seconds.
    pub(crate) at: Instant,
    /// Position among the exchanges with the same method and path, in order of time.
    pub(crate) sequence: i64,
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) request: Option<Json<'static>>,
    pub(crate) status: u16,
    pub(crate) response: Option<Json<'static>>,
}

/// The recordings of the ARM API. Prints SKIPPED and returns `None` if they are missing.
pub(crate) fn recordings() -> Option<Vec<Vec<Exchange>>> {
    let shared = std::env::var_os("KALENDS_SHARED").map(PathBuf::from);
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared"));
    let folder = shared.unwrap_or_else(beside).join("spec/recordings");
    if !folder.is_dir() {
        eprintln!("SKIPPED: the recordings are not at {}", folder.display());
        return None;
    }
    let mut recordings: BTreeMap<String, Vec<Exchange>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !["net-", "powershell-", "python-"].iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let exchange = exchange(&serde_json::from_str::<Json<'_>>(line).unwrap().into_owned());
            recordings.entry(exchange.recording.clone()).or_default().push(exchange);
        }
    }
    Some(recordings.into_values().collect())
}

fn exchange(line: &Json<'static>) -> Exchange {
    let text = |name| text_at(line, name).unwrap_or_default().to_owned();
    let body = |name| at(line, name).filter(|body| matches!(body, Json::Object(_))).cloned();
    let uri = text("uri");
    let target = uri.strip_prefix("https://management.azure.com").unwrap_or(&uri);
    let mut exchange = Exchange {
        recording: format!("{} {}", text("source"), text("blob")),
        at: text("recorded_at").parse().unwrap(),
        sequence: number_at(line, "seq").unwrap(),
        method: text("method"),
        target: target.to_owned(),
        request: body("request_body"),
        status: number_at(line, "status").unwrap().try_into().unwrap(),
        response: body("response_body"),
    };
    // One recorder redacted subscriptions in requests but not in responses.
    let redacted = "/subscriptions/00000000-0000-0000-0000-000000000000/";
    if let Some(id) = exchange.response.as_ref().and_then(|response| text_at(response, "id")) {
        let shown = id.splitn(4, '/').take(3).collect::<Vec<_>>().join("/") + "/";
        exchange.target = exchange.target.replace(redacted, &shown);
    }
    exchange
}

impl Exchange {
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }

    pub(crate) fn version(&self) -> &str {
        let (_, after) = self.target.split_once("api-version=").unwrap();
        after.split('&').next().unwrap()
    }

    pub(crate) fn is_read(&self) -> bool {
        self.method == "GET"
    }

    /// The resources of the response: itself, or the entries of a list.
    pub(crate) fn resources(&self) -> Vec<&Json<'static>> {
        match self.response.as_ref() {
            Some(response) => match at(response, "value") {
                Some(Json::Array(values)) => values.iter().collect(),
                _ if self.status < 300 && text_at(response, "id").is_some() => vec![response],
                _ => vec![],
            },
            None => vec![],
        }
    }
}

/// A nested member, by a path such as `a.b.c`.
pub(crate) fn at<'j>(value: &'j Json<'static>, path: &str) -> Option<&'j Json<'static>> {
    path.split('.').try_fold(value, |value, name| {
        let Json::Object(members) = value else { return None };
        members.iter().find(|(other, _)| other == name).map(|(_, value)| value)
    })
}

/// The text of a nested member.
pub(crate) fn text_at<'j>(value: &'j Json<'static>, path: &str) -> Option<&'j str> {
    match at(value, path) {
        Some(Json::String(text)) => Some(text),
        _ => None,
    }
}

fn number_at(value: &Json<'static>, path: &str) -> Option<i64> {
    match at(value, path) {
        Some(Json::Number(Number::Integer(number))) => Some(*number),
        _ => None,
    }
}

/// Replaces or removes a nested member. Returns whether it existed.
pub(crate) fn replace(value: &mut Json<'static>, path: &str, with: Option<Json<'static>>) -> bool {
    let Json::Object(members) = value else { return false };
    let (first, rest) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
    let Some(position) = members.iter().position(|(name, _)| name == first) else { return false };
    match (rest, with) {
        (Some(rest), with) => return replace(&mut members[position].1, rest, with),
        (None, Some(with)) => members[position].1 = with,
        (None, None) => drop(members.remove(position)),
    }
    true
}
