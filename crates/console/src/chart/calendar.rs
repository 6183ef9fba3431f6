//! A year of days: past ones by the outcome of their runs, coming ones by the expected number.

use std::collections::BTreeMap;

use askama::Template;
use jiff::ToSpan as _;
use jiff::civil::Date;
use kalends_recurrence::Instant;
use serde_json::Value;

use super::{Label, has_transition};
use crate::address::encode;
use crate::api::Json as _;
use crate::format::{count, local};
use crate::view::View;

const WEEKS: i64 = 52;
const LEFT: f64 = 36.0;
const TOP: f64 = 16.0;
const COLUMN: f64 = 22.4;
const ROW: f64 = 16.0;

/// The chart.
#[derive(Template)]
#[template(path = "chart/calendar.html")]
pub(crate) struct Calendar {
    days: Vec<Day>,
    months: Vec<Label>,
    weekdays: Vec<Label>,
    pub(crate) summary: String,
}

/// Content of the calendar.
pub(crate) struct CalendarData<'a> {
    /// Occurrences.
    pub(crate) rows: &'a [Value],
    /// The time span in which `rows` are complete.
    pub(crate) known: (Instant, Instant),
    /// A Monday.
    pub(crate) first: Date,
    pub(crate) today: Date,
    /// Instead of coming occurrences.
    pub(crate) rate: Option<DailyRate>,
}

/// The same number of runs each day.
pub(crate) struct DailyRate {
    pub(crate) runs: u64,
    pub(crate) until: Instant,
}

/// A cell.
struct Day {
    x: f64,
    y: f64,
    /// Class of the colour.
    class: &'static str,
    opacity: f64,
    /// A shape in the cell, for those who do not see the colour: `fail` or `warn`.
    shape: &'static str,
    is_today: bool,
    /// A DST transition of the zone of the job.
    is_transition: bool,
    title: String,
    /// The ledger of the day.
    href: String,
}

/// Occurrences of a day.
#[derive(Default)]
struct Runs {
    succeeded: u64,
    failed: u64,
    in_flight: u64,
    /// Skipped, missed or superseded.
    skipped: u64,
    coming: u64,
    /// Would run if the job were enabled.
    held: u64,
}

impl Calendar {
    /// The local date of a time.
    pub(crate) fn date_of(at: Instant, view: &View) -> Date {
        local(at, &view.zone).date().parse().unwrap_or(Date::ZERO)
    }

    /// The Monday of the week that is `weeks` after that of a date.
    pub(crate) fn first_day(date: Date, weeks: i64) -> Date {
        let back = i64::from(date.weekday().to_monday_zero_offset());
        let moved = date.checked_add((weeks * 7 - back).days());
        moved.unwrap_or(date)
    }

    /// The time span of a calendar that starts with a Monday.
    pub(crate) fn span(first: Date, view: &View) -> (Instant, Instant) {
        let end = first.saturating_add((WEEKS * 7).days());
        (start_of(first, view), start_of(end, view))
    }

    pub(crate) fn new(data: &CalendarData<'_>, view: &View) -> Calendar {
        let runs = runs_by_day(data, view);
        let most = runs.values().map(|runs| runs.coming).max().unwrap_or(0);
        let most = most.max(data.rate.as_ref().map_or(0, |rate| rate.runs)).max(1);
        let mut days = Vec::new();
        let mut months: Vec<Label> = Vec::new();
        for index in 0..WEEKS * 7 {
            let date = data.first.saturating_add(index.days());
            let (week, weekday) = (index / 7, index % 7);
            let x = LEFT + week as f64 * COLUMN;
            if weekday == 0 && (week == 0 || date.day() <= 7) && week < WEEKS - 1 {
                let far = months.last().is_none_or(|label| x - label.x > 2.0 * COLUMN);
                if far {
                    months.push(Label { x, y: 10.0, text: date.strftime("%b").to_string() });
                }
            }
            let y = TOP + weekday as f64 * ROW;
            days.push(Day::new((x, y), date, runs.get(&date), most, data, view));
        }
        let weekdays = [(0, "Mon"), (2, "Wed"), (4, "Fri"), (6, "Sun")];
        let weekdays = weekdays.map(|(row, text)| Label {
            x: 0.0,
            y: TOP + 11.0 + f64::from(row) * ROW,
            text: text.to_owned(),
        });
        let sum = |part: fn(&Runs) -> u64| count(runs.values().map(part).sum());
        Calendar {
            summary: format!(
                "52 weeks from {}: {} succeeded, {} failed, {} skipped or missed, {} coming",
                data.first,
                sum(|runs| runs.succeeded),
                sum(|runs| runs.failed),
                sum(|runs| runs.skipped),
                match &data.rate {
                    Some(rate) => format!("{} each day", count(rate.runs)),
                    None => sum(|runs| runs.coming),
                },
            ),
            days,
            months,
            weekdays: weekdays.into(),
        }
    }
}

fn start_of(date: Date, view: &View) -> Instant {
    Instant::parse_in(&format!("{date}T00:00:00"), &view.zone).unwrap_or(view.now)
}

fn runs_by_day(data: &CalendarData<'_>, view: &View) -> BTreeMap<Date, Runs> {
    let mut days: BTreeMap<Date, Runs> = BTreeMap::new();
    let last_shown = data.first.saturating_add((WEEKS * 7).days());
    for row in data.rows {
        let Some(from) = row.time("scheduledTime") else { continue };
        let first = Calendar::date_of(from, view);
        let last = row.time("lastScheduledTime").map_or(first, |to| Calendar::date_of(to, view));
        let number = row.integer("count").max(1);
        let disposition = row.text("disposition");
        // A range of occurrences: their times are not listed, so each day shows an equal share.
        let span = u64::try_from(last.duration_since(first).as_hours() / 24).unwrap_or(0) + 1;
        let mut date = first.max(data.first);
        while date <= last.min(last_shown) {
            let runs = days.entry(date).or_default();
            let share = number.div_ceil(span);
            match disposition.as_str() {
                "Completed" => runs.succeeded += share,
                "Failed" => runs.failed += share,
                "Running" | "Retrying" | "Waiting" => runs.in_flight += share,
                "Scheduled" => runs.coming += share,
                "JobDisabled" | "CollectionDisabled" | "Paused" => runs.held += share,
                "NotKept" => {}
                _ => runs.skipped += share,
            }
            let Ok(next) = date.tomorrow() else { break };
            date = next;
        }
    }
    days
}

impl Day {
    fn new(
        (x, y): (f64, f64),
        date: Date,
        runs: Option<&Runs>,
        most: u64,
        data: &CalendarData<'_>,
        view: &View,
    ) -> Day {
        let none = Runs::default();
        let runs = runs.unwrap_or(&none);
        let (start, end) = (start_of(date, view), start_of(date.saturating_add(1.days()), view));
        let rate = data.rate.as_ref().filter(|rate| start > view.now && start < rate.until);
        let coming = rate.map_or(runs.coming, |rate| rate.runs);
        let share = (coming as f64 / most as f64).sqrt();
        let is_known = end > data.known.0 && start <= data.known.1;
        let (class, opacity, shape) = match runs {
            Runs { failed: 1.., .. } => ("f-fail", 1.0, "fail"),
            Runs { in_flight: 1.., .. } => ("f-run", 1.0, ""),
            Runs { succeeded: 1.., .. } => ("f-ok", 0.85, ""),
            Runs { skipped: 1.., .. } => ("f-warn", 0.85, "warn"),
            _ if coming > 0 => ("f-accent", 0.12 + 0.33 * share, ""),
            Runs { held: 1.., .. } => ("f-held", 1.0, ""),
            _ if is_known => ("f-off", 1.0, ""),
            _ => ("f-unknown", 1.0, ""),
        };
        let expected = match rate {
            Some(rate) => format!("about {} coming", count(rate.runs)),
            None => format!("{} coming", count(coming)),
        };
        let parts = [
            (runs.succeeded, format!("{} succeeded", count(runs.succeeded))),
            (runs.failed, format!("{} failed", count(runs.failed))),
            (runs.in_flight, format!("{} in flight", count(runs.in_flight))),
            (runs.skipped, format!("{} skipped or missed", count(runs.skipped))),
            (coming, expected),
            (runs.held, "would run if enabled".to_owned()),
        ];
        let parts: Vec<_> =
            parts.into_iter().filter(|(number, _)| *number > 0).map(|(_, text)| text).collect();
        let is_transition =
            view.job_zone.as_ref().is_some_and(|zone| has_transition(start, end, zone));
        let text = match (parts.is_empty(), is_known) {
            (false, _) => parts.join(", "),
            (true, true) => "none".to_owned(),
            (true, false) => "not shown".to_owned(),
        };
        let transition = if is_transition { "; DST transition" } else { "" };
        let has_rows = runs.succeeded + runs.failed + runs.in_flight + runs.skipped > 0;
        let to = end.previous_tick().min(view.now);
        Day {
            x,
            y,
            class,
            opacity,
            shape,
            is_today: date == data.today,
            is_transition,
            title: format!("{} {date}: {text}{transition}", date.strftime("%a")),
            href: match has_rows {
                true => format!("?tab=ledger&to={}", encode(&to.to_string())),
                false => String::new(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendars_start_on_a_monday() {
        let date: Date = "2026-11-18".parse().unwrap();
        assert_eq!(Calendar::first_day(date, 0).to_string(), "2026-11-16");
        assert_eq!(Calendar::first_day(date, -2).to_string(), "2026-11-02");
        let monday: Date = "2026-11-16".parse().unwrap();
        assert_eq!(Calendar::first_day(monday, 0), monday);
    }
}
