//! Proptest strategies for valid definitions, most of them close to DST transitions.

use std::time::Duration;

use kalends_recurrence::{
    Definition, Frequency, Instant, Interval, MonthlyOccurrence, Recurrence, RecurrencePattern,
    Rule, RuleErrorKind, Schedule, Settings, Weekday, Zone,
};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::naive::{self, DAY, HOUR, MINUTE, SECOND};

/// Zones with transitions at midnight, of half an hour, two hours or a day, with negative DST, around
/// Ramadan, on both hemispheres, and without transitions.
const ZONES: [&str; 36] = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "America/Asuncion",
    "America/Caracas",
    "America/Havana",
    "America/Los_Angeles",
    "America/New_York",
    "America/Nuuk",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/Scoresbysund",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Atlantic/Azores",
    "Australia/Eucla",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Europe/Berlin",
    "Europe/Dublin",
    "Europe/Lisbon",
    "Europe/London",
    "Europe/Moscow",
    "Pacific/Apia",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
    "Pacific/Kwajalein",
    "UTC",
];

/// Zones with the most error-prone transitions: half hours, whole days, gaps that end on the next day,
/// offsets with seconds.
const IRREGULAR_ZONES: [&str; 7] = [
    "Africa/Monrovia",
    "America/Nuuk",
    "America/St_Johns",
    "Antarctica/Troll",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Kiritimati",
];

/// A definition and the end of the range to compare.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) definition: Definition,
    pub(crate) settings: Settings,
    /// End (inclusive) of the range that starts with the first occurrence.
    pub(crate) until: Instant,
}

impl Case {
    /// The rule; `None` if it never fires. Panics on any other validation error.
    pub(crate) fn rule(&self) -> Option<Rule> {
        match Rule::new(self.definition.clone(), &self.settings) {
            Ok(rule) => Some(rule),
            Err(errors) => {
                assert!(
                    errors.0.iter().all(|error| error.kind == RuleErrorKind::NeverFires),
                    "{errors}\n{self:?}"
                );
                None
            }
        }
    }

    /// The occurrences in `from..=to` according to the naive implementation.
    pub(crate) fn naive(&self, from: Instant, to: Instant) -> Vec<Instant> {
        naive::occurrences(&self.definition, &self.settings, from, to)
    }

    pub(crate) fn recurrence_mut(&mut self) -> &mut Recurrence {
        self.definition.recurrence.as_mut().unwrap()
    }
}

/// A recurring definition in any zone.
pub(crate) fn any_case() -> impl Strategy<Value = Case> {
    (zone(), recurrence(), base_year()).prop_flat_map(|(zone, recurrence, year)| {
        let recurrence = Recurrence { zone: zone.clone(), ..recurrence };
        let moment = moment_near_a_transition(zone, year);
        (Just(recurrence), moment, start(), end_after(), delay()).prop_map(assemble)
    })
}

/// A recurring definition in UTC, created in a given year.
pub(crate) fn utc_case(year: impl Strategy<Value = i64>) -> impl Strategy<Value = Case> {
    (recurrence(), year, 0..365_i64, time_of_day(), start(), end_after(), delay()).prop_map(
        |(recurrence, year, day, time, start, end_after, delay)| {
            let moment = start_of_year(year) + day * DAY + time;
            assemble((recurrence, moment, start, end_after, delay))
        },
    )
}

/// A definition without recurrence.
pub(crate) fn one_shot_case() -> impl Strategy<Value = Case> {
    (base_year(), 0..365_i64, time_of_day(), start(), delay()).prop_map(
        |(year, day, time, start, delay)| {
            let moment = start_of_year(year) + day * DAY + time;
            let recurrence = Recurrence::every(1, Frequency::Day);
            let mut case = assemble((recurrence, moment, start, None, delay));
            case.definition.recurrence = None;
            case
        },
    )
}

/// Midnight UTC of 1 January, in ticks.
pub(crate) fn start_of_year(year: i64) -> i64 {
    format!("{year:04}-01-01").parse::<Instant>().unwrap().ticks()
}

/// A duration that contains several periods of the rule and that the naive implementation handles
/// quickly.
pub(crate) fn span_of_some_periods(recurrence: &Recurrence) -> i64 {
    let Some(&Interval { interval, frequency, .. }) = recurrence.interval() else {
        return 300 * DAY;
    };
    match frequency {
        Frequency::Minute => (interval * 3_000 * MINUTE).min(5 * DAY),
        Frequency::Hour => (interval * 100 * HOUR).min(25 * DAY),
        Frequency::Day => (interval * 25 * DAY).min(800 * DAY),
        Frequency::Week => (interval * 10 * 7 * DAY).min(1_500 * DAY),
        Frequency::Month => (interval * 14 * 31 * DAY).min(2_000 * DAY),
        Frequency::Year => 2_600 * DAY,
    }
}

/// Ticks from the creation time to the start time; `None` without a start time.
type Start = Option<i64>;

fn assemble(
    (mut recurrence, moment, start, end_after, delay): (
        Recurrence,
        i64,
        Start,
        Option<u32>,
        Duration,
    ),
) -> Case {
    let at = |ticks: i64| Instant::from_ticks(ticks).unwrap();
    // `moment` is the later one of start and creation time, where the occurrences begin.
    let (start, created) = match start {
        None => (None, moment),
        Some(distance) if distance < 0 => (Some(moment + distance), moment),
        Some(distance) => (Some(moment), moment - distance),
    };
    let span = span_of_some_periods(&recurrence);
    recurrence.end = end_after
        .map(|part| at(moment + ((i128::from(span) * i128::from(part)) >> 32) as i64 - HOUR));
    Case {
        until: at(moment + span),
        definition: Definition {
            start: start.map(at),
            created: at(created),
            recurrence: Some(recurrence),
        },
        settings: Settings { start_delay: delay, ..Settings::default() },
    }
}

fn zone() -> impl Strategy<Value = Option<Zone>> {
    let names: Vec<&str> = Zone::names().collect();
    prop_oneof![
        1 => Just(None),
        5 => select(&ZONES[..]).prop_map(|name| Some(Zone::named(name).unwrap())),
        4 => select(&IRREGULAR_ZONES[..]).prop_map(|name| Some(Zone::named(name).unwrap())),
        2 => select(names).prop_map(|name| Some(Zone::named(name).unwrap())),
    ]
}

fn base_year() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 2000..2045_i64, 2 => 1970..2000_i64, 1 => 1880..1970_i64, 1 => 2045..2450_i64]
}

/// Mostly within hours of a transition of the zone, otherwise at any time of the year.
fn moment_near_a_transition(zone: Option<Zone>, year: i64) -> impl Strategy<Value = i64> {
    let close = (-16..=16_i64).prop_map(|quarters| quarters * 15 * MINUTE);
    let around = (-200..=200_i64).prop_map(|minutes| minutes * MINUTE);
    let days_before = (0..30_i64, time_of_day()).prop_map(|(days, time)| -days * DAY + time);
    let distance = prop_oneof![2 => close, 2 => around, 2 => days_before];
    (0..365_i64, time_of_day(), option::weighted(0.8, distance), seconds()).prop_map(
        move |(day, time, distance, seconds)| {
            let any = start_of_year(year) + day * DAY + time;
            let zone = naive::time_zone(zone.as_ref());
            let transition = zone.following(naive::timestamp(any)).next();
            match (transition, distance) {
                (Some(transition), Some(distance)) => {
                    naive::ticks(transition.timestamp()) + distance + seconds
                }
                _ => any,
            }
        },
    )
}

/// Ticks since midnight, often at a quarter of an hour, sometimes with a fraction of a second.
fn time_of_day() -> impl Strategy<Value = i64> {
    (0..24_i64, prop_oneof![select(vec![0, 15, 30, 45_i64]), 0..60_i64], seconds())
        .prop_map(|(hours, minutes, seconds)| hours * HOUR + minutes * MINUTE + seconds)
}

fn seconds() -> impl Strategy<Value = i64> {
    prop_oneof![
        3 => Just(0),
        1 => (0..60_i64).prop_map(|seconds| seconds * SECOND),
        1 => 0..MINUTE,
        1 => select(vec![1, MINUTE - 1]),
    ]
}

fn start() -> impl Strategy<Value = Start> {
    prop_oneof![
        2 => Just(None),
        1 => Just(Some(0)),
        1 => select(vec![Some(1), Some(-1)]),
        2 => (0..540 * DAY).prop_map(Some),
        2 => (-5 * HOUR..0).prop_map(Some),
        1 => (-40_i64..0).prop_map(|days| Some(days * DAY)),
        2 => (-3_000 * DAY..0).prop_map(Some),
    ]
}

/// `endTime` as a fraction of the range, in units of 2^-32.
fn end_after() -> impl Strategy<Value = Option<u32>> {
    option::weighted(0.25, any::<u32>())
}

fn delay() -> impl Strategy<Value = Duration> {
    prop_oneof![5 => Just(Duration::ZERO), 1 => Just(Duration::from_secs(20))]
}

/// A recurrence in UTC without `endTime`.
fn recurrence() -> impl Strategy<Value = Recurrence> {
    prop_oneof![6 => interval(), 1 => cron()]
}

fn interval() -> impl Strategy<Value = Recurrence> {
    select(&Frequency::ALL[..]).prop_flat_map(|frequency| {
        let longest = Settings::default().interval_max(frequency);
        let interval = prop_oneof![3 => Just(1), 3 => 1..=longest.min(7), 1 => 1..=longest];
        let count = option::weighted(0.25, 1..40_i64);
        let first_day = prop_oneof![Just(Weekday::Sunday), select(&Weekday::ALL[..])];
        (interval, count, first_day, option::weighted(0.75, schedule(frequency))).prop_map(
            move |(interval, count, first_day_of_week, schedule)| {
                let schedule = schedule.filter(|schedule| *schedule != Schedule::default());
                let interval =
                    Interval { first_day_of_week, schedule, ..Interval::new(interval, frequency) };
                let pattern = RecurrencePattern::Interval(interval);
                Recurrence { count, ..Recurrence::new(pattern) }
            },
        )
    })
}

/// A cron expression in UTC.
fn cron() -> impl Strategy<Value = Recurrence> {
    (cron_text(), option::weighted(0.25, 1..40_i64)).prop_map(|(text, count)| {
        let pattern = RecurrencePattern::Cron(text.parse().unwrap());
        Recurrence { count, ..Recurrence::new(pattern) }
    })
}

/// A cron expression.
pub(crate) fn cron_text() -> impl Strategy<Value = String> {
    let field = |item: BoxedStrategy<String>| {
        prop_oneof![
            3 => Just("*".to_owned()),
            1 => (2..20_i64).prop_map(|step| format!("*/{step}")),
            4 => proptest::collection::vec(item, 1..=3).prop_map(|items| items.join(",")),
        ]
    };
    let numbers = |min: i64, max: i64| {
        prop_oneof![
            3 => (min..=max).prop_map(|number| number.to_string()),
            2 => (min..=max, 0..6_i64)
                .prop_map(move |(first, more)| format!("{first}-{}", (first + more).min(max))),
            1 => (min..=max, 1..9_i64)
                .prop_map(move |(first, step)| format!("{first}-{max}/{step}")),
            1 => (min..=max, 1..9_i64).prop_map(|(first, step)| format!("{first}/{step}")),
        ]
        .boxed()
    };
    let month_day = prop_oneof![4 => numbers(1, 31), 1 => Just("L".to_owned())].boxed();
    let week_day = prop_oneof![
        3 => numbers(0, 6),
        1 => select(vec!["SUN", "mon", "Fri", "7", "6-0", "5-7"]).prop_map(str::to_owned),
        1 => (0..7_i64, 1..=5_i64).prop_map(|(day, number)| format!("{day}#{number}")),
        1 => (0..7_i64).prop_map(|day| format!("{day}L")),
    ]
    .boxed();
    let fields = (
        field(numbers(0, 59)),
        field(numbers(0, 23)),
        field(month_day),
        field(numbers(1, 12)),
        field(week_day),
    );
    fields.prop_map(|(minute, hour, month_day, month, week_day)| {
        format!("{minute} {hour} {month_day} {month} {week_day}")
    })
}

fn schedule(frequency: Frequency) -> impl Strategy<Value = Schedule> {
    let monthly = matches!(frequency, Frequency::Month | Frequency::Year);
    let days = prop_oneof![
        2 => Just((None, None)),
        3 => list(prop_oneof![1..=31_i64, -31..=-1_i64, 28..=31_i64], 4)
            .prop_map(|days| (Some(days), None)),
        3 => list(monthly_occurrence(), 3).prop_map(|named| (None, Some(named))),
    ];
    (
        option::of(minutes(frequency)),
        option::of(hours(frequency)),
        option::of(list(select(&Weekday::ALL[..]), 5)),
        days,
        option::weighted(0.3, list(1..=12_i64, 6)),
    )
        .prop_map(move |(minutes, hours, week_days, (month_days, occurrences), months)| {
            Schedule {
                minutes,
                hours,
                week_days: week_days.filter(|_| frequency == Frequency::Week),
                month_days: month_days.filter(|_| monthly),
                monthly_occurrences: occurrences.filter(|_| monthly),
                months: months.filter(|_| monthly),
            }
        })
}

/// Lists that only filter are longer, so that some points remain.
fn minutes(frequency: Frequency) -> impl Strategy<Value = Vec<i64>> {
    let longest = if frequency == Frequency::Minute { 40 } else { 4 };
    prop_oneof![list(select(vec![0, 15, 30, 45_i64]), 4), list(0..60_i64, longest)]
}

fn hours(frequency: Frequency) -> impl Strategy<Value = Vec<i64>> {
    let longest = if matches!(frequency, Frequency::Minute | Frequency::Hour) { 16 } else { 5 };
    prop_oneof![list(prop_oneof![0..4_i64, Just(23)], 5), list(0..24_i64, longest)]
}

fn monthly_occurrence() -> impl Strategy<Value = MonthlyOccurrence> {
    let number = prop_oneof![1..=5_i64, -5..=-1_i64];
    (select(&Weekday::ALL[..]), option::weighted(0.8, number))
        .prop_map(|(day, occurrence)| MonthlyOccurrence { day, occurrence })
}

/// A list in any order, with duplicates.
fn list<T: std::fmt::Debug>(
    element: impl Strategy<Value = T>,
    longest: usize,
) -> impl Strategy<Value = Vec<T>> {
    proptest::collection::vec(element, 1..=longest)
}

/// A time in `from..=to`.
pub(crate) fn instant_within(part: Index, from: Instant, to: Instant) -> Instant {
    let width = usize::try_from(to.ticks() - from.ticks() + 1).unwrap();
    Instant::from_ticks(from.ticks() + part.index(width) as i64).unwrap()
}
