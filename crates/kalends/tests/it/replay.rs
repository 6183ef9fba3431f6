//! Replays every recorded exchange against a server at the recorded time: status and body must match
//! byte for byte, except for the cases of [`Exception`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use base64::Engine as _;
use kalends_recurrence::Instant;
use kalends_wire::Json;

use crate::connection::Connection;
use crate::recorded_exchange::{Exchange, at, recordings, replace, text_at};
use crate::test_server::{TestServer, clock_library};

/// Number of recordings replayed concurrently, each with its own server.
const SERVERS: usize = 6;
/// Delay of the first run of jobs without a start time in the retired service.
const START_DELAY: Duration = Duration::from_secs(20);

/// Why a response is not compared byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Exception {
    /// The service was already gone and returned that the path does not exist.
    ServiceRetired,
    /// History of runs outside the recording. Compared: that the job has a history.
    History,
    /// The certificate is redacted and replaced by another. Compared: the other members.
    CertificateRedacted,
    /// Until December 2015 responses contained the secrets of error actions. Compared: the other members.
    SecretLeaked,
    /// The resource manager's list of locations and versions. Compared: that ours contains them.
    ProviderMetadata,
}

#[test]
fn every_recorded_exchange_is_reproduced() {
    let (Some(recordings), Some(library)) = (recordings(), clock_library()) else { return };
    let replay = Mutex::new(Replay::default());
    let waiting = Mutex::new(recordings.into_iter());
    // Servers mostly wait for the disk, so several run concurrently.
    std::thread::scope(|scope| {
        for _ in 0..SERVERS {
            scope.spawn(|| {
                loop {
                    let Some(recording) = waiting.lock().unwrap().next() else { break };
                    let mut own = Replay::default();
                    own.recording(recording, &library);
                    replay.lock().unwrap().add(own);
                }
            });
        }
    });
    let replay = replay.into_inner().unwrap();
    let total: usize = replay.exact + replay.exceptions.values().sum::<usize>();
    eprintln!("{total} exchanges: {} exact, exceptions {:?}", replay.exact, replay.exceptions);
    assert!(replay.wrong.is_empty(), "{}", replay.wrong.join("\n\n"));
    assert_eq!((total, replay.exact), (836, 704));
}

#[derive(Default)]
struct Replay {
    exact: usize,
    exceptions: BTreeMap<Exception, usize>,
    wrong: Vec<String>,
}

impl Replay {
    fn add(&mut self, other: Replay) {
        self.exact += other.exact;
        for (exception, count) in other.exceptions {
            *self.exceptions.entry(exception).or_default() += count;
        }
        self.wrong.extend(other.wrong);
    }

    fn recording(&mut self, mut exchanges: Vec<Exchange>, library: &Path) {
        exchanges.sort_by_key(|exchange| (exchange.at, exchange.sequence));
        let server = TestServer::start_at(library, &clock_text(exchanges[0].at));
        let mut connection = server.connect();
        create_presumed(&mut connection, &exchanges);
        for second in exchanges.chunk_by(|a, b| a.at == b.at) {
            self.second(second, &server, &mut connection);
        }
    }

    /// Exchanges within one second have no recorded order. Writes are sent in their natural order; a
    /// read may match before or after any of them.
    fn second(&mut self, second: &[Exchange], server: &TestServer, connection: &mut Connection) {
        let (mut reads, mut writes): (Vec<_>, Vec<_>) =
            second.iter().partition(|exchange| exchange.is_read());
        writes.sort_by_key(|exchange| {
            let order = ["PUT", "PATCH", "POST", "DELETE"];
            let method = order.iter().position(|method| *method == exchange.method);
            let depth = exchange.path().split('/').count();
            (method, depth, exchange.status != 201, exchange.sequence)
        });
        let mut writes = writes.into_iter();
        loop {
            server.set_clock(&clock_text(second[0].at.saturating_add(Duration::from_millis(500))));
            reads.retain(|read| match compare(read, connection) {
                Ok(exception) => {
                    self.note(exception);
                    false
                }
                Err(_) => true,
            });
            let Some(write) = writes.next() else { break };
            server.set_clock(&clock_text(exact_time(write)));
            match compare(write, connection) {
                Ok(exception) => self.note(exception),
                Err(wrong) => self.wrong.push(wrong),
            }
        }
        for read in reads {
            self.wrong.extend(compare(read, connection).err());
        }
    }

    fn note(&mut self, exception: Option<Exception>) {
        match exception {
            Some(exception) => *self.exceptions.entry(exception).or_default() += 1,
            None => self.exact += 1,
        }
    }
}

/// Time of an exchange within its second, derived from the next execution time of a job that runs
/// immediately.
fn exact_time(exchange: &Exchange) -> Instant {
    let response = exchange.response.as_ref();
    let next =
        response.and_then(|response| text_at(response, "properties.status.nextExecutionTime"));
    let first = exchange.at.saturating_add(START_DELAY);
    // The Date header and the clock of the scheduler were from different machines.
    let last = first.saturating_add(Duration::from_millis(1_500));
    let due = next.map(|next| next.parse::<Instant>().unwrap());
    match due.filter(|due| (first..=last).contains(due)) {
        Some(due) => due.saturating_sub(START_DELAY),
        None => exchange.at.saturating_add(Duration::from_millis(500)),
    }
}

/// A time in the format of the clock library. The library truncates, so half a step is added.
fn clock_text(at: Instant) -> String {
    let fraction = at.ticks().rem_euclid(10_000_000);
    let whole = at.whole_second().to_string();
    format!("{}.{fraction:07}5", whole.trim_end_matches('Z').replace('T', " "))
}

/// Creates resources that a recording contains without their creation, from their first appearance.
fn create_presumed(connection: &mut Connection, exchanges: &[Exchange]) {
    let mut known = BTreeSet::new();
    let mut presumed: Vec<(String, String)> = Vec::new();
    for second in exchanges.chunk_by(|a, b| a.at == b.at) {
        let created = second.iter().filter(|exchange| exchange.status == 201);
        known.extend(created.map(|exchange| exchange.path().to_lowercase()));
        for exchange in second {
            let version = exchange.version();
            for shown in exchange.resources() {
                let id = text_at(shown, "id").unwrap();
                let id = id.split("/history/").next().unwrap();
                if !id.contains("/jobCollections/") || !known.insert(id.to_lowercase()) {
                    continue;
                }
                let (collection, job) = match id.split_once("/jobs/") {
                    Some((collection, _)) => (collection, true),
                    None => (id, false),
                };
                if known.insert(collection.to_lowercase()) {
                    let body = r#"{"location":"South Central US","properties":{"sku":{"name":"Standard"}}}"#;
                    presumed.push((format!("{collection}?api-version={version}"), body.into()));
                }
                let is_entry = text_at(shown, "properties.expectedExecutionTime").is_some();
                let body = match job && is_entry {
                    true => r#"{"properties":{"action":{"type":"Http","request":{"uri":"http://example.org","method":"GET"}}}}"#.to_owned(),
                    false => shown.to_string(),
                };
                presumed.push((format!("{id}?api-version={version}"), body));
            }
        }
    }
    presumed.sort_by_key(|(target, _)| target.contains("/jobs/"));
    for (target, body) in presumed {
        let response = connection.request("PUT", &target, Some(&body));
        assert_eq!(response.status, 201, "{target} {body}: {response:?}");
    }
}

/// Replays one exchange. The error describes the exchange and the difference.
fn compare(exchange: &Exchange, connection: &mut Connection) -> Result<Option<Exception>, String> {
    let mut exception = None;
    let request = exchange.request.clone().map(|mut body| {
        let authentication = "properties.action.request.authentication";
        if replace(&mut body, &format!("{authentication}.pfx"), Some(own_certificate())) {
            let password = Some(Json::String("secret".into()));
            replace(&mut body, &format!("{authentication}.password"), password);
        }
        body.to_string()
    });
    let response = connection.request(&exchange.method, &exchange.target, request.as_deref());
    let wrong = |what: &str, expected: &str| {
        format!(
            "{} {}\n{} {}\n{}\n{what}\n  expected {} {expected}\n  received {} {}",
            exchange.recording,
            exchange.at,
            exchange.method,
            exchange.target,
            request.as_deref().unwrap_or(""),
            exchange.status,
            response.status,
            response.body
        )
    };
    let media_type = exchange.response.as_ref().map(|_| "application/json; charset=utf-8");
    if response.header("Content-Type") != media_type || response.header("x-ms-request-id").is_none()
    {
        return Err(wrong("other headers", &format!("{:?}", response.headers)));
    }
    let Some(expected) = exchange.response.clone() else {
        return match (response.status, response.body.as_str()) == (exchange.status, "") {
            true => Ok(None),
            false => Err(wrong("expected no body", "")),
        };
    };
    if text_at(&expected, "error.code") == Some("InvalidRequestUri") {
        return Ok(Some(Exception::ServiceRetired));
    }
    let Ok(received) = serde_json::from_str::<Json<'_>>(&response.body) else {
        return Err(wrong("no JSON", &expected.to_string()));
    };
    let (mut expected, mut received) = (expected, received.into_owned());
    if exchange.path().ends_with("/Microsoft.Scheduler") {
        // Another product used the same namespace at the time.
        if let Some(Json::Array(mut types)) = at(&expected, "resourceTypes").cloned() {
            types.retain(|kind| text_at(kind, "resourceType") != Some("flows"));
            replace(&mut expected, "resourceTypes", Some(Json::Array(types)));
        }
        return match contains(&received, &expected) {
            true => Ok(Some(Exception::ProviderMetadata)),
            false => Err(wrong("the provider lacks something", &expected.to_string())),
        };
    }
    if exchange.path().ends_with("/history") && !exchange.resources().is_empty() {
        return match response.status == 200 && at(&received, "value").is_some() {
            true => Ok(Some(Exception::History)),
            false => Err(wrong("no history", "")),
        };
    }
    for (expected, received) in entries(&mut expected).into_iter().zip(entries(&mut received)) {
        exception = exception.max(remove_exceptions(expected, received, exchange.at));
    }
    let expected = expected.to_string();
    // Without an exception the comparison is byte for byte.
    let received = if exception.is_some() { received.to_string() } else { response.body.clone() };
    match (response.status, received == expected) == (exchange.status, true) {
        true => Ok(exception),
        false => Err(wrong("another response", &expected)),
    }
}

/// The entries of a list, or the response itself as the only entry.
fn entries<'j>(response: &'j mut Json<'static>) -> Vec<&'j mut Json<'static>> {
    if at(response, "value").is_none() {
        return vec![response];
    }
    let Json::Object(members) = response else { return vec![] };
    match members.iter_mut().find(|(name, _)| name == "value") {
        Some((_, Json::Array(values))) => values.iter_mut().collect(),
        _ => vec![],
    }
}

/// Removes the members that cannot or must not match from both.
fn remove_exceptions(
    expected: &mut Json<'static>,
    received: &mut Json<'static>,
    now: Instant,
) -> Option<Exception> {
    let mut exception = None;
    for secret in [
        "queueMessage.sasToken",
        "serviceBusQueueMessage.authentication.sasKey",
        "serviceBusTopicMessage.authentication.sasKey",
    ] {
        if replace(expected, &format!("properties.action.errorAction.{secret}"), None) {
            assert!(now < "2015-12-09".parse().unwrap(), "{now} {secret}");
            exception = exception.max(Some(Exception::SecretLeaked));
        }
    }
    let certificate = "properties.action.request.authentication.certificate";
    let members = ["Thumbprint", "Expiration", "SubjectName"];
    let shows =
        |json: &Json<'static>, member| at(json, &format!("{certificate}{member}")).is_some();
    if members.iter().all(|member| shows(expected, member) && shows(received, member)) {
        for member in members {
            replace(expected, &format!("{certificate}{member}"), None);
            replace(received, &format!("{certificate}{member}"), None);
        }
        // The documented name of the member recorded as certificateExpiration; clients know both.
        replace(received, &format!("{certificate}ExpirationDate"), None);
        exception = exception.max(Some(Exception::CertificateRedacted));
    }
    exception
}

/// Whether `all` contains everything in `part`.
fn contains(all: &Json<'static>, part: &Json<'static>) -> bool {
    match (all, part) {
        (Json::Object(_), Json::Object(members)) => {
            members.iter().all(|(name, part)| at(all, name).is_some_and(|all| contains(all, part)))
        }
        (Json::Array(all), Json::Array(part)) => {
            part.iter().all(|part| all.iter().any(|all| contains(all, part)))
        }
        _ => all == part,
    }
}

fn own_certificate() -> Json<'static> {
    let bytes = include_bytes!("../../../actions/tests/data/aes256-single.pfx");
    Json::String(base64::engine::general_purpose::STANDARD.encode(bytes).into())
}
