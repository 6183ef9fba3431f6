//! Job schedules in the form that the API receives: values are not validated, and lists keep their
//! order and duplicates so that the API can return the request unchanged. [`Rule`](crate::Rule) is the
//! validated form.

use crate::{Cron, Instant, Zone};

/// Everything that determines when a job is due: start time, creation time and recurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// `startTime`. If absent, the job first runs when it is created.
    pub start: Option<Instant>,
    /// Creation time of the job. Occurrences before it neither run nor count.
    pub created: Instant,
    /// If absent, the job runs once.
    pub recurrence: Option<Recurrence>,
}

/// The `recurrence` member of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recurrence {
    /// Dates and times of the occurrences.
    pub pattern: RecurrencePattern,
    /// Maximum number of occurrences; unlimited if absent.
    pub count: Option<i64>,
    /// `endTime`: no occurrence is later than this.
    pub end: Option<Instant>,
    /// Time zone of hours, days and weeks; UTC if absent.
    pub zone: Option<Zone>,
}

/// The two ways to write dates and times of a recurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecurrencePattern {
    /// `frequency`, `interval` and `schedule`.
    Interval(Interval),
    /// `cron`.
    Cron(Cron),
}

/// A recurrence every n units, with the days and times within each period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The unit of `interval`.
    pub frequency: Frequency,
    /// Number of units from one period to the next, from 1.
    pub interval: i64,
    /// First day of the week. It only matters if weeks are skipped (`interval` above 1).
    pub first_day_of_week: Weekday,
    /// Days and times within each period. If absent, those of the reference time apply.
    pub schedule: Option<Schedule>,
}

impl Recurrence {
    /// An unlimited recurrence in UTC.
    pub fn new(pattern: RecurrencePattern) -> Recurrence {
        Recurrence { pattern, count: None, end: None, zone: None }
    }

    /// An unlimited recurrence every `interval` units, in UTC, without a schedule.
    pub fn every(interval: i64, frequency: Frequency) -> Recurrence {
        Recurrence::new(RecurrencePattern::Interval(Interval::new(interval, frequency)))
    }

    /// The same recurrence with a schedule. A cron expression has none and stays as it is.
    #[must_use]
    pub fn with_schedule(mut self, schedule: Schedule) -> Recurrence {
        if let RecurrencePattern::Interval(interval) = &mut self.pattern {
            interval.schedule = Some(schedule);
        }
        self
    }

    /// Whether the dates and times are a cron expression.
    pub fn is_cron(&self) -> bool {
        matches!(self.pattern, RecurrencePattern::Cron(_))
    }

    /// Frequency, interval and schedule; `None` for a cron expression.
    pub fn interval(&self) -> Option<&Interval> {
        match &self.pattern {
            RecurrencePattern::Interval(interval) => Some(interval),
            RecurrencePattern::Cron(_) => None,
        }
    }
}

impl Interval {
    /// Every `interval` units, without a schedule, with weeks that begin on Sunday.
    pub fn new(interval: i64, frequency: Frequency) -> Interval {
        Interval { frequency, interval, first_day_of_week: Weekday::Sunday, schedule: None }
    }
}

/// The `schedule` member of a recurrence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Minutes of the hour, 0 to 59.
    pub minutes: Option<Vec<i64>>,
    /// Hours of the day, 0 to 23.
    pub hours: Option<Vec<i64>>,
    /// Days of the week; only with [`Frequency::Week`].
    pub week_days: Option<Vec<Weekday>>,
    /// Days of the month, 1 to 31, or −1 (the last) to −31; only with [`Frequency::Month`] and
    /// [`Frequency::Year`].
    pub month_days: Option<Vec<i64>>,
    /// Weekdays of the month; only with [`Frequency::Month`] and [`Frequency::Year`].
    pub monthly_occurrences: Option<Vec<MonthlyOccurrence>>,
    /// Months of the year, 1 to 12; only with [`Frequency::Month`] and [`Frequency::Year`].
    pub months: Option<Vec<i64>>,
}

/// Selects weekdays of a month, such as the third Wednesday, the last Friday or every Sunday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonthlyOccurrence {
    /// The weekday to select.
    pub day: Weekday,
    /// 1 to 5 from the start of the month, −1 to −5 from its end; absent selects every one.
    pub occurrence: Option<i64>,
}

/// The unit of a recurrence interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "self-explanatory")]
pub enum Frequency {
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Frequency {
    /// All frequencies, shortest first.
    pub const ALL: [Frequency; 6] = [
        Frequency::Minute,
        Frequency::Hour,
        Frequency::Day,
        Frequency::Week,
        Frequency::Month,
        Frequency::Year,
    ];

    /// The unit as a lower-case English word, such as `minute`.
    pub const fn word(self) -> &'static str {
        match self {
            Frequency::Minute => "minute",
            Frequency::Hour => "hour",
            Frequency::Day => "day",
            Frequency::Week => "week",
            Frequency::Month => "month",
            Frequency::Year => "year",
        }
    }
}

/// A day of the week, numbered from Sunday = 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "self-explanatory")]
pub enum Weekday {
    Sunday,
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
}

impl Weekday {
    /// All weekdays, Sunday first.
    pub const ALL: [Weekday; 7] = [
        Weekday::Sunday,
        Weekday::Monday,
        Weekday::Tuesday,
        Weekday::Wednesday,
        Weekday::Thursday,
        Weekday::Friday,
        Weekday::Saturday,
    ];

    /// The English name, capitalized.
    pub const fn name(self) -> &'static str {
        match self {
            Weekday::Sunday => "Sunday",
            Weekday::Monday => "Monday",
            Weekday::Tuesday => "Tuesday",
            Weekday::Wednesday => "Wednesday",
            Weekday::Thursday => "Thursday",
            Weekday::Friday => "Friday",
            Weekday::Saturday => "Saturday",
        }
    }
}
