//! Runs of all jobs, newest first.

use std::time::Duration;

use askama::Template;

use super::{PageResult, rendered};
use crate::address::{JobAddress, encode};
use crate::api::{Api, Data, read};
use crate::format::duration;
use crate::mark::Mark;
use crate::message::summary_of_run;
use crate::view::{PageRequest, Time, View};

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
    attempts: String,
    took: String,
    message: String,
}

pub(super) async fn page(view: &mut View, request: &PageRequest<'_>, api: &dyn Api) -> PageResult {
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
    let runs = read(api, &target).await?;
    let tab = |name: &'static str, own: &str| Tab {
        name,
        href: format!("?{}", query(own)),
        is_current: status.eq_ignore_ascii_case(own),
    };
    let limits = filters.iter().filter(|(name, value)| *name != "status" && !value.is_empty());
    let limits = limits.map(|(name, value)| match value.parse() {
        Ok(at) => format!("{name} {}", view.time(at).absolute),
        Err(_) => format!("{name} {value}"),
    });
    let next = runs.text("nextLink");
    let next = next.split(['?', '&']).find_map(|pair| pair.strip_prefix("cursor="));
    let page = Runs {
        tabs: std::iter::once(tab("All", "")).chain(STATUSES.map(|name| tab(name, name))).collect(),
        limits: limits.collect(),
        rows: runs.list("value").iter().map(|run| Row::new(run, view)).collect(),
        next_page: next.map(|cursor| format!("?{}&cursor={cursor}", query(&status))),
        is_first_page: cursor.is_empty(),
        view,
    };
    rendered(&page)
}

impl Row {
    fn new(run: &Data, view: &View) -> Row {
        let address = JobAddress::of_id(&run.text("id"), &view.default_group);
        let job_href = address
            .map_or(String::new(), |address| format!("{}jobs/{}", view.root, address.in_console()));
        let took = run.number("durationMilliseconds");
        let status = run.text("status");
        Row {
            mark: Mark::of_run(&status),
            message: summary_of_run(&status, &run.text("message")),
            status,
            collection: run.text("collection"),
            job: run.text("job"),
            href: format!("{job_href}/runs/{}", encode(&run.text("scheduledTime"))),
            job_href,
            kind: run.text("kind"),
            scheduled: run.time("scheduledTime").map(|at| view.time(at)),
            attempts: run.text("attempts"),
            took: took.map_or(String::new(), |took| duration(Duration::from_millis(took as u64))),
        }
    }
}
