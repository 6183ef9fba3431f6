//! Checks occurrences that came due while no node could work: the policy for missed runs applies to
//! them. While some node could work, none is missed.

use kalends_domain::MissedPolicy;
use kalends_recurrence::{Instant, Rule, TICKS_PER_SECOND};
use kalends_store::record::Disposition;

use super::{Check, JobEvidence, OccurrenceRecord};
use crate::recorder::{FaultKind, InjectedFault};
use crate::time::ticks;
use crate::users::Version;

const SECOND: i64 = TICKS_PER_SECOND;
/// Ticks (10 s) from which an outage certainly counts as one.
const OUTAGE_MIN: i64 = 10 * SECOND;
/// Ticks (6 s) before the end of an outage in which occurrences may count as late.
const LATE_WITHIN: i64 = 6 * SECOND;
/// Ticks (60 s) around a fault in which a node may be unable to work.
const RECOVERY: i64 = 60 * SECOND;

impl Check<'_> {
    /// After an outage, only the newest missed occurrence may run, or none.
    pub(super) fn runs_after_outage(
        &mut self,
        job: JobEvidence<'_>,
        version: &Version,
        rule: &Rule,
        record: &OccurrenceRecord,
    ) {
        let is_superseded = matches!(record.closed, Some((Disposition::Superseded, _)));
        if !record.may_have_begun() || is_superseded || self.clocks_were_stepped() {
            return;
        }
        let recurs = version.definition.recurrence.is_some();
        let missed = version.definition.extensions.missed_runs.as_ref();
        let policy = missed.map_or(MissedPolicy::Last, |missed| missed.policy);
        let from = record.from.ticks();
        let tolerance = 8 * ticks(self.evidence.scenario.default_link_faults.delay_max) + SECOND;
        let is_in = |fault: &&InjectedFault| {
            let is_long = fault.to - fault.from >= OUTAGE_MIN;
            is_long && fault.from + tolerance < from && from + LATE_WITHIN + tolerance < fault.to
        };
        let Some(outage) = self.outages().find(is_in) else { return };
        let next = rule.next_after(record.from).map(Instant::ticks);
        let is_newest = next.is_none_or(|next| next + LATE_WITHIN + tolerance >= outage.to);
        let may_run = match policy {
            MissedPolicy::All => true,
            MissedPolicy::Last => is_newest,
            MissedPolicy::Skip => false,
        };
        if recurs && !may_run {
            let to = Instant::from_ticks(outage.to);
            self.violation(job, format!("STORM {record:?} ran after the outage until {to:?}"));
        }
    }

    /// Periods in which no node could start a run.
    fn outages(&self) -> impl Iterator<Item = &InjectedFault> {
        let has_one_node = self.evidence.scenario.nodes == 1;
        self.observations.faults.iter().filter(move |fault| {
            fault.node.is_none()
                && (fault.kind == FaultKind::Store || has_one_node && fault.kind == FaultKind::Down)
        })
    }

    /// Whether a node was able to work from well before `from` until `to`, in virtual time.
    pub(super) fn a_node_could_work(&self, from: i64, to: i64) -> bool {
        let (from, to) = (from - RECOVERY, to + RECOVERY);
        self.observations.lifetimes.iter().any(|(&node, &(start, end))| {
            start < from && end.is_none_or(|end| end > to) && !self.had_fault_itself(node, from, to)
        })
    }

    /// Whether a fault of the node itself, or of the store, overlaps a period.
    fn had_fault_itself(&self, node: usize, from: i64, to: i64) -> bool {
        self.observations.faults.iter().any(|fault| {
            let is_other_node_down = fault.node.is_none() && fault.kind == FaultKind::Down;
            fault.node.is_none_or(|other| other == node)
                && !is_other_node_down
                && fault.from <= to
                && fault.to >= from
        })
    }
}
