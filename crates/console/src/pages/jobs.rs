//! Jobs: search over all collections, tabs by state, actions on a selection.

use std::time::Duration;

use askama::Template;

use super::{PageResult, rendered};
use crate::address::{JobAddress, encode};
use crate::api::{Api, Data, read};
use crate::chart::Outcomes;
use crate::format::{count, duration};
use crate::mark::Mark;
use crate::view::{PageRequest, Time, View};

const PAGE_SIZE: usize = 50;
/// Failed runs in a row from which a job counts as failing, as in the API.
pub(super) const FAILING_MIN: u64 = 3;
const STATES: [&str; 5] = ["Enabled", "Failing", "Disabled", "Completed", "Faulted"];

#[derive(Template)]
#[template(path = "jobs.html")]
struct Jobs<'a> {
    view: &'a View,
    filter: Filter,
    tabs: Vec<Tab>,
    collections: Vec<String>,
    rows: Vec<Row>,
    /// A page that is not full ends where the search ended early.
    next_page: Option<String>,
    page_size: usize,
    is_first_page: bool,
}

/// The filter of the list, as in the URL.
struct Filter {
    search: String,
    state: String,
    collection: String,
}

struct Tab {
    name: &'static str,
    count: String,
    href: String,
    is_current: bool,
}

pub(super) struct Row {
    pub(super) name: String,
    pub(super) collection: String,
    pub(super) href: String,
    /// Path in the API.
    pub(super) resource: String,
    pub(super) mark: Mark,
    pub(super) state: String,
    pub(super) schedule: String,
    pub(super) outcomes: Outcomes,
    pub(super) next: Option<Time>,
    pub(super) success: String,
    pub(super) p95: String,
}

impl Filter {
    fn is_empty(&self) -> bool {
        [&self.search, &self.state, &self.collection].iter().all(|value| value.is_empty())
    }

    /// The query of a URL with this filter and another state.
    fn query(&self, state: &str) -> String {
        let pairs = [("search", &*self.search), ("state", state), ("collection", &self.collection)];
        let pairs = pairs.iter().filter(|(_, value)| !value.is_empty());
        pairs.map(|(name, value)| format!("{name}={}", encode(value))).collect::<Vec<_>>().join("&")
    }
}

pub(super) async fn page(view: &mut View, request: &PageRequest<'_>, api: &dyn Api) -> PageResult {
    view.title = "Jobs".to_owned();
    let filter = Filter {
        search: request.parameter("search"),
        state: request.parameter("state"),
        collection: request.parameter("collection"),
    };
    let cursor = request.parameter("cursor");
    view.search.clone_from(&filter.search);
    let target = format!(
        "/api/jobs?{}&limit={PAGE_SIZE}&statistics=true{}",
        filter.query(&filter.state),
        if cursor.is_empty() { String::new() } else { format!("&cursor={}", encode(&cursor)) },
    );
    let (jobs, overview) = tokio::join!(read(api, &target), read(api, "/api/overview"));
    let jobs = jobs?;
    let tab = |name: &'static str, state: &str, member: &str| Tab {
        name,
        count: shown_count(&jobs, member),
        href: format!("?{}", filter.query(state)),
        is_current: filter.state.eq_ignore_ascii_case(state),
    };
    let tabs = STATES.map(|state| tab(state, state, &state.to_ascii_lowercase()));
    let tabs = std::iter::once(tab("All", "", "all")).chain(tabs).collect();
    let next = jobs.text("nextLink");
    let next = next.split(['?', '&']).find_map(|pair| pair.strip_prefix("cursor="));
    let next_page = next.map(|cursor| format!("?{}&cursor={cursor}", filter.query(&filter.state)));
    let collections = overview.unwrap_or_default().list("collections");
    let page = Jobs {
        tabs,
        collections: collections.iter().map(|collection| collection.text("collection")).collect(),
        rows: jobs.list("value").iter().map(|job| Row::new(job, view)).collect(),
        next_page,
        page_size: PAGE_SIZE,
        is_first_page: cursor.is_empty(),
        filter,
        view,
    };
    rendered(&page)
}

/// `1,000+` where the count was not finished.
fn shown_count(jobs: &Data, member: &str) -> String {
    let count_of = jobs.get(&format!("counts.{member}"));
    match count_of.has("count") {
        false => String::new(),
        true if count_of.is_true("more") => format!("{}+", count(count_of.integer("count"))),
        true => count(count_of.integer("count")),
    }
}

impl Row {
    pub(super) fn new(job: &Data, view: &View) -> Row {
        let address = JobAddress::of_id(&job.text("id"), &view.default_group);
        let (name, collection) = match &address {
            Some(address) => (address.job.clone(), address.collection.collection.clone()),
            None => (job.text("name"), job.text("collection")),
        };
        let statistics = job.get("statistics");
        let failures = job.integer("consecutiveFailures");
        let own_state = job.text("properties.state");
        let state = match own_state.as_str() {
            "Enabled" if statistics.is_true("running") => "Running".to_owned(),
            "Enabled" if failures >= FAILING_MIN => "Failing".to_owned(),
            _ => own_state,
        };
        let p95 = statistics.number("duration.p95Milliseconds");
        Row {
            href: address.as_ref().map_or(String::new(), |address| {
                format!("{}jobs/{}", view.root, address.in_console())
            }),
            resource: address.map(|address| address.in_api()).unwrap_or_default(),
            mark: Mark::of_job(&state),
            state,
            schedule: job.text("scheduleText"),
            outcomes: Outcomes::new(&statistics.list("outcomes"), view),
            next: job.time("properties.status.nextExecutionTime").map(|at| view.time(at)),
            success: statistics
                .number("successRate")
                .map_or_else(String::new, |rate| format!("{:.0} %", rate * 100.0)),
            p95: p95.map_or_else(String::new, |milliseconds| {
                duration(Duration::from_millis(milliseconds as u64))
            }),
            name,
            collection,
        }
    }
}
