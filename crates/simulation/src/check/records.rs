//! History and counters say what happened, no more and no less.

use kalends_domain::{ActionRole, AttemptStatus, HistoryEntry, Outcome};
use kalends_store::record::Disposition;

use super::{Case, Check, RECORDING};
use crate::log::Call;

/// The longest way to the store there is, in ticks.
const WAY_MAX: i64 = 70_000_000;

impl Check<'_> {
    pub(super) fn records(&mut self, case: Case<'_>) {
        let history = &case.kept.history;
        let made = |entry: &&HistoryEntry| entry.status != AttemptStatus::Postponed;
        let calls: Vec<_> =
            self.noted.calls.iter().filter(|call| call.job == case.life.number).collect();
        let entries: Vec<_> = history.iter().filter(made).collect();
        self.entries_have_calls(case, &entries, &calls);
        self.calls_have_entries(case, &entries, &calls);
        self.counters(case, &entries);
        self.rows(case, history);
    }

    fn entries_have_calls(&mut self, case: Case<'_>, entries: &[&HistoryEntry], calls: &[&Call]) {
        for entry in entries {
            let of_entry: Vec<_> = calls.iter().filter(|call| self.is_of(entry, call)).collect();
            let says = |call: &Call| match (entry.status, call.answered) {
                (AttemptStatus::Completed, Some((_, outcome))) => outcome == Outcome::Succeeded,
                (AttemptStatus::Failed, Some((_, outcome))) => outcome != Outcome::Succeeded,
                _ => false,
            };
            let found = of_entry.iter().find(|call| says(call)).or(of_entry.first());
            let fits = match (entry.status, found) {
                (_, Some(call)) => says(call),
                // An attempt in which processes died again and again is given up without a call.
                (AttemptStatus::Failed, None) => {
                    let alike = |call: &&&Call| {
                        call.scheduled == entry.expected && call.retry == entry.retry
                    };
                    calls.iter().filter(alike).any(|call| {
                        self.is_troubled(call.node, call.started, call.started + RECORDING * 100)
                    }) || self.noted.troubles.len() > 3
                }
                _ => false,
            };
            if !fits {
                self.fail(case, format!("HISTORY {entry:?}, but the call was {found:?}"));
            }
            let same = |other: &&&HistoryEntry| {
                other.started == entry.started
                    && other.expected == entry.expected
                    && (other.role, other.retry) == (entry.role, entry.retry)
            };
            // After a clock was set back an edit may bring an instant back too.
            let (made, noted) = (of_entry.len(), entries.iter().filter(same).count());
            if found.is_some() && noted > made {
                self.fail(case, format!("HISTORY twice: {entry:?}"));
            }
        }
    }

    fn calls_have_entries(&mut self, case: Case<'_>, entries: &[&HistoryEntry], calls: &[&Call]) {
        let Some(last) = self.noted.calls.iter().map(|call| call.started).max() else { return };
        let end = case.life.gone.unwrap_or(last);
        for call in calls {
            let Some((at, outcome)) = call.answered else { continue };
            let until = at + RECORDING;
            // What is answered indeterminately is made again, and has no entry of its own.
            let is_sure = outcome != Outcome::Indeterminate
                && until < end
                && !self.is_troubled(call.node, call.started, until);
            if is_sure && !entries.iter().any(|entry| self.is_of(entry, call)) {
                self.fail(case, format!("HISTORY no entry for {call:?}"));
            }
        }
    }

    /// Whether an entry can be of a call. A node knows the time of the store as well as the way to
    /// it lets it.
    fn is_of(&self, entry: &HistoryEntry, call: &Call) -> bool {
        let apart = (call.shown - entry.started.ticks()).abs();
        call.scheduled == entry.expected
            && (call.role, call.retry) == (entry.role, entry.retry)
            && (apart <= WAY_MAX || self.clocks_were_set())
    }

    fn counters(&mut self, case: Case<'_>, entries: &[&HistoryEntry]) {
        let state = &case.kept.record.state;
        let main = entries.iter().filter(|entry| entry.role == ActionRole::Main);
        let failed = main.clone().filter(|entry| entry.status == AttemptStatus::Failed);
        let (main, failed) = (main.count() as u64, failed.count() as u64);
        if (state.executions, state.failures) != (main, failed) {
            let kept = (state.executions, state.failures);
            self.fail(case, format!("COUNT counters are {kept:?}, history has {main}, {failed}"));
        }
        let rows = |how: Disposition| {
            case.kept.ledger.iter().filter(|row| row.disposition == how).count() as u64
        };
        let (least, most) = (rows(Disposition::Failed), rows(Disposition::Superseded));
        let most = least + most + case.kept.open.len() as u64;
        if !(least..=most).contains(&state.faulted) {
            let kept = state.faulted;
            self.fail(case, format!("COUNT faulted is {kept}, records say {least} to {most}"));
        }
    }

    fn rows(&mut self, case: Case<'_>, history: &[HistoryEntry]) {
        for row in &case.kept.ledger {
            let of_row = |entry: &&HistoryEntry, status: AttemptStatus| {
                entry.expected == row.from && entry.status == status
            };
            let count = |status| history.iter().filter(|entry| of_row(entry, status)).count();
            let fits = match row.disposition {
                Disposition::Completed => count(AttemptStatus::Completed) > 0,
                Disposition::Failed => count(AttemptStatus::Failed) > 0,
                Disposition::Missed | Disposition::SkippedOverlap => {
                    count(AttemptStatus::Postponed) > 0
                }
                // What an edit closes has no entry.
                Disposition::SkippedDisabled => {
                    count(AttemptStatus::Postponed) > 0
                        || case.life.versions.iter().any(|version| version.now == row.closed)
                }
                _ => true,
            };
            if !fits {
                self.fail(case, format!("HISTORY no entry for {row:?}"));
            }
        }
    }
}
