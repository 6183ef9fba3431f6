//! Every recorded exchange: requests are read, and responses are reproduced byte for byte from the
//! definitions in the requests and the runtime state in the recorded responses.
//!
//! `without_known_differences` lists the deliberate differences, with reasons.

use std::collections::HashMap;

use kalends_domain::{
    ActionRole, AttemptStatus, Collection, HistoryEntry, JobDefinition, JobPath, Limits, Timing,
};
use kalends_wire::{
    ErrorDetail, ErrorDetails, Json, Number, Version, patch_collection, patch_job, read_collection,
    read_job, write_collection, write_history_entry, write_job, write_list,
};

use crate::exchange::{Exchange, Resource, copy_certificate, resource_of, runtime_state};
use crate::recording_files::{at, lines, member, remove, text_at};

/// Definitions of a recording so far, with the second of their request: the order of exchanges
/// within a second is unknown.
#[derive(Default)]
struct Defined {
    collections: HashMap<String, Vec<(String, Collection)>>,
    jobs: HashMap<String, Vec<(String, JobDefinition)>>,
}

/// Returns the definitions that a response at `now` may contain, newest first.
fn candidates<'d, T>(history: Option<&'d Vec<(String, T)>>, now: &str) -> Vec<&'d T> {
    let all: Vec<_> = history.into_iter().flatten().rev().collect();
    let before = all.iter().position(|(at, _)| at.as_str() < now).map_or(all.len(), |p| p + 1);
    all[..before].iter().map(|(_, value)| value).collect()
}

/// Removes secrets that the retired service returned until December 2015.
fn without_known_differences(response: &Json<'static>, recorded_at: &str) -> Json<'static> {
    let mut response = response.clone();
    for secret in [
        "queueMessage.sasToken",
        "serviceBusQueueMessage.authentication.sasKey",
        "serviceBusTopicMessage.authentication.sasKey",
    ] {
        // Until December 2015 the service returned the secrets of error actions.
        let leaked = remove(&mut response, &format!("properties.action.errorAction.{secret}"));
        assert!(!leaked || recorded_at < "2015-12-09", "{recorded_at} {secret}");
    }
    response
}

/// Removes members that Kalends adds to the recorded ones.
fn without_additions(written: Json<'_>) -> String {
    let mut written = written.into_owned();
    // The documented name of certificateExpiration; clients use both.
    let documented = "properties.action.request.authentication.certificateExpirationDate";
    remove(&mut written, documented);
    written.to_string()
}

fn written_job(
    path: &JobPath,
    job: &JobDefinition,
    response: &Json<'static>,
    version: Version,
) -> String {
    let mut job = job.clone();
    copy_certificate(&mut job, response);
    without_additions(write_job(path, &job, &runtime_state(response), version))
}

/// Returns the recordings of the ARM API, ordered by recording and time.
fn exchanges() -> Option<Vec<Exchange>> {
    let is_arm = |name: &str| {
        !["classic-", "docs-", "next-", "provider-", "real-"].iter().any(|p| name.starts_with(p))
    };
    let mut all: Vec<_> = lines(is_arm)?.iter().map(Exchange::new).collect();
    all.sort_by(|a, b| (&a.recording, &a.recorded_at).cmp(&(&b.recording, &b.recorded_at)));
    Some(all)
}

fn by_recording(all: Vec<Exchange>) -> Vec<Vec<Exchange>> {
    let mut groups: Vec<Vec<Exchange>> = Vec::new();
    for exchange in all {
        match groups.last_mut() {
            Some(group) if group[0].recording == exchange.recording => group.push(exchange),
            _ => groups.push(vec![exchange]),
        }
    }
    groups
}

#[test]
fn every_recorded_definition_is_read_and_every_response_reproduced() {
    let Some(all) = exchanges() else { return };
    let mut checked = 0;
    for mut recording in by_recording(all) {
        // Within a second, writes come before reads.
        recording.sort_by_key(|exchange| {
            let order = ["PUT", "PATCH"].iter().position(|known| *known == exchange.method);
            (exchange.recorded_at.clone(), order.unwrap_or(2))
        });
        let mut defined = Defined::default();
        for exchange in &recording {
            checked += u32::from(check(exchange, &mut defined));
        }
    }
    assert!(checked >= 460, "only {checked} responses of jobs and collections");
}

/// Returns the resource of the response: the one of the request, except in recordings that replace
/// the subscription in requests.
fn response_resource(exchange: &Exchange, response: &Json<'static>) -> Resource {
    match exchange.recording.starts_with("Azure/azure-sdk-for-python") {
        true => resource_of(response),
        false => exchange.resource.clone(),
    }
}

#[test]
fn a_selection_of_the_recorded_exchanges_is_reproduced() {
    for line in include_str!("../data/exchanges.jsonl").lines() {
        let recording = serde_json::from_str::<Json<'_>>(line).unwrap().into_owned();
        let mut defined = Defined::default();
        let Some(Json::Array(steps)) = member(&recording, "steps") else { panic!("{line}") };
        for (number, step) in steps.iter().enumerate() {
            let response = member(step, "answer").unwrap();
            let exchange = Exchange {
                recording: text_at(&recording, "note").unwrap().to_owned(),
                recorded_at: format!("step {number:02}"),
                method: text_at(step, "method").unwrap().to_owned(),
                version: Version::from_query(text_at(&recording, "version")).ok(),
                resource: resource_of(response),
                status: 200,
                request: member(step, "body").cloned(),
                response: Some(response.clone()),
            };
            assert!(check(&exchange, &mut defined), "{}", exchange.label());
        }
    }
}

#[test]
fn every_recorded_not_found_error_is_reproduced() {
    let Some(all) = exchanges() else { return };
    let mut not_found = 0;
    for exchange in all {
        let (Some(version), Some(response)) = (exchange.version, &exchange.response) else {
            continue;
        };
        let error = match &exchange.resource {
            // The latest recordings were made after the service was shut down.
            _ if text_at(response, "error.code") == Some("InvalidRequestUri") => continue,
            Resource::Collection(path) => ErrorDetail::collection_not_found(path),
            Resource::Job(path) => ErrorDetail::job_not_found(&path.job),
            _ => continue,
        };
        if exchange.status >= 400 {
            let written = ErrorDetails::from(error).response(version);
            assert_eq!(written, (404, response.to_string()), "{}", exchange.label());
            not_found += 1;
        }
    }
    assert!(not_found >= 33, "only {not_found} errors");
}

/// The exchanges printed in the documentation were edited by hand.
#[test]
fn the_exchanges_in_the_documentation_are_reproduced() {
    let Some(lines) = lines(|name| name.starts_with("docs-")) else { return };
    let mut checked = 0;
    for line in lines {
        let exchange = Exchange::new(&line);
        // The others belong to the classic API.
        let Some(version) = exchange.version else { continue };
        let (body, response) = (exchange.request.unwrap(), exchange.response.unwrap());
        let Resource::Job(path) = exchange.resource else { panic!("a job") };
        let job = read_job(&body, version, &Limits::default()).unwrap();
        // The request contains user, its response user1.
        let expected = response.to_string().replace("\"user1\"", "\"user\"");
        assert_eq!(written_job(&path, &job, &response, version), expected);
        checked += 1;
    }
    assert_eq!(checked, 3);
}

/// A write returns the definition it set; a read may return any definition of its second.
fn check_response(exchange: &Exchange, written: &[String], expected: &String) {
    let label = exchange.label();
    let is_read = exchange.request.is_none();
    let shown = if is_read { written } else { &written[..1] };
    assert!(shown.contains(expected), "{label}\n{expected}\n{}", written[0]);
}

/// Checks an exchange; returns whether it was about a single job or collection.
fn check(exchange: &Exchange, defined: &mut Defined) -> bool {
    let (Some(version), Some(response)) = (exchange.version, &exchange.response) else {
        return false;
    };
    if exchange.status >= 400 {
        return false;
    }
    let (limits, now) = (Limits::default(), &exchange.recorded_at);
    let label = exchange.label();
    let expected = without_known_differences(response, now).to_string();
    match &exchange.resource {
        Resource::Collection(path) => {
            let history = defined.collections.entry(path.collection.key()).or_default();
            match (exchange.method.as_str(), &exchange.request) {
                ("PUT", Some(body)) => {
                    let read = read_collection(body, version, &limits).expect(&label);
                    history.push((now.clone(), read));
                }
                ("PATCH", Some(body)) => {
                    let (_, stored) = history.last().expect(&label);
                    let patched = patch_collection(path, stored, body.clone(), version, &limits);
                    history.push((now.clone(), patched.expect(&label)));
                }
                // Enabling and disabling have no body: the state is taken from the response.
                _ => {
                    let read = read_collection(response, version, &limits).expect(&label);
                    let latest = history.last().map(|(_, latest)| latest.clone());
                    let shown = latest.map(|latest| Collection { state: read.state, ..latest });
                    history.push((now.clone(), shown.unwrap_or(read)));
                }
            }
            let shown = candidates(Some(history), now);
            let Resource::Collection(path) = response_resource(exchange, response) else {
                panic!("{label}")
            };
            let written: Vec<_> =
                shown.iter().map(|all| write_collection(&path, all, version).to_string()).collect();
            check_response(exchange, &written, &expected);
        }
        Resource::Job(path) => {
            let history = defined.jobs.entry(path.job.key()).or_default();
            match (exchange.method.as_str(), &exchange.request) {
                ("PUT", Some(body)) => {
                    let read = read_job(body, version, &limits).expect(&label);
                    history.push((now.clone(), read));
                }
                ("PATCH", Some(body)) => {
                    let (_, stored) = history.last().expect(&label);
                    let patched = patch_job(
                        path,
                        stored,
                        body.clone(),
                        version,
                        &limits,
                        &Default::default(),
                    );
                    history.push((now.clone(), patched.expect(&label)));
                }
                _ => {}
            }
            let shown = candidates(Some(history), now);
            assert!(!shown.is_empty(), "{label}: returned before it was created");
            let Resource::Job(path) = response_resource(exchange, response) else {
                panic!("{label}")
            };
            let written: Vec<_> =
                shown.iter().map(|job| written_job(&path, job, response, version)).collect();
            check_response(exchange, &written, &expected);
        }
        _ => return false,
    }
    true
}

#[test]
fn every_recorded_list_is_reproduced() {
    let Some(all) = exchanges() else { return };
    let mut entries = 0;
    for exchange in &all {
        let (Some(version), Some(response), Resource::List(of)) =
            (exchange.version, &exchange.response, &exchange.resource)
        else {
            continue;
        };
        let mut expected = response.clone();
        let Json::Object(page) = &mut expected else { panic!("a page") };
        let Some((_, Json::Array(values))) = page.first_mut() else { continue };
        let mut written = Vec::new();
        for value in values {
            *value = without_known_differences(value, &exchange.recorded_at);
            // The recordings contain the complete message of the first entries only.
            remove(value, "_message_trimmed_from");
            written.push(match of.as_str() {
                "history" => rewritten_entry(value, version),
                _ => rewritten_resource(value, version),
            });
            entries += 1;
        }
        let written = write_list(written, None).to_string();
        assert_eq!(written, expected.to_string(), "{}", exchange.label());
    }
    assert!(entries >= 500, "only {entries} entries of lists");
}

/// Reads a job or collection from its response and serialises it again.
fn rewritten_resource(response: &Json<'static>, version: Version) -> Json<'static> {
    let limits = Limits::default();
    let label = text_at(response, "id").unwrap().to_owned();
    let text = match resource_of(response) {
        Resource::Collection(path) => {
            let read = read_collection(response, version, &limits).expect(&label);
            write_collection(&path, &read, version).to_string()
        }
        Resource::Job(path) => {
            let read = read_job(response, version, &limits).expect(&label);
            written_job(&path, &read, response, version)
        }
        other => panic!("{label}: {other:?}"),
    };
    serde_json::from_str::<Json<'_>>(&text).unwrap().into_owned()
}

fn rewritten_entry(response: &Json<'static>, version: Version) -> Json<'static> {
    let text = |name: &str| text_at(response, &format!("properties.{name}")).unwrap();
    let number = |name: &str| match at(response, &format!("properties.{name}")) {
        Some(Json::Number(Number::Integer(number))) => *number,
        _ => panic!("{name}"),
    };
    let id = text_at(response, "id").unwrap();
    let (job, history_id) = id.split_once("/history/").unwrap();
    let Resource::Job(path) = resource_of(&with_id(job)) else { panic!("{id}") };
    let last: u64 = history_id.split_once(':').unwrap().1.parse().unwrap();
    let status = match at(response, "properties.status") {
        None => AttemptStatus::Completed,
        Some(Json::String(text)) if text == "failed" => AttemptStatus::Failed,
        other => panic!("{other:?}"),
    };
    let entry = HistoryEntry {
        started: text("startTime").parse().unwrap(),
        ended: text("endTime").parse().unwrap(),
        expected: text("expectedExecutionTime").parse().unwrap(),
        status,
        message: text("message").to_owned(),
        retry: number("retryCount").try_into().unwrap(),
        repeat: number("repeatCount").try_into().unwrap(),
        role: ActionRole::Main,
        timing: Timing::default(),
        generation: Some(1),
    };
    let sequence = i64::MAX as u64 - last;
    write_history_entry(&path, &entry, sequence, version).into_owned()
}

fn with_id(id: &str) -> Json<'static> {
    Json::Object(vec![("id".into(), Json::String(id.to_owned().into()))])
}
