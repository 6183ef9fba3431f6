//! Test fixture: an engine, the in-memory store, a manual clock and a scripted target.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kalends_actions::{
    ActionExecutor, AttemptFuture, AttemptReport, AttemptRequest, NotSent, PrewarmFuture, SendFence,
};
use kalends_domain::{
    Action, ActionRole, Collection, CollectionName, CollectionPath, CollectionState, EditKind,
    ErrorAction, Extensions, GroupName, GroupPath, HistoryEntry, HttpRequest, JobDefinition,
    JobName, JobPath, Limits, Location, MainAction, Method, Outcome, Plan, ScheduleEdit,
    ScheduleState, SubscriptionId, Switch, Target, Uri, changes_schedule, closed_by_edit, rule_of,
    schedule_state_after_edit, schedule_state_of_new,
};
use kalends_engine::{Engine, EngineSettings};
use kalends_environment::{Clock, ManualClock};
use kalends_recurrence::{Instant, Recurrence, Settings};
use kalends_store::memory::MemoryStore;
use kalends_store::record::{JobFacts, JobRecord, JobState, JobUid, LedgerRecord, NodeId};
use kalends_store::{
    ApiStore, CollectionContext, CollectionWrite, EngineStore, JobContext, JobPut, JobWrite, Page,
    WaitingRuns,
};
use tokio::sync::Notify;

use crate::faulty_store::FaultyStore;

pub(crate) const START: &str = "2026-01-01T00:00:00Z";

/// A request that the target received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) job: String,
    pub(crate) scheduled: String,
    pub(crate) at: String,
    pub(crate) role: ActionRole,
    pub(crate) retry: u32,
    pub(crate) uri: String,
    /// Generation of the run, for the idempotency key.
    pub(crate) generation: u64,
}

/// A target with scripted responses; it succeeds when the script is empty.
pub(crate) struct Script {
    clock: Arc<ManualClock>,
    calls: Mutex<Vec<Call>>,
    responses: Mutex<VecDeque<Response>>,
    /// Prewarm calls: number of attempts and time ahead.
    pub(crate) prewarmed: Mutex<Vec<(usize, Duration)>>,
    /// Whether opening connections ahead panics.
    pub(crate) prewarm_panics: AtomicBool,
    called: Notify,
    open: Notify,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Response {
    Succeed,
    Fail,
    /// Panics instead of responding.
    Panic,
    /// Succeeds after [`World::open_target`].
    Hang,
    /// The connection is open after [`World::open_target`]; only then the request is sent.
    ConnectSlowly,
    /// Fails after [`World::open_target`].
    HangThenFail,
}

impl ActionExecutor for Script {
    fn execute<'a>(&'a self, request: AttemptRequest<'a>, fence: SendFence) -> AttemptFuture<'a> {
        Box::pin(async move {
            let response = self.responses.lock().unwrap().pop_front();
            if response == Some(Response::ConnectSlowly) {
                self.open.notified().await;
            }
            if !fence.is_open() {
                return Err(NotSent);
            }
            let call = Call {
                job: request.path.job.to_string(),
                scheduled: request.scheduled.to_string(),
                at: Instant::from(self.clock.now()).to_string(),
                role: request.role,
                retry: request.retry,
                uri: match &request.action.target {
                    Target::Http(http) => http.uri.as_str().to_owned(),
                    other => panic!("{other:?}"),
                },
                generation: request.generation,
            };
            self.calls.lock().unwrap().push(call);
            self.called.notify_waiters();
            let outcome = match response {
                None | Some(Response::Succeed | Response::ConnectSlowly) => Outcome::Succeeded,
                Some(Response::Fail) => Outcome::Failed { retry_after: None },
                Some(Response::Panic) => panic!("planned"),
                Some(Response::Hang) => {
                    self.open.notified().await;
                    Outcome::Succeeded
                }
                Some(Response::HangThenFail) => {
                    self.open.notified().await;
                    Outcome::Failed { retry_after: None }
                }
            };
            Ok(AttemptReport::new(outcome, "scripted"))
        })
    }

    fn prewarm(&self, requests: &[AttemptRequest<'_>], ahead: Duration) -> Vec<PrewarmFuture> {
        self.prewarmed.lock().unwrap().push((requests.len(), ahead));
        assert!(!self.prewarm_panics.load(Ordering::Relaxed), "planned");
        Vec::new()
    }
}

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) script: Arc<Script>,
    engine: Option<Engine>,
    /// Further nodes on the same store.
    other_engines: Vec<Engine>,
    /// Number of engines started; each is a node of its own.
    engines: u64,
}

impl World {
    pub(crate) async fn new() -> World {
        let clock = Arc::new(ManualClock::new(START.parse().unwrap()));
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let script = Arc::new(Script {
            clock: clock.clone(),
            calls: Mutex::default(),
            responses: Mutex::default(),
            prewarmed: Mutex::default(),
            prewarm_panics: AtomicBool::default(),
            called: Notify::new(),
            open: Notify::new(),
        });
        let world =
            World { clock, store, script, engine: None, other_engines: Vec::new(), engines: 0 };
        world.switch_collection(CollectionState::Enabled).await;
        world
    }

    pub(crate) fn start_engine(&mut self) {
        self.start_engine_with(EngineSettings::default());
    }

    pub(crate) fn start_engine_with(&mut self, settings: EngineSettings) {
        // With commit pacing, a manual clock would never reach the next commit.
        let settings = EngineSettings { commit_interval: Duration::ZERO, ..settings };
        self.start_engine_on(self.store.clone(), settings);
    }

    /// Starts an engine on a store whose calls can be made to fail.
    pub(crate) fn start_engine_on_faulty_store(&mut self) -> Arc<FaultyStore> {
        let store = FaultyStore::new(self.store.clone(), self.clock.clone());
        let commit_interval = Duration::ZERO;
        let settings = EngineSettings { commit_interval, ..EngineSettings::default() };
        self.start_engine_on(store.clone(), settings);
        store
    }

    /// Starts an engine on a wrapped store, with exactly these settings.
    pub(crate) fn start_engine_on(
        &mut self,
        store: Arc<dyn EngineStore>,
        settings: EngineSettings,
    ) {
        self.engines += 1;
        let (clock, script) = (self.clock.clone(), self.script.clone());
        self.engine = Some(Engine::start(store, clock, script, NodeId(self.engines), settings));
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    /// Starts a further node.
    pub(crate) fn start_another_engine(&mut self) {
        self.engines += 1;
        let (store, clock, script) = (self.store.clone(), self.clock.clone(), self.script.clone());
        let commit_interval = Duration::ZERO;
        let settings = EngineSettings { commit_interval, ..EngineSettings::default() };
        let engine = Engine::start(store, clock, script, NodeId(self.engines), settings);
        self.other_engines.push(engine);
    }

    /// Simulates a crash of all further nodes.
    pub(crate) fn kill_other_engines(&mut self) {
        self.other_engines.clear();
    }

    pub(crate) async fn stop_engine(&mut self) {
        self.engine.take().unwrap().stop().await;
    }

    /// Starts a graceful shutdown; the task ends with it.
    pub(crate) fn begin_stop(&mut self) -> tokio::task::JoinHandle<()> {
        tokio::spawn(self.engine.take().unwrap().stop())
    }

    pub(crate) async fn switch_collection(&self, state: CollectionState) {
        let decide = move |_: CollectionContext<'_>| Ok(CollectionWrite::Put(collection(state)));
        self.store.edit_collection(collection_path(), Box::new(decide)).await.unwrap();
        self.nudge();
    }

    /// Simulates a crash of the process.
    pub(crate) fn kill_engine(&mut self) {
        drop(self.engine.take());
    }

    /// Creates or replaces a job.
    pub(crate) async fn put(&self, name: &str, definition: JobDefinition) -> JobRecord {
        let record = self.put_without_nudge(name, definition).await;
        self.nudge();
        record
    }

    /// Creates or replaces a job as another node would: this engine is not told.
    pub(crate) async fn put_without_nudge(
        &self,
        name: &str,
        definition: JobDefinition,
    ) -> JobRecord {
        self.define(job_path(name), definition, EditKind::Replace).await
    }

    /// Creates a job in another collection, which is created if it does not exist.
    pub(crate) async fn put_in(
        &self,
        collection_name: &str,
        name: &str,
        definition: JobDefinition,
    ) {
        let path = CollectionPath {
            collection: CollectionName::new(collection_name).unwrap(),
            ..collection_path()
        };
        let enabled = || Ok(CollectionWrite::Put(collection(CollectionState::Enabled)));
        let decide = move |_: CollectionContext<'_>| enabled();
        self.store.edit_collection(path.clone(), Box::new(decide)).await.unwrap();
        let job = JobName::new(name).unwrap();
        self.define(JobPath { collection: path, job }, definition, EditKind::Replace).await;
        self.nudge();
    }

    /// Changes a job.
    pub(crate) async fn patch(&self, name: &str, change: impl FnOnce(&mut JobDefinition)) {
        let mut definition = self.job(name).await.job.definition;
        change(&mut definition);
        self.define(job_path(name), definition, EditKind::Change).await;
        self.nudge();
    }

    async fn define(&self, path: JobPath, definition: JobDefinition, kind: EditKind) -> JobRecord {
        let decide = move |context: JobContext<'_>| Ok(decide(&definition, kind, &context));
        let edited = self.store.edit_job(path, Box::new(decide)).await.unwrap();
        edited.after.unwrap()
    }

    pub(crate) async fn edit(&self, name: &str, write: JobWrite) {
        let decide = move |_: JobContext<'_>| Ok(write.clone());
        self.store.edit_job(job_path(name), Box::new(decide)).await.unwrap();
        self.nudge();
    }

    fn nudge(&self) {
        if let Some(engine) = &self.engine {
            engine.nudge().nudge();
        }
    }

    pub(crate) fn respond(&self, responses: &[Response]) {
        self.script.responses.lock().unwrap().extend(responses);
    }

    pub(crate) fn open_target(&self) {
        self.script.open.notify_one();
    }

    /// Runs all tasks until they wait for the clock.
    pub(crate) async fn settle(&self) {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }

    /// Advances the clock second by second and settles after each.
    pub(crate) async fn pass(&self, seconds: u64) {
        self.settle().await;
        for _ in 0..seconds {
            self.jump(Duration::from_secs(1)).await;
        }
    }

    /// Advances the clock in one step.
    pub(crate) async fn jump(&self, by: Duration) {
        self.clock.set(self.clock.now().checked_add(by).unwrap());
        self.settle().await;
    }

    /// Steps the time of day forward; no uptime passes.
    pub(crate) async fn step_ahead(&self, by: Duration) {
        self.clock.step_to(self.clock.now().checked_add(by).unwrap());
        self.settle().await;
    }

    /// Steps the clock back and returns the new time.
    pub(crate) async fn clock_back(&self, seconds: u64) -> String {
        let back = self.clock.now().checked_sub(Duration::from_secs(seconds)).unwrap();
        self.clock.set(back);
        self.settle().await;
        Instant::from(back).to_string()
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.script.calls.lock().unwrap().clone()
    }

    /// Scheduled times of the calls.
    pub(crate) fn scheduled(&self) -> Vec<String> {
        self.calls().into_iter().map(|call| call.scheduled).collect()
    }

    pub(crate) async fn job(&self, name: &str) -> JobRecord {
        self.try_job(name).await.unwrap()
    }

    pub(crate) async fn try_job(&self, name: &str) -> Option<JobRecord> {
        self.store.job(job_path(name)).await.unwrap().map(|(job, _)| job)
    }

    pub(crate) async fn history(&self, name: &str) -> Vec<HistoryEntry> {
        let history = self.store.history(job_path(name), Default::default(), Page::first(1_000));
        history.await.unwrap().unwrap().into_iter().map(|record| record.entry).rev().collect()
    }

    pub(crate) async fn ledger(&self, name: &str) -> Vec<LedgerRecord> {
        let key = self.job(name).await.key;
        self.store.ledger(key, Instant::MIN, Instant::MAX, 1_000).await.unwrap()
    }
}

/// The write of an edit, by the rules of the API.
fn decide(new: &JobDefinition, kind: EditKind, context: &JobContext<'_>) -> JobWrite {
    let (settings, now) = (Settings::default(), context.now);
    let created = context.existing.map_or(now, |job| job.job.created);
    let rule = &rule_of(new, created, &settings).unwrap();
    let (schedule, waiting, closed_by_edit) = match context.existing {
        None => (schedule_state_of_new(new, rule), WaitingRuns::Supersede, None),
        Some(JobRecord { job, state, .. }) => {
            let old = &job.definition;
            let JobState { due, used, lifecycle, .. } = *state;
            let open = context.open_scheduled_runs();
            let schedule = schedule_state_after_edit(
                ScheduleState { due, used, lifecycle },
                ScheduleEdit { old, new, rule, kind, open, now },
                &settings,
            );
            let waiting = match changes_schedule(old, new) {
                true => WaitingRuns::Supersede,
                false => WaitingRuns::Keep,
            };
            let old_rule = rule_of(old, created, &settings).unwrap();
            let collection = context.collection.collection.state.switch();
            let closed = due.and_then(|due| {
                let is_paused = context.pause.is_some();
                closed_by_edit(old, new, &old_rule, due, now, collection, is_paused)
            });
            (schedule, waiting, closed.map(|closed| closed.to_ledger_record(job.generation, now)))
        }
    };
    JobWrite::Put(Box::new(JobPut {
        uid: JobUid([1; 16]),
        created,
        definition: new.clone(),
        facts: JobFacts::default(),
        state: JobState {
            due: schedule.due,
            used: schedule.used,
            lifecycle: schedule.lifecycle,
            ..context.existing.map(|job| job.state).unwrap_or_default()
        },
        waiting,
        closed_by_edit,
    }))
}

fn collection(state: CollectionState) -> Collection {
    let location = Location::new("West US").unwrap();
    Collection { location, tags: None, plan: Plan::Standard, state, quota: None }
}

fn collection_path() -> CollectionPath {
    let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
    let group = GroupPath { subscription, group: GroupName::new("g").unwrap() };
    CollectionPath { group, collection: CollectionName::new("c").unwrap() }
}

pub(crate) fn job_path(name: &str) -> JobPath {
    JobPath { collection: collection_path(), job: JobName::new(name).unwrap() }
}

pub(crate) fn action() -> Action {
    action_at("http://example.com")
}

pub(crate) fn action_at(uri: &str) -> Action {
    let request = HttpRequest {
        uri: Uri::new(uri, &Limits::default()).unwrap(),
        method: Method::new("GET").unwrap(),
        headers: None,
        body: None,
        authentication: None,
    };
    Action { type_as_written: "Http".into(), target: Target::Http(request) }
}

pub(crate) fn job(start: &str, recurrence: Option<Recurrence>) -> JobDefinition {
    JobDefinition {
        start: Some(start.parse().unwrap()),
        action: MainAction { action: action(), retry: None, error_action: None },
        recurrence: recurrence.map(Box::new),
        switch: Switch::Enabled,
        extensions: Extensions::default(),
    }
}

/// A job whose target is another host.
pub(crate) fn job_at(uri: &str, start: &str, recurrence: Option<Recurrence>) -> JobDefinition {
    let mut job = job(start, recurrence);
    job.action.action = action_at(uri);
    job
}

pub(crate) fn with_error_action(mut job: JobDefinition) -> JobDefinition {
    job.action.error_action = Some(Box::new(ErrorAction { action: action(), retry: None }));
    job
}

/// The time `seconds` after [`START`], formatted.
pub(crate) fn at(seconds: u64) -> String {
    let start: Instant = START.parse().unwrap();
    start.saturating_add(Duration::from_secs(seconds)).to_string()
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(test);
}
