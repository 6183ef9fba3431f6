//! Occurrences, explanations, status and history of jobs.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::clocked_server::{ClockedServer, format_row, job_path};
use crate::target::{get, path, start, target, wait_for};

const DAY: &str = "2026-11-15T";

fn at(time: &str) -> String {
    format!("{DAY}{time}:00Z")
}

/// Rows without the date.
fn rows(server: &mut ClockedServer, from: &str, to: &str) -> Vec<String> {
    let rows = server.rows("j", &at(from), &at(to));
    rows.into_iter().map(|row| row.replace(DAY, "").replace(":00Z", "")).collect()
}

fn rows_become(server: &mut ClockedServer, from: &str, to: &str, expected: &[&str]) {
    let mut last = vec![];
    let found = wait_for(|| {
        last = rows(server, from, to);
        (last == expected).then_some(())
    });
    assert!(found.is_some(), "{last:?} instead of {expected:?}");
}

fn explain(server: &mut ClockedServer, time: Option<&str>) -> Value {
    let at = time.map_or_else(String::new, |time| format!("&at={}", at(time)));
    get(&mut server.connection, &format!("{}{at}", job_path("j", "/explain")))
}

fn reason(server: &mut ClockedServer, time: Option<&str>) -> String {
    explain(server, time)["reason"].as_str().unwrap().to_owned()
}

#[test]
fn every_scheduled_time_has_one_row_and_a_reason() {
    let Some(mut server) = ClockedServer::at(&at("10:00")) else { return };
    server.put("j", &at("10:01"), json!({"frequency": "Minute", "endTime": at("10:08")}));
    rows_become(&mut server, "10:00", "10:02", &["10:01 Scheduled", "10:02 Scheduled"]);
    assert_eq!(reason(&mut server, None), "Scheduled");
    server.set(&at("10:01"));
    server.call();
    rows_become(&mut server, "10:00", "10:02", &["10:01 Completed", "10:02 Scheduled"]);
    server.set("2026-11-15T10:05:30Z");
    assert_eq!(server.call(), format!("j {}", at("10:05")));
    let all = [
        "10:01 Completed",
        "10:02-10:04 3 Missed",
        "10:05 Completed",
        "10:06 Scheduled",
        "10:07 Scheduled",
        "10:08 Scheduled",
    ];
    rows_become(&mut server, "10:00", "11:00", &all);
    for (time, expected) in [
        ("09:00", "BeforeCreation"),
        ("10:01", "Completed"),
        ("10:03", "Missed"),
        ("10:05", "Completed"),
        ("10:06", "Scheduled"),
        ("10:09", "AfterEnd"),
    ] {
        assert_eq!(reason(&mut server, Some(time)), expected, "{time}");
    }
    let missed = explain(&mut server, Some("10:03"));
    assert_eq!(missed["occurrences"][0]["count"], 3, "{missed}");
    assert_eq!(missed["history"][0]["properties"]["status"], "Postponed", "{missed}");
    assert_eq!(missed["previousOccurrence"], at("10:02"), "{missed}");
    let between = format!("{}&at=2026-11-15T11:05:30+01:00", job_path("j", "/explain"));
    let between = get(&mut server.connection, &between);
    assert_eq!(between["reason"], "NotAnOccurrence", "{between}");
    assert_eq!(between["nextOccurrence"], at("10:06"), "{between}");

    let change = json!({"properties": {"state": "Disabled"}}).to_string();
    assert_eq!(server.connection.request("PATCH", &job_path("j", ""), Some(&change)).status, 200);
    let off = ["10:05 Completed", "10:06 JobDisabled"];
    rows_become(&mut server, "10:05", "10:06", &off);
    assert_eq!(reason(&mut server, None), "JobDisabled");
    assert_eq!(reason(&mut server, Some("10:07")), "JobDisabled");
    server.no_more_calls();
}

fn set_state(server: &mut ClockedServer, state: &str) {
    let change = json!({"properties": {"state": state}}).to_string();
    assert_eq!(server.connection.request("PATCH", &job_path("j", ""), Some(&change)).status, 200);
}

#[test]
fn occurrences_of_a_disabled_job_are_listed_and_recorded_when_it_is_enabled() {
    let Some(mut server) = ClockedServer::at(&at("10:00")) else { return };
    server.put("j", &at("10:01"), json!({"frequency": "Minute", "count": 2}));
    set_state(&mut server, "Disabled");
    set_state(&mut server, "Enabled");
    set_state(&mut server, "Disabled");
    rows_become(&mut server, "10:00", "11:00", &["10:01 JobDisabled", "10:02 JobDisabled"]);
    server.set("2026-11-15T10:03:30Z");
    let passed = ["10:01-10:03 3 JobDisabled", "10:04 JobDisabled", "10:05 JobDisabled"];
    rows_become(&mut server, "10:00", "11:00", &passed);
    let found = explain(&mut server, Some("10:02"));
    assert_eq!(found["reason"], "JobDisabled", "{found}");
    assert_eq!(found["occurrences"][0]["count"], 1, "{found}");
    let described = json!({"properties": {"description": "x"}}).to_string();
    assert_eq!(
        server.connection.request("PATCH", &job_path("j", ""), Some(&described)).status,
        200
    );
    rows_become(&mut server, "10:00", "11:00", &passed);
    server.set("2026-11-15T10:05:30Z");
    let bulk = json!({"action": "enable", "filter": "state eq Disabled"}).to_string();
    let jobs = path("/jobs/bulk");
    assert_eq!(server.connection.request("POST", &jobs, Some(&bulk)).status, 200);
    let enabled = ["10:01-10:05 5 SkippedDisabled", "10:06 Scheduled", "10:07 Scheduled"];
    rows_become(&mut server, "10:00", "11:00", &enabled);
    assert_eq!(reason(&mut server, Some("10:05")), "SkippedDisabled");
    server.set(&at("10:06"));
    assert_eq!(server.call(), format!("j {}", at("10:06")));
    server.no_more_calls();
}

#[test]
fn occurrences_are_paged() {
    let Some(mut server) = ClockedServer::at(&at("10:00")) else { return };
    server.put("j", &at("10:01"), json!({"frequency": "Minute"}));
    server.set(&at("10:01"));
    server.call();
    rows_become(&mut server, "10:00", "10:01", &["10:01 Completed"]);
    server.set("2026-11-15T10:05:30Z");
    server.call();
    // Several manual runs at the same time: the clock stands still.
    for _ in 0..5 {
        assert_eq!(server.connection.request("POST", &job_path("j", "/run"), None).status, 200);
        server.call();
    }
    let manual = "10:05:30Z Completed";
    let all = ["10:01 Completed", "10:02-10:04 3 Missed", "10:05 Completed"]
        .into_iter()
        .chain([manual; 5])
        .chain(["10:06 Scheduled", "10:07 Scheduled"]);
    let all: Vec<_> = all.collect();
    rows_become(&mut server, "10:00", "10:07", &all);
    for top in [1, 2, 3, 4, 9, 10] {
        let (from, to) = (at("10:00"), at("10:07"));
        let list = job_path("j", "/occurrences");
        let mut target = format!("{list}&from={from}&to={to}&$top={top}");
        let mut found = Vec::new();
        loop {
            let page = get(&mut server.connection, &target);
            let rows = page["value"].as_array().unwrap().iter().map(format_row);
            found.extend(rows.map(|row| row.replace(DAY, "").replace(":00Z", "")));
            let Some(next) = page["nextLink"].as_str() else { break };
            let host = format!("http://{}", server.server.address);
            target = next.strip_prefix(&host).unwrap().to_owned();
        }
        assert_eq!(found, all, "in pages of {top}");
    }
    let old = job_path("j", "/occurrences").replace("2026-11-01", "2016-03-01");
    assert_eq!(server.connection.request("GET", &old, None).status, 404);
    for bad in ["from=yesterday", "from=2026-11-16&to=2026-11-15", "$top=0", "$skiptoken=x"] {
        let target = format!("{}&{bad}", job_path("j", "/occurrences"));
        assert_eq!(server.connection.request("GET", &target, None).status, 400, "{bad}");
    }
    assert_eq!(server.connection.request("GET", &job_path("none", "/explain"), None).status, 404);
}

#[test]
fn running_and_retrying_occurrences_are_listed() {
    let Some(mut server) = ClockedServer::at(&at("10:00")) else { return };
    // Accepts connections and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("http://{}/", silent.local_addr().unwrap());
    server.put_with("j", &uri, json!({"startTime": at("10:00")}));
    rows_become(&mut server, "10:00", "10:00", &["10:00 Running"]);
    assert_eq!(reason(&mut server, None), "Running");
    let failing = format!("http://{}/fail", server.target);
    let action = json!({"type": "Http", "request": {"uri": failing, "method": "GET"}});
    let body = json!({"properties": {"startTime": at("10:00"), "action": action}}).to_string();
    assert_eq!(server.connection.request("PUT", &job_path("k", ""), Some(&body)).status, 201);
    let row = wait_for(|| {
        let target = format!("{}&from={}", job_path("k", "/occurrences"), at("09:00"));
        let row = get(&mut server.connection, &target)["value"][0].clone();
        (row["disposition"] == "Retrying").then_some(row)
    });
    let row = row.expect("the attempt is not retried");
    assert_eq!(row["nextAttemptTime"], "2026-11-15T10:00:30Z", "{row}");
    assert_eq!(row["retryCount"], 1, "{row}");
    for at in [format!("&at={}", at("10:00")), String::new()] {
        let explain = format!("{}{at}", job_path("k", "/explain"));
        let found = get(&mut server.connection, &explain);
        assert_eq!(found["reason"], "Retrying", "{found}");
        assert_eq!(found["history"][0]["properties"]["status"], "Failed", "{found}");
    }
}

#[test]
fn a_bulk_run_reports_the_result_of_each_job() {
    let (address, calls) = target();
    let (_server, mut connection) = start();
    let definition = |state: &str| {
        let action = json!({
            "type": "Http",
            "request": {"uri": format!("http://{address}/"), "method": "GET"},
            "retryPolicy": {"retryType": "None"}
        });
        let recurrence = json!({"frequency": "Day", "count": 2});
        let start = "2027-01-01T00:00:00Z";
        json!({"properties": {"action": action, "startTime": start, "recurrence": recurrence, "state": state}})
    };
    for (name, state) in [("a", "Enabled"), ("off", "Disabled")] {
        let put =
            connection.request("PUT", &job_path(name, ""), Some(&definition(state).to_string()));
        assert_eq!(put.status, 201, "{put:?}");
    }
    let mut completed = definition("Enabled");
    completed["properties"]["recurrence"]["endTime"] = "2020-01-01".into();
    // Only the old versions accept an `endTime` in the past.
    let old = job_path("completed", "").replace("2026-11-01", "2016-03-01");
    assert_eq!(connection.request("PUT", &old, Some(&completed.to_string())).status, 201);
    let mut bulk = |body: Value| {
        let response = connection.request("POST", &path("/jobs/bulk"), Some(&body.to_string()));
        let response: Value = serde_json::from_str(&response.body).unwrap();
        let one = |one: &Value| {
            let result = one["error"]["code"].as_str().or(one["result"].as_str());
            format!("{} {}", one["name"].as_str().unwrap(), result.unwrap())
        };
        response["value"].as_array().unwrap().iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let found = bulk(json!({"action": "Run", "names": ["a", "off", "completed", "none"]}));
    assert_eq!(found, "jc/a Done, jc/off Done, jc/completed Done, jc/none NotFound");
    let found = bulk(json!({"action": "run", "filter": "state eq Disabled"}));
    assert_eq!(found, "jc/off Done");
    for _ in 0..4 {
        calls.recv_timeout(crate::target::TIMEOUT).unwrap();
    }
    // Manual runs change neither the schedule nor the count, and the disabled job stays disabled.
    let job = wait_for(|| {
        let job = get(&mut connection, &job_path("a", ""));
        (job["properties"]["status"]["executionCount"] == 1).then_some(job)
    });
    let job = job.expect("the job has not run");
    assert_eq!(job["properties"]["status"]["nextExecutionTime"], "2027-01-01T00:00:00Z");
    let rows = get(&mut connection, &job_path("a", "/occurrences"));
    let found: Vec<_> = rows["value"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            format!("{} {}", row["cause"].as_str().unwrap(), row["disposition"].as_str().unwrap())
        })
        .collect();
    assert_eq!(found, ["Manual Completed", "Scheduled Scheduled", "Scheduled Scheduled"]);
    assert_eq!(get(&mut connection, &job_path("off", ""))["properties"]["state"], "Disabled");
    let once = connection.request("POST", &job_path("a", "/run"), None);
    assert_eq!((once.status, once.body.as_str()), (200, ""));
}

#[test]
fn status_and_history_have_the_form_of_each_api_version() {
    let Some(mut server) = ClockedServer::at(&at("10:00")) else { return };
    server.put("j", &at("10:01"), json!({"frequency": "Hour"}));
    server.set(&at("10:01"));
    server.call();
    rows_become(&mut server, "10:00", "10:02", &["10:01 Completed"]);
    let status = r#""status":{"lastExecutionTime":"2026-11-15T10:01:00Z","nextExecutionTime":"2026-11-15T11:01:00Z","executionCount":1,"failureCount":0,"faultedCount":0}"#;
    for version in ["2014-08-01-preview", "2016-01-01", "2016-03-01", "2026-11-01"] {
        let job = server.connection.request(
            "GET",
            &job_path("j", "").replace("2026-11-01", version),
            None,
        );
        assert!(job.body.contains(status), "{version}: {}", job.body);
        let history = job_path("j", "/history").replace("2026-11-01", version);
        let history = server.connection.request("GET", &history, None).body;
        let times = r#""properties":{"startTime":"2026-11-15T10:01:00Z","endTime":"2026-11-15T10:01:00Z","expectedExecutionTime":"2026-11-15T10:01:00Z","#;
        let status = if version == "2026-11-01" { r#""status":"Completed","# } else { "" };
        let start = format!(
            r#"{times}{status}"message":"Http Action - Response from host '127.0.0.1': 'OK'"#
        );
        assert!(history.contains(&start), "{version}: {history}");
        let end = r#""retryCount":0,"repeatCount":1,"actionName":"MainAction""#;
        let end = match version {
            "2026-11-01" => format!(r#"{end},"generation":1,"timing":{{"connect":"PT"#),
            _ => format!(r#"{end}}}}}],"nextLink":null}}"#),
        };
        assert!(history.contains(&end), "{version}: {history}");
    }
}

#[test]
fn an_explanation_has_the_schedule_in_words_and_the_dst_transitions_of_the_coming_year() {
    let Some(mut server) = ClockedServer::at(&at("10:00")) else { return };
    let daily = json!({"frequency": "Day", "timeZone": "Europe/Berlin", "endTime": "2027-12-01T00:00:00Z",
        "schedule": {"hours": [2], "minutes": [30]}});
    server.put("j", &at("10:01"), daily);
    let found = explain(&mut server, None);
    let schedule = "At 02:30 every day, Europe/Berlin, not after 2027-12-01";
    assert_eq!(found["job"]["schedule"], schedule, "{found}");
    let notes = found["notes"].as_array().unwrap();
    assert_eq!(notes.len(), 2, "the DST transitions of the coming year: {found}");
    assert!(notes[0].as_str().unwrap().contains("2027-03-28"), "{found}");
    let near = explain(&mut server, Some("10:02"));
    assert_eq!(near["notes"], json!([]), "none is near: {near}");
    let coming = &found["occurrences"][0];
    assert_eq!(coming.get("idempotencyKey"), None, "not a run yet: {found}");
}
