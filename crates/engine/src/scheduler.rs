//! The scheduler: a single loop that makes every decision that is written.
//!
//! It calls the store in batches and does not block on the responses: while one batch is read another
//! is committed, and work that arrives meanwhile makes the next batch larger.

mod claimed_ahead;
mod cluster;
mod commit_pacing;
mod commit_results;
mod conclude_attempts;
mod due_reads;
mod invariant_scan;
mod lease_renewal;
mod load;
mod outage;
mod parked_runs;
mod pause;
mod prune;
mod repair;
mod shutdown;
mod start_runs;
mod store_calls;
mod unreadable;
mod wake_up;

pub(crate) use invariant_scan::VIOLATION_KINDS;
pub(crate) use prune::ClockStep;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use foldhash::{HashMap, HashSet};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kalends_actions::ActionExecutor;
use kalends_environment::Clock;
use kalends_recurrence::Instant;
use kalends_store::record::{FencingToken, JobKey, NodeId, OpenRun, PauseRecord, RunId};
use kalends_store::{Due, EngineStore, RunWrite};
use tokio::sync::{mpsc, watch as signal};

use crate::admission::{Admission, AdmissionLimits};
use crate::engine::Nudge;
use crate::settings::{ClockSource, EngineSettings};
use crate::status::{CallKind, EngineStatus};
use crate::store_clock::StoreClock;
use crate::timetable::Timetable;
use crate::unreported::Results;
use crate::worker::{Assignment, Services};
use crate::workers::Workers;
use claimed_ahead::ClaimedAhead;
use cluster::ClusterService;
use commit_pacing::CommitPacing;
use commit_results::WriteContext;
use due_reads::DueReads;
use invariant_scan::InvariantScan;
use lease_renewal::HeldClaim;
use load::LoadSchedule;
use outage::OutageDetector;
use parked_runs::ParkedKeys;
use prune::{ClockStepDetector, PruneSchedule};
use start_runs::{Candidate, ItemToRead, unlimited_intervals};
use store_calls::{CallsInFlight, JobsForRun, StoreCall};
use unreadable::UnreadableJobs;
use wake_up::WakeUp;

/// Occurrences are claimed this long before their scheduled time: longer than a typical commit.
const CLAIM_AHEAD: Duration = Duration::from_millis(50);
/// Maximum number of writes per commit and of jobs per read.
const BATCH_MAX: usize = 1_000;
/// Pause after a failed store call.
const STORE_RETRY: Duration = Duration::from_millis(200);

/// State of the loop.
pub(crate) struct Scheduler {
    services: Services,
    workers: Arc<Workers>,
    /// Set if the engine follows the store's clock; then it is also `services.clock`.
    store_clock: Option<Arc<StoreClock>>,
    node: NodeId,
    settings: EngineSettings,
    /// Schedule settings without limits: definitions were validated when they were stored, and the
    /// limits may have changed since.
    schedules: kalends_recurrence::Settings,
    timetable: Timetable,
    admission: Admission<Candidate>,
    claimed_ahead: ClaimedAhead,
    /// Jobs taken from the timetable whose decision is not committed yet. Loads ignore them.
    busy_jobs: HashSet<JobKey>,
    /// Jobs that changed after they were loaded; their state is read again.
    changed_jobs: Vec<Due>,
    /// The same for runs.
    busy_runs: HashSet<RunId>,
    /// Items whose definition is read next, before those of the timetable.
    items_to_read: VecDeque<ItemToRead>,
    parked: ParkedKeys,
    /// Jobs with an occurrence that waits for the end of a run, since the last load.
    waiting_jobs: HashSet<JobKey>,
    /// Claims of this node.
    held_claims: HashMap<RunId, HeldClaim>,
    /// Lease renewals by their uptime. A renewal of an older claim is dropped.
    renewals: BTreeMap<Duration, Vec<(RunId, FencingToken)>>,
    results: (Results, mpsc::UnboundedReceiver<Box<Assignment>>),
    /// Results that do not depend on the current state of their jobs, not written yet.
    final_results: VecDeque<Box<Assignment>>,
    /// Results after which another attempt may follow unless the job was edited.
    undecided_results: VecDeque<Box<Assignment>>,
    pending_writes: VecDeque<(RunWrite, WriteContext)>,
    commit_pacing: CommitPacing,
    store_calls: FuturesUnordered<StoreCall>,
    due_reads: DueReads<JobsForRun>,
    calls: CallsInFlight,
    outage: OutageDetector,
    cluster: ClusterService,
    load_schedule: LoadSchedule,
    /// Uptime before which no store call is made, after a failure.
    store_retry_at: Duration,
    clock_steps: ClockStepDetector,
    prune_schedule: PruneSchedule,
    invariant_scan: InvariantScan,
    /// A graceful shutdown has begun: runs release their claims after the current attempt.
    is_stopping: bool,
    status: EngineStatus,
    unreadable: UnreadableJobs,
    /// Runs whose failure was logged and is not committed yet.
    logged_failures: HashSet<RunId>,
    /// The pause of all jobs at the last load.
    pause: Option<PauseRecord>,
}

/// An entry taken from the timetable.
enum DueItem {
    Job(Due),
    Run(OpenRun),
}

impl DueItem {
    fn job(&self) -> JobKey {
        match self {
            DueItem::Job(due) => due.on.job,
            DueItem::Run(run) => run.job,
        }
    }

    /// The job, and the scheduled time at which it was found due.
    fn job_at(&self) -> (JobKey, Option<Instant>) {
        match self {
            DueItem::Job(due) => (due.on.job, Some(due.on.due)),
            DueItem::Run(run) => (run.job, None),
        }
    }
}

impl Scheduler {
    pub(crate) fn new(
        store: Arc<dyn EngineStore>,
        clock: Arc<dyn Clock>,
        executor: Arc<dyn ActionExecutor>,
        node: NodeId,
        settings: EngineSettings,
    ) -> Scheduler {
        let store_clock = match &settings.clock {
            ClockSource::Node => None,
            ClockSource::Store(clock) => Some(Arc::clone(clock)),
        };
        let clock = store_clock.clone().map_or(clock, |clock| clock);
        let (now, elapsed) = (Instant::from(clock.now()), clock.uptime());
        let status = EngineStatus::new(Arc::clone(&clock));
        let mut schedules = settings.schedules.clone();
        schedules.interval_max = unlimited_intervals();
        schedules.start_months_ahead_max = i64::MAX;
        Scheduler {
            services: Services { store, clock, executor, metrics: Arc::clone(&settings.metrics) },
            workers: Arc::default(),
            store_clock,
            node,
            schedules,
            timetable: Timetable::default(),
            admission: Admission::new(AdmissionLimits {
                all: settings.attempts_max,
                host: settings.host_attempts_max,
                collection: settings.collection_attempts_max,
            }),
            claimed_ahead: ClaimedAhead::default(),
            busy_jobs: HashSet::default(),
            changed_jobs: Vec::new(),
            busy_runs: HashSet::default(),
            items_to_read: VecDeque::new(),
            parked: ParkedKeys::default(),
            waiting_jobs: HashSet::default(),
            held_claims: HashMap::default(),
            renewals: BTreeMap::new(),
            results: mpsc::unbounded_channel(),
            final_results: VecDeque::new(),
            undecided_results: VecDeque::new(),
            pending_writes: VecDeque::new(),
            commit_pacing: CommitPacing::new(settings.commit_interval),
            store_calls: FuturesUnordered::new(),
            due_reads: DueReads::new(),
            calls: CallsInFlight::default(),
            outage: OutageDetector::new(now, settings.lookahead / 2),
            cluster: ClusterService::new(settings.nodes, settings.lookahead),
            load_schedule: LoadSchedule::new(now, settings.lookahead),
            store_retry_at: Duration::ZERO,
            clock_steps: ClockStepDetector::new(now, elapsed),
            prune_schedule: PruneSchedule::new(now),
            is_stopping: false,
            invariant_scan: InvariantScan::new(elapsed, now, settings.lookahead),
            settings,
            status,
            unreadable: UnreadableJobs::default(),
            logged_failures: HashSet::default(),
            pause: None,
        }
    }

    /// The clock that decides due times.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.services.clock)
    }

    pub(crate) fn status(&self) -> EngineStatus {
        self.status.clone()
    }

    fn now(&self) -> Instant {
        self.services.clock.now().into()
    }

    pub(crate) async fn run(mut self, nudge: Nudge, mut stopping: signal::Receiver<bool>) {
        self.start_up(&stopping).await;
        let mut wake_up = WakeUp::default();
        while !*stopping.borrow() {
            let now = self.now();
            self.detect_clock_step(now);
            if self.outage.tick(now) {
                self.load_schedule.load_now(now);
                self.prune_schedule.prune_now(now);
                self.invariant_scan.clock_stepped(now);
            }
            self.start_store_calls(now);
            wake_up.arm(&self.services.clock, now, self.wake_at(now));
            tokio::select! {
                biased;
                // The handle was dropped: end without a graceful shutdown.
                changed = stopping.changed() => if changed.is_err() { return },
                () = nudge.nudged() => self.load_schedule.nudged(),
                Some(response) = self.store_calls.next() => {
                    self.handle_response(response);
                    // A response may hold a thousand jobs: let workers start before the next one.
                    tokio::task::yield_now().await;
                }
                Some(finished) = self.results.1.recv() => self.receive_results(finished),
                () = wake_up.fired() => {}
            }
        }
        self.shut_down().await;
    }

    /// Starts every store call that is due.
    fn start_store_calls(&mut self, now: Instant) {
        // Also after a failure of another call: the lease goes on.
        self.renew_leases();
        self.handle_due_reads();
        if self.services.clock.uptime() < self.store_retry_at {
            return;
        }
        self.load(now);
        self.poll_cluster(now);
        self.reload_changed_jobs();
        self.read_current_jobs();
        self.return_overdue_claims();
        self.admit_waiting(now);
        self.read_parked_runs();
        self.read_due_jobs(now);
        self.write(now);
        self.prune(now);
        self.scan_jobs();
        self.settings.metrics.set_timetable_jobs(self.timetable.jobs());
        let waiting = self.admission.waiting() + self.claimed_ahead.len();
        self.settings.metrics.set_waiting_runs(waiting);
    }

    /// When the loop must run again.
    fn wake_at(&self, now: Instant) -> Instant {
        let elapsed = self.services.clock.uptime();
        let later = |at: Duration| now.saturating_add(at.saturating_sub(elapsed));
        let renewal = self.next_renewal().map(later);
        if elapsed < self.store_retry_at {
            let retry = later(self.store_retry_at);
            return renewal.map_or(retry, |renewal| renewal.min(retry));
        }
        let due = self.timetable.next().filter(|_| self.may_read_due_jobs());
        let due = due.map(|due| earlier(due, CLAIM_AHEAD));
        let load = self.load_schedule.next(elapsed, now).filter(|_| !self.calls.loading);
        let prune = (!self.calls.pruning).then(|| self.prune_schedule.next(now, elapsed));
        let (write, scan) = (self.write_at().map(later), self.invariant_scan.next().map(later));
        let poll = self.cluster.next().map(later);
        let next = due.into_iter().chain(renewal).chain(load).chain(prune);
        let overdue =
            self.admission.next_overdue().into_iter().chain(self.claimed_ahead.next_overdue());
        let overdue = overdue.min().map(later);
        let parked = self.read_parked_at().map(later);
        let read = self.due_reads.next_overdue().map(later);
        let next = next.chain(write).chain(scan).chain(poll).chain(overdue).chain(parked);
        let next = next.chain(read).min();
        next.unwrap_or(Instant::MAX).max(now)
    }

    /// Receives a result and all others that are already in the channel.
    fn receive_results(&mut self, finished: Box<Assignment>) {
        let uptime = self.services.clock.uptime();
        let mut next = Some(finished);
        let mut started = Vec::new();
        while let Some(finished) = next {
            self.admission.attempt_ended(finished.slot, uptime);
            started.extend(self.next_claimed(finished.slot));
            self.queue_result(finished);
            next = self.results.1.try_recv().ok();
        }
        self.execute(started);
    }

    fn queue_result(&mut self, finished: Box<Assignment>) {
        match finished.is_final() {
            true => self.final_results.push_back(finished),
            false => self.undecided_results.push_back(finished),
        }
    }

    /// Pauses store calls after a failure.
    fn pause_store_calls(&mut self, failed: CallKind) {
        let now = self.now();
        self.outage.call_failed(failed, now);
        self.store_retry_at = self.services.clock.uptime() + STORE_RETRY;
        self.load_schedule.load_now(now);
    }
}

fn earlier(at: Instant, by: Duration) -> Instant {
    let ticks = i64::try_from(by.as_nanos() / 100).unwrap_or(i64::MAX);
    Instant::from_ticks(at.ticks().saturating_sub(ticks)).unwrap_or(Instant::MIN)
}
