//! Rehearsal: runs jobs on a virtual clock with simulated targets and reports each attempt.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kalends_actions::{ActionExecutor, AttemptFuture, AttemptReport, AttemptRequest, SendFence};
use kalends_domain::{
    ActionRole, Collection, CollectionName, CollectionPath, CollectionState, EditKind, GroupName,
    GroupPath, JobDefinition, JobName, JobPath, Location, NameError, Outcome, Plan, SubscriptionId,
    Switch, closed_by_edit, rule_of, schedule_state_of_new,
};
use kalends_engine::EngineSettings;
use kalends_recurrence::{Instant, Settings};
use kalends_store::memory::MemoryStore;
use kalends_store::record::{Disposition, JobUid, LedgerRecord, NodeId};
use kalends_store::{
    ApiStore, CollectionContext, CollectionWrite, JobContext, Retention, RunWrite, RunWriteResult,
    StoreError,
};

use crate::job_edit::JobEdit;
use crate::link::{Link, Observer};
use crate::node::Node;
use crate::recorder::{Recorder, Tracing};
use crate::time::{VirtualClock, VirtualTime};

/// Long, because a rehearsal has no edits and no other nodes that a load must notice.
const LOOKAHEAD: Duration = Duration::from_secs(6 * 3_600);

/// Jobs and conditions of a rehearsal.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    /// Start of the rehearsal; all jobs are created at this time.
    pub from: Instant,
    /// End of the rehearsal, included.
    pub to: Instant,
    /// Names and definitions of the jobs.
    pub jobs: Vec<(JobName, JobDefinition)>,
    /// Jobs whose main action always fails.
    pub failing: Vec<JobName>,
    /// Duration of every attempt.
    pub attempt_duration: Duration,
    /// Period in which the service is down, if any.
    pub down: Option<(Instant, Instant)>,
}

/// An attempt, or occurrences that do not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RehearsalEvent {
    /// Time of the event.
    pub at: Instant,
    /// Name of the job.
    pub job: String,
    /// Scheduled time of the occurrence, or of the first one.
    pub scheduled: Instant,
    /// The event itself.
    pub kind: RehearsalEventKind,
}

/// Kind of a rehearsal event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RehearsalEventKind {
    /// An attempt of the main action or of the error action.
    Attempt {
        /// Main or error action.
        role: ActionRole,
        /// 0 for the first attempt, n for the n-th retry.
        retry: u32,
        /// Outcome of the attempt.
        outcome: AttemptOutcome,
    },
    /// Occurrences skipped because an earlier one is still running or retrying.
    Skipped {
        /// Scheduled time of the last one.
        to: Instant,
        /// Number of occurrences.
        count: u64,
    },
    /// Occurrences skipped because the job is disabled.
    Disabled {
        /// Scheduled time of the last one.
        to: Instant,
        /// Number of occurrences.
        count: u64,
    },
    /// Occurrences missed while the service was down.
    Missed {
        /// Scheduled time of the last one.
        to: Instant,
        /// Number of occurrences.
        count: u64,
    },
}

/// Outcome of a rehearsed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The target accepts the request.
    Succeeded,
    /// The target rejects the request.
    Failed,
}

/// Why a rehearsal cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// The service would reject a job.
    #[error("{job}: {message}")]
    InvalidJob {
        /// Name of the job.
        job: String,
        /// Reason for the rejection.
        message: String,
    },
    /// The runtime could not be started.
    #[error(transparent)]
    Runtime(#[from] io::Error),
}

impl Rehearsal {
    /// Runs the rehearsal and passes every event to `on_event`, in request of time.
    pub fn run(&self, on_event: &mut dyn FnMut(RehearsalEvent)) -> Result<(), RehearsalError> {
        let time = VirtualTime::new(self.from);
        let clock = Arc::new(VirtualClock::new(&time));
        let store = Arc::new(MemoryStore::new(clock.clone()));
        self.create_jobs(&store).map_err(|(job, error)| RehearsalError::InvalidJob {
            job,
            message: error.to_string(),
        })?;
        let targets = Arc::new(RehearsalTargets {
            clock: clock.clone(),
            names: self.jobs.iter().map(|(name, _)| name.to_string()).collect(),
            failing: self.failing.iter().map(ToString::to_string).collect(),
            attempt_duration: self.attempt_duration,
            events: Mutex::default(),
        });
        let recording = Arc::clone(&targets);
        let observer: Observer =
            Box::new(move |writes, results| recording.record_closed(writes, results));
        let recorder = Recorder::new(&time, &clock, Tracing::Off);
        let link = Link::observed(store, &time, &recorder, &clock, observer);
        let nodes = AtomicU64::new(0);
        let start = || {
            let id = NodeId(nodes.fetch_add(1, Ordering::Relaxed) + 1);
            let node = Node::start(link.clone(), clock.clone(), targets.clone(), id, settings());
            node.map_err(RehearsalError::Runtime)
        };
        let mut node = Some(start()?);
        let (down, up) = self.down.unwrap_or((Instant::MAX, Instant::MAX));
        let end = self.to.ticks();
        loop {
            node.iter().for_each(Node::run_until_idle);
            targets.events().drain(..).for_each(&mut *on_event);
            let changes = [down, up].map(Instant::ticks).into_iter().filter(|&at| at > time.now());
            let next = changes.chain(time.next()).min();
            let Some(next) = next.filter(|&next| next <= end) else { break };
            time.advance_to(next);
            if next == down.ticks() {
                node = None;
            }
            if next == up.ticks() && node.is_none() {
                node = Some(start()?);
            }
        }
        self.jobs.iter().filter_map(|job| self.disabled_occurrences(job)).for_each(on_event);
        Ok(())
    }

    /// Occurrences that a disabled job skips.
    fn disabled_occurrences(
        &self,
        (name, job): &(JobName, JobDefinition),
    ) -> Option<RehearsalEvent> {
        let enabled = JobDefinition { switch: Switch::Enabled, ..job.clone() };
        let rule = rule_of(job, self.from, &Settings::default()).ok()?;
        let due =
            schedule_state_of_new(job, &rule).due.filter(|_| job.switch == Switch::Disabled)?;
        let closed = closed_by_edit(job, &enabled, &rule, due, self.to, Switch::Enabled, false)?;
        let kind = RehearsalEventKind::Disabled { to: closed.to, count: closed.count };
        Some(RehearsalEvent { at: self.to, job: name.to_string(), scheduled: closed.from, kind })
    }

    fn create_jobs(&self, store: &MemoryStore) -> Result<(), (String, StoreError)> {
        let broken = |error: NameError| (String::new(), StoreError::Failed(error.to_string()));
        let path = path().map_err(broken)?;
        let location = Location::new("West US");
        let location = location.unwrap_or_else(|_| Location::restore("West US".into()));
        let collection = Collection {
            location,
            tags: None,
            plan: Plan::P20Premium,
            state: CollectionState::Enabled,
            quota: None,
        };
        let decide = move |_: CollectionContext<'_>| Ok(CollectionWrite::Put(collection.clone()));
        let made = ready(store.edit_collection(path.clone(), Box::new(decide)));
        made.map_err(|error| (String::new(), error))?;
        for (number, (name, definition)) in self.jobs.iter().enumerate() {
            let mut uid = [0; 16];
            let bytes = (number as u64).to_le_bytes();
            uid.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
            let edit = JobEdit {
                definition: definition.clone(),
                kind: EditKind::Replace,
                uid: JobUid(uid),
            };
            let decide = move |context: JobContext<'_>| edit.decide(&Settings::default(), &context);
            let path = JobPath { collection: path.clone(), job: name.clone() };
            let made = ready(store.edit_job(path, Box::new(decide)));
            made.map_err(|error| (name.to_string(), error))?;
        }
        Ok(())
    }
}

/// Polls a reply of the in-memory store, which is always ready.
fn ready<T>(reply: kalends_store::Reply<'_, T>) -> Result<T, StoreError> {
    let mut reply = reply;
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match reply.as_mut().poll(&mut context) {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => Err(StoreError::Failed("the store is not ready".into())),
    }
}

fn path() -> Result<CollectionPath, NameError> {
    let subscription = SubscriptionId::new("00000000-0000-0000-0000-000000000000")?;
    let group = GroupPath { subscription, group: GroupName::new("rehearsal")? };
    Ok(CollectionPath { group, collection: CollectionName::new("rehearsal")? })
}

fn settings() -> EngineSettings {
    EngineSettings {
        lookahead: LOOKAHEAD,
        // Reported events are not needed any more.
        retention: Retention {
            history_age: Duration::from_secs(3_600),
            history_count: 10,
            finished_jobs: Duration::from_secs(100 * 366 * 86_400),
        },
        // The in-memory store has no disk to sync: follow-up attempts start at their exact time.
        commit_interval: Duration::ZERO,
        ..EngineSettings::default()
    }
}

/// Simulated targets. Collects the events of the rehearsal.
struct RehearsalTargets {
    clock: Arc<VirtualClock>,
    names: Vec<String>,
    failing: Vec<String>,
    attempt_duration: Duration,
    events: Mutex<Vec<RehearsalEvent>>,
}

impl RehearsalTargets {
    fn events(&self) -> MutexGuard<'_, Vec<RehearsalEvent>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self) -> Instant {
        Instant::from_ticks(self.clock.reading()).unwrap_or(Instant::MAX)
    }

    /// Records occurrences that the engine closed without a run.
    fn record_closed(&self, writes: &[RunWrite], results: &[RunWriteResult]) {
        for (write, result) in writes.iter().zip(results) {
            let (RunWrite::Begin { on, closed, .. } | RunWrite::Skip { on, closed, .. }) = write
            else {
                continue;
            };
            if *result != RunWriteResult::Stale {
                let number = usize::try_from(on.job.0 - 1).unwrap_or_default();
                let name = self.names.get(number).cloned().unwrap_or_default();
                closed.iter().for_each(|row| self.record_ledger_row(&name, row));
            }
        }
    }

    fn record_ledger_row(&self, job: &str, row: &LedgerRecord) {
        let (to, count) = (row.to, row.count);
        let kind = match row.disposition {
            Disposition::SkippedOverlap => RehearsalEventKind::Skipped { to, count },
            _ => RehearsalEventKind::Missed { to, count },
        };
        let (at, scheduled) = (self.at(), row.from);
        // Decisions are made slightly ahead of the scheduled time.
        let at = at.max(scheduled);
        self.events().push(RehearsalEvent { at, job: job.to_owned(), scheduled, kind });
    }
}

impl ActionExecutor for RehearsalTargets {
    fn execute<'a>(&'a self, request: AttemptRequest<'a>, _: SendFence) -> AttemptFuture<'a> {
        Box::pin(async move {
            let job = request.path.job.to_string();
            let fails = self.failing.contains(&job) && request.role == ActionRole::Main;
            let outcome = if fails { AttemptOutcome::Failed } else { AttemptOutcome::Succeeded };
            let AttemptRequest { role, retry, scheduled, .. } = request;
            let kind = RehearsalEventKind::Attempt { role, retry, outcome };
            self.events().push(RehearsalEvent { at: self.at(), job, scheduled, kind });
            if !self.attempt_duration.is_zero() {
                self.clock.elapse(self.attempt_duration.min(request.timeout)).await;
            }
            let outcome = match fails || self.attempt_duration > request.timeout {
                true => Outcome::Failed { retry_after: None },
                false => Outcome::Succeeded,
            };
            Ok(AttemptReport::new(outcome, ""))
        })
    }
}
