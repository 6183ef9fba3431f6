//! Reading and serialising `startTime` and `recurrence` of a job.

use kalends_recurrence::{
    Cron, Definition, Frequency, Instant, Interval, MonthlyOccurrence, Recurrence,
    RecurrencePattern, Schedule, Weekday, Zone,
};

use crate::enum_text;
use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::Json;
use crate::node::Node;
use crate::object::{ObjectBuilder, list};
use crate::quoting::quoted;
use crate::shape;
use crate::version::Version;

/// Reads `startTime` and `recurrence` of an object, or of its `properties` if it is a whole job.
pub fn read_definition(body: &Json<'_>, created: Instant) -> Result<Definition, ErrorDetails> {
    let mut errors = ErrorDetails::default();
    let root = Node::root(body, &shape::NEXT_REQUEST, Version::V2026_11_01);
    let definition = if root.is_object(&mut errors) {
        let properties = root.member("properties");
        let node = properties.unwrap_or(root);
        node.is_object(&mut errors);
        definition(node, created, &mut errors)
    } else {
        None
    };
    definition.filter(|_| errors.is_empty()).ok_or(errors)
}

pub(crate) fn definition(
    node: Node<'_>,
    created: Instant,
    errors: &mut ErrorDetails,
) -> Option<Definition> {
    let zone = zone_of_times(node, Version::V2026_11_01);
    let start = node.member("startTime").and_then(|node| node.instant_in(&zone, errors));
    let recurrence = match node.member("recurrence") {
        Some(node) => Some(recurrence(node, Version::V2026_11_01, errors)?),
        None => None,
    };
    Some(Definition { start, created, recurrence })
}

/// The zone of a job's `startTime` and `endTime` without an offset: `recurrence.timeZone`, else UTC.
pub(crate) fn zone_of_times(job: Node<'_>, version: Version) -> Zone {
    job.member("recurrence").map_or_else(Zone::utc, |node| zone_of_recurrence(node, version))
}

fn zone_of_recurrence(recurrence: Node<'_>, version: Version) -> Zone {
    let member = recurrence.member("timeZone").filter(|_| !version.is_old());
    // The recurrence reports an invalid name.
    let mut ignored = ErrorDetails::default();
    member.and_then(|node| zone(node, &mut ignored)).unwrap_or_else(Zone::utc)
}

/// Reads a recurrence. The old versions ignore `timeZone` and `firstDayOfWeek`.
pub(crate) fn recurrence(
    node: Node<'_>,
    version: Version,
    errors: &mut ErrorDetails,
) -> Option<Recurrence> {
    if let Json::String(text) = node.value
        && text.parse::<Cron>().is_ok()
        && !version.is_old()
    {
        let hint = format!("did you mean {{\"cron\": {}}}?", quoted(text));
        node.reject_with_hint("must be an object", Some(hint), errors);
        return None;
    }
    if !node.is_object(errors) {
        return None;
    }
    let node = node.with_code(ErrorCode::InvalidRecurrence);
    let extension = |name| node.member(name).filter(|_| !version.is_old());
    let pattern = match extension("cron") {
        Some(member) => cron(node, member, errors).map(RecurrencePattern::Cron),
        None => interval(node, version, errors).map(RecurrencePattern::Interval),
    };
    let count = node.member("count").and_then(|node| node.integer(errors));
    let wall_times = zone_of_recurrence(node, version);
    let end = node.member("endTime").and_then(|node| node.instant_in(&wall_times, errors));
    let zone = extension("timeZone").and_then(|node| zone(node, errors));
    Some(Recurrence { pattern: pattern?, count, end, zone })
}

/// Members that `cron` replaces.
pub(crate) const INTERVAL_MEMBERS: [&str; 4] =
    ["frequency", "interval", "schedule", "firstDayOfWeek"];

fn cron(recurrence: Node<'_>, member: Node<'_>, errors: &mut ErrorDetails) -> Option<Cron> {
    let mut is_alone = true;
    for name in INTERVAL_MEMBERS {
        if let Some(other) = recurrence.member(name) {
            other.reject_any("cannot be combined with recurrence.cron; remove one of them", errors);
            is_alone = false;
        }
    }
    match member.text(errors)?.parse() {
        Ok(cron) => Some(cron).filter(|_| is_alone),
        Err(error) => {
            member.reject_any(error, errors);
            None
        }
    }
}

fn interval(node: Node<'_>, version: Version, errors: &mut ErrorDetails) -> Option<Interval> {
    let frequency = match node.member("frequency") {
        Some(node) => node.enum_value(Frequency::ALL.iter().map(|&f| (f.word(), f)), errors),
        None => {
            let allowed = Frequency::ALL.map(Frequency::word).join(", ");
            let expected = format!("allowed are {allowed}");
            node.missing("frequency", ErrorCode::MissingRequiredProperty, expected, errors);
            None
        }
    };
    let interval = node.member("interval").map_or(Some(1), |node| node.integer(errors));
    let first_day_of_week = node.member("firstDayOfWeek").filter(|_| !version.is_old());
    let first_day_of_week = first_day_of_week.and_then(|node| weekday(node, errors));
    let schedule = node.member("schedule").and_then(|node| schedule(node, errors));
    Some(Interval {
        frequency: frequency?,
        interval: interval?,
        first_day_of_week: first_day_of_week.unwrap_or(Weekday::Sunday),
        schedule,
    })
}

fn schedule(node: Node<'_>, errors: &mut ErrorDetails) -> Option<Schedule> {
    let node = node.with_code(ErrorCode::InvalidSchedule);
    if !node.is_object(errors) {
        return None;
    }
    let mut numbers = |name| {
        let member = node.member(name)?;
        member.list(errors, |node, errors| node.integer(errors))
    };
    Some(Schedule {
        minutes: numbers("minutes"),
        hours: numbers("hours"),
        month_days: numbers("monthDays"),
        months: numbers("months"),
        week_days: node.member("weekDays").and_then(|node| node.list(errors, weekday)),
        monthly_occurrences: node
            .member("monthlyOccurrences")
            .and_then(|node| node.list(errors, monthly_occurrence)),
    })
}

fn monthly_occurrence(node: Node<'_>, errors: &mut ErrorDetails) -> Option<MonthlyOccurrence> {
    if !node.is_object(errors) {
        return None;
    }
    let day = match node.member("day") {
        Some(node) => weekday(node, errors)?,
        None => {
            let allowed = Weekday::ALL.map(Weekday::name).join(", ");
            node.missing(
                "day",
                ErrorCode::InvalidSchedule,
                format!("allowed are {allowed}"),
                errors,
            );
            return None;
        }
    };
    let occurrence = node.member("occurrence").and_then(|node| node.integer(errors));
    Some(MonthlyOccurrence { day, occurrence })
}

fn weekday(node: Node<'_>, errors: &mut ErrorDetails) -> Option<Weekday> {
    node.enum_value(Weekday::ALL.iter().map(|&day| (day.name(), day)), errors)
}

fn zone(node: Node<'_>, errors: &mut ErrorDetails) -> Option<Zone> {
    let text = node.text(errors)?;
    match Zone::named(text) {
        Ok(zone) => Some(zone),
        Err(error) => {
            let hint = error.suggestion.map(|near| format!("did you mean {near}?"));
            node.reject_with_hint(error, hint, errors);
            None
        }
    }
}

/// Serialises a recurrence. `interval` is always present; `cron`, `timeZone` and `firstDayOfWeek` only
/// in the newest version. `None` in an old version if the recurrence is a cron expression without an
/// equal schedule.
pub fn write_recurrence(recurrence: &Recurrence, version: Version) -> Option<Json<'static>> {
    let zone = recurrence.zone.as_ref().filter(|_| !version.is_old());
    let time_zone = zone.map(|zone| zone.name().to_owned());
    let interval = match &recurrence.pattern {
        RecurrencePattern::Cron(cron) if !version.is_old() => {
            let members = ObjectBuilder::new()
                .put("cron", cron.to_string())
                .put_some("count", recurrence.count)
                .put_some("endTime", recurrence.end)
                .put_some("timeZone", time_zone);
            return Some(members.into());
        }
        pattern => seen_by_old_versions(pattern)?,
    };
    let first_day = Some(interval.first_day_of_week).filter(|_| !version.is_old());
    let first_day = first_day.filter(|&day| day != Weekday::Sunday);
    let schedule = interval.schedule.as_ref().map(|schedule| write_schedule(schedule, version));
    let members = ObjectBuilder::new()
        .put("frequency", enum_text::frequency(interval.frequency, version))
        .put_some("count", recurrence.count)
        .put_some("endTime", recurrence.end)
        .put("interval", interval.interval)
        .put_some("timeZone", time_zone)
        .put_some("firstDayOfWeek", first_day.map(Weekday::name))
        .put_some("schedule", schedule);
    Some(members.into())
}

/// Frequency, interval and schedule: those of a cron expression are equal ones, if there are such.
pub(crate) fn seen_by_old_versions(pattern: &RecurrencePattern) -> Option<Interval> {
    match pattern {
        RecurrencePattern::Interval(interval) => Some(interval.clone()),
        RecurrencePattern::Cron(cron) => {
            let (frequency, schedule) = cron.to_schedule()?;
            Some(Interval { schedule: Some(schedule), ..Interval::new(1, frequency) })
        }
    }
}

fn write_schedule(schedule: &Schedule, version: Version) -> Json<'static> {
    let numbers =
        |list_of: &Option<Vec<i64>>| list_of.as_ref().map(|numbers| list(numbers.iter().copied()));
    let weekday = move |day: &Weekday| enum_text::weekday(*day, version);
    let occurrence = move |wanted: &MonthlyOccurrence| {
        ObjectBuilder::new()
            .put("day", weekday(&wanted.day))
            .put_some("occurrence", wanted.occurrence)
    };
    let occurrences = schedule.monthly_occurrences.as_ref();
    ObjectBuilder::new()
        .put_some("minutes", numbers(&schedule.minutes))
        .put_some("hours", numbers(&schedule.hours))
        .put_some(
            "weekDays",
            schedule.week_days.as_ref().map(|days| list(days.iter().map(weekday))),
        )
        .put_some("monthDays", numbers(&schedule.month_days))
        .put_some("monthlyOccurrences", occurrences.map(|all| list(all.iter().map(occurrence))))
        .put_some("months", numbers(&schedule.months))
        .into()
}
