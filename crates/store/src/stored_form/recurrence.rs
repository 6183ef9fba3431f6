//! The stored form of instants, durations and recurrences.

use std::time::Duration;

use kalends_domain::Verbatim;
use kalends_recurrence::{
    Frequency, Instant, Interval, MonthlyOccurrence, Recurrence, RecurrencePattern, Schedule,
    Weekday, Zone, duration_to_ticks, ticks_to_duration,
};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::stored_form::damaged;

/// A duration: its text as the author wrote it, and its value in ticks of 100 ns.
#[derive(Serialize, Deserialize)]
pub(crate) struct DurationForm(String, u64);

impl From<&Verbatim<Duration>> for DurationForm {
    fn from(written: &Verbatim<Duration>) -> DurationForm {
        let ticks = duration_to_ticks(*written.value());
        DurationForm(written.text().to_owned(), ticks.unsigned_abs())
    }
}

impl From<DurationForm> for Verbatim<Duration> {
    fn from(DurationForm(text, ticks): DurationForm) -> Verbatim<Duration> {
        Verbatim::new(&text, ticks_to_duration(ticks.try_into().unwrap_or(i64::MAX)))
    }
}

/// An instant from its ticks of 100 ns.
pub(crate) fn instant(ticks: i64) -> Result<Instant, StoreError> {
    Instant::from_ticks(ticks).ok_or_else(|| damaged("an instant out of range"))
}

#[derive(Serialize, Deserialize)]
pub(crate) struct RecurrenceForm {
    /// Absent in a cron expression, like `interval`.
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_day_of_week: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<ScheduleForm>,
}

#[derive(Serialize, Deserialize)]
struct ScheduleForm {
    #[serde(skip_serializing_if = "Option::is_none")]
    minutes: Option<Vec<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hours: Option<Vec<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    week_days: Option<Vec<u8>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    month_days: Option<Vec<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    monthly_occurrences: Option<Vec<(u8, Option<i64>)>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    months: Option<Vec<i64>>,
}

impl From<&Recurrence> for RecurrenceForm {
    fn from(recurrence: &Recurrence) -> RecurrenceForm {
        let (interval, cron) = match &recurrence.pattern {
            RecurrencePattern::Interval(interval) => (Some(interval), None),
            RecurrencePattern::Cron(cron) => (None, Some(cron.to_string())),
        };
        let first_day = interval.map(|interval| interval.first_day_of_week);
        RecurrenceForm {
            frequency: interval.map(|interval| interval.frequency.word().to_owned()),
            interval: interval.map(|interval| interval.interval),
            cron,
            count: recurrence.count,
            end: recurrence.end.map(Instant::ticks),
            zone: recurrence.zone.as_ref().map(|zone| zone.name().to_owned()),
            first_day_of_week: first_day.filter(|&day| day != Weekday::Sunday).map(|day| day as u8),
            schedule: interval
                .and_then(|interval| interval.schedule.as_ref())
                .map(ScheduleForm::from),
        }
    }
}

impl From<&Schedule> for ScheduleForm {
    fn from(schedule: &Schedule) -> ScheduleForm {
        let days = |days: &Vec<Weekday>| days.iter().map(|&day| day as u8).collect();
        let occurrences = |list: &Vec<MonthlyOccurrence>| {
            list.iter().map(|wanted| (wanted.day as u8, wanted.occurrence)).collect()
        };
        ScheduleForm {
            minutes: schedule.minutes.clone(),
            hours: schedule.hours.clone(),
            week_days: schedule.week_days.as_ref().map(days),
            month_days: schedule.month_days.clone(),
            monthly_occurrences: schedule.monthly_occurrences.as_ref().map(occurrences),
            months: schedule.months.clone(),
        }
    }
}

impl RecurrenceForm {
    pub(crate) fn read(self) -> Result<Recurrence, StoreError> {
        let zone = self.zone.as_deref().map(Zone::named).transpose().map_err(damaged)?;
        let pattern = match (self.cron, self.frequency, self.interval) {
            (Some(text), _, _) => RecurrencePattern::Cron(text.parse().map_err(damaged)?),
            (None, Some(word), Some(interval)) => {
                let frequency = Frequency::ALL.into_iter().find(|f| f.word() == word);
                RecurrencePattern::Interval(Interval {
                    frequency: frequency.ok_or_else(|| damaged("an unknown frequency"))?,
                    interval,
                    first_day_of_week: self
                        .first_day_of_week
                        .map_or(Ok(Weekday::Sunday), weekday)?,
                    schedule: self.schedule.map(ScheduleForm::read).transpose()?,
                })
            }
            _ => return Err(damaged("a recurrence without frequency and interval")),
        };
        let end = self.end.map(instant).transpose()?;
        Ok(Recurrence { pattern, count: self.count, end, zone })
    }
}

impl ScheduleForm {
    fn read(self) -> Result<Schedule, StoreError> {
        let days = |days: Vec<u8>| days.into_iter().map(weekday).collect::<Result<_, _>>();
        let occurrences = |list: Vec<(u8, Option<i64>)>| {
            let one = |(day, occurrence)| Ok(MonthlyOccurrence { day: weekday(day)?, occurrence });
            list.into_iter().map(one).collect::<Result<_, StoreError>>()
        };
        Ok(Schedule {
            minutes: self.minutes,
            hours: self.hours,
            week_days: self.week_days.map(days).transpose()?,
            month_days: self.month_days,
            monthly_occurrences: self.monthly_occurrences.map(occurrences).transpose()?,
            months: self.months,
        })
    }
}

fn weekday(number: u8) -> Result<Weekday, StoreError> {
    Weekday::ALL.get(usize::from(number)).copied().ok_or_else(|| damaged("an unknown weekday"))
}
