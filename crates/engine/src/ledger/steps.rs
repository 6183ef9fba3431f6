//! What is asked of the store, and what becomes of the answers.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kalends_recurrence::Instant;
use kalends_store::record::{GateState, JobForRun};
use kalends_store::{RunWrite, RunWriteResult, ScanPage, StoreError};

use super::follow_up::About;
use super::load::Loaded;
use super::{BATCH_MAX, CLAIM_AHEAD, Item, Ledger};
use crate::worker::Ended;

/// Questions of one kind that are asked at once: one is being answered while the next is put
/// together.
const AT_ONCE_MAX: usize = 2;
/// Jobs that one question is about before they begin: a few milliseconds, so that the first of many
/// that are due at once are claimed before their instant.
const BRIEFS_MAX: usize = 256;
/// As much is removed at once, so that nothing waits long for it.
const PRUNE_BATCH: usize = 1_000;
const PRUNE_EVERY: Duration = Duration::from_secs(60);

/// Something that was asked of the store.
pub(super) type Step = Pin<Box<dyn Future<Output = Done> + Send>>;

/// An answer of the store.
pub(super) enum Done {
    Loaded {
        began: Duration,
        found: Result<Loaded, StoreError>,
    },
    Briefed {
        items: Vec<Item>,
        briefs: Result<Vec<Option<JobForRun>>, StoreError>,
    },
    Stood {
        ended: VecDeque<Box<Ended>>,
        standings: Result<Vec<Option<GateState>>, StoreError>,
    },
    Written {
        began: Duration,
        abouts: Vec<About>,
        answers: Result<Vec<RunWriteResult>, StoreError>,
    },
    Pruned(Result<usize, StoreError>),
    ScannedJob(Result<ScanPage, StoreError>),
    Mended(Result<(), StoreError>),
}

/// What is being asked.
#[derive(Default)]
pub(super) struct Going {
    pub(super) loading: bool,
    pub(super) pruning: bool,
    briefing: usize,
    concluding: usize,
    pub(super) writing: usize,
}

impl Ledger {
    pub(super) fn may_ask_about_due(&self) -> bool {
        self.going.briefing < AT_ONCE_MAX && self.rooms.takes_more() > 0
    }

    /// Asks about what is due, as far as there may be room for it.
    pub(super) fn ask_about_due(&mut self, now: Instant) {
        // The loop is awake for other reasons too: then those that follow soon are left for later,
        // and taken together.
        if !self.timetable.has_until(now.saturating_add(CLAIM_AHEAD)) {
            return;
        }
        while self.may_ask_about_due() {
            // Once it is time for one, those that follow soon are taken with it, into one commit.
            let until = now.saturating_add(2 * CLAIM_AHEAD);
            let limit = self.rooms.takes_more().min(BRIEFS_MAX);
            let mut items: Vec<_> =
                self.timetable.take_runs(until, limit).into_iter().map(Item::Run).collect();
            let rooms = &self.rooms;
            let may_go = |collection| rooms.takes_more_of(collection);
            let jobs = self.timetable.take_jobs(until, limit - items.len(), may_go);
            items.extend(jobs.into_iter().map(Item::Job));
            if items.is_empty() {
                return;
            }
            for item in &items {
                match item {
                    Item::Job(due) => self.busy_jobs.insert(due.on.job),
                    Item::Run(run) => self.busy_runs.insert(run.id),
                };
            }
            self.going.briefing += 1;
            let store = Arc::clone(&self.tools.store);
            self.steps.push(Box::pin(async move {
                let jobs = items.iter().map(Item::job).collect();
                let briefs = store.jobs_for_run(jobs).await;
                Done::Briefed { items, briefs }
            }));
        }
    }

    /// Asks how the jobs stand that may have another attempt.
    pub(super) fn ask_about_unsettled(&mut self) {
        while !self.unsettled.is_empty() && self.going.concluding < AT_ONCE_MAX {
            let count = self.unsettled.len().min(BATCH_MAX);
            let ended: VecDeque<_> = self.unsettled.drain(..count).collect();
            self.going.concluding += 1;
            let store = Arc::clone(&self.tools.store);
            self.steps.push(Box::pin(async move {
                let jobs = ended.iter().map(|ended| ended.run.job).collect();
                let standings = store.gate_states(jobs).await;
                Done::Stood { ended, standings }
            }));
        }
    }

    /// From when on something is to be written, as time that has passed.
    pub(super) fn write_at(&self) -> Option<Duration> {
        let may_write = self.going.writing < AT_ONCE_MAX;
        self.pace.next(self.unwritten.len(), self.ended.len()).filter(|_| may_write)
    }

    /// Has what was decided written, and with it what has ended.
    pub(super) fn write(&mut self, now: Instant) {
        let elapsed = self.tools.clock.uptime();
        if self.write_at().is_none_or(|at| elapsed < at) {
            return;
        }
        self.pace.went(elapsed);
        self.conclude_ended(now);
        while !self.unwritten.is_empty() && self.going.writing < AT_ONCE_MAX {
            let count = self.unwritten.len().min(BATCH_MAX);
            let (writes, abouts): (Vec<RunWrite>, Vec<_>) = self.unwritten.drain(..count).unzip();
            self.going.writing += 1;
            let began = elapsed;
            let (store, clock) = (Arc::clone(&self.tools.store), Arc::clone(&self.tools.clock));
            let figures = Arc::clone(&self.settings.figures);
            self.steps.push(Box::pin(async move {
                let answers = figures.commit(&*store, &*clock, writes).await;
                Done::Written { began, abouts, answers }
            }));
        }
    }

    /// Has what is no longer kept removed.
    pub(super) fn prune(&mut self, now: Instant) {
        if self.going.pruning || now < self.prune_at {
            return;
        }
        self.going.pruning = true;
        let store = Arc::clone(&self.tools.store);
        let retention = self.settings.retention;
        self.steps.push(Box::pin(async move {
            Done::Pruned(store.prune(retention, now, PRUNE_BATCH).await)
        }));
    }

    pub(super) fn take_in(&mut self, done: Done) {
        match done {
            Done::Loaded { began, found } => self.take_in_load(began, found),
            Done::Briefed { items, briefs } => {
                self.going.briefing -= 1;
                self.take_in_briefs(items, briefs);
            }
            Done::Stood { ended, standings } => {
                self.going.concluding -= 1;
                self.take_in_standings(ended, standings);
            }
            Done::Written { began, abouts, answers } => {
                self.going.writing -= 1;
                self.take_in_answers(began, abouts, answers);
            }
            Done::ScannedJob(survey) => self.take_in_survey(survey),
            Done::Mended(mended) => self.take_in_mended(mended),
            Done::Pruned(removed) => {
                self.going.pruning = false;
                let more = removed.is_ok_and(|removed| removed >= PRUNE_BATCH);
                let pause = if more { Duration::ZERO } else { PRUNE_EVERY };
                self.prune_at = self.now().saturating_add(pause);
            }
        }
    }
}
