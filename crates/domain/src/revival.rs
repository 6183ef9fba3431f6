//! A finished job that an edit starts again.

use kalends_recurrence::{Instant, Recurrence, Rule};

use crate::job::JobDefinition;
use crate::run::Lifecycle;
use crate::schedule_state::ScheduleState;

/// Why an edit does not start a finished job again, and what would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRevived {
    /// The job runs once, at a time that has passed.
    #[error(
        "properties.startTime must lie after {now} to start it again; a recurrence or a run request starts it too"
    )]
    TimePassed {
        /// Time of the edit.
        now: Instant,
    },
    /// The occurrences that `count` allows have started.
    #[error(
        "properties.recurrence.count must be greater than {used}, the number of runs so far, to start it again (found {count})"
    )]
    CountUsedUp {
        /// Occurrences that started a run.
        used: u64,
        /// The value of `count`.
        count: u64,
    },
    /// The schedule has ended.
    #[error(
        "properties.recurrence.endTime must not lie before the next possible occurrence, {next}, to start it again (found {end})"
    )]
    Ended {
        /// The value of `endTime`.
        end: Instant,
        /// The next occurrence if `endTime` were absent.
        next: Instant,
    },
    /// The schedule has no occurrence before the year 10000.
    #[error("the schedule has no occurrence after {now}")]
    NoOccurrence {
        /// Time of the edit.
        now: Instant,
    },
}

/// The schedule state of a finished job after an edit that gives it an occurrence in the future.
/// `used` is the number of occurrences that started a run under the old definition, `rule` the rule of
/// the new one.
///
/// The count goes on if the schedule changed in nothing but `count` and `endTime`, so that a `count`
/// raised from 5 to 6 gives one more run. Otherwise it restarts.
pub fn schedule_state_of_revived(
    used: u64,
    old: &JobDefinition,
    new: &JobDefinition,
    rule: &Rule,
    now: Instant,
) -> Result<ScheduleState, NotRevived> {
    let used = if is_same_but_limits(old, new) { used } else { 0 };
    let due = match &new.recurrence {
        None => rule.first().filter(|&once| once > now).ok_or(NotRevived::TimePassed { now })?,
        Some(recurrence) => {
            let count = recurrence.count.map(i64::unsigned_abs);
            if let Some(count) = count.filter(|&count| used >= count) {
                return Err(NotRevived::CountUsedUp { used, count });
            }
            let rule = rule.without_count();
            let ended = || match (recurrence.end, rule.without_end().next_after(now)) {
                (Some(end), Some(next)) => NotRevived::Ended { end, next },
                _ => NotRevived::NoOccurrence { now },
            };
            rule.next_after(now).ok_or_else(ended)?
        }
    };
    Ok(ScheduleState { due: Some(due), used, lifecycle: Lifecycle::Active })
}

/// Whether two definitions have the same schedule, apart from `count` and `endTime`.
fn is_same_but_limits(old: &JobDefinition, new: &JobDefinition) -> bool {
    let unlimited = |job: &JobDefinition| {
        let recurrence = job.recurrence.clone();
        recurrence.map(|recurrence| Recurrence { count: None, end: None, ..*recurrence })
    };
    old.start == new.start && unlimited(old) == unlimited(new)
}
