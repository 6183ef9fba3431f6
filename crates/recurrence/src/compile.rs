//! Compiles a validated recurrence and its reference time into a zoned pattern.
//!
//! The meaning of a schedule member depends on the frequency. With minute and hour, a member of the
//! same or a larger unit filters the points and a smaller one splits them. With day and above, `hours`
//! and `minutes` are the times of each selected day, and the reference time supplies absent members.
//!
//! A cron expression is a calendar pattern too: selected days of selected months, independent of the
//! reference time.

use crate::Zone;
use crate::civil;
use crate::cron::Cron;
use crate::definition::{Frequency, Interval, Recurrence, RecurrencePattern, Schedule, Weekday};
use crate::expand::{
    Calendar, Cycle, Dates, Days, EARLIEST, Months, Pattern, Periods, Stride, Times,
};
use crate::instant::{TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MINUTE, Ticks};
use crate::zoned_pattern::{TimeBasis, ZonedPattern};

const ALL_HOURS: u32 = (1 << 24) - 1;
const ALL_MINUTES: u64 = (1 << 60) - 1;
const ALL_MONTHS: u32 = (1 << 12) - 1;

/// Compiles `recurrence`, whose members must be in range. `reference` is a UTC time.
pub(crate) fn compile(recurrence: &Recurrence, reference: Ticks) -> ZonedPattern {
    let zone = recurrence.zone.clone().unwrap_or_else(Zone::utc);
    match &recurrence.pattern {
        RecurrencePattern::Interval(interval) => compile_interval(interval, zone, reference),
        RecurrencePattern::Cron(cron) => compile_cron(cron, zone),
    }
}

fn compile_cron(cron: &Cron, zone: Zone) -> ZonedPattern {
    // Every month belongs to a period of one month, whichever is the first.
    let dates = Dates::Months(Months::monthly(0, 1, cron.months_from_zero(), cron.days()));
    let times = Times { hours: cron.hours, minutes: cron.minutes, within_minute: 0 };
    let basis = match cron.follows_elapsed_time {
        true => TimeBasis::Elapsed,
        false => TimeBasis::WallClock,
    };
    ZonedPattern::new(Pattern::Calendar(Calendar { dates, times }), zone, basis, Ticks::MIN)
}

fn compile_interval(pattern: &Interval, zone: Zone, reference: Ticks) -> ZonedPattern {
    static NONE: Schedule = Schedule {
        minutes: None,
        hours: None,
        week_days: None,
        month_days: None,
        monthly_occurrences: None,
        months: None,
    };
    let local = reference + zone.segment_at(reference).1.offset;
    let schedule = pattern.schedule.as_ref().unwrap_or(&NONE);
    match pattern.frequency {
        Frequency::Minute | Frequency::Hour => {
            elapsed(pattern, schedule, zone, ReferenceTime { utc: reference, local })
        }
        _ => {
            let day = local.div_euclid(TICKS_PER_DAY);
            let times = times(schedule, local.rem_euclid(TICKS_PER_DAY));
            let dates = dates(pattern, schedule, day);
            let basis = match (&schedule.hours, &schedule.minutes) {
                (None, Some(_)) => TimeBasis::Elapsed,
                _ => TimeBasis::WallClock,
            };
            let first_local = first_day_of_period(pattern, day) * TICKS_PER_DAY;
            let calendar = Pattern::Calendar(Calendar { dates, times });
            ZonedPattern::new(calendar, zone, basis, first_local)
        }
    }
}

/// The first day of the week, month or year that contains the day `reference`.
fn first_day_of_period(pattern: &Interval, reference: i64) -> i64 {
    let (year, month, _) = civil::date(reference);
    match pattern.frequency {
        Frequency::Minute | Frequency::Hour | Frequency::Day => reference,
        Frequency::Week => {
            reference - days_since(pattern.first_day_of_week, civil::weekday(reference))
        }
        Frequency::Month => civil::day_number(year, month, 1),
        Frequency::Year => civil::day_number(year, 1, 1),
    }
}

/// The reference time in UTC and in local time.
struct ReferenceTime {
    utc: Ticks,
    local: Ticks,
}

fn elapsed(
    pattern: &Interval,
    schedule: &Schedule,
    zone: Zone,
    reference: ReferenceTime,
) -> ZonedPattern {
    let hourly = pattern.frequency == Frequency::Hour;
    let step = pattern.interval * if hourly { TICKS_PER_HOUR } else { TICKS_PER_MINUTE };
    if schedule.hours.is_none() && schedule.minutes.is_none() {
        let periods = Pattern::Elapsed(Periods::new(reference.utc, step, EARLIEST));
        return ZonedPattern::new(periods, Zone::utc(), TimeBasis::Elapsed, Ticks::MIN);
    }
    let hours = schedule.hours.as_deref().map_or(ALL_HOURS, |hours| bits(hours) as u32);
    let minutes = schedule.minutes.as_deref().map_or(ALL_MINUTES, bits);
    let cycle_at = |offset| match schedule.minutes {
        Some(_) if hourly => {
            let hour_begins = reference.utc - reference.local.rem_euclid(TICKS_PER_HOUR);
            Cycle::minutes_of_hours(hour_begins, step, offset, hours, minutes)
        }
        _ => Cycle::filtered(reference.utc, step, offset, hours, minutes),
    };
    let offsets = zone.offsets_from(reference.utc).into_iter();
    let cycles =
        Pattern::ElapsedByOffset(offsets.map(|offset| (offset, cycle_at(offset))).collect());
    ZonedPattern::new(cycles, zone, TimeBasis::Elapsed, Ticks::MIN)
}

fn times(schedule: &Schedule, reference_time_of_day: Ticks) -> Times {
    let hour = reference_time_of_day / TICKS_PER_HOUR;
    let minute = reference_time_of_day / TICKS_PER_MINUTE % 60;
    let within_minute = reference_time_of_day % TICKS_PER_MINUTE;
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

fn dates(pattern: &Interval, schedule: &Schedule, reference: i64) -> Dates {
    let interval = pattern.interval;
    let (year, month, _) = civil::date(reference);
    match pattern.frequency {
        Frequency::Minute | Frequency::Hour | Frequency::Day => {
            Dates::Stride(Stride::days(reference, interval))
        }
        Frequency::Week => {
            let first = pattern.first_day_of_week;
            let weekday = civil::weekday(reference);
            let begins = first_day_of_period(pattern, reference);
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
            let days = days_of_month(schedule, reference);
            Dates::Months(Months::monthly(year * 12 + month - 1, interval, months, days))
        }
        Frequency::Year => {
            let months = schedule
                .months
                .as_deref()
                .map_or(1 << (month - 1), |months| bits(months) as u32 >> 1);
            Dates::Months(Months::yearly(
                year,
                interval,
                months,
                days_of_month(schedule, reference),
            ))
        }
    }
}

fn days_of_month(schedule: &Schedule, reference: i64) -> Days {
    match (schedule.month_days.as_deref(), schedule.monthly_occurrences.as_deref()) {
        (Some(numbers), _) => Days::numbered(numbers),
        (None, Some(occurrences)) => Days::weekdays(occurrences),
        (None, None) => Days::clamped(civil::date(reference).2),
    }
}

/// Days from the first day of the week to a weekday, 0 to 6.
fn days_since(first: Weekday, weekday: i64) -> i64 {
    (weekday - first as i64).rem_euclid(7)
}

/// A bit set with the given bits set.
fn bits(numbers: &[i64]) -> u64 {
    numbers.iter().fold(0, |bits, number| bits | 1 << number)
}
