//! Every member of every job type: missing, null, of each wrong type, empty, with control characters,
//! at its limit and beyond. Errors always have a path and never contain a secret.

use kalends_domain::Limits;
use kalends_wire::{ErrorCode, ErrorDetails, Json, Version, read_collection, read_job};
use serde_json::{Value, json};

const CANARY: &str = "canary-in-a-secret";
const NEW: Version = Version::V2026_11_01;

fn job(action: Value) -> Value {
    json!({"properties": {
        "description": "d", "tags": {"team": "billing"},
        "startTime": "2030-01-01T00:00:00Z",
        "action": action,
        "recurrence": {
            "frequency": "Month", "interval": 2, "count": 3, "endTime": "2031-01-01",
            "timeZone": "Europe/Berlin", "firstDayOfWeek": "Monday",
            "schedule": {
                "minutes": [0], "hours": [1],
                "monthlyOccurrences": [{"day": "Monday", "occurrence": 1}], "months": [1],
            },
        },
        "missedRuns": {"policy": "Last", "within": "PT24H"}, "overlap": "Skip",
        "jitter": "PT30S", "timeout": "PT5M", "state": "Enabled",
    }})
}

fn http(authentication: Value) -> Value {
    json!({
        "uri": "https://example.com/x", "method": "POST", "headers": {"Accept": "*/*"},
        "body": "text", "authentication": authentication,
    })
}

fn service_bus(entity: &str) -> Value {
    json!({
        entity: "entity", "namespace": "namespace-1", "transportType": "AMQP",
        "authentication": {"type": "SharedAccessKey", "sasKeyName": "k", "sasKey": CANARY},
        "message": "m",
        "brokeredMessageProperties": {
            "contentType": "t", "correlationId": "c", "forcePersistence": true, "label": "l",
            "messageId": "m", "partitionKey": "p", "replyTo": "r", "replyToSessionId": "s",
            "scheduledEnqueueTimeUtc": "2030-01-01T00:00:00Z", "sessionId": "s",
            "timeToLive": "PT1H", "to": "t", "viaPartitionKey": "v",
        },
        "customMessageProperties": {"a": "b"},
    })
}

/// Returns a job of every type, with all members of that type.
fn jobs() -> Vec<Value> {
    let basic = json!({"type": "Basic", "username": "u", "password": CANARY});
    let certificate = json!({"type": "ClientCertificate", "pfx": CANARY, "password": CANARY});
    let token = json!({
        "type": "ActiveDirectoryOAuth", "tenant": "contoso.com",
        "audience": "https://example.com/", "clientId": "c", "secret": CANARY,
    });
    let queue = json!({
        "storageAccount": "account1", "queueName": "queue1", "sasToken": CANARY,
        "message": "m", "messageFormat": "Raw",
    });
    let exponential = json!({
        "retryType": "Exponential", "retryInterval": "PT30S", "retryCount": 3,
        "maxInterval": "PT1H", "maxAge": "PT2H",
    });
    let error = json!({"type": "StorageQueue", "queueMessage": queue, "retryPolicy": exponential});
    vec![
        job(json!({
            "type": "Https", "request": http(basic), "retryPolicy": exponential,
            "errorAction": error, "signing": "On",
        })),
        job(json!({"type": "Https", "request": http(certificate)})),
        job(json!({"type": "Http", "request": http(token)})),
        job(json!({"type": "ServiceBusQueue", "serviceBusQueueMessage": service_bus("queueName")})),
        job(json!({"type": "ServiceBusTopic", "serviceBusTopicMessage": service_bus("topicPath")})),
    ]
}

fn collection() -> Value {
    json!({
        "location": "West US", "tags": {"a": "b"},
        "properties": {
            "sku": {"name": "Standard"}, "state": "Enabled",
            "quota": {
                "maxJobCount": 5, "maxJobOccurrence": 1,
                "maxRecurrence": {"frequency": "Hour", "interval": 1},
            },
        },
    })
}

/// Collects JSON pointers to every value below the root.
fn pointers(value: &Value, before: &str, found: &mut Vec<String>) {
    let mut visit = |pointer: String, value: &Value| {
        found.push(pointer.clone());
        pointers(value, &pointer, found);
    };
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| visit(format!("{before}/{name}"), value));
        }
        Value::Array(values) => {
            let values = values.iter().enumerate();
            values.for_each(|(index, value)| visit(format!("{before}/{index}"), value));
        }
        _ => {}
    }
}

fn wrong_values() -> Vec<Value> {
    vec![
        Value::Null,
        json!(true),
        json!(1.5),
        json!(-1),
        json!(i64::MAX),
        json!(""),
        json!("x"),
        json!(" \u{1}\r\n\t\u{7f}"),
        json!("\u{0}"),
        json!("\u{202e}ü\u{1f600}"),
        json!("y".repeat(5_000)),
        json!("z".repeat(20_000)),
        json!([]),
        json!([null]),
        json!([[1]]),
        json!({}),
        json!({"": null}),
        json!({"x": {"y": 1}}),
    ]
}

/// Checks that errors have a path and contain no secret.
fn check_errors(errors: &ErrorDetails, version: Version, label: &str) {
    assert!(!errors.is_empty(), "{label}");
    for error in errors.iter() {
        let is_whole_body = error.code == ErrorCode::JobTooLarge;
        assert!(is_whole_body || !error.path.is_empty(), "{label}: {error}");
        assert!(!error.message.is_empty() && error.message.len() < 1_000, "{label}: {error}");
    }
    let (status, body) = errors.response(version);
    assert_eq!(status, 400, "{label}");
    assert!(!body.contains(CANARY), "{label}: {body}");
    assert!(serde_json::from_str::<Value>(&body).is_ok(), "{label}: {body}");
}

fn check_all(good: &Value, read: impl Fn(&Json<'_>, Version) -> Result<(), ErrorDetails>) {
    let mut all = Vec::new();
    pointers(good, "", &mut all);
    let check = |body: &Value, version, label: &str| {
        let text = body.to_string();
        let read = Json::parse(text.as_bytes()).and_then(|body| read(&body, version));
        if let Err(errors) = read {
            check_errors(&errors, version, label);
        }
    };
    for version in Version::ALL {
        for pointer in &all {
            for wrong in wrong_values() {
                let mut body = good.clone();
                *body.pointer_mut(pointer).unwrap() = wrong;
                check(&body, version, &format!("{version} {pointer}"));
            }
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            let mut body = good.clone();
            if let Some(Value::Object(members)) = body.pointer_mut(parent) {
                members.remove(name);
                check(&body, version, &format!("{version} without {pointer}"));
            }
        }
    }
}

#[test]
fn every_error_of_a_member_has_a_path() {
    for good in jobs() {
        let text = good.to_string();
        let body = Json::parse(text.as_bytes()).unwrap();
        for version in Version::ALL
            .into_iter()
            .filter(|version| !text.contains("Exponential") || !version.is_old())
        {
            let read = read_job(&body, version, &Limits::default());
            assert!(read.is_ok(), "{version} {text}: {}", read.unwrap_err());
        }
        check_all(&good, |body, version| read_job(body, version, &Limits::default()).map(drop));
    }
    check_all(&collection(), |body, version| {
        read_collection(body, version, &Limits::default()).map(drop)
    });
}

/// Reads a job with `value` at `pointer`, without a limit of the whole body.
fn with(good: &Value, pointer: &str, value: Value) -> Result<(), ErrorDetails> {
    let mut body = good.clone();
    *body.pointer_mut(pointer).unwrap() = value;
    let text = body.to_string();
    let limits = Limits { job_bytes_max: 1_000_000, ..Limits::default() };
    read_job(&Json::parse(text.as_bytes())?, NEW, &limits).map(drop)
}

#[test]
fn every_limit_is_exact() {
    let jobs = jobs();
    let text = |length: usize| json!("x".repeat(length));
    let map = |count: usize| -> Value {
        (0..count).map(|number| (format!("m{number}"), json!("x"))).collect()
    };
    let request = "/properties/action/request";
    let bus = "/properties/action/serviceBusQueueMessage";
    let error = "/properties/action/errorAction";
    let limit = |job: usize, pointer: &str, at: Value, beyond: Value, code: ErrorCode| {
        let what = |errors: ErrorDetails| errors.iter().next().map(|error| error.code);
        assert_eq!(with(&jobs[job], pointer, at).map_err(what), Ok(()), "{pointer}");
        assert_eq!(with(&jobs[job], pointer, beyond).map_err(what), Err(Some(code)), "{pointer}");
    };
    let uri = |length: usize| json!(format!("https://h/{}", "x".repeat(length - 10)));
    limit(0, &format!("{request}/uri"), uri(2_048), uri(2_049), ErrorCode::InvalidUri);
    limit(0, &format!("{request}/body"), text(8_192), text(8_193), ErrorCode::BodyTooLarge);
    limit(0, &format!("{request}/headers"), map(50), map(51), ErrorCode::TooManyHeaders);
    let long = |length: usize| json!({"x": "y".repeat(length - 1)});
    limit(0, &format!("{request}/headers"), long(4_096), long(4_097), ErrorCode::HeadersTooLarge);
    let code = ErrorCode::InvalidStorageMessage;
    limit(0, &format!("{error}/queueMessage/message"), text(49_152), text(49_153), code);
    let code = ErrorCode::InvalidRetryPolicy;
    for policy in ["/properties/action/retryPolicy", &format!("{error}/retryPolicy")] {
        limit(0, &format!("{policy}/retryCount"), json!(20), json!(21), code);
        let interval = format!("{policy}/retryInterval");
        limit(0, &interval, json!("PT15S"), json!("00:00:14.9999999"), code);
        limit(0, &interval, json!("558.00:00:00"), json!("P558DT1S"), code);
    }
    limit(0, "/properties/timeout", json!("PT30M"), json!("PT30M1S"), ErrorCode::InvalidTimeout);
    let code = ErrorCode::InvalidDescription;
    limit(0, "/properties/description", json!("ü".repeat(1_024)), text(1_025), code);
    limit(0, "/properties/tags", map(15), map(16), ErrorCode::InvalidTag);
    limit(0, "/properties/tags/team", text(256), text(257), ErrorCode::InvalidTag);
    let named = |length: usize| json!({"n".repeat(length): ""});
    limit(0, "/properties/tags", named(512), named(513), ErrorCode::InvalidTag);
    let pfx = format!("{request}/authentication/pfx");
    limit(1, &pfx, text(16_384), text(16_388), ErrorCode::InvalidClientCertificate);
    let custom = format!("{bus}/customMessageProperties");
    limit(3, &custom, map(100), map(101), ErrorCode::InvalidBrokeredProperty);
}

#[test]
fn the_size_limit_of_a_job_applies_to_its_compact_form() {
    let text = jobs().swap_remove(0).to_string();
    let body = Json::parse(text.as_bytes()).unwrap();
    let read = |max| {
        let limits = Limits { job_bytes_max: max, ..Limits::default() };
        read_job(&body, NEW, &limits).map(drop).map_err(|errors| errors.code())
    };
    assert_eq!(read(text.len()), Ok(()));
    assert_eq!(read(text.len() - 1), Err(ErrorCode::JobTooLarge));
}
