//! What jobs would do between two instants: the engine on a virtual clock, with targets that only
//! say yes or no.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kalends_actions::{ActionExecutor, AttemptFuture, AttemptReport, AttemptRequest};
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
    CollectionContext, CollectionWrite, JobContext, Retention, RunWrite, RunWriteResult, Store,
    StoreError,
};

use crate::edits::Edit;
use crate::link::{Link, Observer};
use crate::log::{Log, Tracing};
use crate::node::Node;
use crate::time::{VirtualClock, VirtualTime};

/// Nothing but the passing of time can surprise a rehearsal, so it is looked far ahead.
const LOOKS_AHEAD: Duration = Duration::from_secs(6 * 3_600);

/// What is to be rehearsed.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    /// When all jobs are made, and the service starts.
    pub from: Instant,
    /// Where it ends.
    pub to: Instant,
    /// The jobs.
    pub jobs: Vec<(JobName, JobDefinition)>,
    /// Jobs whose targets always fail.
    pub failing: Vec<JobName>,
    /// How long every attempt takes.
    pub takes: Duration,
    /// When the service is down.
    pub down: Option<(Instant, Instant)>,
}

/// Something that would happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    /// When.
    pub at: Instant,
    /// To which job.
    pub job: String,
    /// The occurrence it is about, or the first of them.
    pub scheduled: Instant,
    /// What.
    pub what: What,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An attempt of the action, or of the error action; 0 for the first, n for the n-th retry.
    Attempt {
        /// Of which action.
        role: ActionRole,
        /// The how manieth retry.
        retry: u32,
        /// Whether it succeeds.
        succeeds: Succeeds,
    },
    /// Occurrences that do not run because one before still runs or retries.
    Skipped {
        /// The last of them.
        to: Instant,
        /// How many.
        count: u64,
    },
    /// Occurrences that do not run because the job is disabled.
    Disabled {
        /// The last of them.
        to: Instant,
        /// How many.
        count: u64,
    },
    /// Occurrences that came due while the service was down, and do not run.
    Missed {
        /// The last of them.
        to: Instant,
        /// How many.
        count: u64,
    },
}

/// Whether an attempt succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Succeeds {
    Yes,
    No,
}

/// Why a rehearsal cannot be held.
#[derive(Debug)]
pub enum NoRehearsal {
    /// A job that the service would refuse.
    Refused {
        /// Which.
        job: String,
        /// Why.
        message: String,
    },
    /// The system gives no runtime.
    System(io::Error),
}

impl std::fmt::Display for NoRehearsal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoRehearsal::Refused { job, message } => write!(f, "{job}: {message}"),
            NoRehearsal::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NoRehearsal {}

impl Rehearsal {
    /// Tells everything that would happen, in its order.
    pub fn hold(&self, tell: &mut dyn FnMut(Happening)) -> Result<(), NoRehearsal> {
        let time = VirtualTime::new(self.from);
        let clock = Arc::new(VirtualClock::new(&time));
        let kept = Arc::new(MemoryStore::new(clock.clone()));
        self.make_jobs(&kept)
            .map_err(|(job, error)| NoRehearsal::Refused { job, message: error.to_string() })?;
        let stage = Arc::new(Stage {
            clock: clock.clone(),
            names: self.jobs.iter().map(|(name, _)| name.to_string()).collect(),
            failing: self.failing.iter().map(ToString::to_string).collect(),
            takes: self.takes,
            seen: Mutex::default(),
        });
        let watching = Arc::clone(&stage);
        let observer: Observer = Box::new(move |writes, answers| watching.watch(writes, answers));
        let log = Log::new(&time, Tracing::Off);
        let link = Link::observed(kept, &time, &log, &clock, observer);
        let nodes = AtomicU64::new(0);
        let start = || {
            let id = NodeId(nodes.fetch_add(1, Ordering::Relaxed) + 1);
            let node = Node::start(link.clone(), clock.clone(), stage.clone(), id, settings());
            node.map_err(NoRehearsal::System)
        };
        let mut node = Some(start()?);
        let (down, up) = self.down.unwrap_or((Instant::MAX, Instant::MAX));
        let end = self.to.ticks();
        loop {
            node.iter().for_each(Node::run_until_idle);
            stage.seen().drain(..).for_each(&mut *tell);
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
        self.jobs.iter().filter_map(|job| self.passed_off(job)).for_each(tell);
        Ok(())
    }

    /// What passes of a job that is disabled.
    fn passed_off(&self, (name, job): &(JobName, JobDefinition)) -> Option<Happening> {
        let enabled = JobDefinition { switch: Switch::Enabled, ..job.clone() };
        let rule = rule_of(job, self.from, &Settings::default()).ok()?;
        let due =
            schedule_state_of_new(job, &rule).due.filter(|_| job.switch == Switch::Disabled)?;
        let closed = closed_by_edit(job, &enabled, &rule, due, self.to, Switch::Enabled)?;
        let what = What::Disabled { to: closed.to, count: closed.count };
        Some(Happening { at: self.to, job: name.to_string(), scheduled: closed.from, what })
    }

    fn make_jobs(&self, store: &MemoryStore) -> Result<(), (String, StoreError)> {
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
        let made = now(store.edit_collection(path.clone(), Box::new(decide)));
        made.map_err(|error| (String::new(), error))?;
        for (number, (name, definition)) in self.jobs.iter().enumerate() {
            let mut uid = [0; 16];
            let bytes = (number as u64).to_le_bytes();
            uid.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
            let edit = Edit {
                definition: definition.clone(),
                kind: EditKind::Replace,
                now: self.from,
                uid: JobUid(uid),
            };
            let decide = move |context: JobContext<'_>| edit.decide(&Settings::default(), &context);
            let path = JobPath { collection: path.clone(), job: name.clone() };
            let made = now(store.edit_job(path, Box::new(decide)));
            made.map_err(|error| (name.to_string(), error))?;
        }
        Ok(())
    }
}

/// The answer of a store that answers at once.
fn now<T>(reply: kalends_store::Reply<'_, T>) -> Result<T, StoreError> {
    let mut reply = reply;
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match reply.as_mut().poll(&mut context) {
        std::task::Poll::Ready(answer) => answer,
        std::task::Poll::Pending => Err(StoreError::Failed("the store did not answer".into())),
    }
}

fn path() -> Result<CollectionPath, NameError> {
    let subscription = SubscriptionId::new("00000000-0000-0000-0000-000000000000")?;
    let group = GroupPath { subscription, group: GroupName::new("rehearsal")? };
    Ok(CollectionPath { group, collection: CollectionName::new("rehearsal")? })
}

fn settings() -> EngineSettings {
    EngineSettings {
        lookahead: LOOKS_AHEAD,
        // What has been told need not be kept.
        retention: Retention {
            history_age: Duration::from_secs(3_600),
            history_count: 10,
            finished_jobs: Duration::from_secs(100 * 366 * 86_400),
        },
        // Nothing is synced here: what follows from a failure is told at its instant.
        commit_interval: Duration::ZERO,
        ..EngineSettings::default()
    }
}

/// Targets that say yes or no, and what was seen of a rehearsal.
struct Stage {
    clock: Arc<VirtualClock>,
    names: Vec<String>,
    failing: Vec<String>,
    takes: Duration,
    seen: Mutex<Vec<Happening>>,
}

impl Stage {
    fn seen(&self) -> MutexGuard<'_, Vec<Happening>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self) -> Instant {
        Instant::from_ticks(self.clock.shows()).unwrap_or(Instant::MAX)
    }

    /// What the engine closed without a run.
    fn watch(&self, writes: &[RunWrite], answers: &[RunWriteResult]) {
        for (write, answer) in writes.iter().zip(answers) {
            let (RunWrite::Begin { on, closed, .. } | RunWrite::Skip { on, closed, .. }) = write
            else {
                continue;
            };
            if *answer != RunWriteResult::Stale {
                let number = usize::try_from(on.job.0 - 1).unwrap_or_default();
                let name = self.names.get(number).cloned().unwrap_or_default();
                closed.iter().for_each(|row| self.watch_row(&name, row));
            }
        }
    }

    fn watch_row(&self, job: &str, row: &LedgerRecord) {
        let (to, count) = (row.to, row.count);
        let what = match row.disposition {
            Disposition::SkippedOverlap => What::Skipped { to, count },
            _ => What::Missed { to, count },
        };
        let (at, scheduled) = (self.at(), row.from);
        // What is decided a little ahead happens at its instant.
        let at = at.max(scheduled);
        self.seen().push(Happening { at, job: job.to_owned(), scheduled, what });
    }
}

impl ActionExecutor for Stage {
    fn execute(&self, order: AttemptRequest) -> AttemptFuture<'_> {
        Box::pin(async move {
            let job = order.path.job.to_string();
            let fails = self.failing.contains(&job) && order.role == ActionRole::Main;
            let succeeds = if fails { Succeeds::No } else { Succeeds::Yes };
            let AttemptRequest { role, retry, scheduled, .. } = order;
            let what = What::Attempt { role, retry, succeeds };
            self.seen().push(Happening { at: self.at(), job, scheduled, what });
            if !self.takes.is_zero() {
                self.clock.lets_pass(self.takes.min(order.timeout)).await;
            }
            let outcome = match fails || self.takes > order.timeout {
                true => Outcome::Failed { retry_after: None },
                false => Outcome::Succeeded,
            };
            AttemptReport::new(outcome, "")
        })
    }
}
