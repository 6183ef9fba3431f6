//! The schedule state of a job after its creation and after an edit.
//!
//! An edit does not start a run: the next run is the next occurrence after the edit. The exception is
//! a one-time job that never ran and whose scheduled time has passed. It runs immediately, because
//! it would otherwise stay enabled and never run.

use kalends_recurrence::{Definition, Instant, IntervalMax, Rule, RuleErrors, Settings};

use crate::job::{JobDefinition, Switch};
use crate::occurrence::{ClosedOccurrences, Switches, due_and_not_started};
use crate::run::Lifecycle;

/// The progress of a job through its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleState {
    /// The first occurrence that is neither started nor closed: the next one, or for a disabled job the
    /// first one without a ledger record. `None` if the schedule has ended.
    pub due: Option<Instant>,
    /// Number of occurrences that started a run and count towards `count`.
    pub used: u64,
    /// Whether the job is active or finished.
    pub lifecycle: Lifecycle,
}

/// How an edit affects the occurrence count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditKind {
    /// PUT replaces the definition and resets the count.
    Replace,
    /// PATCH resets the count only if it changes the start time or the recurrence.
    Change,
}

/// The rule of a job created at `created`, validated against `settings`.
pub fn rule_of(
    job: &JobDefinition,
    created: Instant,
    settings: &Settings,
) -> Result<Rule, RuleErrors> {
    let recurrence = job.recurrence.clone();
    Rule::new(Definition { start: job.start, created, recurrence }, settings)
}

/// The rule of a stored job. Limits do not apply: the job was valid when it was written, and limits may
/// have changed since.
pub fn stored_rule_of(
    job: &JobDefinition,
    created: Instant,
    settings: &Settings,
) -> Result<Rule, RuleErrors> {
    let all = i64::MAX;
    let interval_max =
        IntervalMax { minutes: all, hours: all, days: all, weeks: all, months: all, years: all };
    // Beyond any start time, and small enough for the month arithmetic not to overflow.
    let start_months_ahead_max = i64::from(i32::MAX);
    rule_of(job, created, &Settings { interval_max, start_months_ahead_max, ..settings.clone() })
}

/// The schedule state of a new job.
pub fn schedule_state_of_new(job: &JobDefinition, rule: &Rule) -> ScheduleState {
    schedule_state(job, rule.first(), 0)
}

/// The schedule state of an active job after an edit. `rule` is the rule of the new definition.
pub fn schedule_state_after_edit(
    before: ScheduleState,
    old: &JobDefinition,
    new: &JobDefinition,
    rule: &Rule,
    kind: EditKind,
    now: Instant,
    settings: &Settings,
) -> ScheduleState {
    let moved = is_moved(old, new);
    let used = match kind {
        EditKind::Replace => 0,
        EditKind::Change if moved => 0,
        EditKind::Change => before.used,
    };
    let due = match &new.recurrence {
        None if used > 0 => None,
        None if before.due.is_some() && keeps_waiting(old, new) => before.due,
        None => rule.first().map(|once| match once > now {
            true => once,
            false => now.saturating_add(settings.start_delay),
        }),
        Some(recurrence) => {
            let left = recurrence.count.is_none_or(|count| used < count.unsigned_abs());
            // Occurrences before `now` that did not run do not count, so the rule's own count does
            // not apply.
            let next = rule.without_count().next_after(now);
            let next = match new.switch {
                Switch::Enabled => next,
                // Occurrences before `before.due` already have a record, even if they are after
                // `now` because the engine claimed them early or the clock was set back.
                Switch::Disabled => before.due.filter(|_| !moved && next.is_some()).max(next),
            };
            if left { next } else { None }
        }
    };
    schedule_state(new, due, used)
}

fn is_moved(old: &JobDefinition, new: &JobDefinition) -> bool {
    old.start != new.start || old.recurrence != new.recurrence
}

/// Whether a disabled one-time job stays disabled with the same start time, so that its pending
/// occurrence stays open.
fn keeps_waiting(old: &JobDefinition, new: &JobDefinition) -> bool {
    let is_off = |job: &JobDefinition| job.switch == Switch::Disabled;
    is_off(old) && is_off(new) && new.recurrence.is_none() && !is_moved(old, new)
}

/// The occurrences that an edit closes: those of the old definition that were due before the edit and
/// not started. `rule` is the rule of the old definition, `due` the first of these occurrences.
pub fn closed_by_edit(
    old: &JobDefinition,
    new: &JobDefinition,
    rule: &Rule,
    due: Instant,
    now: Instant,
    collection: Switch,
) -> Option<ClosedOccurrences> {
    if keeps_waiting(old, new) {
        return None;
    }
    due_and_not_started(&rule.without_count(), due, now, Switches { job: old.switch, collection })
}

fn schedule_state(job: &JobDefinition, due: Option<Instant>, used: u64) -> ScheduleState {
    match (job.switch, due) {
        (Switch::Disabled, due) => ScheduleState { due, used, lifecycle: Lifecycle::Active },
        (Switch::Enabled, Some(due)) => {
            ScheduleState { due: Some(due), used, lifecycle: Lifecycle::Active }
        }
        (Switch::Enabled, None) => {
            ScheduleState { due: None, used, lifecycle: Lifecycle::Completed }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kalends_recurrence::{Frequency, Recurrence};

    use super::*;
    use crate::http::{HttpRequest, Method, Uri};
    use crate::job::{Action, Extensions, MainAction, Target};
    use crate::limits::Limits;

    const CREATED: &str = "2026-01-01T00:00:00Z";

    fn at(text: &str) -> Instant {
        text.parse().unwrap()
    }

    fn job(start: Option<&str>, recurrence: Option<Recurrence>) -> JobDefinition {
        let request = HttpRequest {
            uri: Uri::new("http://example.com", &Limits::default()).unwrap(),
            method: Method::new("GET").unwrap(),
            headers: None,
            body: None,
            authentication: None,
        };
        let action = Action { type_as_written: "Http".into(), target: Target::Http(request) };
        JobDefinition {
            start: start.map(at),
            action: MainAction { action, retry: None, error_action: None },
            recurrence,
            switch: Switch::Enabled,
            extensions: Extensions::default(),
        }
    }

    fn disabled(job: JobDefinition) -> JobDefinition {
        JobDefinition { switch: Switch::Disabled, ..job }
    }

    fn daily() -> Recurrence {
        Recurrence::every(1, Frequency::Day)
    }

    fn created(job: &JobDefinition) -> ScheduleState {
        schedule_state_of_new(job, &rule_of(job, at(CREATED), &Settings::default()).unwrap())
    }

    fn edited(
        before: ScheduleState,
        old: &JobDefinition,
        new: &JobDefinition,
        kind: EditKind,
        now: &str,
    ) -> ScheduleState {
        let settings = Settings::default();
        let rule = rule_of(new, at(CREATED), &settings).unwrap();
        schedule_state_after_edit(before, old, new, &rule, kind, at(now), &settings)
    }

    fn state(due: Option<&str>, used: u64, lifecycle: Lifecycle) -> ScheduleState {
        ScheduleState { due: due.map(at), used, lifecycle }
    }

    #[test]
    fn a_new_job_is_due_at_its_first_occurrence_or_immediately_or_never() {
        let active = |due| state(due, 0, Lifecycle::Active);
        assert_eq!(created(&job(None, None)), active(Some(CREATED)));
        assert_eq!(created(&job(Some("2026-02-01"), None)), active(Some("2026-02-01")));
        assert_eq!(
            created(&job(Some("2025-12-31T06:00Z"), Some(daily()))),
            active(Some("2026-01-01T06:00Z"))
        );
        let ended = Recurrence { end: Some(at("2025-12-31")), ..daily() };
        let over = job(Some("2025-12-01"), Some(ended));
        assert_eq!(created(&over), state(None, 0, Lifecycle::Completed));
        assert_eq!(created(&disabled(over)), active(None), "a disabled job stays active");
        assert_eq!(created(&disabled(job(None, None))), active(Some(CREATED)));
    }

    #[test]
    fn an_edited_job_is_due_at_the_next_occurrence() {
        let old = job(Some("2026-01-01T06:00Z"), Some(daily()));
        let before = state(Some("2026-01-05T06:00Z"), 4, Lifecycle::Active);
        let now = "2026-01-04T12:00Z";
        let hourly = job(Some("2026-01-01T06:00Z"), Some(Recurrence::every(1, Frequency::Hour)));
        let expected = state(Some("2026-01-04T13:00Z"), 0, Lifecycle::Active);
        assert_eq!(edited(before, &old, &hourly, EditKind::Change, now), expected);
        let without_start = job(None, Some(daily()));
        let expected = state(Some("2026-01-05"), 0, Lifecycle::Active);
        assert_eq!(edited(before, &old, &without_start, EditKind::Replace, now), expected);
    }

    #[test]
    fn a_patch_keeps_the_count_unless_it_changes_the_schedule() {
        let counted =
            job(Some("2026-01-01T06:00Z"), Some(Recurrence { count: Some(5), ..daily() }));
        let mut renamed = counted.clone();
        renamed.extensions.description = Some("x".into());
        let now = "2026-01-04T12:00Z";
        let before = |used| state(Some("2026-01-05T06:00Z"), used, Lifecycle::Active);
        let next = |used| state(Some("2026-01-05T06:00Z"), used, Lifecycle::Active);
        assert_eq!(edited(before(4), &counted, &renamed, EditKind::Change, now), next(4));
        assert_eq!(edited(before(4), &counted, &renamed, EditKind::Replace, now), next(0));
        let over = state(None, 5, Lifecycle::Completed);
        assert_eq!(edited(before(5), &counted, &renamed, EditKind::Change, now), over);
        let far = "2026-09-01";
        let late = edited(before(4), &counted, &renamed, EditKind::Change, far);
        assert_eq!(late.due, Some(at("2026-09-01T06:00Z")), "missed occurrences do not count");
    }

    #[test]
    fn a_one_time_job_that_never_ran_runs_immediately_once_its_time_has_passed() {
        let once = job(Some("2026-02-01"), None);
        let off = disabled(once.clone());
        let before = state(None, 0, Lifecycle::Active);
        let settings = Settings { start_delay: Duration::from_secs(20), ..Settings::default() };
        let rule = rule_of(&once, at(CREATED), &settings).unwrap();
        let enable = |now| {
            schedule_state_after_edit(
                before,
                &off,
                &once,
                &rule,
                EditKind::Change,
                at(now),
                &settings,
            )
            .due
        };
        assert_eq!(enable("2026-01-15"), Some(at("2026-02-01")));
        assert_eq!(enable("2026-03-01"), Some(at("2026-03-01T00:00:20Z")));
        let ran = state(None, 1, Lifecycle::Active);
        let kept = edited(ran, &off, &once, EditKind::Change, "2026-03-01");
        assert_eq!(kept, state(None, 1, Lifecycle::Completed));
    }

    #[test]
    fn a_disabled_job_is_due_at_the_first_occurrence_without_a_record() {
        let on = job(Some("2026-01-01T06:00Z"), Some(daily()));
        let off = disabled(on.clone());
        let before = state(Some("2026-01-02T06:00Z"), 1, Lifecycle::Active);
        let now = "2026-01-10T07:00Z";
        let stopped = edited(before, &on, &off, EditKind::Change, now);
        assert_eq!(stopped, state(Some("2026-01-11T06:00Z"), 1, Lifecycle::Active));
        let later = "2026-01-20T07:00Z";
        let again = edited(stopped, &off, &on, EditKind::Change, later);
        assert_eq!(again, state(Some("2026-01-21T06:00Z"), 1, Lifecycle::Active));
        let at_once = edited(stopped, &off, &on, EditKind::Change, now);
        assert_eq!(at_once, stopped, "no occurrence passed while it was disabled");
        let back = edited(stopped, &off, &renamed(&off), EditKind::Change, "2026-01-05T00:00Z");
        assert_eq!(back.due, stopped.due, "no occurrence repeats after the clock was set back");
        let begun = state(Some("2026-01-11T06:00Z"), 1, Lifecycle::Active);
        let ahead = edited(begun, &on, &off, EditKind::Change, "2026-01-10T05:59:59.99Z");
        assert_eq!(ahead.due, begun.due, "the occurrence of the tenth has already started");
    }

    fn renamed(job: &JobDefinition) -> JobDefinition {
        let mut job = job.clone();
        job.extensions.description = Some("x".into());
        job
    }

    /// The occurrences that an edit closes, as `from to count reason`.
    fn closing(old: &JobDefinition, new: &JobDefinition, due: &str, now: &str) -> Option<String> {
        let rule = rule_of(old, at(CREATED), &Settings::default()).unwrap();
        let closed = closed_by_edit(old, new, &rule, at(due), at(now), Switch::Enabled)?;
        let day = |at: Instant| at.to_string().get(5..10).unwrap().to_owned();
        let ClosedOccurrences { from, to, count, reason } = closed;
        Some(format!("{} {} {count} {reason:?}", day(from), day(to)))
    }

    #[test]
    fn an_edit_closes_the_occurrences_that_passed_while_the_job_was_disabled() {
        let on = job(Some("2026-01-01T06:00Z"), Some(daily()));
        let off = disabled(on.clone());
        let (due, now) = ("2026-01-02T06:00Z", "2026-01-10T07:00Z");
        let nine = Some("01-02 01-10 9 Disabled".to_owned());
        assert_eq!(closing(&off, &on, due, now), nine);
        assert_eq!(closing(&off, &renamed(&off), due, now), nine);
        assert_eq!(closing(&on, &off, due, now), Some("01-02 01-10 9 Edited".into()));
        assert_eq!(closing(&off, &on, due, "2026-01-02T05:59Z"), None);
        let ended = Recurrence { end: Some(at("2026-01-05")), count: Some(2), ..daily() };
        let ended = disabled(job(Some("2026-01-01T06:00Z"), Some(ended)));
        let three = Some("01-02 01-04 3 Disabled".to_owned());
        assert_eq!(closing(&ended, &on, due, now), three, "endTime applies, count does not");
    }

    #[test]
    fn a_disabled_one_time_job_stays_pending_through_edits() {
        let once = job(Some("2026-02-01"), None);
        let off = disabled(once.clone());
        let before = state(Some("2026-02-01"), 0, Lifecycle::Active);
        let now = "2026-03-01";
        assert_eq!(edited(before, &off, &renamed(&off), EditKind::Change, now), before);
        assert_eq!(closing(&off, &renamed(&off), "2026-02-01", now), None);
        assert_eq!(closing(&off, &once, "2026-02-01", now), Some("02-01 02-01 1 Disabled".into()));
        let other = disabled(job(Some("2026-06-01"), None));
        assert_eq!(closing(&off, &other, "2026-02-01", now), Some("02-01 02-01 1 Disabled".into()));
        let moved = edited(before, &off, &other, EditKind::Change, now);
        assert_eq!(moved.due, Some(at("2026-06-01")));
    }
}
