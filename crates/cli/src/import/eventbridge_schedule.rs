//! Schedule expressions of EventBridge: `rate(…)`, `cron(…)` and `at(…)`.

use jiff::tz::TimeZone;
use kalends_recurrence::{Instant, Zone};
use kalends_wire::Json;

use super::RUNS_SHOWN;
use super::cron_fields::{Field, FieldValues, MONTH_NAMES, WEEKDAY_NAMES};
use super::source_cron::{DayRule, Gap, Overlap, SourceCron};
use super::unix_cron::{in_zone, list};
use crate::json::{object, set};

const MINUTES_PER_HOUR: i64 = 60;
const MINUTES_PER_DAY: i64 = 24 * MINUTES_PER_HOUR;

/// Times that limit a schedule.
pub(super) struct Bounds {
    pub(super) start: Option<Instant>,
    pub(super) end: Option<Instant>,
    pub(super) created: Option<Instant>,
    pub(super) now: Instant,
}

/// A schedule in Kalends, and its runs by the rules of EventBridge.
pub(super) struct Converted {
    pub(super) start: Option<Instant>,
    pub(super) recurrence: Option<Json<'static>>,
    pub(super) source_runs: Vec<Instant>,
    pub(super) notes: Vec<String>,
}

/// Converts an expression.
pub(super) fn convert(expression: &str, zone: &Zone, bounds: &Bounds) -> Result<Converted, String> {
    let inner = expression.trim().strip_suffix(')').and_then(|text| text.split_once('('));
    let mut converted = match inner {
        Some(("rate", rate)) => convert_rate(rate, bounds)?,
        Some(("cron", fields)) => convert_cron(fields, zone, bounds)?,
        Some(("at", time)) => convert_at(time, zone, bounds)?,
        _ => {
            return Err(format!(
                "the expression must be rate(…), cron(…) or at(…) (found {expression:?})"
            ));
        }
    };
    if let (Some(recurrence), Some(end)) = (&mut converted.recurrence, bounds.end) {
        let earlier = crate::json::JsonMembers::text(recurrence, "endTime").parse::<Instant>();
        let end = earlier.map_or(end, |earlier| earlier.min(end));
        set(recurrence, "endTime", end.to_string().into());
    }
    Ok(converted)
}

/// `at(2026-11-20T13:00:00)`, in the zone of the schedule.
fn convert_at(time: &str, zone: &Zone, bounds: &Bounds) -> Result<Converted, String> {
    let at = Instant::parse_in(time.trim(), zone).map_err(|error| format!("the time {error}"))?;
    let source_runs = if at > bounds.now { vec![at] } else { vec![] };
    Ok(Converted { start: Some(at), recurrence: None, source_runs, notes: vec![] })
}

/// `rate(5 minutes)`, counted from the start of the schedule, or from its creation.
fn convert_rate(rate: &str, bounds: &Bounds) -> Result<Converted, String> {
    let refused = |problem: &str| format!("rate({rate}) {problem}");
    let (number, unit) = rate.trim().split_once(' ').ok_or_else(|| refused("has no unit"))?;
    let number = number.parse::<i64>().ok().filter(|number| *number > 0);
    let number = number.ok_or_else(|| refused("has no positive number"))?;
    let minutes = match unit.trim().trim_end_matches('s') {
        "minute" => number,
        "hour" => number * MINUTES_PER_HOUR,
        "day" => number * MINUTES_PER_DAY,
        _ => return Err(refused("must have minutes, hours or days")),
    };
    let choices =
        [(MINUTES_PER_DAY, "Day", 548), (MINUTES_PER_HOUR, "Hour", 1_000), (1, "Minute", 1_000)];
    let found =
        choices.into_iter().find(|(size, _, max)| minutes % size == 0 && minutes / size <= *max);
    let (size, frequency, _) =
        found.ok_or_else(|| refused("is longer than any interval of Kalends"))?;
    let mut notes = Vec::new();
    let reference = bounds.start.or(bounds.created);
    if reference.is_none() {
        notes.push(
            "The file has neither StartDate nor CreationDate: the rate counts from now".to_owned(),
        );
    }
    let reference = reference.unwrap_or_else(|| bounds.now.whole_second());
    let seconds = minutes * 60;
    let first = reference.unix_seconds();
    let passed = bounds.now.unix_seconds() - first;
    let from = if passed < 0 { 0 } else { passed / seconds + 1 };
    let times = (from..).map_while(|n| Instant::from_unix_seconds(first + n * seconds));
    let times = times.take_while(|at| bounds.end.is_none_or(|end| *at < end));
    let recurrence =
        object([("frequency", frequency.into()), ("interval", (minutes / size).into())]);
    Ok(Converted {
        start: Some(reference.whole_second()),
        recurrence: Some(recurrence),
        source_runs: times.take(RUNS_SHOWN).collect(),
        notes,
    })
}

/// `cron(0 10 ? * MON-FRI *)`: six fields, weekdays from 1 for Sunday.
fn convert_cron(text: &str, zone: &Zone, bounds: &Bounds) -> Result<Converted, String> {
    let fields: Vec<_> = text.split_ascii_whitespace().collect();
    let [minute, hour, month_day, month, week_day, year] = fields[..] else {
        return Err(format!("cron({text}) must have six fields"));
    };
    if (month_day == "?") == (week_day == "?") {
        return Err(format!("cron({text}) must have ? in one of the two day fields"));
    }
    let field = |name, min, max, names: &'static [&'static str], has_quartz_syntax| Field {
        name,
        min,
        max,
        names,
        has_quartz_syntax,
    };
    let mut week_days = field("day of week", 1, 7, WEEKDAY_NAMES, true).parse(week_day)?;
    // Sunday is 1.
    week_days.bits >>= 1;
    week_days.occurrences.iter_mut().for_each(|(day, _)| *day -= 1);
    let hours = field("hour", 0, 23, &[], false).parse(hour)?;
    let (gap, overlap) = match hours.begins_with_star {
        true => (Gap::Skip, Overlap::Both),
        false => (Gap::Skip, Overlap::First),
    };
    let cron = SourceCron {
        minutes: field("minute", 0, 59, &[], false).parse(minute)?,
        hours,
        month_days: field("day of month", 1, 31, &[], true).parse(month_day)?,
        months: field("month", 1, 12, MONTH_NAMES, false).parse(month)?,
        week_days,
        years: years(year)?,
        day_rule: DayRule::Both,
        gap,
        overlap,
    };
    let star = |text: &str| if text == "?" { "*".to_owned() } else { text.to_owned() };
    let expression =
        format!("{minute} {hour} {} {month} {}", star(month_day), weekday_field(&cron.week_days));
    let (mut recurrence, source_zone) = in_zone(expression, zone.name())?;
    let mut start = bounds.start;
    if let Some((first, last)) = cron.years {
        let begin = wall_time(first, "01-01T00:00:00", zone)?;
        if begin > bounds.now {
            start = Some(start.map_or(begin, |start| start.max(begin)));
        }
        let end = wall_time(last, "12-31T23:59:59", zone)?;
        set(&mut recurrence, "endTime", end.to_string().into());
    }
    let source_runs = runs(&cron, &source_zone, bounds);
    Ok(Converted { start, recurrence: Some(recurrence), source_runs, notes: vec![] })
}

fn runs(cron: &SourceCron, zone: &TimeZone, bounds: &Bounds) -> Vec<Instant> {
    let after = match bounds.start {
        Some(start) if start > bounds.now => start.previous_tick(),
        _ => bounds.now,
    };
    let mut runs = cron.next(zone, after);
    runs.retain(|run| bounds.end.is_none_or(|end| *run < end));
    runs
}

fn wall_time(year: i16, rest: &str, zone: &Zone) -> Result<Instant, String> {
    Instant::parse_in(&format!("{year:04}-{rest}"), zone).map_err(|error| error.to_string())
}

/// The weekdays in the syntax of Kalends, with Sunday as 0.
fn weekday_field(values: &FieldValues) -> String {
    if values.is_every {
        return "*".to_owned();
    }
    let every = Some(list(values.bits)).filter(|_| values.bits != 0);
    let occurrences = values.occurrences.iter().map(|(day, number)| match number {
        -1 => format!("{day}L"),
        number => format!("{day}#{number}"),
    });
    every.into_iter().chain(occurrences).collect::<Vec<_>>().join(",")
}

/// The first and the last year of a field; `None` for every year.
fn years(text: &str) -> Result<Option<(i16, i16)>, String> {
    if text == "*" {
        return Ok(None);
    }
    let refused = || {
        format!(
            "the years {text:?} have no equivalent; one year or a range of consecutive years has"
        )
    };
    let mut all = Vec::new();
    for item in text.split(',') {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let first: i16 = first.parse().map_err(|_| refused())?;
        let last: i16 = last.parse().map_err(|_| refused())?;
        if !(1970..=2199).contains(&first) || !(first..=2199).contains(&last) {
            return Err(refused());
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    let range = all.first().copied().zip(all.last().copied()).ok_or_else(refused)?;
    let is_consecutive = usize::try_from(range.1 - range.0).is_ok_and(|gap| gap + 1 == all.len());
    if is_consecutive { Ok(Some(range)) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::JsonMembers as _;

    /// A reference written from the public description of the fields: every minute of ten years is
    /// tested against each field by itself.
    fn reference(fields: [&str; 6], now: jiff::Timestamp) -> Vec<String> {
        const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
        let value = |text: &str| -> i64 {
            let named =
                DAYS.iter().chain(MONTH_NAMES).position(|name| name.eq_ignore_ascii_case(text));
            match named {
                Some(day) if day < 7 => day as i64 + 1,
                Some(month) => month as i64 - 6,
                None => text.parse().unwrap(),
            }
        };
        let matches = |field: &str, found: i64, min: i64, max: i64| {
            field.split(',').any(|item| {
                if item == "?" || item == "*" {
                    return true;
                }
                let (range, step) = item.split_once('/').unwrap_or((item, ""));
                let (first, last) = match range.split_once('-') {
                    Some((first, last)) => (value(first), value(last)),
                    None if range == "*" => (min, max),
                    None if step.is_empty() => (value(range), value(range)),
                    None => (value(range), max),
                };
                let step = step.parse().unwrap_or(1);
                found >= first && found <= last && (found - first) % step == 0
            })
        };
        let mut found = Vec::new();
        let mut at =
            jiff::Timestamp::from_second(now.as_second().div_euclid(60) * 60 + 60).unwrap();
        let end = now.checked_add(jiff::SignedDuration::from_hours(24 * 3_660)).unwrap();
        while at < end && found.len() < 10 {
            let time = at.to_zoned(TimeZone::UTC).datetime();
            let weekday = i64::from(time.weekday().to_sunday_zero_offset()) + 1;
            let day = match fields[2] {
                "L" => time.day() == time.days_in_month(),
                field => matches(field, time.day().into(), 1, 31),
            };
            let week_day = match fields[4] {
                "L" => weekday == 7,
                field if field.contains('#') => {
                    let (wanted, number) = field.split_once('#').unwrap();
                    weekday == value(wanted)
                        && i64::from(time.day() - 1) / 7 + 1 == number.parse::<i64>().unwrap()
                }
                field if field.ends_with('L') => {
                    weekday == value(field.trim_end_matches('L'))
                        && time.day() > time.days_in_month() - 7
                }
                field => matches(field, weekday, 1, 7),
            };
            let is_match = day
                && week_day
                && matches(fields[0], time.minute().into(), 0, 59)
                && matches(fields[1], time.hour().into(), 0, 23)
                && matches(fields[3], time.month().into(), 1, 12)
                && matches(fields[5], time.year().into(), 1970, 2199);
            if is_match {
                found.push(at.to_string());
            }
            at = at.checked_add(jiff::SignedDuration::from_mins(1)).unwrap();
        }
        found
    }

    fn bounds() -> Bounds {
        let now = "2026-11-16T10:00:30Z".parse().unwrap();
        Bounds { start: None, end: None, created: None, now }
    }

    fn texts(times: &[Instant]) -> Vec<String> {
        times.iter().map(ToString::to_string).collect()
    }

    /// The next runs of a conversion in Kalends.
    fn ours(converted: &Converted, now: Instant) -> Vec<String> {
        let mut body = object([]);
        if let Some(start) = converted.start {
            set(&mut body, "startTime", start.to_string().into());
        }
        if let Some(recurrence) = &converted.recurrence {
            set(&mut body, "recurrence", recurrence.clone());
        }
        let definition = kalends_wire::read_definition(&body, now).unwrap();
        let rule = kalends_recurrence::Rule::new(definition, &Default::default()).unwrap();
        rule.occurrences_after(now).take(10).map(|at| at.to_string()).collect()
    }

    #[test]
    fn cron_expressions_run_as_the_fields_are_described() {
        let bounds = bounds();
        let now = bounds.now.timestamp().unwrap();
        for text in [
            "0 10 * * ? *",
            "15 12 * * ? *",
            "0 18 ? * MON-FRI *",
            "0 8 1 * ? *",
            "0/15 * * * ? *",
            "0/10 8-17 ? * 2-6 *",
            "5,35 14 * * ? *",
            "15 10 ? * 6L 2026-2028",
            "0 9 ? * 3#2 *",
            "0 0 L * ? *",
            "30 6 ? * L *",
            "0 12 ? JAN,JUL SUN *",
            "0 0 1 1/3 ? *",
            "0 0 */7 * ? *",
            "45 23 31 12 ? 2027",
            "0 22 ? * 1,7 2026,2027",
        ] {
            let converted = convert(&format!("cron({text})"), &Zone::utc(), &bounds).unwrap();
            let fields: Vec<_> = text.split(' ').collect();
            let expected = reference(fields.try_into().unwrap(), now);
            assert_eq!(texts(&converted.source_runs), expected, "{text}");
            assert_eq!(ours(&converted, bounds.now), expected, "{text}");
        }
    }

    #[test]
    fn rates_count_from_the_start_or_the_creation() {
        for (rate, start, created, interval, first) in [
            ("5 minutes", None, Some("2026-01-01T00:02:10Z"), "5 Minute", "2026-11-16T10:02:10Z"),
            ("1 hour", Some("2026-11-16T12:30:00Z"), None, "1 Hour", "2026-11-16T12:30:00Z"),
            ("7 days", None, Some("2026-11-10T08:00:00Z"), "7 Day", "2026-11-17T08:00:00Z"),
            ("1440 minutes", None, Some("2026-11-10T08:00:00Z"), "1 Day", "2026-11-17T08:00:00Z"),
            ("90 minutes", None, Some("2026-11-16T10:00:30Z"), "90 Minute", "2026-11-16T11:30:30Z"),
        ] {
            let time = |text: Option<&str>| text.map(|text| text.parse().unwrap());
            let bounds = Bounds { start: time(start), created: time(created), ..bounds() };
            let converted = convert(&format!("rate({rate})"), &Zone::utc(), &bounds).unwrap();
            let recurrence = converted.recurrence.as_ref().unwrap();
            let found =
                format!("{} {}", recurrence.integer("interval"), recurrence.text("frequency"));
            assert_eq!(found, interval, "{rate}");
            assert_eq!(converted.source_runs[0].to_string(), first, "{rate}");
            assert_eq!(ours(&converted, bounds.now), texts(&converted.source_runs), "{rate}");
        }
    }

    #[test]
    fn a_single_time_is_a_wall_time_of_the_zone() {
        let zone = Zone::named("America/New_York").unwrap();
        let converted = convert("at(2026-12-01T13:00:00)", &zone, &bounds()).unwrap();
        assert_eq!(texts(&converted.source_runs), ["2026-12-01T18:00:00Z"]);
        assert!(converted.recurrence.is_none());
    }

    #[test]
    fn dates_limit_recurring_schedules() {
        let time = |text: &str| text.parse().ok();
        let bounds = Bounds {
            start: time("2026-12-01T00:00:00Z"),
            end: time("2026-12-03T12:00:00Z"),
            ..bounds()
        };
        let converted = convert("cron(0 10 * * ? *)", &Zone::utc(), &bounds).unwrap();
        let expected = ["2026-12-01T10:00:00Z", "2026-12-02T10:00:00Z", "2026-12-03T10:00:00Z"];
        assert_eq!(texts(&converted.source_runs), expected);
        assert_eq!(ours(&converted, bounds.now), expected);
    }

    #[test]
    fn expressions_without_an_equivalent_are_refused() {
        for (expression, reason) in [
            ("cron(0 10 3W * ? *)", "weekday nearest to a date"),
            ("cron(0 10 * * ? 2026/2)", "years"),
            ("cron(0 10 * * ? 2026,2028)", "years"),
            ("cron(0 10 * * * *)", "? in one of the two day fields"),
            ("cron(0 10 * * ?)", "six fields"),
            ("rate(1001 minutes)", "longer than any interval"),
            ("rate(5 weeks)", "minutes, hours or days"),
            ("every day", "must be rate"),
        ] {
            let refused = convert(expression, &Zone::utc(), &bounds()).err().unwrap();
            assert!(refused.contains(reason), "{expression}: {refused}");
        }
    }
}
