//! Health of the server: whether the store accepts writes and the scheduler makes progress.
//!
//! `/readyz`, `/metrics`, `explain` and the log all follow from the same state. A write probe updates
//! it when readiness is requested, and repeatedly while something fails. It costs one commit, so a
//! result is used for some time, and only one probe is in flight.

mod incident;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kalends_environment::Clock;
use kalends_metrics::{Exposition, Metrics};
use kalends_recurrence::Instant;
use kalends_store::{StoreError, StoreHealth};
use tokio::time::timeout;

use crate::response::ApiError;
use incident::{Incidents, Report};

/// Time for which the result of a probe is used.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);
/// A store that does not complete a probe within this time is not ready.
const PROBE_TIME_MAX: Duration = Duration::from_secs(2);
/// Time for a read of the store; neither readiness nor the metrics page waits longer.
const READ_TIME_MAX: Duration = Duration::from_secs(1);
/// Time for which the size of the store is used; PostgreSQL asks the file system for every table.
const STORE_BYTES_AGE_MAX: Duration = Duration::from_secs(5);
/// Pause between two checks of [`Health::watch`].
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Failures of the scheduler that last less long are retried without a report, if the store accepts
/// writes.
const SCHEDULER_GRACE: Duration = Duration::from_secs(10);

/// Health of the server.
pub struct Health {
    store: Arc<dyn StoreHealth>,
    clock: Arc<dyn Clock>,
    scheduler: SchedulerHealth,
    is_probing: AtomicBool,
    state: Mutex<State>,
}

/// The scheduler of this process.
pub enum SchedulerHealth {
    /// There is none: the server was started with `--hold`.
    OnHold,
    /// It runs. The function returns its current problem, if it has one.
    Running(Box<dyn Fn() -> Option<SchedulerProblem> + Send + Sync>),
}

/// Why the scheduler makes no progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerProblem {
    /// Time since it began.
    pub lasting: Duration,
    /// The cause.
    pub message: String,
}

#[derive(Default)]
struct State {
    store: Incidents,
    scheduler: Incidents,
    /// Uptime of the end of the last probe.
    probed_at: Option<Duration>,
    /// Size of the store in bytes, and the uptime of its read.
    store_bytes: Option<(u64, Duration)>,
    /// The earliest due time when it was last read.
    next_due: Option<Instant>,
    /// Whether all jobs were paused when that was last read.
    is_paused: bool,
}

/// Whether the server is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// Ready to serve the API; no jobs run.
    OnHold,
    /// Ready to serve the API; all jobs are paused for this reason.
    Paused(String),
    /// Not ready, for this reason.
    NotReady(String),
}

/// The state of store and scheduler.
pub(crate) struct HealthStatus {
    /// Why the store does not accept writes; `None` if it does.
    pub(crate) store_problem: Option<String>,
    pub(crate) scheduler: SchedulerState,
    /// Time since the oldest occurrence or retry was due that has not started.
    pub(crate) lateness: Duration,
}

/// The state of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedulerState {
    Running,
    /// The server was started with `--hold`.
    Held,
    /// All jobs are paused.
    Paused,
    /// The scheduler or the store makes no progress.
    Failing,
}

impl SchedulerState {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            SchedulerState::Running => "Running",
            SchedulerState::Held => "Held",
            SchedulerState::Paused => "Paused",
            SchedulerState::Failing => "Failing",
        }
    }
}

impl Health {
    /// Health of a server that uses `store`. `clock` decides what is overdue.
    pub fn new(
        store: Arc<dyn StoreHealth>,
        clock: Arc<dyn Clock>,
        scheduler: SchedulerHealth,
    ) -> Health {
        let (is_probing, state) = (AtomicBool::new(false), Mutex::default());
        Health { store, clock, scheduler, is_probing, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches store and scheduler, and logs failures and recoveries. Returns the failure after which
    /// the store writes nothing until the process is restarted.
    pub async fn watch(self: &Arc<Self>) -> StoreError {
        loop {
            if let Some(error) = self.store.stopped() {
                self.observe_store(Err(&error));
                return error;
            }
            let problem = self.scheduler_problem();
            if problem.is_some() || self.state().store.current().is_some() {
                self.probe().await;
            }
            self.observe_scheduler(problem);
            self.clock.sleep(WATCH_INTERVAL).await;
        }
    }

    /// Checks readiness. Bounded in time by [`PROBE_TIME_MAX`].
    pub(crate) async fn readiness(self: &Arc<Self>) -> Readiness {
        self.probe().await;
        let problem = {
            let state = self.state();
            state.store.current().or(state.scheduler.current()).map(str::to_owned)
        };
        match problem {
            Some(reason) => Readiness::NotReady(reason),
            None if self.is_on_hold() => Readiness::OnHold,
            None => match timeout(READ_TIME_MAX, self.store.pause()).await {
                Ok(Ok(Some(pause))) => Readiness::Paused(pause.reason),
                _ => Readiness::Ready,
            },
        }
    }

    /// The state of store and scheduler. Bounded in time like [`Health::readiness`].
    pub(crate) async fn status(self: &Arc<Self>) -> HealthStatus {
        self.probe().await;
        self.read_store().await;
        let state = self.state();
        let store_problem = state.store.current().map(str::to_owned);
        let is_failing = store_problem.is_some() || state.scheduler.current().is_some();
        let scheduler = match self.is_on_hold() {
            true => SchedulerState::Held,
            false if is_failing => SchedulerState::Failing,
            false if state.is_paused => SchedulerState::Paused,
            false => SchedulerState::Running,
        };
        HealthStatus { store_problem, scheduler, lateness: self.lateness(&state) }
    }

    /// Size of the store in bytes, up to [`STORE_BYTES_AGE_MAX`] ago; `None` if it cannot be read in time.
    pub(crate) async fn store_bytes(&self) -> Option<u64> {
        let uptime = self.clock.uptime();
        let known = self.state().store_bytes;
        if let Some((bytes, read_at)) = known
            && uptime.saturating_sub(read_at) < STORE_BYTES_AGE_MAX
        {
            return Some(bytes);
        }
        let bytes = timeout(READ_TIME_MAX, self.store.bytes()).await.ok()?.ok()?;
        self.state().store_bytes = Some((bytes, uptime));
        Some(bytes)
    }

    /// Time since the oldest occurrence or retry was due that has not started.
    fn lateness(&self, state: &State) -> Duration {
        let now = Instant::from(self.clock.now());
        state.next_due.map_or(Duration::ZERO, |due| now.since(due))
    }

    /// Why due jobs do not start at present.
    pub(crate) fn obstacle(&self) -> Option<String> {
        let state = self.state();
        match state.store.current().or(state.scheduler.current()) {
            None if self.is_on_hold() => {
                Some("the server was started with --hold and runs no jobs".into())
            }
            reason => reason.map(str::to_owned),
        }
    }

    /// Records the error of a request if the store caused it.
    pub(crate) fn request_failed(&self, error: &ApiError) {
        if let Some(error @ (StoreError::Full | StoreError::Unavailable(_))) =
            error.store_error.as_deref()
        {
            self.observe_store(Err(error));
        }
    }

    /// Reads the earliest due time and the pause for the metrics page. Keeps the last ones if the store
    /// fails: the due time becomes older meanwhile.
    pub(crate) async fn read_store(&self) {
        if let Ok(Ok(next_due)) = timeout(READ_TIME_MAX, self.store.next_due()).await {
            self.state().next_due = next_due;
        }
        if let Ok(Ok(pause)) = timeout(READ_TIME_MAX, self.store.pause()).await {
            self.state().is_paused = pause.is_some();
        }
    }

    fn is_on_hold(&self) -> bool {
        matches!(self.scheduler, SchedulerHealth::OnHold)
    }

    fn scheduler_problem(&self) -> Option<SchedulerProblem> {
        match &self.scheduler {
            SchedulerHealth::OnHold => None,
            SchedulerHealth::Running(problem) => problem(),
        }
    }

    /// Probes the store, unless the last result is recent.
    async fn probe(self: &Arc<Self>) {
        let now = self.clock.uptime();
        let is_recent = |at: Duration| now.saturating_sub(at) < PROBE_INTERVAL;
        if self.state().probed_at.is_some_and(is_recent) {
            return;
        }
        // A probe that takes too long stays in flight, and its result counts when it arrives.
        if self.is_probing.swap(true, Ordering::AcqRel) {
            return;
        }
        let health = Arc::clone(self);
        let probing = tokio::spawn(async move {
            let result = health.store.probe().await;
            health.is_probing.store(false, Ordering::Release);
            health.state().probed_at = Some(health.clock.uptime());
            health.observe_store(result.as_ref().map(|&()| ()));
        });
        if timeout(PROBE_TIME_MAX, probing).await.is_err() {
            let silent = format!("the store has not completed a write within {PROBE_TIME_MAX:?}");
            self.report_store(Some(silent));
        }
    }

    fn observe_store(&self, result: Result<(), &StoreError>) {
        self.report_store(result.err().map(StoreError::to_string));
    }

    /// Updates the state of the store and logs a change. `reason` is `None` if it accepts writes.
    fn report_store(&self, reason: Option<String>) {
        let now = self.clock.uptime();
        let mut state = self.state();
        match state.store.update(reason, now) {
            Some(Report::Began { reason: error }) => {
                tracing::error!(error, "store unavailable, retrying");
            }
            Some(Report::Lasts { reason: error, seconds }) => {
                tracing::error!(error, seconds, "store still unavailable, retrying");
            }
            Some(Report::Ended { seconds }) => tracing::info!(seconds, "store available again"),
            None => {}
        }
    }

    /// Updates the state of the scheduler and logs a change. While the store fails, that is the cause
    /// and the state stays as it was.
    fn observe_scheduler(&self, problem: Option<SchedulerProblem>) {
        let now = self.clock.uptime();
        let mut state = self.state();
        if state.store.current().is_some() {
            return;
        }
        let lasting = problem.filter(|problem| problem.lasting >= SCHEDULER_GRACE);
        match state.scheduler.update(lasting.map(|problem| problem.message), now) {
            Some(Report::Began { reason: error }) => {
                tracing::error!(error, "scheduler makes no progress, retrying");
            }
            Some(Report::Lasts { reason: error, seconds }) => {
                tracing::error!(error, seconds, "scheduler still makes no progress, retrying");
            }
            Some(Report::Ended { seconds }) => {
                tracing::info!(seconds, "scheduler makes progress again");
            }
            None => {}
        }
    }
}

impl Metrics for Health {
    fn write(&self, page: &mut Exposition) {
        let state = self.state();
        let is_up = u8::from(state.store.current().is_none());
        page.gauge("kalends_store_up", "Whether the store accepts writes").value(&[], is_up);
        page.gauge("kalends_hold", "Whether the server was started with --hold")
            .value(&[], u8::from(self.is_on_hold()));
        page.gauge("kalends_paused", "Whether all jobs are paused")
            .value(&[], u8::from(state.is_paused));
        let overdue = self.lateness(&state);
        let help = "Time since the oldest occurrence or retry was due that has not started";
        page.gauge("kalends_oldest_overdue_seconds", help).value(&[], overdue.as_secs_f64());
    }
}
