//! Metrics of the engine.

use std::time::Duration;

use kalends_domain::{ActionRole, Outcome};
use kalends_environment::Clock;
use kalends_metrics::{Counter, Exposition, Gauge, GaugeGuard, Histogram, Metrics};
use kalends_recurrence::Instant;
use kalends_store::record::{Disposition, LedgerRecord, OpenRun};
use kalends_store::{EngineStore, RunWrite, RunWriteResult, StoreError};

use crate::scheduler::{ClockStep, VIOLATION_KINDS};

/// Dispositions and their label values.
const DISPOSITIONS: [(Disposition, &str); 9] = [
    (Disposition::Completed, "completed"),
    (Disposition::Failed, "failed"),
    (Disposition::SkippedOverlap, "skipped_overlap"),
    (Disposition::SkippedDisabled, "skipped_disabled"),
    (Disposition::SkippedQuota, "skipped_quota"),
    (Disposition::Missed, "missed"),
    (Disposition::Superseded, "superseded"),
    (Disposition::SkippedPaused, "skipped_paused"),
    (Disposition::SkippedByRequest, "skipped_by_request"),
];

/// Metrics of the engine.
#[derive(Debug, Default)]
pub struct EngineMetrics {
    closed: [Counter; DISPOSITIONS.len()],
    succeeded: Counter,
    failed: Counter,
    panicked: Counter,
    in_flight: Gauge,
    took: Histogram,
    late: Histogram,
    writes: Counter,
    stale: Counter,
    commits: Histogram,
    commits_failed: Counter,
    /// Jobs in the timetable.
    timetable_jobs: Gauge,
    /// Jobs put aside because they cannot be read.
    unreadable_jobs: Gauge,
    /// Due jobs and runs that wait for a slot in memory.
    waiting_runs: Gauge,
    /// Runs that wait for a slot in the store.
    parked_runs: Gauge,
    /// Violations found by invariant scans, by kind.
    violations: [Counter; VIOLATION_KINDS.len()],
    /// Completed invariant scans.
    scans_completed: Counter,
    steps_forward: Counter,
    steps_backward: Counter,
    /// Gate responses that were too old to use.
    gate_responses_late: Counter,
    /// Attempts that lost their lease before they sent anything.
    not_sent: Counter,
}

impl EngineMetrics {
    /// Commits writes and counts them.
    pub(crate) async fn commit(
        &self,
        store: &dyn EngineStore,
        clock: &dyn Clock,
        writes: Vec<RunWrite>,
    ) -> Result<Vec<RunWriteResult>, StoreError> {
        let closing: Vec<_> = writes.iter().map(ClosedOccurrences::by).collect();
        let begin = clock.uptime();
        let committed = store.commit(writes).await;
        match &committed {
            Ok(results) => {
                self.commits.record(clock.uptime().saturating_sub(begin));
                self.writes.add(results.len() as u64);
                for (closing, result) in closing.iter().zip(results) {
                    match result {
                        RunWriteResult::Stale => self.stale.increment(),
                        _ => closing.count(self),
                    }
                }
            }
            Err(_) => self.commits_failed.increment(),
        }
        committed
    }

    /// Counts an attempt as in flight until the guard is dropped.
    pub(crate) fn attempt_started(&self, run: &OpenRun, started: Instant) -> GaugeGuard<'_> {
        if run.progress.retry == 0 && run.progress.role == ActionRole::Main {
            let ticks = started.ticks() - run.scheduled.ticks();
            self.late.record(Duration::from_nanos(u64::try_from(ticks).unwrap_or(0) * 100));
        }
        self.in_flight.guard()
    }

    /// Records the duration and the outcome of an attempt.
    pub(crate) fn attempt_finished(&self, outcome: Outcome, took: Duration) {
        self.took.record(took);
        match outcome {
            Outcome::Succeeded => self.succeeded.increment(),
            _ => self.failed.increment(),
        }
    }

    /// Counts an attempt that ended with a panic.
    pub(crate) fn attempt_panicked(&self) {
        self.panicked.increment();
    }

    /// Sets the number of jobs put aside because they cannot be read.
    pub(crate) fn set_unreadable_jobs(&self, jobs: usize) {
        self.unreadable_jobs.set(jobs as u64);
    }

    /// Sets the number of jobs in the timetable.
    pub(crate) fn set_timetable_jobs(&self, jobs: usize) {
        self.timetable_jobs.set(jobs as u64);
    }

    /// Sets the number of due jobs and runs that wait for a slot in memory.
    pub(crate) fn set_waiting_runs(&self, runs: usize) {
        self.waiting_runs.set(runs as u64);
    }

    /// Sets the number of runs that wait for a slot in the store.
    pub(crate) fn set_parked_runs(&self, runs: u64) {
        self.parked_runs.set(runs);
    }

    /// Counts a confirmed violation; `kind` is an index of `VIOLATION_KINDS`.
    pub(crate) fn violation_found(&self, kind: usize) {
        self.violations.get(kind).iter().for_each(|counter| counter.increment());
    }

    /// Counts a completed invariant scan.
    pub(crate) fn scan_completed(&self) {
        self.scans_completed.increment();
    }

    /// Counts a step of the clock.
    pub(crate) fn clock_stepped(&self, step: ClockStep) {
        match step {
            ClockStep::Forward(_) => self.steps_forward.increment(),
            ClockStep::Backward(_) => self.steps_backward.increment(),
        }
    }

    /// Counts an attempt that lost its lease before it sent anything.
    pub(crate) fn attempt_not_sent(&self) {
        self.not_sent.increment();
    }

    /// Counts a gate response that was too old to use.
    pub(crate) fn gate_response_late(&self) {
        self.gate_responses_late.increment();
    }

    /// Number of attempts in flight.
    pub fn attempts_in_flight(&self) -> u64 {
        self.in_flight.get()
    }

    /// Number of due jobs and runs that wait for a slot in memory.
    pub fn waiting_runs(&self) -> u64 {
        self.waiting_runs.get()
    }

    /// Number of violations that invariant scans confirmed.
    pub fn violations(&self) -> u64 {
        self.violations.iter().map(Counter::get).sum()
    }

    /// Number of completed invariant scans.
    pub fn scans_completed(&self) -> u64 {
        self.scans_completed.get()
    }

    fn closed(&self, disposition: Disposition, count: u64) {
        let mut counters = DISPOSITIONS.iter().zip(&self.closed);
        if let Some((_, counter)) = counters.find(|((other, _), _)| *other == disposition) {
            counter.add(count);
        }
    }
}

/// The occurrences that a write closes unless it is stale.
enum ClosedOccurrences {
    One(Disposition, u64),
    /// Most often none.
    Several(Vec<(Disposition, u64)>),
}

impl ClosedOccurrences {
    fn by(write: &RunWrite) -> ClosedOccurrences {
        match write {
            RunWrite::Begin { closed, .. } | RunWrite::Skip { closed, .. } => {
                let counts = |row: &LedgerRecord| (row.disposition, row.count);
                ClosedOccurrences::Several(closed.iter().map(counts).collect())
            }
            RunWrite::Finish { closed, .. } => {
                ClosedOccurrences::One(closed.disposition, closed.count)
            }
            _ => ClosedOccurrences::Several(Vec::new()),
        }
    }

    fn count(&self, metrics: &EngineMetrics) {
        match self {
            ClosedOccurrences::One(disposition, count) => metrics.closed(*disposition, *count),
            ClosedOccurrences::Several(closed) => {
                closed.iter().for_each(|(disposition, count)| metrics.closed(*disposition, *count));
            }
        }
    }
}

impl Metrics for EngineMetrics {
    fn write(&self, page: &mut Exposition) {
        let mut closed =
            page.counter("kalends_occurrences_closed_total", "Closed occurrences by disposition");
        for ((_, name), counter) in DISPOSITIONS.iter().zip(&self.closed) {
            closed.value(&[("disposition", name)], counter.get());
        }
        page.counter("kalends_attempts_total", "Finished attempts by outcome")
            .value(&[("outcome", "succeeded")], self.succeeded.get())
            .value(&[("outcome", "failed")], self.failed.get());
        page.counter("kalends_attempt_panics_total", "Attempts that ended with an internal error")
            .value(&[], self.panicked.get());
        page.gauge("kalends_attempts_under_way", "Attempts in flight")
            .value(&[], self.in_flight.get());
        page.histogram("kalends_attempt_duration_seconds", "Duration of attempts")
            .durations(&[], &self.took);
        page.histogram(
            "kalends_start_lag_seconds",
            "Delay between the scheduled time and the start of the first attempt",
        )
        .durations(&[], &self.late);
        page.gauge("kalends_timetable_jobs", "Jobs in the in-memory timetable of due jobs")
            .value(&[], self.timetable_jobs.get());
        page.gauge("kalends_unreadable_jobs", "Due jobs put aside because they cannot be read")
            .value(&[], self.unreadable_jobs.get());
        page.gauge("kalends_runs_waiting", "Due runs that wait in memory for a free slot")
            .value(&[], self.waiting_runs.get());
        page.gauge(
            "kalends_runs_parked",
            "Due runs that wait in the store for a free slot, of all nodes",
        )
        .value(&[], self.parked_runs.get());
        page.histogram("kalends_commit_duration_seconds", "Duration of commits of the engine")
            .durations(&[], &self.commits);
        page.counter("kalends_commits_failed_total", "Commits of the engine that failed")
            .value(&[], self.commits_failed.get());
        page.counter("kalends_commit_writes_total", "Writes in commits of the engine")
            .value(&[], self.writes.get());
        let mut found = page.counter(
            "kalends_invariant_violations_total",
            "Violations found by invariant scans, by kind",
        );
        for (kind, counter) in VIOLATION_KINDS.iter().zip(&self.violations) {
            found.value(&[("kind", kind)], counter.get());
        }
        page.counter("kalends_surveys_total", "Completed invariant scans")
            .value(&[], self.scans_completed.get());
        page.counter(
            "kalends_attempts_not_sent_total",
            "Attempts that lost their lease before they sent anything",
        )
        .value(&[], self.not_sent.get());
        page.counter("kalends_clock_steps_total", "Steps of the clock by direction")
            .value(&[("direction", "forward")], self.steps_forward.get())
            .value(&[("direction", "backward")], self.steps_backward.get());
        page.counter(
            "kalends_gate_responses_late_total",
            "Responses of the store that were too old to start attempts with",
        )
        .value(&[], self.gate_responses_late.get());
        page.counter(
            "kalends_commit_stale_total",
            "Writes rejected because a newer write preceded them",
        )
        .value(&[], self.stale.get());
    }
}
