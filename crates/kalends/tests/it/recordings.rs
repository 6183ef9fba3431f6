//! Every recorded exchange, replayed against the running server at the recorded time: status and
//! body must come back byte for byte. What does not is in [`Exception`], with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use base64::Engine as _;
use kalends_recurrence::Instant;
use kalends_wire::Json;

use crate::connection::Connection;
use crate::recorded::{Exchange, at, recordings, replace, text_at};
use crate::running::{Running, clock_library};

/// Recordings that are replayed at the same time, each with a server of its own.
const SERVERS: usize = 6;
/// How long after its creation a job without a start ran for the first time.
const START_DELAY: Duration = Duration::from_secs(20);

/// Why an answer is not compared as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Exception {
    /// The service was gone: it answered that it knows no such path.
    ServiceRetired,
    /// History of runs that the recording does not hold. Compared: that the job has a history.
    History,
    /// The file of the certificate is blotted out. Compared with another one: the rest.
    CertificateRedacted,
    /// Until December 2015 secrets of error actions were shown. Compared: the rest.
    SecretLeaked,
    /// The resource manager's own list of places and versions. Compared: that ours holds them.
    ProviderMetadata,
}

#[test]
fn every_recorded_exchange_is_answered_as_it_was_recorded() {
    let (Some(recordings), Some(library)) = (recordings(), clock_library()) else { return };
    let replay = Mutex::new(Replay::default());
    let waiting = Mutex::new(recordings.into_iter());
    // A server waits for its disk most of the time.
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
        let server = Running::start_at(library, &clock_text(exchanges[0].at));
        let mut connection = server.connect();
        make_presumed(&mut connection, &exchanges);
        for second in exchanges.chunk_by(|a, b| a.at == b.at) {
            self.second(second, &server, &mut connection);
        }
    }

    /// Exchanges of one second have no recorded order. Changes are made in their natural one, and
    /// what reads may fit before or after any of them.
    fn second(&mut self, second: &[Exchange], server: &Running, connection: &mut Connection) {
        let (mut reads, mut writes): (Vec<_>, Vec<_>) =
            second.iter().partition(|exchange| exchange.reads());
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
            server.set_clock(&clock_text(moment(write)));
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

/// When within its second an exchange took place: a job that runs at once tells.
fn moment(exchange: &Exchange) -> Instant {
    let answer = exchange.answer.as_ref();
    let next = answer.and_then(|answer| text_at(answer, "properties.status.nextExecutionTime"));
    let first = exchange.at.saturating_add(START_DELAY);
    // Date and the clock of the scheduler were not of the same machine.
    let last = first.saturating_add(Duration::from_millis(1_500));
    let told = next.map(|next| next.parse::<Instant>().unwrap());
    match told.filter(|told| (first..=last).contains(told)) {
        Some(told) => told.saturating_sub(START_DELAY),
        None => exchange.at.saturating_add(Duration::from_millis(500)),
    }
}

/// An instant as the clock library reads it. It cuts what it cannot hold, so half a step is added.
fn clock_text(at: Instant) -> String {
    let fraction = at.ticks().rem_euclid(10_000_000);
    let whole = at.whole_second().to_string();
    format!("{}.{fraction:07}5", whole.trim_end_matches('Z').replace('T', " "))
}

/// Makes what the recording shows without having made it, from how it is shown first.
fn make_presumed(connection: &mut Connection, exchanges: &[Exchange]) {
    let mut known = BTreeSet::new();
    let mut presumed: Vec<(String, String)> = Vec::new();
    for second in exchanges.chunk_by(|a, b| a.at == b.at) {
        let made = second.iter().filter(|exchange| exchange.status == 201);
        known.extend(made.map(|exchange| exchange.path().to_lowercase()));
        for exchange in second {
            let version = exchange.version();
            for shown in exchange.shown() {
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
        let answer = connection.ask("PUT", &target, Some(&body));
        assert_eq!(answer.status, 201, "{target} {body}: {answer:?}");
    }
}

/// Replays one exchange. What is wrong is told with its place.
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
    let answer = connection.ask(&exchange.method, &exchange.target, request.as_deref());
    let wrong = |what: &str, expected: &str| {
        format!(
            "{} {}\n{} {}\n{}\n{what}\n  expected {} {expected}\n  answered {} {}",
            exchange.recording,
            exchange.at,
            exchange.method,
            exchange.target,
            request.as_deref().unwrap_or(""),
            exchange.status,
            answer.status,
            answer.body
        )
    };
    let media_type = exchange.answer.as_ref().map(|_| "application/json; charset=utf-8");
    if answer.header("Content-Type") != media_type || answer.header("x-ms-request-id").is_none() {
        return Err(wrong("other headers", &format!("{:?}", answer.headers)));
    }
    let Some(expected) = exchange.answer.clone() else {
        return match (answer.status, answer.body.as_str()) == (exchange.status, "") {
            true => Ok(None),
            false => Err(wrong("expected no body", "")),
        };
    };
    if text_at(&expected, "error.code") == Some("InvalidRequestUri") {
        return Ok(Some(Exception::ServiceRetired));
    }
    let Ok(answered) = serde_json::from_str::<Json<'_>>(&answer.body) else {
        return Err(wrong("no JSON", &expected.to_string()));
    };
    let (mut expected, mut answered) = (expected, answered.into_owned());
    if exchange.path().ends_with("/Microsoft.Scheduler") {
        // Another product's beginnings, in the same namespace then.
        if let Some(Json::Array(mut types)) = at(&expected, "resourceTypes").cloned() {
            types.retain(|kind| text_at(kind, "resourceType") != Some("flows"));
            replace(&mut expected, "resourceTypes", Some(Json::Array(types)));
        }
        return match holds(&answered, &expected) {
            true => Ok(Some(Exception::ProviderMetadata)),
            false => Err(wrong("the provider lacks something", &expected.to_string())),
        };
    }
    if exchange.path().ends_with("/history") && !exchange.shown().is_empty() {
        return match answer.status == 200 && at(&answered, "value").is_some() {
            true => Ok(Some(Exception::History)),
            false => Err(wrong("no history", "")),
        };
    }
    for (expected, answered) in entries(&mut expected).into_iter().zip(entries(&mut answered)) {
        exception = exception.max(without_exceptions(expected, answered, exchange.at));
    }
    let expected = expected.to_string();
    // What is compared as it came is compared byte for byte.
    let answered = if exception.is_some() { answered.to_string() } else { answer.body.clone() };
    match (answer.status, answered == expected) == (exchange.status, true) {
        true => Ok(exception),
        false => Err(wrong("another answer", &expected)),
    }
}

/// The entries of a list, or what is none as its only entry.
fn entries<'j>(answer: &'j mut Json<'static>) -> Vec<&'j mut Json<'static>> {
    if at(answer, "value").is_none() {
        return vec![answer];
    }
    let Json::Object(members) = answer else { return vec![] };
    match members.iter_mut().find(|(name, _)| name == "value") {
        Some((_, Json::Array(values))) => values.iter_mut().collect(),
        _ => vec![],
    }
}

/// Takes out of both what cannot or must not be the same.
fn without_exceptions(
    expected: &mut Json<'static>,
    answered: &mut Json<'static>,
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
    if members.iter().all(|member| shows(expected, member) && shows(answered, member)) {
        for member in members {
            replace(expected, &format!("{certificate}{member}"), None);
            replace(answered, &format!("{certificate}{member}"), None);
        }
        // The documented name of what is recorded without the last word; clients know both.
        replace(answered, &format!("{certificate}ExpirationDate"), None);
        exception = exception.max(Some(Exception::CertificateRedacted));
    }
    exception
}

/// Whether `all` has everything that `part` has.
fn holds(all: &Json<'static>, part: &Json<'static>) -> bool {
    match (all, part) {
        (Json::Object(_), Json::Object(members)) => {
            members.iter().all(|(name, part)| at(all, name).is_some_and(|all| holds(all, part)))
        }
        (Json::Array(all), Json::Array(part)) => {
            part.iter().all(|part| all.iter().any(|all| holds(all, part)))
        }
        _ => all == part,
    }
}

fn own_certificate() -> Json<'static> {
    let bytes = include_bytes!("../../../actions/tests/data/aes256-single.pfx");
    Json::String(base64::engine::general_purpose::STANDARD.encode(bytes).into())
}
