//! Builds definitions from arbitrary numbers, to reach rules that random JSON rarely produces.

#![no_main]

use arbitrary::Arbitrary;
use kalends_recurrence::{
    Definition, Frequency, Instant, Interval, IntervalMax, MonthlyOccurrence, Recurrence,
    RecurrencePattern, Rule, Schedule, Settings, Weekday, Zone,
};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    created: i64,
    start_after: Option<i32>,
    frequency: u8,
    interval: u32,
    count: Option<u32>,
    end_after: Option<u64>,
    zone: Option<u16>,
    first_day: u8,
    minutes: Option<Vec<u8>>,
    hours: Option<Vec<u8>>,
    week_days: Option<Vec<u8>>,
    month_days: Option<Vec<i8>>,
    monthly: Option<Vec<(u8, Option<i8>)>>,
    months: Option<Vec<u8>>,
    query_after: u64,
}

fn instant(ticks: i64) -> Instant {
    let range = Instant::MAX.ticks() - Instant::MIN.ticks();
    Instant::from_ticks(Instant::MIN.ticks() + ticks.rem_euclid(range)).unwrap_or(Instant::MIN)
}

fn later(at: Instant, ticks: u64) -> Instant {
    let ticks = at.ticks().saturating_add_unsigned(ticks);
    Instant::from_ticks(ticks).unwrap_or(Instant::MAX)
}

fn weekday(number: u8) -> Weekday {
    Weekday::ALL[usize::from(number % 7)]
}

fn numbers<T: Into<i64>>(list: Option<Vec<T>>) -> Option<Vec<i64>> {
    list.map(|list| list.into_iter().map(Into::into).collect())
}

fuzz_target!(|input: Input| {
    let created = instant(input.created);
    let start = input.start_after.map(|seconds| {
        let ticks = created.ticks() + i64::from(seconds) * 10_000_000;
        Instant::from_ticks(ticks).unwrap_or(created)
    });
    let names: Vec<_> = Zone::names().collect();
    let zone =
        input.zone.and_then(|number| Zone::named(names[usize::from(number) % names.len()]).ok());
    let monthly = |(day, occurrence): (u8, Option<i8>)| MonthlyOccurrence {
        day: weekday(day),
        occurrence: occurrence.map(i64::from),
    };
    let schedule = Schedule {
        minutes: numbers(input.minutes),
        hours: numbers(input.hours),
        week_days: input.week_days.map(|days| days.into_iter().map(weekday).collect()),
        month_days: numbers(input.month_days),
        monthly_occurrences: input.monthly.map(|list| list.into_iter().map(monthly).collect()),
        months: numbers(input.months),
    };
    let recurrence = Recurrence {
        pattern: RecurrencePattern::Interval(Interval {
            frequency: Frequency::ALL[usize::from(input.frequency % 6)],
            interval: i64::from(input.interval),
            first_day_of_week: weekday(input.first_day),
            schedule: (schedule != Schedule::default()).then_some(schedule),
        }),
        count: input.count.map(i64::from),
        end: input.end_after.map(|ticks| later(created, ticks)),
        zone,
    };
    let widest = IntervalMax {
        minutes: i64::MAX,
        hours: i64::MAX,
        days: i64::MAX,
        weeks: i64::MAX,
        months: i64::MAX,
        years: i64::MAX,
    };
    let settings =
        Settings { interval_max: widest, start_months_ahead_max: 1_200, ..Settings::default() };
    let definition = Definition { start, created, recurrence: Some(recurrence) };
    let Ok(rule) = Rule::new(definition, &settings) else { return };
    kalends_fuzz::check_rule(&rule, later(created, input.query_after));
});
