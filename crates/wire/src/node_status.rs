//! The state of a node, as `GET /api/node` describes it. Newest API version only.

use std::time::Duration;

use kalends_domain::EgressMode;
use kalends_recurrence::Instant;

use crate::duration::write_duration;
use crate::json::Json;
use crate::object::{ObjectBuilder, list};

/// The state of a node. Members that only readers of the whole installation see are optional.
#[derive(Clone, Debug)]
pub struct NodeStatus<'a> {
    /// Name of the process among the nodes of its store.
    pub node: &'a str,
    /// Version of the program.
    pub version: &'a str,
    /// Version of the time zone database.
    pub zone_data: &'a str,
    /// Start of the process.
    pub started: Instant,
    /// The store.
    pub store: Option<StoreStatus<'a>>,
    /// `Running`, `Held`, `Paused` or `Failing`.
    pub scheduler: &'a str,
    /// Load of the scheduler.
    pub load: Option<LoadStatus>,
    /// Retention of history and finished jobs.
    pub retention: RetentionStatus,
    /// Default reach of jobs.
    pub egress: EgressMode,
    /// Destinations that are allowed in addition.
    pub egress_allow: Option<Vec<String>>,
    /// Limits of runs and definitions.
    pub limits: LimitsStatus,
    /// URL of the echo target.
    pub echo: Option<String>,
}

/// The state of the store.
#[derive(Clone, Debug)]
pub struct StoreStatus<'a> {
    /// `Sqlite` or `Postgres`.
    pub kind: &'a str,
    /// Size in bytes; `None` if it cannot be read.
    pub bytes: Option<u64>,
    /// Why the store does not accept writes; `None` if it does.
    pub problem: Option<String>,
}

/// The load of the scheduler of one node.
#[derive(Clone, Copy, Debug)]
pub struct LoadStatus {
    /// Attempts in flight.
    pub running: u64,
    /// Due runs that wait for a free slot.
    pub waiting: u64,
    /// Time since the oldest occurrence or retry was due that has not started.
    pub lateness: Duration,
}

/// Retention of history and finished jobs.
#[derive(Clone, Copy, Debug)]
pub struct RetentionStatus {
    /// Maximum age of history entries and occurrences.
    pub history: Duration,
    /// Maximum number of history entries of one job.
    pub entries_per_job: u64,
    /// Time after which finished jobs are deleted.
    pub finished_jobs: Duration,
}

/// Limits of runs and definitions.
#[derive(Clone, Copy, Debug)]
pub struct LimitsStatus {
    /// Maximum number of attempts in flight.
    pub attempts: u64,
    /// The same for one target host.
    pub attempts_per_host: u64,
    /// The same for one collection.
    pub attempts_per_collection: u64,
    /// Timeout of an attempt whose job sets none.
    pub attempt_timeout: Duration,
    /// Maximum number of open runs of one job.
    pub open_runs_per_job: u32,
    /// Maximum size of a job in bytes.
    pub job_bytes: u64,
    /// Whether the limits of plans are enforced.
    pub are_plans_enforced: bool,
}

/// Serialises the state of a node.
pub fn write_node<'a>(node: &NodeStatus<'a>) -> Json<'a> {
    let scheduler = ObjectBuilder::new().put("state", node.scheduler);
    let scheduler = match node.load {
        None => scheduler,
        Some(LoadStatus { running, waiting, lateness }) => scheduler
            .put("running", running)
            .put("waiting", waiting)
            .put("latenessMilliseconds", milliseconds(lateness)),
    };
    let retention = ObjectBuilder::new()
        .put("history", write_duration(node.retention.history))
        .put("entriesPerJob", node.retention.entries_per_job)
        .put("finishedJobs", write_duration(node.retention.finished_jobs));
    let egress = ObjectBuilder::new()
        .put("mode", mode_text(node.egress))
        .put_some("allow", node.egress_allow.clone().map(|allow| list(allow.into_iter())));
    let limits = ObjectBuilder::new()
        .put("attempts", node.limits.attempts)
        .put("attemptsPerHost", node.limits.attempts_per_host)
        .put("attemptsPerCollection", node.limits.attempts_per_collection)
        .put("attemptTimeout", write_duration(node.limits.attempt_timeout))
        .put("openRunsPerJob", node.limits.open_runs_per_job)
        .put("jobBytes", node.limits.job_bytes)
        .put("plans", node.limits.are_plans_enforced);
    ObjectBuilder::new()
        .put("node", node.node)
        .put("version", node.version)
        .put("zoneData", node.zone_data)
        .put("startedAt", node.started)
        .put_some("store", node.store.as_ref().map(write_store))
        .put("scheduler", scheduler)
        .put("retention", retention)
        .put("egress", egress)
        .put("limits", limits)
        .put("echo", node.echo.clone().map_or(Json::Null, Json::from))
        .into()
}

fn write_store<'a>(store: &StoreStatus<'a>) -> ObjectBuilder<'a> {
    ObjectBuilder::new()
        .put("kind", store.kind)
        .put("bytes", store.bytes.map_or(Json::Null, Json::from))
        .put("healthy", store.problem.is_none())
        .put("reason", store.problem.clone().map_or(Json::Null, Json::from))
}

fn mode_text(mode: EgressMode) -> &'static str {
    match mode {
        EgressMode::Guarded => "Guarded",
        EgressMode::SingleUser => "SingleUser",
        EgressMode::Listed => "Listed",
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
