//! Checks that every occurrence has exactly one record: the records of a schedule cover it without
//! gaps and without overlaps.

use kalends_domain::{Lifecycle, MissedPolicy, Overlap, Switch};
use kalends_recurrence::{Instant, Rule, TICKS_PER_SECOND};
use kalends_store::record::Disposition;

use super::{Check, JobEvidence, OccurrenceRecord};
use crate::time::ticks;
use crate::users::Version;

/// Ticks (45 s) after which a due job without faults is stuck.
const STUCK_AFTER: i64 = 45 * TICKS_PER_SECOND;

/// Ticks (50 ms) within which a result is committed: results share commits.
const COMMITTED_WITHIN: i64 = TICKS_PER_SECOND / 20;

/// Ticks (2 h) within which every retry of a generated policy is due.
const RETRY_WITHIN: i64 = 2 * 3_600 * TICKS_PER_SECOND;

/// Bounds of the number of occurrences that count towards `count`.
#[derive(Clone, Copy, Default)]
struct CountUsed {
    least: u64,
    most: u64,
}

/// Position of a schedule after its last record.
#[derive(Clone, Copy)]
struct SchedulePosition {
    next: Option<Instant>,
    /// The next occurrence if `count` is ignored.
    uncounted: Option<Instant>,
    used: CountUsed,
}

/// A generation of the job and the position after its records.
type Earlier<'a> = (&'a Version, SchedulePosition);

impl Check<'_> {
    pub(super) fn coverage(&mut self, job: JobEvidence<'_>) {
        let records = job.records();
        let known = |record: &&OccurrenceRecord| job.version(record.generation).is_some();
        if let Some(record) = records.iter().find(|record| !known(record)) {
            self.violation(job, format!("PHANTOM record of an unknown generation: {record:?}"));
        }
        let mut used = CountUsed::default();
        let mut earlier: Option<Earlier<'_>> = None;
        let versions = &job.tracked.versions;
        for (index, version) in versions.iter().enumerate() {
            if version.restarts {
                used = CountUsed::default();
            }
            let own: Vec<_> = records
                .iter()
                .filter(|record| record.generation == version.generation)
                .copied()
                .collect();
            let Some(rule) = job.rule(version) else {
                self.violation(job, "BROKEN rule of a stored job");
                continue;
            };
            let first = first_of(version, &rule, earlier);
            let position = self.check_records(job, version, &rule, &own, (first, used));
            used = position.used;
            earlier = Some((version, position));
            for record in &own {
                self.runs_after_outage(job, version, &rule, record);
                self.check_disposition(
                    job,
                    version,
                    versions.get(index + 1),
                    &rule,
                    record,
                    &records,
                );
                match (version.definition.switch, versions.get(index + 1)) {
                    (Switch::Enabled, _) => self.disabled_collection(job, version, record),
                    (Switch::Disabled, edit) => self.disabled_job(job, edit, record),
                }
            }
            match versions.get(index + 1) {
                Some(edit) => {
                    let passed = position.next.filter(|&next| next <= edit.now);
                    if let Some(next) = passed.filter(|_| !keeps_waiting(version, edit)) {
                        let now = edit.now;
                        self.violation(
                            job,
                            format!("LOST {next} has no record and is before the edit at {now}"),
                        );
                    }
                }
                None => self.end(job, version, &position, &own),
            }
        }
    }

    /// Checks the records of one generation for gaps and overlaps.
    fn check_records(
        &mut self,
        job: JobEvidence<'_>,
        version: &Version,
        rule: &Rule,
        records: &[OccurrenceRecord],
        (first, mut used): (Option<Instant>, CountUsed),
    ) -> SchedulePosition {
        let recurrence = version.definition.recurrence.as_ref();
        let count = recurrence.and_then(|recurrence| recurrence.count).map(i64::unsigned_abs);
        // A one-time job has a count of one.
        let count = if recurrence.is_none() { Some(1) } else { count };
        let mut next = first;
        let generation = version.generation;
        for record in records {
            self.occurrences += record.count;
            let OccurrenceRecord { from, to, .. } = *record;
            match next {
                _ if count.is_some_and(|count| used.least >= count) => {
                    self.violation(
                        job,
                        format!("COUNT {from} of generation {generation} exceeds the count"),
                    );
                }
                Some(next) if next < from => {
                    self.violation(
                        job,
                        format!("LOST {next} of generation {generation}: no record before {from}"),
                    );
                }
                Some(next) if next == from => {}
                _ => self.violation(
                    job,
                    format!("HISTORY {record:?}: duplicate, or not an occurrence (next {next:?})"),
                ),
            }
            if record.count > 1 || from != to {
                let before = from.previous_tick();
                let actual = rule.count_between(before, to);
                if actual != record.count {
                    self.violation(job, format!("HISTORY {record:?} covers {actual} occurrences"));
                }
            }
            let is_range = record.count > 1;
            let superseded = matches!(record.closed, Some((Disposition::Superseded, _)));
            if record.may_have_begun() && !is_range {
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
            // If the bounds differ, the job may continue or not.
            let is_certain = count.is_some_and(|count| used.least >= count);
            let record = &job.stored.record;
            let continues = record.job.generation == generation && record.state.due.is_some();
            if is_certain || !continues {
                next = None;
            }
        }
        SchedulePosition { next, uncounted, used }
    }

    /// A disabled job runs nothing, and the edit that enables it closes the occurrences in between.
    fn disabled_job(
        &mut self,
        job: JobEvidence<'_>,
        edit: Option<&Version>,
        record: &OccurrenceRecord,
    ) {
        let closed = record.closed.filter(|(how, _)| *how == Disposition::SkippedDisabled);
        let by_edit = |(_, at): (Disposition, Instant)| {
            edit.is_some_and(|edit| edit.now == at) && record.to <= at
        };
        if !closed.is_some_and(by_edit) {
            self.violation(
                job,
                format!("HELD {record:?} while the job was disabled, edited by {edit:?}"),
            );
        }
    }

    /// Whether the disposition of a record is justified.
    fn check_disposition(
        &mut self,
        job: JobEvidence<'_>,
        version: &Version,
        edit: Option<&Version>,
        rule: &Rule,
        record: &OccurrenceRecord,
        all: &[OccurrenceRecord],
    ) {
        let Some((how, closed)) = record.closed else { return };
        let extensions = &version.definition.extensions;
        match how {
            Disposition::Superseded if edit.is_none() => {
                self.violation(job, format!("HISTORY {record:?} is superseded without an edit"));
            }
            Disposition::SkippedOverlap => {
                // Reads and the known store time are up to a few link delays old.
                let delay_max = self.evidence.scenario.default_link_faults.delay_max;
                let tolerance = 8 * ticks(delay_max) + COMMITTED_WITHIN;
                let blocks = |other: &&OccurrenceRecord| {
                    other.may_have_begun()
                        && other.from < record.from
                        && other
                            .closed
                            .is_none_or(|(_, at)| at.ticks() + tolerance >= closed.ticks())
                };
                let needed = match extensions.overlap.unwrap_or_default() {
                    Overlap::Skip => 1,
                    Overlap::QueueOne => 2,
                    Overlap::Allow => usize::MAX,
                };
                let found = all.iter().filter(blocks).count();
                if found < needed && !self.clocks_were_stepped() {
                    self.violation(
                        job,
                        format!("HISTORY {record:?}: blocked by only {found} runs"),
                    );
                }
            }
            Disposition::Missed => self.missed(job, version, rule, record, closed),
            _ => {}
        }
    }

    fn missed(
        &mut self,
        job: JobEvidence<'_>,
        version: &Version,
        rule: &Rule,
        record: &OccurrenceRecord,
        closed: Instant,
    ) {
        if version.definition.recurrence.is_none() {
            self.violation(job, format!("MISSED {record:?}: one-time jobs run however late"));
        }
        let expected = version.definition.extensions.missed_runs.as_ref();
        let policy = expected.map_or(MissedPolicy::Last, |expected| expected.policy);
        let within =
            expected.and_then(|expected| expected.within.as_ref()).map(|within| *within.value());
        if policy == MissedPolicy::All && within.is_none() {
            self.violation(job, format!("MISSED {record:?} with policy All"));
        }
        let is_newest = rule.next_after(record.to).is_none_or(|next| next > closed);
        let is_young = within.is_none_or(|within| record.to.saturating_add(within) >= closed);
        if policy == MissedPolicy::Last && is_newest && is_young && record.to <= closed {
            self.violation(job, format!("MISSED {record:?}: newest occurrence within the limit"));
        }
        if !self.clocks_were_stepped()
            && self.a_node_could_work(record.from.ticks(), closed.ticks())
        {
            self.violation(job, format!("MISSED {record:?} while a node could work"));
        }
    }

    /// Whether a call started shortly before the end.
    fn is_busy(&self, job: JobEvidence<'_>) -> bool {
        let calls = self.observations.calls.iter().filter(|call| call.job == job.tracked.number);
        calls
            .map(|call| call.started_by_store)
            .max()
            .is_some_and(|last| last >= self.evidence.ended.ticks() - 2 * STUCK_AFTER)
    }

    /// Checks the final state of a job.
    fn end(
        &mut self,
        job: JobEvidence<'_>,
        version: &Version,
        position: &SchedulePosition,
        records: &[OccurrenceRecord],
    ) {
        let state = &job.stored.record.state;
        if job.stored.record.job.definition != version.definition
            || job.stored.record.job.generation != version.generation
        {
            self.violation(job, "LOST acknowledged edit");
            return;
        }
        if job.tracked.deleted_at.is_some() {
            return;
        }
        let is_enabled = version.definition.switch == Switch::Enabled;
        if state.due != position.next {
            let (stored, next) = (state.due, position.next);
            self.violation(job, format!("LOST next occurrence is {stored:?} instead of {next:?}"));
        }
        let has_open = records.iter().any(|record| record.closed.is_none());
        if is_enabled
            && state.lifecycle == Lifecycle::Active
            && position.next.is_none()
            && !has_open
        {
            self.violation(job, "STUCK enabled without a next occurrence or an open run");
        }
        if state.lifecycle != Lifecycle::Active && (position.next.is_some() || has_open) {
            self.violation(job, format!("COUNT {:?} before all occurrences ran", state.lifecycle));
        }
        let collections = &self.evidence.users.switched;
        let last = collections.iter().rev().find(|(path, ..)| *path == job.tracked.path.collection);
        if last.is_none_or(|(_, _, _, state)| *state != kalends_domain::CollectionState::Enabled) {
            return;
        }
        if self.is_full(job, (self.evidence.ended_at - STUCK_AFTER, self.evidence.ended_at)) {
            return;
        }
        let ended = self.evidence.ended.ticks();
        let runs_all_missed = version.definition.extensions.missed_runs.as_ref();
        let runs_all_missed =
            runs_all_missed.is_some_and(|missed| missed.policy == MissedPolicy::All);
        let late = position.next.filter(|due| is_enabled && due.ticks() < ended - STUCK_AFTER);
        if let Some(due) = late
            && !(runs_all_missed && (has_open || self.is_busy(job)))
        {
            self.violation(job, format!("STUCK {due} is due and not claimed"));
        }
        for run in &job.stored.open {
            // After a clock was stepped back, it may be due long after its claim expired.
            let is_due = run.progress.next_at.ticks() < ended - STUCK_AFTER;
            let is_held =
                run.claim.is_some_and(|claim| claim.lease_until.ticks() >= ended - STUCK_AFTER);
            let waits = run.claim.is_none()
                && (run.progress.next_at.ticks() >= ended - STUCK_AFTER
                    || job.stored.open.iter().any(|other| other.id < run.id));
            let is_too_far = run.progress.next_at.ticks() > ended + RETRY_WITHIN;
            if is_too_far && run.progress.retry > 0 && !self.clocks_were_stepped() {
                self.violation(job, format!("STUCK next attempt too far ahead: {run:?}"));
            }
            if is_due && !is_held && !waits {
                self.violation(job, format!("STUCK no node works on {run:?}"));
            }
        }
    }
}

/// The first occurrence that a generation must have a record of.
fn first_of(version: &Version, rule: &Rule, earlier: Option<Earlier<'_>>) -> Option<Instant> {
    let Some((before, position)) = earlier else { return rule.first() };
    let recurs = version.definition.recurrence.is_some();
    let next = match recurs {
        true => rule.next_after(version.now),
        false => rule.first().map(|once| once.max(version.now)),
    };
    // A disabled job continues where its records end.
    let on = position.uncounted.filter(|_| is_same_schedule(before, version));
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

/// Whether a disabled one-time job stays due across an edit.
fn keeps_waiting(before: &Version, after: &Version) -> bool {
    let is_off = |version: &Version| version.definition.switch == Switch::Disabled;
    let runs_once = after.definition.recurrence.is_none();
    is_off(before) && is_off(after) && runs_once && is_same_schedule(before, after)
}
