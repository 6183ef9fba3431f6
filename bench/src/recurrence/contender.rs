//! The compared implementations.

use anyhow::{Context, Result};

use crate::recurrence::instants::Distance;
use crate::recurrence::schedule::{Place, Schedule};
use crate::recurrence::work::Question;
use crate::recurrence::{by_hand, kalends, peers};

/// Number of inputs for the crate `rrule`, which iterates from the start time over up to a million
/// occurrences.
const INSTANTS_FOR_RRULE: usize = 8;

/// A compared implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// The crate `kalends-recurrence`.
    Kalends,
    /// Hand-written jiff code for the schedule.
    ByHand,
    /// The crate `cron`.
    Cron,
    /// The crate `croner`.
    Croner,
    /// The crate `rrule`.
    Rrule,
}

impl Contender {
    /// All contenders in the order of the tables.
    pub const ALL: [Contender; 5] = [
        Contender::Kalends,
        Contender::ByHand,
        Contender::Cron,
        Contender::Croner,
        Contender::Rrule,
    ];

    /// The third-party libraries.
    pub const PEERS: [Contender; 3] = [Contender::Cron, Contender::Croner, Contender::Rrule];

    /// The name in tables and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Contender::Kalends => "kalends",
            Contender::ByHand => "by-hand",
            Contender::Cron => "cron",
            Contender::Croner => "croner",
            Contender::Rrule => "rrule",
        }
    }

    /// The contender of that name.
    pub fn named(word: &str) -> Result<Contender> {
        let found = Contender::ALL.into_iter().find(|contender| contender.word() == word);
        found.with_context(|| format!("there is no contender {word}"))
    }

    /// The next occurrence after each instant; `None` where it cannot say the schedule.
    pub(crate) fn next(
        self,
        schedule: Schedule,
        place: Place,
        distance: Distance,
    ) -> Result<Option<Box<dyn Question>>> {
        let mut instants = distance.instants(place);
        match self {
            Contender::Kalends => kalends::next(schedule, place, &instants).map(Some),
            Contender::ByHand => by_hand::next(schedule, place, &instants).map(Some),
            Contender::Cron => {
                schedule.for_cron().map(|text| peers::cron_next(text, place, &instants)).transpose()
            }
            Contender::Croner => schedule
                .for_croner()
                .map(|text| peers::croner_next(text, place, &instants))
                .transpose(),
            Contender::Rrule => {
                instants.truncate(INSTANTS_FOR_RRULE);
                peers::rrule_next(&schedule.for_rrule(place), place, &instants).map(Some)
            }
        }
    }

    /// Making the rule; `None` where it cannot say the schedule.
    pub(crate) fn build(
        self,
        schedule: Schedule,
        place: Place,
    ) -> Result<Option<Box<dyn Question>>> {
        Ok(match self {
            Contender::Kalends => Some(kalends::build(schedule, place)?),
            Contender::ByHand => None,
            Contender::Cron => schedule.for_cron().map(peers::cron_build),
            Contender::Croner => schedule.for_croner().map(peers::croner_build),
            Contender::Rrule => Some(peers::rrule_build(schedule.for_rrule(place))),
        })
    }
}
