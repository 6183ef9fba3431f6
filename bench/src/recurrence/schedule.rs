//! The benchmark schedules in the format of each contender.

use kalends_recurrence::{
    Definition, Frequency, MonthlyOccurrence, Recurrence, RecurrencePattern, Schedule as Times,
    Weekday, Zone,
};

use crate::recurrence::kalends;

/// A benchmark schedule. All start at 2026-01-05T00:00 local time, a Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    QuarterHours,
    Daily,
    Weekdays,
    EverySecondWeek,
    FifteenthAndLast,
    LastFriday,
    ThirdWednesday,
    LeapDay,
}

/// The time zone of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Utc,
    Berlin,
}

impl Place {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Place::Utc => "utc",
            Place::Berlin => "berlin",
        }
    }

    pub(crate) fn zone_name(self) -> &'static str {
        match self {
            Place::Utc => "UTC",
            Place::Berlin => "Europe/Berlin",
        }
    }

    /// 2026-01-05T00:00 local time, in seconds since 1970.
    pub(crate) fn anchor(self) -> i64 {
        match self {
            Place::Utc => 1_767_571_200,
            Place::Berlin => 1_767_567_600,
        }
    }

    fn anchor_in_text(self) -> &'static str {
        match self {
            Place::Utc => "DTSTART:20260105T000000Z",
            Place::Berlin => "DTSTART;TZID=Europe/Berlin:20260105T000000",
        }
    }
}

impl Schedule {
    pub(crate) const ALL: [Schedule; 8] = [
        Schedule::QuarterHours,
        Schedule::Daily,
        Schedule::Weekdays,
        Schedule::EverySecondWeek,
        Schedule::FifteenthAndLast,
        Schedule::LastFriday,
        Schedule::ThirdWednesday,
        Schedule::LeapDay,
    ];

    /// Time zones of the case; elapsed-time schedules use UTC only.
    pub(crate) fn places(self) -> &'static [Place] {
        match self {
            Schedule::QuarterHours => &[Place::Utc],
            _ => &[Place::Utc, Place::Berlin],
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Schedule::QuarterHours => "quarter-hours",
            Schedule::Daily => "daily",
            Schedule::Weekdays => "weekdays",
            Schedule::EverySecondWeek => "every-second-week",
            Schedule::FifteenthAndLast => "fifteenth-and-last",
            Schedule::LastFriday => "last-friday",
            Schedule::ThirdWednesday => "third-wednesday",
            Schedule::LeapDay => "leap-day",
        }
    }

    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Schedule::QuarterHours => "every 15 minutes",
            Schedule::Daily => "every day 05:15",
            Schedule::Weekdays => "Mon–Fri 09:00, 17:00",
            Schedule::EverySecondWeek => "every 2 weeks Mon, Fri 05:15",
            Schedule::FifteenthAndLast => "15th and last of the month 06:00",
            Schedule::LastFriday => "last Friday 05:15",
            Schedule::ThirdWednesday => "third Wednesday 05:15, 05:45, 17:15, 17:45",
            Schedule::LeapDay => "29 February 06:00",
        }
    }

    pub(crate) fn definition(self, place: Place) -> anyhow::Result<Definition> {
        let mut recurrence = self.recurrence();
        if let RecurrencePattern::Interval(pattern) = &mut recurrence.pattern {
            pattern.first_day_of_week = Weekday::Monday;
        }
        recurrence.zone = match place {
            Place::Utc => None,
            Place::Berlin => Some(Zone::named(place.zone_name())?),
        };
        let anchor = kalends::instant(place.anchor())?;
        Ok(Definition { start: Some(anchor), created: anchor, recurrence: Some(recurrence) })
    }

    fn recurrence(self) -> Recurrence {
        let every = |interval, frequency, times: Option<Times>| {
            let recurrence = Recurrence::every(interval, frequency);
            match times {
                Some(times) => recurrence.with_schedule(times),
                None => recurrence,
            }
        };
        let at = |hours: &[i64], minutes: &[i64]| Times {
            hours: Some(hours.to_vec()),
            minutes: Some(minutes.to_vec()),
            ..Times::default()
        };
        let weekday_of_month =
            |day, occurrence| Some(vec![MonthlyOccurrence { day, occurrence: Some(occurrence) }]);
        use Weekday::{Friday, Monday, Thursday, Tuesday, Wednesday};
        match self {
            Schedule::QuarterHours => every(15, Frequency::Minute, None),
            Schedule::Daily => every(1, Frequency::Day, Some(at(&[5], &[15]))),
            Schedule::Weekdays => {
                let week_days = Some(vec![Monday, Tuesday, Wednesday, Thursday, Friday]);
                every(1, Frequency::Week, Some(Times { week_days, ..at(&[9, 17], &[0]) }))
            }
            Schedule::EverySecondWeek => {
                let week_days = Some(vec![Monday, Friday]);
                every(2, Frequency::Week, Some(Times { week_days, ..at(&[5], &[15]) }))
            }
            Schedule::FifteenthAndLast => {
                let month_days = Some(vec![15, -1]);
                every(1, Frequency::Month, Some(Times { month_days, ..at(&[6], &[0]) }))
            }
            Schedule::LastFriday => {
                let monthly_occurrences = weekday_of_month(Friday, -1);
                every(1, Frequency::Month, Some(Times { monthly_occurrences, ..at(&[5], &[15]) }))
            }
            Schedule::ThirdWednesday => {
                let monthly_occurrences = weekday_of_month(Wednesday, 3);
                let times = at(&[5, 17], &[15, 45]);
                every(1, Frequency::Month, Some(Times { monthly_occurrences, ..times }))
            }
            Schedule::LeapDay => {
                let (months, month_days) = (Some(vec![2]), Some(vec![29]));
                every(1, Frequency::Year, Some(Times { months, month_days, ..at(&[6], &[0]) }))
            }
        }
    }

    /// For the crate `cron`, which requires both day of month and weekday to match: the third Wednesday
    /// is the one from the 15th to the 21st. It supports neither last days, last weekdays nor intervals
    /// of weeks.
    pub(crate) fn for_cron(self) -> Option<&'static str> {
        match self {
            Schedule::QuarterHours => Some("0 */15 * * * *"),
            Schedule::Daily => Some("0 15 5 * * *"),
            Schedule::Weekdays => Some("0 0 9,17 * * Mon-Fri"),
            Schedule::ThirdWednesday => Some("0 15,45 5,17 15-21 * Wed"),
            Schedule::LeapDay => Some("0 0 6 29 2 *"),
            Schedule::EverySecondWeek | Schedule::FifteenthAndLast | Schedule::LastFriday => None,
        }
    }

    /// For the crate `croner`, which does not support intervals of weeks.
    pub(crate) fn for_croner(self) -> Option<&'static str> {
        match self {
            Schedule::QuarterHours => Some("*/15 * * * *"),
            Schedule::Daily => Some("15 5 * * *"),
            Schedule::Weekdays => Some("0 9,17 * * MON-FRI"),
            Schedule::EverySecondWeek => None,
            Schedule::FifteenthAndLast => Some("0 6 15,L * *"),
            Schedule::LastFriday => Some("15 5 * * FRI#L"),
            Schedule::ThirdWednesday => Some("15,45 5,17 * * WED#3"),
            Schedule::LeapDay => Some("0 6 29 2 *"),
        }
    }

    /// For the crate `rrule`, which supports all schedules.
    pub(crate) fn for_rrule(self, place: Place) -> String {
        let rule = match self {
            Schedule::QuarterHours => "FREQ=MINUTELY;INTERVAL=15",
            Schedule::Daily => "FREQ=DAILY;BYHOUR=5;BYMINUTE=15",
            Schedule::Weekdays => "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9,17;BYMINUTE=0",
            Schedule::EverySecondWeek => {
                "FREQ=WEEKLY;INTERVAL=2;WKST=MO;BYDAY=MO,FR;BYHOUR=5;BYMINUTE=15"
            }
            Schedule::FifteenthAndLast => "FREQ=MONTHLY;BYMONTHDAY=15,-1;BYHOUR=6;BYMINUTE=0",
            Schedule::LastFriday => "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=5;BYMINUTE=15",
            Schedule::ThirdWednesday => "FREQ=MONTHLY;BYDAY=3WE;BYHOUR=5,17;BYMINUTE=15,45",
            Schedule::LeapDay => "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYHOUR=6;BYMINUTE=0",
        };
        format!("{}\nRRULE:{rule};BYSECOND=0", place.anchor_in_text())
    }
}
