//! `kalends-recurrence`.

use anyhow::{Context, Result};
use kalends_recurrence::{Definition, Frequency, Instant, Recurrence, Rule, Settings, Zone};

use crate::recurrence::case::Count;
use crate::recurrence::schedule::{Place, Schedule};
use crate::recurrence::work::{Question, asked};

pub(crate) fn next(
    schedule: Schedule,
    place: Place,
    instants: &[i64],
) -> Result<Box<dyn Question>> {
    let rule = rule(schedule.definition(place)?)?;
    Ok(asked(
        instants.iter().map(|&seconds| instant(seconds)).collect::<Result<_>>()?,
        move |&at: &Instant| rule.next_after(at),
        |next| next.map(Instant::unix_seconds),
    ))
}

/// Clones the definition for each rule, which consumes it.
pub(crate) fn build(schedule: Schedule, place: Place) -> Result<Box<dyn Question>> {
    Ok(asked(
        vec![schedule.definition(place)?],
        |definition: &Definition| Rule::new(definition.clone(), &Settings::default()),
        |rule| rule.ok().map(|_| 1),
    ))
}

pub(crate) fn count(count: Count) -> Result<Box<dyn Question>> {
    let rule = counted(count)?;
    let after = rule.reference_time();
    Ok(asked(
        vec![instant(after.unix_seconds() + count.seconds())?],
        move |&until: &Instant| rule.count_between(after, until),
        |occurrences| i64::try_from(occurrences).ok(),
    ))
}

/// The same count by iteration over the occurrences.
pub(crate) fn count_one_by_one(count: Count) -> Result<usize> {
    let rule = counted(count)?;
    let until = instant(rule.reference_time().unix_seconds() + count.seconds())?;
    Ok(rule.occurrences_after(rule.reference_time()).take_while(|&at| at <= until).count())
}

fn counted(count: Count) -> Result<Rule> {
    let every_minute = |place: Place, hours: Option<Vec<i64>>| -> Result<Definition> {
        let mut definition = Schedule::QuarterHours.definition(place)?;
        let mut recurrence = Recurrence::every(1, Frequency::Minute);
        recurrence.zone = Some(Zone::named(place.zone_name())?);
        if hours.is_some() {
            let filter = kalends_recurrence::Schedule { hours, ..<_>::default() };
            recurrence = recurrence.with_schedule(filter);
        }
        definition.recurrence = Some(recurrence);
        Ok(definition)
    };
    rule(match count {
        Count::YearOfMinutes => every_minute(Place::Utc, None)?,
        Count::YearOfMinutesOfHours => every_minute(Place::Berlin, Some((9..18).collect()))?,
        Count::CenturiesOfLastFridays => Schedule::LastFriday.definition(Place::Berlin)?,
    })
}

fn rule(definition: Definition) -> Result<Rule> {
    Ok(Rule::new(definition, &Settings::default())?)
}

/// Converts a Unix time in seconds.
pub(crate) fn instant(seconds: i64) -> Result<Instant> {
    Instant::from_ticks(seconds * 10_000_000).context("an instant outside the years 1 to 9999")
}
