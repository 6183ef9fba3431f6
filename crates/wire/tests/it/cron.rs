//! `recurrence.cron`.

use kalends_domain::{JobDefinition, Limits, SecretHeaders};
use kalends_recurrence::RecurrencePattern;
use kalends_wire::{
    ErrorDetails, Json, Version, job_with_secrets, keep_extensions, patch_job, read_job,
};

use crate::bad_input::path;

const OLD: Version = Version::V2016_03_01;
const NEW: Version = Version::V2026_11_01;

fn body(recurrence: &str) -> String {
    let action = r#"{"type":"Http","request":{"uri":"http://example.com/","method":"GET"}}"#;
    format!(r#"{{"properties":{{"action":{action}{recurrence}}}}}"#)
}

fn read(recurrence: &str, version: Version) -> Result<JobDefinition, ErrorDetails> {
    let text = body(recurrence);
    read_job(&Json::parse(text.as_bytes()).unwrap(), version, &Limits::default())
}

fn job(recurrence: &str) -> JobDefinition {
    read(recurrence, NEW).unwrap()
}

fn patch(stored: &JobDefinition, recurrence: &str, version: Version) -> JobDefinition {
    let text = format!(r#"{{"properties":{{"recurrence":{recurrence}}}}}"#);
    let patch = Json::parse(text.as_bytes()).unwrap();
    let secret_headers = SecretHeaders::default();
    patch_job(&path(), stored, patch, version, &Limits::default(), &secret_headers).unwrap()
}

fn written(job: &JobDefinition, version: Version) -> String {
    job_with_secrets(job, version).to_string()
}

const WEEKDAYS: &str =
    r#","recurrence":{"cron":"0 2 * * MON-FRI","count":3,"timeZone":"Europe/Berlin"}"#;
/// No schedule is equal to it.
const FRIDAY_13: &str = r#","recurrence":{"cron":"0 2 13 * 5"}"#;

#[test]
fn an_expression_is_returned_as_written() {
    let expected =
        r#""recurrence":{"cron":"0 2 * * MON-FRI","count":3,"timeZone":"Europe/Berlin"}"#;
    assert!(written(&job(WEEKDAYS), NEW).contains(expected), "{}", written(&job(WEEKDAYS), NEW));
}

#[test]
fn old_versions_see_an_equal_schedule_or_no_recurrence() {
    let old = written(&job(WEEKDAYS), OLD);
    let expected = r#""recurrence":{"frequency":"week","count":3,"interval":1,"schedule":{"minutes":[0],"hours":[2],"weekDays":["monday","tuesday","wednesday","thursday","friday"]}}"#;
    assert!(old.contains(expected), "{old}");
    let old = written(&job(FRIDAY_13), OLD);
    assert!(!old.contains("recurrence"), "{old}");
}

#[test]
fn edits_of_old_versions_keep_an_expression_that_they_do_not_change() {
    for stored in [job(WEEKDAYS), job(FRIDAY_13)] {
        let seen = written(&stored, OLD);
        let mut edited =
            read_job(&Json::parse(seen.as_bytes()).unwrap(), OLD, &Limits::default()).unwrap();
        keep_extensions(&stored, &mut edited);
        assert_eq!(edited.recurrence, stored.recurrence);
    }
    let changed = patch(&job(WEEKDAYS), r#"{"frequency":"day","schedule":{"hours":[3]}}"#, OLD);
    let recurrence = changed.recurrence.unwrap();
    assert!(matches!(recurrence.pattern, RecurrencePattern::Interval(_)), "{recurrence:?}");
    assert_eq!(recurrence.zone.unwrap().name(), "Europe/Berlin");
}

#[test]
fn a_patch_replaces_a_schedule_by_an_expression_and_the_other_way_round() {
    let daily = r#","recurrence":{"frequency":"Day","count":3,"schedule":{"hours":[2]}}"#;
    let patched = patch(&job(daily), r#"{"cron":"0 2 * * *"}"#, NEW);
    assert_eq!(patched, job(r#","recurrence":{"cron":"0 2 * * *","count":3}"#));
    let patched = patch(&job(FRIDAY_13), r#"{"frequency":"Day"}"#, NEW);
    assert_eq!(patched, job(r#","recurrence":{"frequency":"Day"}"#));
    let patched = patch(&job(FRIDAY_13), r#"{"count":5}"#, NEW);
    assert_eq!(patched, job(r#","recurrence":{"cron":"0 2 13 * 5","count":5}"#));
}

#[test]
fn invalid_expressions_are_rejected_with_the_field() {
    let error = |recurrence: &str| read(recurrence, NEW).unwrap_err().to_string();
    let range = error(r#","recurrence":{"cron":"61 2 * * *"}"#);
    assert!(range.contains("recurrence.cron") && range.contains("minute must be 0-59"), "{range}");
    let both = error(r#","recurrence":{"cron":"0 2 * * *","frequency":"Day"}"#);
    assert!(both.contains("recurrence.frequency") && both.contains("recurrence.cron"), "{both}");
    let old = read(r#","recurrence":{"cron":"0 2 * * *"}"#, OLD).unwrap_err().to_string();
    assert!(old.contains("recurrence.frequency"), "{old}");
}
