//! The invariant scan: continuously checks all jobs for violated invariants, one page at a time.
//!
//! The engine keeps working while a page is read, so a suspected violation may be transient. A second
//! read after another load confirms it; only confirmed violations are counted, logged and, if that is
//! safe, repaired.

use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{Lifecycle, Switch};
use kalends_recurrence::Instant;
use kalends_store::record::{Cause, FencingToken, GateState, JobKey, OpenRun, RunId};
use kalends_store::{Due, DueJob, Orphan, ScanPage, ScannedJob, StoreError};

use super::repair::repair_never_due_job;
use super::store_calls::StoreResponse;
use super::{Scheduler, earlier};
use crate::settings::OnViolation;
use crate::worker::is_held;

/// Rows per page: a few milliseconds of one reader.
const SCAN_ROWS: usize = 2_000;
/// Pause between pages: a scan of a million jobs takes hours.
const PAGE_INTERVAL: Duration = Duration::from_secs(1);
/// Pause between scans, in multiples of the lookahead: two minutes by default.
const SCAN_INTERVAL_LOOKAHEADS: u32 = 6;
/// A job or run that is due, or whose lease expired, for longer than this must be in a timetable.
const LATE_AFTER: Duration = Duration::from_secs(10);
/// Delay before suspects are read again.
const CONFIRM_AFTER: Duration = Duration::from_secs(5);

/// Progress of the scan.
pub(super) struct InvariantScan {
    /// Uptime of the next page.
    at: Duration,
    pause: Duration,
    after: Option<JobKey>,
    is_reading: bool,
    /// Suspected violations of the current page and the uptime of their detection.
    suspects: Option<(Duration, Vec<Violation>)>,
    /// History of jobs created before this time may have been removed by a clock step.
    complete_since: Instant,
}

/// A violated invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Violation {
    /// A job is due, has no open run and is in no timetable.
    Overdue(Due),
    /// An enabled job has neither a next occurrence nor an open run.
    NeverDue { job: JobKey, generation: u64 },
    /// A run is due or its lease expired, and it is in no timetable.
    LostRun { run: RunId, next_at: Instant, token: Option<FencingToken> },
    /// The counters of a job contradict its history.
    Counts(JobKey),
    /// A row has no owner.
    Orphan(Orphan),
}

/// Kinds of violations, as label values of the metric.
pub(crate) const VIOLATION_KINDS: [&str; 5] =
    ["overdue", "never_due", "lost_run", "counts", "orphan"];

impl Violation {
    /// Index in [`VIOLATION_KINDS`].
    fn kind(self) -> usize {
        match self {
            Violation::Overdue(_) => 0,
            Violation::NeverDue { .. } => 1,
            Violation::LostRun { .. } => 2,
            Violation::Counts(_) => 3,
            Violation::Orphan(_) => 4,
        }
    }
}

impl InvariantScan {
    pub(super) fn new(elapsed: Duration, now: Instant, lookahead: Duration) -> InvariantScan {
        InvariantScan {
            at: elapsed + lookahead,
            pause: lookahead * SCAN_INTERVAL_LOOKAHEADS,
            after: None,
            is_reading: false,
            suspects: None,
            complete_since: now,
        }
    }

    /// Uptime of the next page; `None` while one is being read.
    pub(super) fn next(&self) -> Option<Duration> {
        (!self.is_reading).then_some(self.at)
    }

    /// Records a clock step: retention by age may have used a different time.
    pub(super) fn clock_stepped(&mut self, now: Instant) {
        self.complete_since = now;
    }
}

impl Scheduler {
    /// Reads the next page if it is due.
    pub(super) fn scan_jobs(&mut self) {
        let elapsed = self.services.clock.uptime();
        if self.invariant_scan.is_reading || elapsed < self.invariant_scan.at {
            return;
        }
        if let Some((since, _)) = &self.invariant_scan.suspects
            && !self.load_schedule.has_loaded_since(*since)
        {
            self.invariant_scan.at = elapsed + PAGE_INTERVAL;
            return;
        }
        self.invariant_scan.is_reading = true;
        let (store, after) = (Arc::clone(&self.services.store), self.invariant_scan.after);
        self.store_calls.push(Box::pin(async move {
            StoreResponse::Scanned(store.scan_jobs(after, SCAN_ROWS).await)
        }));
    }

    pub(super) fn handle_scan_page(&mut self, page: Result<ScanPage, StoreError>) {
        self.invariant_scan.is_reading = false;
        let elapsed = self.services.clock.uptime();
        // Jobs stay due and claims expire while writes fail: that is no violation.
        let is_failing = self.outage.is_failing(self.now());
        let Some(page) = page.ok().filter(|_| !is_failing) else {
            self.invariant_scan.suspects = None;
            self.invariant_scan.at = elapsed + self.invariant_scan.pause;
            return;
        };
        let found = self.suspects(&page);
        match self.invariant_scan.suspects.take() {
            None if !found.is_empty() => {
                self.invariant_scan.suspects = Some((elapsed, found));
                self.invariant_scan.at = elapsed + CONFIRM_AFTER;
                return self.load_schedule.load_now(self.now());
            }
            Some((_, first)) => {
                let confirmed = found.into_iter().filter(|suspect| first.contains(suspect));
                confirmed.for_each(|violation| self.report_violation(violation, &page));
            }
            None => {}
        }
        self.invariant_scan.after = page.next;
        let is_last = page.next.is_none();
        self.invariant_scan.at =
            elapsed + if is_last { self.invariant_scan.pause } else { PAGE_INTERVAL };
        if is_last {
            self.settings.metrics.scan_completed();
        }
    }

    fn suspects(&self, page: &ScanPage) -> Vec<Violation> {
        let orphans = page.orphans.iter().copied().map(Violation::Orphan);
        let now = self.now();
        orphans.chain(page.jobs.iter().flat_map(|job| self.suspects_of_job(job, now))).collect()
    }

    fn suspects_of_job(&self, job: &ScannedJob, now: Instant) -> Vec<Violation> {
        let late = earlier(now, LATE_AFTER);
        let ScannedJob { gate_state, ref open, .. } = *job;
        let is_enabled =
            (gate_state.state.lifecycle, gate_state.switch) == (Lifecycle::Active, Switch::Enabled);
        let may_run = gate_state.collection == Switch::Enabled && !gate_state.is_paused(now);
        // A truncated timetable does not hold every due job.
        let is_complete = !self.load_schedule.is_truncated()
            && !self.timetable.is_full()
            && !self.unreadable.contains(job.job);
        let generation = gate_state.generation;
        let mut found = Vec::new();
        match gate_state.state.due {
            Some(due) if is_enabled && may_run && is_complete && due < late && open.is_empty() => {
                let on = DueJob { job: job.job, generation, due };
                if !self.timetable.has_job(job.job) && !self.busy_jobs.contains(&job.job) {
                    found.push(Violation::Overdue(Due { on, collection: job.collection }));
                }
            }
            None if is_enabled && !open.iter().any(|run| is_of_schedule(run, &gate_state)) => {
                found.push(Violation::NeverDue { job: job.job, generation });
            }
            _ => {}
        }
        let lost = open.iter().filter(|run| {
            !is_held(run, &gate_state, now)
                && is_complete
                && is_late(run, open, late)
                && !self.holds_run(run.id)
        });
        found.extend(lost.map(|run| Violation::LostRun {
            run: run.id,
            next_at: run.progress.next_at,
            token: run.claim.map(|claim| claim.token),
        }));
        if self.has_wrong_counts(job, now) {
            found.push(Violation::Counts(job.job));
        }
        found
    }

    fn holds_run(&self, run: RunId) -> bool {
        self.timetable.has_run(run)
            || self.busy_runs.contains(&run)
            || self.held_claims.contains_key(&run)
    }

    /// Whether the counters of a job contradict its retained history.
    fn has_wrong_counts(&self, job: &ScannedJob, now: Instant) -> bool {
        let (retained, state) = (job.history, job.gate_state.state);
        let retention = self.settings.retention;
        let is_fully_retained = job.created >= self.invariant_scan.complete_since
            && job.created.saturating_add(retention.history_age) > now
            && retained.entries < retention.history_count;
        let counted = (state.executions, state.failures);
        let has_uncounted = retained.attempts > counted.0 || retained.failures > counted.1;
        has_uncounted || is_fully_retained && (retained.attempts, retained.failures) != counted
    }

    /// Counts, logs and repairs a confirmed violation.
    fn report_violation(&mut self, violation: Violation, page: &ScanPage) {
        self.settings.metrics.violation_found(violation.kind());
        let kind = VIOLATION_KINDS.get(violation.kind()).copied().unwrap_or_default();
        tracing::error!(kind, ?violation, "invariant violated");
        if self.settings.on_violation == OnViolation::Abort {
            std::process::abort();
        }
        match violation {
            Violation::Overdue(due) => self.timetable.add_job(due),
            Violation::LostRun { run, .. } => {
                let mut runs = page.jobs.iter().flat_map(|job| &job.open);
                let run = runs.find(|open| open.id == run).copied();
                run.into_iter().for_each(|run| self.timetable.add_run(run));
            }
            Violation::NeverDue { job, generation } => {
                let (store, schedules) = (Arc::clone(&self.services.store), self.schedules.clone());
                let now = self.now();
                self.store_calls.push(Box::pin(async move {
                    StoreResponse::Repaired(
                        repair_never_due_job(&*store, job, generation, schedules, now).await,
                    )
                }));
            }
            // No safe repair: an operator must decide which data is right.
            Violation::Counts(_) | Violation::Orphan(_) => {}
        }
    }

    pub(super) fn handle_repair(&mut self, result: Result<(), StoreError>) {
        if let Err(error) = result {
            tracing::error!(%error, "repair of a job without a next occurrence failed");
        }
        self.load_schedule.load_now(self.now());
    }
}

fn is_of_schedule(run: &OpenRun, job: &GateState) -> bool {
    run.cause == Cause::Scheduled && !run.is_superseded(job.schedule_generation)
}

/// Whether a run has been due or unclaimed since before `since`. A run that is queued behind another of
/// its job is not late.
fn is_late(run: &OpenRun, open: &[OpenRun], since: Instant) -> bool {
    // A parked run waits for a slot, for any time.
    let waits_for_other = run.waits_for.is_some()
        || run.claim.is_none()
            && run.cause == Cause::Scheduled
            && run.progress.first_started.is_none()
            && open.iter().any(|other| other.id < run.id && other.cause == Cause::Scheduled);
    let claimable_from = run.claim.map_or(run.progress.next_at, |claim| claim.lease_until);
    claimable_from < since && run.progress.next_at < since && !waits_for_other
}
