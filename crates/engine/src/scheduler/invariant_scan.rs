//! The scanner: looks through all jobs, a slice at a time and without end, for what must not be.
//!
//! What looks wrong is looked at once more, after another load, before it is believed: what was read
//! is as old as the way is long, and the engine goes on meanwhile. What is still the same then is
//! counted, told, and put right where that can do no harm.

use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{Lifecycle, Switch};
use kalends_recurrence::Instant;
use kalends_store::record::{Cause, FencingToken, JobKey, OpenRun, RunId};
use kalends_store::{Due, DueJob, Orphan, ScanPage, ScannedJob, StoreError};

use super::repair::repair_never_due_job;
use super::store_calls::StoreResponse;
use super::{Scheduler, earlier};
use crate::settings::OnViolation;

/// Rows that a slice looks at: a few milliseconds of one reader.
const SCAN_ROWS: usize = 2_000;
/// From one slice to the next: a million jobs take some hours.
const PAGE_INTERVAL: Duration = Duration::from_secs(1);
/// A pass begins so many times the look ahead of the engine after the last: every two minutes, where
/// there are few jobs.
const PASS_INTERVAL_LOOKAHEADS: u32 = 6;
/// What is due, or whose claim is over, for so long must be in somebody's hands.
const LATE_AFTER: Duration = Duration::from_secs(10);
/// What looks wrong is looked at again so much later.
const CONFIRM_AFTER: Duration = Duration::from_secs(5);

/// AssignmentResult far the scanner has come.
pub(super) struct InvariantScan {
    /// The next slice, as time that has passed.
    at: Duration,
    pause: Duration,
    after: Option<JobKey>,
    is_going: bool,
    /// What looked wrong in this slice, and when.
    suspects: Option<(Duration, Vec<Violation>)>,
    /// Since when history is kept as it is now, as far as can be known.
    kept_since: Instant,
}

/// Something that must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Violation {
    /// A job is due, nothing of it is under way, and no load tells of it.
    Overdue(Due),
    /// A job is enabled, and nothing of it is due or under way.
    NeverDue { job: JobKey, generation: u64 },
    /// A run waits, or was given up, and no load tells of it.
    LostRun { run: RunId, next_at: Instant, token: Option<FencingToken> },
    /// The counters of a job are not what its history says.
    Counts(JobKey),
    /// Something belongs to nothing.
    Orphan(Orphan),
}

/// The kinds of what must not be, as figures tell them apart.
pub(crate) const VIOLATION_KINDS: [&str; 5] =
    ["overdue", "never_due", "lost_run", "counts", "orphan"];

impl Violation {
    /// Its slot among the kinds.
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
            pause: lookahead * PASS_INTERVAL_LOOKAHEADS,
            after: None,
            is_going: false,
            suspects: None,
            kept_since: now,
        }
    }

    /// When to look next, as time that has passed.
    pub(super) fn next(&self) -> Option<Duration> {
        (!self.is_going).then_some(self.at)
    }

    /// The clock is not where it was expected. What is kept by its age may have been removed by
    /// another time than the present one.
    pub(super) fn clock_was_set(&mut self, now: Instant) {
        self.kept_since = now;
    }
}

impl Scheduler {
    /// Has the next slice looked at.
    pub(super) fn scan_jobs(&mut self) {
        let elapsed = self.services.clock.uptime();
        if self.invariant_scan.is_going || elapsed < self.invariant_scan.at {
            return;
        }
        if let Some((since, _)) = &self.invariant_scan.suspects
            && !self.load_schedule.has_loaded_since(*since)
        {
            self.invariant_scan.at = elapsed + PAGE_INTERVAL;
            return;
        }
        self.invariant_scan.is_going = true;
        let (store, after) = (Arc::clone(&self.services.store), self.invariant_scan.after);
        self.store_calls.push(Box::pin(async move {
            StoreResponse::Scanned(store.scan_jobs(after, SCAN_ROWS).await)
        }));
    }

    pub(super) fn handle_scan_page(&mut self, survey: Result<ScanPage, StoreError>) {
        self.invariant_scan.is_going = false;
        let elapsed = self.services.clock.uptime();
        let Ok(survey) = survey else {
            self.invariant_scan.suspects = None;
            self.invariant_scan.at = elapsed + self.invariant_scan.pause;
            return;
        };
        let found = self.suspicions(&survey);
        match self.invariant_scan.suspects.take() {
            None if !found.is_empty() => {
                self.invariant_scan.suspects = Some((elapsed, found));
                self.invariant_scan.at = elapsed + CONFIRM_AFTER;
                return self.load_schedule.at_once(self.now());
            }
            Some((_, first)) => {
                let confirmed = found.into_iter().filter(|suspicion| first.contains(suspicion));
                confirmed.for_each(|violation| self.violation(violation, &survey));
            }
            None => {}
        }
        self.invariant_scan.after = survey.next;
        let is_over = survey.next.is_none();
        self.invariant_scan.at =
            elapsed + if is_over { self.invariant_scan.pause } else { PAGE_INTERVAL };
        if is_over {
            self.settings.metrics.scan_completed();
        }
    }

    fn suspicions(&self, survey: &ScanPage) -> Vec<Violation> {
        let orphans = survey.orphans.iter().copied().map(Violation::Orphan);
        let now = self.now();
        orphans.chain(survey.jobs.iter().flat_map(|job| self.suspicions_of(job, now))).collect()
    }

    fn suspicions_of(&self, job: &ScannedJob, now: Instant) -> Vec<Violation> {
        let late = earlier(now, LATE_AFTER);
        let ScannedJob { gate_state, ref open, .. } = *job;
        let is_on =
            (gate_state.state.lifecycle, gate_state.switch) == (Lifecycle::Active, Switch::Enabled);
        let may_run = gate_state.collection == Switch::Enabled;
        // Where more is due than is held, what is not held is no wonder.
        let sees_all = !self.load_schedule.is_cut() && !self.timetable.is_full();
        let generation = gate_state.generation;
        let mut found = Vec::new();
        match gate_state.state.due {
            Some(due) if is_on && may_run && sees_all && due < late && open.is_empty() => {
                let on = DueJob { job: job.job, generation, due };
                if !self.timetable.has_job(job.job) && !self.busy_jobs.contains(&job.job) {
                    found.push(Violation::Overdue(Due { on, collection: job.collection }));
                }
            }
            None if is_on && !open.iter().any(|run| is_of_schedule(run, generation)) => {
                found.push(Violation::NeverDue { job: job.job, generation });
            }
            _ => {}
        }
        let lost = open.iter().filter(|run| {
            may_run && sees_all && is_late(run, open, late) && !self.holds_run(run.id)
        });
        found.extend(lost.map(|run| Violation::LostRun {
            run: run.id,
            next_at: run.progress.next_at,
            token: run.claim.map(|claim| claim.token),
        }));
        if self.counts_wrong(job, now) {
            found.push(Violation::Counts(job.job));
        }
        found
    }

    fn holds_run(&self, run: RunId) -> bool {
        self.timetable.has_run(run)
            || self.busy_runs.contains(&run)
            || self.held_claims.contains_key(&run)
    }

    /// Whether the counters of a job cannot be what happened, as far as history is kept.
    fn counts_wrong(&self, job: &ScannedJob, now: Instant) -> bool {
        let (kept, state) = (job.history, job.gate_state.state);
        let retention = self.settings.retention;
        let all_is_kept = job.created >= self.invariant_scan.kept_since
            && job.created.saturating_add(retention.history_age) > now
            && kept.entries < retention.history_count;
        let counted = (state.executions, state.failures);
        let is_more = kept.attempts > counted.0 || kept.failures > counted.1;
        is_more || all_is_kept && (kept.attempts, kept.failures) != counted
    }

    /// Counts it, tells of it, and puts it right where that can do no harm.
    fn violation(&mut self, violation: Violation, survey: &ScanPage) {
        self.settings.metrics.violation_found(violation.kind());
        let kind = VIOLATION_KINDS.get(violation.kind()).copied().unwrap_or_default();
        tracing::error!(kind, "what must not be: {violation:?}");
        if self.settings.on_violation == OnViolation::Abort {
            std::process::abort();
        }
        match violation {
            Violation::Overdue(due) => self.timetable.add_job(due),
            Violation::LostRun { run, .. } => {
                let mut runs = survey.jobs.iter().flat_map(|job| &job.open);
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
            // What the right numbers are, and what should become of what belongs to nothing, is for
            // people to say.
            Violation::Counts(_) | Violation::Orphan(_) => {}
        }
    }

    pub(super) fn handle_repair(&mut self, mended: Result<(), StoreError>) {
        if let Err(error) = mended {
            tracing::error!("a job that was never due could not be mended: {error}");
        }
        self.load_schedule.at_once(self.now());
    }
}

fn is_of_schedule(run: &OpenRun, generation: u64) -> bool {
    run.cause == Cause::Scheduled && run.generation == generation
}

/// Whether somebody should have a run in his hands since then. One that waits for another of its job
/// need not be.
fn is_late(run: &OpenRun, open: &[OpenRun], since: Instant) -> bool {
    let waits_for_other = run.claim.is_none()
        && run.cause == Cause::Scheduled
        && run.progress.first_started.is_none()
        && open.iter().any(|other| other.id < run.id && other.cause == Cause::Scheduled);
    let in_hands_from = run.claim.map_or(run.progress.next_at, |claim| claim.lease_until);
    in_hands_from < since && run.progress.next_at < since && !waits_for_other
}
