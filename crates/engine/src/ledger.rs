//! The loop that owns every decision that is written.
//!
//! It asks the store for much at a time and does not wait for the answers: while one batch is being
//! read another is being written, and what piles up meanwhile makes the next batch larger.

mod alarm;
mod begin;
mod conclude;
mod follow_up;
mod load;
mod mend;
mod pace;
mod steps;
mod survey;
mod watch;
mod wind_up;

pub(crate) use survey::KINDS;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kalends_actions::Perform;
use kalends_environment::Clock;
use kalends_recurrence::Instant;
use kalends_store::record::{Claim, JobKey, NodeId, OpenRun, RunId};
use kalends_store::{Due, RunWrite, Store};
use tokio::sync::{mpsc, watch as signal};

use crate::engine::Nudge;
use crate::rooms::{RoomLimits, Rooms};
use crate::settings::{EngineSettings, WhoseClock};
use crate::store_clock::StoreClock;
use crate::timetable::Timetable;
use crate::worker::{Ended, Tools};
use alarm::Alarm;
use begin::{Candidate, every_interval};
use follow_up::About;
use load::Loads;
use pace::Pace;
use steps::{Going, Step};
use survey::Scanner;
use watch::Watch;

/// So long before its instant an occurrence is claimed: longer than a commit usually takes.
const CLAIM_AHEAD: Duration = Duration::from_millis(20);
/// As many decisions go into one commit, and as many jobs into one question.
const BATCH_MAX: usize = 1_000;
/// Results of attempts that may wait for the loop.
const RESULTS_MAX: usize = 4_096;
/// After a store that failed, the next try.
const STORE_RETRY: Duration = Duration::from_millis(200);

pub(crate) struct Ledger {
    tools: Tools,
    /// The clock of the tools, where it is the store's and has to be asked for.
    store_clock: Option<Arc<StoreClock>>,
    node: NodeId,
    settings: EngineSettings,
    /// Limits of schedules when a job runs: none. Its definition was checked when it was written,
    /// and limits may have changed since.
    schedules: kalends_recurrence::Settings,
    timetable: Timetable,
    rooms: Rooms<Candidate>,
    /// What was taken from the timetable and is not decided on: loads leave it alone.
    busy_jobs: BTreeSet<JobKey>,
    busy_runs: BTreeSet<RunId>,
    /// Runs that are worked on here.
    under_way: BTreeMap<RunId, Claim>,
    /// When claims are to be prolonged, in the order of the instants.
    renewals: VecDeque<Renewal>,
    results: (mpsc::Sender<Box<Ended>>, mpsc::Receiver<Box<Ended>>),
    /// Results that are final whatever has become of their jobs, and are not written yet.
    ended: VecDeque<Box<Ended>>,
    /// Results after which there may be another attempt, if the job was not edited.
    unsettled: VecDeque<Box<Ended>>,
    unwritten: VecDeque<(RunWrite, About)>,
    pace: Pace,
    steps: FuturesUnordered<Step>,
    going: Going,
    watch: Watch,
    loads: Loads,
    /// Nothing is asked of a store that has failed before then, as time that has passed.
    rests_until: Duration,
    prune_at: Instant,
    scanner: Scanner,
}

struct Renewal {
    /// As time that has passed.
    at: Duration,
    run: RunId,
}

/// What was taken from the timetable.
enum Item {
    Job(Due),
    Run(OpenRun),
}

impl Item {
    fn job(&self) -> JobKey {
        match self {
            Item::Job(due) => due.on.job,
            Item::Run(run) => run.job,
        }
    }
}

impl Ledger {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        performer: Arc<dyn Perform>,
        node: NodeId,
        settings: EngineSettings,
    ) -> Ledger {
        let store_clock = match settings.clock {
            WhoseClock::Node => None,
            WhoseClock::Store => Some(Arc::new(StoreClock::new(Arc::clone(&clock)))),
        };
        let clock = store_clock.clone().map_or(clock, |clock| clock);
        let (now, elapsed) = (Instant::from(clock.now()), clock.uptime());
        let mut schedules = settings.schedules.clone();
        schedules.interval_max = every_interval();
        schedules.start_months_ahead_max = i64::MAX;
        Ledger {
            tools: Tools { store, clock, performer, figures: Arc::clone(&settings.figures) },
            store_clock,
            node,
            schedules,
            timetable: Timetable::default(),
            rooms: Rooms::new(RoomLimits {
                all: settings.attempts_max,
                host: settings.host_attempts_max,
                collection: settings.collection_attempts_max,
            }),
            busy_jobs: BTreeSet::new(),
            busy_runs: BTreeSet::new(),
            under_way: BTreeMap::new(),
            renewals: VecDeque::new(),
            results: mpsc::channel(RESULTS_MAX),
            ended: VecDeque::new(),
            unsettled: VecDeque::new(),
            unwritten: VecDeque::new(),
            pace: Pace::new(settings.commits_apart),
            steps: FuturesUnordered::new(),
            going: Going::default(),
            watch: Watch::new(now, settings.looks_ahead / 2),
            loads: Loads::new(now, settings.looks_ahead),
            rests_until: Duration::ZERO,
            prune_at: now,
            scanner: Scanner::new(elapsed, now, settings.looks_ahead),
            settings,
        }
    }

    /// The clock that it goes by.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.tools.clock)
    }

    fn now(&self) -> Instant {
        self.tools.clock.now().into()
    }

    pub(crate) async fn run(mut self, nudge: Nudge, mut stopping: signal::Receiver<bool>) {
        self.begin(&stopping).await;
        let mut alarm = Alarm::default();
        while !*stopping.borrow() {
            let now = self.now();
            if self.watch.look(now) {
                self.loads.at_once(now);
                self.prune_at = now;
                self.scanner.clock_was_set(now);
            }
            self.set_going(now);
            alarm.set(&self.tools.clock, now, self.wake_at(now));
            tokio::select! {
                biased;
                // A sender that is gone means that nobody can stop the engine in order any more.
                changed = stopping.changed() => if changed.is_err() { return },
                () = nudge.nudged() => self.loads.nudged(),
                Some(done) = self.steps.next() => {
                    self.take_in(done);
                    // An answer may be about a thousand jobs: what is to be sent goes before the next.
                    tokio::task::yield_now().await;
                }
                Some(ended) = self.results.1.recv() => self.take_back(ended),
                () = alarm.rings() => {}
            }
        }
        self.wind_up().await;
    }

    /// Begins every step for which there is something to do.
    fn set_going(&mut self, now: Instant) {
        if self.tools.clock.uptime() < self.rests_until {
            return;
        }
        self.load(now);
        self.ask_about_unsettled();
        self.prolong_claims();
        self.ask_about_due(now);
        for (place, candidate) in self.rooms.admitted() {
            self.begin_at(place, candidate, now);
        }
        self.write(now);
        self.prune(now);
        self.scan_jobs();
        self.settings.figures.known(self.timetable.jobs());
    }

    fn wake_at(&self, now: Instant) -> Instant {
        let elapsed = self.tools.clock.uptime();
        if elapsed < self.rests_until {
            return now.saturating_add(self.rests_until - elapsed);
        }
        let due = self.timetable.next().filter(|_| self.may_ask_about_due());
        let due = due.map(|due| earlier(due, CLAIM_AHEAD));
        let renewal = self.renewals.front();
        let renewal = renewal.map(|next| now.saturating_add(next.at.saturating_sub(elapsed)));
        let load = self.loads.next(elapsed, now).filter(|_| !self.going.loading);
        let prune = (!self.going.pruning).then_some(self.prune_at);
        let later = |at: Duration| now.saturating_add(at.saturating_sub(elapsed));
        let (write, survey) = (self.write_at().map(later), self.scanner.next().map(later));
        let next = due.into_iter().chain(renewal).chain(load).chain(prune);
        let next = next.chain(write).chain(survey).min();
        next.unwrap_or(Instant::MAX).max(now)
    }

    /// Takes in how an attempt ended, and others that have ended since.
    fn take_back(&mut self, ended: Box<Ended>) {
        let mut next = Some(ended);
        while let Some(ended) = next {
            self.rooms.leave(&ended.place);
            self.keep_result(ended);
            next = self.results.1.try_recv().ok();
        }
    }

    fn keep_result(&mut self, ended: Box<Ended>) {
        match ended.is_final() {
            true => self.ended.push_back(ended),
            false => self.unsettled.push_back(ended),
        }
    }

    /// What the store is asked for failed: it is left alone for a while.
    fn rest(&mut self) {
        let now = self.now();
        self.watch.failed(now);
        self.rests_until = self.tools.clock.uptime() + STORE_RETRY;
        self.loads.at_once(now);
    }
}

fn earlier(at: Instant, by: Duration) -> Instant {
    let ticks = i64::try_from(by.as_nanos() / 100).unwrap_or(i64::MAX);
    Instant::from_ticks(at.ticks().saturating_sub(ticks)).unwrap_or(Instant::MIN)
}
