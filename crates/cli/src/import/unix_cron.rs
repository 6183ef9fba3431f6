//! Five-field cron expressions, in the dialects of cron, Kubernetes and Cloud Scheduler.

use jiff::tz::TimeZone;
use kalends_recurrence::{Instant, Zone};
use kalends_wire::Json;

use super::cron_fields::{Field, FieldValues, MONTH_NAMES, WEEKDAY_NAMES, numbers};
use super::source_cron::{DayRule, Gap, Overlap, SourceCron};
use crate::json::{object, set};

/// A dialect of five-field cron expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Vixie cron and cronie. A day field that begins with `*` is not restricted. Times in a DST gap run
    /// at its end; expressions whose minute or hour begins with `*` follow elapsed time.
    Crontab,
    /// The parser of Kubernetes. Only `*` and `?` are not restricted; times in a DST gap do not run,
    /// those in an overlap run twice.
    Kubernetes,
    /// Like Kubernetes, with 7 for Sunday, and once in an overlap.
    CloudScheduler,
}

const SHORTHANDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// A recurring schedule in Kalends, and its runs by the rules of its source.
#[derive(Debug)]
pub(super) struct ConvertedSchedule {
    /// Start time; `None` if the schedule has no reference time.
    pub(super) start: Option<Instant>,
    pub(super) recurrence: Json<'static>,
    pub(super) source_runs: Vec<Instant>,
    /// Differences to the source.
    pub(super) notes: Vec<String>,
}

/// Converts an expression in a time zone.
pub(super) fn convert(
    text: &str,
    zone: &str,
    dialect: Dialect,
    now: Instant,
) -> Result<ConvertedSchedule, String> {
    let cron = parse(text, dialect)?;
    let (recurrence, source_zone) = in_zone(expression(text, &cron, dialect), zone)?;
    let source_runs = cron.next(&source_zone, now);
    Ok(ConvertedSchedule { start: None, recurrence, source_runs, notes: vec![] })
}

/// A recurrence with a cron expression, and its time zone in the time zone database.
pub(super) fn in_zone(cron: String, zone: &str) -> Result<(Json<'static>, TimeZone), String> {
    let known = Zone::named(zone).map_err(|_| format!("the time zone {zone:?} is unknown"))?;
    let source_zone = TimeZone::get(zone).map_err(|error| error.to_string())?;
    let mut recurrence = object([("cron", cron.into())]);
    if !["UTC", "Etc/UTC"].contains(&known.name()) {
        set(&mut recurrence, "timeZone", known.name().into());
    }
    Ok((recurrence, source_zone))
}

fn parse(text: &str, dialect: Dialect) -> Result<SourceCron, String> {
    let expanded = match text.starts_with('@') {
        false => text,
        true => {
            let found = SHORTHANDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
            found.map(|(_, fields)| *fields).ok_or_else(|| format!("{text} has no equivalent"))?
        }
    };
    let fields: Vec<_> = expanded.split_ascii_whitespace().collect();
    let [minute, hour, month_day, month, week_day] = fields[..] else {
        return Err(format!("the schedule must have five fields (found {text:?})"));
    };
    if expanded.contains('~') {
        return Err("a random value (~) has no equivalent; use jitter".to_owned());
    }
    let is_kubernetes = dialect == Dialect::Kubernetes;
    let field = |name, min, max, names| Field { name, min, max, names, has_quartz_syntax: false };
    // Kubernetes reads ? as *.
    let star = |text: &str| match text {
        "?" if is_kubernetes => "*".to_owned(),
        text => text.to_owned(),
    };
    let minutes = field("minute", 0, 59, &[]).parse(minute)?;
    let hours = field("hour", 0, 23, &[]).parse(hour)?;
    let month_days = field("day of month", 1, 31, &[]).parse(&star(month_day))?;
    let months = field("month", 1, 12, MONTH_NAMES).parse(month)?;
    let last = if is_kubernetes { 6 } else { 7 };
    let mut week_days = field("day of week", 0, last, WEEKDAY_NAMES).parse(&star(week_day))?;
    week_days.bits = (week_days.bits | week_days.bits >> 7) & 0x7f;
    let is_open = |field: &FieldValues| match dialect {
        Dialect::Crontab => field.begins_with_star,
        Dialect::Kubernetes | Dialect::CloudScheduler => field.is_every,
    };
    let day_rule = match is_open(&month_days) || is_open(&week_days) {
        true => DayRule::Both,
        false => DayRule::Either,
    };
    let follows_elapsed_time = match dialect {
        Dialect::Crontab => minutes.begins_with_star || hours.begins_with_star,
        Dialect::Kubernetes | Dialect::CloudScheduler => hours.begins_with_star,
    };
    let (gap, overlap) = match (dialect, follows_elapsed_time) {
        (_, true) | (Dialect::Kubernetes, _) => (Gap::Skip, Overlap::Both),
        (Dialect::Crontab, false) => (Gap::AtEnd, Overlap::First),
        (Dialect::CloudScheduler, false) => (Gap::Skip, Overlap::First),
    };
    let years = None;
    Ok(SourceCron { minutes, hours, month_days, months, week_days, years, day_rule, gap, overlap })
}

/// The expression in the syntax of Kalends: as written, except for day fields such as `*/2` that the
/// source regards as restricted, and for `?`.
fn expression(text: &str, cron: &SourceCron, dialect: Dialect) -> String {
    let fields: Vec<_> = text.split_ascii_whitespace().collect();
    let [minute, hour, month_day, month, week_day] = fields[..] else { return text.to_owned() };
    let rewrite = |text: &str, values: &FieldValues| match dialect {
        Dialect::Crontab => text.to_owned(),
        _ if values.is_every => "*".to_owned(),
        _ if values.begins_with_star => list(values.bits),
        _ => text.to_owned(),
    };
    let month_day = rewrite(month_day, &cron.month_days);
    let week_day = rewrite(week_day, &cron.week_days);
    [minute, hour, &month_day, month, &week_day].join(" ")
}

/// The values of a field as a list.
pub(super) fn list(bits: u64) -> String {
    numbers(bits).iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::JsonMembers as _;

    fn converted(text: &str, zone: &str, dialect: Dialect, now: &str) -> (String, Vec<String>) {
        let converted = convert(text, zone, dialect, now.parse().unwrap()).unwrap();
        let runs = converted.source_runs.iter().map(ToString::to_string).collect();
        (converted.recurrence.text("cron").to_owned(), runs)
    }

    #[test]
    fn each_dialect_has_its_own_rule_for_two_day_fields() {
        let now = "2026-11-16T00:00:00Z";
        let (cron, runs) = converted("0 2 */2 * 1", "UTC", Dialect::Crontab, now);
        assert_eq!(cron, "0 2 */2 * 1");
        assert_eq!(runs[..2], ["2026-11-23T02:00:00Z", "2026-12-07T02:00:00Z"]);
        let (cron, runs) = converted("0 2 */2 * 1", "UTC", Dialect::Kubernetes, now);
        assert_eq!(cron, "0 2 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31 * 1");
        assert_eq!(runs[..2], ["2026-11-16T02:00:00Z", "2026-11-17T02:00:00Z"]);
        let (cron, _) = converted("0 2 ? * 1", "UTC", Dialect::Kubernetes, now);
        assert_eq!(cron, "0 2 * * 1");
    }

    #[test]
    fn each_dialect_has_its_own_rule_for_dst_transitions() {
        let spring =
            |text, dialect| converted(text, "Europe/Berlin", dialect, "2027-03-27T12:00:00Z").1;
        let fall =
            |text, dialect| converted(text, "Europe/Berlin", dialect, "2026-10-24T12:00:00Z").1;
        let fixed = "30 2 * * *";
        assert_eq!(spring(fixed, Dialect::Crontab)[0], "2027-03-28T01:00:00Z");
        assert_eq!(spring(fixed, Dialect::Kubernetes)[0], "2027-03-29T00:30:00Z");
        assert_eq!(
            fall(fixed, Dialect::Crontab)[..2],
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
        );
        assert_eq!(
            fall(fixed, Dialect::Kubernetes)[..2],
            ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]
        );
        let every_hour =
            converted("30 * * * *", "Europe/Berlin", Dialect::Crontab, "2026-10-25T00:00:00Z").1;
        assert_eq!(every_hour[..2], ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]);
        assert_eq!(spring("*/30 2 * * *", Dialect::Crontab)[0], "2027-03-29T00:00:00Z");
    }

    #[test]
    fn schedules_without_an_equivalent_are_refused() {
        let refused = |text, zone, dialect| {
            convert(text, zone, dialect, "2026-11-16T00:00:00Z".parse().unwrap()).unwrap_err()
        };
        assert_eq!(refused("@reboot", "UTC", Dialect::Crontab), "@reboot has no equivalent");
        assert!(refused("0 2 * *", "UTC", Dialect::Crontab).contains("five fields"));
        assert!(refused("0~30 2 * * *", "UTC", Dialect::Crontab).contains("random value"));
        assert!(refused("0 25 * * *", "UTC", Dialect::Crontab).contains("hour"));
        assert!(refused("0 2 * * 7", "UTC", Dialect::Kubernetes).contains("day of week"));
        assert!(refused("0 2 * * *", "Mars/Olympus", Dialect::Kubernetes).contains("time zone"));
    }
}
