//! Members that a patch changes, removes and keeps.

use kalends_domain::{
    HttpAuthentication, JobDefinition, Limits, MessageFormat, Plan, SecretHeaders, Target,
};
use kalends_wire::{
    ErrorDetails, Json, Version, job_with_secrets, patch_collection, patch_job, read_collection,
    read_job, write_collection,
};

use crate::bad_input::path;

const OLD: Version = Version::V2016_03_01;
const NEW: Version = Version::V2026_11_01;

fn job(text: &str, version: Version) -> JobDefinition {
    read_job(&Json::parse(text.as_bytes()).unwrap(), version, &Limits::default()).expect(text)
}

fn patch(
    stored: &JobDefinition,
    text: &str,
    version: Version,
) -> Result<JobDefinition, ErrorDetails> {
    let patch = Json::parse(text.as_bytes()).unwrap();
    patch_job(&path(), stored, patch, version, &Limits::default(), &SecretHeaders::default())
}

/// Patches `properties` of a stored job and compares the result, including secrets.
#[track_caller]
fn check(version: Version, stored: &str, changes: &str, expected: &str) {
    let stored = job(&format!(r#"{{"properties":{stored}}}"#), version);
    let patched = patch(&stored, &format!(r#"{{"properties":{changes}}}"#), version).unwrap();
    let expected = job(&format!(r#"{{"properties":{expected}}}"#), version);
    let written = |job| job_with_secrets(job, version).to_string();
    assert_eq!(written(&patched), written(&expected));
    assert_eq!(patched, expected);
}

const BASIC: &str = r#"{"action":{"type":"Http","request":{"uri":"https://a.example/","method":"GET","headers":{"A":"1","B":"2"},"body":"x","authentication":{"type":"Basic","username":"u","password":"p"}}},"state":"disabled"}"#;

fn basic(from: &str, to: &str) -> String {
    assert!(BASIC.contains(from), "{from}");
    BASIC.replace(from, to)
}

#[test]
fn unnamed_members_stay_and_names_are_case_insensitive() {
    for version in [OLD, NEW] {
        check(
            version,
            BASIC,
            r#"{"ACTION":{"Request":{"URI":"https://a.example/x"}}}"#,
            &basic("https://a.example/", "https://a.example/x"),
        );
        check(
            version,
            BASIC,
            r#"{"action":{"request":{"authentication":{"username":"v"}}}}"#,
            &basic(r#""u""#, r#""v""#),
        );
        check(version, BASIC, "{}", BASIC);
    }
}

#[test]
fn null_removes_members() {
    let authentication = r#","authentication":{"type":"Basic","username":"u","password":"p"}"#;
    for version in [OLD, NEW] {
        let removed = basic(authentication, "");
        check(version, BASIC, r#"{"action":{"request":{"authentication":null}}}"#, &removed);
        let removed = basic(r#","body":"x""#, "");
        check(version, BASIC, r#"{"action":{"request":{"body":null}}}"#, &removed);
        check(version, BASIC, r#"{"state":null}"#, BASIC);
    }
    let recurring = basic(r#""state""#, r#""recurrence":{"frequency":"day","count":3},"state""#);
    let endless = basic(r#""state""#, r#""recurrence":{"frequency":"day"},"state""#);
    for version in [OLD, NEW] {
        check(version, &recurring, r#"{"recurrence":null}"#, BASIC);
    }
    check(OLD, &recurring, r#"{"recurrence":{"count":null}}"#, &recurring);
    check(NEW, &recurring, r#"{"recurrence":{"count":null}}"#, &endless);
    check(OLD, BASIC, r#"{"action":{"request":{"headers":null}}}"#, BASIC);
    let bare = basic(r#""headers":{"A":"1","B":"2"},"#, "");
    check(NEW, BASIC, r#"{"action":{"request":{"headers":null}}}"#, &bare);
}

#[test]
fn old_versions_replace_headers_and_the_newest_merges_them() {
    let changes = r#"{"action":{"request":{"headers":{"b":"3"}}}}"#;
    check(OLD, BASIC, changes, &basic(r#"{"A":"1","B":"2"}"#, r#"{"b":"3"}"#));
    check(NEW, BASIC, changes, &basic(r#"{"A":"1","B":"2"}"#, r#"{"A":"1","B":"3"}"#));
    let changes = r#"{"action":{"request":{"headers":{"A":null}}}}"#;
    check(NEW, BASIC, changes, &basic(r#"{"A":"1","B":"2"}"#, r#"{"B":"2"}"#));
}

#[test]
fn lists_are_replaced() {
    let weekly = |days: &str| {
        let recurrence = format!(
            r#""recurrence":{{"frequency":"week","schedule":{{"weekDays":{days}}}}},"state""#
        );
        basic(r#""state""#, &recurrence)
    };
    let changes = r#"{"recurrence":{"schedule":{"weekDays":["friday"]}}}"#;
    check(OLD, &weekly(r#"["monday","tuesday"]"#), changes, &weekly(r#"["friday"]"#));
}

#[test]
fn another_type_discards_the_members_of_the_former() {
    let queue = r#"{"action":{"type":"StorageQueue","queueMessage":{"storageAccount":"account1","queueName":"queue1","sasToken":"t","message":"m"}}"#;
    let changes = format!("{queue}}}");
    for version in [OLD, NEW] {
        check(version, BASIC, &changes, &format!(r#"{queue},"state":"disabled"}}"#));
    }
    // The password of a user must not become the password of a certificate file.
    let changes =
        r#"{"action":{"request":{"authentication":{"type":"ClientCertificate","pfx":"AAAA"}}}}"#;
    let stored = job(&format!(r#"{{"properties":{BASIC}}}"#), OLD);
    let patched = patch(&stored, &format!(r#"{{"properties":{changes}}}"#), OLD).unwrap();
    let Target::Http(request) = patched.action.action.target else { panic!("http") };
    let Some(HttpAuthentication::ClientCertificate { password, .. }) =
        request.authentication.map(|boxed| *boxed)
    else {
        panic!("a certificate")
    };
    assert_eq!(password, None);
}

#[test]
fn retry_policies_and_error_actions_move_into_the_action() {
    let policy = r#"{"retryType":"fixed","retryCount":3}"#;
    let stored = basic(r#""type":"Http""#, r#""retryPolicy":{"retryType":"none"},"type":"Http""#);
    let moved = basic(r#""type":"Http""#, &format!(r#""retryPolicy":{policy},"type":"Http""#));
    for changes in [
        format!(r#"{{"action":{{"retryPolicy":{policy}}}}}"#),
        format!(r#"{{"action":{{"request":{{"retryPolicy":{policy}}}}}}}"#),
        format!(r#"{{"retryPolicy":{policy}}}"#),
    ] {
        check(OLD, &stored, &changes, &moved);
    }
    for written in [
        format!(r#"{{"retryPolicy":{policy},{}"#, &BASIC[1..]),
        basic(r#""method""#, &format!(r#""retryPolicy":{policy},"method""#)),
    ] {
        check(OLD, &written, "{}", &moved);
    }
    let action_wins = format!(r#"{{"retryPolicy":{{"retryType":"none"}},{}"#, &moved[1..]);
    check(OLD, &action_wins, "{}", &moved);
    let error = r#"{"type":"Http","request":{"uri":"https://e.example/","method":"POST"}}"#;
    let placed = basic(r#""type":"Http""#, &format!(r#""errorAction":{error},"type":"Http""#));
    check(OLD, BASIC, &format!(r#"{{"errorAction":{error}}}"#), &placed);
    check(OLD, &placed, r#"{"errorAction":null}"#, BASIC);
}

#[test]
fn a_body_without_properties_is_read_as_properties() {
    let bare = job(BASIC, OLD);
    assert_eq!(bare, job(&format!(r#"{{"properties":{BASIC}}}"#), OLD));
    let changes = r#"{"action":{"request":{"method":"POST"}},"state":"enabled"}"#;
    let patched = patch(&bare, changes, OLD).unwrap();
    let expected = basic("GET", "POST").replace("disabled", "enabled");
    assert_eq!(patched, job(&expected, OLD));
}

#[test]
fn an_old_version_neither_returns_nor_loses_newer_members() {
    let text = r#"{"properties":{"description":"d","tags":{"a":"b"},"overlap":"Allow","timeout":"PT5M","jitter":"PT1S","missedRuns":{"policy":"All"},"action":{"type":"StorageQueue","signing":"On","retryPolicy":{"retryType":"Exponential","retryInterval":"PT30S","maxInterval":"PT1H"},"queueMessage":{"storageAccount":"account1","queueName":"queue1","sasToken":"t","message":"m","messageFormat":"Raw"}},"recurrence":{"frequency":"Day","timeZone":"Europe/Berlin","firstDayOfWeek":"Monday"}}}"#;
    let stored = job(text, NEW);
    let seen = job_with_secrets(&stored, OLD).to_string();
    assert_eq!(
        seen,
        r#"{"properties":{"action":{"queueMessage":{"storageAccount":"account1","queueName":"queue1","sasToken":"t","message":"m"},"type":"StorageQueue","retryPolicy":{"retryType":"fixed","retryInterval":"PT30S"}},"recurrence":{"frequency":"day","interval":1},"state":"enabled"}}"#
    );
    let changes = r#"{"properties":{"description":"mine","overlap":"no such word","action":{"queueMessage":{"message":"n","messageFormat":"Envelope"}},"recurrence":{"timeZone":"Asia/Tokyo","interval":2}}}"#;
    let patched = patch(&stored, changes, OLD).unwrap();
    let expected = text.replace(r#""message":"m""#, r#""message":"n""#);
    let expected = expected.replace(r#""frequency":"Day""#, r#""frequency":"Day","interval":2"#);
    assert_eq!(patched, job(&expected, NEW));
    let Target::StorageQueue(message) = patched.action.action.target else { panic!("a queue") };
    assert_eq!(message.format, MessageFormat::Raw);
}

#[test]
fn collection_tags_are_patched_and_the_oldest_versions_keep_the_premium_plan() {
    let path = path().collection;
    let limits = Limits::default();
    let text = r#"{"location":"westus","tags":{"a":"1","b":"2"},"properties":{"sku":{"name":"P20Premium"},"quota":{"maxJobCount":9,"maxJobOccurrence":4}}}"#;
    let stored = read_collection(&Json::parse(text.as_bytes()).unwrap(), OLD, &limits).unwrap();
    let patch = |text: &'static str, version| {
        let patch = Json::parse(text.as_bytes()).unwrap();
        patch_collection(&path, &stored, patch, version, &limits).unwrap()
    };
    let tags = |text, version| patch(text, version).tags.unwrap_or_default();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(tags(r#"{"tags":{"a":"3"}}"#, OLD), [pair("a", "3")]);
    assert_eq!(tags(r#"{"tags":{"a":"3"}}"#, NEW), [pair("a", "3"), pair("b", "2")]);
    assert_eq!(tags(r#"{"tags":null}"#, OLD), []);
    let oldest = Version::V2014_08_01_Preview;
    let written = write_collection(&path, &stored, oldest).to_string();
    assert!(written.contains(r#""sku":{"name":"Premium"}"#), "{written}");
    let patched = patch(r#"{"properties":{"state":"Disabled"}}"#, oldest);
    assert_eq!(patched.plan, Plan::P20Premium);
    assert_eq!(patched.quota, stored.quota);
    assert_eq!(patch(r#"{"properties":{"sku":{"name":"Free"}}}"#, oldest).plan, Plan::Free);
}
