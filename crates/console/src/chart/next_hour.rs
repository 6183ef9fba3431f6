//! Runs of the next hour: one lane per collection, bars by minute, higher for more runs.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use kalends_recurrence::Instant;
use serde_json::Value;

use super::{Label, has_transition, short};
use crate::api::Json as _;
use crate::format::{self, count, counted, hour_minute, local};
use crate::view::View;

/// Distance of two lanes.
const LANE: f64 = 28.0;
/// Height of the highest bar.
const HEIGHT_MAX: f64 = 24.0;
/// A minute with one run, and one with several, is seen beside one with hundreds.
const HEIGHT_MIN: (f64, f64) = (3.0, 6.0);
/// The scale ends at this number of runs, or more: one run is no high bar.
const SCALE_MIN: u64 = 3;
/// Seconds between two lines of the axis.
const TICK: u64 = 600;
const LANES_MAX: usize = 8;
const NAME_CHARS_MAX: usize = 15;
const BUCKET: Duration = Duration::from_secs(60);

/// The chart. Lengths along the axis are minutes in lanes, and per cent outside of them.
#[derive(Template)]
#[template(path = "chart/next_hour.html")]
pub(crate) struct NextHour {
    lanes: Vec<Lane>,
    ticks: Vec<Label>,
    /// A DST transition.
    transition: Option<f64>,
    height: f64,
    pub(crate) summary: String,
    /// How to read the chart.
    pub(crate) caption: String,
    pub(crate) is_empty: bool,
}

struct Lane {
    y: f64,
    name: String,
    full_name: String,
    bars: Vec<Bar>,
}

/// Minutes in a row with the same number of runs.
struct Bar {
    minute: String,
    minutes: u32,
    top: f64,
    /// `one` for a single run, `paused` for runs that do not start; else empty.
    class: &'static str,
    title: String,
}

/// Runs of a collection in each of some minutes.
struct Runs {
    start: Instant,
    minutes: u32,
    /// Seconds from now.
    seconds: i64,
    number: u64,
    /// The pause lasts until then: these runs do not start.
    is_paused: bool,
}

impl Runs {
    fn end(&self) -> Instant {
        self.start.saturating_add(BUCKET * self.minutes)
    }

    /// Whether `next` is drawn as part of the same bar.
    fn continues(&self, next: &Runs) -> bool {
        let is_equal = self.number == next.number && self.is_paused == next.is_paused;
        is_equal && self.end() == next.start
    }

    /// `most` runs of a minute in the chart.
    fn bar(&self, most: u64, view: &View) -> Bar {
        let at = hour_minute(self.start, &view.zone);
        let number = counted(self.number, "run", "runs");
        let paused = if self.is_paused { " (paused)" } else { "" };
        let (one, several) = HEIGHT_MIN;
        let min = if self.number > 1 { several } else { one };
        let height = self.number as f64 / most.max(SCALE_MIN) as f64 * HEIGHT_MAX;
        Bar {
            minute: short(self.seconds as f64 / 60.0),
            minutes: self.minutes,
            top: HEIGHT_MAX - height.max(min).round(),
            class: match (self.is_paused, self.number) {
                (true, _) => "paused",
                (false, 1) => "one",
                (false, _) => "",
            },
            title: match self.minutes {
                1 => format!("{at}: {number}{paused}"),
                _ => {
                    let end = hour_minute(self.end(), &view.zone);
                    format!("{at} to {end}: {number} a minute{paused}")
                }
            },
        }
    }
}

/// Runs by the name of their collection; that of the others is empty.
fn runs_by_collection(data: &Value, view: &View) -> BTreeMap<String, Vec<Runs>> {
    let mut lanes: BTreeMap<String, Vec<Runs>> = BTreeMap::new();
    for bucket in data.list("buckets") {
        let Some(start) = bucket.time("start") else { continue };
        let seconds = (start.unix_seconds() - view.now.unix_seconds()).clamp(0, 3_600);
        let is_paused = view.is_paused_at(start);
        for (name, number) in bucket.members("collections") {
            let number = number.integer("");
            let next = Runs { start, minutes: 1, seconds, number, is_paused };
            let lane = lanes.entry(name.to_owned()).or_default();
            match lane.last_mut() {
                Some(last) if last.continues(&next) => last.minutes += 1,
                _ => lane.push(next),
            }
        }
    }
    lanes
}

/// Keeps the busiest collections.
fn keep_busiest(lanes: &mut BTreeMap<String, Vec<Runs>>) {
    let sum = |runs: &[Runs]| runs.iter().map(|runs| runs.number * u64::from(runs.minutes)).sum();
    let mut busiest: Vec<(u64, String)> =
        lanes.iter().map(|(name, runs)| (sum(runs), name.clone())).collect();
    busiest.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    for (_, name) in busiest.iter().skip(LANES_MAX) {
        lanes.remove(name);
    }
}

impl NextHour {
    pub(crate) fn new(data: &Value, view: &View) -> NextHour {
        let buckets = data.list("buckets");
        let runs = buckets.iter().map(|bucket| bucket.integer("count")).sum();
        let starts = buckets.iter().filter_map(|bucket| bucket.time("start"));
        let ends = starts.map(|start| (start, start.saturating_add(BUCKET)));
        let transition =
            ends.into_iter().find(|(start, end)| has_transition(*start, *end, &view.zone));
        let mut lanes = runs_by_collection(data, view);
        keep_busiest(&mut lanes);
        let most = lanes.values().flatten().map(|runs| runs.number).max().unwrap_or(0);
        let lanes: Vec<Lane> = lanes
            .into_iter()
            .enumerate()
            .map(|(index, (name, runs))| {
                let full_name = if name.is_empty() { "other collections".to_owned() } else { name };
                Lane {
                    y: 4.0 + index as f64 * LANE,
                    name: shortened(&full_name),
                    bars: runs.iter().map(|runs| runs.bar(most, view)).collect(),
                    full_name,
                }
            })
            .collect();
        let height = 26.0 + lanes.len().max(1) as f64 * LANE;
        let first = seconds_to_tick(view);
        let ticks = (0..6).map(|index| {
            let seconds = first + index * TICK;
            let at = view.now.saturating_add(Duration::from_secs(seconds));
            let text = hour_minute(at, &view.zone);
            Label { x: seconds as f64 / 36.0, y: height - 4.0, text }
        });
        NextHour {
            summary: format!(
                "Next hour: {} in {}{}",
                counted(runs, "run", "runs"),
                counted(lanes.len() as u64, "collection", "collections"),
                if view.is_paused() { "; everything is paused" } else { "" },
            ),
            caption: caption(most, view),
            is_empty: lanes.is_empty(),
            ticks: ticks.collect(),
            transition: transition
                .map(|(_, end)| (end.unix_seconds() - view.now.unix_seconds()) as f64 / 36.0),
            lanes,
            height,
        }
    }
}

fn caption(most: u64, view: &View) -> String {
    match (view.is_paused(), view.pause.time("until")) {
        (false, _) if most <= 1 => "by collection and minute".to_owned(),
        (false, _) => format!("by collection; higher is more, up to {} a minute", count(most)),
        (true, None) => "paused: recurring jobs skip these runs unless you resume before; one-time jobs run afterwards".to_owned(),
        (true, Some(until)) => {
            let until = format::date_time(until, &view.zone);
            format!("paused: runs before {until} do not start")
        }
    }
}

/// Seconds to the next wall time with round minutes: schedules prefer those.
fn seconds_to_tick(view: &View) -> u64 {
    let now = local(view.now, &view.zone);
    let mut parts = now.time().split(':').skip(1).filter_map(|part| part.parse::<u64>().ok());
    let passed = parts.next().unwrap_or(0) * 60 + parts.next().unwrap_or(0);
    (TICK - passed % TICK) % TICK
}

fn shortened(name: &str) -> String {
    match name.chars().count() > NAME_CHARS_MAX {
        true => name.chars().take(NAME_CHARS_MAX - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}
