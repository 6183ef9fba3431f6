//! The page of a run from fixed responses of the API.

use serde_json::{Value, json};

use crate::fake_api::FakeApi;

const JOB: &str = "/api/collections/c/jobs/j";
const RUN: &str = "/jobs/c/j/runs/2026-11-16T01%3A30%3A00Z";
const HOSTILE: &str = "<script>alert(1)</script>";

fn entry(second: u32, retry: u64, status: &str, action: &str, body: &str) -> Value {
    let message = format!(
        "Http Action - Response from host 'a.example': 'ServiceUnavailable' Response Headers: X: \
         {HOSTILE}\r\n Body: {body}"
    );
    json!({"properties": {
        "startTime": format!("2026-11-16T01:30:{second:02}Z"),
        "endTime": format!("2026-11-16T01:30:{:02}Z", second + 1),
        "expectedExecutionTime": "2026-11-16T01:30:00Z", "status": status, "message": message,
        "retryCount": retry, "actionName": action, "generation": 3,
        "timing": {"connect": "PT0.1S", "firstByte": "PT0.8S", "total": "PT1S"},
    }})
}

fn action() -> Value {
    let request = json!({"uri": "https://a.example/?sig=canary", "method": "POST",
        "headers": {"Authorization": "canary", "X-Team": HOSTILE}, "body": HOSTILE});
    let error_action =
        json!({"type": "Https", "request": {"uri": "https://b.example/alert", "method": "POST"}});
    json!({"type": "Https", "request": request, "errorAction": error_action})
}

fn api(reason: &str, row: Value, history: Value) -> FakeApi {
    let job = json!({"properties": {"state": "Enabled", "action": action()}});
    let rows = if row.is_null() { json!([]) } else { json!([row]) };
    let explanation = json!({"reason": reason, "explanation": "The occurrence of 2026-11-16T01:30:00Z failed.",
        "occurrence": "2026-11-16T01:30:00Z", "job": {"generation": 5}, "occurrences": rows,
        "history": history});
    FakeApi::of_owner().with(JOB, job).with(&format!("{JOB}/explain"), explanation)
}

fn row(disposition: &str, cause: &str) -> Value {
    json!({"scheduledTime": "2026-11-16T01:30:00Z", "count": 1, "cause": cause,
        "disposition": disposition, "generation": 3, "idempotencyKey": "0123456789abcdef"})
}

async fn page(api: FakeApi) -> String {
    let page = api.page(RUN).await;
    assert_eq!(page.status, 200, "{}", page.body);
    page.body
}

#[tokio::test]
async fn a_failed_run_shows_its_attempts_and_its_error_action() {
    let history = json!([
        entry(40, 0, "Completed", "ErrorAction", "{\"a\":1}"),
        entry(20, 1, "Failed", "MainAction", HOSTILE),
        entry(0, 0, "Failed", "MainAction", &format!("{{\"b\":1,\"a\":\"{}", "x".repeat(1_013))),
    ]);
    let body = page(api("Failed", row("Failed", "Scheduled"), history)).await;
    assert!(body.contains("Failed after 2 attempts; the error action succeeded"), "{body}");
    for text in ["Attempt 1", "Retry 1", "Error action", "waited 19 s", "connect 100 ms"] {
        assert!(body.contains(text), "{text}");
    }
    assert!(body.contains("{\n  &#34;b&#34;: 1,\n  &#34;a&#34;: &#34;xxx"), "also if it was cut");
    assert!(body.contains("the first 1,024 characters; history keeps no more"));
    assert!(body.contains("{\n  &#34;a&#34;: 1\n}"), "JSON has line breaks");
    assert!(body.contains("generation 3, whose definition is no longer retained"), "{body}");
    assert!(body.contains("Request of the present definition, generation 5"), "{body}");
    assert!(!body.contains("Copy as curl"), "it is not the request of this run: {body}");
    assert!(body.contains("0123456789abcdef"));
    assert!(!body.contains(HOSTILE) && body.contains("&#60;script&#62;alert(1)"));
    assert!(!body.contains("canary"), "no secret is shown");
    assert!(body.contains("Authorization: [masked]"));
    assert_eq!(body.matches("Its idempotency key is another one").count(), 1, "{body}");
    assert!(body.contains("POST /alert HTTP/1.1"), "the request of the error action is shown");
}

#[tokio::test]
async fn a_run_before_an_edit_shows_the_request_of_its_definition() {
    let history = || json!([entry(0, 0, "Completed", "MainAction", "ok")]);
    let api = || api("Completed", row("Completed", "Scheduled"), history());
    let request = json!({"uri": "https://earlier.example/?sig=canary", "method": "PUT",
        "headers": {"Authorization": "canary"}});
    let earlier = json!({"generation": 3, "replacedTime": "2026-11-16T02:00:00Z",
        "properties": {"action": {"type": "Https", "request": request}}});
    let body = page(api().with(&format!("{JOB}/definitions/3"), earlier)).await;
    assert!(body.contains("this is the request of generation 3, the present one is 5"), "{body}");
    assert!(body.contains("Host: earlier.example") && !body.contains("Host: a.example"), "{body}");
    assert!(body.contains("Copy as curl") && !body.contains("canary"), "{body}");
    let same = json!({"generation": 3, "properties": {"state": "Disabled", "action": action()}});
    let body = page(api().with(&format!("{JOB}/definitions/3"), same)).await;
    assert!(body.contains("changed since, to generation 5, but not its action (secrets"), "{body}");
    assert!(body.contains("Host: a.example") && body.contains("Copy as curl"), "{body}");
}

#[tokio::test]
async fn a_skipped_occurrence_a_manual_run_and_one_in_flight_have_a_page() {
    let body = page(api("SkippedOverlap", row("SkippedOverlap", "Scheduled"), json!([]))).await;
    assert!(body.contains("Skipped (overlap)"), "{body}");
    assert!(!body.contains("See the run of"), "it is not known: {body}");
    let mut decided = row("SkippedOverlap", "Scheduled");
    decided["decidedTime"] = "2026-11-16T01:29:59.9Z".into();
    let body = page(api("SkippedOverlap", decided, json!([]))).await;
    assert!(body.contains("shortly before the scheduled time"), "{body}");
    let explanation = json!({"reason": "SkippedOverlap", "explanation": "x", "job": {},
        "occurrence": "2026-11-16T01:30:00Z", "blockedBy": "2026-11-16T01:00:00Z",
        "occurrences": [row("SkippedOverlap", "Scheduled")], "history": []});
    let skipped = api("SkippedOverlap", Value::Null, json!([]));
    let body = page(skipped.with(&format!("{JOB}/explain"), explanation)).await;
    let link = "jobs/c/j/runs/2026-11-16T01%3A00%3A00Z\">See the run of Mon 2026-11-16 01:00<";
    assert!(body.contains(link), "{body}");
    let manual = json!([entry(0, 0, "Completed", "MainAction", "")]);
    let body = page(api("Completed", row("Completed", "Manual"), manual)).await;
    assert!(body.contains("Manual run of"), "{body}");
    let mut running = row("Running", "Scheduled");
    running["attemptTime"] = "2026-11-16T11:59:58Z".into();
    running["retryCount"] = 1.into();
    let history = json!([entry(0, 0, "Failed", "MainAction", "")]);
    let body = page(api("Running", running, history)).await;
    assert!(body.contains("Retry 1: running for 2 s"), "{body}");
}

#[tokio::test]
async fn a_run_in_flight_says_for_how_long_and_until_when() {
    let mut running = row("Running", "Scheduled");
    running["attemptTime"] = "2026-11-16T11:59:18Z".into();
    running["retryCount"] = 0.into();
    let node = json!({"limits": {"attemptTimeout": "PT2M"}});
    let api = || api("Running", running.clone(), json!([])).with("/api/node", node.clone());
    let body = page(api()).await;
    let elapsed = "for <span data-elapsed=\"2026-11-16T11:59:18Z\">42 s</span></span></p>";
    assert!(body.contains(elapsed), "{body}");
    assert!(body.contains("running for <tspan data-elapsed=\"2026-11-16T11:59:18Z\">42 s<"));
    assert!(body.contains("<title>timeout after 2 min</title>"), "the default of the server");
    let mut job = json!({"properties": {"state": "Enabled", "timeout": "PT10M"}});
    job["properties"]["action"] = json!({"type": "Https", "request": {"uri": "https://a/"}});
    let body = page(api().with(JOB, job)).await;
    assert!(body.contains("<title>timeout after 10 min</title>"), "that of the job: {body}");
}

#[tokio::test]
async fn a_run_that_was_not_sent_has_neither_request_nor_responses() {
    let postponed = json!([{"properties": {"startTime": "2026-11-16T01:30:00Z",
        "endTime": "2026-11-16T01:30:00Z", "status": "Postponed", "actionName": "MainAction",
        "message": "The occurrence of 2026-11-16T01:30:00Z did not run because all were paused."}}]);
    for history in [json!([]), postponed.clone()] {
        let body = page(api("SkippedPaused", row("SkippedPaused", "Scheduled"), history)).await;
        assert!(body.contains("Skipped (paused)"), "{body}");
        for absent in ["As curl", "Response", " HTTP/1.1", "of 2026-11-16T01:30:00Z"] {
            assert!(!body.contains(absent), "{absent} in {body}");
        }
    }
    let entries = [postponed[0].clone(), entry(5, 0, "Completed", "MainAction", "")];
    let body = page(api("Completed", row("Completed", "Scheduled"), json!(entries))).await;
    assert!(body.contains(" HTTP/1.1") && body.contains("Responses"), "{body}");
    assert!(body.contains(">Mon 2026-11-16 01:30</time> did not run because"), "{body}");
    assert!(!body.contains("of 2026-11-16T01:30:00Z did"), "{body}");
}

#[tokio::test]
async fn the_last_failure_of_a_job_has_a_url() {
    let history = json!([entry(0, 0, "Failed", "MainAction", "")]);
    let runs = |value: Value| json!({"value": value, "nextLink": null});
    let failed = json!([{"scheduledTime": "2026-11-16T01:30:00Z", "status": "Failed"}]);
    let target = "/jobs/c/j/runs/last-failure";
    let found = api("Failed", row("Failed", "Scheduled"), history.clone());
    let found = found.with("/api/runs", runs(failed));
    let page = found.page(target).await;
    assert!(page.status == 200 && page.body.contains("Mon 2026-11-16 01:30"), "{}", page.body);
    let requested = found.requested.lock().unwrap().clone();
    let explain = |target: &String| target.contains("at=2026-11-16T01%3A30%3A00Z");
    assert!(requested.iter().any(explain), "{requested:?}");
    let none =
        api("Failed", row("Failed", "Scheduled"), history).with("/api/runs", runs(json!([])));
    assert_eq!(none.page(target).await.status, 404);
}

#[tokio::test]
async fn a_time_without_an_occurrence_has_no_page() {
    let none = api("NotAnOccurrence", Value::Null, json!([]));
    assert_eq!(none.page(RUN).await.status, 404);
    let page = none.page("/jobs/c/j/runs/%3Cscript%3E").await;
    assert_eq!(page.status, 404);
    assert!(!page.body.contains("<script>\""), "{}", page.body);
}
