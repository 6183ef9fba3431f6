//! Expected runs of the coming week, hours by weekdays, so that a crowded hour is seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use askama::Template;
use serde_json::Value;

use super::{Label, has_transition};
use crate::api::Json as _;
use crate::format::{count, counted, local};
use crate::view::View;

const BUCKET: Duration = Duration::from_secs(3_600);
/// Height of a weekday.
const ROW: f64 = 28.0;

/// The chart.
#[derive(Template)]
#[template(path = "chart/expected_load.html")]
pub(crate) struct ExpectedLoad {
    height: f64,
    cells_height: f64,
    cells: Vec<Cell>,
    rows: Vec<Label>,
    hours: Vec<Label>,
    pub(crate) summary: String,
    /// Fewest and most runs of an hour.
    pub(crate) range: String,
    pub(crate) is_empty: bool,
}

struct Cell {
    hour: u32,
    row: usize,
    opacity: f64,
    title: String,
    /// A DST transition of the zone that the chart is in.
    is_transition: bool,
    /// The present hour, of which a part has passed.
    is_present: bool,
}

impl ExpectedLoad {
    pub(crate) fn new(data: &Value, view: &View) -> ExpectedLoad {
        // Runs by weekday and hour. In a zone with half-hour offsets or on a DST night, buckets share a
        // cell or leave one empty. The week ends in the hour in which it begins: that has one cell.
        let mut days: Vec<&'static str> = Vec::new();
        let mut runs: BTreeMap<(usize, u32), (String, u64)> = BTreeMap::new();
        let mut transitions = BTreeSet::new();
        let mut present = None;
        for bucket in data.list("buckets") {
            let Some(start) = bucket.time("start") else { continue };
            let at = local(start, &view.zone);
            let hour = at.time().get(..2).and_then(|hour| hour.parse().ok()).unwrap_or(0);
            let row = days.iter().position(|day| *day == at.weekday).unwrap_or_else(|| {
                days.push(at.weekday);
                days.len() - 1
            });
            present = present.or(Some((row, hour)));
            if has_transition(start, start.saturating_add(BUCKET), &view.zone) {
                transitions.insert((row, hour));
            }
            let (date, number) =
                runs.entry((row, hour)).or_insert_with(|| (at.date().to_owned(), 0));
            if *date == at.date() {
                *number += bucket.integer("count");
            }
        }
        let most = runs.values().map(|(_, number)| *number).max().unwrap_or(0);
        // Not that of the present hour, of which a part has passed.
        let whole = runs.iter().filter(|(cell, _)| Some(**cell) != present);
        let least = whole.map(|(_, (_, number))| *number).min().unwrap_or(0);
        let cells = runs.iter().map(|((row, hour), (_, number))| {
            let is_present = present == Some((*row, *hour));
            let is_transition = transitions.contains(&(*row, *hour));
            Cell {
                hour: *hour,
                row: *row,
                opacity: opacity(*number, least, most),
                is_transition,
                is_present,
                title: format!(
                    "{} {hour:02}:00: {}{}{}",
                    days.get(*row).copied().unwrap_or_default(),
                    counted(*number, "run", "runs"),
                    if is_present { " in the rest of this hour" } else { "" },
                    if is_transition { "; DST transition" } else { "" },
                ),
            }
        });
        let cells = cells.collect();
        let busiest = runs.iter().max_by_key(|(_, (_, number))| *number).filter(|_| most > 0);
        let summary = match busiest {
            Some(((_, hour), (date, number))) => format!(
                "Expected runs of the coming week; the busiest hour is {date} {hour:02}:00 with {}",
                counted(*number, "run", "runs"),
            ),
            None => "No runs are expected in the coming week".to_owned(),
        };
        let range = match least == most {
            true => count(most),
            false => format!("{} to {}", count(least), count(most)),
        };
        let rows = days.iter().enumerate().map(|(row, weekday)| Label {
            x: 0.0,
            y: ROW / 2.0 + 4.0 + row as f64 * ROW,
            text: (*weekday).to_owned(),
        });
        let hours = (0..24_u32).step_by(3).map(|hour| Label {
            x: f64::from(hour) / 24.0 * 100.0,
            y: 14.0 + days.len() as f64 * ROW,
            text: format!("{hour:02}"),
        });
        ExpectedLoad {
            height: 20.0 + days.len() as f64 * ROW,
            cells_height: days.len() as f64 * ROW,
            rows: rows.collect(),
            hours: hours.collect(),
            cells,
            summary,
            range,
            is_empty: busiest.is_none(),
        }
    }
}

/// Opacity of a cell. The scale begins at the fewest runs of an hour, so that a crowded hour is seen also
/// where all others have many, but at half of the most at the latest: small differences look small.
fn opacity(number: u64, least: u64, most: u64) -> f64 {
    let start = least.min(most / 2);
    let share = number.saturating_sub(start) as f64 / (most - start).max(1) as f64;
    if number == 0 { 0.07 } else { 0.15 + 0.85 * share }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowded_hour_is_seen_and_small_differences_look_small() {
        assert!(opacity(200, 100, 200) - opacity(100, 100, 200) > 0.8);
        assert!(opacity(150, 140, 150) - opacity(140, 140, 150) < 0.2);
        assert!(opacity(0, 0, 10) < opacity(1, 0, 10));
        assert!(opacity(3, 5, 10) > 0.1, "the rest of the present hour");
    }
}
