//! `startTime` and `recurrence` of a job.

use kalends_recurrence::{
    Definition, Frequency, Instant, MonthlyOccurrence, Recurrence, Schedule, Weekday, Zone,
};

use crate::error::{Code, Errors};
use crate::json::Json;
use crate::read::{Node, quoted};

/// Reads what decides when a job is due from the members `startTime` and `recurrence` of an
/// object, or of its `properties` where it is a whole job.
pub fn read_definition(body: &Json<'_>, created: Instant) -> Result<Definition, Errors> {
    let mut errors = Errors::default();
    let root = Node::root(body);
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
    errors: &mut Errors,
) -> Option<Definition> {
    let start = node.member("startTime").and_then(|node| node.instant(errors));
    let recurrence = match node.member("recurrence") {
        Some(node) => Some(recurrence(node, errors)?),
        None => None,
    };
    Some(Definition { start, created, recurrence })
}

fn recurrence(node: Node<'_>, errors: &mut Errors) -> Option<Recurrence> {
    if !node.is_object(errors) {
        return None;
    }
    let node = node.or(Code::InvalidRecurrence);
    let frequency = match node.member("frequency") {
        Some(node) => node.word(Frequency::ALL.iter().map(|&f| (f.word(), f)), errors),
        None => {
            let path = format!("{}.frequency", node.place);
            let allowed = Frequency::ALL.map(Frequency::word).join(", ");
            let message = format!("it is missing; allowed are {allowed}");
            errors.add(Code::MissingRequiredProperty, path, message);
            None
        }
    };
    let interval = node.member("interval").map_or(Some(1), |node| node.integer(errors));
    let count = node.member("count").and_then(|node| node.integer(errors));
    let end = node.member("endTime").and_then(|node| node.instant(errors));
    let zone = node.member("timeZone").and_then(|node| zone(node, errors));
    let first_day_of_week = node.member("firstDayOfWeek").and_then(|node| weekday(node, errors));
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

fn schedule(node: Node<'_>, errors: &mut Errors) -> Option<Schedule> {
    let node = node.or(Code::InvalidSchedule);
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

fn monthly_occurrence(node: Node<'_>, errors: &mut Errors) -> Option<MonthlyOccurrence> {
    if !node.is_object(errors) {
        return None;
    }
    let day = match node.member("day") {
        Some(node) => weekday(node, errors)?,
        None => {
            let message = format!(
                "it is missing; allowed are {}",
                Weekday::ALL.map(Weekday::name).join(", ")
            );
            errors.add(Code::InvalidSchedule, format!("{}.day", node.place), message);
            return None;
        }
    };
    let occurrence = node.member("occurrence").and_then(|node| node.integer(errors));
    Some(MonthlyOccurrence { day, occurrence })
}

fn weekday(node: Node<'_>, errors: &mut Errors) -> Option<Weekday> {
    node.word(Weekday::ALL.iter().map(|&day| (day.name(), day)), errors)
}

fn zone(node: Node<'_>, errors: &mut Errors) -> Option<Zone> {
    let text = node.text(errors)?;
    match Zone::named(text) {
        Ok(zone) => Some(zone),
        Err(error) => {
            node.refuse(format!("{}: {error}", quoted(text)), errors);
            None
        }
    }
}
