//! Runs of all jobs, their counts, and the statistics of a job.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::target::{get, job, path, start, target, wait_for};
use crate::test_server::run_jobs;
use crate::tokens::{STANDARD, code, collection, create, guarded_with, new, request_as};

/// Runs a job and waits until the run is closed.
fn run(connection: &mut Connection, name: &str, runs: u64) {
    let response = connection.request("POST", &path(&format!("/jobs/{name}/run")), None);
    assert_eq!(response.status, 200, "{response:?}");
    let statistics = path(&format!("/jobs/{name}/statistics"));
    let closed = wait_for(|| (get(connection, &statistics)["runs"] == runs).then_some(()));
    assert!(closed.is_some(), "{}", get(connection, &statistics));
}

/// A definition of a job that only a request runs.
fn manual(uri: &str) -> String {
    let mut job: Value = serde_json::from_str(&job(uri, json!({"retryType": "None"}))).unwrap();
    job["properties"]["recurrence"] = json!({"frequency": "Day"});
    job["properties"]["state"] = json!("Disabled");
    job.to_string()
}

#[test]
fn the_statistics_of_a_job_cover_its_newest_runs() {
    let (address, _calls) = target();
    let (_server, mut connection) = start();
    let put = |connection: &mut Connection, end: &str| {
        let body = manual(&format!("http://{address}/{end}"));
        connection.request("PUT", &path("/jobs/j"), Some(&body)).status
    };
    assert_eq!(put(&mut connection, ""), 201);
    let statistics = path("/jobs/j/statistics");
    let empty = json!({"outcomes": [], "running": false, "runs": 0, "succeeded": 0,
        "duration": {}, "consecutiveFailures": 0});
    assert_eq!(get(&mut connection, &statistics), empty);
    run(&mut connection, "j", 1);
    assert_eq!(put(&mut connection, "fail"), 200);
    run(&mut connection, "j", 2);
    run(&mut connection, "j", 3);
    let found = get(&mut connection, &statistics);
    assert_eq!((&found["succeeded"], &found["consecutiveFailures"]), (&json!(1), &json!(2)));
    assert_eq!(found["successRate"], json!(0.3333));
    let outcomes = found["outcomes"].as_array().unwrap();
    let statuses: Vec<_> = outcomes.iter().map(|outcome| outcome["status"].as_str()).collect();
    assert_eq!(statuses, [Some("Failed"), Some("Failed"), Some("Succeeded")]);
    assert!(outcomes.iter().all(|outcome| outcome["durationMilliseconds"].is_number()), "{found}");
    assert!(found["duration"]["p95Milliseconds"].is_number(), "{found}");
    assert_eq!(found["since"], outcomes[2]["scheduledTime"]);

    let old = connection.request("GET", &statistics.replace("2026-11-01", "2016-03-01"), None);
    assert_eq!(old.status, 404, "{old:?}");
    let missing = connection.request("GET", &path("/jobs/none/statistics"), None);
    assert_eq!(missing.status, 404, "{missing:?}");
}

/// Job and status of each run of a page.
fn runs(page: &Value) -> Vec<(String, String)> {
    let text = |run: &Value, name: &str| run[name].as_str().unwrap().to_owned();
    let runs = page["value"].as_array().unwrap();
    runs.iter().map(|run| (text(run, "job"), text(run, "status"))).collect()
}

fn expected(runs: &[(&str, &str)]) -> Vec<(String, String)> {
    runs.iter().map(|(job, status)| ((*job).to_owned(), (*status).to_owned())).collect()
}

#[test]
fn the_overview_counts_the_open_runs_that_the_list_shows() {
    let (address, _calls) = target();
    // Accepts connections and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (_server, mut connection) = start();
    let count = |connection: &mut Connection| {
        let overview = get(connection, "/api/overview");
        assert_eq!(overview["moreRunning"], false, "{overview}");
        overview["running"].as_u64().unwrap()
    };
    assert_eq!(count(&mut connection), 0);
    let silent = format!("http://{}/", silent.local_addr().unwrap());
    let failing = format!("http://{address}/fail");
    let retry = json!({"retryType": "Fixed", "retryInterval": "PT1H", "retryCount": 2});
    for (name, uri, disposition) in [("slow", silent, "Running"), ("bad", failing, "Retrying")] {
        let body = job(&uri, retry.clone());
        let put = connection.request("PUT", &path(&format!("/jobs/{name}")), Some(&body));
        assert_eq!(put.status, 201, "{put:?}");
        let listed = wait_for(|| {
            let page = get(&mut connection, "/api/runs?status=Running");
            (page["value"][0]["disposition"] == disposition).then_some(page)
        });
        let listed = listed.expect(name);
        let runs = listed["value"].as_array().unwrap().len() as u64;
        assert_eq!(count(&mut connection), runs, "at once: {listed}");
    }
    assert_eq!(count(&mut connection), 2);
    assert_eq!(connection.request("DELETE", &path("/jobs/bad"), None).status, 200);
    assert_eq!(count(&mut connection), 1);
}

#[test]
fn runs_of_all_jobs_are_listed_newest_first_and_counted() {
    let (address, _calls) = target();
    let (_server, mut connection) = start();
    for (name, end) in [("good", ""), ("bad", "fail")] {
        let body = manual(&format!("http://{address}/{end}"));
        let put = connection.request("PUT", &path(&format!("/jobs/{name}")), Some(&body));
        assert_eq!(put.status, 201, "{put:?}");
    }
    run(&mut connection, "good", 1);
    run(&mut connection, "bad", 1);
    run(&mut connection, "good", 2);
    let (ok, failed) = ("Succeeded", "Failed");
    let all = get(&mut connection, "/api/runs");
    assert_eq!(runs(&all), expected(&[("good", ok), ("bad", failed), ("good", ok)]));
    let newest = &all["value"][0];
    assert_eq!((&newest["kind"], &newest["attempts"]), (&json!("Manual"), &json!(1)));
    assert!(newest["message"].as_str().unwrap().starts_with("Http Action - Response"), "{newest}");
    assert!(newest["durationMilliseconds"].is_number(), "{newest}");
    assert!(newest["id"].as_str().unwrap().ends_with("/jobs/good"), "{newest}");
    assert_eq!(all["nextLink"], json!(null));

    let id = newest["collection"].as_str().unwrap();
    let mut list = |query: &str| runs(&get(&mut connection, &format!("/api/runs?{query}")));
    assert_eq!(list("status=failed"), expected(&[("bad", failed)]));
    assert_eq!(list("status=Running"), expected(&[]));
    assert_eq!(list(&format!("collection={id}&job=bad")), expected(&[("bad", failed)]));
    assert_eq!(list(&format!("collection={id}&job=none")), expected(&[]));
    assert_eq!(list("to=2020-01-01T00:00:00Z"), expected(&[]));
    assert_eq!(list("from=2020-01-01T00:00:00Z").len(), 3);
    // Page by page.
    let (mut target, mut found) = ("/api/runs?limit=1".to_owned(), Vec::new());
    loop {
        let page = get(&mut connection, &target);
        found.extend(runs(&page));
        let Some(next) = page["nextLink"].as_str() else { break };
        target = next[next.find("/api").unwrap()..].to_owned();
    }
    assert_eq!(found, runs(&all));
    for query in ["job=good", "status=none", "limit=0", "cursor=x", "from=yesterday"] {
        let response = connection.request("GET", &format!("/api/runs?{query}"), None);
        assert_eq!(code(&response), (400, "InvalidQueryParameter".into()), "{query}");
    }

    let counts = get(&mut connection, "/api/run-counts");
    assert_eq!(counts["bucket"], "PT1H");
    let buckets = counts["buckets"].as_array().unwrap();
    assert_eq!(buckets.len(), 25);
    let sum = |name: &str| buckets.iter().map(|bucket| bucket[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(["succeeded", "failed", "skipped", "missed"].map(sum), [2, 1, 0, 0]);
    let days = get(&mut connection, "/api/run-counts?bucket=P1D&from=2020-01-01T00:00:00Z");
    assert_eq!(days["buckets"].as_array().unwrap().len(), 9);
    for query in ["bucket=PT5M", "bucket=P2D", "bucket=x", "from=2100-01-01T00:00:00Z"] {
        let response = connection.request("GET", &format!("/api/run-counts?{query}"), None);
        assert_eq!(code(&response), (400, "InvalidQueryParameter".into()), "{query}");
    }
}

#[test]
fn a_failed_run_is_listed_with_its_own_outcome_and_that_of_its_error_action_apart() {
    let (address, _calls) = target();
    let (_server, mut connection) = start();
    for (name, end) in [("reported", ""), ("unreported", "fail")] {
        let mut body: Value =
            serde_json::from_str(&manual(&format!("http://{address}/fail"))).unwrap();
        body["properties"]["action"]["errorAction"] = json!({
            "type": "Http",
            "request": {"uri": format!("http://{address}/{end}"), "method": "post"},
            "retryPolicy": {"retryType": "None"},
        });
        let body = body.to_string();
        let put = connection.request("PUT", &path(&format!("/jobs/{name}")), Some(&body));
        assert_eq!(put.status, 201, "{put:?}");
        run(&mut connection, name, 1);
    }
    let page = get(&mut connection, "/api/runs");
    assert_eq!(
        runs(&page),
        expected(&[("unreported", "Failed"), ("reported", "Failed")]),
        "the status of the error action is not that of the run"
    );
    for (run, (status, response)) in page["value"]
        .as_array()
        .unwrap()
        .iter()
        .zip([("Failed", "ServiceUnavailable"), ("Succeeded", "'OK'")])
    {
        assert_eq!(run["attempts"], 1, "{run}");
        assert!(run["message"].as_str().unwrap().contains("ServiceUnavailable"), "{run}");
        let error_action = &run["errorAction"];
        assert_eq!(
            (&error_action["status"], &error_action["attempts"]),
            (&json!(status), &json!(1))
        );
        assert!(error_action["message"].as_str().unwrap().contains(response), "{run}");
    }
}

/// A reader of one collection sees nothing of another one, neither closed nor open runs nor counts, and
/// cannot use the cursor of another caller.
#[test]
fn runs_and_counts_cover_only_what_the_caller_may_read() {
    let (address, _calls) = target();
    let (server, owner) = guarded_with(|command| {
        run_jobs(command);
        command.args(["--egress-mode", "single-user"]);
    });
    let mut connection = server.connect();
    for name in ["a", "b"] {
        let scope = collection("g", name);
        let put = request_as(&mut connection, &owner, "PUT", &new(&scope), Some(STANDARD));
        assert_eq!(put.status, 201, "{put:?}");
        let job = format!("{scope}/jobs/secret-{name}");
        let body = manual(&format!("http://{address}/"));
        let put = request_as(&mut connection, &owner, "PUT", &new(&job), Some(&body));
        assert_eq!(put.status, 201, "{put:?}");
        for _ in 0..2 {
            let run = new(&format!("{job}/run"));
            assert_eq!(request_as(&mut connection, &owner, "POST", &run, None).status, 200);
        }
    }
    let mut read = |token: &str, target: &str| {
        let response = request_as(&mut connection, token, "GET", target, None);
        (response.status, response.body)
    };
    let closed = wait_for(|| {
        let page: Value =
            serde_json::from_str(&read(&owner, "/api/runs?status=Succeeded").1).unwrap();
        (page["value"].as_array().unwrap().len() == 4).then_some(())
    });
    assert!(closed.is_some());
    let reader = create(server.folder(), "reader", &collection("g", "a"), &[]);
    for target in ["/api/runs", "/api/runs?status=Succeeded", "/api/runs?status=Running"] {
        let (status, body) = read(&reader, target);
        assert_eq!(status, 200, "{body}");
        assert!(!body.contains("secret-b"), "{target}: {body}");
    }
    let page: Value = serde_json::from_str(&read(&reader, "/api/runs").1).unwrap();
    assert_eq!(page["value"].as_array().unwrap().len(), 2);
    let sum = |body: &str| {
        let counts: Value = serde_json::from_str(body).unwrap();
        let buckets = counts["buckets"].as_array().unwrap();
        buckets.iter().map(|bucket| bucket["succeeded"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(sum(&read(&reader, "/api/run-counts").1), 2);
    assert_eq!(sum(&read(&owner, "/api/run-counts").1), 4);
    let nobody = create(server.folder(), "owner", &collection("g", "none"), &[]);
    assert_eq!(sum(&read(&nobody, "/api/run-counts").1), 0);
    // The same response as for a collection that does not exist.
    let other = |name: &str| format!("/api/runs?collection={}", collection("g", name));
    let (hidden, missing) = (read(&reader, &other("b")), read(&reader, &other("x")));
    assert_eq!((hidden.0, missing.0), (404, 404));
    assert_eq!(hidden.1, missing.1.replace("'x'", "'b'").replace("/x", "/b"));
    let first: Value = serde_json::from_str(&read(&owner, "/api/runs?limit=1").1).unwrap();
    let next = first["nextLink"].as_str().unwrap();
    let next = &next[next.find("/api").unwrap()..];
    assert_eq!(read(&owner, next).0, 200);
    assert_eq!(read(&reader, next).0, 400);
    let statistics = new(&format!("{}/jobs/secret-b/statistics", collection("g", "b")));
    assert_eq!(read(&reader, &statistics).0, 404);
}
