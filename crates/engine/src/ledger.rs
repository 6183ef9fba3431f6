//! The loop that owns every decision that is written.

mod conclude;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kalends_actions::{Perform, Report};
use kalends_domain::{
    DueQuestion, MissedPolicy, Outcome, Overlap, REDELIVERIES_MAX, UnderWay, When, decide_due,
    rule_of,
};
use kalends_environment::Clock;
use kalends_recurrence::Instant;
use kalends_store::record::{Cause, Claim, JobRecord, NodeId, OpenRun, Progress, RunId};
use kalends_store::{Advance, DueJob, RunAnswer, RunWrite, Store};
use tokio::sync::{mpsc, watch};

use crate::engine::Nudge;
use crate::messages::{ledger_row, postponed};
use crate::settings::{EngineSettings, WhoseClock};
use crate::store_clock::StoreClock;
use crate::timetable::Timetable;
use crate::worker::{Assignment, Ended, How, work};

/// So long before its instant an occurrence is claimed: longer than a commit usually takes.
const CLAIM_AHEAD: Duration = Duration::from_millis(20);
/// As many jobs and runs are known ahead; more than that many are found at the next load.
const TIMETABLE_MAX: usize = 50_000;
/// As many decisions go into one commit.
const BATCH_MAX: usize = 1_000;
/// Results of attempts that may wait for the loop.
const RESULTS_MAX: usize = 4_096;
/// Looks further apart than this were no watch: the process or the machine slept, or the clock was
/// set. What came due between is missed.
const WATCH_BREAKS_AFTER: Duration = Duration::from_secs(5);
/// After a store that failed, the next try.
const STORE_RETRY: Duration = Duration::from_millis(200);
/// As much is removed at once, so that nothing waits long for it.
const PRUNE_BATCH: usize = 1_000;
/// What history says of an attempt that ended no process that made it.
const DIED_AGAIN: &str =
    "The attempt was given up: each time it was made, the process that made it died.";
const PRUNE_EVERY: Duration = Duration::from_secs(60);

pub(crate) struct Ledger {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// The same clock, where it is the store's and has to be asked for.
    store_clock: Option<Arc<StoreClock>>,
    performer: Arc<dyn Perform>,
    node: NodeId,
    settings: EngineSettings,
    timetable: Timetable,
    /// Attempts under way, with their claims.
    under_way: BTreeMap<RunId, Claim>,
    results: (mpsc::Sender<Ended>, mpsc::Receiver<Ended>),
    /// Results that are not committed yet.
    ended: Vec<Ended>,
    /// Since when occurrences are watched for without a break.
    watched_since: Instant,
    looked: Instant,
    load_at: Instant,
    prune_at: Instant,
}

/// What a write is about, for its answer.
enum About {
    Job { due: DueJob, job: Arc<JobRecord>, advance: Advance, when: When },
    Passed { due: DueJob, next: Option<Instant> },
    Run { run: OpenRun, job: Arc<JobRecord>, progress: Progress },
    Extended(RunId),
    Ended(Box<Ended>, Option<OpenRun>),
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
        let now = Instant::from(clock.now());
        Ledger {
            store,
            clock,
            store_clock,
            performer,
            node,
            settings,
            timetable: Timetable::default(),
            under_way: BTreeMap::new(),
            results: mpsc::channel(RESULTS_MAX),
            ended: Vec::new(),
            watched_since: now,
            looked: now,
            load_at: now,
            prune_at: now,
        }
    }

    fn now(&self) -> Instant {
        self.clock.now().into()
    }

    pub(crate) async fn run(mut self, nudge: Nudge, mut stopping: watch::Receiver<bool>) {
        while self.ask_for_the_time().await.is_err() && !*stopping.borrow() {
            self.clock.pass(STORE_RETRY).await;
        }
        let now = self.now();
        (self.watched_since, self.looked) = (now, now);
        (self.load_at, self.prune_at) = (now, now);
        while !*stopping.borrow() {
            let wake_at = self.look().await;
            let clock = Arc::clone(&self.clock);
            // Always asked in the same order, so that a simulation can be repeated.
            tokio::select! {
                biased;
                // A sender that is gone means that nobody can stop the engine in order any more.
                changed = stopping.changed() => if changed.is_err() { return },
                ended = self.results.1.recv() => self.ended.extend(ended),
                () = nudge.nudged() => self.load_at = self.looked,
                () = wait(&*clock, self.looked, wake_at) => {}
            }
        }
        self.wind_up().await;
    }

    async fn ask_for_the_time(&self) -> Result<(), kalends_store::StoreError> {
        match &self.store_clock {
            Some(clock) => clock.ask(&*self.store).await,
            None => Ok(()),
        }
    }

    /// One look: take in what ended, begin what is due. Says when to look again.
    async fn look(&mut self) -> Instant {
        let now = self.now();
        self.notice_breaks(now);
        if now >= self.load_at && self.load(now).await.is_err() {
            return now.saturating_add(STORE_RETRY);
        }
        while let Ok(ended) = self.results.1.try_recv() {
            self.ended.push(ended);
        }
        let mut batch = self.conclude_ended(now).await;
        batch.extend(self.extend_claims(now));
        batch.extend(self.begin_due(now).await);
        if !batch.is_empty() && self.commit(batch, now).await.is_err() {
            // Nothing is lost: results are kept, and what was to begin is found again.
            self.load_at = now;
            return now.saturating_add(STORE_RETRY);
        }
        self.prune(now).await;
        self.wake_at(now)
    }

    fn wake_at(&self, now: Instant) -> Instant {
        let full = self.under_way.len() >= self.settings.attempts_max;
        let due = self.timetable.next().filter(|_| !full);
        let due = due.map(|due| earlier(due, CLAIM_AHEAD));
        let extend = self
            .under_way
            .values()
            .map(|claim| earlier(claim.lease_until, self.settings.lease / 2));
        let next = due.into_iter().chain(extend.min()).chain([self.load_at]).min();
        next.unwrap_or(now).max(now)
    }

    fn notice_breaks(&mut self, now: Instant) {
        let backwards = now < self.looked;
        if backwards
            || now > self.looked.saturating_add(self.settings.looks_ahead.max(WATCH_BREAKS_AFTER))
        {
            self.load_at = now;
        }
        if now > self.looked.saturating_add(self.settings.looks_ahead / 2 + WATCH_BREAKS_AFTER) {
            self.watched_since = now;
        }
        self.looked = now;
    }

    async fn load(&mut self, now: Instant) -> Result<(), kalends_store::StoreError> {
        self.ask_for_the_time().await?;
        let until = now.saturating_add(self.settings.looks_ahead);
        let jobs = self.store.due(until, TIMETABLE_MAX).await?;
        let mut runs = self.store.claimable(until, TIMETABLE_MAX).await?;
        runs.retain(|run| !self.under_way.contains_key(&run.id));
        self.timetable.load(jobs, runs);
        self.load_at = now.saturating_add(self.settings.looks_ahead / 2);
        Ok(())
    }

    /// Writes for everything that is due, as far as there is room for more attempts.
    async fn begin_due(&mut self, now: Instant) -> Vec<(RunWrite, About)> {
        let until = now.saturating_add(CLAIM_AHEAD);
        let room = self.settings.attempts_max.saturating_sub(self.under_way.len()).min(BATCH_MAX);
        let mut batch = Vec::new();
        for run in self.timetable.take_runs(until, room) {
            batch.extend(self.claim(run, now).await);
        }
        for due in self.timetable.take_jobs(until, room.saturating_sub(batch.len())) {
            batch.extend(self.begin(due, now).await);
        }
        batch
    }

    /// The write for an occurrence that is due. `None` where the job is no longer as it was.
    async fn begin(&self, due: DueJob, now: Instant) -> Option<(RunWrite, About)> {
        let job = Arc::new(self.store.job_by_key(due.job).await.ok()??);
        if job.job.generation != due.generation || job.state.due != Some(due.due) {
            return None;
        }
        let open = self.store.open_runs(due.job).await.ok()?;
        let definition = &job.job.definition;
        let mut schedules = self.settings.schedules.clone();
        // The definition was checked when it was written; limits may have changed since.
        schedules.interval_max = everything();
        schedules.start_months_ahead_max = i64::MAX;
        let rule = rule_of(definition, job.job.created, &schedules).ok()?.without_count();
        let extensions = &definition.extensions;
        let missed = extensions.missed_runs.as_ref();
        let count = definition.recurrence.as_ref().and_then(|recurrence| recurrence.count);
        let overlap = extensions.overlap.unwrap_or_default();
        let decision = decide_due(DueQuestion {
            rule: &rule,
            due: due.due,
            // What is claimed ahead of its instant is decided as at its instant.
            now: now.max(due.due),
            watched_since: self.watched_since,
            used: job.state.used,
            count: count.map(i64::unsigned_abs),
            missed: (
                missed.map_or(MissedPolicy::Last, |missed| missed.policy),
                missed.and_then(|missed| missed.within.as_ref()).map(|within| *within.value()),
            ),
            overlap,
            under_way: under_way(&open, due.generation, now),
        })?;
        let generation = job.job.generation;
        let closed: Vec<_> =
            decision.closed.iter().map(|c| ledger_row(c, generation, now)).collect();
        let postponed = decision.closed.iter().map(|c| postponed(c, decision.used, now)).collect();
        // Where runs are still open the last of them ends the job; the store knows which it is.
        let nothing_left = decision.next.is_none() && decision.begin.is_none();
        let advance = Advance {
            due: decision.next,
            used: decision.used,
            lifecycle: match nothing_left {
                true => kalends_domain::Lifecycle::Completed,
                false => kalends_domain::Lifecycle::Active,
            },
        };
        Some(match decision.begin {
            None => (
                RunWrite::Pass { on: due, advance, closed, postponed },
                About::Passed { due, next: decision.next },
            ),
            Some(begin) => {
                let owner = (begin.when == When::Now).then_some(self.node);
                let write = RunWrite::Begin {
                    on: due,
                    scheduled: begin.scheduled,
                    progress: Progress::first(begin.scheduled),
                    owner,
                    lease: self.settings.lease,
                    advance,
                    closed,
                    postponed,
                };
                let due = DueJob { due: begin.scheduled, ..due };
                (write, About::Job { due, job, advance, when: begin.when })
            }
        })
    }

    /// An attempt in which one process after the other died is not begun again: it has failed.
    fn give_up(&mut self, run: OpenRun, claim: Claim, job: Arc<JobRecord>, now: Instant) {
        self.under_way.insert(run.id, claim);
        let how = How::Attempted {
            started: now,
            ended: now,
            report: Report { outcome: Outcome::Indeterminate, message: DIED_AGAIN.into() },
        };
        self.ended.push(Ended { run, claim, job, how });
        self.load_at = now;
    }

    /// The write for a run that waits for its next attempt, or whose owner has died.
    async fn claim(&mut self, run: OpenRun, now: Instant) -> Option<(RunWrite, About)> {
        let job = Arc::new(self.store.job_by_key(run.job).await.ok()??);
        let open = self.store.open_runs(run.job).await.ok()?;
        let is_queued = run.cause == Cause::Scheduled
            && run.progress.first_started.is_none()
            && run.claim.is_none();
        let others_run =
            open.iter().any(|other| other.id < run.id && other.cause == Cause::Scheduled);
        let overlap = job.job.definition.extensions.overlap.unwrap_or_default();
        if is_queued && others_run && overlap != Overlap::Allow {
            return None; // found again at the next load, or when the other ends
        }
        let progress = match run.claim {
            None => run.progress,
            // It was claimed here, and nobody was told: the answer of the store was lost.
            Some(claim) if claim.owner == self.node => run.progress,
            // It was claimed, and its owner is gone: the attempt may have been made or not.
            Some(_) => {
                Progress {
                    redelivery: run.progress.redelivery + 1,
                    // Never early: the clock may have been set back since it was claimed.
                    next_at: run.progress.next_at.max(now),
                    ..run.progress
                }
            }
        };
        let write = RunWrite::Claim {
            run: run.id,
            seen: run.claim.map(|claim| claim.token),
            owner: self.node,
            lease: self.settings.lease,
            progress,
        };
        Some((write, About::Run { run, job, progress }))
    }

    fn extend_claims(&self, now: Instant) -> Vec<(RunWrite, About)> {
        let lease = self.settings.lease;
        let half_over = |claim: &Claim| earlier(claim.lease_until, lease / 2) <= now;
        let claims = self.under_way.iter().filter(|(_, claim)| half_over(claim));
        claims
            .map(|(&run, claim)| {
                (RunWrite::Extend { run, token: claim.token, lease }, About::Extended(run))
            })
            .collect()
    }

    async fn commit(
        &mut self,
        batch: Vec<(RunWrite, About)>,
        now: Instant,
    ) -> Result<(), kalends_store::StoreError> {
        let (writes, abouts): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        match self.store.commit(writes).await {
            Ok(answers) => {
                for (about, answer) in abouts.into_iter().zip(answers) {
                    self.follow_up(about, answer, now);
                }
                Ok(())
            }
            Err(error) => {
                // Results are tried again; their tokens keep them from being recorded twice.
                self.ended.extend(abouts.into_iter().filter_map(|about| match about {
                    About::Ended(ended, _) => Some(*ended),
                    _ => None,
                }));
                Err(error)
            }
        }
    }

    fn follow_up(&mut self, about: About, answer: RunAnswer, now: Instant) {
        match (about, answer) {
            (About::Job { due, job, advance, when }, RunAnswer::Begun { run, claim }) => {
                self.expect_next(due, advance.due, now);
                let run = OpenRun {
                    id: run,
                    job: due.job,
                    generation: due.generation,
                    scheduled: due.due,
                    cause: Cause::Scheduled,
                    repeat: advance.used,
                    progress: Progress::first(due.due),
                    claim,
                };
                match (when, claim) {
                    (When::Now, Some(claim)) => self.hand_out(run, claim, job),
                    _ => self.timetable.add_run(run),
                }
            }
            (About::Passed { due, next }, RunAnswer::Done) => self.expect_next(due, next, now),
            (About::Run { run, job, progress }, RunAnswer::Claimed(claim)) => {
                let died = run.claim.is_some_and(|claim| claim.owner != self.node);
                let died_again = died && run.progress.redelivery >= REDELIVERIES_MAX;
                let run = OpenRun { progress, claim: Some(claim), ..run };
                match died_again {
                    true => self.give_up(run, claim, job, now),
                    false => self.hand_out(run, claim, job),
                }
            }
            (About::Extended(run), RunAnswer::Claimed(claim)) => self.hold(run, claim),
            // Somebody else has it now. The attempt goes on, and its result will count for nothing.
            (About::Extended(run), RunAnswer::Stale) => {
                if let Some(claim) = self.under_way.get_mut(&run) {
                    claim.lease_until = Instant::MAX;
                }
            }
            (About::Ended(ended, waiting), _) => {
                self.under_way.remove(&ended.run.id);
                match waiting {
                    Some(run) => self.timetable.add_run(run),
                    None => self.load_if_others_wait(&ended.job, now),
                }
            }
            // Somebody else was quicker, or the job was edited: the next load shows how it is.
            _ => {}
        }
    }

    /// Other occurrences of a job may have waited for the end of one.
    fn load_if_others_wait(&mut self, job: &JobRecord, now: Instant) {
        let extensions = &job.job.definition.extensions;
        let missed = extensions.missed_runs.as_ref();
        let makes_up = missed.is_some_and(|missed| missed.policy == MissedPolicy::All);
        if makes_up || extensions.overlap == Some(Overlap::QueueOne) {
            self.load_at = now;
        }
    }

    fn expect_next(&mut self, due: DueJob, next: Option<Instant>, now: Instant) {
        let soon = next.filter(|&next| next <= now.saturating_add(self.settings.looks_ahead));
        if let Some(next) = soon {
            self.timetable.add_job(DueJob { due: next, ..due });
        }
    }

    /// Remembers a claim, to extend it at half time. Where the clock of the store was set back it
    /// seems to be over already: then the time is asked for, and meanwhile not asked too often.
    fn hold(&mut self, run: RunId, claim: Claim) {
        let not_before = self.looked.saturating_add(self.settings.lease * 3 / 4);
        if claim.lease_until < not_before {
            self.load_at = self.looked;
        }
        let lease_until = claim.lease_until.max(not_before);
        self.under_way.insert(run, Claim { lease_until, ..claim });
    }

    fn hand_out(&mut self, run: OpenRun, claim: Claim, job: Arc<JobRecord>) {
        self.hold(run.id, claim);
        let written = job.job.definition.extensions.timeout.as_ref();
        let timeout = written.map_or(self.settings.attempt_timeout, |timeout| *timeout.value());
        tokio::spawn(work(
            Assignment { run, claim, job, timeout },
            Arc::clone(&self.store),
            Arc::clone(&self.clock),
            Arc::clone(&self.performer),
            self.results.0.clone(),
        ));
    }

    async fn prune(&mut self, now: Instant) {
        if now < self.prune_at {
            return;
        }
        let pruned = self.store.prune(self.settings.retention, now, PRUNE_BATCH).await;
        let more = pruned.is_ok_and(|removed| removed >= PRUNE_BATCH);
        self.prune_at = if more { now } else { now.saturating_add(PRUNE_EVERY) };
    }

    /// Lets attempts under way end within the grace time. The claims of what is left then expire.
    async fn wind_up(&mut self) {
        let clock = Arc::clone(&self.clock);
        // However the clock is set meanwhile.
        let until = clock.uptime().saturating_add(self.settings.grace);
        loop {
            let now = self.now();
            let mut batch = self.conclude_ended(now).await;
            batch.extend(self.extend_claims(now));
            let committed = self.commit(batch, now).await.is_ok();
            let left = until.saturating_sub(clock.uptime());
            if self.under_way.is_empty() || left.is_zero() {
                return;
            }
            let wake_at = now.saturating_add(if committed { left } else { STORE_RETRY });
            let extend = self
                .under_way
                .values()
                .map(|claim| earlier(claim.lease_until, self.settings.lease / 2));
            let wake_at = extend.fold(wake_at, Instant::min).max(now);
            tokio::select! {
                biased;
                ended = self.results.1.recv() => self.ended.extend(ended),
                () = wait(&*clock, now, wake_at) => {}
            }
        }
    }
}

/// Waits from `now` until the clock shows `until`, and no longer than that should take: the clock
/// may be set back meanwhile.
async fn wait(clock: &dyn Clock, now: Instant, until: Instant) {
    let ticks = until.ticks().saturating_sub(now.ticks()).max(0).unsigned_abs();
    let lasts = Duration::from_nanos(ticks.saturating_mul(100));
    let until = until.timestamp().unwrap_or(jiff::Timestamp::MAX);
    tokio::select! {
        biased;
        () = clock.wait_until(until) => {}
        () = clock.pass(lasts) => {}
    }
}

fn earlier(at: Instant, by: Duration) -> Instant {
    let ticks = i64::try_from(by.as_nanos() / 100).unwrap_or(i64::MAX);
    Instant::from_ticks(at.ticks().saturating_sub(ticks)).unwrap_or(Instant::MIN)
}

fn under_way(open: &[OpenRun], generation: u64, now: Instant) -> UnderWay {
    // What was claimed ahead of its instant before the job was edited will not be sent.
    let is_stopped = |run: &&OpenRun| run.generation != generation && run.progress.next_at > now;
    let scheduled = open.iter().filter(|run| run.cause == Cause::Scheduled && !is_stopped(run));
    match scheduled.count() {
        0 => UnderWay::Nothing,
        1 => UnderWay::Running,
        _ => UnderWay::RunningAndWaiting,
    }
}

fn everything() -> kalends_recurrence::IntervalMax {
    kalends_recurrence::IntervalMax {
        minutes: i64::MAX,
        hours: i64::MAX,
        days: i64::MAX,
        weeks: i64::MAX,
        months: i64::MAX,
        years: i64::MAX,
    }
}
