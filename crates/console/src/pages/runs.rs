//! Runs of all jobs, the last finished one first.

use askama::Template;
use kalends_recurrence::Instant;
use serde_json::Value;

use super::jobs::CollectionOption;
use super::{PageResult, rendered};
use crate::address::{JobAddress, encode};
use crate::api::{Api, Json as _, read};
use crate::format::{local, milliseconds};
use crate::mark::Mark;
use crate::message::{summary, without_own_time};
use crate::sentence::{Part, sentence};
use crate::view::{Elapsed, PageRequest, Shared, Time, View};
use crate::words;

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
    form: Form,
    /// Whether these are the runs of one job, which are in the order of their scheduled times.
    is_of_job: bool,
    rows: Vec<Row>,
    next_page: Option<String>,
    is_first_page: bool,
    newest_href: String,
}

/// The limits of the list, as fields.
struct Form {
    status: String,
    collection: String,
    collections: Vec<CollectionOption>,
    job: String,
    /// Wall times in the zone of the page.
    from: String,
    to: String,
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
    /// Time since the start of a run that has not ended.
    elapsed: Option<Elapsed>,
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
    let filters = FILTERS.map(|name| (name, filter(name, request, view)));
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
    let (shared, runs, overview) =
        tokio::join!(shared, read(api, &target), read(api, "/api/overview"));
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
        form: Form::new(&filters, &overview.unwrap_or_default(), view),
        is_of_job: filters.iter().any(|(name, value)| *name == "job" && !value.is_empty()),
        rows: runs.list("value").iter().map(|run| Row::new(run, view)).collect(),
        next_page: next.map(|cursor| match query(&status) {
            filter if filter.is_empty() => format!("?cursor={cursor}"),
            filter => format!("?{filter}&cursor={cursor}"),
        }),
        is_first_page: cursor.is_empty(),
        newest_href: match query(&status) {
            filter if filter.is_empty() => format!("{}runs", view.root),
            filter => format!("?{filter}"),
        },
        view,
    };
    rendered(&page)
}

/// A parameter of the URL as the API reads it. Times may be wall times in the zone of the page, as the
/// fields of the page send them; a job without its collection is none.
fn filter(name: &str, request: &PageRequest<'_>, view: &View) -> String {
    let value = request.parameter(name);
    match name {
        "job" if request.parameter("collection").is_empty() => String::new(),
        "from" | "to" => Instant::parse_in(&value, &view.zone).map_or(value, |at| at.to_string()),
        _ => value,
    }
}

impl Form {
    fn new(filters: &[(&str, String)], overview: &Value, view: &View) -> Form {
        let value = |name: &str| {
            let found = filters.iter().find(|(other, _)| *other == name);
            found.map_or(String::new(), |(_, value)| value.clone())
        };
        let wall_time = |name| match value(name).parse() {
            Ok(at) => {
                let at = local(at, &view.zone);
                format!("{}T{}", at.date(), at.time())
            }
            Err(_) => String::new(),
        };
        let collection = value("collection");
        let collections = overview.list("collections").iter();
        let mut collections: Vec<_> =
            collections.map(|row| CollectionOption::new(row, view)).collect();
        if !collection.is_empty() && !collections.iter().any(|known| known.value == collection) {
            let (value, label) = (collection.clone(), collection.clone());
            collections.push(CollectionOption { value, label });
        }
        Form {
            status: value("status"),
            job: value("job"),
            from: wall_time("from"),
            to: wall_time("to"),
            collection,
            collections,
        }
    }
}

impl Row {
    fn new(run: &Value, view: &View) -> Row {
        let address = JobAddress::of_id(&run.text("id"), &view.default_group);
        let job_href = address
            .as_ref()
            .map_or(String::new(), |address| format!("{}jobs/{}", view.root, address.in_console()));
        let collection = address.map(|address| address.collection.label());
        let took = run.number("durationMilliseconds");
        let disposition = run.text("disposition");
        let is_open = run.text("status") == "Running";
        let status = match run.text("status").as_str() {
            // Also while it waits to start or for a retry.
            "Running" => disposition.clone(),
            "Skipped" => words::disposition(&disposition).to_owned(),
            status => status.to_owned(),
        };
        let message = match summary(&run.text("message")) {
            message if message.is_empty() => words::disposition_reason(&disposition).to_owned(),
            message => without_own_time(message, &run.text("scheduledTime")),
        };
        Row {
            mark: Mark::of_run(&status),
            sentence: sentence(&message, view),
            message,
            error_action: error_action(run.member("errorAction")),
            status,
            collection: collection.unwrap_or_else(|| run.text("collection")),
            job: run.text("job"),
            href: format!("{job_href}/runs/{}", encode(&run.text("scheduledTime"))),
            job_href,
            kind: run.text("kind"),
            scheduled: run.time("scheduledTime").map(|at| view.time(at)),
            finished: run.time("endTime").map(|at| view.time(at)),
            attempts: attempts(run, &disposition),
            elapsed: run.time("startTime").filter(|_| is_open).map(|at| view.elapsed(at)),
            took: took.map_or(String::new(), milliseconds),
        }
    }
}

/// The number of attempts of the job's own action, with the one in flight.
fn attempts(run: &Value, disposition: &str) -> String {
    let finished = run.text("attempts");
    match disposition == "Running" && !run.has("errorAction") {
        true => (run.integer("attempts") + 1).to_string(),
        false => finished,
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
            (failed, "Error action failed: 502 Bad Gateway from a<"),
            (json!({"status": "Running", "attempts": 0}), "Error action is running<"),
        ] {
            let runs = json!({"value": [run(error_action)], "nextLink": null});
            let page = FakeApi::of_owner().with("/api/runs", runs).page("/runs").await;
            assert!(page.body.contains(">404 Not Found from a <"), "{}", page.body);
            assert!(page.body.contains(expected), "{}", page.body);
            assert!(
                page.body.contains("<td class=\"number hide-phone secondary\">2</td>"),
                "{}",
                page.body
            );
        }
    }

    #[tokio::test]
    async fn times_in_messages_are_shown_in_the_zone_of_the_page() {
        let message =
            "The occurrence of 2026-11-15T01:30:00Z did not run because all jobs were paused.";
        let run = json!({"collection": "c", "job": "j", "id": "/subscriptions/s/resourceGroups/g\
            /providers/Microsoft.Scheduler/jobCollections/c/jobs/j", "scheduledTime":
            "2026-11-16T01:30:00Z", "kind": "Scheduled", "status": "Skipped", "message": message});
        let runs = json!({"value": [run], "nextLink": null});
        let page = FakeApi::of_owner().with("/api/runs", runs).page("/runs").await;
        assert!(page.body.contains(">Sun 2026-11-15 01:30</time> did not run"), "{}", page.body);
    }

    #[tokio::test]
    async fn a_run_that_did_not_start_says_why() {
        let run = |status: &str, disposition: &str| {
            json!({"collection": "c", "job": "j", "id": "/subscriptions/s/resourceGroups/g/providers\
                /Microsoft.Scheduler/jobCollections/c/jobs/j", "scheduledTime":
                "2026-11-16T01:30:00Z", "kind": "Scheduled", "status": status,
                "disposition": disposition})
        };
        let runs = json!({"value": [run("Skipped", "SkippedOverlap"), run("Missed", "Missed")]});
        let page = FakeApi::of_owner().with("/api/runs", runs).page("/runs").await;
        for expected in [
            "Skipped (overlap)</span>",
            "<div>An earlier run was in flight or waited for a retry<",
            "<div>No node could run it at its scheduled time<",
        ] {
            assert!(page.body.contains(expected), "{expected} in {}", page.body);
        }
    }

    #[tokio::test]
    async fn runs_are_limited_to_a_collection_and_a_time_span_by_fields() {
        let overview = json!({"collections": [{"collection": "a"}, {"collection": "b"}]});
        let api = FakeApi::of_owner()
            .with("/api/runs", json!({"value": []}))
            .with("/api/overview", overview);
        let target = "/runs?status=Failed&collection=b&from=2026-11-16T08%3A30&to=&job=";
        let page = api.page(target).await;
        for field in [
            "<input type=\"hidden\" name=\"status\" value=\"Failed\">",
            "<option value=\"a\">a</option><option value=\"b\" selected>b</option>",
            "name=\"from\" value=\"2026-11-16T08:30:00\"",
            "name=\"to\" value=\"\"",
        ] {
            assert!(page.body.contains(field), "{field} in {}", page.body);
        }
        let requested = api.requested.lock().unwrap();
        let expected = "status=Failed&from=2026-11-16T08%3A30%3A00Z&collection=b&limit=50";
        assert!(requested.contains(&format!("/api/runs?{expected}")), "{requested:?}");
    }

    #[tokio::test]
    async fn an_open_run_shows_what_it_waits_for() {
        let run = |disposition| {
            json!({"collection": "c", "job": "j", "id": "/subscriptions/s/resourceGroups/g/providers\
                /Microsoft.Scheduler/jobCollections/c/jobs/j", "scheduledTime":
                "2026-11-16T01:30:00Z", "kind": "Scheduled", "status": "Running",
                "startTime": "2026-11-16T11:59:18.5Z", "disposition": disposition, "attempts": 1})
        };
        let runs = json!({"value": [run("Running"), run("Retrying")], "nextLink": null});
        let page = FakeApi::of_owner().with("/api/runs", runs).page("/runs").await;
        let elapsed = "<span data-elapsed=\"2026-11-16T11:59:18.5Z\">41 s</span>";
        for expected in [
            "Running</span>",
            "Retrying</span>",
            &format!(
                "<td class=\"number hide-phone secondary\">2</td><td class=\"number nowrap\">{elapsed}"
            ),
            &format!(
                "<td class=\"number hide-phone secondary\">1</td><td class=\"number nowrap\">{elapsed}"
            ),
        ] {
            assert!(page.body.contains(expected), "{}", page.body);
        }
    }
}
