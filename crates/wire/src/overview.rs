//! Lists and counts over all collections. Newest API version only.

use std::collections::BTreeMap;

use kalends_domain::{CollectionState, JobDefinition, JobPath};
use kalends_recurrence::Instant;

use crate::job::{JobRuntimeState, write_job};
use crate::json::Json;
use crate::object::{ObjectBuilder, list};
use crate::version::Version;

/// Members of a job in a list over all collections, beside those of the job itself.
#[derive(Clone, Debug)]
pub struct ListedJob<'a> {
    /// Name of the collection in the default resource group; its id in another one.
    pub collection: &'a str,
    /// The schedule in words; `None` if it cannot be described.
    pub schedule_text: Option<String>,
    /// The state of the collection.
    pub collection_state: CollectionState,
    /// Number of failed runs since the last run that succeeded.
    pub consecutive_failures: u64,
    /// Statistics of the newest runs, if requested.
    pub statistics: Option<Json<'static>>,
}

/// Serialises a job like [`write_job`], with its collection and its schedule in words.
pub fn write_listed_job<'a>(
    path: &JobPath,
    job: &'a JobDefinition,
    runtime: &JobRuntimeState,
    listed: ListedJob<'_>,
) -> Json<'a> {
    let mut json = write_job(path, job, runtime, Version::NEWEST);
    if let Json::Object(members) = &mut json {
        members.push(("collection".into(), listed.collection.to_owned().into()));
        members.push(("collectionState".into(), state_text(listed.collection_state).into()));
        members.extend(listed.schedule_text.map(|text| ("scheduleText".into(), text.into())));
        members.push(("consecutiveFailures".into(), listed.consecutive_failures.into()));
        members.extend(listed.statistics.map(|statistics| ("statistics".into(), statistics)));
    }
    json
}

/// A number that is exact, or the number that was counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The number.
    pub count: u64,
    /// Whether there may be more.
    pub more: bool,
}

impl From<Counted> for Json<'_> {
    fn from(Counted { count, more }: Counted) -> Self {
        ObjectBuilder::new().put("count", count).put("more", more).into()
    }
}

/// Counts of the jobs of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the states of the API")]
pub struct JobCounts {
    pub all: Counted,
    pub enabled: Counted,
    pub disabled: Counted,
    pub failing: Counted,
    pub completed: Counted,
    pub faulted: Counted,
}

/// Serialises a page of jobs with the counts of its search.
pub fn write_job_list<'a>(
    values: Vec<Json<'a>>,
    next_link: Option<&'a str>,
    counts: JobCounts,
) -> Json<'a> {
    let counts = ObjectBuilder::new()
        .put("all", counts.all)
        .put("enabled", counts.enabled)
        .put("disabled", counts.disabled)
        .put("failing", counts.failing)
        .put("completed", counts.completed)
        .put("faulted", counts.faulted);
    ObjectBuilder::new()
        .put("value", Json::Array(values))
        .put("nextLink", next_link.map_or(Json::Null, Json::from))
        .put("counts", counts)
        .into()
}

/// The numbers of an overview.
#[derive(Clone, Debug)]
pub struct OverviewNumbers {
    /// Start of the scan that counted.
    pub calculated_at: Instant,
    /// Jobs by state.
    pub jobs: JobCounts,
    /// Enabled jobs whose next run is more than a minute in the past.
    pub overdue: u64,
    /// Jobs whose next run is within an hour.
    pub due_within_hour: u64,
    /// Entries of the attention list.
    pub attention: u64,
    /// Collections by path.
    pub collections: Vec<OverviewCollection>,
    /// Whether there are more collections.
    pub more_collections: bool,
}

/// A collection in an overview.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the members of the API")]
pub struct OverviewCollection {
    pub collection: String,
    pub id: String,
    pub state: CollectionState,
    pub enabled: u64,
    pub disabled: u64,
    pub failing: u64,
    pub jobs: u64,
    pub max_jobs: Option<u64>,
}

/// Serialises an overview: the number of open runs, and the numbers of a scan; `None` before the first
/// one has ended.
pub fn write_overview(running: Counted, numbers: Option<OverviewNumbers>) -> Json<'static> {
    let null = || Json::Null;
    let Some(numbers) = numbers else {
        return ObjectBuilder::new()
            .put("calculatedAt", null())
            .put("jobs", null())
            .put("running", running.count)
            .put("moreRunning", running.more)
            .put("dueWithinHour", null())
            .put("attention", null())
            .put("collections", Json::Array(vec![]))
            .put("more", false)
            .into();
    };
    let JobCounts { all, enabled, disabled, failing, completed, faulted } = numbers.jobs;
    let jobs = ObjectBuilder::new()
        .put("all", all.count)
        .put("enabled", enabled.count)
        .put("disabled", disabled.count)
        .put("failing", failing.count)
        .put("completed", completed.count)
        .put("faulted", faulted.count)
        .put("overdue", numbers.overdue);
    ObjectBuilder::new()
        .put("calculatedAt", numbers.calculated_at)
        .put("jobs", jobs)
        .put("running", running.count)
        .put("moreRunning", running.more)
        .put("dueWithinHour", numbers.due_within_hour)
        .put("attention", numbers.attention)
        .put("collections", list(numbers.collections.into_iter()))
        .put("more", numbers.more_collections)
        .into()
}

impl From<OverviewCollection> for Json<'static> {
    fn from(collection: OverviewCollection) -> Json<'static> {
        ObjectBuilder::new()
            .put("collection", collection.collection)
            .put("id", collection.id)
            .put("state", state_text(collection.state))
            .put("enabled", collection.enabled)
            .put("disabled", collection.disabled)
            .put("failing", collection.failing)
            .put("jobs", collection.jobs)
            .put("maxJobs", collection.max_jobs.map_or(Json::Null, Json::from))
            .into()
    }
}

fn state_text(state: CollectionState) -> &'static str {
    match state {
        CollectionState::Enabled => "Enabled",
        CollectionState::Disabled => "Disabled",
        CollectionState::Suspended => "Suspended",
    }
}

/// A job or collection that needs attention.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the members of the API")]
pub struct AttentionEntry {
    pub kind: &'static str,
    pub collection: String,
    /// `None` if the entry is about the collection.
    pub job: Option<String>,
    pub id: String,
    pub since: Option<Instant>,
    pub count: Option<u64>,
    pub message: String,
    /// Message of the last failed attempt of a failing job.
    pub last_message: Option<String>,
}

/// Serialises the list of what needs attention. `calculated_at` is absent before the first scan has
/// ended.
pub fn write_attention(
    calculated_at: Option<Instant>,
    entries: Vec<AttentionEntry>,
    more: bool,
) -> Json<'static> {
    let entries = entries.into_iter().map(|entry| {
        ObjectBuilder::new()
            .put("kind", entry.kind)
            .put("collection", entry.collection)
            .put("job", entry.job.map_or(Json::Null, Json::from))
            .put("id", entry.id)
            .put("since", entry.since.map_or(Json::Null, Json::from))
            .put("count", entry.count.map_or(Json::Null, Json::from))
            .put("message", entry.message)
            .put_some("lastMessage", entry.last_message)
    });
    ObjectBuilder::new()
        .put("calculatedAt", calculated_at.map_or(Json::Null, Json::from))
        .put("value", list(entries))
        .put("more", more)
        .into()
}

/// Expected runs of a time span.
#[derive(Clone, Debug)]
pub struct ExpectedBucket {
    /// Start of the span.
    pub start: Instant,
    /// Expected runs.
    pub count: u64,
    /// Expected runs of each collection; the empty name stands for all others.
    pub collections: Option<BTreeMap<String, u64>>,
}

/// Serialises expected runs. `calculated_at` is absent before the first scan has ended.
pub fn write_expected_runs(
    calculated_at: Option<Instant>,
    bucket: &'static str,
    buckets: Vec<ExpectedBucket>,
) -> Json<'static> {
    let buckets = buckets.into_iter().map(|bucket| {
        let collections = bucket.collections.map(|collections| {
            let members = collections.into_iter();
            Json::Object(members.map(|(name, count)| (name.into(), count.into())).collect())
        });
        ObjectBuilder::new()
            .put("start", bucket.start)
            .put("count", bucket.count)
            .put_some("collections", collections)
    });
    ObjectBuilder::new()
        .put("calculatedAt", calculated_at.map_or(Json::Null, Json::from))
        .put("bucket", bucket)
        .put("buckets", list(buckets))
        .into()
}
