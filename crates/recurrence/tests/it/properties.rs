//! The crate against the second implementation, over random definitions.

use kalends_recurrence::{Instant, Rule};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestCaseError, TestCaseResult};

use crate::definitions::{
    Case, any_case, instant_within, one_shot_case, span_of_some_periods, start_of_year, utc_case,
};
use crate::naive::{self, DAY, HOUR, MINUTE};

/// Nothing is written next to the sources: a failure prints its definition, and a found mistake
/// becomes a named case. `CASES_FACTOR=100` makes a long search of it.
pub(crate) fn cases(number: u32) -> Config {
    let factor = std::env::var("CASES_FACTOR").map_or(1, |factor| factor.parse().unwrap());
    Config {
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::with_cases(number * factor)
    }
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn a_rule_yields_what_the_naive_walk_yields(case in any_case()) {
        check_from_the_beginning(&case, &[])?;
    }

    #[test]
    fn a_rule_in_utc_yields_what_the_naive_walk_yields(case in utc_case(1600..2500_i64)) {
        check_from_the_beginning(&case, &[])?;
    }

    #[test]
    fn questions_about_an_instant_agree_with_the_naive_walk(
        case in any_case(),
        parts in prop::collection::vec(any::<Index>(), 12),
    ) {
        check_from_the_beginning(&case, &parts)?;
    }

    #[test]
    fn clock_changes_long_after_the_start_agree_with_the_naive_walk(
        mut case in any_case(),
        years in prop_oneof![0..40_i64, 0..2000_i64],
        days in 0..400_i64,
        parts in prop::collection::vec(any::<Index>(), 12),
    ) {
        case.recurrence_mut().count = None;
        case.recurrence_mut().end = None;
        let recurrence = case.definition.recurrence.as_ref().unwrap();
        let zone = naive::time_zone(recurrence.zone.as_ref());
        let far = case.until.ticks() + years * 365 * DAY + days * DAY;
        let change = zone.following(naive::timestamp(far)).next();
        let change = change.map_or(far, |change| naive::ticks(change.timestamp()));
        let margin = span_of_some_periods(recurrence) / 4;
        let from = Instant::from_ticks(change - margin).unwrap();
        let to = Instant::from_ticks(change + margin).unwrap();
        check_window(&case, from, to, &parts)?;
    }

    #[test]
    fn a_one_shot_runs_once(case in one_shot_case()) {
        check_from_the_beginning(&case, &[])?;
    }
}

proptest! {
    #![proptest_config(cases(800))]

    #[test]
    fn the_end_is_the_last_permitted_instant(mut case in any_case(), which in any::<Index>()) {
        case.recurrence_mut().end = None;
        let all = case.naive(Instant::MIN, case.until);
        prop_assume!(!all.is_empty());
        let last = which.index(all.len());
        for (tick, kept) in [(-1, last), (0, last + 1), (1, last + 1)] {
            let end = Instant::from_ticks(all[last].ticks() + tick);
            case.recurrence_mut().end = end;
            let Some(rule) = case.rule() else { return Ok(()) };
            let ended: Vec<Instant> = rule.occurrences().take(all.len() + 1).collect();
            check_same(&case, &ended, &all[..kept])?;
            prop_assert_eq!(rule.next_after(case.until), None, "end {:?}, {:?}", end, &case);
        }
    }

    #[test]
    fn the_count_is_the_number_of_occurrences(mut case in any_case(), count in 1..60_usize) {
        case.recurrence_mut().count = None;
        let Some(endless) = case.rule() else { return Ok(()) };
        let all: Vec<Instant> = endless.occurrences().take(count).collect();
        case.recurrence_mut().count = Some(count as i64);
        let counted = case.rule().unwrap();
        prop_assert_eq!(&counted.occurrences().take(count + 1).collect::<Vec<_>>(), &all);
        prop_assert_eq!(counted.last_at_or_before(Instant::MAX), all.last().copied());
        prop_assert_eq!(counted.count_between(Instant::MIN, Instant::MAX), all.len() as u64);
        let again = counted.without_count();
        prop_assert_eq!(&again.occurrences().take(count).collect::<Vec<_>>(), &all);
        if let Some(&last) = all.last() {
            prop_assert_eq!(again.next_after(last), endless.next_after(last));
        }
    }

    #[test]
    fn occurrences_increase_between_beginning_and_end(case in any_case()) {
        let Some(rule) = case.rule() else { return Ok(()) };
        let definition = &case.definition;
        let recurrence = definition.recurrence.as_ref().unwrap();
        let some: Vec<Instant> = rule.occurrences().take(200).collect();
        prop_assert!(some.is_sorted_by(|earlier, later| earlier < later), "{some:?}");
        for &at in &some {
            prop_assert!(at >= definition.created);
            prop_assert!(definition.start.is_none_or(|start| at >= start));
            prop_assert!(recurrence.end.is_none_or(|end| at <= end));
        }
        prop_assert!(recurrence.count.is_none_or(|count| some.len() as i64 <= count));
        prop_assert_eq!(rule.first(), some.first().copied());
        prop_assert_eq!(rule.last_at_or_before(Instant::MIN), None);
        prop_assert_eq!(rule.next_after(Instant::MIN), rule.first());
    }

    #[test]
    fn four_hundred_years_later_everything_is_the_same_in_utc(case in utc_case(1600..2500_i64)) {
        let cycle = 146_097 * DAY;
        let later = |at: Instant| Instant::from_ticks(at.ticks() + cycle).unwrap();
        let mut shifted = case.clone();
        shifted.definition.start = case.definition.start.map(later);
        shifted.definition.created = later(case.definition.created);
        let end = case.definition.recurrence.as_ref().unwrap().end;
        shifted.recurrence_mut().end = end.map(later);
        let (rule, shifted) = match (case.rule(), shifted.rule()) {
            (Some(rule), Some(shifted)) => (rule, shifted),
            (rule, shifted) => {
                prop_assert_eq!(rule.is_some(), shifted.is_some());
                return Ok(());
            }
        };
        let expected: Vec<Instant> = rule.occurrences().take(60).map(later).collect();
        prop_assert_eq!(shifted.occurrences().take(60).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn far_years_agree_with_the_naive_walk(
        mut case in any_case(),
        year in prop_oneof![Just(2400), Just(5000), Just(9980)],
        moved in any::<bool>(),
        parts in prop::collection::vec(any::<Index>(), 4),
    ) {
        case.recurrence_mut().count = None;
        case.recurrence_mut().end = None;
        let (from, distance) = (start_of_year(year), 3 * 365 * DAY);
        if moved {
            let later = |at: Instant| {
                Instant::from_ticks(at.ticks() + from - case.until.ticks()).unwrap()
            };
            case.definition.start = case.definition.start.map(later);
            case.definition.created = later(case.definition.created);
        }
        let span = span_of_some_periods(case.definition.recurrence.as_ref().unwrap());
        let from = Instant::from_ticks(from + distance - span / 4).unwrap();
        let to = Instant::from_ticks(from.ticks() + span / 2).unwrap();
        check_window(&case, from, to, &parts)?;
    }

    #[test]
    fn answers_in_far_years_agree_with_each_other(
        mut case in any_case(),
        year in prop_oneof![Just(2400), Just(5000), Just(9990)],
        day in 0..3000_i64,
    ) {
        case.recurrence_mut().count = None;
        case.recurrence_mut().end = None;
        let Some(rule) = case.rule() else { return Ok(()) };
        let from = Instant::from_ticks(start_of_year(year) + day * DAY).unwrap();
        check_consistency(&rule, from)?;
    }

    #[test]
    fn the_end_of_time_is_an_end_like_any_other(
        mut case in any_case(),
        back in prop_oneof![0..=3 * HOUR, 0..=3 * DAY, 0..=40 * DAY],
        end in any::<bool>(),
    ) {
        let created = Instant::from_ticks(Instant::MAX.ticks() - back).unwrap();
        let distance = created.ticks() - case.definition.created.ticks();
        let later = |at: Instant| {
            Instant::from_ticks((at.ticks() + distance).min(Instant::MAX.ticks())).unwrap()
        };
        case.definition.created = created;
        case.definition.start = case.definition.start.map(later);
        case.recurrence_mut().end = end.then_some(Instant::MAX);
        let Some(rule) = case.rule() else { return Ok(()) };
        let most = usize::try_from(back / MINUTE).unwrap() + 2;
        let all: Vec<Instant> = rule.occurrences().take(most + 1).collect();
        prop_assert!(all.len() <= most, "{} occurrences", all.len());
        prop_assert_eq!(rule.next_after(Instant::MAX), None);
        prop_assert_eq!(rule.last_at_or_before(Instant::MAX), all.last().copied());
        prop_assert_eq!(rule.count_between(Instant::MIN, Instant::MAX), all.len() as u64);
        prop_assert!(!rule.describe().is_empty());
    }
}

/// From before the first occurrence to the end of the window.
fn check_from_the_beginning(case: &Case, parts: &[Index]) -> TestCaseResult {
    let before = case
        .definition
        .start
        .map_or(case.definition.created, |start| start.min(case.definition.created));
    let from = Instant::from_ticks(before.ticks() - DAY).unwrap();
    check_window(case, from, case.until, parts)?;
    let Some(rule) = case.rule() else {
        return Ok(());
    };
    let expected = case.naive(from, case.until);
    let found: Vec<Instant> = rule.occurrences().take_while(|&at| at <= case.until).collect();
    check_same(case, &found, &expected)?;
    let first = expected.first().copied();
    prop_assert!(first.is_none() || rule.first() == first, "first, {}", words(case));
    prop_assert_eq!(rule.last_at_or_before(from), None, "{}", words(case));
    Ok(())
}

/// All questions, with the answers of the naive walk over `from..=to`.
fn check_window(case: &Case, from: Instant, to: Instant, parts: &[Index]) -> TestCaseResult {
    let expected = case.naive(from, to);
    let Some(rule) = case.rule() else {
        // It may run at once, but its schedule must be empty.
        prop_assert!(
            expected.iter().all(|&at| case.definition.start.is_none() && expected[0] == at),
            "said never to fire, expected {:?}, {}",
            expected.iter().take(3),
            words(case)
        );
        return Ok(());
    };
    let before = Instant::from_ticks(from.ticks() - 1).unwrap();
    let found: Vec<Instant> = rule.occurrences_after(before).take_while(|&at| at <= to).collect();
    check_same(case, &found, &expected)?;
    if parts.is_empty() {
        return Ok(());
    }

    let mut probes: Vec<Instant> =
        parts.iter().map(|part| instant_within(*part, from, to)).collect();
    if !expected.is_empty() {
        let some = parts.iter().map(|part| expected[part.index(expected.len())]);
        let edges = some.chain([expected[0], expected[expected.len() - 1]]);
        let around = edges.flat_map(|at| [-1, 0, 1].map(|tick| at.ticks() + tick));
        probes.extend(around.map(|ticks| Instant::from_ticks(ticks).unwrap()));
    }
    probes.retain(|at| (from..=to).contains(at));
    for (number, &at) in probes.iter().enumerate() {
        let passed = expected.partition_point(|&other| other <= at);
        let next = rule.next_after(at);
        match expected.get(passed) {
            Some(_) => prop_assert_eq!(
                next,
                expected.get(passed).copied(),
                "after {}, {}",
                at,
                words(case)
            ),
            None => prop_assert!(
                next.is_none_or(|next| next > to),
                "after {at}: {next:?}, {}",
                words(case)
            ),
        }
        let last = rule.last_at_or_before(at);
        match passed {
            0 => prop_assert!(
                last.is_none_or(|last| last < from),
                "up to {at}: {last:?}, {}",
                words(case)
            ),
            _ => prop_assert_eq!(last, Some(expected[passed - 1]), "up to {}, {}", at, words(case)),
        }
        let other = probes[(number * 7 + 3) % probes.len()];
        let (after, until) = (at.min(other), at.max(other));
        let between =
            expected.iter().filter(|&&point| after < point && point <= until).count() as u64;
        prop_assert_eq!(
            rule.count_between(after, until),
            between,
            "({}, {}], {}",
            after,
            until,
            words(case)
        );
        if at != other {
            let none = rule.count_between(until, after);
            prop_assert_eq!(none, 0, "({}, {}], {}", until, after, words(case));
        }
    }
    Ok(())
}

/// Says where two lists part; the lists themselves can be thousands long.
fn check_same(case: &Case, found: &[Instant], expected: &[Instant]) -> TestCaseResult {
    let parts = |number: &usize| found.get(*number) != expected.get(*number);
    let Some(number) = (0..found.len().max(expected.len())).find(parts) else { return Ok(()) };
    let some =
        |list: &[Instant]| format!("{:?}", list.iter().skip(number).take(3).collect::<Vec<_>>());
    Err(TestCaseError::fail(format!(
        "after {number} occurrences: found {}, expected {}, {}",
        some(found),
        some(expected),
        words(case)
    )))
}

/// Iteration, next, last and count say the same, whatever they say.
fn check_consistency(rule: &Rule, from: Instant) -> TestCaseResult {
    let some: Vec<Instant> = rule.occurrences_after(from).take(40).collect();
    prop_assert!(some.is_sorted_by(|earlier, later| earlier < later), "{some:?}");
    let mut at = from;
    for (number, &expected) in some.iter().enumerate() {
        prop_assert_eq!(rule.next_after(at), Some(expected));
        let before = Instant::from_ticks(expected.ticks() - 1).unwrap();
        prop_assert_eq!(rule.last_at_or_before(expected), Some(expected));
        prop_assert_eq!(rule.last_at_or_before(before), rule.last_at_or_before(at));
        prop_assert_eq!(rule.count_between(from, expected), number as u64 + 1);
        prop_assert_eq!(rule.count_between(from, before), number as u64);
        at = expected;
    }
    Ok(())
}

/// The definition, to be read in a failure.
fn words(case: &Case) -> String {
    format!("{:#?}", case.definition)
}
