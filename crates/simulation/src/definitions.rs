//! Random job definitions.

use std::time::Duration;

use kalends_domain::{
    Action, ErrorAction, Extensions, HttpRequest, JobDefinition, Limits, MainAction, Method,
    MissedPolicy, MissedRuns, Overlap, RetryKind, RetryPolicy, Switch, Target, Uri, Verbatim,
};
use kalends_recurrence::{
    Frequency, Instant, Interval, MonthlyOccurrence, Recurrence, RecurrencePattern, Schedule,
    Weekday, Zone,
};

use crate::hosts;
use crate::rng::Rng;

/// Length of a world and the order of magnitude of its recurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Minutes,
    Hours,
    Weeks,
}

impl Span {
    /// Time until faults stop.
    pub(crate) fn length(self) -> Duration {
        Duration::from_secs(match self {
            Span::Minutes => 20 * 60,
            Span::Hours => 8 * 3_600,
            Span::Weeks => 40 * 86_400,
        })
    }
}

/// Properties that all definitions of a world share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DefinitionOptions {
    pub(crate) span: Span,
    /// Number of target hosts.
    pub(crate) hosts: u64,
    /// Whether some jobs have jitter.
    pub(crate) has_jitter: bool,
}

/// A random, valid definition of a job created or edited at `now`.
pub(crate) fn random_definition(
    rng: &Rng,
    options: DefinitionOptions,
    now: Instant,
) -> JobDefinition {
    let span = options.span;
    let soon = now.saturating_add(Duration::from_secs(rng.between(1, 200)));
    let start = match rng.below(5) {
        0 => None,
        1 => Instant::from_ticks(now.ticks() - rng.between(1, 5_000_000_000_000) as i64),
        2 => Some(soon),
        _ => Some(soon.whole_second()),
    };
    let recurrence = (!rng.one_in(5)).then(|| Box::new(recurrence(rng, span, now)));
    let error_retry = rng.one_in(2).then(|| rng.one_in(2).then(|| Box::new(retry(rng))));
    let retry = (!rng.one_in(4)).then(|| Box::new(retry(rng)));
    let switch = if rng.one_in(12) { Switch::Disabled } else { Switch::Enabled };
    let number = rng.next();
    let error_action = error_retry
        .map(|retry| Box::new(ErrorAction { action: action(number ^ 1, options), retry }));
    let jitter = (options.has_jitter && number.is_multiple_of(3)).then(|| seconds(1 + number % 50));
    JobDefinition {
        start,
        action: MainAction { action: action(number, options), retry, error_action },
        recurrence,
        switch,
        extensions: Extensions {
            description: Some(number.to_string()),
            jitter,
            missed_runs: (!rng.one_in(3)).then(|| missed(rng)),
            overlap: rng.pick([
                None,
                Some(Overlap::Skip),
                Some(Overlap::QueueOne),
                Some(Overlap::QueueOne),
                Some(Overlap::Allow),
            ]),
            timeout: rng.one_in(2).then(|| seconds(rng.between(5, 30))),
            ..Extensions::default()
        },
    }
}

/// An action whose URI contains a number that tells which definition an attempt used.
pub(crate) fn action(number: u64, options: DefinitionOptions) -> Action {
    // The lowest bit tells the error action; both actions have the same host.
    let uri = hosts::uri((number >> 1) % options.hosts.max(1), number);
    let request = HttpRequest {
        uri: Uri::new(&uri, &Limits::default()).unwrap(),
        method: Method::new("GET").unwrap(),
        headers: None,
        body: None,
        authentication: None,
    };
    Action { type_as_written: "Http".into(), target: Target::Http(request) }
}

pub(crate) fn seconds(seconds: u64) -> Verbatim<Duration> {
    Verbatim::new("", Duration::from_secs(seconds))
}

pub(crate) fn missed(rng: &Rng) -> MissedRuns {
    let policy = rng.pick([MissedPolicy::Skip, MissedPolicy::Last, MissedPolicy::All]);
    let within = rng.one_in(2).then(|| seconds(rng.pick([30, 90, 600, 7_200, 90_000])));
    MissedRuns { policy, within }
}

pub(crate) fn retry(rng: &Rng) -> RetryPolicy {
    let kind = rng.pick([RetryKind::None, RetryKind::Fixed, RetryKind::Exponential]);
    let exponential = kind == RetryKind::Exponential;
    RetryPolicy {
        kind,
        interval: (!rng.one_in(4)).then(|| seconds(rng.between(15, 40))),
        count: (!rng.one_in(4)).then(|| rng.below(4) as u32),
        interval_max: (exponential && rng.one_in(2)).then(|| seconds(rng.between(15, 60))),
        age_max: (exponential && rng.one_in(2)).then(|| seconds(rng.between(10, 120))),
    }
}

fn recurrence(rng: &Rng, span: Span, now: Instant) -> Recurrence {
    let at = |hour: i64, minute: i64| Schedule {
        hours: Some(vec![hour]),
        minutes: Some(vec![minute]),
        ..Schedule::default()
    };
    let every = |low, high| rng.between(low, high) as i64;
    let (frequency, interval, schedule) = match span {
        Span::Minutes => (Frequency::Minute, every(1, 3), None),
        Span::Hours => match rng.below(4) {
            0 => (Frequency::Minute, every(7, 45), None),
            1 => (
                Frequency::Hour,
                1,
                Some(Schedule {
                    minutes: Some(vec![rng.below(60) as i64, 30]),
                    ..Schedule::default()
                }),
            ),
            2 => (
                Frequency::Day,
                1,
                Some(Schedule { minutes: Some(vec![0, 20]), ..Schedule::default() }),
            ),
            _ => (Frequency::Hour, every(1, 2), None),
        },
        Span::Weeks => match rng.below(6) {
            0 => (Frequency::Hour, every(3, 30), None),
            1 => (Frequency::Day, every(1, 2), Some(at(2, 30))),
            2 => (
                Frequency::Week,
                1,
                Some(Schedule {
                    week_days: Some(vec![Weekday::Sunday, Weekday::Friday]),
                    ..at(rng.below(24) as i64, 15)
                }),
            ),
            3 => (
                Frequency::Month,
                1,
                Some(Schedule { month_days: Some(vec![1, 15, 29, -1]), ..at(1, 0) }),
            ),
            4 => (
                Frequency::Month,
                1,
                Some(Schedule {
                    monthly_occurrences: Some(vec![
                        MonthlyOccurrence { day: Weekday::Sunday, occurrence: Some(-1) },
                        MonthlyOccurrence { day: Weekday::Monday, occurrence: None },
                    ]),
                    ..at(0, 5)
                }),
            ),
            _ => (Frequency::Day, 1, None),
        },
    };
    let zone = rng.pick([
        None,
        Some("Europe/Berlin"),
        Some("America/New_York"),
        Some("Australia/Lord_Howe"),
    ]);
    let length = span.length().as_secs();
    Recurrence {
        count: rng.one_in(3).then(|| rng.between(1, 6) as i64),
        end: rng.one_in(5).then(|| now.saturating_add(Duration::from_secs(rng.below(length + 1)))),
        zone: zone.map(|name| Zone::named(name).unwrap()),
        pattern: RecurrencePattern::Interval(Interval {
            schedule,
            ..Interval::new(interval, frequency)
        }),
    }
}
