//! Paths below `/api`: the default subscription and resource group, without an API version.

use serde_json::{Value, json};

use crate::connection::{Connection, Response};
use crate::test_server::TestServer;
use crate::tokens::code;

fn job(cron: &str) -> String {
    let action =
        json!({"type": "Http", "request": {"uri": "http://example.org/", "method": "GET"}});
    json!({"properties": {"action": action, "recurrence": {"cron": cron}}}).to_string()
}

fn body(response: &Response) -> Value {
    serde_json::from_str(&response.body).expect(&response.body)
}

fn put(connection: &mut Connection, path: &str, cron: &str) -> Response {
    connection.request("PUT", path, Some(&job(cron)))
}

const ARM: &str = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/default/providers/Microsoft.Scheduler/jobCollections";

#[test]
fn the_first_job_creates_its_collection() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let created = put(&mut connection, "/api/collections/web/jobs/nightly", "0 2 * * *");
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(body(&created)["id"], format!("{ARM}/web/jobs/nightly"));
    let arm = format!("{ARM}/web?api-version=2026-11-01");
    let collection = body(&connection.request("GET", &arm, None));
    assert_eq!(collection["location"], "local");
    assert_eq!(collection["properties"]["sku"]["name"], "Standard");
    let short = connection.request("GET", "/api/collections/web", None);
    assert_eq!(body(&short), collection);
}

#[test]
fn a_rejected_job_leaves_no_collection() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let refused = put(&mut connection, "/api/collections/web/jobs/never", "0 2 31 2 *");
    assert_eq!(code(&refused), (400, "RecurrenceNeverFires".into()), "{refused:?}");
    assert_eq!(connection.request("GET", "/api/collections/web", None).status, 404);
    // An ARM path does not create collections.
    let arm = format!("{ARM}/web/jobs/j?api-version=2026-11-01");
    assert_eq!(put(&mut connection, &arm, "0 2 * * *").status, 404);
}

#[test]
fn such_a_collection_has_no_plan_limits_and_keeps_that() {
    let server = TestServer::start();
    let mut connection = server.connect();
    for number in 0..60 {
        let path = format!("/api/collections/web/jobs/j{number}");
        assert_eq!(put(&mut connection, &path, "* * * * *").status, 201, "{number}");
    }
    let collection = connection.request("GET", "/api/collections/web", None);
    let replaced = connection.request("PUT", "/api/collections/web", Some(&collection.body));
    assert_eq!(replaced.status, 201, "{replaced:?}");
    let more = put(&mut connection, "/api/collections/web/jobs/more", "* * * * *");
    assert_eq!(more.status, 201, "{more:?}");
}

#[test]
fn links_have_the_form_of_the_request() {
    let server = TestServer::start();
    let mut connection = server.connect();
    for name in ["a", "b", "c"] {
        let path = format!("/api/collections/web/jobs/{name}");
        assert_eq!(put(&mut connection, &path, "0 2 * * *").status, 201);
    }
    let first = body(&connection.request("GET", "/api/collections/web/jobs?$top=2", None));
    let next = first["nextLink"].as_str().unwrap();
    let (_, path) = next.split_once("/api/collections/web/jobs").expect(next);
    let path = format!("/api/collections/web/jobs{path}");
    let second = body(&connection.request("GET", &path, None));
    assert_eq!(second["value"][0]["name"], "web/c", "{second}");
    for path in ["run", "preview"] {
        let path = format!("/api/collections/web/jobs/a/{path}");
        let response = connection.request("POST", &path, Some("{}"));
        assert_ne!(response.status, 404, "{path}: {response:?}");
    }
    assert_eq!(connection.request("GET", "/api/collections/web/jobs/a/explain", None).status, 200);
}

#[test]
fn subscription_and_group_of_short_paths_are_settings() {
    let subscription = "6c55a6f0-6593-472f-9b3e-a51a9a757b40";
    let server = TestServer::start_with(|command, _| {
        command.args(["--api-subscription", subscription, "--api-group", "Team"]);
    });
    let mut connection = server.connect();
    let created = put(&mut connection, "/api/collections/web/jobs/j", "0 2 * * *");
    let id = body(&created)["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with(&format!("/subscriptions/{subscription}/resourceGroups/Team/")), "{id}");
}
