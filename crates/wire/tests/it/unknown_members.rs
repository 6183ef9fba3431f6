//! Members that the API does not have: ignored by the old versions, rejected by the newest with the
//! nearest known member.

use kalends_domain::Limits;
use kalends_wire::{ErrorDetails, Json, Version, patch_collection, patch_job};
use kalends_wire::{read_collection, read_job};
use serde_json::{Value, json};

use crate::bad_input::path;

const OLD: Version = Version::V2016_03_01;
const NEW: Version = Version::V2026_11_01;

fn job() -> Value {
    json!({"properties": {
        "action": {
            "type": "Https",
            "request": {
                "uri": "https://example.com/", "method": "GET", "headers": {"X-Any": "1"},
                "authentication": {"type": "Basic", "username": "u", "password": "p"},
            },
            "retryPolicy": {"retryType": "Fixed"},
            "errorAction": {
                "type": "ServiceBusQueue",
                "serviceBusQueueMessage": {
                    "queueName": "q", "namespace": "namespace-1", "message": "m",
                    "authentication": {"type": "SharedAccessKey", "sasKeyName": "k", "sasKey": "s"},
                    "brokeredMessageProperties": {"label": "l"},
                    "customMessageProperties": {"any": "thing"},
                },
            },
        },
        "recurrence": {
            "frequency": "Month",
            "schedule": {"monthlyOccurrences": [{"day": "Monday", "occurrence": 1}]},
        },
        "tags": {"any": "thing"}, "missedRuns": {"policy": "Last"},
    }})
}

fn collection() -> Value {
    json!({"location": "West US", "tags": {"any": "thing"}, "properties": {
        "sku": {"name": "Standard"}, "quota": {"maxRecurrence": {"frequency": "Day"}},
    }})
}

fn read(body: &Value, version: Version) -> Result<(), ErrorDetails> {
    let text = body.to_string();
    let body = Json::parse(text.as_bytes())?;
    match text.contains("\"sku\"") {
        true => read_collection(&body, version, &Limits::default()).map(drop),
        false => read_job(&body, version, &Limits::default()).map(drop),
    }
}

/// Adds a member to the object at `parent` of a body and returns the target and the message of the
/// newest version; the old versions accept the body.
#[track_caller]
fn rejected(mut body: Value, parent: &str, name: &str) -> (String, String) {
    let object = body.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    object.insert(name.to_owned(), json!(1));
    assert_eq!(read(&body, OLD), Ok(()), "{body}");
    let errors = read(&body, NEW).unwrap_err();
    let (status, response) = errors.response(NEW);
    let response: Value = serde_json::from_str(&response).unwrap();
    let error = &response["error"];
    assert_eq!((status, &error["code"]), (400, &json!("UnknownProperty")), "{response}");
    let text = |member: &str| error[member].as_str().unwrap().to_owned();
    (text("target"), text("message"))
}

#[test]
fn unknown_members_are_rejected_at_every_depth() {
    let objects = [
        "",
        "/properties",
        "/properties/action",
        "/properties/action/request",
        "/properties/action/request/authentication",
        "/properties/action/retryPolicy",
        "/properties/action/errorAction",
        "/properties/action/errorAction/serviceBusQueueMessage",
        "/properties/action/errorAction/serviceBusQueueMessage/authentication",
        "/properties/action/errorAction/serviceBusQueueMessage/brokeredMessageProperties",
        "/properties/recurrence",
        "/properties/recurrence/schedule",
        "/properties/recurrence/schedule/monthlyOccurrences/0",
        "/properties/missedRuns",
    ];
    assert_eq!(read(&job(), NEW), Ok(()));
    for parent in objects {
        let (target, message) = rejected(job(), parent, "zzzzzz");
        let path = format!("{}.zzzzzz", parent.replace("/0", "[0]").replace('/', "."));
        assert_eq!(target, path.trim_start_matches('.'));
        assert!(message.starts_with(&target), "{message}");
        assert!(!message.contains("did you mean"), "{message}");
    }
    assert_eq!(read(&collection(), NEW), Ok(()));
    for parent in ["", "/properties", "/properties/sku", "/properties/quota"] {
        rejected(collection(), parent, "zzzzzz");
    }
    rejected(collection(), "/properties/quota/maxRecurrence", "count");
    let (target, message) = rejected(collection(), "", "resources");
    assert_eq!(target, "resources");
    assert!(message.contains("nested resources"), "{message}");
}

#[test]
fn an_unknown_member_names_the_nearest_known_one() {
    let schedule = "/properties/recurrence/schedule";
    let request = "/properties/action/request";
    for (parent, name, nearest) in [
        ("/properties", "recurence", "recurrence"),
        ("/properties", "start_time", "startTime"),
        ("/properties", "start-time", "startTime"),
        ("/properties", "tag", "tags"),
        ("/properties", "timeZone", "properties.recurrence.timeZone"),
        ("/properties", "hours", "properties.recurrence.schedule.hours"),
        ("", "startTime", "properties.startTime"),
        ("/properties/recurrence", "hour", "properties.recurrence.schedule.hours"),
        ("/properties/recurrence", "freqency", "frequency"),
        ("/properties/recurrence", "time_zone", "timeZone"),
        (schedule, "hour", "hours"),
        (schedule, "minute", "minutes"),
        (schedule, "weekday", "weekDays"),
        (request, "url", "uri"),
        (request, "header", "headers"),
        (request, "verb", "method"),
        ("/properties/action", "url", "properties.action.request.uri"),
        ("/properties/action/errorAction", "uri", "properties.action.errorAction.request.uri"),
        ("/properties/action/retryPolicy", "count", "retryCount"),
    ] {
        let (_, message) = rejected(job(), parent, name);
        let expected = format!("; did you mean {nearest}?");
        assert!(message.ends_with(&expected), "{parent} {name}: {message}");
    }
}

#[test]
fn members_that_a_response_contains_are_accepted_and_ignored() {
    let mut body = job();
    body["id"] = json!("/subscriptions/x");
    body["name"] = json!("other/name");
    body["type"] = json!("Microsoft.Scheduler/jobCollections/jobs");
    body["properties"]["status"] = json!({"executionCount": 3, "any": 1});
    let authentication = &mut body["properties"]["action"]["request"]["authentication"];
    for name in [
        "certificateThumbprint",
        "certificateExpiration",
        "certificateExpirationDate",
        "certificateSubjectName",
    ] {
        authentication[name] = json!("x");
    }
    assert_eq!(read(&body, NEW), Ok(()));
    let mut unwrapped = body["properties"].clone();
    unwrapped["name"] = json!("x");
    assert_eq!(read(&unwrapped, NEW), Ok(()), "a body without properties");
    let mut body = collection();
    body["id"] = json!("x");
    body["properties"]["quota"]["maxJobOccurrence"] = json!(7);
    assert_eq!(read(&body, NEW), Ok(()));
}

#[test]
fn a_patch_with_an_unknown_member_is_rejected() {
    let limits = Limits::default();
    let text = job().to_string();
    let stored = read_job(&Json::parse(text.as_bytes()).unwrap(), NEW, &limits).unwrap();
    let patch = |text: &str, version| {
        let patch = Json::parse(text.as_bytes()).unwrap();
        patch_job(&path(), &stored, patch, version, &limits, &Default::default())
    };
    for (text, target) in [
        (r#"{"properties":{"recurrence":{"hour":[1]}}}"#, "properties.recurrence.hour"),
        (r#"{"properties":{"desription":null}}"#, "properties.desription"),
        (r#"{"tags":{}}"#, "tags"),
    ] {
        assert!(patch(text, OLD).is_ok());
        let errors = patch(text, NEW).unwrap_err();
        let found: Vec<_> =
            errors.iter().map(|error| (error.code.as_str(), error.path.as_str())).collect();
        assert_eq!(found, [("UnknownProperty", target)]);
    }
    let kept = patch(r#"{"properties":{"retryPolicy":{"retryType":"None"}}}"#, NEW);
    assert!(kept.is_ok(), "retryPolicy is accepted beside action");

    let text = collection().to_string();
    let stored = read_collection(&Json::parse(text.as_bytes()).unwrap(), NEW, &limits).unwrap();
    let patch = Json::parse(br#"{"properties":{"sku":{"tier":"Gold"}}}"#).unwrap();
    let errors = patch_collection(&path().collection, &stored, patch, NEW, &limits).unwrap_err();
    assert!(errors.to_string().contains("properties.sku.tier"), "{errors}");
}
