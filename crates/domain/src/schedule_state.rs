//! The schedule state of a job after its creation and after an edit.
//!
//! An edit does not start a run: the next run is the next occurrence after the edit. The exception is
//! a one-time job that has not succeeded and whose scheduled time has passed. It runs immediately,
//! because it would otherwise stay enabled and never run.

use std::time::Duration;

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
    let recurrence = job.recurrence.as_deref().cloned();
    Rule::new(Definition { start: job.start, created, recurrence }, settings)
}

/// The rule of a stored job. Limits do not apply: the job was valid when it was written, and limits may
/// have changed since.
pub fn stored_rule_of(
    job: &JobDefinition,
    created: Instant,
    settings: &Settings,
) -> Result<Rule, RuleErrors> {
    let recurrence = job.recurrence.as_deref().cloned();
    stored_rule(Definition { start: job.start, created, recurrence }, settings)
}

/// Like [`stored_rule_of`], for a schedule without its job.
pub fn stored_rule(definition: Definition, settings: &Settings) -> Result<Rule, RuleErrors> {
    let all = i64::MAX;
    let interval_max =
        IntervalMax { minutes: all, hours: all, days: all, weeks: all, months: all, years: all };
    // Beyond any start time, and small enough for the month arithmetic not to overflow.
    let start_months_ahead_max = i64::from(i32::MAX);
    Rule::new(definition, &Settings { interval_max, start_months_ahead_max, ..settings.clone() })
}

/// The schedule state of a new job.
pub fn schedule_state_of_new(job: &JobDefinition, rule: &Rule) -> ScheduleState {
    schedule_state(job, rule.first(), 0)
}

/// An edit of an active job, for [`schedule_state_after_edit`].
#[derive(Clone, Copy, Debug)]
pub struct ScheduleEdit<'a> {
    /// The definition before the edit.
    pub old: &'a JobDefinition,
    /// The definition after the edit.
    pub new: &'a JobDefinition,
    /// The rule of the new definition.
    pub rule: &'a Rule,
    /// How the edit affects the occurrence count.
    pub kind: EditKind,
    /// Open runs of the schedule.
    pub open: OpenScheduledRuns,
    /// Time of the edit.
    pub now: Instant,
}

/// The open runs of a job's schedule when the job is edited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenScheduledRuns {
    /// Number of runs that no earlier edit superseded.
    pub count: u64,
    /// The latest scheduled time, superseded runs included.
    pub latest: Option<Instant>,
}

impl ScheduleEdit<'_> {
    fn is_move(&self) -> bool {
        changes_schedule(self.old, self.new)
    }

    fn enables(&self) -> bool {
        (self.old.switch, self.new.switch) == (Switch::Disabled, Switch::Enabled)
    }

    /// The pending occurrence that an edit leaves alone. Occurrences that passed while the job was
    /// disabled do not run when it is enabled.
    fn kept(&self, due: Option<Instant>) -> Option<Instant> {
        due.filter(|due| !(self.is_move() || self.enables() && *due <= self.now))
    }

    /// Occurrences up to this time do not run after the edit: a scheduled time runs under one
    /// generation only.
    fn floor(&self) -> Instant {
        self.open.latest.map_or(self.now, |latest| latest.max(self.now))
    }

    /// The scheduled time of a one-time job: its own, or immediately if that has passed.
    fn once(&self, settings: &Settings) -> Option<Instant> {
        let immediately = self.now.saturating_add(settings.start_delay);
        let after_latest = self.open.latest.map_or(immediately, |latest| {
            immediately.max(latest.saturating_add(Duration::from_nanos(100)))
        });
        self.rule.first().map(|once| if once > self.floor() { once } else { after_latest })
    }
}

/// The schedule state of an active job after an edit.
///
/// An edit that does not change the schedule keeps the pending occurrence and the open runs. Any other
/// edit supersedes the open runs, and the job continues with the next occurrence of the new schedule.
pub fn schedule_state_after_edit(
    before: ScheduleState,
    edit: ScheduleEdit<'_>,
    settings: &Settings,
) -> ScheduleState {
    let surviving = if edit.is_move() { 0 } else { edit.open.count };
    let used = match edit.kind {
        EditKind::Change if !edit.is_move() => before.used,
        EditKind::Change | EditKind::Replace => surviving,
    };
    let kept = edit.kept(before.due);
    let due = match &edit.new.recurrence {
        None if used > 0 => None,
        None => kept.or_else(|| edit.once(settings)),
        Some(recurrence) => {
            let left = recurrence.count.is_none_or(|count| used < count.unsigned_abs());
            // Occurrences that did not run do not count, so the rule's own count does not apply.
            let next = || edit.rule.without_count().next_after(edit.floor());
            kept.or_else(next).filter(|_| left)
        }
    };
    // The end of the last surviving run finishes the job.
    match surviving {
        0 => schedule_state(edit.new, due, used),
        _ => ScheduleState { due, used, lifecycle: Lifecycle::Active },
    }
}

/// Whether an edit changes the start time or the recurrence. It then supersedes the open runs of the
/// schedule.
pub fn changes_schedule(old: &JobDefinition, new: &JobDefinition) -> bool {
    old.start != new.start || old.recurrence != new.recurrence
}

/// The occurrences that an edit closes: those that were due before an edit of the schedule and not
/// started, and those that passed while the job was disabled, when it is enabled. `rule` is the rule
/// of the old definition, `due` the first of these occurrences.
pub fn closed_by_edit(
    old: &JobDefinition,
    new: &JobDefinition,
    rule: &Rule,
    due: Instant,
    now: Instant,
    collection: Switch,
    is_paused: bool,
) -> Option<ClosedOccurrences> {
    let enables = (old.switch, new.switch) == (Switch::Disabled, Switch::Enabled);
    if !changes_schedule(old, new) && !enables {
        return None;
    }
    let switches = Switches { job: old.switch, collection, is_paused };
    due_and_not_started(&rule.without_count(), due, now, switches)
}

fn schedule_state(job: &JobDefinition, due: Option<Instant>, used: u64) -> ScheduleState {
    let lifecycle = match (job.switch, due) {
        (Switch::Enabled, None) => Lifecycle::Completed,
        _ => Lifecycle::Active,
    };
    ScheduleState { due, used, lifecycle }
}

#[cfg(test)]
mod tests {
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
            recurrence: recurrence.map(Box::new),
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
        edited_with(before, old, new, kind, now, OpenScheduledRuns::default())
    }

    fn edited_with(
        before: ScheduleState,
        old: &JobDefinition,
        new: &JobDefinition,
        kind: EditKind,
        now: &str,
        open: OpenScheduledRuns,
    ) -> ScheduleState {
        let settings = Settings::default();
        let rule = &rule_of(new, at(CREATED), &settings).unwrap();
        let edit = ScheduleEdit { old, new, rule, kind, open, now: at(now) };
        schedule_state_after_edit(before, edit, &settings)
    }

    /// One open run of the schedule.
    fn one_open(scheduled: &str) -> OpenScheduledRuns {
        OpenScheduledRuns { count: 1, latest: Some(at(scheduled)) }
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
        let far = "2026-09-01";
        let late = edited(before(4), &counted, &renamed, EditKind::Change, far);
        assert_eq!(late, before(4), "a pending occurrence stays");
    }

    #[test]
    fn an_edit_keeps_the_open_run_and_the_pending_occurrence_of_an_unchanged_schedule() {
        let counted =
            job(Some("2026-01-01T06:00Z"), Some(Recurrence { count: Some(5), ..daily() }));
        let now = "2026-01-04T12:00Z";
        let late = state(Some("2026-01-04T06:00Z"), 3, Lifecycle::Active);
        assert_eq!(edited(late, &counted, &renamed(&counted), EditKind::Change, now), late);
        let off = edited(late, &counted, &disabled(counted.clone()), EditKind::Change, now);
        assert_eq!(off, late, "disabling keeps it as well");

        let last = state(None, 5, Lifecycle::Active);
        let open = one_open("2026-01-04T06:00Z");
        let kept = |kind| edited_with(last, &counted, &renamed(&counted), kind, now, open);
        assert_eq!(kept(EditKind::Change), last, "the open run is the fifth");
        let first = state(Some("2026-01-05T06:00Z"), 1, Lifecycle::Active);
        assert_eq!(kept(EditKind::Replace), first, "the open run is the first of a new count");

        let once = job(Some("2026-01-04T06:00Z"), None);
        let begun = state(None, 1, Lifecycle::Active);
        for kind in [EditKind::Change, EditKind::Replace] {
            assert_eq!(edited_with(begun, &once, &renamed(&once), kind, now, open), begun);
        }
    }

    #[test]
    fn an_edit_of_the_schedule_continues_after_the_open_run() {
        let old = job(Some("2026-01-01T06:00Z"), Some(daily()));
        let before = state(Some("2026-01-05T06:00Z"), 4, Lifecycle::Active);
        let counted = Recurrence { count: Some(5), ..daily() };
        let new = job(Some("2026-01-01T06:00Z"), Some(counted));
        // Claimed ahead: the run of the fourth is open before its scheduled time.
        let (now, open) = ("2026-01-04T05:59:59.99Z", one_open("2026-01-04T06:00Z"));
        let moved = edited_with(before, &old, &new, EditKind::Change, now, open);
        assert_eq!(moved, state(Some("2026-01-05T06:00Z"), 0, Lifecycle::Active));

        let once = job(Some("2026-01-04T06:00Z"), None);
        let begun = state(None, 1, Lifecycle::Active);
        let edit = |to: &str, now: &str| {
            let new = job(Some(to), None);
            edited_with(begun, &once, &new, EditKind::Change, now, open)
        };
        let later = edit("2026-02-01", "2026-01-04T07:00Z");
        assert_eq!(later, state(Some("2026-02-01"), 0, Lifecycle::Active));
        let passed = edit("2026-01-03", "2026-01-04T07:00Z");
        assert_eq!(passed.due, Some(at("2026-01-04T07:00Z")), "immediately");
        let ahead = edit("2026-01-03", now);
        assert_eq!(ahead.due, Some(at("2026-01-04T06:00:00.0000001Z")), "after the open run");
    }

    #[test]
    fn an_edit_completes_a_job_only_by_a_past_end_time() {
        let endless = job(Some("2026-01-01T06:00Z"), Some(daily()));
        let ended = Recurrence { end: Some(at("2026-01-03")), ..daily() };
        let ended = job(Some("2026-01-01T06:00Z"), Some(ended));
        let before = state(Some("2026-01-05T06:00Z"), 4, Lifecycle::Active);
        let now = "2026-01-04T12:00Z";
        let over = edited(before, &endless, &ended, EditKind::Change, now);
        assert_eq!(over, state(None, 0, Lifecycle::Completed));
        let off = edited(before, &endless, &disabled(ended.clone()), EditKind::Change, now);
        assert_eq!(off.lifecycle, Lifecycle::Active, "a disabled job stays active");
    }

    #[test]
    fn a_one_time_job_that_never_ran_runs_immediately_once_its_time_has_passed() {
        let once = job(Some("2026-02-01"), None);
        let off = disabled(once.clone());
        let before = state(None, 0, Lifecycle::Active);
        let settings = Settings { start_delay: Duration::from_secs(20), ..Settings::default() };
        let rule = rule_of(&once, at(CREATED), &settings).unwrap();
        let enable = |now| {
            let (open, kind) = (OpenScheduledRuns::default(), EditKind::Change);
            let edit =
                ScheduleEdit { old: &off, new: &once, rule: &rule, kind, open, now: at(now) };
            schedule_state_after_edit(before, edit, &settings).due
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
        let stopped = edited(before, &on, &off, EditKind::Change, "2026-01-10T07:00Z");
        assert_eq!(stopped, before);
        let kept = edited(stopped, &off, &renamed(&off), EditKind::Change, "2026-01-15T07:00Z");
        assert_eq!(kept, before);
        let again = edited(stopped, &off, &on, EditKind::Change, "2026-01-20T07:00Z");
        assert_eq!(again, state(Some("2026-01-21T06:00Z"), 1, Lifecycle::Active));
        let at_once = edited(stopped, &off, &on, EditKind::Change, "2026-01-02T05:00Z");
        assert_eq!(at_once, before, "no occurrence passed while it was disabled");
        let begun = state(Some("2026-01-11T06:00Z"), 1, Lifecycle::Active);
        let ahead = edited(begun, &off, &on, EditKind::Change, "2026-01-10T05:59:59.99Z");
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
        let closed = closed_by_edit(old, new, &rule, at(due), at(now), Switch::Enabled, false)?;
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
        assert_eq!(closing(&off, &renamed(&off), due, now), None, "it is still disabled");
        assert_eq!(closing(&on, &off, due, now), None);
        assert_eq!(closing(&on, &renamed(&on), due, now), None);
        let moved = job(Some("2026-01-01T07:00Z"), Some(daily()));
        assert_eq!(closing(&on, &moved, due, now), Some("01-02 01-10 9 Edited".into()));
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
