//! Where a job stands in its schedule when it is made or edited.
//!
//! An edit never fires a job by itself: the next run is the next point after the edit. One thing
//! would else look enabled and be dead: a job that runs once, never did, and whose instant has
//! passed. It runs at once.

use kalends_recurrence::{Definition, Instant, IntervalMax, Problems, Rule, Settings};

use crate::job::{JobDefinition, Switch};
use crate::run::Lifecycle;

/// Where a job stands in its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The next occurrence; none while the job is disabled or when it is over.
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
) -> Result<Rule, Problems> {
    let recurrence = job.recurrence.clone();
    Rule::new(Definition { start: job.start, created, recurrence }, settings)
}

/// The rule of a job that is kept. It was checked when it was written, and limits may have changed
/// since.
pub fn kept_rule_of(
    job: &JobDefinition,
    created: Instant,
    settings: &Settings,
) -> Result<Rule, Problems> {
    let all = i64::MAX;
    let interval_max =
        IntervalMax { minutes: all, hours: all, days: all, weeks: all, months: all, years: all };
    // Years ahead of any job; months are added to an instant, which must not overflow.
    let start_months_ahead_max = i64::from(i32::MAX);
    rule_of(job, created, &Settings { interval_max, start_months_ahead_max, ..settings.clone() })
}

/// Where a new job stands.
pub fn standing_of_new(job: &JobDefinition, rule: &Rule) -> Standing {
    stand(job, rule.first(), 0)
}

/// Where an active job stands after an edit. `rule` is that of the new definition.
pub fn standing_after_edit(
    before: Standing,
    old: &JobDefinition,
    new: &JobDefinition,
    rule: &Rule,
    kind: EditKind,
    now: Instant,
    settings: &Settings,
) -> Standing {
    let moved = old.start != new.start || old.recurrence != new.recurrence;
    let used = match kind {
        EditKind::Replace => 0,
        EditKind::Change if moved => 0,
        EditKind::Change => before.used,
    };
    let due = match &new.recurrence {
        None if used > 0 => None,
        None => rule.first().map(|once| match once > now {
            true => once,
            false => now.saturating_add(settings.start_delay),
        }),
        Some(recurrence) => {
            let left = recurrence.count.is_none_or(|count| used < count.unsigned_abs());
            // Points before now were neither run nor counted; `used` says how many were.
            if left { rule.without_count().next_after(now) } else { None }
        }
    };
    stand(new, due, used)
}

fn stand(job: &JobDefinition, due: Option<Instant>, used: u64) -> Standing {
    match (job.switch, due) {
        (Switch::Disabled, _) => Standing { due: None, used, lifecycle: Lifecycle::Active },
        (Switch::Enabled, Some(due)) => {
            Standing { due: Some(due), used, lifecycle: Lifecycle::Active }
        }
        (Switch::Enabled, None) => Standing { due: None, used, lifecycle: Lifecycle::Completed },
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

    fn created(job: &JobDefinition) -> Standing {
        standing_of_new(job, &rule_of(job, at(CREATED), &Settings::default()).unwrap())
    }

    fn edited(
        before: Standing,
        old: &JobDefinition,
        new: &JobDefinition,
        kind: EditKind,
        now: &str,
    ) -> Standing {
        let settings = Settings::default();
        let rule = rule_of(new, at(CREATED), &settings).unwrap();
        standing_after_edit(before, old, new, &rule, kind, at(now), &settings)
    }

    fn standing(due: Option<&str>, used: u64, lifecycle: Lifecycle) -> Standing {
        Standing { due: due.map(at), used, lifecycle }
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
        assert_eq!(created(&disabled(job(None, None))), active(None));
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
            standing_after_edit(before, &off, &once, &rule, EditKind::Change, at(now), &settings)
                .due
        };
        assert_eq!(enable("2026-01-15"), Some(at("2026-02-01")));
        assert_eq!(enable("2026-03-01"), Some(at("2026-03-01T00:00:20Z")));
        let ran = standing(None, 1, Lifecycle::Active);
        let kept = edited(ran, &off, &once, EditKind::Change, "2026-03-01");
        assert_eq!(kept, standing(None, 1, Lifecycle::Completed));
    }

    #[test]
    fn enabling_waits_for_the_next_point_and_disabling_has_none() {
        let on = job(Some("2026-01-01T06:00Z"), Some(daily()));
        let off = disabled(on.clone());
        let before = standing(Some("2026-01-02T06:00Z"), 1, Lifecycle::Active);
        let now = "2026-01-10T07:00Z";
        let stopped = edited(before, &on, &off, EditKind::Change, now);
        assert_eq!(stopped, standing(None, 1, Lifecycle::Active));
        let again = edited(stopped, &off, &on, EditKind::Change, now);
        assert_eq!(again, standing(Some("2026-01-11T06:00Z"), 1, Lifecycle::Active));
    }
}
