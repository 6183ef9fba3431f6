//! Response bodies, byte for byte, in cases that the recordings do not contain.

use kalends_domain::{
    ActionRole, AttemptStatus, CollectionState, HistoryEntry, JobDefinition, JobStatus, Lifecycle,
    Limits, Micros, Plan, Timing,
};
use kalends_wire::{
    ErrorCode, ErrorDetails, JobRuntimeState, Json, Version, read_collection, read_job,
    write_collection, write_history_entry, write_job, write_list,
};

use crate::bad_input::path;

const OLD: Version = Version::V2016_03_01;
const NEW: Version = Version::V2026_11_01;

fn job(text: &str) -> JobDefinition {
    read_job(&Json::parse(text.as_bytes()).unwrap(), NEW, &Limits::default()).expect(text)
}

fn active(status: JobStatus) -> JobRuntimeState {
    JobRuntimeState {
        lifecycle: Lifecycle::Active,
        status,
        collection: CollectionState::Enabled,
        is_paused: false,
    }
}

/// Returns `properties` of the response.
fn properties(job: &JobDefinition, runtime: &JobRuntimeState, version: Version) -> String {
    let text = write_job(&path(), job, runtime, version).to_string();
    let head = r#"{"id":"/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/group-1/providers/Microsoft.Scheduler/jobCollections/jc1/jobs/j1","type":"Microsoft.Scheduler/jobCollections/jobs","name":"jc1/j1","properties":"#;
    text.strip_prefix(head).expect(&text).strip_suffix('}').unwrap().to_owned()
}

const EVERYTHING: &str = r#"{"properties":{"description":"nightly export","tags":{"team":"billing"},"startTime":"2026-11-20T00:00:00Z","action":{"request":{"uri":"https://example.com/export","method":"POST","headers":{"X":"ü </>&'"},"body":"\"\\\r\n\u0001","authentication":{"username":"u","password":"p","type":"basic"}},"type":"HTTPS","retryPolicy":{"retryType":"exponential","retryInterval":"PT30S","retryCount":8,"maxInterval":"PT10M","maxAge":"PT2H"},"signing":"on"},"recurrence":{"frequency":"week","endTime":"2027-01-01","timeZone":"europe/berlin","firstDayOfWeek":"monday","schedule":{"minutes":30,"hours":[2],"weekDays":["MONDAY"]}},"missedRuns":{"policy":"last","within":"1.00:00:00"},"overlap":"queueone","jitter":"PT30S","timeout":"PT5M"}}"#;

#[test]
fn the_newest_version_writes_pascal_case_and_its_own_members() {
    let expected = r#"{"description":"nightly export","tags":{"team":"billing"},"startTime":"2026-11-20T00:00:00Z","action":{"request":{"uri":"https://example.com/export","method":"POST","headers":{"X":"ascii"},"body":"\"\\\r\n\u0001","authentication":{"username":"u","type":"Basic"}},"type":"Https","retryPolicy":{"retryType":"Exponential","retryInterval":"PT30S","retryCount":8,"maxInterval":"PT10M","maxAge":"PT2H"},"signing":"On"},"recurrence":{"frequency":"Week","endTime":"2026-12-31T23:00:00Z","interval":1,"timeZone":"Europe/Berlin","firstDayOfWeek":"Monday","schedule":{"minutes":[30],"hours":[2],"weekDays":["Monday"]}},"missedRuns":{"policy":"Last","within":"1.00:00:00"},"overlap":"QueueOne","jitter":"PT30S","timeout":"PT5M","state":"Enabled","status":{"executionCount":0,"failureCount":0,"faultedCount":0}}"#;
    let job = job(&EVERYTHING.replace("ü </>&'", "ascii"));
    assert_eq!(properties(&job, &active(JobStatus::default()), NEW), expected);
}

#[test]
fn the_old_versions_write_their_own_members_in_their_own_casing() {
    let expected = r#"{"startTime":"2026-11-20T00:00:00Z","action":{"request":{"uri":"https://example.com/export","method":"POST","headers":{"X":"</>&'"},"body":"ü€","authentication":{"username":"u","type":"Basic"}},"type":"HTTPS","retryPolicy":{"retryType":"fixed","retryInterval":"PT30S","retryCount":8}},"recurrence":{"frequency":"week","endTime":"2026-12-31T23:00:00Z","interval":1,"schedule":{"minutes":[30],"hours":[2],"weekDays":["monday"]}},"state":"enabled","status":{"executionCount":0,"failureCount":0,"faultedCount":0}}"#;
    let text = EVERYTHING.replace("ü </>&'", "</>&'").replace(r#"\"\\\r\n\u0001"#, "ü€");
    assert_eq!(properties(&job(&text), &active(JobStatus::default()), OLD), expected);
}

const SIMPLE: &str =
    r#"{"action":{"type":"Http","request":{"uri":"http://example.com/","method":"GET"}}}"#;

/// Returns the members after `action`.
fn tail(job: &JobDefinition, runtime: &JobRuntimeState) -> String {
    let text = properties(job, runtime, OLD);
    text.split_once(r#""type":"Http"},"#).expect(&text).1.to_owned()
}

#[test]
fn a_disabled_job_that_never_ran_has_no_status() {
    let ran = JobStatus {
        last_execution: Some("2026-01-01T00:00:00.5Z".parse().unwrap()),
        next_execution: Some("2026-01-02".parse().unwrap()),
        skip_until: None,
        executions: 5,
        failures: 4,
        faulted: 1,
    };
    let coming = JobStatus { next_execution: ran.next_execution, ..JobStatus::default() };
    let counts = r#""executionCount":5,"failureCount":4,"faultedCount":1}}"#;
    let last = r#""lastExecutionTime":"2026-01-01T00:00:00.5Z","#;
    let next = r#""nextExecutionTime":"2026-01-02T00:00:00Z","#;
    let zeros = r#""executionCount":0,"failureCount":0,"faultedCount":0}}"#;

    let enabled = job(SIMPLE);
    let disabled = job(&SIMPLE.replace(r#"{"action""#, r#"{"state":"Disabled","action""#));
    assert_eq!(tail(&disabled, &active(coming)), r#""state":"disabled"}"#);
    let expected = format!(r#""state":"enabled","status":{{{next}{zeros}"#);
    assert_eq!(tail(&enabled, &active(coming)), expected);
    let expected = format!(r#""state":"enabled","status":{{{last}{next}{counts}"#);
    assert_eq!(tail(&enabled, &active(ran)), expected);
    let expected = format!(r#""state":"disabled","status":{{{last}{counts}"#);
    assert_eq!(tail(&disabled, &active(ran)), expected);
    for collection in [CollectionState::Disabled, CollectionState::Suspended] {
        let expected = format!(r#""state":"enabled","status":{{{zeros}"#);
        assert_eq!(tail(&enabled, &JobRuntimeState { collection, ..active(coming) }), expected);
        let is_paused = true;
        assert_eq!(tail(&enabled, &JobRuntimeState { is_paused, ..active(coming) }), expected);
    }
    for (lifecycle, text) in [(Lifecycle::Completed, "completed"), (Lifecycle::Faulted, "faulted")]
    {
        let expected = format!(r#""state":"{text}","status":{{{last}{counts}"#);
        assert_eq!(tail(&enabled, &JobRuntimeState { lifecycle, ..active(ran) }), expected);
    }
}

#[test]
fn only_the_newest_version_has_the_end_of_skipped_occurrences() {
    let skip_until = Some("2026-01-02".parse().unwrap());
    let runtime = active(JobStatus { skip_until, ..JobStatus::default() });
    let newest = properties(&job(SIMPLE), &runtime, NEW);
    assert!(newest.contains(r#""status":{"skipUntil":"2026-01-02T00:00:00Z","#), "{newest}");
    let old = properties(&job(SIMPLE), &runtime, OLD);
    assert!(!old.contains("skipUntil"), "{old}");
    let finished = JobRuntimeState { lifecycle: Lifecycle::Completed, ..runtime };
    let finished = properties(&job(SIMPLE), &finished, NEW);
    assert!(!finished.contains("skipUntil"), "{finished}");
}

#[test]
fn durations_and_type_casing_are_returned_as_sent() {
    for duration in ["PT1D", "1.00:00:00", "P1D", "24.00:00:00", "PT30S"] {
        let policy =
            format!(r#""retryPolicy":{{"retryType":"FIXED","retryInterval":"{duration}"}}"#);
        let text = SIMPLE.replace(r#""type":"Http""#, &format!(r#"{policy},"type":"hTTp""#));
        let written = properties(&job(&text), &active(JobStatus::default()), OLD);
        let expected = format!(r#""retryType":"fixed","retryInterval":"{duration}"}}"#);
        assert!(written.contains(&expected), "{written}");
        assert!(written.contains(r#""type":"hTTp""#), "{written}");
    }
}

#[test]
fn certificates_have_both_names_of_the_expiration() {
    use kalends_domain::{CertificateFacts, HttpAuthentication, Target};
    let authentication =
        r#","authentication":{"type":"clientcertificate","pfx":"canary","password":"canary"}}"#;
    let text = SIMPLE.replace(r#""GET"}"#, &format!(r#""GET"{authentication}"#));
    let text = text.replace("http://", "https://");
    let mut job = job(&text);
    let Target::Http(request) = &mut job.action.action.target else { panic!("http") };
    let Some(HttpAuthentication::ClientCertificate { certificate, .. }) =
        request.authentication.as_deref_mut()
    else {
        panic!("a certificate")
    };
    *certificate = Some(CertificateFacts {
        thumbprint: "AB".to_owned(),
        expiration: "2030-01-01".parse().unwrap(),
        subject_name: "CN=x".to_owned(),
    });
    for version in Version::ALL {
        let written = properties(&job, &active(JobStatus::default()), version);
        let expected = r#"{"certificateThumbprint":"AB","certificateExpiration":"2030-01-01T00:00:00Z","certificateExpirationDate":"2030-01-01T00:00:00Z","certificateSubjectName":"CN=x","type":"ClientCertificate"}"#;
        assert!(written.contains(expected) && !written.contains("canary"), "{written}");
    }
}

#[test]
fn service_bus_enum_values_have_the_casing_of_the_version() {
    let text = r#"{"action":{"type":"ServiceBusTopic","serviceBusTopicMessage":{"topicPath":"t","namespace":"namespace-1","transportType":"amqp","authentication":{"type":"SHAREDACCESSKEY","sasKeyName":"k","sasKey":"canary"},"message":"","brokeredMessageProperties":{"timeToLive":"PT1H"},"customMessageProperties":{}}}}"#;
    let old = r#"{"action":{"serviceBusTopicMessage":{"topicPath":"t","namespace":"namespace-1","transportType":"amqp","authentication":{"sasKeyName":"k","type":"sharedAccessKey"},"message":"","brokeredMessageProperties":{"timeToLive":"PT1H"},"customMessageProperties":{}},"type":"ServiceBusTopic"},"state":"enabled","#;
    let written = |version| properties(&job(text), &active(JobStatus::default()), version);
    assert!(written(OLD).starts_with(old), "{}", written(OLD));
    let new = old.replace("amqp", "AMQP").replace("sharedAccess", "SharedAccess");
    let new = new.replace("enabled", "Enabled");
    assert!(written(NEW).starts_with(&new), "{}", written(NEW));
}

#[test]
fn history_omits_the_status_of_a_success_in_the_old_versions() {
    let entry = |status, role| HistoryEntry {
        started: "2026-01-01T00:00:01Z".parse().unwrap(),
        ended: "2026-01-01T00:00:02.25Z".parse().unwrap(),
        expected: "2026-01-01".parse().unwrap(),
        status,
        message: "m".to_owned(),
        retry: 2,
        repeat: 7,
        role,
        timing: Timing::default(),
        generation: Some(1),
    };
    let written = |status, role, version| {
        write_history_entry(&path(), &entry(status, role), 1, version).to_string()
    };
    let (main, error) = (ActionRole::Main, ActionRole::Error);
    let id = "02516350751989999999:09223372036854775806";
    let expected = format!(
        r#"{{"id":"/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/group-1/providers/Microsoft.Scheduler/jobCollections/jc1/jobs/j1/history/{id}","type":"Microsoft.Scheduler/jobCollections/jobs/history","name":"jc1/j1/{id}","properties":{{"startTime":"2026-01-01T00:00:01Z","endTime":"2026-01-01T00:00:02.25Z","expectedExecutionTime":"2026-01-01T00:00:00Z","message":"m","retryCount":2,"repeatCount":7,"actionName":"MainAction"}}}}"#
    );
    assert_eq!(written(AttemptStatus::Completed, main, OLD), expected);
    let with_status =
        |text: &str| expected.replace(r#""message""#, &format!(r#""status":"{text}","message""#));
    let new = |text: &str| with_status(text).replace("}}", r#","generation":1}}"#);
    assert_eq!(written(AttemptStatus::Completed, main, NEW), new("Completed"));
    assert_eq!(written(AttemptStatus::Failed, main, OLD), with_status("failed"));
    assert_eq!(written(AttemptStatus::Postponed, main, OLD), with_status("postponed"));
    assert_eq!(
        written(AttemptStatus::Failed, error, NEW),
        new("Failed").replace("MainAction", "ErrorAction")
    );
}

fn failed_entry(message: &str, timing: Timing) -> HistoryEntry {
    HistoryEntry {
        started: "2026-01-01T00:00:01Z".parse().unwrap(),
        ended: "2026-01-01T00:00:02.25Z".parse().unwrap(),
        expected: "2026-01-01".parse().unwrap(),
        status: AttemptStatus::Failed,
        message: message.to_owned(),
        retry: 0,
        repeat: 1,
        role: ActionRole::Main,
        timing,
        generation: Some(1),
    }
}

#[test]
fn only_the_newest_version_returns_the_status_code_of_a_response() {
    let written = |message, version| {
        let entry = failed_entry(message, Timing::default());
        write_history_entry(&path(), &entry, 1, version).to_string()
    };
    let response =
        "Http Action - Response from host 'a': 'ServiceUnavailable' Response Headers:  Body: ";
    assert!(written(response, NEW).contains(r#"Body: ","statusCode":503,"retry"#));
    assert!(!written("no response", NEW).contains("statusCode"));
    for version in Version::ALL.into_iter().filter(|version| version.is_old()) {
        assert!(!written(response, version).contains("503"));
    }
}

#[test]
fn only_the_newest_version_returns_timing() {
    let written = |timing, version| {
        write_history_entry(&path(), &failed_entry("m", timing), 1, version).to_string()
    };
    let some = |micros| Some(Micros::new(micros));
    let all = Timing {
        dns: some(1_204),
        connect: some(18),
        tls: some(0),
        first_byte: some(1_000_000),
        total: some(61_500_000),
    };
    let shown = r#""actionName":"MainAction","generation":1,"timing":{"dns":"PT0.001204S","connect":"PT0.000018S","tls":"PT0S","firstByte":"PT1S","total":"PT1M1.5S"}}}"#;
    assert!(written(all, NEW).ends_with(shown), "{}", written(all, NEW));
    let reused = Timing { first_byte: some(1), total: some(2), ..Timing::default() };
    let shown = r#""timing":{"firstByte":"PT0.000001S","total":"PT0.000002S"}}}"#;
    assert!(written(reused, NEW).ends_with(shown), "{}", written(reused, NEW));
    let nothing = written(Timing::default(), NEW);
    assert!(nothing.ends_with(r#""actionName":"MainAction","generation":1}}"#), "{nothing}");
    for version in Version::ALL.into_iter().filter(|version| version.is_old()) {
        assert_eq!(written(all, version), written(Timing::default(), version));
    }
}

#[test]
fn pages_have_a_next_link_or_null() {
    assert_eq!(write_list(Vec::new(), None).to_string(), r#"{"value":[],"nextLink":null}"#);
    let page = write_list(vec![Json::Null], Some("https://h/?$skiptoken=x"));
    assert_eq!(page.to_string(), r#"{"value":[null],"nextLink":"https://h/?$skiptoken=x"}"#);
}

#[test]
fn a_quota_without_effect_is_not_returned() {
    let text = r#"{"location":"x","properties":{"sku":{"name":"premium"},"quota":{"maxJobOccurrence":3}}}"#;
    let body = Json::parse(text.as_bytes()).unwrap();
    let oldest = Version::V2016_01_01;
    let collection = read_collection(&body, oldest, &Limits::default()).unwrap();
    assert_eq!(collection.plan, Plan::P10Premium);
    let path = path().collection;
    let written = |version| write_collection(&path, &collection, version).to_string();
    let tail = |plan| format!(r#""properties":{{"sku":{{"name":"{plan}"}},"state":"Enabled"}}}}"#);
    assert!(written(oldest).ends_with(&tail("Premium")), "{}", written(oldest));
    assert!(written(OLD).ends_with(&tail("P10Premium")), "{}", written(OLD));
}

#[test]
fn error_bodies_have_the_format_of_the_version() {
    let mut errors =
        ErrorDetails::one(ErrorCode::InvalidUri, "properties.action.request.uri", "is odd");
    assert_eq!(
        errors.response(OLD),
        (
            400,
            r#"{"error":{"code":"BadRequest","message":"properties.action.request.uri is odd"}}"#
                .to_owned()
        )
    );
    assert_eq!(
        errors.response(NEW),
        (
            400,
            r#"{"error":{"code":"InvalidUri","message":"properties.action.request.uri is odd","target":"properties.action.request.uri","details":[]}}"#
                .to_owned()
        )
    );
    errors.add(ErrorCode::InvalidJobState, "properties.state", "is odder");
    let (_, body) = errors.response(NEW);
    assert_eq!(
        body,
        r#"{"error":{"code":"InvalidUri","message":"properties.action.request.uri is odd","target":"properties.action.request.uri","details":[{"code":"InvalidUri","message":"properties.action.request.uri is odd","target":"properties.action.request.uri"},{"code":"InvalidJobState","message":"properties.state is odder","target":"properties.state"}]}}"#
    );
    let internal = ErrorDetails::one(ErrorCode::InternalError, "", "request 7");
    let expected = r#"{"error":{"code":"InternalError","message":"request 7"}}"#;
    assert_eq!(internal.response(OLD), (500, expected.to_owned()));
}
