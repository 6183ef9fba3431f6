//! The runs of a cron expression by the rules of its source.
//!
//! A second evaluation, independent of that of schedules: it goes from day to day and resolves wall
//! times with the time zone database directly, so that a report can compare both.

use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan as _};
use kalends_recurrence::Instant;

use super::RUNS_SHOWN;
use super::cron_fields::{FieldValues, numbers};

/// Days that are searched: ten 29ths of February.
const DAYS_MAX: usize = 60 * 366;

/// A cron expression with the rules of its source.
#[derive(Clone, Debug)]
pub(super) struct SourceCron {
    pub(super) minutes: FieldValues,
    pub(super) hours: FieldValues,
    pub(super) month_days: FieldValues,
    pub(super) months: FieldValues,
    /// Bit 0 is Sunday.
    pub(super) week_days: FieldValues,
    /// First and last year.
    pub(super) years: Option<(i16, i16)>,
    pub(super) day_rule: DayRule,
    pub(super) gap: Gap,
    pub(super) overlap: Overlap,
}

/// How the two day fields select days together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DayRule {
    Both,
    Either,
}

/// The run of a wall time in a DST gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// None.
    Skip,
    /// At the end of the gap.
    AtEnd,
}

/// The runs of a wall time in a DST overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    First,
    Both,
}

impl SourceCron {
    /// The next runs after a time.
    pub(super) fn next(&self, zone: &TimeZone, after: Instant) -> Vec<Instant> {
        let Some(after) = after.timestamp() else { return vec![] };
        let mut runs: Vec<Timestamp> = Vec::new();
        // A wall time of the day before can be later than midnight in UTC.
        let mut date = zone.to_datetime(after).date().yesterday().unwrap_or(Date::MIN);
        for _ in 0..DAYS_MAX {
            if self.has_day(date) {
                runs.extend(self.runs_of(date, zone).into_iter().filter(|run| *run > after));
                runs.sort_unstable();
                runs.dedup();
            }
            if runs.len() > RUNS_SHOWN {
                break;
            }
            let Ok(next) = date.tomorrow() else { break };
            date = next;
        }
        runs.truncate(RUNS_SHOWN);
        runs.iter().filter_map(|run| Instant::from_unix_seconds(run.as_second())).collect()
    }

    fn has_day(&self, date: Date) -> bool {
        let is_set = |field: &FieldValues, value: i8| field.bits >> value & 1 == 1;
        let in_year = self.years.is_none_or(|(first, last)| (first..=last).contains(&date.year()));
        let is_last = date.day() == date.days_in_month();
        let by_number = is_set(&self.month_days, date.day()) || self.month_days.has_last && is_last;
        let weekday = date.weekday().to_sunday_zero_offset();
        let by_weekday = is_set(&self.week_days, weekday)
            || self.week_days.occurrences.iter().any(|(day, number)| {
                let weekday_of = Weekday::from_sunday_zero_offset(*day as i8);
                let found =
                    weekday_of.and_then(|day| date.nth_weekday_of_month(*number as i8, day));
                found.is_ok_and(|found| found == date)
            });
        let matches = match self.day_rule {
            DayRule::Both => by_number && by_weekday,
            DayRule::Either => by_number || by_weekday,
        };
        in_year && is_set(&self.months, date.month()) && matches
    }

    fn runs_of(&self, date: Date, zone: &TimeZone) -> Vec<Timestamp> {
        let times = numbers(self.hours.bits).into_iter().flat_map(|hour| {
            let minutes = numbers(self.minutes.bits).into_iter();
            minutes.map(move |minute| date.at(hour as i8, minute as i8, 0, 0))
        });
        times.flat_map(|time| self.resolve(time, zone)).collect()
    }

    fn resolve(&self, time: DateTime, zone: &TimeZone) -> Vec<Timestamp> {
        let ambiguous = zone.to_ambiguous_timestamp(time);
        let resolved = match (ambiguous.offset(), self.gap, self.overlap) {
            (AmbiguousOffset::Gap { .. }, Gap::Skip, _) => vec![],
            (AmbiguousOffset::Gap { .. }, Gap::AtEnd, _) => {
                // The first instant after the transition has the later offset.
                let later = ambiguous.later().ok();
                let transition = later.and_then(|later| {
                    let start = later.checked_sub(24.hours()).ok()?;
                    zone.following(start).next().map(|transition| transition.timestamp())
                });
                return transition.into_iter().collect();
            }
            (AmbiguousOffset::Fold { .. }, _, Overlap::Both) => {
                vec![ambiguous.earlier(), ambiguous.later()]
            }
            _ => vec![ambiguous.compatible()],
        };
        resolved.into_iter().flatten().collect()
    }
}
