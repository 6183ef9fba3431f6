//! One attempt, as a sequence of steps: wait for its instant, pass the gate, perform, hand back.

use std::sync::Arc;
use std::time::Duration;

use kalends_actions::{Order, Perform, Report};
use kalends_domain::{ActionRole, CollectionState, Outcome};
use kalends_environment::Clock;
use kalends_recurrence::Instant;
use kalends_store::Store;
use kalends_store::record::{Claim, CollectionRecord, JobRecord, OpenRun};
use tokio::sync::mpsc::Sender;

/// What a worker is handed.
pub(crate) struct Assignment {
    pub(crate) run: OpenRun,
    pub(crate) claim: Claim,
    /// The job as it was when the run was claimed.
    pub(crate) job: Arc<JobRecord>,
    pub(crate) timeout: Duration,
}

/// What a worker hands back.
pub(crate) struct Ended {
    pub(crate) run: OpenRun,
    pub(crate) claim: Claim,
    pub(crate) job: Arc<JobRecord>,
    pub(crate) how: How,
}

/// How an assignment ended.
pub(crate) enum How {
    /// The attempt was made.
    Attempted { started: Instant, ended: Instant, report: Report },
    /// The job was edited or deleted before it was made.
    Superseded,
    /// It was not made, and can be made later.
    NotMade,
    /// It was not made, and waits until its collection is enabled again.
    Held,
}

/// Makes one attempt.
pub(crate) async fn work(
    assignment: Assignment,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    performer: Arc<dyn Perform>,
    results: Sender<Ended>,
) {
    let Assignment { run, claim, job, timeout } = assignment;
    let gate = loop {
        wait_for(run.progress.next_at, &*clock).await;
        let gate = gate(&run, &job, &*store).await;
        // The clock may have been set back on the way.
        if Instant::from(clock.now()) >= run.progress.next_at {
            break gate;
        }
    };
    let how = match gate {
        // Whoever was held up for so long may not be the only one any more.
        Gate::Open { .. } if is_over(&claim, &*clock) => How::NotMade,
        Gate::Open { region } => attempt(&run, &job, &region, timeout, &*clock, &*performer).await,
        Gate::Edited => How::Superseded,
        Gate::Held => How::Held,
        Gate::Unknown => How::NotMade,
    };
    // Where nobody listens any more the process is ending, and the claim will expire.
    drop(results.send(Ended { run, claim, job, how }).await);
}

/// Never early.
async fn wait_for(at: Instant, clock: &dyn Clock) {
    if let Some(until) = at.timestamp() {
        clock.wait_until(until).await;
    }
}

enum Gate {
    /// Where the collection is said to be goes with the request.
    Open {
        region: String,
    },
    Edited,
    /// The collection is switched off.
    Held,
    Unknown,
}

/// After an edit was acknowledged no attempt of the old definition starts. The job is read last:
/// whatever is read on the way is as old as the way is long.
async fn gate(run: &OpenRun, job: &JobRecord, store: &dyn Store) -> Gate {
    let region = match store.collection(job.path.collection.clone()).await {
        Ok(Some(CollectionRecord { collection, .. })) => match collection.state {
            CollectionState::Enabled => collection.location.as_str().to_owned(),
            CollectionState::Disabled | CollectionState::Suspended => return Gate::Held,
        },
        Ok(None) => return Gate::Edited,
        Err(_) => return Gate::Unknown,
    };
    match store.job_by_key(run.job).await {
        Ok(Some(job)) if job.job.generation == run.generation => Gate::Open { region },
        Ok(_) => Gate::Edited,
        Err(_) => Gate::Unknown,
    }
}

/// Whether a claim no longer keeps others away, by the clock that they would ask.
fn is_over(claim: &Claim, clock: &dyn Clock) -> bool {
    Instant::from(clock.now()) >= claim.lease_until
}

async fn attempt(
    run: &OpenRun,
    job: &JobRecord,
    region: &str,
    timeout: Duration,
    clock: &dyn Clock,
    performer: &dyn Perform,
) -> How {
    let main = &job.job.definition.action;
    let role = run.progress.role;
    let action = match (role, &main.error_action) {
        (ActionRole::Error, Some(error)) => &error.action,
        _ => &main.action,
    };
    let order = Order {
        path: job.path.clone(),
        uid: job.job.uid.0,
        generation: run.generation,
        region: region.to_owned(),
        action: action.clone(),
        role,
        scheduled: run.scheduled,
        retry: run.progress.retry,
        timeout,
    };
    let started = Instant::from(clock.now());
    let report = performer.perform(order).await;
    How::Attempted { started, ended: clock.now().into(), report }
}

/// Whether an attempt of the main action failed, for its counters.
pub(crate) fn has_failed(role: ActionRole, report: &Report) -> bool {
    role == ActionRole::Main && report.outcome != Outcome::Succeeded
}
