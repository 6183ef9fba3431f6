//! The crates `cron`, `croner` and `rrule`, all with chrono types; `croner` is not faster with jiff types.

use std::str::FromStr;

use anyhow::{Context, Result};
use chrono::{DateTime, TimeZone, Utc};
use croner::Cron;
use rrule::RRuleSet;

use crate::recurrence::schedule::Place;
use crate::recurrence::work::{Question, asked};

const BERLIN: chrono_tz::Tz = chrono_tz::Europe::Berlin;

pub(crate) fn cron_next(text: &str, place: Place, instants: &[i64]) -> Result<Box<dyn Question>> {
    let schedule = cron::Schedule::from_str(text)?;
    let inputs = chrono_instants(instants)?;
    Ok(match place {
        Place::Utc => cron_next_in(schedule, Utc, inputs),
        Place::Berlin => cron_next_in(schedule, BERLIN, inputs),
    })
}

fn cron_next_in<Z: TimeZone + 'static>(
    schedule: cron::Schedule,
    zone: Z,
    inputs: Vec<DateTime<Utc>>,
) -> Box<dyn Question> {
    asked(
        inputs,
        move |at: &DateTime<Utc>| schedule.after(&at.with_timezone(&zone)).next(),
        |next| next.map(|next| next.timestamp()),
    )
}

pub(crate) fn croner_next(text: &str, place: Place, instants: &[i64]) -> Result<Box<dyn Question>> {
    let cron = Cron::from_str(text)?;
    let inputs = chrono_instants(instants)?;
    Ok(match place {
        Place::Utc => croner_next_in(cron, Utc, inputs),
        Place::Berlin => croner_next_in(cron, BERLIN, inputs),
    })
}

fn croner_next_in<Z: TimeZone + 'static>(
    cron: Cron,
    zone: Z,
    inputs: Vec<DateTime<Utc>>,
) -> Box<dyn Question> {
    asked(
        inputs,
        move |at: &DateTime<Utc>| cron.find_next_occurrence(&at.with_timezone(&zone), false),
        |next| next.ok().map(|next| next.timestamp()),
    )
}

pub(crate) fn rrule_next(text: &str, place: Place, instants: &[i64]) -> Result<Box<dyn Question>> {
    let set = RRuleSet::from_str(text)?;
    let zone = match place {
        Place::Utc => rrule::Tz::UTC,
        Place::Berlin => rrule::Tz::Tz(BERLIN),
    };
    Ok(asked(
        chrono_instants(instants)?,
        move |at: &DateTime<Utc>| {
            let at = at.with_timezone(&zone);
            set.into_iter().find(|occurrence| *occurrence > at)
        },
        |next| next.map(|next| next.timestamp()),
    ))
}

pub(crate) fn cron_build(text: &'static str) -> Box<dyn Question> {
    asked(
        vec![text],
        |text: &&str| cron::Schedule::from_str(text),
        |schedule| schedule.ok().map(|_| 1),
    )
}

pub(crate) fn croner_build(text: &'static str) -> Box<dyn Question> {
    asked(vec![text], |text: &&str| Cron::from_str(text), |cron| cron.ok().map(|_| 1))
}

pub(crate) fn rrule_build(text: String) -> Box<dyn Question> {
    asked(vec![text], |text: &String| RRuleSet::from_str(text), |set| set.ok().map(|_| 1))
}

fn chrono_instants(instants: &[i64]) -> Result<Vec<DateTime<Utc>>> {
    let instant = |&seconds| DateTime::from_timestamp(seconds, 0);
    instants.iter().map(instant).collect::<Option<_>>().context("an instant chrono does not know")
}
