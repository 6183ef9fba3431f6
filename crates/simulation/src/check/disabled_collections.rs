//! Checks occurrences whose scheduled time passed while their collection was disabled or all jobs were
//! paused: none of them runs later, except those of one-time jobs.

use kalends_domain::{CollectionState, Switch};
use kalends_recurrence::Instant;
use kalends_store::record::Disposition;

use super::{Check, JobEvidence, OccurrenceRecord, is_off};
use crate::time::ticks;
use crate::users::Version;

/// Occurrences due within this many ticks (2 s) may have been claimed before the change.
const CLAIMED_AHEAD: i64 = 20_000_000;

/// Without faults, occurrences are handled within this many ticks (60 s).
const HANDLED_WITHIN: i64 = 600_000_000;

/// A period in which a collection was disabled, by the store's clock.
#[derive(Clone, Copy)]
struct DisabledPeriod {
    from: i64,
    /// `None` if the collection stayed disabled.
    to: Option<i64>,
}

impl Check<'_> {
    pub(super) fn disabled_collection(
        &mut self,
        job: JobEvidence<'_>,
        version: &Version,
        record: &OccurrenceRecord,
    ) {
        // The link delay limits how precisely a node knows the store's time.
        let tolerance = 8 * ticks(self.evidence.scenario.default_link_faults.delay_max);
        let (from, to) = (record.from.ticks(), record.to.ticks());
        // An occurrence may be begun, and wait for its jitter.
        let start = job.start_of(record.generation, record.to).max(to);
        let runs_once = version.definition.recurrence.is_none();
        let disabled_periods = self.disabled_periods(job);
        match record.closed {
            Some((how, closed)) if is_off(how) => {
                let closed = closed.ticks();
                // Behind an earlier run of the job.
                let waits_for_earlier = |until: i64| {
                    job.records().iter().any(|other| {
                        other.may_have_waited()
                            && other.from < record.from
                            && other.closed.is_none_or(|(_, at)| at.ticks() + tolerance >= until)
                    })
                };
                let explains = |period: &DisabledPeriod| {
                    let on = period.to.unwrap_or(i64::MAX);
                    period.from <= closed + tolerance
                        && to <= on.saturating_add(tolerance)
                        && (start >= period.from - tolerance
                            || self.is_full(job, (to, period.from))
                            || waits_for_earlier(period.from)
                            || job.readable_again(closed).is_some_and(|at| at >= period.from)
                            || self
                                .had_fault_anywhere(from - HANDLED_WITHIN, closed + HANDLED_WITHIN))
                };
                let explained = self.clocks_were_stepped() || disabled_periods.iter().any(explains);
                if runs_once || !explained {
                    self.violation(
                        job,
                        format!("HELD {record:?} while its collection was enabled"),
                    );
                }
                let in_pause = |&(from, end): &(Instant, Option<Instant>)| {
                    let end = end.map_or(i64::MAX, Instant::ticks);
                    from.ticks() <= closed + tolerance && to <= end.saturating_add(tolerance)
                };
                if how == Disposition::SkippedPaused
                    && !self.clocks_were_stepped()
                    && !self.evidence.users.pauses.periods.iter().any(in_pause)
                {
                    self.violation(job, format!("HELD {record:?} as paused without a pause"));
                }
            }
            // The edit may have been first.
            Some((Disposition::Superseded, _)) => {}
            _ => {
                let is_inside = |period: &DisabledPeriod| {
                    let on = period.to.unwrap_or(i64::MAX);
                    period.from + CLAIMED_AHEAD + tolerance < from && from + tolerance < on
                };
                if !runs_once
                    && !self.clocks_were_stepped()
                    && disabled_periods.iter().any(is_inside)
                {
                    self.violation(
                        job,
                        format!("HELD {record:?} ran though its collection was disabled"),
                    );
                }
            }
        }
    }

    /// Periods in which the job or its collection was disabled or all jobs were paused.
    fn disabled_periods(&self, job: JobEvidence<'_>) -> Vec<DisabledPeriod> {
        let mut disabled_periods: Vec<DisabledPeriod> = vec![];
        for (path, _, at, state) in &self.evidence.users.switched {
            if *path != job.tracked.path.collection {
                continue;
            }
            let at = at.ticks();
            match (*state, disabled_periods.last_mut()) {
                (CollectionState::Enabled, Some(last)) => {
                    last.to.get_or_insert(at);
                }
                (CollectionState::Enabled, None) => {}
                (_, Some(DisabledPeriod { to: None, .. })) => {}
                _ => disabled_periods.push(DisabledPeriod { from: at, to: None }),
            }
        }
        disabled_periods.extend(job_disabled_periods(job));
        disabled_periods
    }

    fn had_fault_anywhere(&self, from: i64, to: i64) -> bool {
        self.observations.faults.iter().any(|fault| fault.from <= to && fault.to >= from)
    }
}

/// Periods in which the job was disabled.
fn job_disabled_periods(job: JobEvidence<'_>) -> impl Iterator<Item = DisabledPeriod> {
    let versions = &job.tracked.versions;
    let is_off = |version: &Version| version.definition.switch == Switch::Disabled;
    versions.iter().enumerate().filter(move |(_, version)| is_off(version)).map(
        move |(index, version)| {
            let next = versions.iter().skip(index).find(|version| !is_off(version));
            let to = next.map(|version| version.now.ticks());
            DisabledPeriod { from: version.now.ticks(), to }
        },
    )
}
