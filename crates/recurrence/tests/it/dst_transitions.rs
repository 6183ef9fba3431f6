//! DST transitions with expected occurrences computed by hand. Times are local times with their UTC
//! offset.

mod berlin;
mod half_hour_transitions;
mod irregular_transitions;
mod midnight_transitions;
mod new_york_and_dublin;
mod skipped_day;

use kalends_recurrence::{
    Definition, Frequency, Instant, MonthlyOccurrence, Recurrence, Rule, Schedule, Settings,
    Weekday, Zone,
};

use crate::naive;
use Frequency::{Day, Hour, Minute, Month, Week, Year};

/// Checks that every query of the rule, and the naive implementation, yield the expected occurrences in
/// `from..=to`.
fn check(definition: &Definition, [from, to]: [&str; 2], expected: &[&str]) {
    let settings = Settings::default();
    let expected: Vec<Instant> = expected.iter().map(|text| instant(text)).collect();
    let (from, to) = (instant(from), instant(to));
    assert_eq!(
        naive::occurrences(definition, &settings, from, to),
        expected,
        "the naive implementation"
    );

    let rule = Rule::new(definition.clone(), &settings).unwrap();
    let before = Instant::from_ticks(from.ticks() - 1).unwrap();
    let found: Vec<Instant> = rule.occurrences_after(before).take_while(|&at| at <= to).collect();
    assert_eq!(found, expected, "iteration");
    assert_eq!(rule.count_between(before, to), expected.len() as u64, "count");
    let mut previous = before;
    for &at in &expected {
        assert_eq!(rule.next_after(previous), Some(at));
        assert_eq!(rule.last_at_or_before(at), Some(at));
        previous = at;
    }
    if let Some(&last) = expected.last() {
        assert_eq!(rule.last_at_or_before(to), Some(last));
    }
}

fn instant(text: &str) -> Instant {
    text.parse().unwrap()
}

/// A definition whose creation time is its start time.
fn every(interval: i64, frequency: Frequency, zone: &str, start: &str) -> Definition {
    let zone = Some(Zone::named(zone).unwrap());
    Definition {
        start: Some(instant(start)),
        created: instant(start),
        recurrence: Some(Recurrence { zone, ..Recurrence::every(interval, frequency) }),
    }
}

fn with(mut definition: Definition, schedule: Schedule) -> Definition {
    definition.recurrence = definition.recurrence.map(|all| all.with_schedule(schedule));
    definition
}

fn hours_and_minutes(hours: &[i64], minutes: &[i64]) -> Schedule {
    Schedule { hours: Some(hours.to_vec()), minutes: Some(minutes.to_vec()), ..Schedule::default() }
}

fn hours_only(hours: &[i64]) -> Schedule {
    Schedule { hours: Some(hours.to_vec()), ..Schedule::default() }
}

fn minutes_only(minutes: &[i64]) -> Schedule {
    Schedule { minutes: Some(minutes.to_vec()), ..Schedule::default() }
}

fn week_days(week_days: &[Weekday]) -> Schedule {
    Schedule { week_days: Some(week_days.to_vec()), ..Schedule::default() }
}

fn last_sunday() -> Schedule {
    let last = MonthlyOccurrence { day: Weekday::Sunday, occurrence: Some(-1) };
    Schedule { monthly_occurrences: Some(vec![last]), ..Schedule::default() }
}
