//! `startTime` and `endTime` without an offset.

use kalends_domain::{JobDefinition, Limits};
use kalends_wire::{Json, Version, patch_job, read_job};

use crate::bad_input::path;

const NEW: Version = Version::V2026_11_01;
const OLD: Version = Version::V2016_03_01;

fn body(start: &str, end: &str, zone: &str) -> String {
    let action = r#"{"type":"Http","request":{"uri":"http://example.com/","method":"GET"}}"#;
    let recurrence = format!(r#"{{"frequency":"Day","endTime":"{end}"{zone}}}"#);
    format!(
        r#"{{"properties":{{"startTime":"{start}","action":{action},"recurrence":{recurrence}}}}}"#
    )
}

fn read(text: &str, version: Version) -> JobDefinition {
    read_job(&Json::parse(text.as_bytes()).unwrap(), version, &Limits::default()).unwrap()
}

fn times(job: &JobDefinition) -> [String; 2] {
    let end = job.recurrence.as_ref().and_then(|recurrence| recurrence.end);
    [job.start, end].map(|at| at.unwrap().to_string())
}

#[test]
fn times_without_an_offset_are_wall_times_of_the_time_zone() {
    let berlin = r#","timeZone":"Europe/Berlin""#;
    let check = |start: &str, end: &str, version: Version, expected: [&str; 2]| {
        assert_eq!(times(&read(&body(start, end, berlin), version)), expected, "{start} {end}");
    };
    let (winter, day) = ("2026-11-20T02:30:00", "2027-07-01");
    check(winter, day, NEW, ["2026-11-20T01:30:00Z", "2027-06-30T22:00:00Z"]);
    check(winter, day, OLD, ["2026-11-20T02:30:00Z", "2027-07-01T00:00:00Z"]);
    // An offset takes precedence.
    let (utc, offset) = ("2026-11-20T02:30:00Z", "2027-07-01T00:00:00-05:00");
    check(utc, offset, NEW, ["2026-11-20T02:30:00Z", "2027-07-01T05:00:00Z"]);
    // The DST gap of 28 March and the DST overlap of 31 October 2027.
    let (gap, overlap) = ("2027-03-28T02:30:00", "2027-10-31T02:30:00");
    check(gap, overlap, NEW, ["2027-03-28T01:30:00Z", "2027-10-31T00:30:00Z"]);
}

#[test]
fn times_without_an_offset_and_a_time_zone_are_utc() {
    let job = read(&body("2026-11-20T02:30:00", "2027-07-01", ""), NEW);
    assert_eq!(times(&job), ["2026-11-20T02:30:00Z", "2027-07-01T00:00:00Z"]);
}

#[test]
fn a_patch_reads_wall_times_in_the_time_zone_of_the_job_and_moves_no_other_time() {
    let job = read(&body("2026-11-20", "2027-07-01", r#","timeZone":"Europe/Berlin""#), NEW);
    let patched = |patch: &str, version| {
        let patch = Json::parse(patch.as_bytes()).unwrap();
        times(
            &patch_job(&path(), &job, patch, version, &Limits::default(), &Default::default())
                .unwrap(),
        )
    };
    let end = r#"{"properties":{"recurrence":{"endTime":"2027-08-01"}}}"#;
    assert_eq!(patched(end, NEW), ["2026-11-19T23:00:00Z", "2027-07-31T22:00:00Z"]);
    assert_eq!(patched(end, OLD), ["2026-11-19T23:00:00Z", "2027-08-01T00:00:00Z"]);
    let zone = r#"{"properties":{"recurrence":{"timeZone":"Asia/Tokyo"}}}"#;
    assert_eq!(patched(zone, NEW), times(&job));
}
