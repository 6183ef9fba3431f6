//! An `endTime` that leaves no occurrence.

use kalends_recurrence::{Instant, Recurrence, Rule, RuleError, RuleErrorKind, RuleErrors};

use crate::job::JobDefinition;

/// Checks that the schedule of a job written at `now` has an occurrence before its `endTime`. `rule` is
/// the rule of `new`; `old` is the definition that it replaces.
///
/// An edit that changes nothing else of the schedule may set any `endTime`: one in the past is how a
/// user ends a job.
pub fn check_end_time(
    old: Option<&JobDefinition>,
    new: &JobDefinition,
    rule: &Rule,
    now: Instant,
) -> Result<(), RuleErrors> {
    let Some(end) = new.recurrence.as_ref().and_then(|recurrence| recurrence.end) else {
        return Ok(());
    };
    let endless = rule.without_end().without_count();
    let first = match old {
        None => endless.first(),
        Some(old) if is_same_but_end(old, new) => return Ok(()),
        Some(_) => endless.next_after(now),
    };
    match first.filter(|&first| end < first) {
        None => Ok(()),
        Some(first) => Err(RuleErrors(vec![RuleError {
            path: "recurrence.endTime".into(),
            kind: RuleErrorKind::NeverFires,
            message: format!(
                "must not lie before the first possible occurrence, {first} (found {end})"
            ),
        }])),
    }
}

/// Whether two definitions have the same schedule, apart from `endTime`.
fn is_same_but_end(old: &JobDefinition, new: &JobDefinition) -> bool {
    let endless = |job: &JobDefinition| {
        job.recurrence.clone().map(|recurrence| Recurrence { end: None, ..*recurrence })
    };
    old.start == new.start && endless(old) == endless(new)
}
