//! Cron expressions compared with the crate `croner`.

use std::str::FromStr as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kalends_recurrence::{
    Definition, Instant, Recurrence, RecurrencePattern, Rule, Settings, Zone,
};
use proptest::prelude::*;

use crate::naive::{self, DAY, HOUR, MINUTE};
use crate::strategies::cron_text;

const ZONES: [&str; 10] = [
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "America/Los_Angeles",
    "America/Havana",
    "America/Santiago",
    "Australia/Sydney",
    "Australia/Lord_Howe",
    "Asia/Jerusalem",
    "Pacific/Auckland",
];

/// More than the minutes around a transition.
const OCCURRENCES_MAX: usize = 600;

fn rule(text: &str, zone: &str, created: i64) -> Option<Rule> {
    let pattern = RecurrencePattern::Cron(text.parse().unwrap());
    let zone = Some(Zone::named(zone).unwrap());
    let recurrence = Some(Recurrence { zone, ..Recurrence::new(pattern) });
    let created = Instant::from_ticks(created).unwrap();
    Rule::new(Definition { start: None, created, recurrence }, &Settings::default()).ok()
}

/// The occurrences of both in `from < t <= until`; `None` if either rejects the
/// expression.
fn both(text: &str, zone: &str, from: i64, until: i64) -> Option<(Vec<i64>, Vec<i64>)> {
    let rule = rule(text, zone, from)?;
    let ours = rule.occurrences().map(Instant::ticks);
    let zone = naive::time_zone(Some(&Zone::named(zone).unwrap()));
    let cron = croner::Cron::from_str(text).ok()?;
    let start = naive::timestamp(from).to_zoned(zone);
    let theirs = cron.iter_after(start).map(|at| naive::ticks(at.timestamp()));
    let within = |at: &i64| *at <= until;
    Some((
        ours.take_while(within).take(OCCURRENCES_MAX).collect(),
        theirs.take_while(within).take(OCCURRENCES_MAX).collect(),
    ))
}

/// `croner` takes `*/2` in a day field as restricted, unlike Vixie cron.
fn is_common(text: &str) -> bool {
    let mut day_fields = text.split(' ').enumerate().filter(|(index, _)| [2, 4].contains(index));
    !day_fields.any(|(_, field)| field.starts_with("*/"))
}

proptest! {
    #[test]
    fn expressions_in_utc_agree_with_croner(
        text in cron_text().prop_filter("read alike", |text| is_common(text)),
        minutes in 0..10 * 365 * 24 * 60_i64,
    ) {
        let from = "2024-01-01".parse::<Instant>().unwrap().ticks() + minutes * MINUTE;
        let until = from + 3_650 * DAY;
        if let Some((ours, theirs)) = both(&text, "UTC", from, until) {
            prop_assert_eq!(ours, theirs, "{}", text);
        }
    }
}

/// In the hours around a transition the rules differ, except for elapsed time: `croner` moves a time in
/// a DST gap to its end and repeats some fixed times in a DST overlap. The naive implementation checks
/// those hours.
#[test]
fn dst_nights_of_ten_zones_agree_with_croner() {
    for zone in ZONES {
        let transitions = transitions(&naive::time_zone(Some(&Zone::named(zone).unwrap())));
        assert!(transitions.len() >= 4, "{zone}");
        for at in transitions {
            for minute in ["0", "30", "15,45", "*/20", "59", "*"] {
                for hour in ["*", "*/2", "0", "1", "2", "3", "1-3", "0,2", "23", "1-5/2"] {
                    let text = format!("{minute} {hour} * * *");
                    let (from, until) = (at - 5 * HOUR, at + 4 * HOUR);
                    let (mut ours, mut theirs) = both(&text, zone, from, until).unwrap();
                    for all in [&mut ours, &mut theirs] {
                        if !hour.starts_with('*') {
                            all.retain(|&time| (time - at).abs() > HOUR);
                        }
                    }
                    assert_eq!(ours, theirs, "{zone} {text} {}", naive::timestamp(at));
                }
            }
        }
    }
}

/// The transitions of three years.
fn transitions(zone: &TimeZone) -> Vec<i64> {
    let from: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let until: Timestamp = "2029-01-01T00:00:00Z".parse().unwrap();
    let all = zone.following(from).map(|transition| transition.timestamp());
    all.take_while(|&at| at < until).map(naive::ticks).collect()
}
