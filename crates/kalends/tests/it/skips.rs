//! Skipping the next occurrence of a job by request.

use serde_json::{Value, json};

use crate::clocked_server::{ClockedServer, job_path};
use crate::connection::Response;
use crate::target::{self, get, path, start};
use crate::tokens::{STANDARD, code, collection, create, guarded, new, request_as};

const DAY: &str = "2026-11-15T";

fn at(time: &str) -> String {
    format!("{DAY}{time}:00Z")
}

impl ClockedServer {
    fn request_skip(&mut self, method: &str, name: &str) -> Response {
        self.connection.request(method, &job_path(name, "/skip"), None)
    }

    /// Skips the next occurrence of a job, or takes that back; returns the status of the job.
    fn skip(&mut self, method: &str, name: &str) -> Value {
        let response = self.request_skip(method, name);
        assert_eq!(response.status, 200, "{response:?}");
        let job: Value = serde_json::from_str(&response.body).unwrap();
        assert_eq!(job, self.job(name));
        job["properties"]["status"].clone()
    }

    fn explain(&mut self, name: &str) -> Value {
        get(&mut self.connection, &job_path(name, "/explain"))
    }
}

#[test]
fn a_skipped_occurrence_does_not_run_and_is_recorded_at_its_time() {
    let Some(mut server) = ClockedServer::at(&at("10:00")) else { return };
    server.put("j", &at("10:01"), json!({"frequency": "Minute", "count": 2}));
    let status = server.skip("POST", "j");
    assert_eq!(status["skipUntil"], at("10:01"));
    assert_eq!(status["nextExecutionTime"], at("10:02"));
    let rows = [
        &*format!("{} WillBeSkipped", at("10:01")),
        &*format!("{} Scheduled", at("10:02")),
        &*format!("{} Scheduled", at("10:03")),
    ];
    assert_eq!(server.rows("j", &at("10:00"), &at("10:09")), rows, "it uses no count");
    let explanation = server.explain("j");
    assert_eq!(
        (&explanation["reason"], &explanation["occurrence"]),
        (&json!("WillBeSkipped"), &json!(at("10:01")))
    );
    let old = job_path("j", "").replace("2026-11-01", "2016-03-01");
    let old = get(&mut server.connection, &old);
    assert_eq!(old["properties"]["status"]["nextExecutionTime"], at("10:02"));
    assert_eq!(
        old["properties"]["status"]["skipUntil"],
        Value::Null,
        "a member of the new version"
    );

    server.set(&at("10:01"));
    let rows = [
        &*format!("{} SkippedByRequest", at("10:01")),
        &*format!("{} Scheduled", at("10:02")),
        &*format!("{} Scheduled", at("10:03")),
    ];
    server.rows_become("j", &at("10:00"), &at("10:09"), &rows);
    let status = server.job("j")["properties"]["status"].clone();
    assert_eq!((&status["skipUntil"], &status["executionCount"]), (&Value::Null, &json!(0)));
    let history = target::history(&mut server.connection, "j");
    assert_eq!(history.len(), 1, "{history:?}");
    assert_eq!(history[0]["status"], "Postponed");
    let message = "did not run because a user requested to skip it.";
    assert!(history[0]["message"].as_str().unwrap().ends_with(message), "{history:?}");
    server.set(&at("10:02"));
    assert_eq!(server.call(), format!("j {}", at("10:02")));
    server.rows_become("j", &at("10:02"), &at("10:02"), &[&format!("{} Completed", at("10:02"))]);
    server.set(&at("10:03"));
    assert_eq!(server.call(), format!("j {}", at("10:03")));
    server.no_more_calls();
}

#[test]
fn a_skip_survives_kill_9() {
    let Some(mut server) = ClockedServer::at(&at("10:00")) else { return };
    server.put("j", &at("10:01"), json!({"frequency": "Minute"}));
    server.skip("POST", "j");
    server.server.kill();
    server.server.restart();
    server.connection = server.server.connect();
    assert_eq!(server.job("j")["properties"]["status"]["skipUntil"], at("10:01"));
    server.set(&at("10:01"));
    let rows =
        [&*format!("{} SkippedByRequest", at("10:01")), &*format!("{} Scheduled", at("10:02"))];
    server.rows_become("j", &at("10:01"), &at("10:02"), &rows);
    server.set(&at("10:02"));
    assert_eq!(server.call(), format!("j {}", at("10:02")));
    server.no_more_calls();
}

#[test]
fn each_further_request_skips_one_more_and_one_request_takes_all_back() {
    let Some(mut server) = ClockedServer::at(&at("10:00")) else { return };
    server.put("j", &at("10:01"), json!({"frequency": "Minute"}));
    assert_eq!(server.skip("POST", "j")["skipUntil"], at("10:01"));
    assert_eq!(server.skip("POST", "j")["skipUntil"], at("10:02"));
    server.set(&at("10:01"));
    let rows =
        [&*format!("{} SkippedByRequest", at("10:01")), &*format!("{} WillBeSkipped", at("10:02"))];
    server.rows_become("j", &at("10:01"), &at("10:02"), &rows);
    let status = server.skip("DELETE", "j");
    assert_eq!(
        (&status["skipUntil"], &status["nextExecutionTime"]),
        (&Value::Null, &json!(at("10:02")))
    );
    server.skip("DELETE", "j");
    server.set(&at("10:02"));
    assert_eq!(server.call(), format!("j {}", at("10:02")));
    let rows =
        [&*format!("{} SkippedByRequest", at("10:01")), &*format!("{} Completed", at("10:02"))];
    server.rows_become("j", &at("10:01"), &at("10:02"), &rows);
}

#[test]
fn an_edit_of_the_schedule_drops_a_skip_and_other_edits_keep_it() {
    let Some(mut server) = ClockedServer::at(&at("10:00")) else { return };
    server.put("j", &at("10:01"), json!({"frequency": "Minute"}));
    server.skip("POST", "j");
    let mut patch = |body: Value| {
        let path = job_path("j", "");
        let response = server.connection.request("PATCH", &path, Some(&body.to_string()));
        assert_eq!(response.status, 200, "{response:?}");
        let job: Value = serde_json::from_str(&response.body).unwrap();
        job["properties"]["status"]["skipUntil"].clone()
    };
    assert_eq!(patch(json!({"properties": {"description": "x"}})), at("10:01"));
    patch(json!({"properties": {"state": "Disabled"}}));
    assert_eq!(patch(json!({"properties": {"state": "Enabled"}})), at("10:01"));
    let interval = json!({"properties": {"recurrence": {"interval": 2}}});
    assert_eq!(patch(interval), Value::Null);
    server.set(&at("10:01"));
    assert_eq!(server.call(), format!("j {}", at("10:01")));
}

#[test]
fn a_preview_lists_skipped_occurrences_apart_from_those_that_run() {
    let Some(mut server) = ClockedServer::at(&at("10:00")) else { return };
    server.put("j", &at("10:01"), json!({"frequency": "Minute"}));
    server.skip("POST", "j");
    let job = server.job("j");
    let mut preview = |definition: &Value| -> Value {
        let path = job_path("j", "/preview");
        let response = server.connection.request("POST", &path, Some(&definition.to_string()));
        assert_eq!(response.status, 200, "{response:?}");
        serde_json::from_str(&response.body).unwrap()
    };
    let mut definition = json!({"properties": job["properties"]});
    definition["properties"]["description"] = json!("x");
    let same = preview(&definition);
    assert_eq!(same["skipped"], json!([at("10:01")]));
    assert_eq!(same["occurrences"][0], at("10:02"));
    definition["properties"]["startTime"] = json!(at("10:03"));
    let moved = preview(&definition);
    assert_eq!((&moved["skipped"], &moved["occurrences"][0]), (&json!([]), &json!(at("10:03"))));
}

#[test]
fn jobs_without_an_occurrence_to_skip_are_refused() {
    let Some(mut server) = ClockedServer::at(&at("10:00")) else { return };
    server.put("once", &at("10:01"), Value::Null);
    server.put("disabled", &at("10:01"), json!({"frequency": "Minute"}));
    let off = json!({"properties": {"state": "Disabled"}}).to_string();
    assert_eq!(
        server.connection.request("PATCH", &job_path("disabled", ""), Some(&off)).status,
        200
    );
    server.put("last", &at("10:01"), json!({"frequency": "Minute", "endTime": at("10:01")}));
    server.skip("POST", "last");
    let mut refused = |name: &str, words: &str| {
        let response = server.request_skip("POST", name);
        assert_eq!(code(&response), (409, "Conflict".into()), "{name}");
        assert!(response.body.contains(words), "{response:?}");
    };
    refused("once", "The job runs once");
    refused("disabled", "The job is disabled");
    refused("last", "no further occurrence");
    assert_eq!(server.request_skip("POST", "absent").status, 404);
    server.set(&at("10:01"));
    assert_eq!(server.call(), format!("once {}", at("10:01")));
    server.rows_become(
        "last",
        &at("10:01"),
        &at("10:01"),
        &[&format!("{} SkippedByRequest", at("10:01"))],
    );
    assert_eq!(server.job("last")["properties"]["state"], "Completed");
    let response = server.request_skip("POST", "last");
    assert_eq!(code(&response), (409, "Conflict".into()));
    assert!(response.body.contains("The job is completed"), "{response:?}");
    let get = server.request_skip("GET", "last");
    assert_eq!((get.status, get.header("allow")), (405, Some("POST, DELETE")));
}

#[test]
fn the_old_versions_have_no_skip() {
    let (_server, mut connection) = start();
    let old = path("/jobs/j/skip").replace("2026-11-01", "2016-03-01");
    let response = connection.request("POST", &old, None);
    assert_eq!(code(&response), (404, "NotFound".into()));
    assert!(response.body.contains("/jobs/j/skip' is not found"), "the path, not the job");
}

#[test]
fn operators_skip_and_the_audit_log_says_so() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    let path = collection("g", "c");
    assert_eq!(request_as(&mut connection, &owner, "PUT", &new(&path), Some(STANDARD)).status, 201);
    let job = format!("{path}/jobs/j");
    let body = json!({"properties": {
        "recurrence": {"frequency": "Day"},
        "action": {"type": "Http", "request": {"uri": "http://example.com/", "method": "GET"}}
    }});
    let body = body.to_string();
    assert_eq!(request_as(&mut connection, &owner, "PUT", &new(&job), Some(&body)).status, 201);
    let skip = new(&format!("{job}/skip"));
    let reader = create(server.folder(), "reader", &path, &[]);
    let operator = create(server.folder(), "operator", &path, &[]);
    assert_eq!(request_as(&mut connection, &reader, "POST", &skip, None).status, 403);
    assert_eq!(request_as(&mut connection, &operator, "POST", &skip, None).status, 200);
    assert_eq!(request_as(&mut connection, &operator, "DELETE", &skip, None).status, 200);
    let log = std::fs::read_to_string(server.folder().join("audit.log")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let skips: Vec<_> = lines
        .filter_map(|line| {
            let operation = line["operation"].as_str()?.split("/jobs/skip/").nth(1)?.to_owned();
            Some((operation, line["status"].as_u64()?))
        })
        .collect();
    let expected = [("action".into(), 403), ("action".into(), 200), ("delete".into(), 200)];
    assert_eq!(skips, expected);
}
