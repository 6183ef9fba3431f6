//! What targets got: nothing early, nothing twice without need, nothing of an old definition, and
//! retries as they were asked for.

use std::collections::BTreeMap;

use kalends_domain::{ActionRole, Outcome};
use kalends_recurrence::Instant;
use kalends_store::record::Disposition;

use super::policy::Asked;
use super::{Case, Check, RECORDING};
use crate::log::{Call, Kind};
use crate::time::ticks;
use crate::users::Version;

/// One call and as many redeliveries: more of the same attempt are not made.
const SAME_ATTEMPTS_MAX: usize = 4;

/// Calls of one occurrence of one edit.
type Occurrence = (u64, Instant);

impl Check<'_> {
    pub(super) fn calls(&mut self, case: Case<'_>) {
        let mut groups: BTreeMap<Occurrence, [Vec<&Call>; 2]> = BTreeMap::new();
        for call in self.noted.calls.iter().filter(|call| call.job == case.life.number) {
            // What was begun in time is tried again in time, though a clock was set back since.
            let is_first = call.retry == 0 && call.role == ActionRole::Main;
            let excused = self.clocks_were_set()
                && (!is_first
                    || self.is_troubled(call.node, call.started - RECORDING, call.started));
            if call.shown < call.scheduled.ticks() && !excused {
                self.fail(case, format!("EARLY {call:?}"));
            }
            self.is_of_the_present(case, call);
            let group = groups.entry((call.generation, call.scheduled)).or_default();
            group[usize::from(call.role == ActionRole::Error)].push(call);
        }
        let items = case.items();
        for (&(generation, scheduled), [main, error]) in &groups {
            let item = items.iter().find(|item| {
                item.generation == generation && item.from == scheduled && item.may_have_begun()
            });
            let is_manual = case.life.manual.contains(&(scheduled, generation));
            if item.is_none() && !is_manual {
                self.fail(case, format!("PHANTOM calls of {scheduled}, edit {generation}"));
            }
            let Some(version) = case.version(generation) else { continue };
            self.attempts(case, &Asked::of(&version.definition, ActionRole::Main), main);
            self.attempts(case, &Asked::of(&version.definition, ActionRole::Error), error);
            self.error_action(case, version, main, error);
            let row = case.kept.ledger.iter().find(|row| {
                row.generation == generation && row.from == scheduled && row.count == 1
            });
            if let Some(row) = row {
                self.outcome(case, version, row.disposition, main, error);
            }
        }
        for row in
            case.kept.ledger.iter().filter(|row| {
                matches!(row.disposition, Disposition::Completed | Disposition::Failed)
            })
        {
            if !groups.contains_key(&(row.generation, row.from)) {
                self.fail(case, format!("HISTORY {row:?} without a call"));
            }
        }
    }

    /// After an edit was acknowledged no attempt of the old definition starts.
    fn is_of_the_present(&mut self, case: Case<'_>, call: &Call) {
        // What was read on the way is as old as the way is long.
        let on_the_way = 2 * ticks(self.evidence.plan.climate.delay_max);
        let later =
            case.life.versions.iter().filter(|version| version.generation > call.generation);
        let edits = later.map(|version| version.acknowledged).chain(case.life.gone);
        let switched = self.evidence.users.switched.iter();
        let mut switched = switched.filter(|(path, ..)| *path == case.life.path.collection);
        let switch = switched.rfind(|(_, at, ..)| *at <= call.started);
        let off = switch.filter(|(.., state)| *state != kalends_domain::CollectionState::Enabled);
        let stale = edits.chain(off.map(|(_, at, ..)| *at));
        let since = stale.filter(|&at| at + on_the_way < call.started).min();
        if let Some(since) = since
            && !self.is_troubled(call.node, since - RECORDING, call.started)
        {
            let at = Instant::from_ticks(since);
            self.fail(case, format!("STALE-DEF {call:?}, edited or switched off at {at:?}"));
        }
    }

    fn attempts(&mut self, case: Case<'_>, asked: &Asked, calls: &[&Call]) {
        if calls.iter().any(|call| call.retry > asked.count) {
            let call = calls.last();
            self.fail(case, format!("RETRY more than {} retries: {call:?}", asked.count));
        }
        for call in calls {
            let same = calls.iter().filter(|other| other.retry == call.retry).count();
            if same > SAME_ATTEMPTS_MAX {
                self.fail(case, format!("RETRY {same} times the same attempt: {call:?}"));
                break;
            }
        }
        for (first, second) in calls.iter().zip(calls.iter().skip(1)) {
            self.pair(case, asked, first, second);
        }
    }

    /// Two attempts of one action of one occurrence, one after the other.
    fn pair(&mut self, case: Case<'_>, asked: &Asked, first: &Call, second: &Call) {
        let until = first.answered.map_or(second.started, |(at, _)| at + RECORDING);
        let excused = self.is_troubled(first.node, first.started, until)
            || self.is_troubled(second.node, second.started - RECORDING, second.started);
        match (first.answered, second.retry.checked_sub(first.retry)) {
            (Some((_, Outcome::Indeterminate)), Some(0)) => {}
            (_, Some(0)) if excused => {}
            (Some((at, Outcome::Failed { .. } | Outcome::Indeterminate)), Some(1)) => {
                let by_target = match first.answered {
                    Some((_, Outcome::Failed { retry_after })) => retry_after,
                    _ => None,
                };
                let wait = ticks(asked.wait(second.retry, by_target));
                // Two nodes know the time of the store as well as their ways to it let them.
                let apart = 2 * ticks(self.evidence.plan.climate.delay_max);
                if second.started + apart < at + wait && !self.clocks_were_set() {
                    self.fail(case, format!("RETRY too soon: {first:?}, then {second:?}"));
                }
            }
            (_, Some(1)) if excused => {}
            _ => self.fail(case, format!("DUP {first:?}, then {second:?}")),
        }
    }

    fn error_action(&mut self, case: Case<'_>, version: &Version, main: &[&Call], error: &[&Call]) {
        let Some(call) = error.first() else { return };
        let asked = Asked::of(&version.definition, ActionRole::Main);
        let tried = main.iter().map(|call| call.retry).max();
        // An attempt in which one process after the other died is given up.
        let deaths = self.noted.troubles.iter().filter(|trouble| trouble.kind == Kind::Down);
        let died = deaths.count() > SAME_ATTEMPTS_MAX;
        let gave_up =
            died || tried.is_some_and(|tried| tried >= asked.count || asked.age_max.is_some());
        if version.definition.action.error_action.is_none() || !gave_up {
            self.fail(case, format!("RETRY the error action came too soon: {call:?}"));
        }
    }

    /// Whether the ledger says what the targets saw.
    fn outcome(
        &mut self,
        case: Case<'_>,
        version: &Version,
        how: Disposition,
        main: &[&Call],
        error: &[&Call],
    ) {
        let took = |call: &&&Call| matches!(call.answered, Some((_, Outcome::Succeeded)));
        let taken: Vec<_> = main.iter().filter(took).collect();
        let last = main.last();
        match how {
            Disposition::Completed if taken.is_empty() => {
                self.fail(case, format!("HISTORY completed, and no target took it: {last:?}"));
            }
            Disposition::Completed if !error.is_empty() => {
                self.fail(case, format!("HISTORY completed after its error action: {last:?}"));
            }
            Disposition::Failed => {
                let lost = |call: &&&&Call| {
                    let until = call.answered.map_or(call.started, |(at, _)| at + RECORDING);
                    self.is_troubled(call.node, call.started, until)
                };
                if taken.iter().any(|call| !lost(&call)) {
                    self.fail(case, format!("HISTORY failed, and a target took it: {last:?}"));
                }
                let asked = Asked::of(&version.definition, ActionRole::Main);
                let tried = main.iter().map(|call| call.retry).max().unwrap_or(0);
                let troubled = main.iter().any(|call| {
                    self.is_troubled(call.node, call.started, call.started + RECORDING)
                });
                if tried < asked.count && asked.age_max.is_none() && !troubled {
                    self.fail(case, format!("RETRY gave up after {tried} retries: {last:?}"));
                }
                let wants_error = version.definition.action.error_action.is_some();
                if wants_error && error.is_empty() {
                    self.fail(case, format!("RETRY no error action: {last:?}"));
                }
            }
            _ => {}
        }
    }
}
