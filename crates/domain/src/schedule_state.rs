//! Where a job stands in its schedule when it is made or edited.
//!
//! An edit never fires a job by itself: the next run is the next point after the edit. One thing
//! would else look enabled and be dead: a job that runs once, never did, and whose instant has
//! passed. It runs at once.

use kalends_recurrence::{Definition, Instant, IntervalMax, Rule, RuleErrors, Settings};

use crate::job::{JobDefinition, Switch};
use crate::occurrence::{ClosedOccurrences, Switches, passed_over};
use crate::run::Lifecycle;

/// Where a job stands in its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleState {
    /// The first occurrence that is neither begun nor closed: the next one, or, of a job that is
    /// disabled, the first that has no record yet. None when it is over.
    pub due: Option<Instant>,
    /// How many occurrences have started a run, of those that `count` counts.
    pub used: u64,
    /// Whether it goes on.
    pub lifecycle: Lifecycle,
}

/// How a job is edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditKind {
    /// The definition is replaced: occurrences are numbered from 1 again.
    Replace,
    /// Members are changed: numbering goes on unless start or recurrence are among them.
    Change,
}

/// The rule of a job that was created then.
pub fn rule_of(
    job: &JobDefinition,
    created: Instant,
    settings: &Settings,
) -> Result<Rule, RuleErrors> {
    let recurrence = job.recurrence.clone();
    Rule::new(Definition { start: job.start, created, recurrence }, settings)
}

/// The rule of a job that is kept. It was checked when it was written, and limits may have changed
/// since.
pub fn stored_rule_of(
    job: &JobDefinition,
    created: Instant,
    settings: &Settings,
) -> Result<Rule, RuleErrors> {
    let all = i64::MAX;
    let interval_max =
        IntervalMax { minutes: all, hours: all, days: all, weeks: all, months: all, years: all };
    // Years ahead of any job; months are added to an instant, which must not overflow.
    let start_months_ahead_max = i64::from(i32::MAX);
    rule_of(job, created, &Settings { interval_max, start_months_ahead_max, ..settings.clone() })
}

/// Where a new job stands.
pub fn schedule_state_of_new(job: &JobDefinition, rule: &Rule) -> ScheduleState {
    stand(job, rule.first(), 0)
}

/// Where an active job stands after an edit. `rule` is that of the new definition.
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
            // Points before now were neither run nor counted; `used` says how many were.
            let next = rule.without_count().next_after(now);
            let next = match new.switch {
                Switch::Enabled => next,
                // What was begun a moment ahead of its instant, or before the clock was set back,
                // has its record.
                Switch::Disabled => before.due.filter(|_| !moved && next.is_some()).max(next),
            };
            if left { next } else { None }
        }
    };
    stand(new, due, used)
}

fn is_moved(old: &JobDefinition, new: &JobDefinition) -> bool {
    old.start != new.start || old.recurrence != new.recurrence
}

/// Whether an edit leaves a job that runs once as it waits: disabled, for the same instant.
fn keeps_waiting(old: &JobDefinition, new: &JobDefinition) -> bool {
    let is_off = |job: &JobDefinition| job.switch == Switch::Disabled;
    is_off(old) && is_off(new) && new.recurrence.is_none() && !is_moved(old, new)
}

/// The occurrences of a job as it was that had come due before an edit and were not begun: the edit
/// closes them. `rule` is that of the old definition, `due` the first of them.
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
    passed_over(&rule.without_count(), due, now, Switches { job: old.switch, collection })
}

fn stand(job: &JobDefinition, due: Option<Instant>, used: u64) -> ScheduleState {
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

    fn standing(due: Option<&str>, used: u64, lifecycle: Lifecycle) -> ScheduleState {
        ScheduleState { due: due.map(at), used, lifecycle }
    }

    #[test]
    fn a_new_job_is_due_at_its_first_point_at_once_or_never() {
        let active = |due| standing(due, 0, Lifecycle::Active);
        assert_eq!(created(&job(None, None)), active(Some(CREATED)));
        assert_eq!(created(&job(Some("2026-02-01"), None)), active(Some("2026-02-01")));
        assert_eq!(
            created(&job(Some("2025-12-31T06:00Z"), Some(daily()))),
            active(Some("2026-01-01T06:00Z"))
        );
        let ended = Recurrence { end: Some(at("2025-12-31")), ..daily() };
        let over = job(Some("2025-12-01"), Some(ended));
        assert_eq!(created(&over), standing(None, 0, Lifecycle::Completed));
        assert_eq!(created(&disabled(over)), active(None), "a disabled one stays so until enabled");
        assert_eq!(created(&disabled(job(None, None))), active(Some(CREATED)));
    }

    #[test]
    fn an_edit_waits_for_the_next_point() {
        let old = job(Some("2026-01-01T06:00Z"), Some(daily()));
        let before = standing(Some("2026-01-05T06:00Z"), 4, Lifecycle::Active);
        let now = "2026-01-04T12:00Z";
        let hourly = job(Some("2026-01-01T06:00Z"), Some(Recurrence::every(1, Frequency::Hour)));
        let expected = standing(Some("2026-01-04T13:00Z"), 0, Lifecycle::Active);
        assert_eq!(edited(before, &old, &hourly, EditKind::Change, now), expected);
        let without_start = job(None, Some(daily()));
        let expected = standing(Some("2026-01-05"), 0, Lifecycle::Active);
        assert_eq!(edited(before, &old, &without_start, EditKind::Replace, now), expected);
    }

    #[test]
    fn numbering_goes_on_unless_the_schedule_is_touched() {
        let counted =
            job(Some("2026-01-01T06:00Z"), Some(Recurrence { count: Some(5), ..daily() }));
        let mut renamed = counted.clone();
        renamed.extensions.description = Some("x".into());
        let now = "2026-01-04T12:00Z";
        let before = |used| standing(Some("2026-01-05T06:00Z"), used, Lifecycle::Active);
        let next = |used| standing(Some("2026-01-05T06:00Z"), used, Lifecycle::Active);
        assert_eq!(edited(before(4), &counted, &renamed, EditKind::Change, now), next(4));
        assert_eq!(edited(before(4), &counted, &renamed, EditKind::Replace, now), next(0));
        let over = standing(None, 5, Lifecycle::Completed);
        assert_eq!(edited(before(5), &counted, &renamed, EditKind::Change, now), over);
        let far = "2026-09-01";
        let late = edited(before(4), &counted, &renamed, EditKind::Change, far);
        assert_eq!(late.due, Some(at("2026-09-01T06:00Z")), "what was missed is not counted");
    }

    #[test]
    fn a_job_that_runs_once_and_never_did_runs_at_once_when_its_instant_has_passed() {
        let once = job(Some("2026-02-01"), None);
        let off = disabled(once.clone());
        let before = standing(None, 0, Lifecycle::Active);
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
        let ran = standing(None, 1, Lifecycle::Active);
        let kept = edited(ran, &off, &once, EditKind::Change, "2026-03-01");
        assert_eq!(kept, standing(None, 1, Lifecycle::Completed));
    }

    #[test]
    fn what_is_disabled_knows_the_first_instant_without_a_record() {
        let on = job(Some("2026-01-01T06:00Z"), Some(daily()));
        let off = disabled(on.clone());
        let before = standing(Some("2026-01-02T06:00Z"), 1, Lifecycle::Active);
        let now = "2026-01-10T07:00Z";
        let stopped = edited(before, &on, &off, EditKind::Change, now);
        assert_eq!(stopped, standing(Some("2026-01-11T06:00Z"), 1, Lifecycle::Active));
        let later = "2026-01-20T07:00Z";
        let again = edited(stopped, &off, &on, EditKind::Change, later);
        assert_eq!(again, standing(Some("2026-01-21T06:00Z"), 1, Lifecycle::Active));
        let at_once = edited(stopped, &off, &on, EditKind::Change, now);
        assert_eq!(at_once, stopped, "it was off for no time");
        let back = edited(stopped, &off, &renamed(&off), EditKind::Change, "2026-01-05T00:00Z");
        assert_eq!(back.due, stopped.due, "the clock was set back: nothing comes round again");
        let begun = standing(Some("2026-01-11T06:00Z"), 1, Lifecycle::Active);
        let ahead = edited(begun, &on, &off, EditKind::Change, "2026-01-10T05:59:59.99Z");
        assert_eq!(ahead.due, begun.due, "the one of the tenth is begun already");
    }

    fn renamed(job: &JobDefinition) -> JobDefinition {
        let mut job = job.clone();
        job.extensions.description = Some("x".into());
        job
    }

    /// What an edit closes, as `from to count why`.
    fn closing(old: &JobDefinition, new: &JobDefinition, due: &str, now: &str) -> Option<String> {
        let rule = rule_of(old, at(CREATED), &Settings::default()).unwrap();
        let closed = closed_by_edit(old, new, &rule, at(due), at(now), Switch::Enabled)?;
        let day = |at: Instant| at.to_string().get(5..10).unwrap().to_owned();
        let ClosedOccurrences { from, to, count, reason } = closed;
        Some(format!("{} {} {count} {reason:?}", day(from), day(to)))
    }

    #[test]
    fn an_edit_closes_what_passed_while_the_job_was_disabled() {
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
        assert_eq!(closing(&ended, &on, due, now), three, "the end counts, the count does not");
    }

    #[test]
    fn what_runs_once_and_is_disabled_waits_through_edits_for_being_enabled() {
        let once = job(Some("2026-02-01"), None);
        let off = disabled(once.clone());
        let before = standing(Some("2026-02-01"), 0, Lifecycle::Active);
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
