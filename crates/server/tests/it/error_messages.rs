//! The messages of all errors in the catalogue of bad input, compared with a file that a person can
//! read from top to bottom: `tests/data/error-messages.txt`.
//!
//! `KALENDS_UPDATE=1 cargo nextest run -p kalends-server error_messages` rewrites the file.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use jiff::Timestamp;
use kalends_domain::{AccessScope, Grant, JobName, JobPath, Lifecycle, Role};
use kalends_environment::{ManualClock, SeededEntropy};
use kalends_recurrence::Instant;
use kalends_server::{
    AccessControl, AuditLog, Authentication, AuthenticationSettings, RateSettings, Settings,
};
use kalends_store::record::JobState;
use kalends_store::{
    ApiStore as _, JobContext, JobPut, JobWrite, NewToken, TokenRecord, Tokens as _, WaitingRuns,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::catalogue::{Value, body, json, parse, rows, valid_collection, valid_job};
use crate::search::collection;
use crate::test_server::{Server, start_at, start_with_access};

const NOW: &str = "2029-12-01T00:00:00Z";
const VERSIONS: [&str; 2] = ["2026-11-01", "2016-03-01"];
const GROUP: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/rg";
const JSON: &str = "Content-Type: application/json";
/// Compact JSON in the heading of a row is cut to this length.
const SHOWN_CHARS_MAX: usize = 160;

#[derive(Clone, PartialEq, Eq)]
struct Response {
    status: u16,
    body: String,
}

impl Response {
    /// Status, code, target and message; `None` for a success.
    fn error(&self) -> Option<(String, String)> {
        let body = parse(&self.body)?;
        let error = body.get("error")?;
        let text = |name: &str| error[name].as_str().unwrap_or_default();
        let target = match text("target") {
            "" => String::new(),
            target => format!(" at {target}"),
        };
        let details = error["details"].as_array().map_or(&[][..], Vec::as_slice);
        let mut message = text("message").to_owned();
        for detail in details.iter().skip(1) {
            let _ = write!(message, "\n      and: {}", detail["message"].as_str().unwrap());
        }
        Some((format!("{} {}{target}", self.status, text("code")), message))
    }
}

/// A server with the resources that the rows need.
struct Api {
    server: Server,
}

impl Api {
    async fn start() -> Api {
        let clock = Arc::new(ManualClock::new(NOW.parse::<Timestamp>().unwrap()));
        let server = start_at(Settings::default(), None, clock.clone(), clock).await;
        let api = Api { server };
        let full = json!({"location": "West US", "properties": {
            "sku": {"name": "Standard"}, "quota": {"maxJobCount": 1},
        }});
        for (path, body) in [
            ("JC?V", valid_collection()),
            ("J?V", valid_job()),
            (
                "JC/jobs/finished?V",
                json!({"properties": {
                    "startTime": "2029-11-30T00:00:00Z",
                    "action": valid_job()["properties"]["action"],
                }}),
            ),
            ("FULL?V", full),
            ("FULL/jobs/first?V", valid_job()),
        ] {
            let body = body.to_string();
            let created = api.request("PUT", path, VERSIONS[0], &[JSON], body.as_bytes());
            assert_eq!(created.await.status, 201, "{path}");
        }
        api.finish().await;
        api
    }

    /// Completes the job `finished`, as its run would.
    async fn finish(&self) {
        let path = JobPath { collection: collection(), job: JobName::new("finished").unwrap() };
        let decide = |context: JobContext<'_>| {
            let job = &context.existing.unwrap().job;
            let finished = Some(context.now);
            let lifecycle = Lifecycle::Completed;
            Ok(JobWrite::Put(Box::new(JobPut {
                uid: job.uid,
                created: job.created,
                definition: job.definition.clone(),
                facts: Default::default(),
                state: JobState { lifecycle, used: 1, finished, ..JobState::default() },
                waiting: WaitingRuns::Keep,
                closed_by_edit: None,
            })))
        };
        self.server.store.edit_job(path, Box::new(decide)).await.unwrap();
    }

    async fn request(
        &self,
        method: &str,
        path: &str,
        version: &str,
        headers: &[&str],
        body: &[u8],
    ) -> Response {
        let path = long_path(path, version);
        send(self.server.address, method, &path, "localhost", headers, body).await
    }

    /// The response to a row of the catalogue of definitions.
    async fn definition(&self, row: &Value, version: &str) -> Response {
        let is_collection = row["kind"] == "collection";
        let (parent, path) = match row["collection"].is_object() {
            true => ("OWN", "OWN/jobs/new?V"),
            false if is_collection => ("", "NEW?V"),
            false => ("", "JC/jobs/new?V"),
        };
        if !parent.is_empty() {
            let text = row["collection"].to_string();
            let made = self.request("PUT", "OWN?V", version, &[JSON], text.as_bytes()).await;
            assert_eq!(made.status, 201, "{row}: {}", made.body);
        }
        let method = row["method"].as_str().unwrap_or("PUT");
        let valid = match (method, is_collection) {
            ("PATCH", _) => {
                let text = valid_job().to_string();
                let made = self.request("PUT", path, version, &[JSON], text.as_bytes()).await;
                assert_eq!(made.status, 201, "{row}: {}", made.body);
                json!({})
            }
            (_, true) => valid_collection(),
            (_, false) => valid_job(),
        };
        let response = self.request(method, path, version, &[JSON], &body(row, valid)).await;
        for path in [path, "OWN?V"] {
            self.request("DELETE", path, version, &[], &[]).await;
        }
        response
    }
}

/// Sends a request on a connection of its own.
async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    host: &str,
    headers: &[&str],
    body: &[u8],
) -> Response {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = format!("Content-Length: {}", body.len());
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    let own = [length.as_str()].into_iter().filter(|_| method != "GET");
    for header in headers.iter().copied().chain(own) {
        let _ = write!(head, "{header}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    // The server may answer and close before it has read the body.
    let _ = stream.write_all(body).await;
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    let response = String::from_utf8(response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").expect(path);
    Response { status: head.split(' ').nth(1).unwrap().parse().unwrap(), body: body.to_owned() }
}

fn long_path(short: &str, version: &str) -> String {
    let collection =
        |name: &str| format!("{GROUP}/providers/Microsoft.Scheduler/jobCollections/{name}");
    let number = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut path = short.replace("V", &format!("api-version={version}"));
    if let Some((before, after)) = path.clone().split_once("REPEAT") {
        let (times, rest) = after.split_at(number(after));
        path = format!("{before}{}{rest}", "a".repeat(times.parse().unwrap()));
    }
    if let Some((before, _)) = path.clone().split_once("PARAMETERS") {
        path = format!("{before}{}", "x=1&".repeat(51));
    }
    for (short, long) in [
        ("RG?", format!("{GROUP}?")),
        ("OWN", collection("own")),
        ("NEW", collection("new")),
        ("FULL", collection("full")),
        ("JC", collection("jc")),
        ("J/", format!("{}/jobs/j/", collection("jc"))),
        ("J?", format!("{}/jobs/j?", collection("jc"))),
    ] {
        if let Some(rest) = path.strip_prefix(short) {
            path = format!("{long}{rest}");
        }
    }
    path
}

/// The request of a row in short.
fn heading(row: &Value) -> String {
    let shown = |value: &Value| {
        let text = value.to_string();
        match text.char_indices().nth(SHOWN_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    };
    let members = ["kind", "method", "path", "host", "as", "headers", "collection", "uri", "pfx"];
    let more = ["set", "remove", "body", "body_hex", "repeat_body"];
    let parts = members.into_iter().chain(more).filter(|name| !row[*name].is_null());
    let parts = parts.map(|name| match &row[name] {
        Value::String(text) if matches!(name, "method" | "path") => text.clone(),
        Value::Object(members) if name == "set" => {
            let members = members.iter().map(|(path, value)| format!("{path} = {}", shown(value)));
            members.collect::<Vec<_>>().join(", ")
        }
        value => format!("{name} {}", shown(value)),
    });
    parts.collect::<Vec<_>>().join(" ")
}

/// Adds the responses of both versions to the text of the file.
fn add(text: &mut String, row: &Value, responses: &[(&str, Response)]) {
    let id = row["id"].to_string().replace('"', "");
    let _ = writeln!(text, "\n{id}  {}", heading(row));
    let mut before = String::new();
    for (version, response) in responses {
        match response.error() {
            None => {
                let _ = writeln!(text, "  {version}  {}", response.status);
            }
            Some((head, message)) => {
                let shown = if message == before { "the same message" } else { &message };
                let _ = writeln!(text, "  {version}  {head}\n      {shown}");
                before = message.clone();
            }
        }
    }
}

/// A server with authentication, and a token of a reader of its one subscription.
async fn with_tokens() -> (Server, String) {
    let access = AccessControl::with_tokens(
        Authentication::new(AuthenticationSettings::default()),
        RateSettings::default(),
        AuditLog::off(),
    );
    let server = start_with_access(access).await;
    let NewToken { id, text, hash } = NewToken::generate(&SeededEntropy::new(7)).unwrap();
    let scope = AccessScope::parse("/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
    let record = TokenRecord {
        id,
        name: "reader".to_owned(),
        hash,
        grant: Grant { role: Role::Reader, scope },
        created: NOW.parse::<Instant>().unwrap(),
        expires: None,
        revoked: None,
        last_used: None,
    };
    assert!(server.store.put_token(record).await.unwrap());
    (server, text.reveal().to_owned())
}

/// The response to a row of the catalogue of requests.
async fn requested(
    api: &Api,
    (guarded, token): &(Server, String),
    row: &Value,
    version: &str,
) -> Response {
    let job = |member: &str, value: &Value| {
        let mut job = valid_job();
        *job.pointer_mut(member).unwrap() = value.clone();
        job.to_string().into_bytes()
    };
    let request = "/properties/action/request";
    let certificate = |pfx: &Value| {
        json!({"uri": "https://example.com/", "method": "GET", "authentication": {
            "type": "ClientCertificate", "pfx": pfx, "password": "p",
        }})
    };
    let body = match () {
        () if row["job"] == true => valid_job().to_string().into_bytes(),
        () if row["uri"].is_string() => job(&format!("{request}/uri"), &row["uri"]),
        () if row["pfx"].is_string() => job(request, &certificate(&row["pfx"])),
        () if row["body"].is_string() || row["repeat_body"].is_array() => body(row, json!({})),
        () => vec![],
    };
    let headers: Vec<&str> = match row["headers"].as_array() {
        Some(headers) => headers.iter().map(|header| header.as_str().unwrap()).collect(),
        None => vec![JSON],
    };
    let path = long_path(row["path"].as_str().unwrap(), version);
    let method = row["method"].as_str().unwrap();
    let host = row["host"].as_str().unwrap_or("localhost");
    let Some(caller) = row["as"].as_str() else {
        return send(api.server.address, method, &path, host, &headers, &body).await;
    };
    let authorization = match caller {
        "" => "X-None: 1".to_owned(),
        "reader" => format!("Authorization: Bearer {token}"),
        other => format!("Authorization: {other}"),
    };
    let headers = [headers.as_slice(), &[authorization.as_str()]].concat();
    let host = guarded.address.to_string();
    send(guarded.address, method, &path, &host, &headers, &body).await
}

#[tokio::test]
async fn the_messages_of_all_errors_match_the_reviewed_file() {
    let api = Api::start().await;
    let guarded = with_tokens().await;
    let mut text = "The errors of the API for every row of the catalogue of bad input: the request in short, and the\nresponses of the newest and of an old version.\n".to_owned();
    let requests = include_str!("../data/bad-requests.jsonl").lines();
    let mut all: Vec<(Value, bool)> =
        requests.map(|line| (parse(line).expect(line), true)).collect();
    let is_covered = |row: &Value| all.iter().any(|(other, _)| other["id"] == row["id"]);
    let definitions: Vec<_> =
        rows().into_iter().filter(|row| !(row["left"].is_string() && is_covered(row))).collect();
    all.extend(definitions.into_iter().map(|row| (row, false)));
    let number = |row: &Value| {
        let text = row["id"].to_string();
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        digits.parse::<u32>().unwrap_or(u32::MAX)
    };
    all.sort_by_key(|(row, _)| number(row));
    for (row, is_request) in &all {
        if let Some(reason) = row["left"].as_str() {
            let _ =
                writeln!(text, "\n{}  not here: {reason}", row["id"].to_string().replace('"', ""));
            continue;
        }
        let mut responses = vec![];
        for version in VERSIONS {
            let is_new = version == VERSIONS[0];
            match row["only"].as_str() {
                Some("new") if !is_new => continue,
                Some("old") if is_new => continue,
                _ => {}
            }
            let response = match is_request {
                true => requested(&api, &guarded, row, version).await,
                false => api.definition(row, version).await,
            };
            if *is_request {
                assert_eq!(
                    u64::from(response.status),
                    row["status"].as_u64().unwrap(),
                    "{row}: {}",
                    response.body
                );
            }
            responses.push((version, response));
        }
        if responses.iter().any(|(_, response)| response.error().is_some()) {
            add(&mut text, row, &responses);
        }
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/error-messages.txt");
    if std::env::var_os("KALENDS_UPDATE").is_some() {
        std::fs::write(file, &text).unwrap();
    }
    let reviewed = std::fs::read_to_string(file).unwrap_or_default();
    for (line, (now, then)) in text.lines().zip(reviewed.lines()).enumerate() {
        assert_eq!(now, then, "error-messages.txt:{}", line + 1);
    }
    assert_eq!(text.lines().count(), reviewed.lines().count());
}
