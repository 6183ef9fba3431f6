//! Workers. An attempt waits for its scheduled time, passes the gate, executes and returns its result.
//!
//! Runs that were claimed in one commit start as a group, so that one read of gate states serves all.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use kalends_actions::{ActionExecutor, AttemptReport, AttemptRequest, NotSent, SendFence};
use kalends_domain::{Action, ActionRole, CloseReason, Outcome, Signing, Switch};
use kalends_environment::Clock;
use kalends_recurrence::Instant;
use kalends_store::EngineStore;
use kalends_store::record::{Cause, Claim, GateState, Job, JobForRun, JobKey, OpenRun};

use crate::admission::Slot;
use crate::metrics::EngineMetrics;
use crate::unreported::{Results, Unreported};
use crate::workers::Workers;

/// Dependencies of the scheduler and of workers.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) store: Arc<dyn EngineStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) executor: Arc<dyn ActionExecutor>,
    pub(crate) metrics: Arc<EngineMetrics>,
}

/// A claimed run whose next attempt a worker executes. Boxed, because it passes through many hands.
pub(crate) struct Assignment {
    pub(crate) run: OpenRun,
    pub(crate) claim: Claim,
    /// Open while the claim is certainly valid.
    pub(crate) fence: SendFence,
    /// The job as it was read for the claim: the attempt uses this definition.
    pub(crate) job_for_run: Arc<JobForRun>,
    pub(crate) slot: Slot,
    pub(crate) timeout: Duration,
    /// [`AssignmentResult::NotStarted`] until the worker reports.
    pub(crate) result: AssignmentResult,
}

impl Assignment {
    /// Whether the result needs no look at the job's current state.
    pub(crate) fn is_final(&self) -> bool {
        match &self.result {
            AssignmentResult::Attempted { report, .. } => report.outcome == Outcome::Succeeded,
            AssignmentResult::NotStarted
            | AssignmentResult::Superseded
            | AssignmentResult::Edited
            | AssignmentResult::Held
            | AssignmentResult::PassedWhileOff(_)
            | AssignmentResult::ErrorActionRemoved => true,
        }
    }
}

/// Result of an assignment.
pub(crate) enum AssignmentResult {
    /// The attempt was executed.
    Attempted { started: Instant, ended: Instant, report: AttemptReport },
    /// The attempt did not start and may start later.
    NotStarted,
    /// An edit superseded the run, or the job was deleted.
    Superseded,
    /// The job was edited: the attempt starts with the new definition.
    Edited,
    /// The attempt waits until its job and its collection are enabled and no pause holds it.
    Held,
    /// The first attempt was due while the job or its collection was disabled or all jobs were paused:
    /// the occurrence does not run.
    PassedWhileOff(CloseReason),
    /// The error action that was to follow was removed from the job.
    ErrorActionRemoved,
}

/// Connections are opened ahead if at least this many attempts are due at the same time. Otherwise the
/// last attempt would wait for all handshakes before its own.
const PREWARM_MIN: usize = 8;
/// Connections are not opened ahead with less time than this.
const PREWARM_AHEAD_MIN: Duration = Duration::from_millis(1);

/// History message of an attempt whose code panicked.
const PANICKED: &str = "The attempt ended with an internal error of the scheduler. Whether the \
    target received the request is unknown.";

/// Maximum age of gate states, from their request to the start of the attempt: the time after which an
/// acknowledged edit, deletion, disabling or pause is certainly respected.
const GATE_AGE_MAX: Duration = Duration::from_millis(200);

/// Executes assignments, each at its scheduled time.
pub(crate) async fn run_assignments(
    group: Vec<Box<Assignment>>,
    services: Services,
    workers: Arc<Workers>,
    results: Results,
) {
    // First, so that a panic below reports every assignment.
    let report = |assignment| Unreported::new(assignment, results.clone());
    let mut group: Vec<_> = group.into_iter().map(report).collect();
    group.sort_by_key(next_at);
    prewarm(&group, &services);
    while let Some(first) = group.first() {
        wait_for(next_at(first), &*services.clock).await;
        let now = Instant::from(services.clock.now());
        let count = group.partition_point(|assignment| next_at(assignment) <= now);
        let later = group.split_off(count);
        let assignments = || group.iter().filter_map(Unreported::assignment);
        let jobs = assignments().map(|assignment| assignment.run.job).collect();
        let fences: Vec<_> = assignments().map(|assignment| assignment.fence.clone()).collect();
        // Without gate states nothing is sent.
        let gate_states = fresh_gate_states(jobs, &fences, &services).await;
        let gate_states =
            gate_states.unwrap_or_default().into_iter().map(Some).chain([None].into_iter().cycle());
        for (assignment, state) in group.into_iter().zip(gate_states) {
            let gate = gate(assignment.assignment(), state, services.clock.now().into());
            workers.start(assignment, gate, &services);
        }
        group = later;
    }
}

/// Opens connections shortly before many attempts are due at the same time.
fn prewarm(group: &[Unreported], services: &Services) {
    let now = Instant::from(services.clock.now());
    for same_time in group.chunk_by(|one, next| next_at(one) == next_at(next)) {
        let ahead = same_time.first().map_or(Duration::ZERO, |first| next_at(first).since(now));
        if same_time.len() >= PREWARM_MIN && ahead >= PREWARM_AHEAD_MIN {
            let requests: Vec<_> =
                same_time.iter().filter_map(Unreported::assignment).map(request_for).collect();
            for ready in services.executor.prewarm(&requests, ahead) {
                drop(tokio::spawn(ready));
            }
        }
    }
}

fn next_at(assignment: &Unreported) -> Instant {
    assignment.assignment().map_or(Instant::MIN, |assignment| assignment.run.progress.next_at)
}

/// Reads gate states that are at most [`GATE_AGE_MAX`] old. The store may have read the states of an
/// older response before an edit that is acknowledged by now, so they are read again. `None` if a read
/// fails or all claims may have expired.
async fn fresh_gate_states(
    jobs: Vec<JobKey>,
    fences: &[SendFence],
    services: &Services,
) -> Option<Vec<Option<GateState>>> {
    loop {
        let asked = services.clock.uptime();
        let states = services.store.gate_states(jobs.clone()).await.ok()?;
        let answered = services.clock.uptime();
        if answered.saturating_sub(asked) <= GATE_AGE_MAX {
            return Some(states);
        }
        services.metrics.gate_response_late();
        if !fences.iter().any(SendFence::is_open) {
            return None;
        }
    }
}

/// Waits until the clock shows `at`; never returns early.
async fn wait_for(at: Instant, clock: &dyn Clock) {
    if let Some(until) = at.timestamp() {
        clock.sleep_until(until).await;
    }
}

/// Whether an attempt may start.
pub(crate) enum Gate {
    Open,
    Closed(AssignmentResult),
}

/// Checks the gate: after an edit was acknowledged, no attempt with the old definition starts, and none
/// starts under a claim that another node may have taken over. `state` is `None` if the read failed
/// and `Some(None)` if the job was deleted.
fn gate(assignment: Option<&Assignment>, state: Option<Option<GateState>>, now: Instant) -> Gate {
    let Some((assignment, state)) = assignment.zip(state) else {
        return Gate::Closed(AssignmentResult::NotStarted);
    };
    let Assignment { run, job_for_run, fence, .. } = assignment;
    let Some(state) = state.filter(|state| !run.is_superseded(state.schedule_generation)) else {
        return Gate::Closed(AssignmentResult::Superseded);
    };
    let job = &job_for_run.job.job;
    let passed = is_unattempted_occurrence(run, job)
        .then(|| state.off_times().passed(run.progress.next_at, now))
        .flatten();
    if is_held(run, &state, now) {
        Gate::Closed(AssignmentResult::Held)
    } else if state.generation != job.generation {
        Gate::Closed(AssignmentResult::Edited)
    } else if let Some(off) = passed {
        Gate::Closed(AssignmentResult::PassedWhileOff(off.reason))
    } else if run.progress.role == ActionRole::Error && job.definition.action.error_action.is_none()
    {
        Gate::Closed(AssignmentResult::ErrorActionRemoved)
    } else if now < run.progress.next_at || !fence.is_open() {
        // The clock was stepped back since the timer fired, or the lease may have expired.
        Gate::Closed(AssignmentResult::NotStarted)
    } else {
        Gate::Open
    }
}

/// Whether a run waits until its job and its collection are enabled and no pause holds it. A manual run
/// does not need its job to be enabled.
pub(crate) fn is_held(run: &OpenRun, state: &GateState, now: Instant) -> bool {
    let is_off = |switch| switch == Switch::Disabled;
    is_off(state.collection)
        || run.cause == Cause::Scheduled && is_off(state.switch)
        || state.is_paused(now)
}

/// Whether the run is an occurrence of a recurring job without an attempt.
fn is_unattempted_occurrence(run: &OpenRun, job: &Job) -> bool {
    run.cause == Cause::Scheduled
        && job.definition.recurrence.is_some()
        && run.progress.is_unattempted()
}

/// Executes an assignment if the gate is open, and reports its result.
pub(crate) async fn run_assignment(assignment: Unreported, gate: Gate, services: &Services) {
    let result = match gate {
        Gate::Open => match assignment.assignment() {
            Some(assignment) => attempt(assignment, services).await,
            None => AssignmentResult::NotStarted,
        },
        Gate::Closed(result) => result,
    };
    assignment.report(result);
}

/// The main action of a job or its error action.
pub(crate) fn action_for(job_for_run: &JobForRun, role: ActionRole) -> &Action {
    let main = &job_for_run.job.job.definition.action;
    match (role, &main.error_action) {
        (ActionRole::Error, Some(error)) => &error.action,
        _ => &main.action,
    }
}

/// The request for the action of an assignment.
fn request_for(assignment: &Assignment) -> AttemptRequest<'_> {
    let Assignment { run, job_for_run, timeout, .. } = assignment;
    let JobForRun { job, location, .. } = &**job_for_run;
    let role = run.progress.role;
    let action = action_for(job_for_run, role);
    AttemptRequest {
        path: &job.path,
        uid: job.job.uid.0,
        generation: run.generation,
        region: location.as_str(),
        action,
        role,
        scheduled: run.scheduled,
        cause: run.cause,
        retry: run.progress.retry,
        timeout: *timeout,
        signing: job.job.definition.extensions.signing.unwrap_or(Signing::Off),
    }
}

/// Executes the attempt. A panic is an attempt whose outcome is unknown.
async fn attempt(assignment: &Assignment, services: &Services) -> AssignmentResult {
    let (started, started_uptime) = (Instant::from(services.clock.now()), services.clock.uptime());
    let _in_flight = services.metrics.attempt_started(&assignment.run, started);
    let executed = async {
        services.executor.execute(request_for(assignment), assignment.fence.clone()).await
    };
    let report = AssertUnwindSafe(executed).catch_unwind().await.ok();
    let report = match report.transpose() {
        Ok(report) => report,
        Err(NotSent) => {
            services.metrics.attempt_not_sent();
            return AssignmentResult::NotStarted;
        }
    };
    let report = report.unwrap_or_else(|| {
        services.metrics.attempt_panicked();
        let (path, occurrence) = (&assignment.job_for_run.job.path, assignment.run.scheduled);
        let (collection, job) = (&path.collection.collection, &path.job);
        tracing::error!(%collection, %job, %occurrence, "attempt panicked");
        AttemptReport::new(Outcome::Indeterminate, PANICKED)
    });
    services
        .metrics
        .attempt_finished(report.outcome, services.clock.uptime().saturating_sub(started_uptime));
    AssignmentResult::Attempted { started, ended: services.clock.now().into(), report }
}

/// Whether an attempt counts as failed: only attempts of the main action do.
pub(crate) fn has_failed(role: ActionRole, report: &AttemptReport) -> bool {
    role == ActionRole::Main && report.outcome != Outcome::Succeeded
}
