//! From a checked recurrence and its anchor to a pattern in a zone.
//!
//! What a member means depends on the frequency: with minute and hour, a member of the same or a
//! larger unit leaves points out and a smaller one splits them; with day and larger, `hours` and
//! `minutes` are the times of each chosen day, and what is not given comes from the anchor.

use crate::Zone;
use crate::civil;
use crate::definition::{Frequency, Recurrence, Schedule, Weekday};
use crate::expand::{
    Calendar, Cycle, Dates, Days, EARLIEST, Months, Pattern, Periods, Stride, Times,
};
use crate::instant::{TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MINUTE, Ticks};
use crate::placement::{Clock, Placement};

const ALL_HOURS: u32 = (1 << 24) - 1;
const ALL_MINUTES: u64 = (1 << 60) - 1;
const ALL_MONTHS: u32 = (1 << 12) - 1;

/// The points of `recurrence`, whose members are known to be in range.
pub(crate) fn compile(recurrence: &Recurrence, anchor: Ticks) -> Placement {
    static NONE: Schedule = Schedule {
        minutes: None,
        hours: None,
        week_days: None,
        month_days: None,
        monthly_occurrences: None,
        months: None,
    };
    let zone = recurrence.zone.clone().unwrap_or_else(Zone::utc);
    let local = anchor + zone.segment_at(anchor).1.offset;
    let schedule = recurrence.schedule.as_ref().unwrap_or(&NONE);
    match recurrence.frequency {
        Frequency::Minute | Frequency::Hour => {
            elapsed(recurrence, schedule, zone, Anchor { real: anchor, local })
        }
        _ => {
            let day = local.div_euclid(TICKS_PER_DAY);
            let times = times(schedule, local.rem_euclid(TICKS_PER_DAY));
            let dates = dates(recurrence, schedule, day);
            let pattern = Pattern::Calendar(Calendar { dates, times });
            let clock = match (&schedule.hours, &schedule.minutes) {
                (None, Some(_)) => Clock::Real,
                _ => Clock::Wall,
            };
            let first_local = first_day_of_period(recurrence, day) * TICKS_PER_DAY;
            Placement::new(pattern, zone, clock, first_local)
        }
    }
}

/// The first day of the week, month or year that holds the anchor.
fn first_day_of_period(recurrence: &Recurrence, anchor: i64) -> i64 {
    let (year, month, _) = civil::date(anchor);
    match recurrence.frequency {
        Frequency::Minute | Frequency::Hour | Frequency::Day => anchor,
        Frequency::Week => {
            anchor - days_since(recurrence.first_day_of_week, civil::weekday(anchor))
        }
        Frequency::Month => civil::day_number(year, month, 1),
        Frequency::Year => civil::day_number(year, 1, 1),
    }
}

/// The anchor, on both clocks.
struct Anchor {
    real: Ticks,
    local: Ticks,
}

fn elapsed(recurrence: &Recurrence, schedule: &Schedule, zone: Zone, anchor: Anchor) -> Placement {
    let hourly = recurrence.frequency == Frequency::Hour;
    let step = recurrence.interval * if hourly { TICKS_PER_HOUR } else { TICKS_PER_MINUTE };
    if schedule.hours.is_none() && schedule.minutes.is_none() {
        let pattern = Pattern::Elapsed(Periods::new(anchor.real, step, EARLIEST));
        return Placement::new(pattern, Zone::utc(), Clock::Real, Ticks::MIN);
    }
    let hours = schedule.hours.as_deref().map_or(ALL_HOURS, |hours| bits(hours) as u32);
    let minutes = schedule.minutes.as_deref().map_or(ALL_MINUTES, bits);
    let cycle_at = |offset| match schedule.minutes {
        Some(_) if hourly => {
            let hour_begins = anchor.real - anchor.local.rem_euclid(TICKS_PER_HOUR);
            Cycle::minutes_of_hours(hour_begins, step, offset, hours, minutes)
        }
        _ => Cycle::filtered(anchor.real, step, offset, hours, minutes),
    };
    let offsets = zone.offsets_from(anchor.real).into_iter();
    let pattern =
        Pattern::ElapsedByOffset(offsets.map(|offset| (offset, cycle_at(offset))).collect());
    Placement::new(pattern, zone, Clock::Real, Ticks::MIN)
}

fn times(schedule: &Schedule, anchor: Ticks) -> Times {
    let hour = anchor / TICKS_PER_HOUR;
    let minute = anchor / TICKS_PER_MINUTE % 60;
    let within_minute = anchor % TICKS_PER_MINUTE;
    match (schedule.hours.as_deref(), schedule.minutes.as_deref()) {
        (Some(hours), Some(minutes)) => {
            Times { hours: bits(hours) as u32, minutes: bits(minutes), within_minute: 0 }
        }
        (Some(hours), None) => {
            Times { hours: bits(hours) as u32, minutes: 1 << minute, within_minute }
        }
        (None, Some(minutes)) => {
            Times { hours: ALL_HOURS, minutes: bits(minutes), within_minute: 0 }
        }
        (None, None) => Times { hours: 1 << hour, minutes: 1 << minute, within_minute },
    }
}

fn dates(recurrence: &Recurrence, schedule: &Schedule, anchor: i64) -> Dates {
    let interval = recurrence.interval;
    let (year, month, _) = civil::date(anchor);
    match recurrence.frequency {
        Frequency::Minute | Frequency::Hour | Frequency::Day => {
            Dates::Stride(Stride::days(anchor, interval))
        }
        Frequency::Week => {
            let first = recurrence.first_day_of_week;
            let weekday = civil::weekday(anchor);
            let begins = first_day_of_period(recurrence, anchor);
            let chosen = match schedule.week_days.as_deref() {
                Some(days) => {
                    days.iter().fold(0, |bits, &day| bits | 1 << days_since(first, day as i64))
                }
                None => 1 << days_since(first, weekday),
            };
            Dates::Stride(Stride::weeks(begins, interval, chosen))
        }
        Frequency::Month => {
            let months =
                schedule.months.as_deref().map_or(ALL_MONTHS, |months| bits(months) as u32 >> 1);
            let days = days_of_month(schedule, anchor);
            Dates::Months(Months::monthly(year * 12 + month - 1, interval, months, days))
        }
        Frequency::Year => {
            let months = schedule
                .months
                .as_deref()
                .map_or(1 << (month - 1), |months| bits(months) as u32 >> 1);
            Dates::Months(Months::yearly(year, interval, months, days_of_month(schedule, anchor)))
        }
    }
}

fn days_of_month(schedule: &Schedule, anchor: i64) -> Days {
    match (schedule.month_days.as_deref(), schedule.monthly_occurrences.as_deref()) {
        (Some(numbers), _) => Days::numbered(numbers),
        (None, Some(occurrences)) => Days::weekdays(occurrences),
        (None, None) => Days::clamped(civil::date(anchor).2),
    }
}

/// How many days after the first day of the week a weekday comes.
fn days_since(first: Weekday, weekday: i64) -> i64 {
    (weekday - first as i64).rem_euclid(7)
}

/// A bit for each number.
fn bits(numbers: &[i64]) -> u64 {
    numbers.iter().fold(0, |bits, number| bits | 1 << number)
}
