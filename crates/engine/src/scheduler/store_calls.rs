//! Asynchronous calls to the store and the dispatch of their responses.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use kalends_recurrence::Instant;
use kalends_store::record::{GateState, JobForRun, JobKey, OpenRun, SlotKey};
use kalends_store::{
    Due, JobAt, LeaseRenewal, RenewalResult, RunWrite, RunWriteResult, ScanPage, StoreError,
};

use super::cluster::Abandoned;
use super::commit_results::WriteContext;
use super::conclude_attempts::{CurrentJob, read_current_jobs};
use super::load::LoadedRows;
use super::start_runs::{ItemToRead, Stage};
use super::{BATCH_MAX, CLAIM_AHEAD, DueItem, Scheduler};
use crate::status::CallKind;
use crate::worker::Assignment;

/// Maximum number of concurrent calls of one kind: the next batch is prepared while one is in flight.
const CONCURRENT_CALLS_MAX: usize = 2;
/// Maximum number of due jobs per read: a few milliseconds, so that the first of many jobs due at the
/// same time are claimed before their scheduled time.
pub(super) const READ_BATCH_MAX: usize = 256;

/// Minimum number of due jobs per read, even if fewer slots are free: many of them may belong to hosts
/// without a free slot, and must not hold up the others.
const READ_BATCH_MIN: usize = 32;

/// A store call in flight.
pub(super) type StoreCall = Pin<Box<dyn Future<Output = StoreResponse> + Send>>;

/// Due items with the definitions of their jobs.
pub(super) struct JobsForRun {
    items: Vec<ItemToRead>,
    /// Definitions by job; a deleted job has none.
    jobs: Result<HashMap<JobKey, Arc<JobForRun>>, StoreError>,
}

/// Response to a store call, with the context of the call.
pub(super) enum StoreResponse {
    Loaded {
        /// The time for which the load read.
        asked: Instant,
        began: Duration,
        rows: Result<LoadedRows, StoreError>,
    },
    Reloaded {
        changed: Vec<Due>,
        states: Result<Vec<Option<GateState>>, StoreError>,
    },
    Parked {
        key: SlotKey,
        limit: usize,
        runs: Result<Vec<OpenRun>, StoreError>,
    },
    JobsForRun {
        /// Number of the read.
        number: u64,
        read: JobsForRun,
    },
    CurrentJobs {
        finished: VecDeque<Box<Assignment>>,
        jobs: Result<Vec<Option<CurrentJob>>, StoreError>,
    },
    Committed {
        began: Duration,
        contexts: Vec<WriteContext>,
        results: Result<Vec<RunWriteResult>, StoreError>,
    },
    Renewed {
        began: Duration,
        renewals: Vec<LeaseRenewal>,
        results: Result<Vec<RenewalResult>, StoreError>,
    },
    Polled {
        own: Instant,
        others: Result<Option<Instant>, StoreError>,
        abandoned: Result<Abandoned, StoreError>,
    },
    Pruned(Result<usize, StoreError>),
    Scanned(Result<ScanPage, StoreError>),
    Repaired(Result<(), StoreError>),
}

impl StoreResponse {
    /// The kind of the call and its error.
    fn outcome(&self) -> (CallKind, Option<&StoreError>) {
        match self {
            StoreResponse::Loaded { rows, .. } => (CallKind::Read, rows.as_ref().err()),
            StoreResponse::Reloaded { states, .. } => (CallKind::Read, states.as_ref().err()),
            StoreResponse::Parked { runs, .. } => (CallKind::Read, runs.as_ref().err()),
            StoreResponse::JobsForRun { read, .. } => {
                // The store works; it has named the jobs that it cannot read.
                let is_failure = |error: &&StoreError| !matches!(error, StoreError::Unreadable(_));
                (CallKind::Read, read.jobs.as_ref().err().filter(is_failure))
            }
            StoreResponse::CurrentJobs { jobs, .. } => (CallKind::Read, jobs.as_ref().err()),
            StoreResponse::Committed { results, .. } => (CallKind::Write, results.as_ref().err()),
            StoreResponse::Renewed { results, .. } => (CallKind::Write, results.as_ref().err()),
            StoreResponse::Polled { abandoned, .. } => (CallKind::Read, abandoned.as_ref().err()),
            StoreResponse::Pruned(removed) => (CallKind::Write, removed.as_ref().err()),
            StoreResponse::Scanned(page) => (CallKind::Read, page.as_ref().err()),
            StoreResponse::Repaired(result) => (CallKind::Write, result.as_ref().err()),
        }
    }
}

/// Numbers of calls in flight.
#[derive(Default)]
pub(super) struct CallsInFlight {
    pub(super) loading: bool,
    pub(super) reloading: bool,
    pub(super) pruning: bool,
    pub(super) renewing: usize,
    /// Number of items in reads of due jobs that may need a slot.
    items_read: usize,
    reading_current_jobs: usize,
    pub(super) committing: usize,
}

impl Scheduler {
    /// Whether due jobs may be read from the timetable: no more than slots are free. Candidates that
    /// wait for a slot of one host or collection do not count.
    pub(super) fn may_read_due_jobs(&self) -> bool {
        self.due_reads.len() < CONCURRENT_CALLS_MAX && self.read_capacity() > 0
    }

    fn read_capacity(&self) -> usize {
        self.admission.free_slots().saturating_sub(self.calls.items_read)
    }

    /// Reads the definitions of due jobs and runs.
    pub(super) fn read_due_jobs(&mut self, now: Instant) {
        while self.due_reads.len() < CONCURRENT_CALLS_MAX {
            let items = match self.items_to_read.len().min(READ_BATCH_MAX) {
                0 => self.take_due_items(now),
                count => self.items_to_read.drain(..count).collect(),
            };
            if items.is_empty() {
                return;
            }
            let number = self.due_reads.begin(self.services.clock.uptime());
            self.calls.items_read += items.len();
            let store = Arc::clone(&self.services.store);
            self.store_calls.push(Box::pin(async move {
                // Many runs of one job share its definition.
                let due: BTreeMap<_, _> = items.iter().map(|item| item.item.job_at()).collect();
                let jobs_at = due.iter().map(|(&job, &due)| JobAt { job, due }).collect();
                let jobs = store.jobs_for_run_at(jobs_at).await;
                let by_key = |(key, job): (JobKey, Option<_>)| Some((key, job?));
                let jobs = jobs.map(|jobs| due.into_keys().zip(jobs).filter_map(by_key).collect());
                StoreResponse::JobsForRun { number, read: JobsForRun { items, jobs } }
            }));
        }
    }

    /// Takes due jobs and runs from the timetable.
    fn take_due_items(&mut self, now: Instant) -> Vec<ItemToRead> {
        // The loop may be awake for another reason: leave jobs that are due soon for one later batch.
        let is_due = self.timetable.has_until(now.saturating_add(CLAIM_AHEAD));
        let capacity = self.read_capacity();
        if !is_due || capacity == 0 {
            return Vec::new();
        }
        let limit = capacity.clamp(READ_BATCH_MIN, READ_BATCH_MAX);
        // Once one job is due, the next ones join it in the same commit.
        let until = now.saturating_add(2 * CLAIM_AHEAD);
        let admission = &self.admission;
        let is_admitted = |collection| admission.accepts_more_of(collection);
        // A backlog of runs does not delay jobs, and the other way round.
        let mut jobs = self.timetable.take_jobs(until, limit / 2, is_admitted);
        let runs = self.timetable.take_runs(until, limit - jobs.len());
        jobs.extend(self.timetable.take_jobs(until, limit - jobs.len() - runs.len(), is_admitted));
        self.busy_runs.extend(runs.iter().map(|run| run.id));
        self.busy_jobs.extend(jobs.iter().map(|due| due.on.job));
        let items = runs.into_iter().map(DueItem::Run).chain(jobs.into_iter().map(DueItem::Job));
        items.map(|item| ItemToRead { item, stage: Stage::Due }).collect()
    }

    /// Reads the current state of jobs that may have another attempt.
    pub(super) fn read_current_jobs(&mut self) {
        while !self.undecided_results.is_empty()
            && self.calls.reading_current_jobs < CONCURRENT_CALLS_MAX
        {
            let count = self.undecided_results.len().min(BATCH_MAX);
            let finished: VecDeque<_> = self.undecided_results.drain(..count).collect();
            self.calls.reading_current_jobs += 1;
            let store = Arc::clone(&self.services.store);
            self.store_calls.push(Box::pin(async move {
                let jobs = read_current_jobs(&*store, &finished).await;
                StoreResponse::CurrentJobs { finished, jobs }
            }));
        }
    }

    /// Uptime from which the next commit may start.
    pub(super) fn write_at(&self) -> Option<Duration> {
        let may_write = self.calls.committing < CONCURRENT_CALLS_MAX;
        self.commit_pacing
            .next_commit_at(self.pending_writes.len(), self.final_results.len())
            .filter(|_| may_write)
    }

    /// Commits pending writes together with final results.
    pub(super) fn write(&mut self, now: Instant) {
        let elapsed = self.services.clock.uptime();
        if self.write_at().is_none_or(|at| elapsed < at) {
            return;
        }
        self.commit_pacing.commit_started(elapsed);
        self.queue_final_results(now);
        while !self.pending_writes.is_empty() && self.calls.committing < CONCURRENT_CALLS_MAX {
            let count = self.pending_writes.len().min(BATCH_MAX);
            let (writes, contexts): (Vec<RunWrite>, Vec<_>) =
                self.pending_writes.drain(..count).unzip();
            self.calls.committing += 1;
            let began = elapsed;
            let (store, clock) =
                (Arc::clone(&self.services.store), Arc::clone(&self.services.clock));
            let metrics = Arc::clone(&self.settings.metrics);
            self.store_calls.push(Box::pin(async move {
                let results = metrics.commit(&*store, &*clock, writes).await;
                StoreResponse::Committed { began, contexts, results }
            }));
        }
    }

    /// Handles responses to reads of due jobs whose turn it is.
    pub(super) fn handle_due_reads(&mut self) {
        let uptime = self.services.clock.uptime();
        while let Some(JobsForRun { items, jobs }) = self.due_reads.next_response(uptime) {
            self.calls.items_read -= items.len();
            self.handle_jobs_for_run(items, jobs);
        }
    }

    pub(super) fn handle_response(&mut self, response: StoreResponse) {
        let (kind, error) = response.outcome();
        self.status.store_responded(kind, error);
        match response {
            StoreResponse::Loaded { asked, began, rows } => self.handle_load((asked, began), rows),
            StoreResponse::Reloaded { changed, states } => self.handle_reload(changed, states),
            StoreResponse::Parked { key, limit, runs } => self.handle_parked_runs(key, limit, runs),
            StoreResponse::JobsForRun { number, read } => {
                self.due_reads.respond(number, read);
                self.handle_due_reads();
            }
            StoreResponse::CurrentJobs { finished, jobs } => {
                self.calls.reading_current_jobs -= 1;
                self.handle_current_jobs(finished, jobs);
            }
            StoreResponse::Committed { began, contexts, results } => {
                self.calls.committing -= 1;
                self.handle_commit_results(began, contexts, results);
            }
            StoreResponse::Renewed { began, renewals, results } => {
                self.handle_renewals(began, renewals, results);
            }
            StoreResponse::Polled { own, others, abandoned } => {
                self.handle_poll(own, others, abandoned);
            }
            StoreResponse::Scanned(page) => self.handle_scan_page(page),
            StoreResponse::Repaired(result) => self.handle_repair(result),
            StoreResponse::Pruned(removed) => self.handle_prune(removed),
        }
    }
}
