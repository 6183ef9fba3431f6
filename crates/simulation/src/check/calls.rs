//! Checks the requests that targets received: none early, none repeated without a fault, none of a
//! replaced definition, and retries according to the policy.

use std::collections::BTreeMap;

use kalends_domain::{ActionRole, Outcome};
use kalends_recurrence::Instant;
use kalends_store::record::{Cause, Disposition};

use super::retry_policy::ExpectedRetries;
use super::{Check, JobEvidence, RECORDING};
use crate::recorder::{Call, FaultKind};
use crate::time::ticks;
use crate::users::Version;

/// Calls of one attempt: the first one and three redeliveries.
const SAME_ATTEMPTS_MAX: usize = 4;

/// Ticks (200 ms) after which gate states are too old to start an attempt.
const GATE_AGE_MAX: i64 = 2_000_000;

/// Generation and scheduled time.
type Occurrence = (u64, Instant);

impl Check<'_> {
    pub(super) fn calls(&mut self, job: JobEvidence<'_>) {
        let mut groups: BTreeMap<Occurrence, [Vec<&Call>; 2]> = BTreeMap::new();
        for call in self.observations.calls.iter().filter(|call| call.job == job.tracked.number) {
            // A retry keeps its due time when a clock is stepped back after the first attempt.
            let is_first = call.retry == 0 && call.role == ActionRole::Main;
            let excused = self.clocks_were_stepped()
                && (!is_first || self.had_fault(call.node, call.started - RECORDING, call.started));
            if call.started_by_store < call.scheduled.ticks() && !excused {
                self.violation(job, format!("EARLY {call:?}"));
            }
            self.check_definition(job, call);
            let group = groups.entry((call.generation, call.scheduled)).or_default();
            group[usize::from(call.role == ActionRole::Error)].push(call);
        }
        let records = job.records();
        for (&(generation, scheduled), [main, error]) in &groups {
            let record = records.iter().find(|record| {
                record.generation == generation
                    && record.from == scheduled
                    && record.may_have_begun()
            });
            let is_manual = job.tracked.manual.contains(&(scheduled, generation));
            if record.is_none() && !is_manual {
                self.violation(
                    job,
                    format!("PHANTOM calls of {scheduled}, generation {generation}"),
                );
            }
            if let Some(first) = main.first().filter(|_| !is_manual) {
                self.held_occurrences(job, scheduled, first);
            }
            let Some(version) = job.version(generation) else { continue };
            // The policies of several definitions decided about a run that was edited.
            if self.was_edited(job, generation, main.iter().chain(error)) {
                continue;
            }
            self.attempts(job, &ExpectedRetries::of(&version.definition, ActionRole::Main), main);
            self.attempts(job, &ExpectedRetries::of(&version.definition, ActionRole::Error), error);
            self.error_action(job, version, main, error);
            let row = job.stored.ledger.iter().find(|row| {
                row.generation == generation && row.from == scheduled && row.count == 1
            });
            if let Some(row) = row {
                self.outcome(job, version, row.disposition, main, error);
            }
        }
        for row in
            job.stored.ledger.iter().filter(|row| {
                matches!(row.disposition, Disposition::Completed | Disposition::Failed)
            })
        {
            if !groups.contains_key(&(row.generation, row.from)) {
                self.violation(job, format!("HISTORY {row:?} without a call"));
            }
        }
    }

    /// Every manual run that was acknowledged is open, completed or failed. No edit supersedes it.
    pub(super) fn manual_runs(&mut self, job: JobEvidence<'_>) {
        for &(at, generation) in &job.tracked.manual {
            let rows = job.stored.ledger.iter().filter(|row| {
                (row.cause, row.from, row.generation) == (Cause::Manual, at, generation)
            });
            let open = job.stored.open.iter().filter(|run| {
                (run.cause, run.scheduled, run.generation) == (Cause::Manual, at, generation)
            });
            let closed: Vec<_> = rows.map(|row| row.disposition).collect();
            let has_ended = match closed.as_slice() {
                [] => open.count() == 1,
                [how] => matches!(how, Disposition::Completed | Disposition::Failed),
                _ => false,
            };
            if !has_ended {
                self.violation(job, format!("LOST manual run of {at}: closed as {closed:?}"));
            }
        }
    }

    /// Whether the job was edited between the claim of a run and the last response to its calls.
    fn was_edited<'c>(
        &self,
        job: JobEvidence<'_>,
        generation: u64,
        calls: impl Iterator<Item = &'c &'c Call>,
    ) -> bool {
        let ended = calls.map(|call| call.response.map_or(i64::MAX, |(at, _)| at)).max();
        let versions = &job.tracked.versions;
        let later = versions.iter().find(|version| version.generation > generation);
        later
            .zip(ended)
            .is_some_and(|(later, ended)| later.acknowledged <= ended.saturating_add(RECORDING))
    }

    /// After an edit was acknowledged, no attempt of the old definition starts.
    fn check_definition(&mut self, job: JobEvidence<'_>, call: &Call) {
        // A read is up to one round trip old, and gate states that took longer are read again.
        let delay_max = self.evidence.scenario.default_link_faults.delay_max;
        let round_trip = (2 * ticks(delay_max)).max(GATE_AGE_MAX);
        let versions = &job.tracked.versions;
        let used =
            versions.iter().rposition(|version| version.definitions().contains(&call.definition));
        if used.is_none() {
            self.violation(job, format!("PHANTOM definition of {call:?}"));
        }
        let is_manual = job.tracked.manual.contains(&(call.scheduled, call.generation));
        let later = versions.iter().enumerate().filter(|(index, version)| {
            let supersedes = version.moves && !is_manual;
            used.is_none_or(|used| *index > used)
                || supersedes && version.generation > call.generation
        });
        let later = later.map(|(_, version)| version);
        let edits = later.map(|version| version.acknowledged).chain(job.tracked.deleted_at);
        let switched = self.evidence.users.switched.iter();
        let mut switched = switched.filter(|(path, ..)| *path == job.tracked.path.collection);
        let switch = switched.rfind(|(_, at, ..)| *at <= call.started);
        let off = switch.filter(|(.., state)| *state != kalends_domain::CollectionState::Enabled);
        let stale = edits.chain(off.map(|(_, at, ..)| *at));
        let since = stale.filter(|&at| at + round_trip < call.started).min();
        if let Some(since) = since
            && !self.had_fault_other_than_slow_gates(call.node, since - RECORDING, call.started)
        {
            let at = Instant::from_ticks(since);
            self.violation(job, format!("STALE-DEF {call:?}, edited or disabled at {at:?}"));
        }
    }

    fn attempts(&mut self, job: JobEvidence<'_>, expected: &ExpectedRetries, calls: &[&Call]) {
        if calls.iter().any(|call| call.retry > expected.count) {
            let call = calls.last();
            self.violation(job, format!("RETRY more than {} retries: {call:?}", expected.count));
        }
        for call in calls {
            let same = calls.iter().filter(|other| other.retry == call.retry).count();
            if same > SAME_ATTEMPTS_MAX {
                self.violation(job, format!("RETRY same attempt {same} times: {call:?}"));
                break;
            }
        }
        for (first, second) in calls.iter().zip(calls.iter().skip(1)) {
            self.pair(job, expected, first, second);
        }
    }

    /// Checks two consecutive attempts of one action of one occurrence.
    fn pair(
        &mut self,
        job: JobEvidence<'_>,
        expected: &ExpectedRetries,
        first: &Call,
        second: &Call,
    ) {
        let until = first.response.map_or(second.started, |(at, _)| at + RECORDING);
        let excused = self.had_fault(first.node, first.started, until)
            || self.had_fault(second.node, second.started - RECORDING, second.started);
        match (first.response, second.retry.checked_sub(first.retry)) {
            (Some((_, Outcome::Indeterminate)), Some(0)) => {}
            (_, Some(0)) if excused => {}
            (Some((at, Outcome::Failed { .. } | Outcome::Indeterminate)), Some(1)) => {
                let retry_after = match first.response {
                    Some((_, Outcome::Failed { retry_after })) => retry_after,
                    _ => None,
                };
                let wait = ticks(expected.wait(second.retry, retry_after));
                // The link delay limits how precisely a node knows the store's time.
                let tolerance = 2 * ticks(self.evidence.scenario.default_link_faults.delay_max);
                if second.started + tolerance < at + wait && !self.clocks_were_stepped() {
                    self.violation(job, format!("RETRY too soon: {first:?}, then {second:?}"));
                }
            }
            (_, Some(1)) if excused => {}
            _ => self.violation(job, format!("DUP {first:?}, then {second:?}")),
        }
    }

    fn error_action(
        &mut self,
        job: JobEvidence<'_>,
        version: &Version,
        main: &[&Call],
        error: &[&Call],
    ) {
        let Some(call) = error.first() else { return };
        let expected = ExpectedRetries::of(&version.definition, ActionRole::Main);
        let retries = main.iter().map(|call| call.retry).max();
        // An attempt fails after its process crashed too often.
        let crashes = self.observations.faults.iter().filter(|fault| fault.kind == FaultKind::Down);
        let crashed = crashes.count() > SAME_ATTEMPTS_MAX;
        let is_exhausted = crashed
            || retries
                .is_some_and(|retries| retries >= expected.count || expected.age_max.is_some());
        if version.definition.action.error_action.is_none() || !is_exhausted {
            self.violation(job, format!("RETRY error action started too early: {call:?}"));
        }
    }

    /// Compares the disposition in the ledger with the responses of the targets.
    fn outcome(
        &mut self,
        job: JobEvidence<'_>,
        version: &Version,
        how: Disposition,
        main: &[&Call],
        error: &[&Call],
    ) {
        let succeeded = |call: &&&Call| matches!(call.response, Some((_, Outcome::Succeeded)));
        let successes: Vec<_> = main.iter().filter(succeeded).collect();
        let last = main.last();
        match how {
            Disposition::Completed if successes.is_empty() => {
                self.violation(
                    job,
                    format!("HISTORY completed without a successful call: {last:?}"),
                );
            }
            Disposition::Completed if !error.is_empty() => {
                self.violation(job, format!("HISTORY completed after its error action: {last:?}"));
            }
            Disposition::Failed => {
                let lost = |call: &&&&Call| {
                    let until = call.response.map_or(call.started, |(at, _)| at + RECORDING);
                    self.had_fault(call.node, call.started, until)
                };
                if successes.iter().any(|call| !lost(&call)) {
                    self.violation(
                        job,
                        format!("HISTORY failed after a successful call: {last:?}"),
                    );
                }
                let expected = ExpectedRetries::of(&version.definition, ActionRole::Main);
                let retries = main.iter().map(|call| call.retry).max().unwrap_or(0);
                let had_fault = main
                    .iter()
                    .any(|call| self.had_fault(call.node, call.started, call.started + RECORDING));
                if retries < expected.count && expected.age_max.is_none() && !had_fault {
                    self.violation(job, format!("RETRY stopped after {retries} retries: {last:?}"));
                }
                // An edit that removes the error action closes the run.
                let mut later = job.tracked.versions.iter();
                let has_error_action = later.all(|later| {
                    later.generation < version.generation
                        || later.definition.action.error_action.is_some()
                });
                if has_error_action && error.is_empty() {
                    self.violation(job, format!("RETRY no error action: {last:?}"));
                }
            }
            _ => {}
        }
    }
}
