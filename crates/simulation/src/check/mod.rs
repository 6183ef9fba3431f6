//! Checks the guarantees of a finished simulation. The input is what the API acknowledged, what
//! targets received and what the store holds; the checker shares no decision code with the engine.

mod calls;
mod coverage;
mod disabled_collections;
mod history;
mod lateness;
mod outages;
mod retry_policy;
mod skips;

use kalends_recurrence::{Instant, Rule, Settings};
use kalends_store::record::{Cause, Disposition};

use crate::recorder::{FaultKind, InjectedFault, Observations};
use crate::users::{StoredJob, TrackedJob, Version};
use crate::world::Evidence;

/// Ticks (15 s) within which the result of an attempt must be recorded.
const RECORDING: i64 = 150_000_000;

/// The checker and the violations that it found.
pub(crate) struct Check<'a> {
    pub(crate) evidence: &'a Evidence<'a>,
    pub(crate) observations: &'a Observations,
    pub(crate) violations: Vec<String>,
    /// Number of occurrences that have a record.
    pub(crate) occurrences: u64,
}

/// Evidence about one job.
#[derive(Clone, Copy)]
struct JobEvidence<'a> {
    tracked: &'a TrackedJob,
    stored: &'a StoredJob,
}

/// A ledger row or an open run: one occurrence, or a range of occurrences with one disposition.
#[derive(Clone, Copy, Debug)]
struct OccurrenceRecord {
    generation: u64,
    from: Instant,
    to: Instant,
    count: u64,
    /// Disposition and time of closing; `None` for an open run.
    closed: Option<(Disposition, Instant)>,
}

impl OccurrenceRecord {
    fn may_have_begun(&self) -> bool {
        use Disposition::{Completed, Failed, Superseded};
        self.closed.is_none_or(|(how, _)| matches!(how, Completed | Failed | Superseded))
    }
}

/// Whether occurrences are closed so because their job could not run: it or its collection was disabled,
/// or all jobs were paused.
fn is_off(how: Disposition) -> bool {
    matches!(how, Disposition::SkippedDisabled | Disposition::SkippedPaused)
}

impl OccurrenceRecord {
    /// Whether it may have been an open run, possibly one that only waited.
    fn may_have_waited(&self) -> bool {
        let was_held = self.closed.is_some_and(|(how, _)| is_off(how));
        self.may_have_begun() || was_held && self.count == 1
    }
}

impl<'a> Check<'a> {
    pub(crate) fn run(evidence: &'a Evidence<'a>, observations: &'a Observations) -> Check<'a> {
        let mut check = Check {
            evidence,
            observations,
            violations: observations.violations.clone(),
            occurrences: 0,
        };
        for tracked in &evidence.users.tracked {
            let Some(stored) = &tracked.stored else {
                check
                    .violations
                    .push(format!("LOST {}: the store has no such job", tracked.path.job));
                continue;
            };
            let job = JobEvidence { tracked, stored };
            check.coverage(job);
            check.history(job);
            check.calls(job);
            check.manual_runs(job);
            check.lateness(job);
        }
        check
    }

    fn violation(&mut self, job: JobEvidence<'_>, what: impl std::fmt::Display) {
        let TrackedJob { number, path, .. } = job.tracked;
        self.violations.push(format!("{what} [job {number} {}]", path.job));
    }

    /// Whether a fault at the node, or at all nodes, overlaps a period of virtual time.
    fn had_fault(&self, node: usize, from: i64, to: i64) -> bool {
        let overlaps = |fault: &&InjectedFault| {
            fault.node.is_none_or(|other| other == node) && fault.from <= to && fault.to >= from
        };
        self.observations.faults.iter().any(|fault| overlaps(&fault))
    }

    /// Like [`Check::had_fault`]. Gate states that arrive late excuse no attempt.
    fn had_fault_other_than_slow_gates(&self, node: usize, from: i64, to: i64) -> bool {
        let overlaps = |fault: &&InjectedFault| {
            fault.node.is_none_or(|other| other == node)
                && fault.from <= to
                && fault.to >= from
                && fault.kind != FaultKind::SlowGate
        };
        self.observations.faults.iter().any(|fault| overlaps(&fault))
    }

    fn clocks_were_stepped(&self) -> bool {
        self.observations.faults.iter().any(|fault| fault.kind == FaultKind::ClockStep)
    }
}

impl<'a> JobEvidence<'a> {
    fn version(&self, generation: u64) -> Option<&'a Version> {
        self.tracked.versions.iter().find(|version| version.generation == generation)
    }

    fn rule(&self, version: &Version) -> Option<Rule> {
        let start_months_ahead_max = i64::from(i32::MAX);
        let settings = Settings { start_months_ahead_max, ..Settings::default() };
        let definition = kalends_recurrence::Definition {
            start: version.definition.start,
            created: self.tracked.created,
            recurrence: version.definition.recurrence.as_deref().cloned(),
        };
        Rule::new(definition, &settings).ok().map(|rule| rule.without_count())
    }

    /// Records of scheduled occurrences, ordered by generation and scheduled time.
    fn records(&self) -> Vec<OccurrenceRecord> {
        let closed = self.stored.ledger.iter().filter(|row| row.cause == Cause::Scheduled);
        let closed = closed.map(|row| OccurrenceRecord {
            generation: row.generation,
            from: row.from,
            to: row.to,
            count: row.count,
            closed: Some((row.disposition, row.closed)),
        });
        let open = self.stored.open.iter().filter(|run| run.cause == Cause::Scheduled);
        let open = open.map(|run| OccurrenceRecord {
            generation: run.generation,
            from: run.scheduled,
            to: run.scheduled,
            count: 1,
            closed: None,
        });
        let mut records: Vec<_> = closed.chain(open).collect();
        records.sort_by_key(|record| (record.generation, record.from, record.to));
        records
    }
}
