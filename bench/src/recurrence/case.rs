//! Benchmark cases: the next occurrence, a count, or the construction of a rule.

use anyhow::{Context, Result};

use crate::recurrence::contender::Contender;
use crate::recurrence::instants::Distance;
use crate::recurrence::kalends;
use crate::recurrence::schedule::{Place, Schedule};
use crate::recurrence::work::Question;
use crate::rounds::Work;

/// One row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case(pub(crate) Asks);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    Next(Schedule, Place, Distance),
    Count(Count),
    Build(Schedule, Place),
}

/// The number of occurrences in a period from the start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    YearOfMinutes,
    YearOfMinutesOfHours,
    CenturiesOfLastFridays,
}

impl Count {
    pub(crate) const ALL: [Count; 3] =
        [Count::YearOfMinutes, Count::YearOfMinutesOfHours, Count::CenturiesOfLastFridays];

    fn word(self) -> &'static str {
        match self {
            Count::YearOfMinutes => "year-of-minutes",
            Count::YearOfMinutesOfHours => "year-of-minutes-of-hours",
            Count::CenturiesOfLastFridays => "centuries-of-last-fridays",
        }
    }

    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Count::YearOfMinutes => "a year of every minute, UTC",
            Count::YearOfMinutesOfHours => "a year of every minute from 9 to 17 h, Europe/Berlin",
            Count::CenturiesOfLastFridays => "400 years of the last Friday, Europe/Berlin",
        }
    }

    /// Length of the period in seconds.
    pub(crate) fn seconds(self) -> i64 {
        const DAY: i64 = 24 * 60 * 60;
        match self {
            Count::YearOfMinutes | Count::YearOfMinutesOfHours => 365 * DAY,
            Count::CenturiesOfLastFridays => 146_097 * DAY,
        }
    }
}

impl Case {
    /// All cases in the order of the tables.
    pub fn all() -> Vec<Case> {
        let placed =
            || Schedule::ALL.into_iter().flat_map(|of| of.places().iter().map(move |&at| (of, at)));
        let next = placed().flat_map(|(schedule, place)| {
            Distance::ALL.map(|distance| Asks::Next(schedule, place, distance))
        });
        let counts = Count::ALL.into_iter().map(Asks::Count);
        let builds = placed().map(|(schedule, place)| Asks::Build(schedule, place));
        next.chain(counts).chain(builds).map(Case).collect()
    }

    /// Finds a case by its name.
    pub fn named(name: &str) -> Result<Case> {
        let found = Case::all().into_iter().find(|case| case.name() == name);
        found.with_context(|| format!("there is no case {name}"))
    }

    /// Name on the command line.
    pub fn name(self) -> String {
        match self.0 {
            Asks::Next(schedule, place, distance) => {
                format!("next/{}/{}/{}", schedule.word(), place.word(), distance.word())
            }
            Asks::Count(count) => format!("count/{}", count.word()),
            Asks::Build(schedule, place) => format!("build/{}/{}", schedule.word(), place.word()),
        }
    }

    /// The workload of a contender; `None` if it does not support the case.
    pub fn work(self, contender: Contender) -> Result<Option<Box<dyn Work>>> {
        Ok(self.question(contender)?.map(|question| question as Box<dyn Work>))
    }

    pub(crate) fn question(self, contender: Contender) -> Result<Option<Box<dyn Question>>> {
        match self.0 {
            Asks::Next(schedule, place, distance) => contender.next(schedule, place, distance),
            Asks::Count(count) if contender == Contender::Kalends => {
                kalends::count(count).map(Some)
            }
            Asks::Count(_) => Ok(None),
            Asks::Build(schedule, place) => contender.build(schedule, place),
        }
    }
}
