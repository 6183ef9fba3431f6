//! What is asked of the store, and what becomes of the answers.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kalends_recurrence::Instant;
use kalends_store::record::{GateState, JobForRun};
use kalends_store::{RunWrite, RunWriteResult, ScanPage, StoreError};

use super::commit_results::WriteContext;
use super::load::LoadedRows;
use super::{BATCH_MAX, CLAIM_AHEAD, DueItem, Scheduler};
use crate::worker::FinishedAssignment;

/// Questions of one kind that are asked at once: one is being answered while the next is put
/// together.
const AT_ONCE_MAX: usize = 2;
/// Jobs that one question is about before they begin: a few milliseconds, so that the first of many
/// that are due at once are claimed before their instant.
const READ_BATCH_MAX: usize = 256;
/// As much is removed at once, so that nothing waits long for it.
const PRUNE_BATCH: usize = 1_000;
const PRUNE_EVERY: Duration = Duration::from_secs(60);

/// Something that was asked of the store.
pub(super) type StoreCall = Pin<Box<dyn Future<Output = StoreResponse> + Send>>;

/// An answer of the store.
pub(super) enum StoreResponse {
    Loaded {
        began: Duration,
        found: Result<LoadedRows, StoreError>,
    },
    JobsForRun {
        items: Vec<DueItem>,
        jobs: Result<Vec<Option<JobForRun>>, StoreError>,
    },
    GateStates {
        ended: VecDeque<Box<FinishedAssignment>>,
        gate_states: Result<Vec<Option<GateState>>, StoreError>,
    },
    Committed {
        began: Duration,
        contexts: Vec<WriteContext>,
        answers: Result<Vec<RunWriteResult>, StoreError>,
    },
    Pruned(Result<usize, StoreError>),
    Scanned(Result<ScanPage, StoreError>),
    Repaired(Result<(), StoreError>),
}

/// What is being asked.
#[derive(Default)]
pub(super) struct CallsInFlight {
    pub(super) loading: bool,
    pub(super) pruning: bool,
    reading_jobs: usize,
    reading_gate_states: usize,
    pub(super) committing: usize,
}

impl Scheduler {
    pub(super) fn may_read_due_jobs(&self) -> bool {
        self.calls.reading_jobs < AT_ONCE_MAX && self.admission.read_capacity() > 0
    }

    /// Asks about what is due, as far as there may be room for it.
    pub(super) fn read_due_jobs(&mut self, now: Instant) {
        // The loop is awake for other reasons too: then those that follow soon are left for later,
        // and taken together.
        if !self.timetable.has_until(now.saturating_add(CLAIM_AHEAD)) {
            return;
        }
        while self.may_read_due_jobs() {
            // Once it is time for one, those that follow soon are taken with it, into one commit.
            let until = now.saturating_add(2 * CLAIM_AHEAD);
            let limit = self.admission.read_capacity().min(READ_BATCH_MAX);
            let mut items: Vec<_> =
                self.timetable.take_runs(until, limit).into_iter().map(DueItem::Run).collect();
            let admission = &self.admission;
            let may_go = |collection| admission.accepts_more_of(collection);
            let jobs = self.timetable.take_jobs(until, limit - items.len(), may_go);
            items.extend(jobs.into_iter().map(DueItem::Job));
            if items.is_empty() {
                return;
            }
            for item in &items {
                match item {
                    DueItem::Job(due) => self.busy_jobs.insert(due.on.job),
                    DueItem::Run(run) => self.busy_runs.insert(run.id),
                };
            }
            self.calls.reading_jobs += 1;
            let store = Arc::clone(&self.services.store);
            self.store_calls.push(Box::pin(async move {
                let jobs = items.iter().map(DueItem::job).collect();
                let jobs = store.jobs_for_run(jobs).await;
                StoreResponse::JobsForRun { items, jobs }
            }));
        }
    }

    /// Asks how the jobs stand that may have another attempt.
    pub(super) fn read_gate_states(&mut self) {
        while !self.undecided_results.is_empty() && self.calls.reading_gate_states < AT_ONCE_MAX {
            let count = self.undecided_results.len().min(BATCH_MAX);
            let ended: VecDeque<_> = self.undecided_results.drain(..count).collect();
            self.calls.reading_gate_states += 1;
            let store = Arc::clone(&self.services.store);
            self.store_calls.push(Box::pin(async move {
                let jobs = ended.iter().map(|ended| ended.run.job).collect();
                let gate_states = store.gate_states(jobs).await;
                StoreResponse::GateStates { ended, gate_states }
            }));
        }
    }

    /// From when on something is to be written, as time that has passed.
    pub(super) fn write_at(&self) -> Option<Duration> {
        let may_write = self.calls.committing < AT_ONCE_MAX;
        self.commit_pacing
            .next(self.pending_writes.len(), self.final_results.len())
            .filter(|_| may_write)
    }

    /// Has what was decided written, and with it what has ended.
    pub(super) fn write(&mut self, now: Instant) {
        let elapsed = self.services.clock.uptime();
        if self.write_at().is_none_or(|at| elapsed < at) {
            return;
        }
        self.commit_pacing.went(elapsed);
        self.queue_final_results(now);
        while !self.pending_writes.is_empty() && self.calls.committing < AT_ONCE_MAX {
            let count = self.pending_writes.len().min(BATCH_MAX);
            let (writes, contexts): (Vec<RunWrite>, Vec<_>) =
                self.pending_writes.drain(..count).unzip();
            self.calls.committing += 1;
            let began = elapsed;
            let (store, clock) =
                (Arc::clone(&self.services.store), Arc::clone(&self.services.clock));
            let metrics = Arc::clone(&self.settings.metrics);
            self.store_calls.push(Box::pin(async move {
                let answers = metrics.commit(&*store, &*clock, writes).await;
                StoreResponse::Committed { began, contexts, answers }
            }));
        }
    }

    /// Has what is no longer kept removed.
    pub(super) fn prune(&mut self, now: Instant) {
        if self.calls.pruning || now < self.prune_at {
            return;
        }
        self.calls.pruning = true;
        let store = Arc::clone(&self.services.store);
        let retention = self.settings.retention;
        self.store_calls.push(Box::pin(async move {
            StoreResponse::Pruned(store.prune(retention, now, PRUNE_BATCH).await)
        }));
    }

    pub(super) fn handle_response(&mut self, done: StoreResponse) {
        match done {
            StoreResponse::Loaded { began, found } => self.handle_load(began, found),
            StoreResponse::JobsForRun { items, jobs } => {
                self.calls.reading_jobs -= 1;
                self.handle_jobs_for_run(items, jobs);
            }
            StoreResponse::GateStates { ended, gate_states } => {
                self.calls.reading_gate_states -= 1;
                self.handle_gate_states(ended, gate_states);
            }
            StoreResponse::Committed { began, contexts, answers } => {
                self.calls.committing -= 1;
                self.handle_commit_results(began, contexts, answers);
            }
            StoreResponse::Scanned(survey) => self.handle_scan_page(survey),
            StoreResponse::Repaired(mended) => self.handle_repair(mended),
            StoreResponse::Pruned(removed) => {
                self.calls.pruning = false;
                let more = removed.is_ok_and(|removed| removed >= PRUNE_BATCH);
                let pause = if more { Duration::ZERO } else { PRUNE_EVERY };
                self.prune_at = self.now().saturating_add(pause);
            }
        }
    }
}
