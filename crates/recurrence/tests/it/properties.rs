//! Property tests: compares the crate with the naive implementation on random definitions.

use kalends_recurrence::{Instant, Rule};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestCaseError, TestCaseResult};

use crate::naive::{self, DAY, HOUR, MINUTE};
use crate::strategies::{
    Case, any_case, instant_within, one_shot_case, span_of_some_periods, start_of_year, utc_case,
};

/// Failures are not persisted next to the sources: a failure prints its definition, and each bug gets a
/// named test. `CASES_FACTOR=100` runs a hundred times as many cases.
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
    fn occurrences_agree_with_the_naive_implementation(case in any_case()) {
        check_from_the_beginning(&case, &[])?;
    }

    #[test]
    fn occurrences_in_utc_agree_with_the_naive_implementation(case in utc_case(1600..2500_i64)) {
        check_from_the_beginning(&case, &[])?;
    }

    #[test]
    fn queries_agree_with_the_naive_implementation(
        case in any_case(),
        parts in prop::collection::vec(any::<Index>(), 12),
    ) {
        check_from_the_beginning(&case, &parts)?;
    }

    #[test]
    fn transitions_long_after_the_start_agree_with_the_naive_implementation(
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
        let transition = zone.following(naive::timestamp(far)).next();
        let center = transition.map_or(far, |transition| naive::ticks(transition.timestamp()));
        let margin = span_of_some_periods(recurrence) / 4;
        let from = Instant::from_ticks(center - margin).unwrap();
        let to = Instant::from_ticks(center + margin).unwrap();
        check_window(&case, from, to, &parts)?;
    }

    #[test]
    fn a_one_time_job_runs_once(case in one_shot_case()) {
        check_from_the_beginning(&case, &[])?;
    }
}

proptest! {
    #![proptest_config(cases(800))]

    #[test]
    fn no_occurrence_is_after_the_end_time(mut case in any_case(), which in any::<Index>()) {
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
    fn occurrences_are_ascending_and_between_start_and_end(case in any_case()) {
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
    fn occurrences_in_utc_repeat_after_four_hundred_years(case in utc_case(1600..2500_i64)) {
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
    fn far_years_agree_with_the_naive_implementation(
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
    fn queries_in_far_years_agree_with_each_other(
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
    fn rules_end_at_the_end_of_the_supported_range(
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

/// Compares all occurrences up to the end of the case's range.
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
    prop_assert!(first.is_none() || rule.first() == first, "first, {}", text_of(case));
    prop_assert_eq!(rule.last_at_or_before(from), None, "{}", text_of(case));
    Ok(())
}

/// Compares all queries with the naive implementation in `from..=to`.
fn check_window(case: &Case, from: Instant, to: Instant, parts: &[Index]) -> TestCaseResult {
    let expected = case.naive(from, to);
    let Some(rule) = case.rule() else {
        // The immediate run of a job without a start time can be the only occurrence.
        prop_assert!(
            expected.iter().all(|&at| case.definition.start.is_none() && expected[0] == at),
            "rejected as never firing, expected {:?}, {}",
            expected.iter().take(3),
            text_of(case)
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
                text_of(case)
            ),
            None => prop_assert!(
                next.is_none_or(|next| next > to),
                "after {at}: {next:?}, {}",
                text_of(case)
            ),
        }
        let last = rule.last_at_or_before(at);
        match passed {
            0 => prop_assert!(
                last.is_none_or(|last| last < from),
                "up to {at}: {last:?}, {}",
                text_of(case)
            ),
            _ => {
                prop_assert_eq!(last, Some(expected[passed - 1]), "up to {}, {}", at, text_of(case))
            }
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
            text_of(case)
        );
        if at != other {
            let none = rule.count_between(until, after);
            prop_assert_eq!(none, 0, "({}, {}], {}", until, after, text_of(case));
        }
    }
    Ok(())
}

/// Reports the first difference only, because the lists can have thousands of entries.
fn check_same(case: &Case, found: &[Instant], expected: &[Instant]) -> TestCaseResult {
    let differs = |number: &usize| found.get(*number) != expected.get(*number);
    let Some(number) = (0..found.len().max(expected.len())).find(differs) else { return Ok(()) };
    let some =
        |list: &[Instant]| format!("{:?}", list.iter().skip(number).take(3).collect::<Vec<_>>());
    Err(TestCaseError::fail(format!(
        "after {number} occurrences: found {}, expected {}, {}",
        some(found),
        some(expected),
        text_of(case)
    )))
}

/// Checks that iteration, next, last and count agree with each other.
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

/// The definition, for failure messages.
fn text_of(case: &Case) -> String {
    format!("{:#?}", case.definition)
}
