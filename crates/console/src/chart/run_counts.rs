//! Runs of the last 24 hours as stacked bars.

use std::time::Duration;

use askama::Template;
use kalends_recurrence::Instant;
use serde_json::Value;

use super::{Label, has_transition, round_up};
use crate::api::Json as _;
use crate::format::{count, counted, hour_minute};
use crate::view::View;

const TOP: f64 = 12.0;
const BOTTOM: f64 = 112.0;
/// Height of a part that is not zero, so that one failure among thousands of runs is seen.
const HEIGHT_MIN: f64 = 3.0;
const BARS: u32 = 24;
const BUCKET: Duration = Duration::from_secs(3_600);

/// The chart. Positions along the axis are hours in bars, and per cent outside of them.
#[derive(Template)]
#[template(path = "chart/run_counts.html")]
pub(crate) struct RunCounts {
    bars: Vec<Bar>,
    labels: Vec<Label>,
    /// DST transitions.
    transitions: Vec<f64>,
    /// Numbers of the scale.
    scale: Vec<Label>,
    pub(crate) summary: String,
    root: String,
    pub(crate) runs: u64,
    pub(crate) failed: u64,
}

struct Bar {
    index: usize,
    parts: Vec<Part>,
    title: String,
    from: String,
    to: String,
}

struct Part {
    y: f64,
    height: f64,
    class: &'static str,
}

impl RunCounts {
    /// Start of the first bar.
    pub(crate) fn from(now: Instant) -> Instant {
        let hour = now.unix_seconds().div_euclid(3_600) * 3_600;
        let hour =
            now.saturating_sub(Duration::from_secs((now.unix_seconds() - hour).unsigned_abs()));
        hour.whole_second().saturating_sub(BUCKET * (BARS - 1))
    }

    pub(crate) fn new(data: &Value, view: &View) -> RunCounts {
        let start = RunCounts::from(view.now);
        let step = 100.0 / f64::from(BARS);
        let buckets = data.list("buckets");
        let find = |at: Instant| buckets.iter().find(|bucket| bucket.time("start") == Some(at));
        let starts = (0..BARS).map(|index| start.saturating_add(BUCKET * index));
        let counts: Vec<_> = starts
            .map(|at| {
                let number = |name| find(at).map_or(0, |bucket| bucket.integer(name));
                let passed = number("skipped") + number("missed");
                (at, number("succeeded"), number("failed"), passed)
            })
            .collect();
        let runs = counts.iter().map(|(_, ok, failed, _)| ok + failed).sum();
        let failed = counts.iter().map(|(_, _, failed, _)| failed).sum();
        let top = counts.iter().map(|(_, ok, failed, passed)| ok + failed + passed).max();
        let top = round_up(top.unwrap_or(0));
        let bars = counts.iter().enumerate().map(|(index, (at, ok, failed, passed))| {
            let mut y = BOTTOM - TOP;
            let mut parts = Vec::new();
            for (number, class) in [(*ok, "f-ok"), (*failed, "f-fail"), (*passed, "f-warn")] {
                if number > 0 {
                    let height = (number as f64 / top as f64 * (BOTTOM - TOP)).max(HEIGHT_MIN);
                    y -= height;
                    parts.push(Part { y, height, class });
                    y -= 1.0;
                }
            }
            let end = at.saturating_add(BUCKET);
            let title = format!(
                "{} to {}: {} succeeded, {} failed, {} skipped or missed",
                hour_minute(*at, &view.zone),
                hour_minute(end, &view.zone),
                count(*ok),
                count(*failed),
                count(*passed),
            );
            Bar { index, parts, title, from: at.to_string(), to: end.to_string() }
        });
        let labels = counts.iter().enumerate().step_by(3).map(|(index, (at, ..))| Label {
            x: index as f64 * step,
            y: 130.0,
            text: hour_minute(*at, &view.zone),
        });
        let transitions = counts
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(_, (at, ..))| has_transition(at.saturating_sub(BUCKET), *at, &view.zone));
        let transitions = transitions.map(|(index, _)| index as f64 * step);
        let marks: &[u64] = if top.is_multiple_of(2) { &[0, top / 2, top] } else { &[0, top] };
        let scale = marks.iter().map(|number| Label {
            x: -8.0,
            y: BOTTOM - *number as f64 / top as f64 * (BOTTOM - TOP),
            text: count(*number),
        });
        RunCounts {
            scale: scale.collect(),
            bars: bars.collect(),
            labels: labels.collect(),
            transitions: transitions.collect(),
            summary: format!(
                "Last 24 hours: {}, {} failed",
                counted(runs, "run", "runs"),
                count(failed),
            ),
            root: view.root.clone(),
            runs,
            failed,
        }
    }
}
