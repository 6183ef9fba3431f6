//! Each importer on a sample that follows the public documentation of its format.

use std::path::PathBuf;

use super::*;
use crate::definitions::{read_documents, read_text};

const NOW: &str = "2026-11-16T10:00:30Z";

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/import").join(name)
}

fn options() -> ImportOptions {
    ImportOptions {
        now: NOW.parse().unwrap(),
        url_template: Some("https://run.example.com/{name}?c={command}".parse().unwrap()),
        collection: None,
        time_zone: None,
    }
}

type Importer = fn(&str, &crate::definitions::Located, &ImportOptions, &mut Import);

fn imported(name: &str, convert: Importer) -> Import {
    let file = read_documents(&path(name)).unwrap();
    let mut import = Import::default();
    for document in &file.documents {
        convert(name, document, &options(), &mut import);
    }
    import
}

fn crontab(name: &str, form: CrontabForm) -> Import {
    let mut import = Import::default();
    import_crontab(name, &read_text(&path(name)).unwrap(), form, &options(), &mut import);
    import
}

fn names(import: &Import) -> Vec<String> {
    import.jobs.iter().map(|job| format!("{}/{}", job.collection, job.job)).collect()
}

fn refused(import: &Import) -> Vec<(&str, &str)> {
    import.not_carried_over.iter().map(|it| (it.name.as_str(), it.reason.as_str())).collect()
}

fn job<'i>(import: &'i Import, name: &str) -> &'i ImportedJob {
    import.jobs.iter().find(|job| job.job.as_str() == name).unwrap()
}

/// Every job has the next runs of its source, none of them now, and a definition that the API accepts.
fn check(import: &Import) {
    for job in &import.jobs {
        assert!(job.is_equal(), "{}: {:?} {:?}", job.job, job.source_runs, job.runs);
        assert!(job.runs[0] > NOW.parse().unwrap(), "{}", job.job);
        let body = Json::Object(vec![("properties".into(), job.properties.clone())]);
        let read = kalends_wire::read_job(
            &body,
            kalends_wire::Version::V2026_11_01,
            &kalends_domain::Limits::default(),
        );
        assert!(read.is_ok(), "{}: {read:?}", job.job);
    }
}

#[test]
fn crontabs_of_users_and_of_the_system_are_imported() {
    let import = crontab("user.crontab", CrontabForm::User);
    check(&import);
    let expected = ["nightly", "poll", "invoices", "odd-mondays", "cleanup", "leap-day", "refresh"];
    assert_eq!(names(&import), expected.map(|name| format!("default/{name}")));
    assert_eq!(refused(&import).len(), 1);
    assert_eq!(refused(&import)[0].0, "start");
    assert_eq!(job(&import, "leap-day").runs[0].to_string(), "2028-02-29T00:05:00Z");
    assert_eq!(job(&import, "refresh").properties.text("jitter"), "PT10M");
    assert!(import.jobs.iter().all(|job| job.runs.len() == RUNS_SHOWN));
    let import = crontab("system.crontab", CrontabForm::System);
    check(&import);
    assert_eq!(names(&import), ["default/cd", "default/test", "default/test-2", "default/backup"]);
}

#[test]
fn kubernetes_cron_jobs_are_imported() {
    let import = imported("cronjobs.yaml", import_kubernetes);
    check(&import);
    let expected = [
        "reports/nightly-report",
        "default/cache-refresh",
        "default/odd-days-or-mondays",
        "default/every-90-minutes",
        "default/monthly",
    ];
    assert_eq!(names(&import), expected);
    assert_eq!(refused(&import), [("settings", "ConfigMap is not a CronJob")]);
    let report = &job(&import, "nightly-report").properties;
    assert_eq!(report.text("overlap"), "Skip");
    assert_eq!(report.text("missedRuns.within"), "PT600S");
    assert_eq!(report.text("timeout"), "PT900S");
    assert_eq!(report.integer("action.retryPolicy.retryCount"), 2);
    let uri = "https://run.example.com/nightly-report?c=%2Fbin%2Freport%20--all";
    assert_eq!(report.text("action.request.uri"), uri);
    assert!(job(&import, "cache-refresh").is_disabled());
    let every = job(&import, "every-90-minutes");
    assert_eq!(every.runs[0].to_string(), "2026-11-16T10:40:00Z");
    assert_eq!(job(&import, "monthly").properties.text("recurrence.timeZone"), "America/New_York");
}

#[test]
fn intervals_of_kubernetes_that_are_too_long_are_not_carried_over() {
    let mut import = Import::default();
    for every in ["1001h", "9223372036854775807h", "5124095576030431h9223372036854775807s"] {
        let text = format!(
            r#"{{"kind": "CronJob", "metadata": {{"name": "long"}}, "spec": {{"schedule": "@every {every}"}}}}"#
        );
        let document = crate::definitions::parse_json("f", &text).unwrap();
        import_kubernetes("f", &document, &options(), &mut import);
    }
    assert_eq!((import.jobs.len(), refused(&import).len()), (0, 3));
    assert!(refused(&import).iter().all(|(_, reason)| reason.contains("has no equivalent")));
}

#[test]
fn eventbridge_schedules_are_imported() {
    let import = imported("schedules.json", import_eventbridge);
    check(&import);
    let expected =
        ["billing/close-day", "default/poll", "default/second-tuesday", "default/launch"];
    assert_eq!(names(&import), expected);
    assert_eq!(refused(&import)[0].0, "nearest-weekday");
    let close = &job(&import, "close-day").properties;
    assert_eq!(close.text("jitter"), "PT15M");
    assert_eq!(close.text("action.request.body"), "{\"full\": true}");
    assert_eq!(close.text("action.retryPolicy.maxAge"), "PT3600S");
    assert_eq!(job(&import, "launch").runs[0].to_string(), "2026-12-24T23:00:00Z");
    assert_eq!(job(&import, "second-tuesday").runs[0].to_string(), "2026-12-08T09:00:00Z");
    let import = imported("cloudformation.yaml", import_eventbridge);
    check(&import);
    assert_eq!(names(&import), ["jobs/nightly", "default/DailyRule"]);
    let nightly = job(&import, "nightly");
    assert_eq!(nightly.runs[0].to_string(), "2026-12-01T01:00:00Z");
    assert!(nightly.notes.iter().any(|note| note.contains("SqsParameters")), "{:?}", nightly.notes);
}

#[test]
fn cloud_scheduler_listings_are_imported() {
    let import = imported("cloud-scheduler.json", import_cloud_scheduler);
    check(&import);
    let expected = ["default/newsletter", "default/publish", "default/clean", "default/poll"];
    assert_eq!(names(&import), expected);
    assert_eq!(refused(&import)[0].0, "third-monday");
    let newsletter = job(&import, "newsletter");
    // The listing has the next time by the service itself.
    assert_eq!(newsletter.runs[0].to_string(), "2026-11-23T08:00:00Z");
    assert_eq!(newsletter.properties.text("timeout"), "PT320S");
    assert_eq!(newsletter.properties.text("action.request.body"), "{\"list\": \"weekly\"}");
    assert_eq!(newsletter.properties.text("action.retryPolicy.maxInterval"), "PT600S");
    assert!(newsletter.notes.iter().any(|note| note.starts_with("oidcToken")));
    assert_eq!(job(&import, "poll").runs[0].to_string(), "2026-11-16T10:20:00Z");
    assert!(job(&import, "publish").is_disabled());
}

#[test]
fn arm_templates_are_imported() {
    let import = imported("azuredeploy.json", arm::import);
    check(&import);
    assert_eq!(names(&import), ["web-jobs/orders", "web-jobs/queue"]);
    assert_eq!(refused(&import)[0].0, "once");
    let orders = &job(&import, "orders").properties;
    assert_eq!(orders.text("action.request.uri"), "https://shop.example.com/orders");
    assert_eq!(orders.text("action.request.authentication.password"), "${env:PASSWORD}");
    let queue = &job(&import, "queue").properties;
    assert_eq!(queue.text("startTime"), "2026-11-16T23:00:00Z");
    let key = queue.text("action.serviceBusQueueMessage.authentication.sasKey");
    assert_eq!(key, "${env:QUEUE_SASKEY}");
}

/// Jobs that clients of the retired service sent: recordings, templates and documentation.
#[test]
fn jobs_of_the_retired_service_are_imported() {
    let shared = std::env::var_os("KALENDS_SHARED").map(PathBuf::from);
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let file = shared.unwrap_or_else(beside).join("spec/recordings/real-jobs.jsonl");
    let Ok(text) = std::fs::read_to_string(&file) else {
        return eprintln!("SKIPPED: {} does not exist", file.display());
    };
    let (mut jobs, mut carried) = (0, 0);
    for line in text.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let kind = row["kind"].as_str().unwrap();
        let resource = match kind {
            "arm-template-resource" => row["json"].clone(),
            "recorded-job-PUT" | "terraform-acceptance-test" => serde_json::json!({
                "type": "Microsoft.Scheduler/jobCollections/jobs", "name": "jc/job",
                "properties": row["json"]["properties"]}),
            _ => continue,
        };
        let parameters = row["params"].as_object().into_iter().flatten();
        let parameters: serde_json::Map<_, _> = parameters
            .map(|(name, value)| (name.clone(), serde_json::json!({"defaultValue": value})))
            .collect();
        let names =
            serde_json::json!({"schedulerJobCollectionName": "jc", "schedulerJobName": "job"});
        let mut parameters = parameters;
        for name in ["jobCollectionName", "jobName"] {
            parameters.entry(name).or_insert(serde_json::json!({"defaultValue": "name"}));
        }
        let template = serde_json::json!({
            "parameters": parameters, "variables": names, "resources": [resource]});
        let document = crate::definitions::parse_json("t", &template.to_string()).unwrap();
        // The day before its start, so that the schedule is not over.
        let start = row["json"]["properties"]["startTime"].as_str();
        let start = start.and_then(|start| start.parse::<Instant>().ok());
        let day = std::time::Duration::from_secs(86_400);
        let now = start.map_or(options().now, |start| start.saturating_sub(day));
        let mut import = Import::default();
        arm::import("t", &document, &ImportOptions { now, ..options() }, &mut import);
        jobs += import.jobs.len() + import.not_carried_over.len();
        carried += import.jobs.len();
        for entry in &import.not_carried_over {
            let known = [
                "runs once",
                "has ended",
                "has finished",
                "no equivalent",
                "is invalid",
                "cannot be evaluated",
            ];
            assert!(known.iter().any(|known| entry.reason.contains(known)), "{entry:?} {line}");
        }
        for job in &import.jobs {
            assert!(job.runs[0] > now, "{line}");
            assert!(start.is_none() || job.is_equal(), "{line}");
        }
    }
    assert!(jobs >= 50 && carried >= 40, "{jobs} jobs, {carried} carried over");
}
