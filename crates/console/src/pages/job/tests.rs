//! The page of a job from fixed responses of the API.

use serde_json::{Value, json};

use crate::fake_api::FakeApi;

const JOB: &str = "/api/collections/c/jobs/j";
const HOSTILE: &str = "<script>alert(1)</script>";

fn entry(expected: &str, retry: u64, status: &str, action: &str) -> Value {
    let response = format!(
        "Http Action - Response from host 'a.example': 'OK' Response Headers: X: y\r\n Body: {HOSTILE}"
    );
    json!({"properties": {
        "startTime": expected.replace("00Z", "01Z"), "endTime": expected.replace("00Z", "03Z"),
        "expectedExecutionTime": expected, "status": status, "message": response,
        "retryCount": retry, "actionName": action, "generation": 1,
    }})
}

fn api(reason: &str, state: &str) -> FakeApi {
    let request = json!({"uri": "https://a.example/", "method": "POST",
        "headers": {"Authorization": "canary"}, "body": HOSTILE});
    let job = json!({"name": "c/j", "properties": {
        "description": HOSTILE, "tags": {"a": HOSTILE}, "state": state,
        "action": {"type": "Https", "request": request},
        "recurrence": {"cron": "30 2 * * *", "timeZone": "Europe/Berlin"},
        "status": {"executionCount": 1_200, "failureCount": 3},
    }});
    let explanation = json!({
        "reason": reason, "explanation": "The next run is at 2026-11-17T01:30:00Z.",
        "notes": ["On 2027-03-28 Europe/Berlin skips 02:00 to 03:00"],
        "job": {"createdTime": "2026-10-01T00:00:00Z", "generation": 3,
            "schedule": "At 02:30 every day, Europe/Berlin"},
    });
    let coming = json!({"scheduledTime": "2026-11-17T01:30:00Z", "count": 1, "cause": "Scheduled",
        "disposition": "Scheduled"});
    let failed = json!({"scheduledTime": "2026-11-16T01:30:00Z", "count": 1, "cause": "Scheduled",
        "disposition": "Failed", "generation": 1, "decidedTime": "2026-11-16T01:31:00Z"});
    FakeApi::of_owner()
        .with(JOB, job)
        .with(&format!("{JOB}/explain"), explanation)
        .with(&format!("{JOB}/occurrences"), json!({"value": [failed, coming], "nextLink": null}))
        .with(
            &format!("{JOB}/history"),
            json!({"value": [
                entry("2026-11-16T01:30:00Z", 0, "Completed", "ErrorAction"),
                entry("2026-11-16T01:30:00Z", 1, "Failed", "MainAction"),
                entry("2026-11-16T01:30:00Z", 0, "Failed", "MainAction"),
                entry("2026-11-15T01:30:00Z", 0, "Completed", "MainAction"),
            ], "nextLink": "http://x/?%24skiptoken=abc"}),
        )
        .with(
            &format!("{JOB}/notes"),
            json!({"value": [{"time": "2026-11-16T01:30:00Z", "action": "Disabled",
                "note": HOSTILE, "by": HOSTILE}]}),
        )
}

async fn page(api: &FakeApi, query: &str) -> String {
    let page = api.page(&format!("/jobs/c/j{query}")).await;
    assert_eq!(page.status, 200, "{}", page.body);
    page.body
}

#[tokio::test]
async fn every_tab_escapes_what_users_and_targets_wrote_and_shows_no_secret() {
    for tab in ["runs", "schedule", "definition", "ledger", "notes"] {
        let body = page(&api("Scheduled", "Enabled"), &format!("?tab={tab}")).await;
        assert!(!body.contains(HOSTILE), "{tab}");
        assert!(!body.contains("canary"), "{tab}");
        assert!(body.contains("&#60;script&#62;alert(1)"), "{tab}");
    }
}

#[tokio::test]
async fn the_page_answers_why_the_job_is_not_running() {
    for (reason, state, expected) in [
        ("Scheduled", "Enabled", "It runs as scheduled, and its last run failed"),
        ("Running", "Enabled", "It is running"),
        ("JobDisabled", "Disabled", "It does not run: the job is disabled"),
        ("Finished", "Completed", "It has finished"),
        ("Finished", "Faulted", "It has finished: its last run failed"),
    ] {
        let body = page(&api(reason, state), "").await;
        let heading = body.split_once("<h2>").and_then(|(_, rest)| rest.split_once("</h2>"));
        assert_eq!(heading.map(|(heading, _)| heading), Some(expected), "{reason} {state}");
    }
    let mut manual = entry("2026-11-16T01:30:00Z", 0, "Completed", "MainAction");
    manual["properties"]["repeatCount"] = 0.into();
    let history = json!({"value": [manual], "nextLink": null});
    let by_hand = api("Scheduled", "Enabled").with(&format!("{JOB}/history"), history);
    let body = page(&by_hand, "").await;
    assert!(body.contains("<h2>It has only run by hand so far</h2>"), "{body}");
    let body = page(&api("Scheduled", "Enabled"), "").await;
    // The time in the sentence is shown like the others, here in UTC.
    assert!(body.contains(">Tue 2026-11-17 01:30</time>."), "{body}");
    assert!(body.contains("At 02:30 every day, Europe/Berlin"));
    assert!(body.contains("On 2027-03-28 Europe/Berlin skips"));
    assert!(body.contains("Berlin (job)"), "the zone of the job can be chosen");
}

#[tokio::test]
async fn the_attempts_of_an_occurrence_are_one_row() {
    let body = page(&api("Scheduled", "Enabled"), "?tab=runs").await;
    assert_eq!(body.matches("<tr data-row>").count(), 2, "{body}");
    assert!(body.contains("?tab=runs&#38;cursor=abc&#38;after=2026-11-15T01%3A30%3A00Z"), "{body}");
    // The rest of a row that was on the page before.
    let rest =
        page(&api("Scheduled", "Enabled"), "?cursor=abc&after=2026-11-16T01%3A30%3A00Z").await;
    assert_eq!(rest.matches("<tr data-row>").count(), 1, "{rest}");
}

#[tokio::test]
async fn a_run_in_flight_has_its_attempt_and_the_time_since_its_start() {
    let row = |disposition: &str, role: &str| {
        json!({"scheduledTime": "2026-11-16T11:59:00Z", "count": 1, "cause": "Scheduled",
            "disposition": disposition, "attemptTime": "2026-11-16T11:59:18Z", "actionName": role,
            "retryCount": 0})
    };
    let tab = async |row: Value| {
        let rows = json!({"value": [row], "nextLink": null});
        page(&api("Running", "Enabled").with(&format!("{JOB}/occurrences"), rows), "").await
    };
    let body = tab(row("Running", "MainAction")).await;
    let cells = "<td class=\"number hide-phone\">1</td><td class=\"number nowrap hide-phone\">\
                 <span data-elapsed=\"2026-11-16T11:59:18Z\">42 s</span></td>";
    assert!(body.contains(cells), "{body}");
}

#[tokio::test]
async fn actions_are_those_that_the_caller_may_take() {
    let body = page(&api("Scheduled", "Enabled"), "").await;
    for action in ["/run\"", "/edit\"", "/skip\"", "Disable…", "Delete…"] {
        assert!(body.contains(action), "{action}");
    }
    let skipped = json!({"scheduledTime": "2026-11-17T01:30:00Z", "disposition": "WillBeSkipped"});
    let skipped = json!({"value": [skipped], "nextLink": null});
    let api_of_skipped = api("Scheduled", "Enabled").with(&format!("{JOB}/occurrences"), skipped);
    let body = page(&api_of_skipped, "").await;
    assert!(body.contains("Will be skipped") && body.contains("Undo skip"), "{body}");
    let none = json!({"permissions": {"readJobs": true}});
    let body = page(&api("Scheduled", "Enabled").with("/api/me", none), "").await;
    for action in ["data-post", "data-patch", "data-delete", "/edit\""] {
        assert!(!body.contains(action), "{action}");
    }
    let body = page(&api("Finished", "Completed"), "").await;
    assert!(
        !body.contains("Disable…") && !body.contains("Enable…"),
        "a finished job has no switch"
    );
}

#[tokio::test]
async fn the_calendar_shows_outcomes_and_coming_runs() {
    let body = page(&api("Scheduled", "Enabled"), "?tab=schedule").await;
    assert!(body.contains("Mon 2026-11-16: 2 failed"), "past and coming read the same list here");
    assert!(body.contains("Tue 2026-11-17: 2 coming"));
    assert!(body.contains("Sun 2027-03-28: none; DST transition"));
    assert!(body.contains("Thu 2026-11-19: none"));
}
