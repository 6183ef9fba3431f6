//! Jobs: search over all collections, tabs by state, actions on a selection.

use askama::Template;
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

use super::{PageResult, rendered};
use crate::address::{CollectionAddress, JobAddress, encode};
use crate::api::{Api, ApiFailure, Json as _, read, read_text};
use crate::chart::{Outcome, Outcomes};
use crate::format::{count, milliseconds};
use crate::mark::Mark;
use crate::sentence::{Part, sentence};
use crate::view::{PageRequest, Shared, Time, View};

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
    collections: Vec<CollectionOption>,
    rows: Vec<Row>,
    /// A page that is not full ends where the search ended early.
    next_page: Option<String>,
    is_full: bool,
    is_first_page: bool,
    /// The number of matches so far, if the server has not counted all of them.
    counting: Option<String>,
    /// The offer to select the jobs of all pages.
    select_matching: String,
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
    pub(super) schedule: Vec<Part>,
    pub(super) outcomes: Outcomes,
    pub(super) next: Option<Time>,
    pub(super) success: String,
    pub(super) p95: String,
}

/// A list of jobs of the API, with the members that a page shows. Texts are borrowed from the JSON, which
/// has up to a thousand outcomes of runs.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct JobList<'a> {
    #[serde(borrow)]
    pub(super) value: Vec<ListedJob<'a>>,
    #[serde(borrow)]
    pub(super) next_link: Option<Cow<'a, str>>,
    counts: Value,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListedJob<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    collection: Cow<'a, str>,
    #[serde(borrow)]
    collection_state: Cow<'a, str>,
    #[serde(borrow)]
    schedule_text: Cow<'a, str>,
    consecutive_failures: u64,
    #[serde(borrow)]
    properties: Properties<'a>,
    #[serde(borrow)]
    statistics: Statistics<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Properties<'a> {
    #[serde(borrow)]
    state: Cow<'a, str>,
    #[serde(borrow)]
    status: Status<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow)]
    next_execution_time: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Statistics<'a> {
    #[serde(borrow)]
    outcomes: Vec<Outcome<'a>>,
    running: bool,
    success_rate: Option<f64>,
    duration: Percentiles,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Percentiles {
    #[serde(rename = "p95Milliseconds")]
    p95_milliseconds: Option<f64>,
}

impl JobList<'_> {
    pub(super) fn parse(json: &[u8]) -> Result<JobList<'_>, ApiFailure> {
        serde_json::from_slice(json).map_err(|error| ApiFailure {
            status: 500,
            message: format!("The list of jobs cannot be read: {error}"),
        })
    }
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

pub(super) async fn page(
    view: &mut View,
    shared: impl Future<Output = Shared>,
    request: &PageRequest<'_>,
    api: &dyn Api,
) -> PageResult {
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
    let (shared, jobs, overview) =
        tokio::join!(shared, read_text(api, &target), read(api, "/api/overview"));
    view.share(shared);
    let jobs = jobs?;
    let jobs = JobList::parse(&jobs)?;
    let all = Count::new(jobs.counts.member("all"));
    let is_counted = all != Count::AtLeast;
    let has_many = all == Count::Many;
    let state = if filter.state.is_empty() { "all" } else { &filter.state };
    let counted = jobs.counts.member(&state.to_ascii_lowercase());
    let select_matching = Count::new(counted).offer(counted.integer("count"));
    let tab = |name: &'static str, state: &str, member: &str| {
        let counted = jobs.counts.member(member);
        Tab {
            name,
            count: Count::new(counted).text(counted.integer("count"), has_many),
            href: format!("?{}", filter.query(state)),
            is_current: filter.state.eq_ignore_ascii_case(state),
        }
    };
    let tabs = STATES.map(|state| tab(state, state, &state.to_ascii_lowercase()));
    let tabs = std::iter::once(tab("All", "", "all")).chain(tabs).collect();
    let next = jobs.next_link.as_deref().unwrap_or_default();
    let next = next.split(['?', '&']).find_map(|pair| pair.strip_prefix("cursor="));
    let next_page = next.map(|cursor| {
        let filter = filter.query(&filter.state);
        let separator = if filter.is_empty() { "" } else { "&" };
        format!("?{filter}{separator}cursor={cursor}")
    });
    let overview = overview.unwrap_or_default();
    let collections = overview.list("collections");
    let rows: Vec<_> = jobs.value.iter().map(|job| Row::new(job, view)).collect();
    let page = Jobs {
        tabs,
        collections: collections.iter().map(|row| CollectionOption::new(row, view)).collect(),
        next_page,
        is_full: rows.len() == PAGE_SIZE,
        rows,
        counting: (!is_counted).then(|| count(jobs.counts.integer("all.count"))),
        is_first_page: cursor.is_empty(),
        select_matching,
        filter,
        view,
    };
    rendered(&page)
}

/// A collection in a filter.
pub(super) struct CollectionOption {
    /// Its name in the default group, otherwise its id.
    pub(super) value: String,
    pub(super) label: String,
}

impl CollectionOption {
    /// From a collection of the overview.
    pub(super) fn new(row: &Value, view: &View) -> CollectionOption {
        let value = row.text("collection");
        let address = CollectionAddress::of_id(&row.text("id"), &view.default_group);
        let label = address.map_or_else(|| value.clone(), |address| address.label());
        CollectionOption { value, label }
    }
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

    /// The number in a tab; none before it is known. Among many matches, those in one state may not
    /// be counted to the end.
    fn text(self, number: u64, has_many: bool) -> String {
        match self {
            Count::AtLeast if has_many && number > 0 => format!("{}+", count(number)),
            Count::Unknown | Count::AtLeast => String::new(),
            Count::Exact => count(number),
            Count::Many => format!("{}+", count(number)),
        }
    }

    /// The offer to select this number of jobs, up to the number that the server counts.
    fn offer(self, number: u64) -> String {
        match self {
            Count::Exact => format!("Select all {} matching jobs", count(number)),
            Count::Many => format!("Select the first {} matching jobs", count(COUNT_MAX)),
            Count::Unknown | Count::AtLeast => {
                format!("Select all matching jobs, at most {}", count(COUNT_MAX))
            }
        }
    }
}

impl Row {
    pub(super) fn new(job: &ListedJob<'_>, view: &View) -> Row {
        let address = JobAddress::of_id(&job.id, &view.default_group);
        let (name, collection) = match &address {
            Some(address) => (address.job.clone(), address.collection.label()),
            None => (job.name.to_string(), job.collection.to_string()),
        };
        let ListedJob { properties, statistics, .. } = job;
        let state = match &*properties.state {
            "Enabled" if statistics.running => "Running",
            "Enabled" if view.is_paused() => "Paused",
            "Enabled" if !["", "Enabled"].contains(&&*job.collection_state) => {
                "Collection disabled"
            }
            "Enabled" if job.consecutive_failures >= FAILING_MIN => "Failing",
            state => state,
        };
        let next = properties.status.next_execution_time.as_deref();
        Row {
            href: address.as_ref().map_or(String::new(), |address| {
                format!("{}jobs/{}", view.root, address.in_console())
            }),
            resource: address.map(|address| address.in_api()).unwrap_or_default(),
            mark: Mark::of_job(state),
            state: state.to_owned(),
            schedule: sentence(&job.schedule_text, view),
            outcomes: Outcomes::new(&statistics.outcomes, view),
            next: next.and_then(|at| at.parse().ok()).map(|at| view.time(at)),
            success: statistics
                .success_rate
                .map_or_else(String::new, |rate| format!("{:.0} %", rate * 100.0)),
            p95: statistics.duration.p95_milliseconds.map_or_else(String::new, milliseconds),
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
    async fn a_list_that_cannot_be_read_is_an_error_and_not_empty() {
        let api = FakeApi::of_owner().with("/api/jobs", json!({"value": "none"}));
        let page = api.page("/jobs").await;
        assert!(page.body.contains("The list of jobs cannot be read"), "{}", page.body);
    }

    #[tokio::test]
    async fn the_time_of_a_job_that_runs_once_is_shown_in_the_zone_of_the_page() {
        let job = json!({"name": "c/j", "scheduleText": "Once, at 2026-11-18T14:19:34.8576561Z"});
        let api = FakeApi::of_owner().with("/api/jobs", json!({"value": [job]}));
        let page = api.page("/jobs").await.body;
        assert!(page.contains(">Wed 2026-11-18 14:19:34</time></div>"), "{page}");
        assert!(page.contains("title=\"Once, at Wed 2026-11-18 14:19:34\""), "{page}");
    }

    #[tokio::test]
    async fn a_count_is_exact_or_more_than_a_thousand_or_says_that_it_goes_on() {
        let exact = tabs((57, false), (0, false)).await;
        assert!(exact.contains("All<span class=\"count\">57</span>"), "{exact}");
        assert!(!exact.contains("counting"), "{exact}");
        let many = tabs((1_000, true), (12, true)).await;
        assert!(many.contains("All<span class=\"count\">1,000+</span>"), "{many}");
        assert!(many.contains("Disabled<span class=\"count\">12+</span>"), "{many}");
        assert!(!many.contains("counting"), "{many}");
        let unfinished = tabs((57, true), (12, true)).await;
        assert!(!unfinished.contains("+</span>"), "no number is a lower bound: {unfinished}");
        assert!(
            unfinished.contains("data-calculating>at least 57, still counting"),
            "{unfinished}"
        );
    }
}
