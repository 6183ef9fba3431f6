//! The catalogue of bad input: the expected errors of the newest version and of an old one.

use kalends_domain::{
    CollectionFacts, CollectionName, CollectionPath, EgressPolicy, GroupName, GroupPath, JobName,
    JobPath, Limits, PlanLimits, SubscriptionId, Target, ValidationError, check_collection,
    check_end_time, check_job, facts_of,
};
use kalends_recurrence::{Definition, Instant, Rule, Settings};
use kalends_wire::{ErrorCode, ErrorDetails, Json, Version, patch_job, read_collection, read_job};
use serde_json::{Value, json};

use crate::catalogue::{body, rows, valid_collection, valid_job};

const CREATED: &str = "2029-12-01T00:00:00Z";
const OLD: Version = Version::V2016_03_01;
const NEW: Version = Version::V2026_11_01;

pub(crate) fn path() -> JobPath {
    let subscription = SubscriptionId::new("00000000-0000-0000-0000-000000000001").unwrap();
    let group = GroupPath { subscription, group: GroupName::new("group-1").unwrap() };
    let collection = CollectionPath { group, collection: CollectionName::new("jc1").unwrap() };
    JobPath { collection, job: JobName::new("j1").unwrap() }
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
    let definition =
        Definition { start: job.start, created, recurrence: job.recurrence.as_deref().cloned() };
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
