//! Numbers over all collections, on a clock that stands still.

use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{
    CertificateFacts, CollectionPath, HttpAuthentication, JobDefinition, JobFacts, JobName,
    JobPath, Lifecycle, PlanLimits, Secret, Switch, Target,
};
use kalends_environment::ManualClock;
use kalends_recurrence::{Instant, Recurrence};
use kalends_server::Settings;
use kalends_store::record::{JobState, JobUid};
use kalends_store::{ApiStore as _, JobContext, JobPut, JobWrite, WaitingRuns};

use crate::search::{collection, exchange, send};
use crate::test_server::{COLLECTION, Server, start_at};

const NOW: &str = "2026-11-16T12:30:20Z";

fn at(text: &str) -> Instant {
    text.parse().unwrap()
}

/// A job with a cron expression that is due at a time.
struct Sample {
    name: &'static str,
    cron: Option<&'static str>,
    due: Option<&'static str>,
    switch: Switch,
    state: JobState,
    created: &'static str,
    certificate: Option<&'static str>,
    count: Option<i64>,
}

impl Default for Sample {
    fn default() -> Sample {
        Sample {
            name: "j",
            cron: Some("0 3 * * *"),
            due: None,
            switch: Switch::Enabled,
            state: JobState::default(),
            created: "2026-01-01T00:00:00Z",
            certificate: None,
            count: None,
        }
    }
}

struct TestOverview {
    server: Server,
    clock: Arc<ManualClock>,
    template: JobDefinition,
}

impl TestOverview {
    /// A server with a collection of at most 5 jobs.
    async fn start() -> TestOverview {
        let clock = Arc::new(ManualClock::new(NOW.parse().unwrap()));
        let settings = Settings { plans: PlanLimits::Off, ..Settings::default() };
        let server = start_at(settings, None, clock.clone(), clock.clone()).await;
        let body = r#"{"location":"West US","properties":{"sku":{"name":"Standard"},"quota":{"maxJobCount":5}}}"#;
        send(server.address, "PUT", COLLECTION, body).await;
        let (path, version) = COLLECTION.split_once('?').unwrap();
        let job = r#"{"properties":{"startTime":"2027-01-01T00:00:00Z","action":{"type":"Https","request":{"uri":"https://example.com/","method":"GET"}}}}"#;
        let template = format!("{path}/jobs/template?{version}");
        send(server.address, "PUT", &template, job).await;
        let job = JobPath { collection: collection(), job: JobName::new("template").unwrap() };
        let (record, _) = server.store.job(job).await.unwrap().unwrap();
        send(server.address, "DELETE", &template, "").await;
        TestOverview { server, clock, template: record.job.definition }
    }

    async fn put(&self, sample: Sample) {
        let mut definition = self.template.clone();
        definition.start = None;
        definition.switch = sample.switch;
        definition.recurrence = sample.cron.map(|cron| {
            let pattern = kalends_recurrence::RecurrencePattern::Cron(cron.parse().unwrap());
            Box::new(Recurrence { count: sample.count, ..Recurrence::new(pattern) })
        });
        if let (Some(end), Target::Http(request)) =
            (sample.certificate, &mut definition.action.action.target)
        {
            request.authentication = Some(Box::new(HttpAuthentication::ClientCertificate {
                pfx: Some(Secret::new("pfx".into())),
                password: None,
                certificate: Some(CertificateFacts {
                    thumbprint: "AB".into(),
                    expiration: at(end),
                    subject_name: "CN=x".into(),
                }),
            }));
        }
        let put = JobPut {
            uid: JobUid([1; 16]),
            created: at(sample.created),
            definition,
            facts: JobFacts { authenticated: sample.certificate.is_some(), ..JobFacts::default() },
            state: JobState { due: sample.due.map(at), ..sample.state },
            waiting: WaitingRuns::Keep,
            closed_by_edit: None,
        };
        let collection: CollectionPath = collection();
        let path = JobPath { collection, job: JobName::new(sample.name).unwrap() };
        let decide = move |_: JobContext<'_>| Ok(JobWrite::Put(Box::new(put.clone())));
        self.server.store.edit_job(path, Box::new(decide)).await.unwrap();
    }

    /// The body of a response after the first scan has ended.
    async fn get(&self, path: &str) -> String {
        for _ in 0..1_000 {
            let body = send(self.server.address, "GET", path, "").await;
            if !body.contains(r#""calculatedAt":null"#) {
                return body;
            }
        }
        panic!("no scan has ended")
    }
}

fn failing(runs: u64) -> JobState {
    JobState { consecutive_failures: runs, ..JobState::default() }
}

#[tokio::test]
async fn the_overview_counts_jobs_by_state() {
    let test = TestOverview::start().await;
    let off = Switch::Disabled;
    let completed = JobState { lifecycle: Lifecycle::Completed, ..JobState::default() };
    for sample in [
        Sample { name: "late", due: Some("2026-11-16T12:29:00Z"), ..Sample::default() },
        Sample { name: "failing", state: failing(3), ..Sample::default() },
        Sample { name: "off", switch: off, due: Some("2026-11-16T12:00:00Z"), ..Sample::default() },
        Sample { name: "done", state: completed, ..Sample::default() },
        Sample { name: "soon", due: Some("2026-11-16T13:30:20Z"), ..Sample::default() },
        Sample { name: "tomorrow", due: Some("2026-11-17T03:00:00Z"), ..Sample::default() },
    ] {
        test.put(sample).await;
    }
    let body = test.get("/api/overview").await;
    let (id, _) = COLLECTION.split_once('?').unwrap();
    let expected = format!(
        r#"{{"calculatedAt":"{NOW}","jobs":{{"all":6,"enabled":4,"disabled":1,"failing":1,"completed":1,"faulted":0,"overdue":1}},"running":0,"moreRunning":false,"dueWithinHour":2,"attention":4,"collections":[{{"collection":"{id}","id":"{id}","state":"Enabled","enabled":4,"disabled":1,"failing":1,"jobs":6,"maxJobs":5}}],"more":false}}"#
    );
    assert_eq!(body, expected);
}

#[tokio::test]
async fn query_parameters_that_a_short_path_does_not_have_are_refused() {
    let test = TestOverview::start().await;
    let get = async |target: &str| exchange(test.server.address, "GET", target, "").await;
    for (target, end) in [
        ("/api/jobs?foo=1", "statistics, limit, cursor, api-version"),
        ("/api/jobs?colection=demo&api-version=2026-11-01", "did you mean collection?"),
        ("/api/expected-runs?collection=demo", "from, to, bucket, by, api-version"),
        ("/api/overview?from=2026-01-01", "the query parameters are api-version"),
        ("/api/collections?top=1", "did you mean $top?"),
        ("/api/collections/none/jobs/none/occurrences?form=1", "did you mean from?"),
    ] {
        let (status, body) = get(target).await;
        assert_eq!(status, 400, "{target}: {body}");
        assert!(body.contains(r#""code":"InvalidQueryParameter""#), "{target}: {body}");
        assert!(body.contains(" is unknown (found ") && body.contains(end), "{target}: {body}");
    }
    // Azure clients send parameters that the server does not know.
    for target in
        [format!("{COLLECTION}&foo=1"), "/api/collections?foo=1&api-version=2016-03-01".to_owned()]
    {
        assert_eq!(get(&target).await.0, 200, "{target}");
    }
}

#[tokio::test]
async fn the_attention_list_names_each_reason_in_order_of_urgency() {
    let test = TestOverview::start().await;
    let off = Switch::Disabled;
    let ran = JobState { last_execution: Some(at("2026-10-01T03:00:00Z")), ..JobState::default() };
    for sample in [
        Sample { name: "idle", switch: off, state: ran, ..Sample::default() },
        Sample { name: "cert", certificate: Some("2026-12-01T00:00:00Z"), ..Sample::default() },
        Sample { name: "later", certificate: Some("2027-12-01T00:00:00Z"), ..Sample::default() },
        Sample { name: "late", due: Some("2026-11-16T12:29:00Z"), ..Sample::default() },
        Sample { name: "failing", state: failing(4), ..Sample::default() },
        Sample { name: "fine", state: failing(2), ..Sample::default() },
    ] {
        test.put(sample).await;
    }
    // The list has the entries of both scans once both have ended.
    test.get("/api/expected-runs").await;
    let body = test.get("/api/attention").await;
    let (id, _) = COLLECTION.split_once('?').unwrap();
    let entry = |kind: &str, job: Option<&str>, since: &str, count: &str, message: &str| {
        let (name, path) = match job {
            Some(job) => (format!(r#""{job}""#), format!("{id}/jobs/{job}")),
            None => ("null".to_owned(), id.to_owned()),
        };
        format!(
            r#"{{"kind":"{kind}","collection":"{id}","job":{name},"id":"{path}","since":{since},"count":{count},"message":"{message}"}}"#
        )
    };
    let entries = [
        entry("Failing", Some("failing"), "null", "4", "The last 4 runs failed."),
        entry(
            "Overdue",
            Some("late"),
            r#""2026-11-16T12:29:00Z""#,
            "null",
            "The run scheduled for 2026-11-16T12:29:00Z has not started.",
        ),
        entry(
            "CertificateExpiring",
            Some("cert"),
            "null",
            "null",
            "The client certificate expires at 2026-12-01T00:00:00Z.",
        ),
        entry("QuotaNear", None, "null", "6", "The collection has 6 of at most 5 jobs."),
        entry(
            "DisabledLong",
            Some("idle"),
            r#""2026-10-01T03:00:00Z""#,
            "null",
            "The job is disabled and last ran at 2026-10-01T03:00:00Z.",
        ),
    ];
    let value = entries.join(",");
    assert_eq!(body, format!(r#"{{"calculatedAt":"{NOW}","value":[{value}],"more":false}}"#));
}

#[tokio::test]
async fn expected_runs_are_counted_in_buckets() {
    let test = TestOverview::start().await;
    let off = Switch::Disabled;
    let minute = Some("* * * * *");
    for sample in [
        Sample {
            name: "minute",
            cron: minute,
            due: Some("2026-11-16T12:31:00Z"),
            ..Sample::default()
        },
        Sample { name: "daily", due: Some("2026-11-17T03:00:00Z"), ..Sample::default() },
        Sample {
            name: "thrice",
            cron: minute,
            due: Some("2026-11-16T12:32:00Z"),
            count: Some(5),
            state: JobState { used: 2, ..JobState::default() },
            ..Sample::default()
        },
        Sample { name: "once", cron: None, due: Some("2026-11-16T14:00:00Z"), ..Sample::default() },
        Sample {
            name: "off",
            cron: minute,
            due: Some("2026-11-16T12:31:00Z"),
            switch: off,
            ..Sample::default()
        },
    ] {
        test.put(sample).await;
    }
    let body = test.get("/api/expected-runs?to=2026-11-16T15:00:00Z").await;
    let buckets = r#""bucket":"PT1H","buckets":[{"start":"2026-11-16T12:00:00Z","count":32},{"start":"2026-11-16T13:00:00Z","count":60},{"start":"2026-11-16T14:00:00Z","count":61}]}"#;
    assert_eq!(body, format!(r#"{{"calculatedAt":"{NOW}",{buckets}"#));
    let query = "bucket=PT1M&by=collection&to=2026-11-16T12:33:00Z";
    let body = test.get(&format!("/api/expected-runs?{query}")).await;
    let (id, _) = COLLECTION.split_once('?').unwrap();
    let collections = |runs: u64| format!(r#""count":{runs},"collections":{{"{id}":{runs}}}}}"#);
    let expected = format!(
        r#""buckets":[{{"start":"2026-11-16T12:30:00Z","count":0,"collections":{{}}}},{{"start":"2026-11-16T12:31:00Z",{},{{"start":"2026-11-16T12:32:00Z",{}]}}"#,
        collections(1),
        collections(2)
    );
    assert!(body.ends_with(&expected), "{body}");
    let week = test.get("/api/expected-runs").await;
    assert_eq!(week.matches(r#""start""#).count(), 7 * 24 + 1);
    assert_eq!(week.matches(r#""count":61"#).count(), 1 + 7, "daily at three");
}

#[tokio::test]
async fn a_scan_repeats_while_clients_ask_for_its_result() {
    let test = TestOverview::start().await;
    test.put(Sample::default()).await;
    let first = test.get("/api/overview").await;
    assert!(first.contains(r#""all":1,"#), "{first}");
    test.put(Sample { name: "second", ..Sample::default() }).await;
    assert_eq!(test.get("/api/overview").await, first, "the clock stands still");
    let start = at(NOW);
    for steps in 1..10_000 {
        let now = start.saturating_add(Duration::from_secs(3 * steps));
        test.clock.set(now.timestamp().unwrap());
        if test.get("/api/overview").await.contains(r#""jobs":{"all":2,"#) {
            return;
        }
    }
    panic!("no second scan");
}
