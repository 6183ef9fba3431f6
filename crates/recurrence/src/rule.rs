//! Validated rules and queries on their occurrences.

use std::iter;
use std::sync::OnceLock;
use std::time::Duration;

use crate::compile::compile;
use crate::definition::{Definition, Recurrence};
use crate::error::{RuleError, RuleErrorKind, RuleErrors};
use crate::instant::{Ticks, ticks_to_duration};
use crate::settings::Settings;
use crate::validate::validate;
use crate::zoned_pattern::ZonedPattern;
use crate::{Instant, Zone};

/// The occurrences of a job. A rule is always valid: [`Rule::new`] rejects invalid definitions and
/// recurrences that never fire.
///
/// The cost of a query does not depend on its distance from the reference time or on the number of
/// occurrences in between.
///
/// ```
/// use kalends_recurrence::{Definition, Frequency, Recurrence, Rule, Schedule, Settings, Weekday};
///
/// let fridays = Recurrence::every(1, Frequency::Week).with_schedule(Schedule {
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
    /// An occurrence before those of the pattern: the immediate run of a job without a start time, the
    /// only one of a job without a recurrence, or a start time in the second pass of a DST overlap.
    opening: Option<Ticks>,
    zoned_pattern: Option<ZonedPattern>,
    /// Earliest occurrence from the pattern.
    from: Ticks,
    /// Latest occurrence, regardless of `count`.
    until: Ticks,
    /// Maximum number of occurrences; `u64::MAX` if unlimited.
    count: u64,
    /// The `count`-th occurrence, computed on first use.
    last_counted: OnceLock<Ticks>,
}

impl Rule {
    /// Validates a definition. Returns all errors, not only the first.
    pub fn new(definition: Definition, settings: &Settings) -> Result<Rule, RuleErrors> {
        let errors = validate(&definition, settings);
        if !errors.is_empty() {
            return Err(RuleErrors(errors));
        }
        let mut rule = Rule::unlimited(definition, settings);
        let Some(recurrence) = &rule.definition.recurrence else {
            return Ok(rule);
        };
        let reference = rule.reference_time().ticks();
        if rule.zoned_pattern.as_ref().is_some_and(|points| points.at_or_after(reference).is_none())
        {
            return Err(RuleErrors(vec![RuleError {
                path: "recurrence".into(),
                kind: RuleErrorKind::NeverFires,
                message: "must match at least one date and time; none in the 400-year cycle of the calendar does".into(),
            }]));
        }
        if let Some(end) = recurrence.end {
            rule.until = end.ticks();
        }
        rule.count = recurrence.count.map_or(u64::MAX, i64::unsigned_abs);
        Ok(rule)
    }

    /// Creates the rule without applying `count` and `endTime`.
    fn unlimited(definition: Definition, settings: &Settings) -> Rule {
        let Definition { start, created, recurrence } = &definition;
        let at_once = created.saturating_add(settings.start_delay).ticks();
        let zoned_pattern = recurrence
            .as_ref()
            .map(|recurrence| compile(recurrence, start.unwrap_or(*created).ticks()));
        let (opening, from) = match (start, &zoned_pattern) {
            (Some(start), None) if start >= created => (Some(start.ticks()), at_once),
            // A cron expression never runs at once.
            (None, Some(_)) if recurrence.as_ref().is_some_and(Recurrence::is_cron) => {
                (None, created.ticks() + 1)
            }
            (_, None) | (None, _) => (Some(at_once), at_once + 1),
            (Some(start), Some(_)) if start < created => (None, created.ticks() + 1),
            (Some(start), Some(points)) => {
                let start = start.ticks();
                (points.is_second_pass(start).then_some(start), start)
            }
        };
        Rule {
            definition,
            opening,
            zoned_pattern,
            from,
            until: Instant::MAX.ticks(),
            count: u64::MAX,
            last_counted: OnceLock::new(),
        }
    }

    /// The definition that the rule was created from.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The time from which periods are counted, and which supplies the days and times that the
    /// schedule leaves out: the start time, or the creation time of a job without one.
    pub fn reference_time(&self) -> Instant {
        self.definition.start.unwrap_or(self.definition.created)
    }

    /// Time zone of the rule; UTC by default.
    pub fn zone(&self) -> Zone {
        let recurrence = self.definition.recurrence.as_ref();
        recurrence.and_then(|recurrence| recurrence.zone.clone()).unwrap_or_else(Zone::utc)
    }

    /// The same rule without its `count`, for callers that count the occurrences that ran.
    pub fn without_count(&self) -> Rule {
        let mut rule = Rule { count: u64::MAX, last_counted: OnceLock::new(), ..self.clone() };
        if let Some(recurrence) = &mut rule.definition.recurrence {
            recurrence.count = None;
        }
        rule
    }

    /// The same rule without its `endTime`.
    pub fn without_end(&self) -> Rule {
        let until = Instant::MAX.ticks();
        let mut rule = Rule { until, last_counted: OnceLock::new(), ..self.clone() };
        if let Some(recurrence) = &mut rule.definition.recurrence {
            recurrence.end = None;
        }
        rule
    }

    /// The first occurrence; `None` if `endTime` is before it.
    pub fn first(&self) -> Option<Instant> {
        self.at_or_after(i64::MIN / 2).and_then(Instant::from_ticks)
    }

    /// The first occurrence strictly after `instant`.
    #[inline]
    pub fn next_after(&self, instant: Instant) -> Option<Instant> {
        let found = self.at_or_after(instant.ticks() + 1)?;
        if self.count != u64::MAX && found > self.end() {
            return None;
        }
        Instant::from_ticks(found)
    }

    /// The last occurrence at or before `instant`.
    pub fn last_at_or_before(&self, instant: Instant) -> Option<Instant> {
        let until = instant.ticks().min(self.end());
        let points = self.zoned_pattern.as_ref().filter(|_| until >= self.from);
        let found = points.and_then(|points| points.at_or_before(until, self.from));
        found.or(self.opening.filter(|&opening| opening <= until)).and_then(Instant::from_ticks)
    }

    /// Number of occurrences in `after < t <= until`.
    pub fn count_between(&self, after: Instant, until: Instant) -> u64 {
        self.count_unlimited(after.ticks(), until.ticks().min(self.end()))
    }

    /// The shortest time between two occurrences without regard to DST and `endTime`; `None` for a
    /// rule that fires once. A DST transition can bring two occurrences closer together.
    pub fn shortest_gap(&self) -> Option<Duration> {
        self.zoned_pattern.as_ref()?.pattern.shortest_gap().map(ticks_to_duration)
    }

    /// All occurrences in ascending order.
    pub fn occurrences(&self) -> impl Iterator<Item = Instant> + '_ {
        self.iterate(i64::MIN / 2, self.count)
    }

    /// All occurrences strictly after `instant`, in ascending order.
    pub fn occurrences_after(&self, instant: Instant) -> impl Iterator<Item = Instant> + '_ {
        let left = match self.count {
            u64::MAX => u64::MAX,
            count => {
                let passed = self.count_unlimited(i64::MIN / 2, instant.ticks().min(self.until));
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

    /// The first occurrence at or after a UTC time, regardless of `count`.
    #[inline]
    fn at_or_after(&self, at: Ticks) -> Option<Ticks> {
        let found = match self.opening {
            Some(opening) if at <= opening => opening,
            _ => {
                let from = at.max(self.from);
                let points = self.zoned_pattern.as_ref().filter(|_| from <= self.until)?;
                points.at_or_after(from)?
            }
        };
        (found <= self.until).then_some(found)
    }

    /// Number of occurrences in `after < t <= until`, regardless of `count`.
    fn count_unlimited(&self, after: Ticks, until: Ticks) -> u64 {
        let opening = self.opening.filter(|&opening| after < opening && opening <= until);
        let from = self.from.max(after + 1);
        let points = self.zoned_pattern.as_ref().filter(|_| from <= until);
        u64::from(opening.is_some()) + points.map_or(0, |points| points.count(from, until + 1))
    }

    /// The latest occurrence or a later time.
    fn end(&self) -> Ticks {
        match self.count {
            u64::MAX => self.until,
            count => *self.last_counted.get_or_init(|| self.nth(count).min(self.until)),
        }
    }

    /// The time of the `number`-th occurrence (from 1), or [`Instant::MAX`] if there are fewer.
    fn nth(&self, number: u64) -> Ticks {
        let number = match self.opening {
            Some(opening) if number == 1 => return opening,
            Some(_) => number - 1,
            None => number,
        };
        let points = self.zoned_pattern.as_ref();
        let found = points.and_then(|points| points.nth(number, self.from, Instant::MAX.ticks()));
        found.unwrap_or(Instant::MAX.ticks())
    }

    pub(crate) fn zoned_pattern(&self) -> Option<&ZonedPattern> {
        self.zoned_pattern.as_ref()
    }
}
