//! Every occurrence has exactly one record: the records of a schedule lie side by side like tiles,
//! without a gap and without an overlap.

use kalends_domain::{Lifecycle, MissedPolicy, Overlap, Switch};
use kalends_recurrence::{Instant, Rule};
use kalends_store::record::Disposition;

use super::{Case, Check, Item};
use crate::log::Kind;
use crate::time::ticks;
use crate::users::Version;

/// What is due for longer than this in a healthy world is stuck.
const STUCK_AFTER: i64 = 45 * 10_000_000;

/// No retry that is asked for here is further away.
const RETRY_WITHIN: i64 = 2 * 3_600 * 10_000_000;

/// How many occurrences have used up some of the count: at least, and at most.
#[derive(Clone, Copy, Default)]
struct Used {
    least: u64,
    most: u64,
}

/// Where a schedule stands after its records.
#[derive(Clone, Copy)]
struct Stand {
    next: Option<Instant>,
    /// The same, whether the count lets it come or not.
    uncounted: Option<Instant>,
    used: Used,
}

/// A version and where its records end.
type Earlier<'a> = (&'a Version, Stand);

impl Check<'_> {
    pub(super) fn tiles(&mut self, case: Case<'_>) {
        let items = case.items();
        let known = |item: &&Item| case.version(item.generation).is_some();
        if let Some(item) = items.iter().find(|item| !known(item)) {
            self.fail(case, format!("PHANTOM a record of an edit that never was: {item:?}"));
        }
        let mut used = Used::default();
        let mut earlier: Option<Earlier<'_>> = None;
        let versions = &case.life.versions;
        for (index, version) in versions.iter().enumerate() {
            if version.restarts {
                used = Used::default();
            }
            let own: Vec<_> = items
                .iter()
                .filter(|item| item.generation == version.generation)
                .copied()
                .collect();
            let Some(rule) = case.rule(version) else {
                self.fail(case, "BROKEN the rule of a stored job");
                continue;
            };
            let first = first_of(version, &rule, earlier);
            let stand = self.lay(case, version, &rule, &own, (first, used));
            used = stand.used;
            earlier = Some((version, stand));
            for item in &own {
                self.item(case, version, versions.get(index + 1), &rule, item, &items);
                match (version.definition.switch, versions.get(index + 1)) {
                    (Switch::Enabled, _) => self.off(case, version, item),
                    (Switch::Disabled, edit) => self.switched_off(case, edit, item),
                }
            }
            match versions.get(index + 1) {
                Some(edit) => {
                    let passed = stand.next.filter(|&next| next <= edit.now);
                    if let Some(next) = passed.filter(|_| !keeps_waiting(version, edit)) {
                        let now = edit.now;
                        self.fail(case, format!("LOST {next} was passed over by an edit at {now}"));
                    }
                }
                None => self.end(case, version, &stand, &own),
            }
        }
    }

    /// Lays the records of one version side by side.
    fn lay(
        &mut self,
        case: Case<'_>,
        version: &Version,
        rule: &Rule,
        items: &[Item],
        (first, mut used): (Option<Instant>, Used),
    ) -> Stand {
        let recurrence = version.definition.recurrence.as_ref();
        let count = recurrence.and_then(|recurrence| recurrence.count).map(i64::unsigned_abs);
        // What runs once has a count of one.
        let count = if recurrence.is_none() { Some(1) } else { count };
        let mut next = first;
        let generation = version.generation;
        for item in items {
            self.occurrences += item.count;
            let Item { from, to, .. } = *item;
            match next {
                _ if count.is_some_and(|count| used.least >= count) => {
                    self.fail(case, format!("COUNT {from} of edit {generation} is beyond it"));
                }
                Some(next) if next < from => {
                    self.fail(
                        case,
                        format!("LOST {next} of edit {generation}: no record before {from}"),
                    );
                }
                Some(next) if next == from => {}
                _ => self.fail(
                    case,
                    format!("HISTORY {item:?}: recorded twice, or no occurrence (next {next:?})"),
                ),
            }
            if item.count > 1 || from != to {
                let before = Instant::from_ticks(from.ticks() - 1).unwrap_or(Instant::MIN);
                let really = rule.count_between(before, to);
                if really != item.count {
                    self.fail(case, format!("HISTORY {item:?} stands for {really} occurrences"));
                }
            }
            let is_stretch = item.count > 1;
            let superseded = matches!(item.closed, Some((Disposition::Superseded, _)));
            if item.may_have_begun() && !is_stretch {
                used.most += 1;
                used.least += u64::from(!superseded);
            }
            next = match recurrence {
                None => None,
                Some(_) => rule.next_after(to).filter(|&next| next > to),
            };
        }
        let uncounted = next;
        if count.is_some_and(|count| used.most >= count) {
            // Where it is not sure that the count is used up, the job may go on or not.
            let sure = count.is_some_and(|count| used.least >= count);
            let record = &case.kept.record;
            let goes_on = record.job.generation == generation && record.state.due.is_some();
            if sure || !goes_on {
                next = None;
            }
        }
        Stand { next, uncounted, used }
    }

    /// Of a job that is switched off nothing runs by itself, and the edit that ends it closes what
    /// has passed.
    fn switched_off(&mut self, case: Case<'_>, edit: Option<&Version>, item: &Item) {
        let closed = item.closed.filter(|(how, _)| *how == Disposition::SkippedDisabled);
        let by_edit = |(_, at): (Disposition, Instant)| {
            edit.is_some_and(|edit| edit.now == at) && item.to <= at
        };
        if !closed.is_some_and(by_edit) {
            self.fail(case, format!("HELD {item:?} while the job was off, edited by {edit:?}"));
        }
    }

    /// Whether a record may say what it says.
    fn item(
        &mut self,
        case: Case<'_>,
        version: &Version,
        edit: Option<&Version>,
        rule: &Rule,
        item: &Item,
        all: &[Item],
    ) {
        let Some((how, closed)) = item.closed else { return };
        let extensions = &version.definition.extensions;
        match how {
            Disposition::Superseded if edit.is_none() => {
                self.fail(case, format!("HISTORY {item:?} is superseded, but there was no edit"));
            }
            Disposition::SkippedOverlap => {
                // What is read is as old as the way is long, and so is what a node knows of the time.
                let apart = 8 * ticks(self.evidence.plan.climate.delay_max);
                let in_the_way = |other: &&Item| {
                    other.may_have_begun()
                        && other.from < item.from
                        && other.closed.is_none_or(|(_, at)| at.ticks() + apart >= closed.ticks())
                };
                let needed = match extensions.overlap.unwrap_or_default() {
                    Overlap::Skip => 1,
                    Overlap::QueueOne => 2,
                    Overlap::Allow => usize::MAX,
                };
                let found = all.iter().filter(in_the_way).count();
                if found < needed && !self.clocks_were_set() {
                    self.fail(case, format!("HISTORY {item:?}: only {found} were in its way"));
                }
            }
            Disposition::Missed => self.missed(case, version, rule, item, closed),
            _ => {}
        }
    }

    fn missed(
        &mut self,
        case: Case<'_>,
        version: &Version,
        rule: &Rule,
        item: &Item,
        closed: Instant,
    ) {
        if version.definition.recurrence.is_none() {
            self.fail(case, format!("MISSED {item:?}: what runs once runs however late"));
        }
        let asked = version.definition.extensions.missed_runs.as_ref();
        let policy = asked.map_or(MissedPolicy::Last, |asked| asked.policy);
        let within = asked.and_then(|asked| asked.within.as_ref()).map(|within| *within.value());
        if policy == MissedPolicy::All && within.is_none() {
            self.fail(case, format!("MISSED {item:?}, though all are made up for"));
        }
        let is_newest = rule.next_after(item.to).is_none_or(|next| next > closed);
        let is_young = within.is_none_or(|within| item.to.saturating_add(within) >= closed);
        if policy == MissedPolicy::Last && is_newest && is_young && item.to <= closed {
            self.fail(case, format!("MISSED {item:?}: the newest, and young enough to run"));
        }
        let minute = 600_000_000;
        let (from, to) = (item.from.ticks() - minute, closed.ticks() + minute);
        let explained = self.clocks_were_set()
            || self.noted.troubles.iter().any(|trouble| {
                trouble.from <= to && trouble.to >= from && trouble.kind != Kind::Step
            });
        if !explained {
            self.fail(case, format!("MISSED {item:?}, but everything worked"));
        }
    }

    /// Whether something ran shortly before the end.
    fn is_busy(&self, case: Case<'_>) -> bool {
        let calls = self.noted.calls.iter().filter(|call| call.job == case.life.number);
        calls
            .map(|call| call.shown)
            .max()
            .is_some_and(|last| last >= self.evidence.ended.ticks() - 2 * STUCK_AFTER)
    }

    /// Where a job stands in the end.
    fn end(&mut self, case: Case<'_>, version: &Version, stand: &Stand, items: &[Item]) {
        let state = &case.kept.record.state;
        if case.kept.record.job.definition != version.definition
            || case.kept.record.job.generation != version.generation
        {
            self.fail(case, "LOST an edit that was acknowledged");
            return;
        }
        if case.life.gone.is_some() {
            return;
        }
        let is_enabled = version.definition.switch == Switch::Enabled;
        if state.due != stand.next {
            let (kept, next) = (state.due, stand.next);
            self.fail(case, format!("LOST it goes on at {kept:?} instead of {next:?}"));
        }
        let has_open = items.iter().any(|item| item.closed.is_none());
        if is_enabled && state.lifecycle == Lifecycle::Active && stand.next.is_none() && !has_open {
            self.fail(case, "STUCK it looks enabled, and nothing will ever run");
        }
        if state.lifecycle != Lifecycle::Active && (stand.next.is_some() || has_open) {
            self.fail(case, format!("COUNT it is {:?}, and not all has run", state.lifecycle));
        }
        let collections = &self.evidence.users.switched;
        let last = collections.iter().rev().find(|(path, ..)| *path == case.life.path.collection);
        if last.is_none_or(|(_, _, _, state)| *state != kalends_domain::CollectionState::Enabled) {
            return;
        }
        let ended = self.evidence.ended.ticks();
        let makes_up = version.definition.extensions.missed_runs.as_ref();
        let makes_up = makes_up.is_some_and(|missed| missed.policy == MissedPolicy::All);
        let late = stand.next.filter(|due| is_enabled && due.ticks() < ended - STUCK_AFTER);
        if let Some(due) = late
            && !(makes_up && (has_open || self.is_busy(case)))
        {
            self.fail(case, format!("STUCK {due} is due and nothing is done about it"));
        }
        for run in &case.kept.open {
            // After a clock was set back it may be due long after its claim is over.
            let is_due = run.progress.next_at.ticks() < ended - STUCK_AFTER;
            let held =
                run.claim.is_some_and(|claim| claim.lease_until.ticks() >= ended - STUCK_AFTER);
            let waits = run.claim.is_none()
                && (run.progress.next_at.ticks() >= ended - STUCK_AFTER
                    || case.kept.open.iter().any(|other| other.id < run.id));
            let waits_for_ever = run.progress.next_at.ticks() > ended + RETRY_WITHIN;
            if waits_for_ever && run.progress.retry > 0 && !self.clocks_were_set() {
                self.fail(case, format!("STUCK it waits for ever: {run:?}"));
            }
            if is_due && !held && !waits {
                self.fail(case, format!("STUCK nobody works on {run:?}"));
            }
        }
    }
}

/// The first occurrence that a version has to account for.
fn first_of(version: &Version, rule: &Rule, earlier: Option<Earlier<'_>>) -> Option<Instant> {
    let Some((before, stand)) = earlier else { return rule.first() };
    let recurs = version.definition.recurrence.is_some();
    let next = match recurs {
        true => rule.next_after(version.now),
        false => rule.first().map(|once| once.max(version.now)),
    };
    // What is switched off goes on where its records end.
    let on = stand.uncounted.filter(|_| is_same_schedule(before, version));
    match (version.definition.switch, on) {
        (Switch::Disabled, Some(on)) if recurs => next.map(|next| next.max(on)),
        (Switch::Disabled, Some(on)) if keeps_waiting(before, version) => Some(on),
        _ => next,
    }
}

fn is_same_schedule(before: &Version, after: &Version) -> bool {
    let schedule =
        |version: &Version| (version.definition.start, version.definition.recurrence.clone());
    schedule(before) == schedule(after)
}

/// Whether what runs once waits, through an edit, for being switched on.
fn keeps_waiting(before: &Version, after: &Version) -> bool {
    let is_off = |version: &Version| version.definition.switch == Switch::Disabled;
    let runs_once = after.definition.recurrence.is_none();
    is_off(before) && is_off(after) && runs_once && is_same_schedule(before, after)
}
