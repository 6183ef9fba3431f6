//! 29 February and other days that some months do not have.

use kalends_recurrence::{Definition, Frequency, Instant, Recurrence, Rule, Schedule, Settings};
use proptest::prelude::*;

use crate::properties::cases;

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn yearly_from_29_february_falls_on_the_last_day_of_february(year in 1..2450_i64) {
        let start = year * 4;
        prop_assume!(is_leap(start) && start <= 9_780);
        let definition = every(Frequency::Year, &format!("{start:04}-02-29T10:00:07.25Z"), None);
        let expected: Vec<String> = (start..start + 200)
            .map(|year| {
                let day = if is_leap(year) { 29 } else { 28 };
                format!("{year:04}-02-{day}T10:00:07.25Z")
            })
            .collect();
        prop_assert_eq!(occurrences(definition, 200), expected);
    }

    #[test]
    fn an_explicit_29_february_occurs_in_leap_years_only(start in 1..9_300_i64) {
        let schedule = Schedule {
            months: Some(vec![2]),
            month_days: Some(vec![29]),
            ..Schedule::default()
        };
        let definition = every(Frequency::Year, &format!("{start:04}-01-31T08:00Z"), Some(schedule));
        let expected: Vec<String> = (start..start + 600)
            .filter(|&year| is_leap(year))
            .take(100)
            .map(|year| format!("{year:04}-02-29T08:00:00Z"))
            .collect();
        prop_assert_eq!(occurrences(definition, 100), expected);
    }
}

#[test]
fn monthly_from_the_31st_falls_on_the_last_day_of_shorter_months() {
    let definition = every(Frequency::Month, "2027-12-31T08:00Z", None);
    let expected = [
        "2027-12-31T08:00:00Z",
        "2028-01-31T08:00:00Z",
        "2028-02-29T08:00:00Z",
        "2028-03-31T08:00:00Z",
        "2028-04-30T08:00:00Z",
    ];
    assert_eq!(occurrences(definition, 5), expected);
}

#[test]
fn the_years_2100_and_2200_have_no_29_february() {
    let schedule = Schedule { month_days: Some(vec![29]), ..Schedule::default() };
    let definition = every(Frequency::Year, "2092-02-01T00:00Z", Some(schedule));
    let expected = ["2092-02-29T00:00:00Z", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"];
    assert_eq!(occurrences(definition, 3), expected);
}

fn every(frequency: Frequency, start: &str, schedule: Option<Schedule>) -> Definition {
    let start: Instant = start.parse().unwrap();
    let recurrence = Recurrence::every(1, frequency);
    let recurrence = match schedule {
        Some(schedule) => recurrence.with_schedule(schedule),
        None => recurrence,
    };
    Definition { start: Some(start), created: start, recurrence: Some(recurrence) }
}

fn occurrences(definition: Definition, number: usize) -> Vec<String> {
    let rule = Rule::new(definition, &Settings::default()).unwrap();
    rule.occurrences().take(number).map(|at| at.to_string()).collect()
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}
