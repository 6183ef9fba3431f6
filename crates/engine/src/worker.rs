//! Attempts, as a sequence of steps: wait for their instant, pass the gate, perform, hand back.
//!
//! What was claimed together departs together, so that one look at the store serves many.

use std::sync::Arc;
use std::time::Duration;

use kalends_actions::{ActionExecutor, AttemptReport, AttemptRequest};
use kalends_domain::{ActionRole, Outcome, Signing, Switch};
use kalends_environment::Clock;
use kalends_recurrence::Instant;
use kalends_store::Store;
use kalends_store::record::{Claim, GateState, JobForRun, OpenRun};
use tokio::sync::mpsc::Sender;

use crate::admission::Slot;
use crate::metrics::EngineMetrics;

/// What attempts are made with.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) executor: Arc<dyn ActionExecutor>,
    pub(crate) metrics: Arc<EngineMetrics>,
}

/// What a worker is handed.
pub(crate) struct Assignment {
    pub(crate) run: OpenRun,
    pub(crate) claim: Claim,
    /// Until when the claim surely holds, as time that has passed.
    pub(crate) holds_until: Duration,
    /// The job as it was when the run was claimed.
    pub(crate) job_for_run: Arc<JobForRun>,
    pub(crate) slot: Slot,
    pub(crate) timeout: Duration,
}

/// What a worker hands back.
pub(crate) struct FinishedAssignment {
    pub(crate) run: OpenRun,
    pub(crate) claim: Claim,
    pub(crate) job_for_run: Arc<JobForRun>,
    pub(crate) slot: Slot,
    pub(crate) how: AssignmentResult,
}

impl FinishedAssignment {
    /// Whether it is over, whatever has become of the job meanwhile.
    pub(crate) fn is_final(&self) -> bool {
        match &self.how {
            AssignmentResult::Attempted { report, .. } => report.outcome == Outcome::Succeeded,
            AssignmentResult::Superseded
            | AssignmentResult::NotStarted
            | AssignmentResult::CollectionDisabled => true,
        }
    }
}

/// AssignmentResult an assignment ended.
pub(crate) enum AssignmentResult {
    /// The attempt was made.
    Attempted { started: Instant, ended: Instant, report: AttemptReport },
    /// The job was edited or deleted before it was made.
    Superseded,
    /// It was not made, and can be made later.
    NotStarted,
    /// It was not made, and waits until its collection is enabled again.
    CollectionDisabled,
}

/// As many attempts at one instant have their connections made before it: one after the other, each
/// would wait for all others to be connected.
const TOGETHER_MIN: usize = 8;
/// Not worth it where there is less time than this.
const AHEAD_MIN: Duration = Duration::from_millis(1);

/// Makes attempts, each at its instant.
pub(crate) async fn run_assignments(
    group: Vec<Assignment>,
    services: Services,
    results: Sender<Box<FinishedAssignment>>,
) {
    let with_order = |assignment| {
        let order = order_for(&assignment);
        (assignment, order)
    };
    let mut group: Vec<_> = group.into_iter().map(with_order).collect();
    group.sort_by_key(|(assignment, _)| assignment.run.progress.next_at);
    prewarm(&group, &services);
    while let Some((first, _)) = group.first() {
        wait_for(first.run.progress.next_at, &*services.clock).await;
        let now = Instant::from(services.clock.now());
        let count = group.partition_point(|(assignment, _)| assignment.run.progress.next_at <= now);
        let later = group.split_off(count);
        let jobs = group.iter().map(|(assignment, _)| assignment.run.job).collect();
        // Where the store does not say, nothing is sent.
        let gate_states = services.store.gate_states(jobs).await.ok();
        let gate_states =
            gate_states.unwrap_or_default().into_iter().map(Some).chain([None].into_iter().cycle());
        for ((assignment, order), standing) in group.into_iter().zip(gate_states) {
            let (now, uptime) = (Instant::from(services.clock.now()), services.clock.uptime());
            let gate = gate(&assignment, standing, now, uptime);
            tokio::spawn(work(assignment, order, gate, services.clone(), results.clone()));
        }
        group = later;
    }
}

/// Has ready what many attempts at one instant need.
fn prewarm(group: &[(Assignment, AttemptRequest)], services: &Services) {
    let now = Instant::from(services.clock.now());
    let at = |(assignment, _): &(Assignment, AttemptRequest)| assignment.run.progress.next_at;
    for together in group.chunk_by(|one, next| at(one) == at(next)) {
        let ahead = together.first().map_or(Duration::ZERO, |first| at(first).since(now));
        if together.len() >= TOGETHER_MIN && ahead >= AHEAD_MIN {
            let orders: Vec<_> = together.iter().map(|(_, order)| order).collect();
            for ready in services.executor.prewarm(&orders, ahead) {
                drop(tokio::spawn(ready));
            }
        }
    }
}

/// Never early.
async fn wait_for(at: Instant, clock: &dyn Clock) {
    if let Some(until) = at.timestamp() {
        clock.sleep_until(until).await;
    }
}

/// Whether an attempt may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    Edited,
    /// The collection is switched off.
    CollectionDisabled,
    Closed,
}

/// After an edit was acknowledged no attempt of the old definition starts, and none starts under a
/// claim that somebody else may have taken over. `standing` is what the store says of the job, if it
/// says anything.
fn gate(
    assignment: &Assignment,
    standing: Option<Option<GateState>>,
    now: Instant,
    uptime: Duration,
) -> Gate {
    match standing {
        None => Gate::Closed,
        Some(Some(standing)) if standing.generation == assignment.run.generation => {
            match standing.collection {
                Switch::Disabled => Gate::CollectionDisabled,
                // The clock may have been set back on the way.
                Switch::Enabled if now < assignment.run.progress.next_at => Gate::Closed,
                Switch::Enabled if uptime < assignment.holds_until => Gate::Open,
                // Whoever was held up for so long may not be the only one any more.
                Switch::Enabled => Gate::Closed,
            }
        }
        Some(_) => Gate::Edited,
    }
}

async fn work(
    assignment: Assignment,
    order: AttemptRequest,
    gate: Gate,
    services: Services,
    results: Sender<Box<FinishedAssignment>>,
) {
    let how = match gate {
        Gate::Open => attempt(&assignment.run, order, &services).await,
        Gate::Edited => AssignmentResult::Superseded,
        Gate::CollectionDisabled => AssignmentResult::CollectionDisabled,
        Gate::Closed => AssignmentResult::NotStarted,
    };
    let Assignment { run, claim, job_for_run, slot, .. } = assignment;
    // Where nobody listens any more the process is ending, and the claim will expire.
    let ended = Box::new(FinishedAssignment { run, claim, job_for_run, slot, how });
    drop(results.send(ended).await);
}

/// What is to be done.
fn order_for(assignment: &Assignment) -> AttemptRequest {
    let Assignment { run, job_for_run, timeout, .. } = assignment;
    let JobForRun { job, location, .. } = &**job_for_run;
    let main = &job.job.definition.action;
    let role = run.progress.role;
    let action = match (role, &main.error_action) {
        (ActionRole::Error, Some(error)) => &error.action,
        _ => &main.action,
    };
    AttemptRequest {
        path: job.path.clone(),
        uid: job.job.uid.0,
        generation: run.generation,
        region: location.as_str().to_owned(),
        action: action.clone(),
        role,
        scheduled: run.scheduled,
        cause: run.cause,
        retry: run.progress.retry,
        timeout: *timeout,
        signing: job.job.definition.extensions.signing.unwrap_or(Signing::Off),
    }
}

async fn attempt(run: &OpenRun, order: AttemptRequest, services: &Services) -> AssignmentResult {
    let (started, begin) = (Instant::from(services.clock.now()), services.clock.uptime());
    let _held = services.metrics.begun(run, started);
    let report = services.executor.execute(order).await;
    services.metrics.ended(report.outcome, services.clock.uptime().saturating_sub(begin));
    AssignmentResult::Attempted { started, ended: services.clock.now().into(), report }
}

/// Whether an attempt of the main action failed, for its counters.
pub(crate) fn has_failed(role: ActionRole, report: &AttemptReport) -> bool {
    role == ActionRole::Main && report.outcome != Outcome::Succeeded
}
