//! Definitions of jobs that edits replaced.

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::store_migration::job;
use crate::target::{TIMEOUT, get, target, wait_for};
use crate::test_server::{TestServer, run_jobs};

const JOB: &str = "/api/collections/web/jobs/j";

fn put(connection: &mut Connection, uri: &str) {
    let body = job(uri, json!({"recurrence": {"cron": "0 2 * * *"}}));
    let response = connection.request("PUT", JOB, Some(&body));
    assert!(matches!(response.status, 200 | 201), "{response:?}");
}

/// Runs the job and returns the generation that history names.
fn run(connection: &mut Connection, runs: usize) -> Value {
    let response = connection.request("POST", &format!("{JOB}/run"), None);
    assert_eq!(response.status, 200, "{response:?}");
    let newest = wait_for(|| {
        let history = get(connection, &format!("{JOB}/history"));
        let entries = history["value"].as_array().unwrap();
        (entries.len() == runs).then(|| entries[0]["properties"]["generation"].clone())
    });
    newest.unwrap()
}

#[test]
fn the_definition_that_a_run_used_is_found_after_edits() {
    let (address, calls) = target();
    let server = TestServer::start_with(|command, _| {
        run_jobs(command);
        command.args(["--secrets-headers", "X-Token"]);
    });
    let mut connection = server.connect();
    let uri = |number: u32| format!("http://{address}/{number}?sig=canary");
    let masked = |number: u32| uri(number).replace("canary", "${stored}");
    for number in 1..=2 {
        put(&mut connection, &uri(number));
    }
    assert_eq!(run(&mut connection, 1), 2);
    let present = get(&mut connection, JOB);
    for number in 3..=4 {
        put(&mut connection, &uri(number));
    }
    assert_eq!(run(&mut connection, 2), 4);
    for _ in 0..2 {
        calls.recv_timeout(TIMEOUT).unwrap();
    }
    let earlier = get(&mut connection, &format!("{JOB}/definitions/2"));
    assert_eq!(earlier["generation"], 2);
    let mut properties = present["properties"].clone();
    properties.as_object_mut().unwrap().remove("status");
    let request = &mut properties["action"]["request"];
    request["uri"] = masked(2).into();
    request["headers"]["X-Token"] = "${stored}".into();
    assert_eq!(earlier["properties"], properties, "the form of a GET of the job");
    assert!(earlier["replacedTime"].is_string(), "{earlier}");
    assert!(!earlier.to_string().contains("canary"), "no secret: {earlier}");
    let third = get(&mut connection, &format!("{JOB}/definitions/3"));
    assert_eq!(third["properties"]["action"]["request"]["uri"], masked(3));
    let fourth = get(&mut connection, &format!("{JOB}/definitions/4"));
    assert_eq!(fourth["properties"]["action"]["request"]["uri"], uri(4));
    assert_eq!(fourth.get("replacedTime"), None, "it is the present one");
    for (generation, is_found) in [("1", "cannot be found"), ("5", "cannot be found"), ("x", "")] {
        let missing = connection.request("GET", &format!("{JOB}/definitions/{generation}"), None);
        assert_eq!(missing.status, 404, "{missing:?}");
        assert!(missing.body.contains(is_found), "{missing:?}");
    }
    let old =
        connection.request("GET", &format!("{JOB}/definitions/2?api-version=2016-03-01"), None);
    assert_eq!(old.status, 404, "{old:?}");

    let runs = get(&mut connection, "/api/runs?job=j&collection=web");
    let first = runs["value"].as_array().unwrap().last().unwrap();
    let time = first["scheduledTime"].as_str().unwrap();
    let page = connection.request("GET", &format!("/jobs/web/j/runs/{time}"), None);
    assert!(page.body.contains("this is the request of generation 2"), "{}", page.body);
    assert!(
        page.body.contains("GET /2?sig=[masked] HTTP/1.1") && !page.body.contains("canary"),
        "{page:?}"
    );
}
