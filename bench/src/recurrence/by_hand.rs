//! Hand-written jiff code for each schedule: constant days and times, and a direct computation of the
//! result.
//!
//! No time of these schedules is in a DST gap or overlap of Berlin, so this code handles neither.

use std::hint::black_box;

use jiff::civil::{Date, DateTime, Time, Weekday, date, time};
use jiff::tz::TimeZone;
use jiff::{Error, Timestamp, ToSpan};

use crate::recurrence::schedule::{Place, Schedule};
use crate::recurrence::work::{Question, asked};

pub(crate) fn next(
    schedule: Schedule,
    place: Place,
    instants: &[i64],
) -> anyhow::Result<Box<dyn Question>> {
    let next_after = next_after(schedule);
    let zone = TimeZone::get(place.zone_name())?;
    let inputs = instants.iter().map(|&seconds| Timestamp::from_second(seconds));
    Ok(asked(
        inputs.collect::<Result<_, _>>()?,
        move |&at: &Timestamp| next_after(&zone, at),
        |next| next.ok().map(|next| next.as_second()),
    ))
}

/// The next occurrence after a time.
type NextAfter = fn(&TimeZone, Timestamp) -> Result<Timestamp, Error>;

fn next_after(schedule: Schedule) -> NextAfter {
    match schedule {
        Schedule::QuarterHours => quarter_hours,
        Schedule::Daily => daily,
        Schedule::Weekdays => weekdays,
        Schedule::EverySecondWeek => every_second_week,
        Schedule::FifteenthAndLast => fifteenth_and_last,
        Schedule::LastFriday => last_friday,
        Schedule::ThirdWednesday => third_wednesday,
        Schedule::LeapDay => leap_day,
    }
}

const QUARTER_PAST_FIVE: Time = time(5, 15, 0, 0);
const SIX: Time = time(6, 0, 0, 0);
const NINE: Time = time(9, 0, 0, 0);
const FIVE_IN_THE_AFTERNOON: Time = time(17, 0, 0, 0);

fn quarter_hours(_: &TimeZone, after: Timestamp) -> Result<Timestamp, Error> {
    // Interval and start time come with the job; if they were constants the compiler would not divide.
    let (step, anchor) = black_box((15 * 60, Place::Utc.anchor()));
    let passed = (after.as_second() - anchor).rem_euclid(step);
    Timestamp::from_second(after.as_second() - passed + step)
}

fn daily(zone: &TimeZone, after: Timestamp) -> Result<Timestamp, Error> {
    let now = zone.to_datetime(after);
    let day = if now.time() < QUARTER_PAST_FIVE { now.date() } else { now.date().tomorrow()? };
    zone.to_timestamp(day.to_datetime(QUARTER_PAST_FIVE))
}

fn weekdays(zone: &TimeZone, after: Timestamp) -> Result<Timestamp, Error> {
    let now = zone.to_datetime(after);
    let (today, now) = (now.date(), now.time());
    let weekday = today.weekday().to_monday_zero_offset();
    let next = if weekday < 5 && now < NINE {
        today.to_datetime(NINE)
    } else if weekday < 5 && now < FIVE_IN_THE_AFTERNOON {
        today.to_datetime(FIVE_IN_THE_AFTERNOON)
    } else if weekday < 4 {
        today.tomorrow()?.to_datetime(NINE)
    } else {
        today.checked_add((7 - weekday).days())?.to_datetime(NINE)
    };
    zone.to_timestamp(next)
}

fn every_second_week(zone: &TimeZone, after: Timestamp) -> Result<Timestamp, Error> {
    const FIRST_MONDAY: Date = date(2026, 1, 5);
    let now = zone.to_datetime(after);
    let today = now.date();
    let passed = (today.duration_since(FIRST_MONDAY).as_hours() / 24).rem_euclid(14);
    let ahead = match passed {
        0 | 4 if now.time() < QUARTER_PAST_FIVE => 0,
        0..4 => 4 - passed,
        _ => 14 - passed,
    };
    zone.to_timestamp(today.checked_add(ahead.days())?.to_datetime(QUARTER_PAST_FIVE))
}

fn fifteenth_and_last(zone: &TimeZone, after: Timestamp) -> Result<Timestamp, Error> {
    let now = zone.to_datetime(after);
    let fifteenth = date(now.year(), now.month(), 15).to_datetime(SIX);
    if now < fifteenth {
        return zone.to_timestamp(fifteenth);
    }
    let last_day = now.date().last_of_month();
    let last = last_day.to_datetime(SIX);
    if now < last {
        return zone.to_timestamp(last);
    }
    zone.to_timestamp(last_day.checked_add(15.days())?.to_datetime(SIX))
}

fn last_friday(zone: &TimeZone, after: Timestamp) -> Result<Timestamp, Error> {
    let now = zone.to_datetime(after);
    let in_month = |day: Date| -> Result<DateTime, Error> {
        Ok(day.nth_weekday_of_month(-1, Weekday::Friday)?.to_datetime(QUARTER_PAST_FIVE))
    };
    let mut next = in_month(now.date())?;
    if next <= now {
        next = in_month(first_of_next_month(now.date())?)?;
    }
    zone.to_timestamp(next)
}

fn third_wednesday(zone: &TimeZone, after: Timestamp) -> Result<Timestamp, Error> {
    const TIMES: [Time; 4] =
        [QUARTER_PAST_FIVE, time(5, 45, 0, 0), time(17, 15, 0, 0), time(17, 45, 0, 0)];
    let now = zone.to_datetime(after);
    let day = now.date().nth_weekday_of_month(3, Weekday::Wednesday)?;
    for time in TIMES {
        let next = day.to_datetime(time);
        if now < next {
            return zone.to_timestamp(next);
        }
    }
    let day = first_of_next_month(day)?.nth_weekday_of_month(3, Weekday::Wednesday)?;
    zone.to_timestamp(day.to_datetime(QUARTER_PAST_FIVE))
}

fn leap_day(zone: &TimeZone, after: Timestamp) -> Result<Timestamp, Error> {
    let now = zone.to_datetime(after);
    let over = (now.month(), now.day()) > (2, 29)
        || (now.month(), now.day()) == (2, 29) && now.time() >= SIX;
    let mut year = (now.year() + i16::from(over) + 3) / 4 * 4;
    if year % 100 == 0 && year % 400 != 0 {
        year += 4;
    }
    zone.to_timestamp(Date::new(year, 2, 29)?.to_datetime(SIX))
}

fn first_of_next_month(day: Date) -> Result<Date, Error> {
    day.last_of_month().tomorrow()
}
