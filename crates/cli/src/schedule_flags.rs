//! Schedules from flags, such as `--every 2w --on fri --at 05:15 --zone Europe/Berlin`.

use std::collections::BTreeSet;

use kalends_recurrence::{
    Definition, Frequency, Instant, Interval, MonthlyOccurrence, Recurrence, RecurrencePattern,
    Rule, Schedule as Members, Settings, Weekday, Zone,
};

use crate::error::CliError;

/// Formats an error of the command line.
macro_rules! usage {
    ($($message:tt)*) => { CliError::usage(format!($($message)*)) };
}

/// The schedule of a job.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "Schedule", multiple = true)]
pub struct ScheduleFlags {
    /// Interval: 15min, 2h, day, 2d, week, 2w, month, 3months, year
    #[arg(long, value_name = "INTERVAL")]
    every: Option<String>,

    /// Cron expression with five fields, such as "0 2 * * 1-5", or a shorthand such as @daily
    #[arg(
        long,
        value_name = "EXPRESSION",
        conflicts_with_all = ["every", "at", "hours", "minutes", "on", "months"]
    )]
    cron: Option<String>,

    /// Times of day: 05:15 or 05:15,17:15
    #[arg(long, value_name = "HH:MM", value_delimiter = ',', conflicts_with_all = ["hours", "minutes"])]
    at: Vec<String>,

    /// Hours of the day: 9 or 9-16,20
    #[arg(long, value_name = "HOURS")]
    hours: Option<String>,

    /// Minutes of the hour: 0,15,30,45
    #[arg(long, value_name = "MINUTES")]
    minutes: Option<String>,

    /// Days: fri, mon,wed or mon-fri; 1,15,last or 1-7 (days of the month); last-fri,3rd-wed
    #[arg(long, value_name = "DAYS", value_delimiter = ',', allow_hyphen_values = true)]
    on: Vec<String>,

    /// Months: 1,7 or 3-10
    #[arg(long, value_name = "MONTHS")]
    months: Option<String>,

    /// IANA time zone of the schedule, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,

    /// Start time; without an offset a wall time of --zone
    #[arg(long, value_name = "TIME")]
    start: Option<String>,

    /// End time, inclusive; without an offset a wall time of --zone
    #[arg(long, value_name = "TIME")]
    end: Option<String>,

    /// Total number of occurrences
    #[arg(long, value_name = "N")]
    count: Option<i64>,
}

impl ScheduleFlags {
    /// Whether any of the flags is given.
    pub fn is_given(&self) -> bool {
        let ScheduleFlags { every, cron, at, hours, minutes, on, months, zone, start, end, count } =
            self;
        let texts = [every, cron, hours, minutes, months, zone, start, end];
        texts.iter().any(|text| text.is_some())
            || !at.is_empty()
            || !on.is_empty()
            || count.is_some()
    }

    /// Whether the flags describe a repetition. `--start` alone is a single run.
    pub(crate) fn has_pattern(&self) -> bool {
        let texts = [&self.every, &self.cron, &self.hours, &self.minutes, &self.months];
        texts.iter().any(|text| text.is_some()) || !self.at.is_empty() || !self.on.is_empty()
    }

    pub(crate) fn zone(&self) -> Result<Option<Zone>, CliError> {
        self.zone.as_deref().map(zone).transpose()
    }

    pub(crate) fn start(&self) -> Result<Option<Instant>, CliError> {
        self.time("--start", &self.start)
    }

    pub(crate) fn end(&self) -> Result<Option<Instant>, CliError> {
        self.time("--end", &self.end)
    }

    pub(crate) fn count(&self) -> Option<i64> {
        self.count
    }

    fn time(&self, flag: &str, text: &Option<String>) -> Result<Option<Instant>, CliError> {
        let Some(text) = text else { return Ok(None) };
        let zone = self.zone()?.unwrap_or_else(Zone::utc);
        let time = Instant::parse_in(text, &zone);
        time.map(Some).map_err(|error| usage!("{flag} {error} (found {text:?})"))
    }

    /// The schedule of a job that is created at `created`. Without `--start` it starts then; without a
    /// pattern it is daily.
    pub fn definition(
        &self,
        created: Instant,
        settings: &Settings,
    ) -> Result<Definition, CliError> {
        let zone = self.zone()?;
        let days = Days::read(&self.on)?;
        let (interval, frequency) = match &self.every {
            Some(text) => interval(text)?,
            None => (1, days.default_frequency()),
        };
        let mut members =
            Members { months: numbers("--months", &self.months)?, ..Members::default() };
        (members.hours, members.minutes) = if self.at.is_empty() {
            (numbers("--hours", &self.hours)?, numbers("--minutes", &self.minutes)?)
        } else {
            hours_and_minutes(&self.at)?
        };
        let mut pattern = Interval::new(interval, frequency);
        let end = self.end()?;
        let recurrence =
            |pattern| Recurrence { pattern, count: self.count, end, zone: zone.clone() };
        // A job without a start time runs immediately, which does not match a schedule with days and
        // times.
        let start = Some(self.start()?.unwrap_or(created));
        let mut definition = Definition { start, created, recurrence: None };
        if let Some(text) = &self.cron {
            let cron = text.parse().map_err(|error| usage!("--cron {error}"))?;
            definition.recurrence = Some(recurrence(RecurrencePattern::Cron(cron)));
            return Ok(definition);
        }
        if frequency == Frequency::Day && !days.weekdays.is_empty() {
            let daily = Interval { schedule: if_any(members.clone()), ..pattern.clone() };
            definition.recurrence = Some(recurrence(RecurrencePattern::Interval(daily)));
            (definition.start, pattern.interval) =
                days.as_weeks(&definition, pattern.interval, settings)?;
            pattern.frequency = Frequency::Week;
        }
        days.add_to(&mut members, pattern.frequency);
        pattern.schedule = if_any(members);
        definition.recurrence = Some(recurrence(RecurrencePattern::Interval(pattern)));
        Ok(definition)
    }
}

/// The schedule, or `None` if it has no members.
fn if_any(members: Members) -> Option<Members> {
    (members != Members::default()).then_some(members)
}

/// Looks up a time zone.
fn zone(name: &str) -> Result<Zone, CliError> {
    Zone::named(name).map_err(|error| {
        let near = error.suggestion.map(|zone| format!("; did you mean {zone}?"));
        usage!("--zone {error} (found {name:?}){}", near.unwrap_or_default())
    })
}

/// Parses `2w`, `15min` or `month`.
fn interval(text: &str) -> Result<(i64, Frequency), CliError> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let expected = "--every must be a number and min, h, d, w, month or year, such as 15min or 2w";
    let interval = match number.is_empty() {
        true => 1,
        false => number.parse().map_err(|_| usage!("{expected} (found {text:?})"))?,
    };
    let frequency = match unit.trim().to_ascii_lowercase().as_str() {
        "m" | "min" | "mins" | "minute" | "minutes" => Frequency::Minute,
        "h" | "hour" | "hours" => Frequency::Hour,
        "d" | "day" | "days" => Frequency::Day,
        "w" | "week" | "weeks" => Frequency::Week,
        "mo" | "month" | "months" => Frequency::Month,
        "y" | "year" | "years" => Frequency::Year,
        _ => return Err(usage!("{expected} (found {text:?})")),
    };
    Ok((interval, frequency))
}

/// Parses `9-16,20`.
fn numbers(flag: &str, text: &Option<String>) -> Result<Option<Vec<i64>>, CliError> {
    let Some(text) = text else { return Ok(None) };
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let number = |text: &str| {
            let number = text.trim().parse::<u8>();
            number
                .map(i64::from)
                .map_err(|_| usage!("{flag} must be numbers such as 9 or 9-16 (found {part:?})"))
        };
        match part.split_once('-') {
            Some((first, last)) => numbers.extend(number(first)?..=number(last)?),
            None => numbers.push(number(part)?),
        }
    }
    Ok(Some(numbers))
}

type Numbers = Option<Vec<i64>>;

/// Converts times of day to hours and minutes. A schedule runs at every combination of its hours and
/// minutes, so only times that form such a product can be converted.
fn hours_and_minutes(times: &[String]) -> Result<(Numbers, Numbers), CliError> {
    let mut wanted = BTreeSet::new();
    for text in times {
        let time = text.trim().split_once(':');
        let time = time.and_then(|(hour, minute)| Some((hour.parse().ok()?, minute.parse().ok()?)));
        let Some((hour @ 0..=23, minute @ 0..=59)) = time else {
            return Err(usage!("--at must be times between 00:00 and 23:59 (found {text:?})"));
        };
        wanted.insert((hour, minute));
    }
    let hours: BTreeSet<i64> = wanted.iter().map(|&(hour, _)| hour).collect();
    let minutes: BTreeSet<i64> = wanted.iter().map(|&(_, minute)| minute).collect();
    if hours.len() * minutes.len() != wanted.len() {
        return Err(usage!(
            "--at must be every combination of its hours and minutes (found {}); use two jobs",
            times.join(", ")
        ));
    }
    Ok((Some(hours.into_iter().collect()), Some(minutes.into_iter().collect())))
}

#[derive(Default)]
struct Days {
    weekdays: Vec<Weekday>,
    numbered: Vec<i64>,
    of_month: Vec<MonthlyOccurrence>,
}

impl Days {
    fn read(texts: &[String]) -> Result<Days, CliError> {
        let mut days = Days::default();
        for text in texts {
            let word = text.trim().to_ascii_lowercase();
            if let Some(day) = weekday(&word) {
                days.weekdays.push(day);
            } else if word == "last" {
                days.numbered.push(-1);
            } else if let Ok(number) = word.parse() {
                days.numbered.push(number);
            } else if let Some(wanted) = occurrence(&word) {
                days.of_month.push(wanted);
            } else if let Some((first, last)) = range(&word, weekday) {
                let week = Weekday::ALL.into_iter().cycle();
                let from_first = week.skip_while(|day| *day != first).take(Weekday::ALL.len());
                let until_last = from_first.take_while(|day| *day != last);
                days.weekdays.extend(until_last.chain([last]));
            } else if let Some((first, last)) = range(&word, |text| text.parse::<i64>().ok()) {
                days.numbered.extend(first..=last);
            } else {
                return Err(usage!(
                    "--on must be days such as fri, mon-fri, 15, 1-7, last, last-fri or 3rd-wed \
                     (found {text:?})"
                ));
            }
        }
        Ok(days)
    }

    fn default_frequency(&self) -> Frequency {
        if !self.numbered.is_empty() || !self.of_month.is_empty() {
            Frequency::Month
        } else if !self.weekdays.is_empty() {
            Frequency::Week
        } else {
            Frequency::Day
        }
    }

    fn add_to(self, members: &mut Members, frequency: Frequency) {
        let Days { weekdays, numbered, mut of_month } = self;
        if matches!(frequency, Frequency::Month | Frequency::Year) {
            let every = |day| MonthlyOccurrence { day, occurrence: None };
            of_month.extend(weekdays.into_iter().map(every));
        } else if !weekdays.is_empty() {
            members.week_days = Some(weekdays);
        }
        members.month_days = (!numbered.is_empty()).then_some(numbered);
        members.monthly_occurrences = (!of_month.is_empty()).then_some(of_month);
    }

    /// Converts "every n days, on one weekday" to weeks: both coincide every n weeks. Several
    /// weekdays would fall into different weeks.
    fn as_weeks(
        &self,
        daily: &Definition,
        interval: i64,
        settings: &Settings,
    ) -> Result<(Option<Instant>, i64), CliError> {
        if interval == 1 {
            return Ok((daily.start, 1));
        }
        let [weekday] = self.weekdays.as_slice() else {
            return Err(usage!(
                "every {interval} days on several weekdays is not one schedule; use --every {interval}w or --every 1d"
            ));
        };
        let rule = Rule::new(daily.clone(), settings).map_err(|errors| usage!("{errors}"))?;
        let zone = rule.zone();
        let pattern = daily.recurrence.as_ref().and_then(Recurrence::interval);
        let times_a_day = pattern.and_then(|pattern| pattern.schedule.as_ref());
        let times_a_day = times_a_day.map(|times| times.hours.as_ref().map_or(24, Vec::len) * 60);
        let a_week_of_runs = 7 * times_a_day.unwrap_or(1);
        let first =
            rule.occurrences().take(a_week_of_runs).find(|&at| zone.weekday(at) == *weekday);
        let first = first.ok_or_else(|| {
            usage!("every {interval} days from the start never falls on a {}", weekday.name())
        })?;
        let weeks = if interval % 7 == 0 { interval / 7 } else { interval };
        Ok((Some(first), weeks))
    }
}

/// Parses `mon-fri` or `1-7`.
fn range<T>(word: &str, read: impl Fn(&str) -> Option<T>) -> Option<(T, T)> {
    let (first, last) = word.split_once('-')?;
    Some((read(first)?, read(last)?))
}

fn weekday(word: &str) -> Option<Weekday> {
    Weekday::ALL.into_iter().find(|day| {
        let name = day.name().to_ascii_lowercase();
        word.len() >= 3 && name.starts_with(word)
    })
}

/// Parses `last-fri`, `3rd-wed` or `first-monday`.
fn occurrence(word: &str) -> Option<MonthlyOccurrence> {
    let (ordinal, day) = word.rsplit_once('-')?;
    let number = match ordinal {
        "first" | "1st" => 1,
        "second" | "2nd" => 2,
        "third" | "3rd" => 3,
        "fourth" | "4th" => 4,
        "fifth" | "5th" => 5,
        "last" => -1,
        "2nd-last" | "second-last" => -2,
        _ => return None,
    };
    Some(MonthlyOccurrence { day: weekday(day)?, occurrence: Some(number) })
}
