//! A schedule as its author wrote it: numbers are unchecked here, and lists keep their order and
//! their repetitions, so that what was sent can be shown again. [`Rule`](crate::Rule) is the
//! checked form.

use crate::{Instant, Zone};

/// What decides when a job is due: its start, its creation and its recurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// `startTime`. Absent means: the first run is at once, at the creation.
    pub start: Option<Instant>,
    /// When the job was created. Occurrences before it are neither run nor counted.
    pub created: Instant,
    /// Absent means: the job runs once.
    pub recurrence: Option<Recurrence>,
}

/// How a job repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recurrence {
    /// The unit of `interval`.
    pub frequency: Frequency,
    /// Every how many units.
    pub interval: i64,
    /// How many occurrences there are at most.
    pub count: Option<i64>,
    /// The last instant at which an occurrence may lie.
    pub end: Option<Instant>,
    /// Where hours, days and weeks are read. Absent means UTC.
    pub zone: Option<Zone>,
    /// With which day a week begins; it matters when weeks are skipped.
    pub first_day_of_week: Weekday,
    /// Which days and times within the periods. Absent means: those of the anchor.
    pub schedule: Option<Schedule>,
}

impl Recurrence {
    /// Every `interval` units, without end, in UTC.
    pub fn every(interval: i64, frequency: Frequency) -> Recurrence {
        Recurrence {
            frequency,
            interval,
            count: None,
            end: None,
            zone: None,
            first_day_of_week: Weekday::Sunday,
            schedule: None,
        }
    }
}

/// The days and times of a recurrence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Minutes of the hour, 0 to 59.
    pub minutes: Option<Vec<i64>>,
    /// Hours of the day, 0 to 23.
    pub hours: Option<Vec<i64>>,
    /// Days of the week; only with [`Frequency::Week`].
    pub week_days: Option<Vec<Weekday>>,
    /// Days of the month, 1 to 31, or −1 (the last) to −31; with month and year.
    pub month_days: Option<Vec<i64>>,
    /// Weekdays of the month; with month and year.
    pub monthly_occurrences: Option<Vec<MonthlyOccurrence>>,
    /// Months of the year, 1 to 12; with month and year.
    pub months: Option<Vec<i64>>,
}

/// A weekday within a month: the third Wednesday, the last Friday, every Sunday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonthlyOccurrence {
    /// The weekday.
    pub day: Weekday,
    /// Which one: 1 to 5 from the beginning, −1 to −5 from the end; absent means every one.
    pub occurrence: Option<i64>,
}

/// The unit in which a recurrence counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Frequency {
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Frequency {
    /// All of them, from the shortest.
    pub const ALL: [Frequency; 6] = [
        Frequency::Minute,
        Frequency::Hour,
        Frequency::Day,
        Frequency::Week,
        Frequency::Month,
        Frequency::Year,
    ];

    /// The lower-case English word.
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
#[expect(missing_docs, reason = "the names say it")]
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
    /// All of them, from Sunday.
    pub const ALL: [Weekday; 7] = [
        Weekday::Sunday,
        Weekday::Monday,
        Weekday::Tuesday,
        Weekday::Wednesday,
        Weekday::Thursday,
        Weekday::Friday,
        Weekday::Saturday,
    ];

    /// The English name.
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
