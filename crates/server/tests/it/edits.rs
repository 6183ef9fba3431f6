//! Edits of jobs: the time they go by.

use std::sync::Arc;

use jiff::Timestamp;
use kalends_environment::ManualClock;
use kalends_server::Settings;
use kalends_store::ApiStore as _;

use crate::search::{collection, jobs, send};
use crate::test_server::{COLLECTION, start_at};

fn clock(now: &str) -> Arc<ManualClock> {
    Arc::new(ManualClock::new(now.parse::<Timestamp>().unwrap()))
}

/// An edit may wait for the store, behind runs that the engine starts meanwhile. Going by the time of
/// its arrival, it would schedule such a run a second time.
#[tokio::test]
async fn edits_and_manual_runs_go_by_the_clock_of_the_store() {
    let (arrival, decision) = (clock("2026-11-16T09:59:59Z"), clock("2026-11-16T10:00:01Z"));
    let server = start_at(Settings::default(), None, arrival, decision).await;
    let standard = r#"{"location":"West US","properties":{"sku":{"name":"Standard"}}}"#;
    send(server.address, "PUT", COLLECTION, standard).await;
    let hourly = |uri: &str| {
        let action = format!(r#"{{"type":"Http","request":{{"uri":"{uri}","method":"GET"}}}}"#);
        let recurrence = r#"{"frequency":"Hour","interval":1}"#;
        format!(
            r#"{{"properties":{{"startTime":"2026-11-01T00:00:00Z","recurrence":{recurrence},"action":{action}}}}}"#
        )
    };
    send(server.address, "PUT", &jobs("/j"), &hourly("http://example.com/1")).await;
    let patch = r#"{"properties":{"recurrence":{"frequency":"Hour","interval":1},"startTime":"2026-11-02T00:00:00Z"}}"#;
    for (method, body) in [("PUT", &*hourly("http://example.com/2")), ("PATCH", patch)] {
        send(server.address, method, &jobs("/j"), body).await;
        let path = kalends_domain::JobPath {
            collection: collection(),
            job: kalends_domain::JobName::new("j").unwrap(),
        };
        let (job, _) = server.store.job(path).await.unwrap().unwrap();
        let due = job.state.due.unwrap().to_string();
        assert_eq!(due, "2026-11-16T11:00:00Z", "{method}: 10:00 may have started already");
    }
    send(server.address, "POST", &jobs("/j/run"), "").await;
    let path = kalends_domain::JobPath {
        collection: collection(),
        job: kalends_domain::JobName::new("j").unwrap(),
    };
    let (job, _) = server.store.job(path).await.unwrap().unwrap();
    let runs = server.store.open_runs(job.key).await.unwrap();
    assert_eq!(runs[0].scheduled.to_string(), "2026-11-16T10:00:01Z");
}
