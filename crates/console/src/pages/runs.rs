//! Runs of all jobs, the last finished one first.

use std::time::Duration;

use askama::Template;
use serde_json::Value;

use super::{PageResult, rendered};
use crate::address::{JobAddress, encode};
use crate::api::{Api, Json as _, read};
use crate::format::duration;
use crate::mark::Mark;
use crate::message::summary;
use crate::sentence::{Part, sentence};
use crate::view::{PageRequest, Shared, Time, View};

const PAGE_SIZE: usize = 50;
const STATUSES: [&str; 5] = ["Running", "Succeeded", "Failed", "Skipped", "Missed"];
/// Parameters of the URL that are passed to the API.
const FILTERS: [&str; 5] = ["status", "from", "to", "collection", "job"];

#[derive(Template)]
#[template(path = "runs.html")]
struct Runs<'a> {
    view: &'a View,
    tabs: Vec<Tab>,
    /// The limits of the list, in words.
    limits: Vec<String>,
    /// Whether these are the runs of one job, which are in the order of their scheduled times.
    is_of_job: bool,
    rows: Vec<Row>,
    next_page: Option<String>,
    is_first_page: bool,
}

struct Tab {
    name: &'static str,
    href: String,
    is_current: bool,
}

struct Row {
    mark: Mark,
    status: String,
    collection: String,
    job: String,
    job_href: String,
    href: String,
    kind: String,
    scheduled: Option<Time>,
    /// The order of the list; runs that have not finished precede the others.
    finished: Option<Time>,
    attempts: String,
    took: String,
    message: String,
    /// The message with its times in the zone of the page.
    sentence: Vec<Part>,
    /// Outcome of the error action; empty if it did not run.
    error_action: String,
}

pub(super) async fn page(
    view: &mut View,
    shared: impl Future<Output = Shared>,
    request: &PageRequest<'_>,
    api: &dyn Api,
) -> PageResult {
    view.title = "Runs".to_owned();
    let filters = FILTERS.map(|name| (name, request.parameter(name)));
    let query = |status: &str| {
        let pairs = filters.iter().map(|(name, value)| match *name {
            "status" => (*name, status),
            _ => (*name, value.as_str()),
        });
        let pairs = pairs.filter(|(_, value)| !value.is_empty());
        pairs.map(|(name, value)| format!("{name}={}", encode(value))).collect::<Vec<_>>().join("&")
    };
    let status = request.parameter("status");
    let cursor = request.parameter("cursor");
    let mut target = format!("/api/runs?{}&limit={PAGE_SIZE}", query(&status));
    if !cursor.is_empty() {
        target += &format!("&cursor={}", encode(&cursor));
    }
    let (shared, runs) = tokio::join!(shared, read(api, &target));
    view.share(shared);
    let runs = runs?;
    let tab = |name: &'static str, own: &str| Tab {
        name,
        href: format!("?{}", query(own)),
        is_current: status.eq_ignore_ascii_case(own),
    };
    let limits = filters.iter().filter(|(name, value)| *name != "status" && !value.is_empty());
    let limits = limits.map(|(name, value)| match value.parse() {
        Ok(at) => format!("{name} {}", view.date_time(at)),
        Err(_) => format!("{name} {value}"),
    });
    let next = runs.text("nextLink");
    let next = next.split(['?', '&']).find_map(|pair| pair.strip_prefix("cursor="));
    let page = Runs {
        tabs: std::iter::once(tab("All", "")).chain(STATUSES.map(|name| tab(name, name))).collect(),
        limits: limits.collect(),
        is_of_job: !request.parameter("job").is_empty(),
        rows: runs.list("value").iter().map(|run| Row::new(run, view)).collect(),
        next_page: next.map(|cursor| format!("?{}&cursor={cursor}", query(&status))),
        is_first_page: cursor.is_empty(),
        view,
    };
    rendered(&page)
}

impl Row {
    fn new(run: &Value, view: &View) -> Row {
        let address = JobAddress::of_id(&run.text("id"), &view.default_group);
        let job_href = address
            .map_or(String::new(), |address| format!("{}jobs/{}", view.root, address.in_console()));
        let took = run.number("durationMilliseconds");
        let status = match run.text("status").as_str() {
            // Also while it waits to start or for a retry.
            "Running" => run.text("disposition"),
            status => status.to_owned(),
        };
        let message = summary(&run.text("message"));
        Row {
            mark: Mark::of_run(&status),
            sentence: sentence(&message, view),
            message,
            error_action: error_action(run.member("errorAction")),
            status,
            collection: run.text("collection"),
            job: run.text("job"),
            href: format!("{job_href}/runs/{}", encode(&run.text("scheduledTime"))),
            job_href,
            kind: run.text("kind"),
            scheduled: run.time("scheduledTime").map(|at| view.time(at)),
            finished: run.time("endTime").map(|at| view.time(at)),
            attempts: run.text("attempts"),
            took: took.map_or(String::new(), |took| duration(Duration::from_millis(took as u64))),
        }
    }
}

/// `Error action succeeded`, with its message if it failed.
fn error_action(outcome: &Value) -> String {
    match outcome.text("status").as_str() {
        "Running" => "Error action is running".to_owned(),
        "Succeeded" => "Error action succeeded".to_owned(),
        "Failed" => format!("Error action failed: {}", summary(&outcome.text("message"))),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::fake_api::FakeApi;

    #[tokio::test]
    async fn a_failed_run_shows_its_own_message_and_the_outcome_of_its_error_action() {
        let message = |status: &str| {
            format!("Http Action - Response from host 'a': '{status}' Response Headers:  Body: ")
        };
        let run = |error_action| {
            json!({"collection": "c", "job": "j", "id": "/subscriptions/s/resourceGroups/g/providers\
                /Microsoft.Scheduler/jobCollections/c/jobs/j", "scheduledTime":
                "2026-11-16T01:30:00Z", "kind": "Scheduled", "status": "Failed", "attempts": 2,
                "message": message("NotFound"), "errorAction": error_action})
        };
        let succeeded = json!({"status": "Succeeded", "attempts": 1, "message": message("OK")});
        let failed = json!({"status": "Failed", "attempts": 5, "message": message("BadGateway")});
        for (error_action, expected) in [
            (succeeded, "Error action succeeded<"),
            (failed, "Error action failed: Bad Gateway from a<"),
            (json!({"status": "Running", "attempts": 0}), "Error action is running<"),
        ] {
            let runs = json!({"value": [run(error_action)], "nextLink": null});
            let page = FakeApi::of_owner().with("/api/runs", runs).page("/runs").await;
            assert!(page.body.contains(">Not Found from a <"), "{}", page.body);
            assert!(page.body.contains(expected), "{}", page.body);
            assert!(page.body.contains("<td class=\"number hide-phone\">2</td>"), "{}", page.body);
        }
    }

    #[tokio::test]
    async fn times_in_messages_are_shown_in_the_zone_of_the_page() {
        let message =
            "The occurrence of 2026-11-16T01:30:00Z did not run because all jobs were paused.";
        let run = json!({"collection": "c", "job": "j", "id": "/subscriptions/s/resourceGroups/g\
            /providers/Microsoft.Scheduler/jobCollections/c/jobs/j", "scheduledTime":
            "2026-11-16T01:30:00Z", "kind": "Scheduled", "status": "Skipped", "message": message});
        let runs = json!({"value": [run], "nextLink": null});
        let page = FakeApi::of_owner().with("/api/runs", runs).page("/runs").await;
        assert!(page.body.contains(">Mon 2026-11-16 01:30</time> did not run"), "{}", page.body);
    }

    #[tokio::test]
    async fn an_open_run_shows_what_it_waits_for() {
        let run = |disposition| {
            json!({"collection": "c", "job": "j", "id": "/subscriptions/s/resourceGroups/g/providers\
                /Microsoft.Scheduler/jobCollections/c/jobs/j", "scheduledTime":
                "2026-11-16T01:30:00Z", "kind": "Scheduled", "status": "Running",
                "disposition": disposition, "attempts": 1})
        };
        let runs = json!({"value": [run("Running"), run("Retrying")], "nextLink": null});
        let page = FakeApi::of_owner().with("/api/runs", runs).page("/runs").await;
        for expected in ["Running</span>", "Retrying</span>"] {
            assert!(page.body.contains(expected), "{}", page.body);
        }
    }
}
