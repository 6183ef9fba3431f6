//! Validates the members of a definition: each must be in range and supported by the frequency.
//!
//! [`crate::Rule::new`] also rejects rules with valid members that never fire.

use crate::definition::{Definition, Frequency, Interval, Recurrence, RecurrencePattern, Schedule};
use crate::error::{RuleError, RuleErrorKind};
use crate::settings::Settings;

/// Above every documented limit, and within a signed 32-bit number.
const COUNT_MAX: i64 = i32::MAX as i64;

/// Ten thousand years, the whole supported calendar. Keeps the month arithmetic from overflowing.
const MONTHS_AHEAD_MAX: i64 = 120_000;

/// Returns all errors in the members of a definition.
pub(crate) fn validate(definition: &Definition, settings: &Settings) -> Vec<RuleError> {
    let mut errors = ErrorCollector(Vec::new());
    if let Some(start) = definition.start {
        let months = settings.start_months_ahead_max.min(MONTHS_AHEAD_MAX);
        if start.ticks() > definition.created.plus_months(months) {
            errors.add("startTime", RuleErrorKind::StartTooFarAhead, || {
                format!(
                    "must be at most {months} months after {} (found {start})",
                    definition.created
                )
            });
        }
    }
    if let Some(recurrence) = &definition.recurrence {
        errors.check_recurrence(recurrence, settings);
    }
    errors.0
}

struct ErrorCollector(Vec<RuleError>);

impl ErrorCollector {
    fn add(
        &mut self,
        path: impl Into<String>,
        kind: RuleErrorKind,
        message: impl FnOnce() -> String,
    ) {
        self.0.push(RuleError { path: path.into(), kind, message: message() });
    }

    fn check_recurrence(&mut self, recurrence: &Recurrence, settings: &Settings) {
        let count = recurrence.count;
        if let Some(count) = count.filter(|count| !(1..=COUNT_MAX).contains(count)) {
            self.add("recurrence.count", RuleErrorKind::InvalidRecurrence, || {
                format!("must be between 1 and {COUNT_MAX} (found {count})")
            });
        }
        // A cron expression is validated when it is parsed.
        if let RecurrencePattern::Interval(interval) = &recurrence.pattern {
            self.check_interval(interval, settings);
        }
    }

    fn check_interval(&mut self, pattern: &Interval, settings: &Settings) {
        let Interval { frequency, interval, schedule, .. } = pattern;
        let unit = frequency.word();
        let max = settings.interval_max(*frequency);
        if *interval < 1 {
            self.add("recurrence.interval", RuleErrorKind::InvalidRecurrence, || {
                format!("must be between 1 and {max} for frequency {unit} (found {interval})")
            });
        } else if *interval > max {
            self.add("recurrence.interval", RuleErrorKind::IntervalTooLong, || {
                format!("must be between 1 and {max} for frequency {unit} (found {interval})")
            });
        }
        if let Some(schedule) = schedule {
            self.check_schedule(schedule, *frequency);
        }
    }

    fn check_schedule(&mut self, schedule: &Schedule, frequency: Frequency) {
        let Schedule { minutes, hours, week_days, month_days, monthly_occurrences, months } =
            schedule;
        if *schedule == Schedule::default() {
            self.add("recurrence.schedule", RuleErrorKind::InvalidSchedule, || {
                "must have minutes, hours, weekDays, monthDays, monthlyOccurrences or months, or be left out (found {})".into()
            });
        }
        self.check_numbers("minutes", minutes, 60, "between 0 and 59", "", |minute| {
            (0..60).contains(&minute)
        });
        self.check_numbers(
            "hours",
            hours,
            24,
            "between 0 and 23",
            "; write 0 for midnight",
            |hour| (0..24).contains(&hour),
        );
        self.check_numbers(
            "monthDays",
            month_days,
            62,
            "between 1 and 31, or between -1 (the last day) and -31",
            "",
            |day| (1..=31).contains(&day.abs()),
        );
        self.check_numbers("months", months, 12, "between 1 and 12", "", |month| {
            (1..=12).contains(&month)
        });
        self.check_length("weekDays", week_days.as_deref(), 7);
        self.check_length("monthlyOccurrences", monthly_occurrences.as_deref(), 77);
        for (index, wanted) in monthly_occurrences.iter().flatten().enumerate() {
            if let Some(number) = wanted.occurrence.filter(|n| !(1..=5).contains(&n.abs())) {
                let path = format!("recurrence.schedule.monthlyOccurrences[{index}].occurrence");
                self.add(path, RuleErrorKind::InvalidSchedule, || {
                    format!("must be between 1 and 5, or between -1 (the last) and -5 (found {number}); leave it out for every {}", wanted.day.name())
                });
            }
        }

        let of_months = matches!(frequency, Frequency::Month | Frequency::Year);
        self.check_frequency(
            "weekDays",
            week_days.is_some(),
            frequency == Frequency::Week,
            frequency,
            "\"week\"",
        );
        for (member, given) in [
            ("monthDays", month_days.is_some()),
            ("monthlyOccurrences", monthly_occurrences.is_some()),
            ("months", months.is_some()),
        ] {
            self.check_frequency(member, given, of_months, frequency, "\"month\" or \"year\"");
        }
        if month_days.is_some() && monthly_occurrences.is_some() {
            self.add(
                "recurrence.schedule.monthlyOccurrences",
                RuleErrorKind::InvalidSchedule,
                || "cannot be combined with monthDays; give one of the two".into(),
            );
        }
    }

    fn check_numbers(
        &mut self,
        member: &str,
        numbers: &Option<Vec<i64>>,
        length_max: usize,
        allowed: &str,
        hint: &str,
        is_allowed: impl Fn(i64) -> bool,
    ) {
        self.check_length(member, numbers.as_deref(), length_max);
        for (index, &number) in numbers.iter().flatten().enumerate().take(length_max) {
            if !is_allowed(number) {
                let path = format!("recurrence.schedule.{member}[{index}]");
                let hint = if number == 24 { hint } else { "" };
                self.add(path, RuleErrorKind::InvalidSchedule, || {
                    format!("must be {allowed} (found {number}){hint}")
                });
            }
        }
    }

    fn check_length<T>(&mut self, member: &str, list: Option<&[T]>, length_max: usize) {
        let Some(list) = list else { return };
        if list.is_empty() || list.len() > length_max {
            let path = format!("recurrence.schedule.{member}");
            self.add(path, RuleErrorKind::InvalidSchedule, || {
                format!("must have between 1 and {length_max} entries (found {})", list.len())
            });
        }
    }

    fn check_frequency(
        &mut self,
        member: &str,
        given: bool,
        fits: bool,
        frequency: Frequency,
        allowed: &str,
    ) {
        if given && !fits {
            let path = format!("recurrence.schedule.{member}");
            self.add(path, RuleErrorKind::InvalidSchedule, || {
                format!("requires frequency {allowed} (found \"{}\")", frequency.word())
            });
        }
    }
}
