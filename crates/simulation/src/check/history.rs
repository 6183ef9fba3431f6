//! Compares history entries, counters and ledger rows with the calls that targets received.

use kalends_domain::{ActionRole, AttemptStatus, HistoryEntry, Outcome, REDELIVERIES_MAX};
use kalends_store::record::Disposition;

use super::{Check, JobEvidence, RECORDING, is_off};
use crate::recorder::Call;

/// Longest link delay of any scenario, in ticks (7 s).
const DELAY_MAX: i64 = 70_000_000;

impl Check<'_> {
    pub(super) fn history(&mut self, job: JobEvidence<'_>) {
        let history = &job.stored.history;
        let made = |entry: &&HistoryEntry| entry.status != AttemptStatus::Postponed;
        let calls: Vec<_> =
            self.observations.calls.iter().filter(|call| call.job == job.tracked.number).collect();
        let entries: Vec<_> = history.iter().filter(made).collect();
        self.entries_have_calls(job, &entries, &calls);
        self.calls_have_entries(job, &entries, &calls);
        self.counters(job, &entries);
        self.rows(job, history);
    }

    fn entries_have_calls(
        &mut self,
        job: JobEvidence<'_>,
        entries: &[&HistoryEntry],
        calls: &[&Call],
    ) {
        for entry in entries {
            let of_entry: Vec<_> = calls.iter().filter(|call| self.matches(entry, call)).collect();
            let says = |call: &Call| match (entry.status, call.response) {
                (AttemptStatus::Completed, Some((_, outcome))) => outcome == Outcome::Succeeded,
                (AttemptStatus::Failed, Some((_, outcome))) => outcome != Outcome::Succeeded,
                _ => false,
            };
            let found = of_entry.iter().find(|call| says(call)).or(of_entry.first());
            // An attempt that was given up has an entry and no response. If clocks were stepped, its
            // calls match the entry, because start times cannot be compared.
            let is_given_up = self.clocks_were_stepped()
                && entry.status == AttemptStatus::Failed
                && of_entry.len() > REDELIVERIES_MAX as usize
                && of_entry.iter().all(|call| call.response.is_none());
            let fits = match (entry.status, found) {
                (_, Some(call)) => says(call) || is_given_up,
                // An attempt whose process crashed too often fails without another call.
                (AttemptStatus::Failed, None) => {
                    let is_same_attempt = |call: &&&Call| {
                        call.scheduled == entry.expected && call.retry == entry.retry
                    };
                    calls.iter().filter(is_same_attempt).any(|call| {
                        self.had_fault(call.node, call.started, call.started + RECORDING * 100)
                    }) || self.observations.faults.len() > 3
                }
                _ => false,
            };
            if !fits {
                self.violation(job, format!("HISTORY {entry:?}, but the call was {found:?}"));
            }
            let same = |other: &&&HistoryEntry| {
                other.started == entry.started
                    && other.expected == entry.expected
                    && (other.role, other.retry) == (entry.role, entry.retry)
            };
            // After a clock was stepped back, an edit can make a scheduled time due again.
            let (made, recorded) = (of_entry.len(), entries.iter().filter(same).count());
            if found.is_some() && recorded > made {
                self.violation(job, format!("HISTORY duplicate entry: {entry:?}"));
            }
        }
    }

    fn calls_have_entries(
        &mut self,
        job: JobEvidence<'_>,
        entries: &[&HistoryEntry],
        calls: &[&Call],
    ) {
        let Some(last) = self.observations.calls.iter().map(|call| call.started).max() else {
            return;
        };
        let end = job.tracked.deleted_at.unwrap_or(last);
        for call in calls {
            let Some((at, outcome)) = call.response else { continue };
            let until = at + RECORDING;
            // An indeterminate attempt is redelivered and has no entry of its own.
            let is_sure = outcome != Outcome::Indeterminate
                && until < end
                && !self.had_fault(call.node, call.started, until);
            if is_sure && !entries.iter().any(|entry| self.matches(entry, call)) {
                self.violation(job, format!("HISTORY no entry for {call:?}"));
            }
        }
    }

    /// Whether an entry may describe a call. Start times differ by up to the link delay.
    fn matches(&self, entry: &HistoryEntry, call: &Call) -> bool {
        let difference = (call.started_by_store - entry.started.ticks()).abs();
        call.scheduled == entry.expected
            && (call.role, call.retry) == (entry.role, entry.retry)
            && (difference <= DELAY_MAX || self.clocks_were_stepped())
    }

    fn counters(&mut self, job: JobEvidence<'_>, entries: &[&HistoryEntry]) {
        let state = &job.stored.record.state;
        let main = entries.iter().filter(|entry| entry.role == ActionRole::Main);
        let failed = main.clone().filter(|entry| entry.status == AttemptStatus::Failed);
        let (main, failed) = (main.count() as u64, failed.count() as u64);
        if (state.executions, state.failures) != (main, failed) {
            let kept = (state.executions, state.failures);
            self.violation(
                job,
                format!("COUNT counters are {kept:?}, history has {main}, {failed}"),
            );
        }
        let rows = |how: Disposition| {
            job.stored.ledger.iter().filter(|row| row.disposition == how).count() as u64
        };
        let (least, most) = (rows(Disposition::Failed), rows(Disposition::Superseded));
        let most = least + most + job.stored.open.len() as u64;
        if !(least..=most).contains(&state.faulted) {
            let kept = state.faulted;
            self.violation(job, format!("COUNT faulted is {kept}, records say {least} to {most}"));
        }
        if state.consecutive_failures > least {
            let kept = state.consecutive_failures;
            self.violation(job, format!("COUNT consecutive failures are {kept} of {least}"));
        }
    }

    fn rows(&mut self, job: JobEvidence<'_>, history: &[HistoryEntry]) {
        for row in &job.stored.ledger {
            let of_row = |entry: &&HistoryEntry, status: AttemptStatus| {
                entry.expected == row.from && entry.status == status
            };
            let count = |status| history.iter().filter(|entry| of_row(entry, status)).count();
            let fits = match row.disposition {
                Disposition::Completed => count(AttemptStatus::Completed) > 0,
                Disposition::Failed => count(AttemptStatus::Failed) > 0,
                Disposition::Missed
                | Disposition::SkippedOverlap
                | Disposition::SkippedByRequest => count(AttemptStatus::Postponed) > 0,
                // Occurrences closed by an edit have no history entry.
                how if is_off(how) => {
                    count(AttemptStatus::Postponed) > 0
                        || job.tracked.versions.iter().any(|version| version.now == row.closed)
                }
                _ => true,
            };
            if !fits {
                self.violation(job, format!("HISTORY no entry for {row:?}"));
            }
        }
    }
}
