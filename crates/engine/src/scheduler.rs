//! The loop that owns every decision that is written.
//!
//! It asks the store for much at a time and does not wait for the answers: while one batch is being
//! read another is being written, and what piles up meanwhile makes the next batch larger.

mod commit_pacing;
mod commit_results;
mod conclude_attempts;
mod invariant_scan;
mod load;
mod outage;
mod repair;
mod shutdown;
mod start_runs;
mod store_calls;
mod wake_up;

pub(crate) use invariant_scan::VIOLATION_KINDS;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kalends_actions::ActionExecutor;
use kalends_environment::Clock;
use kalends_recurrence::Instant;
use kalends_store::record::{Claim, JobKey, NodeId, OpenRun, RunId};
use kalends_store::{Due, RunWrite, Store};
use tokio::sync::{mpsc, watch as signal};

use crate::admission::{Admission, AdmissionLimits};
use crate::engine::Nudge;
use crate::settings::{ClockSource, EngineSettings};
use crate::store_clock::StoreClock;
use crate::timetable::Timetable;
use crate::worker::{FinishedAssignment, Services};
use commit_pacing::CommitPacing;
use commit_results::WriteContext;
use invariant_scan::InvariantScan;
use load::LoadSchedule;
use outage::OutageDetector;
use start_runs::{Candidate, every_interval};
use store_calls::{CallsInFlight, StoreCall};
use wake_up::WakeUp;

/// So long before its instant an occurrence is claimed: longer than a commit usually takes.
const CLAIM_AHEAD: Duration = Duration::from_millis(20);
/// As many decisions go into one commit, and as many jobs into one question.
const BATCH_MAX: usize = 1_000;
/// Results of attempts that may wait for the loop.
const RESULTS_MAX: usize = 4_096;
/// After a store that failed, the next try.
const STORE_RETRY: Duration = Duration::from_millis(200);

pub(crate) struct Scheduler {
    services: Services,
    /// The clock of the services, where it is the store's and has to be asked for.
    store_clock: Option<Arc<StoreClock>>,
    node: NodeId,
    settings: EngineSettings,
    /// Limits of schedules when a job runs: none. Its definition was checked when it was written,
    /// and limits may have changed since.
    schedules: kalends_recurrence::Settings,
    timetable: Timetable,
    admission: Admission<Candidate>,
    /// What was taken from the timetable and is not decided on: loads leave it alone.
    busy_jobs: BTreeSet<JobKey>,
    busy_runs: BTreeSet<RunId>,
    /// Runs that are worked on here.
    held_claims: BTreeMap<RunId, Claim>,
    /// When claims are to be prolonged, in the order of the instants.
    renewals: VecDeque<Renewal>,
    results: (mpsc::Sender<Box<FinishedAssignment>>, mpsc::Receiver<Box<FinishedAssignment>>),
    /// Results that are final whatever has become of their jobs, and are not written yet.
    final_results: VecDeque<Box<FinishedAssignment>>,
    /// Results after which there may be another attempt, if the job was not edited.
    undecided_results: VecDeque<Box<FinishedAssignment>>,
    pending_writes: VecDeque<(RunWrite, WriteContext)>,
    commit_pacing: CommitPacing,
    store_calls: FuturesUnordered<StoreCall>,
    calls: CallsInFlight,
    outage: OutageDetector,
    load_schedule: LoadSchedule,
    /// Nothing is asked of a store that has failed before then, as time that has passed.
    store_retry_at: Duration,
    prune_at: Instant,
    invariant_scan: InvariantScan,
}

struct Renewal {
    /// As time that has passed.
    at: Duration,
    run: RunId,
}

/// What was taken from the timetable.
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
}

impl Scheduler {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        executor: Arc<dyn ActionExecutor>,
        node: NodeId,
        settings: EngineSettings,
    ) -> Scheduler {
        let store_clock = match settings.clock {
            ClockSource::Node => None,
            ClockSource::Store => Some(Arc::new(StoreClock::new(Arc::clone(&clock)))),
        };
        let clock = store_clock.clone().map_or(clock, |clock| clock);
        let (now, elapsed) = (Instant::from(clock.now()), clock.uptime());
        let mut schedules = settings.schedules.clone();
        schedules.interval_max = every_interval();
        schedules.start_months_ahead_max = i64::MAX;
        Scheduler {
            services: Services { store, clock, executor, metrics: Arc::clone(&settings.metrics) },
            store_clock,
            node,
            schedules,
            timetable: Timetable::default(),
            admission: Admission::new(AdmissionLimits {
                all: settings.attempts_max,
                host: settings.host_attempts_max,
                collection: settings.collection_attempts_max,
            }),
            busy_jobs: BTreeSet::new(),
            busy_runs: BTreeSet::new(),
            held_claims: BTreeMap::new(),
            renewals: VecDeque::new(),
            results: mpsc::channel(RESULTS_MAX),
            final_results: VecDeque::new(),
            undecided_results: VecDeque::new(),
            pending_writes: VecDeque::new(),
            commit_pacing: CommitPacing::new(settings.commit_interval),
            store_calls: FuturesUnordered::new(),
            calls: CallsInFlight::default(),
            outage: OutageDetector::new(now, settings.lookahead / 2),
            load_schedule: LoadSchedule::new(now, settings.lookahead),
            store_retry_at: Duration::ZERO,
            prune_at: now,
            invariant_scan: InvariantScan::new(elapsed, now, settings.lookahead),
            settings,
        }
    }

    /// The clock that it goes by.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.services.clock)
    }

    fn now(&self) -> Instant {
        self.services.clock.now().into()
    }

    pub(crate) async fn run(mut self, nudge: Nudge, mut stopping: signal::Receiver<bool>) {
        self.begin(&stopping).await;
        let mut wake_up = WakeUp::default();
        while !*stopping.borrow() {
            let now = self.now();
            if self.outage.tick(now) {
                self.load_schedule.at_once(now);
                self.prune_at = now;
                self.invariant_scan.clock_was_set(now);
            }
            self.start_store_calls(now);
            wake_up.arm(&self.services.clock, now, self.wake_at(now));
            tokio::select! {
                biased;
                // A sender that is gone means that nobody can stop the engine in order any more.
                changed = stopping.changed() => if changed.is_err() { return },
                () = nudge.nudged() => self.load_schedule.nudged(),
                Some(done) = self.store_calls.next() => {
                    self.handle_response(done);
                    // An answer may be about a thousand jobs: what is to be sent goes before the next.
                    tokio::task::yield_now().await;
                }
                Some(ended) = self.results.1.recv() => self.receive_results(ended),
                () = wake_up.fired() => {}
            }
        }
        self.shut_down().await;
    }

    /// Begins every step for which there is something to do.
    fn start_store_calls(&mut self, now: Instant) {
        if self.services.clock.uptime() < self.store_retry_at {
            return;
        }
        self.load(now);
        self.read_gate_states();
        self.renew_leases();
        self.read_due_jobs(now);
        for (slot, candidate) in self.admission.admit_waiting() {
            self.start_admitted(slot, candidate, now);
        }
        self.write(now);
        self.prune(now);
        self.scan_jobs();
        self.settings.metrics.known(self.timetable.jobs());
    }

    fn wake_at(&self, now: Instant) -> Instant {
        let elapsed = self.services.clock.uptime();
        if elapsed < self.store_retry_at {
            return now.saturating_add(self.store_retry_at - elapsed);
        }
        let due = self.timetable.next().filter(|_| self.may_read_due_jobs());
        let due = due.map(|due| earlier(due, CLAIM_AHEAD));
        let renewal = self.renewals.front();
        let renewal = renewal.map(|next| now.saturating_add(next.at.saturating_sub(elapsed)));
        let load = self.load_schedule.next(elapsed, now).filter(|_| !self.calls.loading);
        let prune = (!self.calls.pruning).then_some(self.prune_at);
        let later = |at: Duration| now.saturating_add(at.saturating_sub(elapsed));
        let (write, survey) = (self.write_at().map(later), self.invariant_scan.next().map(later));
        let next = due.into_iter().chain(renewal).chain(load).chain(prune);
        let next = next.chain(write).chain(survey).min();
        next.unwrap_or(Instant::MAX).max(now)
    }

    /// Takes in how an attempt ended, and others that have ended since.
    fn receive_results(&mut self, ended: Box<FinishedAssignment>) {
        let mut next = Some(ended);
        while let Some(ended) = next {
            self.admission.release(&ended.slot);
            self.queue_result(ended);
            next = self.results.1.try_recv().ok();
        }
    }

    fn queue_result(&mut self, ended: Box<FinishedAssignment>) {
        match ended.is_final() {
            true => self.final_results.push_back(ended),
            false => self.undecided_results.push_back(ended),
        }
    }

    /// What the store is asked for failed: it is left alone for a while.
    fn pause_store_calls(&mut self) {
        let now = self.now();
        self.outage.store_failed(now);
        self.store_retry_at = self.services.clock.uptime() + STORE_RETRY;
        self.load_schedule.at_once(now);
    }
}

fn earlier(at: Instant, by: Duration) -> Instant {
    let ticks = i64::try_from(by.as_nanos() / 100).unwrap_or(i64::MAX);
    Instant::from_ticks(at.ticks().saturating_sub(ticks)).unwrap_or(Instant::MIN)
}
