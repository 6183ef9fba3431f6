//! Checks that every occurrence has exactly one record: the records of a schedule cover it without
//! gaps and without overlaps.

use std::time::Duration;

use kalends_domain::{Lifecycle, MissedPolicy, Overlap, Switch};
use kalends_recurrence::{Instant, Rule, TICKS_PER_SECOND};
use kalends_store::record::{Cause, Disposition, OpenRun};

use super::{Check, JobEvidence, OccurrenceRecord, is_off};
use crate::recorder::Call;
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
    used: CountUsed,
}

impl Check<'_> {
    pub(super) fn coverage(&mut self, job: JobEvidence<'_>) {
        let records = job.records();
        let known = |record: &&OccurrenceRecord| job.version(record.generation).is_some();
        if let Some(record) = records.iter().find(|record| !known(record)) {
            self.violation(job, format!("PHANTOM record of an unknown generation: {record:?}"));
        }
        let versions = &job.tracked.versions;
        let mut position: Option<SchedulePosition> = None;
        for (index, version) in versions.iter().enumerate() {
            let own: Vec<_> = records
                .iter()
                .filter(|record| record.generation == version.generation)
                .copied()
                .collect();
            let Some(rule) = job.rule(version) else {
                self.violation(job, "BROKEN rule of a stored job");
                continue;
            };
            let mut earlier: Vec<_> = records
                .iter()
                .filter(|record| record.generation < version.generation)
                .copied()
                .collect();
            // The time of a record does not tell whether its run was open before a clock step.
            if self.clocks_were_stepped() {
                let first = own.first().map_or(job.stored.record.state.due, |own| Some(own.from));
                earlier.retain(|record| first.is_none_or(|first| first > record.from));
            }
            let before = position.zip(index.checked_sub(1).and_then(|index| versions.get(index)));
            let start = start_of(job, (version, &rule), before, &earlier);
            let mut reached = self.check_records(job, version, &rule, &own, start);
            let edit = versions.get(index + 1);
            // The last occurrence gave its use of the count back.
            let due = job.stored.record.state.due;
            if edit.is_none()
                && reached.next.is_some_and(|next| due.is_none_or(|due| next < due))
                && returns_count(job, version, &rule, due)
            {
                reached.next = due;
            }
            position = Some(reached);
            for record in &own {
                self.runs_after_outage(job, version, &rule, record);
                self.skips(job, version, record);
                let moved = versions.iter().skip(index + 1).any(|version| version.moves);
                self.check_disposition(job, version, moved, &rule, record, &records);
                match version.definition.switch {
                    Switch::Enabled => self.disabled_collection(job, version, record),
                    Switch::Disabled => self.disabled_job(job, edit, record),
                }
            }
            match edit {
                Some(edit) => {
                    // A one-time job runs at the time at which it is enabled.
                    let runs_once = version.definition.recurrence.is_none();
                    let passed = reached
                        .next
                        .filter(|&next| next < edit.now || next == edit.now && !runs_once);
                    if let Some(next) = passed.filter(|_| closes_passed(version, edit)) {
                        let now = edit.now;
                        self.violation(
                            job,
                            format!("LOST {next} has no record and is before the edit at {now}"),
                        );
                    }
                }
                None => self.end(job, version, &reached, &schedule_records(job, &records)),
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
        SchedulePosition { next: first, mut used }: SchedulePosition,
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
                // An occurrence gave its use of the count back.
                Some(next) if next < from && returns_count(job, version, rule, Some(from)) => {}
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
            next = match (recurrence, record.closed) {
                // Enabling the job runs it at once.
                (None, Some((Disposition::SkippedDisabled, closed))) => Some(closed),
                (None, _) => None,
                (Some(_), _) => rule.next_after(to).filter(|&next| next > to),
            };
        }
        if count.is_some_and(|count| used.most >= count) {
            // If the bounds differ, the job may continue or not.
            let is_certain = count.is_some_and(|count| used.least >= count);
            let is_due = job.stored.record.state.due == next;
            let continues = is_due || job.records().iter().any(|other| Some(other.from) == next);
            if is_certain || !continues {
                next = None;
            }
        }
        SchedulePosition { next, used }
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
        moved: bool,
        rule: &Rule,
        record: &OccurrenceRecord,
        all: &[OccurrenceRecord],
    ) {
        let Some((how, closed)) = record.closed else { return };
        let extensions = &version.definition.extensions;
        match how {
            Disposition::Superseded if !moved => {
                self.violation(job, format!("HISTORY {record:?} is superseded without an edit"));
            }
            Disposition::SkippedOverlap => {
                // Reads and the known store time are up to a few link delays old.
                let delay_max = self.evidence.scenario.default_link_faults.delay_max;
                let tolerance = 8 * ticks(delay_max) + COMMITTED_WITHIN;
                let blocks = |other: &&OccurrenceRecord| {
                    // It was open when the occurrence was due, or when the decision was made.
                    let is_late_enough = |(_, at): (_, Instant)| {
                        at >= record.from || at.ticks() + tolerance >= closed.ticks()
                    };
                    other.may_have_waited()
                        && other.from < record.from
                        && other.closed.is_none_or(is_late_enough)
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

    /// Whether all attempts of a claimed run ended long ago.
    fn has_ended(&self, job: JobEvidence<'_>, run: &OpenRun) -> bool {
        let is_own = |call: &&Call| {
            (call.job, call.scheduled) == (job.tracked.number, run.scheduled)
                && call.generation == run.generation
        };
        let attempts = self.observations.calls.iter().chain(self.observations.unsent.values());
        let attempts: Vec<_> = attempts.filter(is_own).collect();
        let ended = self.evidence.ended_at - STUCK_AFTER;
        let has_ended = |call: &&Call| call.response.is_some_and(|(at, _)| at < ended);
        !attempts.is_empty() && attempts.iter().all(has_ended)
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
        if state.skip_until != version.skip_until {
            let (stored, requested) = (state.skip_until, version.skip_until);
            self.violation(job, format!("LOST skip until {stored:?} instead of {requested:?}"));
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
            let is_off = !is_enabled && run.cause == Cause::Scheduled;
            let is_lost = is_held && self.has_ended(job, run);
            if is_due && (!is_held || is_lost) && !waits && !is_off {
                self.violation(job, format!("STUCK no node works on {run:?}"));
            }
        }
    }
}

/// The position of a schedule at the beginning of a generation.
fn start_of(
    job: JobEvidence<'_>,
    (version, rule): (&Version, &Rule),
    before: Option<(SchedulePosition, &Version)>,
    earlier: &[OccurrenceRecord],
) -> SchedulePosition {
    let Some((position, before)) = before else {
        let next = rule.first();
        return SchedulePosition { next, used: CountUsed::default() };
    };
    let open = earlier.iter().filter(|record| is_open_at(record, version.now));
    let latest = open.clone().map(|record| record.from).max();
    let floor = latest.map_or(version.now, |latest| latest.max(version.now));
    let recurs = version.definition.recurrence.is_some();
    let next = match recurs {
        true => rule.next_after(floor),
        false => rule.first().map(|once| match once > floor {
            true => once,
            false if floor > version.now => floor.saturating_add(Duration::from_nanos(100)),
            false => version.now,
        }),
    };
    if version.moves {
        return SchedulePosition { next, used: CountUsed::default() };
    }
    if !version.restarts {
        return position;
    }
    let surviving = open.filter(|record| record.generation >= schedule_generation(job, before));
    let surviving = surviving.count() as u64;
    let used = CountUsed { least: surviving, most: surviving };
    // A restarted count continues a schedule whose count was used up.
    match position.next {
        None if recurs => SchedulePosition { next, used },
        _ => SchedulePosition { used, ..position },
    }
}

/// Whether a record was an open run at some time.
fn is_open_at(record: &OccurrenceRecord, at: Instant) -> bool {
    let was_run = record.may_have_begun() && record.count == 1;
    was_run
        && record.closed.is_none_or(|(how, closed)| {
            // The edit itself closes a run that waits.
            closed > at || closed == at && how == Disposition::Superseded
        })
}

/// The generation that last changed the schedule, up to a version.
fn schedule_generation(job: JobEvidence<'_>, until: &Version) -> u64 {
    let versions = job.tracked.versions.iter();
    let moves = versions.filter(|version| version.moves && version.generation <= until.generation);
    moves.map(|version| version.generation).max().unwrap_or(0)
}

/// The records of the newest schedule.
fn schedule_records(job: JobEvidence<'_>, records: &[OccurrenceRecord]) -> Vec<OccurrenceRecord> {
    let versions = &job.tracked.versions;
    let since = versions.last().map_or(0, |version| schedule_generation(job, version));
    records.iter().filter(|record| record.generation >= since).copied().collect()
}

/// Whether `next` follows an occurrence that was begun, did not run because the job could not, and gave
/// its use of the count back. A schedule that the count had ended goes on with the next point after
/// that; it may have none.
fn returns_count(
    job: JobEvidence<'_>,
    version: &Version,
    rule: &Rule,
    next: Option<Instant>,
) -> bool {
    let recurrence = version.definition.recurrence.as_ref();
    let is_counted = recurrence.is_some_and(|recurrence| recurrence.count.is_some());
    is_counted
        && job.stored.ledger.iter().any(|row| {
            is_off(row.disposition) && row.count == 1 && rule.next_after(row.closed) == next
        })
}

/// Whether an edit closes the occurrences that passed before it: a change of the schedule, or enabling
/// the job.
fn closes_passed(before: &Version, after: &Version) -> bool {
    let is_off = |version: &Version| version.definition.switch == Switch::Disabled;
    after.moves || is_off(before) && !is_off(after)
}
