//! Every example of docs/jobs.md is a job that the server accepts and returns.

use serde_json::Value;

use crate::test_server::{TestServer, clock_library};

const JOBS: &str = include_str!("../../../../docs/jobs.md");
const COLLECTION: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/rg\
                          /providers/Microsoft.Scheduler/jobCollections/jc";
const STANDARD: &str = r#"{"location":"West US","properties":{"sku":{"name":"Standard"}}}"#;
/// The examples have fixed dates, so the server gets a fixed time.
pub(crate) const NOW: &str = "2026-11-16 09:00:00";

/// Names and bodies of the examples.
pub(crate) fn examples() -> Vec<(&'static str, &'static str)> {
    let mut examples = Vec::new();
    for part in JOBS.split("<!-- job: ").skip(1) {
        let (name, rest) = part.split_once(" -->").unwrap();
        let body = rest.trim_start().strip_prefix("```json").unwrap();
        examples.push((name, body.split_once("```").unwrap().0));
    }
    examples
}

#[test]
fn every_example_of_the_job_reference_is_accepted() {
    let Some(library) = clock_library() else {
        return eprintln!("skipped: libfaketime is not installed");
    };
    let server = TestServer::start_at(&library, NOW);
    let mut connection = server.connect();
    let path = |path: &str| format!("{COLLECTION}{path}?api-version=2026-11-01");
    assert_eq!(connection.request("PUT", &path(""), Some(STANDARD)).status, 201);
    let examples = examples();
    assert!(examples.len() >= 30, "{}", examples.len());
    for (name, body) in examples {
        let job = path(&format!("/jobs/{name}"));
        let created = connection.request("PUT", &job, Some(body));
        assert_eq!(created.status, 201, "{name}: {created:?}");
        let repeated = connection.request("PUT", &job, Some(body));
        assert_eq!(repeated.status, 200, "{name}: {repeated:?}");
        let read = connection.request("GET", &job, None);
        let read: Value = serde_json::from_str(&read.body).unwrap();
        let written: Value = serde_json::from_str(body).unwrap();
        let kind = &written["properties"]["action"]["type"];
        assert_eq!(&read["properties"]["action"]["type"], kind, "{name}");
    }
}
