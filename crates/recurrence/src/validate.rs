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
                format!("{start} is too far ahead; allowed is at most {months} months after the creation ({})", definition.created)
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
                format!("{count} is no count; allowed are whole numbers from 1 to {COUNT_MAX}")
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
                format!("{interval} is no interval; allowed are whole numbers from 1 to {max} for frequency {unit}")
            });
        } else if *interval > max {
            self.add("recurrence.interval", RuleErrorKind::IntervalTooLong, || {
                format!("{interval} is too long; allowed are 1 to {max} for frequency {unit}")
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
                "it is empty; leave it out, or give minutes, hours, weekDays, monthDays, monthlyOccurrences or months".into()
            });
        }
        self.check_numbers("minutes", minutes, 60, "0 to 59", |minute| (0..60).contains(&minute));
        self.check_numbers("hours", hours, 24, "0 to 23 (write 0 for midnight)", |hour| {
            (0..24).contains(&hour)
        });
        self.check_numbers(
            "monthDays",
            month_days,
            62,
            "1 to 31 and -1 (the last day) to -31",
            |day| (1..=31).contains(&day.abs()),
        );
        self.check_numbers("months", months, 12, "1 to 12", |month| (1..=12).contains(&month));
        self.check_length("weekDays", week_days.as_deref(), 7);
        self.check_length("monthlyOccurrences", monthly_occurrences.as_deref(), 77);
        for (index, wanted) in monthly_occurrences.iter().flatten().enumerate() {
            if let Some(number) = wanted.occurrence.filter(|n| !(1..=5).contains(&n.abs())) {
                let path = format!("recurrence.schedule.monthlyOccurrences[{index}].occurrence");
                self.add(path, RuleErrorKind::InvalidSchedule, || {
                    format!("{number} is not allowed; allowed are 1 to 5, -1 (the last) to -5, or none for every {}", wanted.day.name())
                });
            }
        }

        let of_months = matches!(frequency, Frequency::Month | Frequency::Year);
        self.check_frequency(
            "weekDays",
            week_days.is_some(),
            frequency == Frequency::Week,
            frequency,
            "week",
        );
        for (member, given) in [
            ("monthDays", month_days.is_some()),
            ("monthlyOccurrences", monthly_occurrences.is_some()),
            ("months", months.is_some()),
        ] {
            self.check_frequency(member, given, of_months, frequency, "month and year");
        }
        if month_days.is_some() && monthly_occurrences.is_some() {
            self.add(
                "recurrence.schedule.monthlyOccurrences",
                RuleErrorKind::InvalidSchedule,
                || "it cannot stand beside monthDays; give one of the two".into(),
            );
        }
    }

    fn check_numbers(
        &mut self,
        member: &str,
        numbers: &Option<Vec<i64>>,
        length_max: usize,
        allowed: &str,
        is_allowed: impl Fn(i64) -> bool,
    ) {
        self.check_length(member, numbers.as_deref(), length_max);
        for (index, &number) in numbers.iter().flatten().enumerate().take(length_max) {
            if !is_allowed(number) {
                let path = format!("recurrence.schedule.{member}[{index}]");
                self.add(path, RuleErrorKind::InvalidSchedule, || {
                    format!("{number} is not allowed; allowed are {allowed}")
                });
            }
        }
    }

    fn check_length<T>(&mut self, member: &str, list: Option<&[T]>, length_max: usize) {
        let Some(list) = list else { return };
        if list.is_empty() || list.len() > length_max {
            let path = format!("recurrence.schedule.{member}");
            self.add(path, RuleErrorKind::InvalidSchedule, || {
                format!("it has {} entries; allowed are 1 to {length_max}", list.len())
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
                format!(
                    "it does not go with frequency {}; allowed with {allowed} only",
                    frequency.word()
                )
            });
        }
    }
}
