//! Reading and serialising `startTime` and `recurrence` of a job.

use kalends_recurrence::{
    Definition, Frequency, Instant, MonthlyOccurrence, Recurrence, Schedule, Weekday, Zone,
};

use crate::enum_text;
use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::Json;
use crate::node::{Node, quoted};
use crate::object::{ObjectBuilder, list};
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
    if !node.is_object(errors) {
        return None;
    }
    let node = node.with_code(ErrorCode::InvalidRecurrence);
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
    let count = node.member("count").and_then(|node| node.integer(errors));
    let wall_times = zone_of_recurrence(node, version);
    let end = node.member("endTime").and_then(|node| node.instant_in(&wall_times, errors));
    let extension = |name| node.member(name).filter(|_| !version.is_old());
    let zone = extension("timeZone").and_then(|node| zone(node, errors));
    let first_day_of_week = extension("firstDayOfWeek").and_then(|node| weekday(node, errors));
    let schedule = node.member("schedule").and_then(|node| schedule(node, errors));
    Some(Recurrence {
        frequency: frequency?,
        interval: interval?,
        count,
        end,
        zone,
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
            node.reject(format!("{}: {error}", quoted(text)), errors);
            None
        }
    }
}

/// Serialises a recurrence. `interval` is always present; `timeZone` and `firstDayOfWeek` only in
/// the newest version.
pub(crate) fn write_recurrence(recurrence: &Recurrence, version: Version) -> Json<'_> {
    let members = ObjectBuilder::new()
        .put("frequency", enum_text::frequency(recurrence.frequency, version))
        .put_some("count", recurrence.count)
        .put_some("endTime", recurrence.end)
        .put("interval", recurrence.interval);
    let members = match version.is_old() {
        true => members,
        false => {
            let first_day = Some(recurrence.first_day_of_week);
            let first_day = first_day.filter(|&day| day != Weekday::Sunday);
            members
                .put_some("timeZone", recurrence.zone.as_ref().map(Zone::name))
                .put_some("firstDayOfWeek", first_day.map(Weekday::name))
        }
    };
    let schedule = recurrence.schedule.as_ref();
    members.put_some("schedule", schedule.map(|schedule| write_schedule(schedule, version))).into()
}

fn write_schedule(schedule: &Schedule, version: Version) -> Json<'_> {
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
