//! Runs over all jobs, their counts, and the statistics of a job. Newest API version only.

use std::time::Duration;

use kalends_domain::{
    AttemptStatus, ClosedRun, JobPath, LastAttempts, OccurrenceState, RunInFlight, RunOutcome,
    RunStatistics, RunStatus,
};
use kalends_recurrence::Instant;

use crate::duration::write_duration;
use crate::history::status_code;
use crate::id::job_id;
use crate::json::{Json, Number};
use crate::object::{ObjectBuilder, list};
use crate::timeline::{cause_text, disposition_text, state_text};

/// The newest runs whose outcomes are in the statistics of a job.
pub const OUTCOMES_MAX: usize = 20;

/// The job of a run.
#[derive(Clone, Copy, Debug)]
pub struct JobOfRun<'a> {
    /// Path of the job.
    pub path: &'a JobPath,
    /// Its collection, as lists over all collections name it.
    pub collection: &'a str,
}

impl JobOfRun<'_> {
    fn write(&self) -> ObjectBuilder<'static> {
        ObjectBuilder::new()
            .put("collection", self.collection.to_owned())
            .put("job", self.path.job.to_string())
            .put("id", job_id(self.path))
    }
}

/// Serialises a closed run. Status, message and number of attempts are those of the job's own action.
pub fn write_closed_run(job: JobOfRun<'_>, run: &ClosedRun, last: LastAttempts) -> Json<'static> {
    let (record, execution) = (&run.record, run.execution.as_ref());
    let attempts = run.own_attempts(&last);
    let error_action = last.error.map(|last| {
        let status = match last.status {
            AttemptStatus::Completed => RunStatus::Succeeded,
            AttemptStatus::Failed | AttemptStatus::Postponed => RunStatus::Failed,
        };
        write_error_action(status, last.attempts, Some(last.message))
    });
    let is_range = record.count != 1;
    job.write()
        .put("scheduledTime", record.from)
        .put_some("lastScheduledTime", is_range.then_some(record.to))
        .put_some("count", is_range.then_some(record.count))
        .put_some("startTime", execution.map(|execution| execution.started))
        .put("endTime", execution.map_or(record.closed, |execution| execution.ended))
        .put("kind", cause_text(record.cause))
        .put("status", status_text(RunStatus::of(record.disposition)))
        .put("disposition", disposition_text(record.disposition))
        .put_some("attempts", attempts)
        .put_some(
            "durationMilliseconds",
            execution.map(|execution| milliseconds(execution.duration())),
        )
        .put_some("statusCode", last.main.as_ref().and_then(|last| status_code(&last.message)))
        .put_some("message", last.main.map(|last| last.message))
        .put_some("errorAction", error_action)
        .put("generation", record.generation)
        .into()
}

/// An open run.
#[derive(Clone, Debug)]
pub struct OpenRunDescription {
    /// Its state.
    pub state: RunInFlight,
    /// Start of its first attempt.
    pub started: Option<Instant>,
    /// Number of finished attempts of the job's own action.
    pub attempts: u32,
    /// Number of finished attempts of the error action, if it has begun.
    pub error_attempts: Option<u32>,
}

/// Serialises an open run.
pub fn write_open_run(job: JobOfRun<'_>, run: &OpenRunDescription) -> Json<'static> {
    let (scheduled, cause, generation) =
        (run.state.scheduled, run.state.cause, run.state.generation);
    job.write()
        .put("scheduledTime", scheduled)
        .put_some("startTime", run.started)
        .put("kind", cause_text(cause))
        .put("status", status_text(RunStatus::Running))
        .put("disposition", state_text(&OccurrenceState::InFlight(run.state)))
        .put("attempts", run.attempts)
        .put_some(
            "errorAction",
            run.error_attempts
                .map(|attempts| write_error_action(RunStatus::Running, attempts, None)),
        )
        .put("generation", generation)
        .into()
}

/// Serialises the outcome of the error action of a run.
fn write_error_action(
    status: RunStatus,
    attempts: u32,
    message: Option<String>,
) -> ObjectBuilder<'static> {
    ObjectBuilder::new()
        .put("status", status_text(status))
        .put("attempts", attempts)
        .put_some("statusCode", message.as_deref().and_then(status_code))
        .put_some("message", message)
}

/// The newest runs of a job.
#[derive(Clone, Copy, Debug)]
pub struct NewestRunsOfJob<'a> {
    /// Closed runs, newest first.
    pub closed: &'a [RunOutcome],
    /// Whether a run is in flight.
    pub is_running: bool,
    /// Failed runs since the last one that succeeded.
    pub consecutive_failures: u64,
}

/// Serialises the statistics of a job.
pub fn write_statistics(job: &NewestRunsOfJob<'_>) -> Json<'static> {
    let RunStatistics { runs, succeeded, p50, p95, since } = RunStatistics::of(job.closed);
    let outcomes = job.closed.iter().take(OUTCOMES_MAX).map(|run| {
        ObjectBuilder::new()
            .put("scheduledTime", run.scheduled)
            .put("disposition", disposition_text(run.disposition))
            .put("status", status_text(RunStatus::of(run.disposition)))
            .put_some("durationMilliseconds", run.duration.map(milliseconds))
    });
    let rate = (runs > 0).then(|| (succeeded as f64 / runs as f64 * 10_000.0).round() / 10_000.0);
    let duration = ObjectBuilder::new()
        .put_some("p50Milliseconds", p50.map(milliseconds))
        .put_some("p95Milliseconds", p95.map(milliseconds));
    ObjectBuilder::new()
        .put("outcomes", list(outcomes))
        .put("running", job.is_running)
        .put("runs", runs)
        .put("succeeded", succeeded)
        .put_some("successRate", rate.map(|rate| Json::Number(Number::Other(rate))))
        .put("duration", duration)
        .put("consecutiveFailures", job.consecutive_failures)
        .put_some("since", since)
        .into()
}

/// Closed runs in a span of time.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "as in `RunStatus`")]
pub struct RunCountsOfTime {
    /// Start of the span.
    pub start: Instant,
    pub succeeded: u64,
    pub failed: u64,
    pub skipped: u64,
    pub missed: u64,
}

/// Serialises counts of runs in spans of `bucket`.
pub fn write_run_counts(bucket: Duration, buckets: &[RunCountsOfTime]) -> Json<'static> {
    let buckets = buckets.iter().map(|counts| {
        ObjectBuilder::new()
            .put("start", counts.start)
            .put("succeeded", counts.succeeded)
            .put("failed", counts.failed)
            .put("skipped", counts.skipped)
            .put("missed", counts.missed)
    });
    ObjectBuilder::new().put("bucket", write_duration(bucket)).put("buckets", list(buckets)).into()
}

fn status_text(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "Running",
        RunStatus::Succeeded => "Succeeded",
        RunStatus::Failed => "Failed",
        RunStatus::Skipped => "Skipped",
        RunStatus::Missed => "Missed",
    }
}

/// Milliseconds, rounded; short durations with tenths.
fn milliseconds(duration: Duration) -> Json<'static> {
    let tenths = (duration.as_secs_f64() * 10_000.0).round();
    let rounded = if tenths < 100.0 { tenths / 10.0 } else { (tenths / 10.0).round() };
    Json::Number(match rounded.fract() == 0.0 {
        true => Number::Integer(rounded as i64),
        false => Number::Other(rounded),
    })
}
