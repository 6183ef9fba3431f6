//! Edits of jobs: the time they go by, previews, finished jobs, and schedules that have ended.

use std::sync::Arc;

use jiff::Timestamp;
use kalends_domain::{JobName, JobPath, Lifecycle, OpenRunsMax};
use kalends_environment::{Clock as _, ManualClock};
use kalends_recurrence::Instant;
use kalends_server::Settings;
use kalends_store::record::{Disposition, JobRecord, JobState, Progress};
use kalends_store::{
    Advance, ApiStore as _, DueJob, EngineStore as _, JobContext, JobPut, JobWrite, RunWrite,
    WaitingRuns,
};
use kalends_wire::Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::search::{collection, jobs};
use crate::test_server::{COLLECTION, Server, start_at};

const NEW: &str = "2026-11-01";
const OLD: &str = "2016-03-01";
const STANDARD: &str = r#"{"location":"West US","properties":{"sku":{"name":"Standard"}}}"#;

fn clock(now: &str) -> Arc<ManualClock> {
    Arc::new(ManualClock::new(now.parse::<Timestamp>().unwrap()))
}

/// A server whose clock stands still, and a collection.
struct Api {
    server: Server,
    clock: Arc<ManualClock>,
}

impl Api {
    async fn at(now: &str) -> Api {
        let clock = clock(now);
        let server = start_at(Settings::default(), None, clock.clone(), clock.clone()).await;
        let api = Api { server, clock };
        assert_eq!(api.request("PUT", COLLECTION, STANDARD).await.0, 201);
        api
    }

    fn set(&self, now: &str) {
        self.clock.set(now.parse().unwrap());
    }

    /// Sends a request; returns the status and the body.
    async fn request(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.server.address).await.unwrap();
        let head = "Host: localhost\r\nConnection: close\r\nContent-Type: application/json";
        let length = body.len();
        let request =
            format!("{method} {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Sends a request about the job `j` in an API version.
    async fn job(&self, method: &str, below: &str, body: &str, version: &str) -> (u16, String) {
        let path = jobs(&format!("/j{below}")).replace(NEW, version);
        self.request(method, &path, body).await
    }

    async fn stored(&self) -> JobRecord {
        self.server.store.job(path()).await.unwrap().unwrap().0
    }

    /// Sets the state of the job as runs would have done.
    async fn set_state(&self, state: JobState) {
        let decide = move |context: JobContext<'_>| {
            let job = &context.existing.unwrap().job;
            Ok(JobWrite::Put(Box::new(JobPut {
                uid: job.uid,
                created: job.created,
                definition: job.definition.clone(),
                facts: Default::default(),
                state,
                waiting: WaitingRuns::Keep,
                closed_by_edit: None,
            })))
        };
        self.server.store.edit_job(path(), Box::new(decide)).await.unwrap();
    }

    /// Ends the job after `used` runs.
    async fn complete(&self, used: u64) {
        let finished = Some(Instant::from(self.clock.now()));
        let lifecycle = Lifecycle::Completed;
        self.set_state(JobState { lifecycle, used, finished, ..JobState::default() }).await;
    }
}

fn path() -> JobPath {
    JobPath { collection: collection(), job: JobName::new("j").unwrap() }
}

/// The body of a job with these members of `properties`.
fn job(members: &str) -> String {
    let action =
        r#""action":{"type":"Http","request":{"uri":"http://example.com/","method":"GET"}}"#;
    let comma = if members.is_empty() { "" } else { "," };
    format!(r#"{{"properties":{{{members}{comma}{action}}}}}"#)
}

fn change(members: &str) -> String {
    format!(r#"{{"properties":{{{members}}}}}"#)
}

/// The value at a path such as `properties.state`, without quotes; empty if absent.
fn at(body: &str, path: &str) -> String {
    let mut found = Json::parse(body.as_bytes()).unwrap();
    for name in path.split('.') {
        let Json::Object(members) = found else { return String::new() };
        let member = members.into_iter().find(|(own, _)| own == name);
        found = member.map_or(Json::Null, |(_, value)| value);
    }
    match found {
        Json::Null => String::new(),
        Json::String(text) => text.into_owned(),
        other => other.to_string(),
    }
}

/// An edit may wait for the store, behind runs that the engine starts meanwhile. Going by the time of
/// its arrival, it would schedule such a run a second time.
#[tokio::test]
async fn edits_and_manual_runs_go_by_the_clock_of_the_store() {
    let (arrival, decision) = (clock("2026-11-16T09:59:59Z"), clock("2026-11-16T10:00:01Z"));
    let server = start_at(Settings::default(), None, arrival, decision.clone()).await;
    let api = Api { server, clock: decision };
    api.request("PUT", COLLECTION, STANDARD).await;
    let hourly =
        |start: &str| job(&format!(r#""startTime":"{start}","recurrence":{{"frequency":"Hour"}}"#));
    api.job("PUT", "", &hourly("2026-11-01T00:00:00Z"), NEW).await;
    let patch = change(r#""startTime":"2026-11-03T00:00:00Z""#);
    for (method, body) in [("PUT", hourly("2026-11-02T00:00:00Z")), ("PATCH", patch)] {
        assert_eq!(api.job(method, "", &body, NEW).await.0, 200);
        let due = api.stored().await.state.due.unwrap().to_string();
        assert_eq!(due, "2026-11-16T11:00:00Z", "{method}: 10:00 may have started already");
    }
    assert_eq!(api.job("POST", "/run", "", NEW).await.0, 200);
    let runs = api.server.store.open_runs(api.stored().await.key).await.unwrap();
    assert_eq!(runs[0].scheduled.to_string(), "2026-11-16T10:00:01Z");
}

#[tokio::test]
async fn an_end_time_before_the_first_occurrence_is_refused_for_a_new_or_changed_schedule() {
    let api = Api::at("2026-11-16T10:00:00Z").await;
    let ended = job(
        r#""startTime":"2026-11-01T06:00:00Z","recurrence":{"frequency":"Day","endTime":"2026-11-16T12:00:00Z"}"#,
    );
    let (status, body) = api.job("PUT", "", &ended, NEW).await;
    assert_eq!((status, at(&body, "error.code").as_str()), (400, "RecurrenceNeverFires"));
    assert_eq!(at(&body, "error.target"), "properties.recurrence.endTime");
    for time in ["2026-11-16T12:00:00Z", "2026-11-17T06:00:00Z"] {
        assert!(at(&body, "error.message").contains(time), "{body}");
    }
    let (status, body) = api.job("PUT", "", &ended, OLD).await;
    assert_eq!((status, at(&body, "properties.state").as_str()), (201, "completed"));
    api.job("DELETE", "", "", NEW).await;

    let daily = job(r#""startTime":"2026-11-01T06:00:00Z","recurrence":{"frequency":"Day"}"#);
    assert_eq!(api.job("PUT", "", &daily, NEW).await.0, 201);
    let both = change(r#""recurrence":{"interval":2,"endTime":"2026-11-16T12:00:00Z"}"#);
    assert_eq!(api.job("PATCH", "", &both, NEW).await.0, 400);
    // Given alone, it ends the job.
    let end = change(r#""recurrence":{"endTime":"2026-11-16T09:00:00Z"}"#);
    let (status, body) = api.job("PATCH", "", &end, NEW).await;
    assert_eq!((status, at(&body, "properties.state").as_str()), (200, "Completed"));
}

#[tokio::test]
async fn a_disabled_job_completes_when_it_is_enabled_after_its_end_time() {
    let api = Api::at("2026-11-16T10:00:00Z").await;
    let off = job(
        r#""state":"Disabled","startTime":"2026-11-17T06:00:00Z","recurrence":{"frequency":"Day","endTime":"2026-11-18"}"#,
    );
    assert_eq!(api.job("PUT", "", &off, NEW).await.0, 201);
    api.set("2026-11-20T10:00:00Z");
    let (status, body) = api.job("PATCH", "", &change(r#""state":"Enabled""#), NEW).await;
    assert_eq!((status, at(&body, "properties.state").as_str()), (200, "Completed"), "{body}");
}

/// Completes a job, edits it and returns status, state, next run and number of runs so far, or the
/// code and message of the error.
async fn edit_of_completed(before: &str, used: u64, method: &str, edit: &str) -> String {
    let api = Api::at("2026-11-01T00:00:00Z").await;
    let (status, body) = api.job("PUT", "", before, NEW).await;
    assert_eq!(status, 201, "{body}");
    api.set("2026-11-16T10:00:00Z");
    api.complete(used).await;
    let generation = api.stored().await.job.generation;
    let (old_status, _) = api.job(method, "", edit, OLD).await;
    assert_eq!(old_status, 409, "the old versions only delete it");
    assert_eq!(api.stored().await.job.generation, generation);
    let (status, body) = api.job(method, "", edit, NEW).await;
    if status != 200 {
        assert_eq!(api.stored().await.state.lifecycle, Lifecycle::Completed);
        return format!("{} {}", at(&body, "error.code"), at(&body, "error.message"));
    }
    let stored = api.stored().await;
    assert_eq!(stored.job.generation, generation + 1);
    assert_eq!((stored.state.lifecycle, stored.state.finished), (Lifecycle::Active, None));
    let next = at(&body, "properties.status.nextExecutionTime");
    format!("{} {next} {}", at(&body, "properties.state"), stored.state.used)
}

#[tokio::test]
async fn an_edit_that_gives_a_finished_job_an_occurrence_revives_it() {
    let counted =
        job(r#""startTime":"2026-11-02T06:00:00Z","recurrence":{"frequency":"Day","count":5}"#);
    let more = change(r#""recurrence":{"count":6}"#);
    let next = "Enabled 2026-11-17T06:00:00Z";
    assert_eq!(edit_of_completed(&counted, 5, "PATCH", &more).await, format!("{next} 5"));
    let more = counted.replace(r#""count":5"#, r#""count":6"#);
    assert_eq!(edit_of_completed(&counted, 5, "PUT", &more).await, format!("{next} 5"));
    let other = counted.replace("Day", "Hour");
    let hourly = edit_of_completed(&counted, 5, "PUT", &other).await;
    assert_eq!(hourly, "Enabled 2026-11-16T11:00:00Z 0", "another schedule counts anew");

    let ended = counted.replace(r#""count":5"#, r#""endTime":"2026-11-10""#);
    let later = change(r#""recurrence":{"endTime":"2026-12-10"}"#);
    assert_eq!(edit_of_completed(&ended, 9, "PATCH", &later).await, format!("{next} 9"));

    let once = job(r#""startTime":"2026-11-02T06:00:00Z""#);
    let later = change(r#""startTime":"2026-11-20T06:00:00Z""#);
    let found = edit_of_completed(&once, 1, "PATCH", &later).await;
    assert_eq!(found, "Enabled 2026-11-20T06:00:00Z 0");
    let off = change(r#""startTime":"2026-11-20T06:00:00Z","state":"Disabled""#);
    assert_eq!(edit_of_completed(&once, 1, "PATCH", &off).await, "Disabled  0");
}

#[tokio::test]
async fn an_edit_that_leaves_a_job_finished_says_what_would_revive_it() {
    let counted =
        job(r#""startTime":"2026-11-02T06:00:00Z","recurrence":{"frequency":"Day","count":5}"#);
    let described = change(r#""description":"x""#);
    let found = edit_of_completed(&counted, 5, "PATCH", &described).await;
    assert_eq!(
        found,
        "JobStateFinal The job is completed; properties.recurrence.count must be greater than 5, the number of runs so far, to start it again (found 5)"
    );
    let ended = counted.replace(r#""count":5"#, r#""endTime":"2026-11-10""#);
    let found = edit_of_completed(&ended, 9, "PATCH", &described).await;
    assert_eq!(
        found,
        "JobStateFinal The job is completed; properties.recurrence.endTime must not lie before the next possible occurrence, 2026-11-17T06:00:00Z, to start it again (found 2026-11-10T00:00:00Z)"
    );
    let once = job(r#""startTime":"2026-11-02T06:00:00Z""#);
    let enable = change(r#""state":"Enabled""#);
    let found = edit_of_completed(&once, 1, "PATCH", &enable).await;
    assert_eq!(
        found,
        "JobStateFinal The job is completed; properties.startTime must lie after 2026-11-16T10:00:00Z to start it again; a recurrence or a run request starts it too"
    );
    let invalid = change(r#""recurrence":{"frequency":"Day","interval":0}"#);
    let found = edit_of_completed(&once, 1, "PATCH", &invalid).await;
    assert!(found.starts_with("InvalidRecurrence"), "validation comes first: {found}");
}

#[tokio::test]
async fn a_repeated_put_of_a_finished_job_changes_nothing() {
    let api = Api::at("2026-11-16T10:00:00Z").await;
    let once = job(r#""startTime":"2026-11-16T12:00:00Z""#);
    assert_eq!(api.job("PUT", "", &once, NEW).await.0, 201);
    api.complete(1).await;
    let before = api.stored().await;
    for version in [NEW, OLD] {
        assert_eq!(api.job("PUT", "", &once, version).await.0, 200);
        assert_eq!(api.stored().await, before);
    }
}

#[tokio::test]
async fn a_body_may_repeat_the_final_state_of_its_job() {
    let api = Api::at("2026-11-01T10:00:00Z").await;
    let once = job(r#""startTime":"2026-11-02T06:00:00Z""#);
    assert_eq!(api.job("PUT", "", &once, NEW).await.0, 201);
    let repeat =
        |state: &str| job(&format!(r#""startTime":"2026-11-02T06:00:00Z","state":"{state}""#));
    let (status, body) = api.job("PUT", "", &repeat("Completed"), NEW).await;
    assert_eq!((status, at(&body, "error.code")), (400, "InvalidJobState".to_owned()), "{body}");

    api.complete(1).await;
    let (status, shown) = api.job("GET", "", "", NEW).await;
    assert_eq!((status, at(&shown, "properties.state")), (200, "Completed".to_owned()));
    let before = api.stored().await;
    assert_eq!(api.job("PUT", "", &shown, NEW).await, (200, shown.clone()));
    assert_eq!(api.stored().await.version, before.version);
    let preview = api.job("POST", "/preview", &shown, NEW).await;
    assert_eq!((preview.0, at(&preview.1, "effect")), (200, "Nothing".to_owned()), "{preview:?}");
    let later = change(r#""startTime":"2026-11-20T06:00:00Z","state":"Completed""#);
    let (status, body) = api.job("PATCH", "", &later, NEW).await;
    assert_eq!((status, at(&body, "properties.state")), (200, "Enabled".to_owned()), "{body}");

    api.complete(1).await;
    let (status, body) = api.job("PUT", "", &repeat("Faulted"), NEW).await;
    assert_eq!((status, at(&body, "error.target")), (400, "properties.state".to_owned()), "{body}");
    assert_eq!(api.job("PUT", "", &repeat("Completed"), OLD).await.0, 400);
}

#[tokio::test]
async fn unknown_members_of_groups_previews_and_bulk_edits_are_refused() {
    let api = Api::at("2026-11-01T10:00:00Z").await;
    let group = COLLECTION.split("/providers/").next().unwrap();
    let group = |version: &str| format!("{group}?api-version={version}");
    let unknown = |(status, body): (u16, String)| {
        assert_eq!(
            (status, at(&body, "error.code")),
            (400, "UnknownProperty".to_owned()),
            "{body}"
        );
        at(&body, "error.message")
    };
    let named = r#"{"locaton":"West US"}"#;
    let message = unknown(api.request("PUT", &group(NEW), named).await);
    assert!(message.ends_with("did you mean location?"), "{message}");
    assert_eq!(api.request("PUT", &group(OLD), named).await.0, 200);
    assert_eq!(api.request("PUT", &group("2021-04-01"), named).await.0, 200);
    let shown = api.request("GET", &group(NEW), "").await.1;
    assert_eq!(api.request("PUT", &group(NEW), &shown).await.0, 200, "{shown}");

    let preview = job(r#""startTme":"2026-11-02T06:00:00Z""#);
    let message = unknown(api.job("POST", "/preview", &preview, NEW).await);
    assert!(message.ends_with("did you mean startTime?"), "{message}");
    let bulk = jobs("/bulk");
    let body = r#"{"action":"Disable","name":["j"]}"#;
    let message = unknown(api.request("POST", &bulk, body).await);
    assert!(message.ends_with("did you mean names?"), "{message}");
}

/// Definitions, each a possible successor of each other.
fn definitions() -> Vec<String> {
    let schedules = [
        "",
        r#""startTime":"2026-11-10T06:00:00Z""#,
        r#""startTime":"2026-12-24T18:00:00Z""#,
        r#""recurrence":{"frequency":"Day"}"#,
        r#""recurrence":{"frequency":"Week","schedule":{"weekDays":["Friday"],"hours":[9]}}"#,
        r#""startTime":"2026-11-10T06:00:00Z","recurrence":{"frequency":"Hour","interval":5}"#,
        r#""startTime":"2026-11-10T06:00:00Z","recurrence":{"frequency":"Day","count":3}"#,
        r#""startTime":"2026-11-10T06:00:00Z","recurrence":{"frequency":"Day","count":9}"#,
        r#""startTime":"2026-11-10T06:00:00Z","recurrence":{"frequency":"Day","endTime":"2026-11-19"}"#,
        r#""startTime":"2026-11-10T06:00:00Z","recurrence":{"frequency":"Day","endTime":"2026-11-12"}"#,
        r#""startTime":"2026-12-01T02:30:00","recurrence":{"frequency":"Day","timeZone":"Europe/Berlin"}"#,
    ];
    let enabled = schedules.map(job);
    let disabled =
        enabled.clone().map(|body| body.replace(r#""action""#, r#""state":"Disabled","action""#));
    enabled.into_iter().chain(disabled).collect()
}

/// State and next runs of a preview, or its error.
fn said(preview: &(u16, String)) -> String {
    match preview {
        (200, body) => format!("{} {}", at(body, "state"), at(body, "occurrences")),
        (status, body) => format!("{status} {body}"),
    }
}

#[tokio::test]
async fn a_preview_says_what_saving_does() {
    let definitions = definitions();
    let api = Api::at("2026-11-09T12:00:00Z").await;
    let mut compared = 0;
    for before in [None].into_iter().chain(definitions.iter().map(Some)) {
        for after in &definitions {
            for used in [None, Some(0), Some(2)] {
                api.set("2026-11-09T12:00:00Z");
                api.job("DELETE", "", "", NEW).await;
                if let Some(before) = before {
                    let (status, body) = api.job("PUT", "", before, NEW).await;
                    assert_eq!(status, 201, "{body}");
                }
                api.set("2026-11-16T10:00:00Z");
                match (before, used) {
                    (Some(_), Some(0)) => api.complete(3).await,
                    (Some(_), Some(used)) => {
                        let state = api.stored().await.state;
                        api.set_state(JobState { used, ..state }).await;
                    }
                    _ => {}
                }
                let preview = api.job("POST", "/preview", after, NEW).await;
                let saved = api.job("PUT", "", after, NEW).await;
                let context = format!("{before:?} {used:?} -> {after}");
                if saved.0 >= 400 {
                    assert_eq!(preview, saved, "{context}");
                    continue;
                }
                compared += 1;
                let from = "&from=2026-11-01&to=2028-01-01&$top=20";
                let path = format!("{}{from}", jobs("/j/occurrences"));
                let rows = api.request("GET", &path, "").await.1;
                let upcoming = |disposition: &str| {
                    let marker = format!(r#""disposition":"{disposition}""#);
                    let rows = rows.split(r#"{"scheduledTime":""#).skip(1);
                    let rows = rows.filter(|row| row.contains(&marker));
                    let times = rows.map(|row| row.split('"').next().unwrap());
                    // A disabled job does not run what has passed.
                    let now = "2026-11-16T10:00:00Z";
                    let times = times.filter(|time| disposition == "Scheduled" || *time > now);
                    let times = times.map(|time| format!("\"{time}\""));
                    format!("[{}]", times.take(10).collect::<Vec<_>>().join(","))
                };
                let state = at(&saved.1, "properties.state");
                let expected = match state.as_str() {
                    "Disabled" => upcoming("JobDisabled"),
                    _ => upcoming("Scheduled"),
                };
                assert_eq!(said(&preview), format!("{state} {expected}"), "{context}");
                let next = at(&saved.1, "properties.status.nextExecutionTime");
                let first = expected.split('"').nth(1).unwrap_or_default();
                assert!(state == "Disabled" || next == first, "{context}: {next}");
                let repeated = api.job("POST", "/preview", after, NEW).await;
                assert_eq!(at(&repeated.1, "effect"), "Nothing", "{context}");
                assert_eq!(said(&repeated), said(&preview), "{context}");
            }
        }
    }
    assert!(compared > 500, "{compared}");
}

#[tokio::test]
async fn a_preview_lists_the_runs_that_saving_supersedes() {
    let daily = r#""startTime":"2026-11-10T06:00:00Z","recurrence":{"frequency":"Day"}"#;
    let moved = job(&daily.replace("Day", "Week"));
    let described = job(&format!(r#""description":"x",{daily}"#));
    for edit in [moved, described] {
        let api = Api::at("2026-11-09T12:00:00Z").await;
        assert_eq!(api.job("PUT", "", &job(daily), NEW).await.0, 201);
        api.set("2026-11-11T10:00:00Z");
        let stored = api.stored().await;
        let scheduled = stored.state.due.unwrap();
        let begin = RunWrite::Begin {
            on: DueJob { job: stored.key, generation: 1, due: scheduled },
            scheduled,
            progress: Progress::first(scheduled),
            owner: None,
            lease: std::time::Duration::ZERO,
            advance: Advance {
                due: Some("2026-11-11T06:00:00Z".parse().unwrap()),
                used: 1,
                lifecycle: Lifecycle::Active,
            },
            closed: vec![],
            postponed: vec![],
            waits_for: None,
        };
        api.server.store.commit(vec![begin]).await.unwrap();
        let preview = api.job("POST", "/preview", &edit, NEW).await.1;
        assert_eq!(api.job("PUT", "", &edit, NEW).await.0, 200);
        let store = &api.server.store;
        let rows = store.ledger(stored.key, Instant::MIN, Instant::MAX, 10).await.unwrap();
        let superseded = rows.iter().filter(|row| row.disposition == Disposition::Superseded);
        let superseded: Vec<_> = superseded.map(|row| format!("\"{}\"", row.from)).collect();
        let open = store.open_runs(stored.key).await.unwrap().len();
        assert_eq!(rows.iter().filter(|row| row.from == scheduled).count() + open, 1);
        assert_eq!(at(&preview, "superseded"), format!("[{}]", superseded.join(",")), "{edit}");
        let is_moved = edit.contains("Week");
        assert!(!is_moved || superseded.len() == 2, "{superseded:?}");
    }
}

#[tokio::test]
async fn a_preview_of_an_edit_does_not_promise_a_run_at_once() {
    let api = Api::at("2026-11-09T12:00:00Z").await;
    let weekly = r#""recurrence":{"frequency":"Week","schedule":{"weekDays":["Friday"],"hours":[9],"minutes":[0]}}"#;
    let created = api.job("POST", "/preview", &job(weekly), NEW).await.1;
    assert_eq!(at(&created, "description"), "At once, then at 09:00 every Friday, UTC");
    assert!(at(&created, "occurrences").starts_with(r#"["2026-11-09T12:00:00Z","#), "{created}");
    assert_eq!(api.job("PUT", "", &job(weekly), NEW).await.0, 201);
    api.set("2026-11-16T10:00:00Z");
    let edited = job(&weekly.replace("[9]", "[10]"));
    let edited = api.job("POST", "/preview", &edited, NEW).await.1;
    assert_eq!(at(&edited, "description"), "At 10:00 every Friday, UTC");
    assert!(at(&edited, "occurrences").starts_with(r#"["2026-11-20T10:00:00Z","#), "{edited}");
}

#[tokio::test]
async fn a_finished_job_runs_once_more_in_the_newest_version() {
    let api = Api::at("2026-11-16T10:00:00Z").await;
    let once = job(r#""startTime":"2026-11-16T12:00:00Z""#);
    assert_eq!(api.job("PUT", "", &once, NEW).await.0, 201);
    api.complete(1).await;
    api.set("2026-11-20T10:00:00Z");
    let (status, body) = api.job("POST", "/run", "", OLD).await;
    assert_eq!((status, at(&body, "error.code").as_str()), (409, "Conflict"));
    assert_eq!(api.job("POST", "/run", "", NEW).await.0, 200);
    let stored = api.stored().await;
    let runs = api.server.store.open_runs(stored.key).await.unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!(stored.state.lifecycle, Lifecycle::Completed, "final until the outcome");
    let finished = stored.state.finished.map(|at| at.to_string());
    assert_eq!(finished.as_deref(), Some("2026-11-20T10:00:00Z"), "retention starts anew");
}

#[tokio::test]
async fn a_job_with_too_many_open_runs_refuses_another() {
    let clock = clock("2026-11-16T10:00:00Z");
    let settings = Settings { open_runs_max: OpenRunsMax(2), ..Settings::default() };
    let server = start_at(settings, None, clock.clone(), clock.clone()).await;
    let api = Api { server, clock };
    api.request("PUT", COLLECTION, STANDARD).await;
    let later = job(r#""startTime":"2026-11-17T12:00:00Z""#);
    assert_eq!(api.job("PUT", "", &later, NEW).await.0, 201);
    for version in [NEW, OLD] {
        assert_eq!(api.job("POST", "/run", "", version).await.0, 200);
    }
    for version in [NEW, OLD] {
        let (status, body) = api.job("POST", "/run", "", version).await;
        assert_eq!((status, at(&body, "error.code").as_str()), (429, "TooManyRequests"));
        let message = at(&body, "error.message");
        assert!(message.contains("already has 2 open runs, the maximum"), "{message}");
    }
    let runs = api.server.store.open_runs(api.stored().await.key).await.unwrap();
    assert_eq!(runs.len(), 2);
}
