//! Lists and counts over all collections. Newest API version only.

use kalends_domain::{JobDefinition, JobPath};

use crate::job::{JobRuntimeState, write_job};
use crate::json::Json;
use crate::object::ObjectBuilder;
use crate::version::Version;

/// Members of a job in a list over all collections, beside those of the job itself.
#[derive(Clone, Debug)]
pub struct ListedJob<'a> {
    /// Name of the collection in the default resource group; its id in another one.
    pub collection: &'a str,
    /// The schedule in words; `None` if it cannot be described.
    pub schedule_text: Option<String>,
    /// Number of failed runs since the last run that succeeded.
    pub consecutive_failures: u64,
}

/// Serialises a job like [`write_job`], with its collection and its schedule in words.
pub fn write_listed_job<'a>(
    path: &JobPath,
    job: &'a JobDefinition,
    runtime: &JobRuntimeState,
    listed: ListedJob<'a>,
) -> Json<'a> {
    let mut json = write_job(path, job, runtime, Version::NEWEST);
    if let Json::Object(members) = &mut json {
        members.push(("collection".into(), listed.collection.into()));
        members.extend(listed.schedule_text.map(|text| ("scheduleText".into(), text.into())));
        members.push(("consecutiveFailures".into(), listed.consecutive_failures.into()));
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
