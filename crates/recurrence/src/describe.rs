//! Describes a rule in one English sentence.

use crate::civil;
use crate::cron::{Cron, numbers};
use crate::definition::{Definition, Frequency, Interval, RecurrencePattern, Schedule, Weekday};
use crate::instant::{
    Fraction, TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MINUTE, TICKS_PER_SECOND, Ticks,
    write_date_and_time,
};
use crate::{Instant, Rule};

/// Maximum number of times of day that are listed; above it, hours and minutes are listed
/// separately.
const TIMES_LISTED_MAX: usize = 6;

const MONTH_NAMES: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Whether the run at once, that of a job without a start time or with one in the past, is still to
/// come. An edit of a job that exists already does not repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImmediateRun {
    /// The job runs at once.
    Pending,
    /// It ran at its creation, or there is none.
    Past,
}

impl Rule {
    /// Describes the rule of a new job in one English sentence, such as
    /// `At 05:15 and 17:15 on the third Wednesday of every month, UTC`.
    pub fn describe(&self) -> String {
        let Definition { start, created, recurrence } = self.definition();
        match (start, recurrence) {
            (Some(start), None) if start >= created => self.describe_with(ImmediateRun::Past),
            _ => self.describe_with(ImmediateRun::Pending),
        }
    }

    /// Describes the rule like [`Rule::describe`], for a job that runs at once or does not.
    pub fn describe_with(&self, immediate: ImmediateRun) -> String {
        let Definition { start, recurrence, .. } = self.definition();
        let Some(recurrence) = recurrence else {
            return match (immediate, self.first()) {
                (ImmediateRun::Past, Some(once)) => format!("Once, at {once}"),
                _ => "Once, at once".to_owned(),
            };
        };
        let zone = self.zone();
        let mut sentence = match &recurrence.pattern {
            RecurrencePattern::Interval(pattern) => {
                let runs_at_once = immediate == ImmediateRun::Pending && start.is_none();
                self.describe_interval(pattern, runs_at_once)
            }
            RecurrencePattern::Cron(cron) => describe_cron(cron),
        };
        sentence += &format!(", {}", zone.name());
        match (recurrence.count, recurrence.end) {
            (Some(count), Some(end)) => {
                sentence += &format!(", {} and not after {}", times_in_all(count), short(end));
            }
            (Some(count), None) => sentence += &format!(", {}", times_in_all(count)),
            (None, Some(end)) => sentence += &format!(", not after {}", short(end)),
            (None, None) => {}
        }
        sentence
    }
}

impl Rule {
    fn describe_interval(&self, pattern: &Interval, runs_at_once: bool) -> String {
        let reference = self.reference_time().ticks();
        let reference = reference + self.zone().segment_at(reference).1.offset;
        let description = Description { pattern, schedule: pattern.schedule.as_ref(), reference };
        let mut sentence = match pattern.frequency {
            Frequency::Minute | Frequency::Hour => description.elapsed(),
            _ => format!("{} {}", description.times(), description.dates()),
        };
        if runs_at_once && pattern.schedule.is_some() {
            let (first, rest) = sentence.split_at(1);
            sentence = format!("At once, then {}{rest}", first.to_ascii_lowercase());
        }
        if pattern.interval > 1 {
            sentence += &format!(", counted from {}", description.counted_from());
        }
        sentence
    }
}

fn describe_cron(cron: &Cron) -> String {
    let (frequency, schedule) = cron.to_schedule().unwrap_or_else(|| {
        let (by_number, _) = cron.day_schedules();
        (Frequency::Month, by_number)
    });
    let pattern = Interval::new(1, frequency);
    let description = |schedule| Description { pattern: &pattern, schedule, reference: 0 };
    let of_all = description(Some(&schedule));
    let times = every_few_minutes(cron).unwrap_or_else(|| of_all.times());
    if cron.to_schedule().is_none() {
        let (_, by_weekday) = cron.day_schedules();
        let weekdays = description(Some(&by_weekday)).days_of_month();
        let (numbers, months) = (of_all.days_of_month(), of_all.months_in_words());
        return match cron.needs_both_days() {
            true => format!("{times} on {weekdays} of {months} that is {numbers}"),
            false => format!("{times} on {numbers} and {weekdays} of {months}"),
        };
    }
    match (frequency, times.starts_with("Every")) {
        (Frequency::Day, true) => times,
        (_, true) => format!("{times}, {}", of_all.dates()),
        (_, false) => format!("{times} {}", of_all.dates()),
    }
}

/// `Every 5 minutes`, if the minutes are evenly spread over the hour.
fn every_few_minutes(cron: &Cron) -> Option<String> {
    let minutes = numbers(cron.minutes);
    let (&first, &second) = (minutes.first()?, minutes.get(1)?);
    let step = second - first;
    let is_even = 60 % step == 0
        && minutes.len() as i64 * step == 60
        && minutes.windows(2).all(|pair| matches!(pair, [a, b] if b - a == step));
    let from = match first {
        0 => String::new(),
        _ => format!(" from minute {first}"),
    };
    let hours = numbers(cron.hours.into());
    let in_hours = match hours.len() {
        24 => String::new(),
        _ => format!(" in {}", hours_in_words(&hours)),
    };
    is_even.then(|| format!("E{}{from}{in_hours}", &every(step, "minute")[1..]))
}

fn times_in_all(count: i64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => format!("{count} times"),
    }
}

/// The timestamp, or only the date at midnight UTC.
fn short(at: Instant) -> String {
    let text = at.to_string();
    text.strip_suffix("T00:00:00Z").map(str::to_owned).unwrap_or(text)
}

struct Description<'a> {
    pattern: &'a Interval,
    schedule: Option<&'a Schedule>,
    /// The reference time in local time.
    reference: Ticks,
}

impl Description<'_> {
    fn hours(&self) -> Option<Vec<i64>> {
        self.schedule.and_then(|schedule| schedule.hours.as_deref()).map(sorted)
    }

    fn minutes(&self) -> Option<Vec<i64>> {
        self.schedule.and_then(|schedule| schedule.minutes.as_deref()).map(sorted)
    }

    /// Minute and hour rules.
    fn elapsed(&self) -> String {
        let interval = self.pattern.interval;
        let hourly = self.pattern.frequency == Frequency::Hour;
        let in_hours = self.hours().map(|hours| format!(" in {}", hours_in_words(&hours)));
        let in_hours = in_hours.unwrap_or_default();
        match self.minutes() {
            Some(minutes) if hourly => {
                let every = every_nth(interval, "hour");
                format!(
                    "At {} of {every}{}",
                    minutes_in_words(&minutes),
                    in_hours.replace(" in ", ", in ")
                )
            }
            minutes => {
                let minutes = minutes.map(|minutes| format!(" at {}", minutes_in_words(&minutes)));
                let unit = self.pattern.frequency.word();
                let every = every(interval, unit);
                let filters = format!("{in_hours}{}", minutes.unwrap_or_default());
                let only = if filters.is_empty() { "" } else { ", only" };
                format!("E{}{only}{filters}", &every[1..])
            }
        }
    }

    /// The times of day of a calendar rule.
    fn times(&self) -> String {
        let minute = self.reference / TICKS_PER_MINUTE % 60;
        let within_minute = self.reference.rem_euclid(TICKS_PER_MINUTE);
        let hour = self.reference.rem_euclid(TICKS_PER_DAY) / TICKS_PER_HOUR;
        let (hours, minutes, within_minute) = match (self.hours(), self.minutes()) {
            (None, None) => (vec![hour], vec![minute.rem_euclid(60)], within_minute),
            (Some(hours), None) => (hours, vec![minute.rem_euclid(60)], within_minute),
            (Some(hours), Some(minutes)) => (hours, minutes, 0),
            (None, Some(minutes)) => {
                return format!("At {} of every hour,", minutes_in_words(&minutes));
            }
        };
        if hours.len() * minutes.len() <= TIMES_LISTED_MAX {
            let times = hours.iter().flat_map(|hour| {
                minutes.iter().map(move |minute| clock_time(*hour, *minute, within_minute))
            });
            return format!("At {}", list(times.collect()));
        }
        let seconds = match within_minute / TICKS_PER_SECOND {
            0 => String::new(),
            seconds => format!(", second {seconds},"),
        };
        format!("At {}{seconds} of {}", minutes_in_words(&minutes), hours_in_words(&hours))
    }

    /// The dates of a calendar rule.
    fn dates(&self) -> String {
        let interval = self.pattern.interval;
        match self.pattern.frequency {
            Frequency::Minute | Frequency::Hour | Frequency::Day => every(interval, "day"),
            Frequency::Week => {
                let days = self.week_days();
                let span = span_of(&days);
                match (interval, &span) {
                    (1, _) if days.len() == 7 => "every day".to_owned(),
                    (1, Some(span)) => format!("every day from {span}"),
                    (1, None) => format!("every {}", list(names(&days))),
                    (_, Some(span)) => format!("on {span} of {}", every_nth(interval, "week")),
                    (_, None) => {
                        format!("on {} of {}", list(names(&days)), every_nth(interval, "week"))
                    }
                }
            }
            Frequency::Month => {
                format!("on {} of {}", self.days_of_month(), self.months_in_words())
            }
            Frequency::Year => {
                let (_, month, _) = civil::date(self.reference.div_euclid(TICKS_PER_DAY));
                let months = self.months().unwrap_or_else(|| vec![month]);
                let days = self.days_of_month();
                format!(
                    "on {days} of {} of {}",
                    list(month_names(&months)),
                    every_nth(interval, "year")
                )
            }
        }
    }

    fn week_days(&self) -> Vec<Weekday> {
        let given = self.schedule.and_then(|schedule| schedule.week_days.as_deref());
        let monday_first = Weekday::ALL.iter().cycle().skip(1).take(7).copied();
        let of_reference = civil::weekday(self.reference.div_euclid(TICKS_PER_DAY));
        monday_first
            .filter(|&day| match given {
                Some(given) => given.contains(&day),
                None => day as i64 == of_reference,
            })
            .collect()
    }

    fn months(&self) -> Option<Vec<i64>> {
        self.schedule.and_then(|schedule| schedule.months.as_deref()).map(sorted)
    }

    /// The months of a monthly rule.
    fn months_in_words(&self) -> String {
        let interval = self.pattern.interval;
        match self.months() {
            Some(months) if interval == 1 => format!("every {}", list_or(month_names(&months))),
            Some(months) => format!(
                "{} that is {}",
                every_nth(interval, "month"),
                list_or(month_names(&months))
            ),
            None => every_nth(interval, "month"),
        }
    }

    fn days_of_month(&self) -> String {
        let schedule = self.schedule;
        if let Some(numbers) = schedule.and_then(|schedule| schedule.month_days.as_deref()) {
            let mut numbers = sorted(numbers);
            // Days counted from the start of the month come first, then those from its end.
            numbers.sort_by_key(|&number| (number < 0, number));
            return list(numbers.into_iter().map(day_in_words).collect());
        }
        if let Some(wanted) = schedule.and_then(|schedule| schedule.monthly_occurrences.as_deref())
        {
            let one = |occurrence: Option<i64>, day: Weekday| match occurrence {
                None => format!("every {}", day.name()),
                Some(number) => format!("the {} {}", ordinal_in_words(number), day.name()),
            };
            return list(wanted.iter().map(|wanted| one(wanted.occurrence, wanted.day)).collect());
        }
        match civil::date(self.reference.div_euclid(TICKS_PER_DAY)).2 {
            day @ 29.. => format!("day {day} (or the last)"),
            day => day_in_words(day),
        }
    }

    /// The reference time, to the precision that the frequency needs.
    fn counted_from(&self) -> String {
        let text = write_date_and_time(self.reference, Fraction::Never);
        let (date, time) = text.as_str().split_once('T').unwrap_or_default();
        match self.pattern.frequency {
            Frequency::Minute | Frequency::Hour => {
                format!("{date} {}", time.strip_suffix(":00").unwrap_or(time))
            }
            _ => date.to_owned(),
        }
    }
}

fn names(days: &[Weekday]) -> Vec<String> {
    days.iter().map(|day| day.name().to_owned()).collect()
}

/// Three or more days in a row, such as `Monday to Friday`. The days are sorted, Monday first.
fn span_of(days: &[Weekday]) -> Option<String> {
    let from_monday = |day: Weekday| (day as usize + 6) % 7;
    let (first, last) = (*days.first()?, *days.last()?);
    let is_span = days.len() >= 3 && from_monday(last) - from_monday(first) == days.len() - 1;
    is_span.then(|| format!("{} to {}", first.name(), last.name()))
}

fn sorted(numbers: &[i64]) -> Vec<i64> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn every(interval: i64, unit: &str) -> String {
    match interval {
        1 => format!("every {unit}"),
        _ => format!("every {interval} {unit}s"),
    }
}

fn every_nth(interval: i64, unit: &str) -> String {
    match interval {
        1 => format!("every {unit}"),
        _ => format!("every {} {unit}", ordinal(interval)),
    }
}

/// An ordinal number in digits, such as 2nd or 11th.
fn ordinal(number: i64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

fn ordinal_in_words(number: i64) -> String {
    let from_end = |ordinal: &str| format!("{ordinal}-to-last");
    match number {
        1 => "first".into(),
        2 => "second".into(),
        3 => "third".into(),
        4 => "fourth".into(),
        5 => "fifth".into(),
        -1 => "last".into(),
        -2 => from_end("second"),
        -3 => from_end("third"),
        -4 => from_end("fourth"),
        _ => from_end("fifth"),
    }
}

fn day_in_words(number: i64) -> String {
    match number {
        -1 => "the last day".to_owned(),
        ..=-2 => format!("the {}-to-last day", ordinal(-number)),
        _ => format!("day {number}"),
    }
}

fn month_names(months: &[i64]) -> Vec<String> {
    let name = |&month: &i64| MONTH_NAMES.get((month - 1) as usize).map(|&name| name.to_owned());
    months.iter().filter_map(name).collect()
}

fn minutes_in_words(minutes: &[i64]) -> String {
    let noun = if minutes.len() == 1 { "minute" } else { "minutes" };
    format!("{noun} {}", numbers_in_words(minutes))
}

fn hours_in_words(hours: &[i64]) -> String {
    match hours {
        [hour] => format!("hour {hour}"),
        _ if hours.len() == 24 => "every hour".to_owned(),
        _ => format!("hours {}", numbers_in_words(hours)),
    }
}

/// Lists ascending numbers, with three or more consecutive ones as a range.
fn numbers_in_words(numbers: &[i64]) -> String {
    let mut parts: Vec<(i64, i64)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let texts = parts.into_iter().flat_map(|(first, last)| match last - first {
        0 => vec![first.to_string()],
        1 => vec![first.to_string(), last.to_string()],
        _ => vec![format!("{first} to {last}")],
    });
    list(texts.collect())
}

fn clock_time(hour: i64, minute: i64, within_minute: Ticks) -> String {
    match within_minute / TICKS_PER_SECOND {
        0 => format!("{hour:02}:{minute:02}"),
        second => format!("{hour:02}:{minute:02}:{second:02}"),
    }
}

fn list(parts: Vec<String>) -> String {
    joined(parts, "and")
}

fn list_or(parts: Vec<String>) -> String {
    joined(parts, "or")
}

fn joined(parts: Vec<String>, last: &str) -> String {
    match parts.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((final_one, others)) => format!("{} {last} {final_one}", others.join(", ")),
    }
}
