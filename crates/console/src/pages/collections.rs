//! Collections: state, quota, plan and tags.

use std::collections::{BTreeSet, HashMap};

use askama::Template;
use serde_json::Value;

use super::editor::FREQUENCIES;
use super::jobs::{JobList, Row as JobRow};
use super::{PageResult, rendered};
use crate::address::{CollectionAddress, encode};
use crate::api::{Api, Json as _, read, read_text};
use crate::format::{count, counted};
use crate::mark::Mark;
use crate::note::Note;
use crate::sentence::Part;
use crate::view::{Shared, View};

/// Requests for plans and tags. Each returns up to 100 collections of a subscription.
const DETAIL_REQUESTS_MAX: usize = 10;
const PLANS: [&str; 4] = ["Free", "Standard", "P10Premium", "P20Premium"];
/// Jobs on the page of a collection.
const JOBS_SHOWN: usize = 20;

#[derive(Template)]
#[template(path = "collections.html")]
struct Collections<'a> {
    view: &'a View,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    href: String,
    /// URL of the list of its jobs.
    jobs_href: String,
    resource: String,
    mark: Mark,
    state: String,
    /// Plan and tags: `Standard`, `team=billing`; empty if they are not known.
    details: Vec<String>,
    jobs: String,
    /// Jobs that run while the collection is enabled.
    enabled: u64,
    failing: u64,
    disabled: u64,
    /// Share of the quota in use, in per cent; `None` without a limit.
    usage: Option<u64>,
    quota: String,
}

pub(super) async fn page(
    view: &mut View,
    shared: impl Future<Output = Shared>,
    api: &dyn Api,
) -> PageResult {
    view.share(shared.await);
    view.title = "Collections".to_owned();
    let overview = read(api, "/api/overview").await?;
    let rows = overview.list("collections");
    let mut details = details(rows, api).await;
    let rows = rows.iter().map(|row| {
        let details = details.remove(&row.text("id").to_ascii_lowercase()).unwrap_or_default();
        Row { details, ..Row::new(row, view) }
    });
    rendered(&Collections { rows: rows.collect(), view })
}

/// Plans and tags of collections by their ids in lower case. The overview, which counts jobs, has neither.
async fn details(rows: &[Value], api: &dyn Api) -> HashMap<String, Vec<String>> {
    let subscription = |row: &Value| row.text("id").split('/').nth(2).map(str::to_owned);
    let subscriptions: BTreeSet<String> = rows.iter().filter_map(subscription).collect();
    let mut details = HashMap::new();
    let mut requests = 0;
    for subscription in subscriptions {
        let mut cursor = String::new();
        while requests < DETAIL_REQUESTS_MAX {
            requests += 1;
            let target = format!(
                "/subscriptions/{}/providers/Microsoft.Scheduler/jobCollections?api-version=2026-11-01{cursor}",
                encode(&subscription),
            );
            let page = read(api, &target).await.unwrap_or_default();
            for collection in page.list("value") {
                let plan = collection.text("properties.sku.name");
                let tags = collection.members("tags");
                let tags = tags.map(|(name, value)| format!("{name}={}", value.text("")));
                let texts = std::iter::once(plan).chain(tags).filter(|text| !text.is_empty());
                details.insert(collection.text("id").to_ascii_lowercase(), texts.collect());
            }
            let next = page.text("nextLink");
            let next = next.split(['?', '&']).find_map(|pair| pair.strip_prefix("%24skiptoken="));
            match next {
                Some(next) => cursor = format!("&%24skiptoken={next}"),
                None => break,
            }
        }
    }
    details
}

impl Row {
    fn new(row: &Value, view: &View) -> Row {
        let address = CollectionAddress::of_id(&row.text("id"), &view.default_group);
        let jobs = row.integer("jobs");
        let max = row.integer("maxJobs");
        let state = row.text("state");
        let name = address.as_ref().map(CollectionAddress::label);
        Row {
            name: name.unwrap_or_else(|| row.text("collection")),
            href: address.as_ref().map_or(String::new(), |address| {
                format!("{}collections/{}", view.root, address.in_console())
            }),
            jobs_href: format!("{}jobs?collection={}", view.root, encode(&row.text("collection"))),
            resource: address.map(|address| address.in_api()).unwrap_or_default(),
            mark: mark_of(&state),
            state,
            details: vec![],
            jobs: count(jobs),
            enabled: row.integer("enabled"),
            failing: row.integer("failing"),
            disabled: row.integer("disabled"),
            usage: (max > 0).then(|| (jobs * 100 / max.max(1)).min(100)),
            quota: if max > 0 {
                format!("{} of {}", count(jobs), count(max))
            } else {
                "no limit".to_owned()
            },
        }
    }

    /// `all 12 jobs`
    fn all_jobs(&self) -> String {
        match self.jobs.as_str() {
            "0" => "all jobs".to_owned(),
            "1" => "the only job".to_owned(),
            jobs => format!("all {jobs} jobs"),
        }
    }

    /// The effect of enabling it.
    fn of_enabling(&self) -> String {
        match self.enabled {
            0 => "All its jobs stay disabled.".to_owned(),
            1 => "One of its jobs is enabled, and runs by its schedule again.".to_owned(),
            jobs => {
                format!(
                    "{} of its jobs are enabled, and run by their schedules again.",
                    count(jobs)
                )
            }
        }
    }
}

#[derive(Template)]
#[template(path = "collection.html")]
struct Collection<'a> {
    view: &'a View,
    name: String,
    resource: String,
    mark: Mark,
    state: String,
    plan: String,
    location: String,
    /// Why it was disabled.
    note: Option<Note>,
    /// Quota in words.
    quota: Vec<String>,
    /// From the overview; `None` while that is being calculated.
    usage: Option<Row>,
    /// Its jobs, and what follows if it is enabled, as questions to the user name them.
    all_jobs: String,
    of_enabling: String,
    tags: Vec<(String, String)>,
    definition: String,
    /// The first jobs.
    rows: Vec<JobRow>,
    has_more_jobs: bool,
    jobs_href: String,
    new_job_href: String,
}

pub(super) async fn one(
    view: &mut View,
    shared: impl Future<Output = Shared>,
    address: &CollectionAddress,
    api: &dyn Api,
) -> PageResult {
    view.share(shared.await);
    view.title.clone_from(&address.collection);
    let target = format!("{}?api-version=2026-11-01", address.in_api());
    let filter = match &address.group {
        None => encode(&address.collection),
        Some(_) => encode(&address.in_api()),
    };
    let jobs = format!("/api/jobs?collection={filter}&limit={JOBS_SHOWN}&statistics=true");
    let (collection, jobs, overview, note) = tokio::join!(
        read(api, &target),
        read_text(api, &jobs),
        read(api, "/api/overview"),
        Note::of_disabled_collection(address, view, api),
    );
    let (collection, jobs) = (collection?, jobs.unwrap_or_default());
    let jobs = JobList::parse(&jobs).unwrap_or_default();
    let overview = overview.unwrap_or_default();
    let id = collection.text("id");
    let usage = overview.list("collections").iter();
    let usage = usage.into_iter().find(|row| row.text("id").eq_ignore_ascii_case(&id));
    let usage = usage.map(|row| Row::new(row, view));
    let state = collection.text("properties.state");
    let page = Collection {
        all_jobs: usage.as_ref().map_or_else(|| "all jobs".to_owned(), Row::all_jobs),
        of_enabling: usage.as_ref().map(Row::of_enabling).unwrap_or_default(),
        name: address.collection.clone(),
        resource: address.in_api(),
        mark: mark_of(&state),
        note: note.filter(|_| state == "Disabled"),
        state,
        plan: collection.text("properties.sku.name"),
        location: collection.text("location"),
        quota: quota(&collection),
        usage,
        tags: collection
            .members("tags")
            .map(|(name, tag)| (name.to_owned(), tag.text("")))
            .collect(),
        definition: collection.pretty(),
        rows: jobs.value.iter().map(|job| JobRow::new(job, view)).collect(),
        has_more_jobs: jobs.next_link.is_some(),
        jobs_href: format!("{}jobs?collection={filter}", view.root),
        new_job_href: format!("{}new-job?collection={}", view.root, encode(&address.in_console())),
        view,
    };
    rendered(&page)
}

fn mark_of(state: &str) -> Mark {
    match state {
        "Enabled" => Mark::Scheduled,
        _ => Mark::Disabled,
    }
}

fn quota(collection: &Value) -> Vec<String> {
    let mut quota = Vec::new();
    if collection.has("properties.quota.maxJobCount") {
        let max = collection.integer("properties.quota.maxJobCount");
        quota.push(format!("at most {}", counted(max, "job", "jobs")));
    }
    let recurrence = collection.member("properties.quota.maxRecurrence");
    if recurrence.has("frequency") {
        let (interval, unit) = (recurrence.integer("interval"), recurrence.text("frequency"));
        let unit = unit.to_lowercase();
        quota.push(match interval {
            0 | 1 => format!("a job at most once every {unit}"),
            _ => format!("a job at most once every {interval} {unit}s"),
        });
    }
    quota
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::fake_api::FakeApi;

    #[tokio::test]
    async fn the_list_shows_plan_and_tags_and_counts_one_job_as_one() {
        let id = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Scheduler/jobCollections/c";
        let row = json!({"collection": "c", "id": id, "state": "Enabled", "jobs": 1});
        let collection = json!({"id": id.to_uppercase(), "tags": {"team": "billing"},
            "properties": {"sku": {"name": "Standard"}}});
        let list = "/subscriptions/s/providers/Microsoft.Scheduler/jobCollections";
        let api = FakeApi::of_owner()
            .with("/api/overview", json!({"collections": [row]}))
            .with(list, json!({"value": [collection]}));
        let page = api.page("/collections").await.body;
        assert!(page.contains("Standard · team=billing<"), "{page}");
        assert!(page.contains(">1<span class=\"only-phone\"> job</span>"), "{page}");
    }
}
