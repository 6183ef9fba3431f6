//! Definitions collected from templates, acceptance tests, documentation and samples.

use kalends_domain::Limits;
use kalends_wire::{ErrorCode, Json, Version, merge_patch, read_collection, read_job};

use crate::recording_files::{lines, member, text_at};

const OLD: [Version; 3] =
    [Version::V2014_08_01_Preview, Version::V2016_01_01, Version::V2016_03_01];

/// Returns a value for a placeholder in the member `name`.
fn filler(name: &str) -> &'static str {
    match name {
        "uri" => "http://site.example.com",
        "location" => "West US",
        "startTime" => "2019-01-01T00:00:00Z",
        "storageAccount" => "account1",
        "tenant" => "contoso.onmicrosoft.com",
        _ => "filled-in",
    }
}

/// Replaces template expressions such as `[parameters('x')]` and placeholders such as `<tenant>`.
/// Objects come from the parameters of the template.
fn fill(name: &str, value: &mut Json<'static>, parameters: Option<&Json<'static>>) {
    match value {
        Json::String(text) if text.starts_with(['[', '<']) => {
            let parameter = text.strip_prefix("[parameters('").and_then(|t| t.strip_suffix("')]"));
            let given = parameter.and_then(|name| member(parameters?, name));
            *value = given.cloned().unwrap_or_else(|| Json::String(filler(name).into()));
        }
        Json::Object(members) => {
            members.iter_mut().for_each(|(name, value)| fill(name, value, parameters));
        }
        Json::Array(values) => values.iter_mut().for_each(|value| fill(name, value, parameters)),
        _ => {}
    }
}

fn check_job(body: &Json<'static>, label: &str) {
    for version in OLD {
        let read = read_job(body, version, &Limits::default());
        assert!(read.is_ok(), "{label} {version} {body}: {}", read.unwrap_err());
    }
}

fn check_collection(body: &Json<'static>, label: &str) {
    // The API version is not recorded; only the two oldest versions have the plan `Premium`.
    let version = Version::V2016_01_01;
    let read = read_collection(body, version, &Limits::default());
    assert!(read.is_ok(), "{label} {body}: {}", read.unwrap_err());
}

fn check_template(resource: &Json<'static>, label: &str) {
    if text_at(resource, "type").is_some_and(|kind| kind.ends_with("jobs")) {
        return check_job(resource, label);
    }
    check_collection(resource, label);
    if let Some(Json::Array(nested)) = member(resource, "resources") {
        nested.iter().for_each(|job| check_template(job, label));
    }
}

fn parsed(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes()).unwrap()
}

/// Checks a sample response. Some are not valid definitions, for the reasons given below.
fn check_sample_response(response: &Json<'static>, label: &str) {
    let expected = match response {
        // Covered by the history tests.
        _ if text_at(response, "type").is_some_and(|kind| kind.ends_with("history")) => return,
        // Only the service sets this state.
        _ if text_at(response, "properties.state") == Some("completed") => {
            Err(ErrorCode::InvalidJobState)
        }
        // An http URI in an action of type Https.
        _ if text_at(response, "properties.action.type") == Some("https") => {
            Err(ErrorCode::ActionMismatch)
        }
        _ => Ok(()),
    };
    let read = read_job(response, Version::V2016_03_01, &Limits::default());
    assert_eq!(read.map(drop).map_err(|errors| errors.code()), expected, "{label}");
}

#[test]
fn every_collected_definition_is_read() {
    let Some(rows) = lines(|name| name == "real-jobs.jsonl") else { return };
    let mut checked = 0;
    for row in rows {
        let kind = text_at(&row, "kind").unwrap();
        let label = format!("{kind} {}", text_at(&row, "source").unwrap());
        let mut json = member(&row, "json").unwrap().clone();
        fill("", &mut json, member(&row, "params"));
        match kind {
            "recorded-job-PUT" | "recorded-classic-job-PUT" | "terraform-acceptance-test" => {
                check_job(&json, &label);
            }
            "recorded-collection-PUT" => check_collection(&json, &label),
            "arm-template-resource" => check_template(&json, &label),
            "recorded-job-PATCH" => {
                let valid = parsed(
                    r#"{"properties":{"action":{"type":"Http","request":{"uri":"http://example.com","method":"GET"}}}}"#,
                );
                let merged = merge_patch(valid.into_owned(), json, Version::V2016_03_01);
                check_job(&merged, &label);
            }
            "recorded-collection-PATCH" => {
                let valid =
                    parsed(r#"{"location":"West US","properties":{"sku":{"name":"Free"}}}"#);
                let merged = merge_patch(valid.into_owned(), json, Version::V2016_03_01);
                check_collection(&merged, &label);
            }
            // One of the two examples is an action without a job.
            "documentation-example" if member(&json, "action").is_none() => {
                check_job(&Json::Object(vec![("action".into(), json)]), &label);
            }
            "documentation-example" => check_job(&json, &label),
            "sdk-unit-test-sample-response" => check_sample_response(&json, &label),
            // Schedules without a frequency: `documented_schedules` covers them.
            "documentation-schedule-example" => continue,
            other => panic!("{other}"),
        }
        checked += 1;
    }
    assert!(checked >= 117, "only {checked} definitions");
}
