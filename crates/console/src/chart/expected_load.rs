//! Expected runs of the coming week, hours by weekdays, so that a crowded hour is seen.

use std::collections::BTreeMap;

use askama::Template;

use super::Label;
use crate::api::Data;
use crate::format::{counted, local};
use crate::view::View;

const LEFT: f64 = 40.0;
const CELL: f64 = 23.0;
const ROW: f64 = 19.0;

/// The chart.
#[derive(Template)]
#[template(path = "chart/expected_load.html")]
pub(crate) struct ExpectedLoad {
    cells: Vec<Cell>,
    rows: Vec<Label>,
    hours: Vec<Label>,
    pub(crate) summary: String,
    pub(crate) is_empty: bool,
}

struct Cell {
    x: f64,
    y: f64,
    opacity: f64,
    title: String,
}

impl ExpectedLoad {
    pub(crate) fn new(data: &Data, view: &View) -> ExpectedLoad {
        // Runs by local date and hour: in a zone with half-hour offsets or on a DST night, buckets
        // share a cell or leave one empty.
        let mut runs: BTreeMap<(String, u32), u64> = BTreeMap::new();
        let mut days: BTreeMap<String, &'static str> = BTreeMap::new();
        for bucket in data.list("buckets") {
            let Some(start) = bucket.time("start") else { continue };
            let at = local(start, &view.zone);
            let hour = at.time.get(..2).and_then(|hour| hour.parse().ok()).unwrap_or(0);
            *runs.entry((at.date.clone(), hour)).or_default() += bucket.integer("count");
            days.insert(at.date, at.weekday);
        }
        let days: Vec<_> = days.into_iter().take(7).collect();
        let most = runs.values().copied().max().unwrap_or(0);
        let mut cells = Vec::new();
        for (row, (date, weekday)) in days.iter().enumerate() {
            for hour in 0..24_u32 {
                let number = runs.get(&(date.clone(), hour)).copied().unwrap_or(0);
                let share = if most == 0 { 0.0 } else { number as f64 / most as f64 };
                cells.push(Cell {
                    x: LEFT + f64::from(hour) * CELL,
                    y: 2.0 + row as f64 * ROW,
                    opacity: 0.07 + share.sqrt() * 0.9,
                    title: format!(
                        "{weekday} {date} {hour:02}:00: {}",
                        counted(number, "run", "runs")
                    ),
                });
            }
        }
        let busiest = runs.iter().max_by_key(|(_, number)| **number).filter(|(_, n)| **n > 0);
        let summary = match busiest {
            Some(((date, hour), number)) => format!(
                "Expected runs of the coming week; the busiest hour is {date} {hour:02}:00 with {}",
                counted(*number, "run", "runs"),
            ),
            None => "No runs are expected in the coming week".to_owned(),
        };
        let rows = days.iter().enumerate().map(|(row, (_, weekday))| Label {
            x: 0.0,
            y: 14.0 + row as f64 * ROW,
            text: (*weekday).to_owned(),
        });
        let hours = (0..24_u32).step_by(3).map(|hour| Label {
            x: LEFT + f64::from(hour) * CELL,
            y: 18.0 + days.len() as f64 * ROW,
            text: format!("{hour:02}"),
        });
        ExpectedLoad {
            rows: rows.collect(),
            hours: hours.collect(),
            cells,
            summary,
            is_empty: busiest.is_none(),
        }
    }
}
