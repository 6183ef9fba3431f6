//! Definitions from where people keep them: templates, acceptance tests, documents, samples.

use kalends_domain::Limits;
use kalends_wire::{ErrorCode, Json, Version, merge_patch, read_collection, read_job};

use crate::shared::{lines, member, text_at};

const OLD: [Version; 3] =
    [Version::V2014_08_01_Preview, Version::V2016_01_01, Version::V2016_03_01];

/// What a tool puts in the place of a placeholder, by the member that holds it.
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

/// Fills in template expressions such as `[parameters('x')]` and placeholders such as `<tenant>`.
/// Whole objects come from the parameters that are given with the template.
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

fn check_job(body: &Json<'static>, place: &str) {
    for version in OLD {
        let read = read_job(body, version, &Limits::default());
        assert!(read.is_ok(), "{place} {version} {body}: {}", read.unwrap_err());
    }
}

fn check_collection(body: &Json<'static>, place: &str) {
    // What a body was sent to is not told; `Premium` is a word of the two oldest versions.
    let version = Version::V2016_01_01;
    let read = read_collection(body, version, &Limits::default());
    assert!(read.is_ok(), "{place} {body}: {}", read.unwrap_err());
}

fn check_template(resource: &Json<'static>, place: &str) {
    if text_at(resource, "type").is_some_and(|kind| kind.ends_with("jobs")) {
        return check_job(resource, place);
    }
    check_collection(resource, place);
    if let Some(Json::Array(nested)) = member(resource, "resources") {
        nested.iter().for_each(|job| check_template(job, place));
    }
}

fn parsed(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes()).unwrap()
}

/// Samples of answers that are no definitions, and why.
fn check_sample_answer(answer: &Json<'static>, place: &str) {
    let expected = match answer {
        // Written by the history tests.
        _ if text_at(answer, "type").is_some_and(|kind| kind.ends_with("history")) => return,
        // A state that only the service sets.
        _ if text_at(answer, "properties.state") == Some("completed") => {
            Err(ErrorCode::InvalidJobState)
        }
        // An address that does not go with its type.
        _ if text_at(answer, "properties.action.type") == Some("https") => {
            Err(ErrorCode::ActionMismatch)
        }
        _ => Ok(()),
    };
    let read = read_job(answer, Version::V2016_03_01, &Limits::default());
    assert_eq!(read.map(drop).map_err(|errors| errors.code()), expected, "{place}");
}

#[test]
fn every_collected_definition_is_read() {
    let Some(rows) = lines(|name| name == "real-jobs.jsonl") else { return };
    let mut checked = 0;
    for row in rows {
        let kind = text_at(&row, "kind").unwrap();
        let place = format!("{kind} {}", text_at(&row, "source").unwrap());
        let mut json = member(&row, "json").unwrap().clone();
        fill("", &mut json, member(&row, "params"));
        match kind {
            "recorded-job-PUT" | "recorded-classic-job-PUT" | "terraform-acceptance-test" => {
                check_job(&json, &place);
            }
            "recorded-collection-PUT" => check_collection(&json, &place),
            "arm-template-resource" => check_template(&json, &place),
            "recorded-job-PATCH" => {
                let good = parsed(
                    r#"{"properties":{"action":{"type":"Http","request":{"uri":"http://example.com","method":"GET"}}}}"#,
                );
                let merged = merge_patch(good.into_owned(), json, Version::V2016_03_01);
                check_job(&merged, &place);
            }
            "recorded-collection-PATCH" => {
                let good = parsed(r#"{"location":"West US","properties":{"sku":{"name":"Free"}}}"#);
                let merged = merge_patch(good.into_owned(), json, Version::V2016_03_01);
                check_collection(&merged, &place);
            }
            // One of the two is an action alone.
            "documentation-example" if member(&json, "action").is_none() => {
                check_job(&Json::Object(vec![("action".into(), json)]), &place);
            }
            "documentation-example" => check_job(&json, &place),
            "sdk-unit-test-sample-response" => check_sample_answer(&json, &place),
            // Schedules without their frequency: `seed_schedules` has them all.
            "documentation-schedule-example" => continue,
            other => panic!("{other}"),
        }
        checked += 1;
    }
    assert!(checked >= 117, "only {checked} definitions");
}
