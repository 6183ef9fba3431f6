//! Overview: what runs, what comes, what failed, what needs attention.

use std::time::Duration;

use askama::Template;
use serde_json::Value;

use super::run::LAST_FAILURE;
use super::{PageResult, rendered};
use crate::address::{CollectionAddress, JobAddress, encode};
use crate::api::{Api, Json as _, read};
use crate::chart::{ExpectedLoad, NextHour, RunCounts};
use crate::format::count;
use crate::mark::Mark;
use crate::message::summary;
use crate::view::{PageRequest, Shared, Time, View};

/// Entries of the list of what needs attention; the rest is behind a link.
const ATTENTION_SHOWN: u64 = 8;
/// Entries behind the link.
const ATTENTION_MAX: u64 = 200;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview<'a> {
    view: &'a View,
    is_empty: bool,
    /// Whether the numbers are known.
    is_calculated: bool,
    /// URL of the echo target, for a first job.
    echo: String,
    /// Whether the caller may create the collection of the demo jobs.
    may_create_demo: bool,
    running: String,
    due: String,
    failed: String,
    /// Start of the time in which they are counted.
    failed_from: String,
    runs: String,
    needs_attention: String,
    attention: Vec<Attention>,
    attention_more: u64,
    calculated: Option<Time>,
    run_counts: RunCounts,
    next_hour: NextHour,
    load: ExpectedLoad,
    load_calculated: Option<Time>,
}

struct Attention {
    mark: Mark,
    /// Collection and job.
    name: String,
    href: String,
    message: String,
    /// The last error of a failing job in one line; empty if it is not known.
    error: String,
    since: Option<Time>,
    action: &'static str,
    action_href: String,
}

pub(super) async fn page(
    view: &mut View,
    shared: impl Future<Output = Shared>,
    request: &PageRequest<'_>,
    api: &dyn Api,
) -> PageResult {
    view.title = "Overview".to_owned();
    let failed_from = RunCounts::from(view.now).to_string();
    let from = encode(&failed_from);
    let now = encode(&view.now.to_string());
    let hour = encode(&view.now.saturating_add(Duration::from_secs(3_600)).to_string());
    let counts = format!("/api/run-counts?from={from}&to={now}&bucket=PT1H");
    let next_hour = format!("/api/expected-runs?from={now}&to={hour}&bucket=PT1M&by=collection");
    let shown = match request.parameter("attention").as_str() {
        "all" => ATTENTION_MAX,
        _ => ATTENTION_SHOWN,
    };
    let attention = format!("/api/attention?limit={shown}");
    let (shared, overview, attention, counts, next_hour, load, node) = tokio::join!(
        shared,
        read(api, "/api/overview"),
        read(api, &attention),
        read(api, &counts),
        read(api, &next_hour),
        read(api, "/api/expected-runs?bucket=PT1H"),
        read(api, "/api/node"),
    );
    view.share(shared);
    let (mut overview, load) = (overview.unwrap_or_default(), load.unwrap_or_default());
    let attention = attention.unwrap_or_default();
    let entries = attention.list("value");
    let counts = counts.unwrap_or_default();
    let run_counts = RunCounts::new(&counts, view);
    let next_hour = next_hour.unwrap_or_default();
    let running = open_runs(&overview);
    let mut is_empty = overview.has("calculatedAt") && overview.integer("jobs.all") == 0;
    // The overview is calculated from time to time: one without jobs may not have the first ones yet.
    if is_empty {
        let jobs = read(api, "/api/jobs?limit=1").await;
        is_empty = jobs.is_ok_and(|jobs| jobs.list("value").is_empty());
        if !is_empty {
            overview = Value::default();
        }
    }
    let may_create_demo = is_empty
        && read(api, "/api/me?scope=%2Fapi%2Fcollections%2Fdemo")
            .await
            .is_ok_and(|me| me.is_true("permissions.writeJobs"));
    let is_calculated = overview.has("calculatedAt");
    let figure = |member| match is_calculated {
        true => count(overview.integer(member)),
        false => "–".to_owned(),
    };
    let page = Overview {
        is_empty,
        may_create_demo,
        echo: node.unwrap_or_default().text("echo"),
        is_calculated,
        running,
        due: figure("dueWithinHour"),
        needs_attention: figure("attention"),
        failed: count(overview.integer("failedLast24Hours").max(run_counts.failed)),
        failed_from,
        runs: count(run_counts.runs),
        attention: entries.iter().map(|entry| Attention::new(entry, view)).collect(),
        attention_more: overview.integer("attention").min(ATTENTION_MAX).saturating_sub(shown),
        calculated: overview.time("calculatedAt").map(|at| view.time(at)),
        next_hour: NextHour::new(&next_hour, view),
        load_calculated: load.time("calculatedAt").map(|at| view.time(at)),
        load: ExpectedLoad::new(&load, view),
        run_counts,
        view,
    };
    rendered(&page)
}

/// The number of open runs: `1,000+` if there may be more.
fn open_runs(overview: &Value) -> String {
    if !overview.has("running") {
        return "–".to_owned();
    }
    let more = if overview.is_true("moreRunning") { "+" } else { "" };
    count(overview.integer("running")) + more
}

impl Attention {
    fn new(entry: &Value, view: &View) -> Attention {
        let (collection, job) = (entry.text("collection"), entry.text("job"));
        let id = entry.text("id");
        let job_path = JobAddress::of_id(&id, &view.default_group).map(|job| job.in_console());
        let collection_path = CollectionAddress::of_id(&id, &view.default_group)
            .map_or_else(|| encode(&collection), |address| address.in_console());
        let job_path =
            job_path.unwrap_or_else(|| format!("{}/{}", encode(&collection), encode(&job)));
        let (name, href) = match job.is_empty() {
            true => (collection, format!("{}collections/{collection_path}", view.root)),
            false => (format!("{collection}/{job}"), format!("{}jobs/{job_path}", view.root)),
        };
        let kind = entry.text("kind");
        let (mark, action, action_href) = match kind.as_str() {
            "Failing" => {
                (Mark::Failed, "See the last failure", format!("{href}/runs/{LAST_FAILURE}"))
            }
            "Stuck" => (
                Mark::Running,
                "See the run",
                format!("{href}/runs/{}", encode(&entry.text("since"))),
            ),
            "Overdue" => (Mark::Skipped, "Why?", href.clone()),
            "QuotaNear" => (Mark::Skipped, "See the quota", href.clone()),
            "CertificateExpiring" => (Mark::Skipped, "Replace it", format!("{href}/edit")),
            "DisabledLong" => (Mark::Disabled, "Enable or delete", href.clone()),
            _ => (Mark::Skipped, "Open", href.clone()),
        };
        Attention {
            mark,
            name,
            href,
            message: entry.text("message"),
            error: summary(&entry.text("lastMessage")),
            since: entry.time("since").map(|at| view.time(at)),
            action,
            action_href,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::fake_api::FakeApi;

    async fn overview(pause: Value) -> String {
        let bucket =
            |start: &str| json!({"start": start, "count": 3, "collections": {"billing": 3}});
        let buckets = ["2026-11-16T12:20:00Z", "2026-11-16T12:40:00Z"].map(bucket);
        let api = FakeApi::of_owner()
            .with("/api/pause", pause)
            .with("/api/expected-runs", json!({"buckets": buckets}));
        api.page("/").await.body
    }

    #[tokio::test]
    async fn a_failing_job_shows_its_last_error_and_since_when_it_fails() {
        let message =
            "Http Action - Response from host 'a': 'BadGateway' Response Headers:  Body: ";
        let entry = json!({"kind": "Failing", "collection": "c", "job": "j", "id": "x", "count": 4,
            "since": "2026-11-16T11:00:00Z", "message": "The last 4 runs failed.",
            "lastMessage": message});
        let list = json!({"calculatedAt": "2026-11-16T11:59:58Z", "value": [entry]});
        let page = FakeApi::of_owner().with("/api/attention", list).page("/").await.body;
        assert!(page.contains(">The last 4 runs failed. 502 Bad Gateway from a <"), "{page}");
        assert!(
            page.contains("since <time") && page.contains(">Mon 2026-11-16 11:00</time>"),
            "{page}"
        );
    }

    #[tokio::test]
    async fn entries_beyond_the_first_are_behind_a_link() {
        let api = || {
            let overview = json!({"calculatedAt": "2026-11-16T11:59:58Z", "jobs": {"all": 900},
                "attention": 300});
            let entry = json!({"kind": "QuotaNear", "collection": "c", "message": "18 of 20"});
            let list = json!({"calculatedAt": "2026-11-16T11:59:58Z", "value": [entry]});
            FakeApi::of_owner().with("/api/overview", overview).with("/api/attention", list)
        };
        let first = api().page("/").await.body;
        assert!(first.contains("href=\"?attention=all#attention\">Show 192 more<"), "{first}");
        let all = api().page("/?attention=all").await.body;
        assert!(!all.contains("?attention=all"), "{all}");
    }

    #[tokio::test]
    async fn a_stuck_job_leads_to_the_run_that_has_not_ended() {
        let entry = json!({"kind": "Stuck", "collection": "c", "job": "j", "count": 9,
            "id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Scheduler/jobCollections/c\
                /jobs/j", "since": "2026-11-16T11:50:00Z", "message": "9 occurrences"});
        let list = json!({"calculatedAt": "2026-11-16T11:59:58Z", "value": [entry]});
        let page = FakeApi::of_owner().with("/api/attention", list).page("/").await.body;
        let link = "jobs/c/j/runs/2026-11-16T11%3A50%3A00Z\">See the run<";
        assert!(page.contains(link), "{page}");
    }

    #[tokio::test]
    async fn the_next_hour_says_which_runs_a_pause_prevents() {
        let running = overview(json!({"paused": false})).await;
        assert!(running.contains("12:20: 3 runs</title>"), "{running}");
        let paused = overview(json!({"paused": true})).await;
        assert!(paused.contains("12:20: 3 runs (paused)</title>"), "{paused}");
        assert!(
            paused.contains("recurring jobs skip these runs unless you resume before"),
            "{paused}"
        );
        let ends = overview(json!({"paused": true, "until": "2026-11-16T12:30:00Z"})).await;
        assert!(ends.contains("12:20: 3 runs (paused)</title>"), "{ends}");
        assert!(ends.contains("12:40: 3 runs</title>"), "{ends}");
        assert!(ends.contains("runs before Mon 2026-11-16 12:30 do not start"), "{ends}");
    }

    #[tokio::test]
    async fn minutes_with_more_runs_have_higher_bars_and_equal_ones_share_a_bar() {
        let bucket = |minute: u32, runs: u64| {
            json!({"start": format!("2026-11-16T12:{minute:02}:00Z"), "count": runs,
                "collections": {"billing": runs}})
        };
        let buckets = [bucket(1, 1), bucket(2, 1), bucket(3, 3), bucket(5, 3)];
        let api = FakeApi::of_owner().with("/api/expected-runs", json!({"buckets": buckets}));
        let body = api.page("/").await.body;
        for bar in [
            "<rect class=\"one\" x=\"1\" y=\"16\" width=\"2\"><title>12:01 to 12:03: 1 run a minute<",
            "<rect x=\"3\" y=\"0\"><title>12:03: 3 runs<",
            "<rect x=\"5\" y=\"0\"><title>12:05: 3 runs<",
        ] {
            assert!(body.contains(bar), "{bar} in {body}");
        }
    }

    #[tokio::test]
    async fn the_present_hour_of_the_expected_load_says_that_a_part_has_passed() {
        let bucket =
            |hour: u32| json!({"start": format!("2026-11-16T{hour:02}:00:00Z"), "count": 60});
        let buckets = [bucket(12), bucket(13)];
        let api = FakeApi::of_owner().with("/api/expected-runs", json!({"buckets": buckets}));
        let body = api.page("/").await.body;
        assert!(body.contains("Mon 12:00: 60 runs in the rest of this hour<"), "{body}");
        assert!(body.contains("Mon 13:00: 60 runs<"), "{body}");
        assert_eq!(body.matches("class=\"rest\"").count(), 1, "it is hatched");
    }

    #[tokio::test]
    async fn open_runs_are_a_number_up_to_the_limit() {
        let figure = async |overview: Value| {
            let page = FakeApi::of_owner().with("/api/overview", overview).page("/").await.body;
            let (_, rest) = page.split_once("runs?status=Running").unwrap();
            rest.split_once("</b>").unwrap().0.rsplit_once("<b>").unwrap().1.to_owned()
        };
        let at = "2026-11-16T11:59:58Z";
        let few = json!({"calculatedAt": at, "running": 2, "moreRunning": false});
        assert_eq!(figure(few).await, "2");
        let many = json!({"calculatedAt": at, "running": 1000, "moreRunning": true});
        assert_eq!(figure(many).await, "1,000+");
        let before_the_scan = json!({"calculatedAt": null, "running": 0, "moreRunning": false});
        assert_eq!(figure(before_the_scan).await, "0");
        assert_eq!(figure(json!({})).await, "–", "the overview cannot be read");
    }

    #[tokio::test]
    async fn numbers_of_before_the_first_job_are_not_shown() {
        let page = async |jobs: Value| {
            let empty = json!({"calculatedAt": "2026-11-16T11:59:58Z", "jobs": {"all": 0}});
            let api = FakeApi::of_owner().with("/api/overview", empty);
            api.with("/api/jobs", json!({"value": jobs})).page("/").await.body
        };
        let before = page(json!([])).await;
        let after = page(json!([{"name": "demo/first"}])).await;
        assert!(before.contains("No jobs yet"), "{before}");
        assert!(!after.contains("No jobs yet") && !after.contains("Nothing"), "{after}");
        assert!(after.contains("data-calculating>Being calculated."), "{after}");
    }
}
