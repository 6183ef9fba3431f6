//! Jobs: search over all collections, tabs by state, actions on a selection.

use std::time::Duration;

use askama::Template;
use serde_json::Value;

use super::{PageResult, rendered};
use crate::address::{JobAddress, encode};
use crate::api::{Api, Json as _, read};
use crate::chart::Outcomes;
use crate::format::{count, duration};
use crate::mark::Mark;
use crate::view::{PageRequest, Time, View};

const PAGE_SIZE: usize = 50;
/// Matches that the server counts.
const COUNT_MAX: u64 = 1_000;
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
    is_full: bool,
    is_first_page: bool,
    /// The number of matches so far, if the server has not counted all of them.
    counting: Option<String>,
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
    let all = Count::new(jobs.member("counts.all"));
    let is_counted = all != Count::AtLeast;
    let tab = |name: &'static str, state: &str, member: &str| {
        let counted = jobs.member(&format!("counts.{member}"));
        let count = Count::new(counted);
        Tab {
            name,
            count: count.text(counted.integer("count"), is_counted),
            href: format!("?{}", filter.query(state)),
            is_current: filter.state.eq_ignore_ascii_case(state),
        }
    };
    let tabs = STATES.map(|state| tab(state, state, &state.to_ascii_lowercase()));
    let tabs = std::iter::once(tab("All", "", "all")).chain(tabs).collect();
    let next = jobs.text("nextLink");
    let next = next.split(['?', '&']).find_map(|pair| pair.strip_prefix("cursor="));
    let next_page = next.map(|cursor| format!("?{}&cursor={cursor}", filter.query(&filter.state)));
    let overview = overview.unwrap_or_default();
    let collections = overview.list("collections");
    let rows: Vec<_> = jobs.list("value").iter().map(|job| Row::new(job, view)).collect();
    let page = Jobs {
        tabs,
        collections: collections.iter().map(|collection| collection.text("collection")).collect(),
        next_page,
        is_full: rows.len() == PAGE_SIZE,
        rows,
        counting: (!is_counted).then(|| count(jobs.integer("counts.all.count"))),
        is_first_page: cursor.is_empty(),
        filter,
        view,
    };
    rendered(&page)
}

/// How far a number of jobs was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    Unknown,
    Exact,
    /// The search ended early: the next one of the same text may count further.
    AtLeast,
    /// More than the server counts.
    Many,
}

impl Count {
    fn new(counted: &Value) -> Count {
        match (counted.has("count"), counted.is_true("more"), counted.integer("count")) {
            (false, ..) => Count::Unknown,
            (true, false, _) => Count::Exact,
            (true, true, COUNT_MAX..) => Count::Many,
            (true, true, _) => Count::AtLeast,
        }
    }

    /// The number in a tab. If all jobs are counted, a lower bound remains one and is left out.
    fn text(self, number: u64, is_counted: bool) -> String {
        match self {
            Count::Unknown => String::new(),
            Count::AtLeast if is_counted || number == 0 => String::new(),
            Count::Exact => count(number),
            Count::AtLeast | Count::Many => format!("{}+", count(number)),
        }
    }
}

impl Row {
    pub(super) fn new(job: &Value, view: &View) -> Row {
        let address = JobAddress::of_id(&job.text("id"), &view.default_group);
        let (name, collection) = match &address {
            Some(address) => (address.job.clone(), address.collection.collection.clone()),
            None => (job.text("name"), job.text("collection")),
        };
        let statistics = job.member("statistics");
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
            outcomes: Outcomes::new(statistics.list("outcomes"), view),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::fake_api::FakeApi;

    /// The tabs of a list with these numbers of all and of disabled jobs.
    async fn tabs(all: (u64, bool), disabled: (u64, bool)) -> String {
        let counted = |(count, more): (u64, bool)| json!({"count": count, "more": more});
        let counts = json!({"all": counted(all), "disabled": counted(disabled)});
        let api = FakeApi::of_owner().with("/api/jobs", json!({"value": [], "counts": counts}));
        let body = api.page("/jobs?search=x").await.body;
        let (_, tabs) = body.split_once("data-live=\"tabs\">").unwrap();
        tabs.split_once("</nav>").unwrap().0.to_owned()
    }

    #[tokio::test]
    async fn a_count_is_exact_or_more_than_a_thousand_or_says_that_it_goes_on() {
        let exact = tabs((57, false), (0, false)).await;
        assert!(exact.contains("All<span class=\"count\">57</span>"), "{exact}");
        assert!(!exact.contains("counting"), "{exact}");
        let many = tabs((1_000, true), (12, true)).await;
        assert!(many.contains("All<span class=\"count\">1,000+</span>"), "{many}");
        assert!(many.contains("Disabled</a>") && !many.contains("counting"), "{many}");
        let unfinished = tabs((57, true), (12, true)).await;
        assert!(unfinished.contains("<span class=\"count\">12+</span>"), "{unfinished}");
        assert!(
            unfinished.contains("data-calculating>at least 57, still counting"),
            "{unfinished}"
        );
    }
}
