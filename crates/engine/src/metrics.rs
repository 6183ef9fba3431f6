//! What the engine counts of its work.

use std::time::Duration;

use kalends_domain::{ActionRole, Outcome};
use kalends_environment::Clock;
use kalends_metrics::{Counter, Exposition, Gauge, GaugeGuard, Histogram, Metrics};
use kalends_recurrence::Instant;
use kalends_store::record::{Disposition, LedgerRecord, OpenRun};
use kalends_store::{RunWrite, RunWriteResult, Store, StoreError};

use crate::scheduler::VIOLATION_KINDS;

/// Every way in which an occurrence can be closed, and what it is called.
const DISPOSITIONS: [(Disposition, &str); 7] = [
    (Disposition::Completed, "completed"),
    (Disposition::Failed, "failed"),
    (Disposition::SkippedOverlap, "skipped_overlap"),
    (Disposition::SkippedDisabled, "skipped_disabled"),
    (Disposition::SkippedQuota, "skipped_quota"),
    (Disposition::Missed, "missed"),
    (Disposition::Superseded, "superseded"),
];

/// What the engine counts of its work.
#[derive(Debug, Default)]
pub struct EngineMetrics {
    closed: [Counter; DISPOSITIONS.len()],
    succeeded: Counter,
    failed: Counter,
    in_flight: Gauge,
    took: Histogram,
    late: Histogram,
    writes: Counter,
    stale: Counter,
    commits: Histogram,
    commits_failed: Counter,
    /// Jobs that the timetable holds.
    known: Gauge,
    /// What must not be and was found, by kind.
    violations: [Counter; VIOLATION_KINDS.len()],
    /// How often all jobs were looked through.
    scans_completed: Counter,
}

impl EngineMetrics {
    /// Has decisions written, and counts them.
    pub(crate) async fn commit(
        &self,
        store: &dyn Store,
        clock: &dyn Clock,
        writes: Vec<RunWrite>,
    ) -> Result<Vec<RunWriteResult>, StoreError> {
        let closing: Vec<_> = writes.iter().map(closed_by).collect();
        let begin = clock.uptime();
        let committed = store.commit(writes).await;
        match &committed {
            Ok(answers) => {
                self.commits.record(clock.uptime().saturating_sub(begin));
                self.writes.add(answers.len() as u64);
                for (closing, answer) in closing.iter().zip(answers) {
                    match answer {
                        RunWriteResult::Stale => self.stale.increment(),
                        _ => closing.iter().for_each(|&(how, count)| self.closed(how, count)),
                    }
                }
            }
            Err(_) => self.commits_failed.increment(),
        }
        committed
    }

    /// An attempt begins; it is under way as long as this is held.
    pub(crate) fn begun(&self, run: &OpenRun, started: Instant) -> GaugeGuard<'_> {
        if run.progress.retry == 0 && run.progress.role == ActionRole::Main {
            let ticks = started.ticks() - run.scheduled.ticks();
            self.late.record(Duration::from_nanos(u64::try_from(ticks).unwrap_or(0) * 100));
        }
        self.in_flight.guard()
    }

    /// An attempt has ended.
    pub(crate) fn ended(&self, outcome: Outcome, took: Duration) {
        self.took.record(took);
        match outcome {
            Outcome::Succeeded => self.succeeded.increment(),
            _ => self.failed.increment(),
        }
    }

    /// So many jobs are known to be due soon.
    pub(crate) fn known(&self, jobs: usize) {
        self.known.set(jobs as u64);
    }

    /// Something was found that must not be.
    pub(crate) fn violation_found(&self, kind: usize) {
        self.violations.get(kind).iter().for_each(|counter| counter.increment());
    }

    /// All jobs were looked through.
    pub(crate) fn scan_completed(&self) {
        self.scans_completed.increment();
    }

    /// How much was found that must not be.
    pub fn violations(&self) -> u64 {
        self.violations.iter().map(Counter::get).sum()
    }

    /// How often all jobs were looked through for it.
    pub fn scans_completed(&self) -> u64 {
        self.scans_completed.get()
    }

    fn closed(&self, how: Disposition, count: u64) {
        let mut counters = DISPOSITIONS.iter().zip(&self.closed);
        if let Some((_, counter)) = counters.find(|((other, _), _)| *other == how) {
            counter.add(count);
        }
    }
}

/// The occurrences that a write closes, if it is done.
fn closed_by(write: &RunWrite) -> Vec<(Disposition, u64)> {
    let told = |row: &LedgerRecord| (row.disposition, row.count);
    match write {
        RunWrite::Begin { closed, .. } | RunWrite::Skip { closed, .. } => {
            closed.iter().map(told).collect()
        }
        RunWrite::Finish { closed, .. } => vec![told(closed)],
        _ => vec![],
    }
}

impl Metrics for EngineMetrics {
    fn write(&self, page: &mut Exposition) {
        let mut closed =
            page.counter("kalends_occurrences_closed_total", "Occurrences, by what became of them");
        for ((_, name), counter) in DISPOSITIONS.iter().zip(&self.closed) {
            closed.value(&[("disposition", name)], counter.get());
        }
        page.counter("kalends_attempts_total", "Attempts that have ended, by how")
            .value(&[("outcome", "succeeded")], self.succeeded.get())
            .value(&[("outcome", "failed")], self.failed.get());
        page.gauge("kalends_attempts_under_way", "Attempts under way")
            .value(&[], self.in_flight.get());
        page.histogram("kalends_attempt_duration_seconds", "How long attempts took")
            .durations(&[], &self.took);
        page.histogram(
            "kalends_start_lag_seconds",
            "How long after its instant the first attempt of an occurrence began",
        )
        .durations(&[], &self.late);
        page.gauge(
            "kalends_timetable_jobs",
            "Jobs that are due or will be soon, as far as they are known",
        )
        .value(&[], self.known.get());
        page.histogram("kalends_commit_duration_seconds", "How long commits of decisions took")
            .durations(&[], &self.commits);
        page.counter("kalends_commits_failed_total", "Commits of decisions that failed")
            .value(&[], self.commits_failed.get());
        page.counter("kalends_commit_writes_total", "Decisions that were committed")
            .value(&[], self.writes.get());
        let mut found = page.counter(
            "kalends_invariant_violations_total",
            "What must not be and was found when all jobs were looked through, by kind",
        );
        for (kind, counter) in VIOLATION_KINDS.iter().zip(&self.violations) {
            found.value(&[("kind", kind)], counter.get());
        }
        page.counter("kalends_surveys_total", "How often all jobs were looked through")
            .value(&[], self.scans_completed.get());
        page.counter("kalends_commit_stale_total", "Decisions that something else had overtaken")
            .value(&[], self.stale.get());
    }
}
