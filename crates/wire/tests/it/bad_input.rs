//! The catalogue of bad input: changes to a valid body, and the expected error of the newest version
//! and of an old one.
//!
//! A row has an `id`, the members to `set` or `remove` (or a complete `body`), and the expected
//! `status`, `code` and `target`. `old` or `new` names the version that accepts a body which the other
//! rejects. `left` gives the reason why other tests cover the row. `$repeat`, `$list`, `$members` and
//! `$name` stand for long values.

use kalends_domain::{
    CollectionFacts, CollectionName, CollectionPath, EgressPolicy, GroupName, GroupPath, JobName,
    JobPath, Limits, PlanLimits, SubscriptionId, Target, ValidationError, check_collection,
    check_end_time, check_job, facts_of,
};
use kalends_recurrence::{Definition, Instant, Rule, Settings};
use kalends_wire::{ErrorCode, ErrorDetails, Json, Version, patch_job, read_collection, read_job};
use serde_json::{Value, json};

const CREATED: &str = "2029-12-01T00:00:00Z";
const OLD: Version = Version::V2016_03_01;
const NEW: Version = Version::V2026_11_01;

fn valid_job() -> Value {
    json!({"properties": {
        "startTime": "2030-01-01T00:00:00Z",
        "action": {"type": "Http", "request": {"uri": "http://example.com/x", "method": "GET"}},
        "recurrence": {"frequency": "Day", "interval": 1},
        "state": "Enabled",
    }})
}

fn valid_collection() -> Value {
    json!({"location": "West US", "properties": {"sku": {"name": "Standard"}}})
}

pub(crate) fn path() -> JobPath {
    let subscription = SubscriptionId::new("00000000-0000-0000-0000-000000000001").unwrap();
    let group = GroupPath { subscription, group: GroupName::new("group-1").unwrap() };
    let collection = CollectionPath { group, collection: CollectionName::new("jc1").unwrap() };
    JobPath { collection, job: JobName::new("j1").unwrap() }
}

/// Expands placeholders of long values.
fn expanded(value: &Value) -> Value {
    let Value::Object(members) = value else {
        return match value {
            Value::Array(values) => values.iter().map(expanded).collect(),
            other => other.clone(),
        };
    };
    let count = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    match members.iter().next().map(|(name, value)| (name.as_str(), value)) {
        Some(("$repeat", Value::Array(parts))) => {
            let [before @ .., text, times] = parts.as_slice() else { panic!("{value}") };
            let before: String = before.iter().map(|part| part.as_str().unwrap()).collect();
            format!("{before}{}", text.as_str().unwrap().repeat(count(times))).into()
        }
        Some(("$list", Value::Array(parts))) => vec![parts[0].clone(); count(&parts[1])].into(),
        Some(("$members", times)) => {
            (0..count(times)).map(|number| (format!("m{number}"), Value::from("x"))).collect()
        }
        Some(("$name", times)) => json!({"n".repeat(count(times)): "x"}),
        _ => members.iter().map(|(name, value)| (name.clone(), expanded(value))).collect(),
    }
}

/// Sets the value at a path such as `properties.action.type`, or removes it.
fn edit(body: &mut Value, path: &str, value: Option<&Value>) {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let parent = parent.split('.').filter(|part| !part.is_empty()).fold(body, |body, part| {
        body.as_object_mut().unwrap().entry(part).or_insert_with(|| json!({}))
    });
    let parent = parent.as_object_mut().unwrap();
    match value {
        Some(value) => parent.insert(name.to_owned(), expanded(value)),
        None => parent.remove(name),
    };
}

/// Builds the request body of a row.
fn body(row: &Value, valid: Value) -> Vec<u8> {
    if let Some(text) = row["body"].as_str() {
        return text.into();
    }
    if let Some(parts) = row["repeat_body"].as_array() {
        let times = usize::try_from(parts[1].as_u64().unwrap()).unwrap();
        return parts[0].as_str().unwrap().repeat(times).into();
    }
    if let Some(digits) = row["body_hex"].as_str() {
        let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        return pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
    }
    let mut body = valid;
    for (path, value) in row["set"].as_object().into_iter().flatten() {
        edit(&mut body, path, Some(value));
    }
    for path in row["remove"].as_array().into_iter().flatten() {
        edit(&mut body, path.as_str().unwrap(), None);
    }
    body.to_string().into()
}

/// Runs all checks of a job that need no store.
fn validate_job(row: &Value, version: Version) -> Result<(), ErrorDetails> {
    let limits = Limits::default();
    let job = match row["method"].as_str() {
        Some("PATCH") => {
            let valid = valid_job().to_string();
            let stored = read_job(&Json::parse(valid.as_bytes())?, version, &limits)?;
            let text = body(row, json!({}));
            patch_job(&path(), &stored, Json::parse(&text)?, version, &limits, &Default::default())?
        }
        _ => {
            let text = body(row, valid_job());
            read_job(&Json::parse(&text)?, version, &limits)?
        }
    };
    let error = job.action.error_action.as_ref().map(|error| &error.action);
    let actions = [("action", Some(&job.action.action)), ("action.errorAction", error)];
    for (member, action) in actions {
        if let Some(Target::Http(request)) = action.map(|action| &action.target) {
            let checked = EgressPolicy::default().check_uri(&request.uri, &path().collection);
            let member = format!("{member}.request.uri");
            checked.map_err(|error| ErrorDetails::from_validation_error(&member, error))?;
        }
    }
    let created: Instant = CREATED.parse().unwrap();
    let definition = Definition { start: job.start, created, recurrence: job.recurrence.clone() };
    let rule =
        Rule::new(definition, &Settings::default()).map_err(ErrorDetails::from_rule_errors)?;
    if version == NEW {
        let checked = check_end_time(None, &job, &rule, created);
        checked.map_err(ErrorDetails::from_rule_errors)?;
    }
    if row["collection"].is_object() {
        let text = row["collection"].to_string();
        let collection = read_collection(&Json::parse(text.as_bytes())?, version, &limits)?;
        check_job(&facts_of(&job, &rule), &collection, PlanLimits::On).map_err(at_member)?;
    }
    Ok(())
}

fn validate_collection(row: &Value, version: Version) -> Result<(), ErrorDetails> {
    let text = body(row, valid_collection());
    let collection = read_collection(&Json::parse(&text)?, version, &Limits::default())?;
    check_collection(&collection, &CollectionFacts::default(), 0, PlanLimits::On).map_err(at_member)
}

fn at_member((member, error): (&'static str, ValidationError)) -> ErrorDetails {
    ErrorDetails::from_validation_error(member, error)
}

fn check(row: &Value, version: Version) {
    let result = match row["kind"].as_str() {
        Some("collection") => validate_collection(row, version),
        _ => validate_job(row, version),
    };
    let accepted_by = if version == NEW { &row["new"] } else { &row["old"] };
    let Some(code) = row["code"].as_str().filter(|_| accepted_by.is_null()) else {
        assert_eq!(result, Ok(()), "{version} {row}");
        return;
    };
    let Err(errors) = result else { panic!("{version} accepts {row}") };
    let (status, text) = errors.response(version);
    let response: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(u64::from(status), row["status"].as_u64().unwrap(), "{version} {row} {text}");
    let error = &response["error"];
    let target = row["target"].as_str().unwrap_or_default();
    if version == NEW {
        assert_eq!(error["code"], code, "{row} {text}");
        assert_eq!(error["target"].as_str().unwrap_or_default(), target, "{row} {text}");
        assert!(error["details"].as_array().unwrap().len() <= 20);
    } else {
        let known = ErrorCode::ALL.iter().find(|known| known.as_str() == code).expect(code);
        assert_eq!(error["code"], known.as_old_str(), "{row} {text}");
        assert!(error["message"].as_str().unwrap().contains(target), "{row} {text}");
        assert_eq!(error.as_object().unwrap().len(), 2, "{row} {text}");
    }
    assert!(!error["message"].as_str().unwrap().is_empty(), "{row}");
}

fn rows() -> Vec<Value> {
    let text = include_str!("../data/bad-input.jsonl");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn bad_input_is_rejected_with_status_code_and_target() {
    for row in rows().iter().filter(|row| row["left"].is_null()) {
        check(row, NEW);
        check(row, OLD);
    }
}

#[test]
fn every_row_of_the_catalogue_is_tested_or_gives_a_reason() {
    let rows = rows();
    for id in 45..=125 {
        assert!(rows.iter().any(|row| row["id"] == id), "{id}");
    }
    assert!(rows.iter().all(|row| row["left"].is_null() || row["left"].is_string()));
}

#[test]
fn details_list_all_errors_and_quote_input_briefly() {
    let text = json!({"properties": {
        "startTime": "x".repeat(5_000), "state": "on",
        "action": {"type": "Http", "request": {"uri": "x", "method": "y"}},
    }});
    let text = text.to_string();
    let errors =
        read_job(&Json::parse(text.as_bytes()).unwrap(), NEW, &Limits::default()).unwrap_err();
    let response: Value = serde_json::from_str(&errors.response(NEW).1).unwrap();
    let details = response["error"]["details"].as_array().unwrap();
    let targets: Vec<_> = details.iter().map(|one| one["target"].as_str().unwrap()).collect();
    let request = "properties.action.request";
    let (uri, method) = (format!("{request}.uri"), format!("{request}.method"));
    assert_eq!(targets, ["properties.startTime", &uri, &method, "properties.state"]);
    assert!(errors.response(NEW).1.len() < 1_200, "{response}");
}
