//! A checked rule and the questions it answers.

use std::iter;
use std::sync::OnceLock;
use std::time::Duration;

use crate::compile::compile;
use crate::definition::Definition;
use crate::error::{RuleError, RuleErrorKind, RuleErrors};
use crate::instant::Ticks;
use crate::placement::Placement;
use crate::settings::Settings;
use crate::validate::validate;
use crate::{Instant, Zone};

/// When a job is due. A rule cannot be invalid: its definition was checked, and it fires.
///
/// No answer takes longer because the instant asked about is far from the anchor, or because many
/// occurrences lie between.
///
/// ```
/// use kalends_recurrence::{Definition, Frequency, Recurrence, Rule, Schedule, Settings, Weekday};
///
/// let mut fridays = Recurrence::every(1, Frequency::Week);
/// fridays.schedule = Some(Schedule {
///     week_days: Some(vec![Weekday::Friday]),
///     hours: Some(vec![17]),
///     minutes: Some(vec![30]),
///     ..Schedule::default()
/// });
/// let definition = Definition {
///     start: Some("2026-03-04T12:25:00Z".parse().unwrap()),
///     created: "2026-03-01T00:00:00Z".parse().unwrap(),
///     recurrence: Some(fridays),
/// };
/// let rule = Rule::new(definition, &Settings::default()).unwrap();
/// assert_eq!(rule.first().unwrap().to_string(), "2026-03-06T17:30:00Z");
/// assert_eq!(rule.describe(), "At 17:30 every Friday, UTC");
/// ```
#[derive(Clone, Debug)]
pub struct Rule {
    definition: Definition,
    /// An occurrence before those of the placement: the run at once of a job without a start, the
    /// only one of a job without a recurrence, or an anchor in the second showing of a local time.
    opening: Option<Ticks>,
    placement: Option<Placement>,
    /// Points of the placement before this are no occurrences.
    from: Ticks,
    /// Nothing after this is an occurrence, whatever the count says.
    until: Ticks,
    /// How many occurrences there are at most.
    count: u64,
    /// The last of `count`, worked out when it is first asked for.
    last_counted: OnceLock<Ticks>,
}

impl Rule {
    /// Checks a definition. A refusal names every mistake.
    pub fn new(definition: Definition, settings: &Settings) -> Result<Rule, RuleErrors> {
        let problems = validate(&definition, settings);
        if !problems.is_empty() {
            return Err(RuleErrors(problems));
        }
        let mut rule = Rule::unlimited(definition, settings);
        let Some(recurrence) = &rule.definition.recurrence else {
            return Ok(rule);
        };
        let anchor = rule.reference_time().ticks();
        if rule.placement.as_ref().is_some_and(|points| points.at_or_after(anchor).is_none()) {
            return Err(RuleErrors(vec![RuleError {
                path: "recurrence".into(),
                kind: RuleErrorKind::NeverFires,
                message: "no date and time fits it, however long one waits (the whole 400-year cycle of the calendar was searched)".into(),
            }]));
        }
        if let Some(end) = recurrence.end {
            rule.until = end.ticks();
        }
        rule.count = recurrence.count.map_or(u64::MAX, i64::unsigned_abs);
        Ok(rule)
    }

    /// The rule without `count` and `endTime`.
    fn unlimited(definition: Definition, settings: &Settings) -> Rule {
        let Definition { start, created, recurrence } = &definition;
        let at_once = created.saturating_add(settings.start_delay).ticks();
        let placement = recurrence
            .as_ref()
            .map(|recurrence| compile(recurrence, start.unwrap_or(*created).ticks()));
        let (opening, from) = match (start, &placement) {
            (Some(start), None) if start >= created => (Some(start.ticks()), at_once),
            (_, None) | (None, _) => (Some(at_once), at_once + 1),
            (Some(start), Some(_)) if start < created => (None, created.ticks() + 1),
            (Some(start), Some(points)) => {
                let start = start.ticks();
                (points.shown_again(start).then_some(start), start)
            }
        };
        Rule {
            definition,
            opening,
            placement,
            from,
            until: Instant::MAX.ticks(),
            count: u64::MAX,
            last_counted: OnceLock::new(),
        }
    }

    /// What the rule was made from.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Where the grid is counted from, and what gives the days and times that the schedule does
    /// not: the start, or the creation of a job without one.
    pub fn reference_time(&self) -> Instant {
        self.definition.start.unwrap_or(self.definition.created)
    }

    /// Where hours, days and weeks are read.
    pub fn zone(&self) -> Zone {
        let recurrence = self.definition.recurrence.as_ref();
        recurrence.and_then(|recurrence| recurrence.zone.clone()).unwrap_or_else(Zone::utc)
    }

    /// The same rule without its `count`, for who numbers the occurrences that ran.
    pub fn without_count(&self) -> Rule {
        let mut rule = Rule { count: u64::MAX, last_counted: OnceLock::new(), ..self.clone() };
        if let Some(recurrence) = &mut rule.definition.recurrence {
            recurrence.count = None;
        }
        rule
    }

    /// The first occurrence. A rule that ended before it began has none.
    pub fn first(&self) -> Option<Instant> {
        self.at_or_after(i64::MIN / 2).and_then(Instant::from_ticks)
    }

    /// The first occurrence after an instant.
    #[inline]
    pub fn next_after(&self, instant: Instant) -> Option<Instant> {
        let found = self.at_or_after(instant.ticks() + 1)?;
        if self.count != u64::MAX && found > self.end() {
            return None;
        }
        Instant::from_ticks(found)
    }

    /// The last occurrence at or before an instant.
    pub fn last_at_or_before(&self, instant: Instant) -> Option<Instant> {
        let until = instant.ticks().min(self.end());
        let points = self.placement.as_ref().filter(|_| until >= self.from);
        let found = points.and_then(|points| points.at_or_before(until, self.from));
        found.or(self.opening.filter(|&opening| opening <= until)).and_then(Instant::from_ticks)
    }

    /// How many occurrences lie after `after` and not after `until`.
    pub fn count_between(&self, after: Instant, until: Instant) -> u64 {
        self.count_uncounted(after.ticks(), until.ticks().min(self.end()))
    }

    /// The shortest time between two occurrences on an ordinary day, whatever its end; none for a
    /// rule that fires once. Clock changes may bring two closer.
    pub fn shortest_gap(&self) -> Option<Duration> {
        let ticks = self.placement.as_ref()?.pattern.shortest_gap()?;
        Some(Duration::from_nanos(ticks.unsigned_abs().saturating_mul(100)))
    }

    /// All occurrences, from the first.
    pub fn occurrences(&self) -> impl Iterator<Item = Instant> + '_ {
        self.iterate(i64::MIN / 2, self.count)
    }

    /// All occurrences after an instant.
    pub fn occurrences_after(&self, instant: Instant) -> impl Iterator<Item = Instant> + '_ {
        let left = match self.count {
            u64::MAX => u64::MAX,
            count => {
                let passed = self.count_uncounted(i64::MIN / 2, instant.ticks().min(self.until));
                count.saturating_sub(passed)
            }
        };
        self.iterate(instant.ticks() + 1, left)
    }

    fn iterate(&self, from: Ticks, left: u64) -> impl Iterator<Item = Instant> + '_ {
        let first = if left == 0 { None } else { self.at_or_after(from) };
        let points = iter::successors(first, |&last| self.at_or_after(last + 1));
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        points.take(left).filter_map(Instant::from_ticks)
    }

    /// The first occurrence at or after an instant, whatever the count says.
    #[inline]
    fn at_or_after(&self, at: Ticks) -> Option<Ticks> {
        let found = match self.opening {
            Some(opening) if at <= opening => opening,
            _ => {
                let from = at.max(self.from);
                let points = self.placement.as_ref().filter(|_| from <= self.until)?;
                points.at_or_after(from)?
            }
        };
        (found <= self.until).then_some(found)
    }

    /// How many occurrences lie after `after` and not after `until`, whatever the count says.
    fn count_uncounted(&self, after: Ticks, until: Ticks) -> u64 {
        let opening = self.opening.filter(|&opening| after < opening && opening <= until);
        let from = self.from.max(after + 1);
        let points = self.placement.as_ref().filter(|_| from <= until);
        u64::from(opening.is_some()) + points.map_or(0, |points| points.count(from, until + 1))
    }

    /// Nothing after this is an occurrence.
    fn end(&self) -> Ticks {
        match self.count {
            u64::MAX => self.until,
            count => *self.last_counted.get_or_init(|| self.nth(count).min(self.until)),
        }
    }

    /// The instant of the `number`-th occurrence, or the end of time where there are fewer.
    fn nth(&self, number: u64) -> Ticks {
        let number = match self.opening {
            Some(opening) if number == 1 => return opening,
            Some(_) => number - 1,
            None => number,
        };
        let points = self.placement.as_ref();
        let found = points.and_then(|points| points.nth(number, self.from, Instant::MAX.ticks()));
        found.unwrap_or(Instant::MAX.ticks())
    }

    pub(crate) fn placement(&self) -> Option<&Placement> {
        self.placement.as_ref()
    }
}
