//! Runs of the next hour: one lane per collection, one dot per minute, larger for more runs.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use kalends_recurrence::Instant;
use serde_json::Value;

use super::{Label, ScreenWidth, has_transition};
use crate::api::Json as _;
use crate::format::{self, counted, hour_minute, local};
use crate::view::View;

const LANE: f64 = 26.0;
/// Seconds between two lines of the axis.
const TICK: u64 = 600;
const LANES_MAX: usize = 8;
const BUCKET: Duration = Duration::from_secs(60);

/// The chart.
#[derive(Template)]
#[template(path = "chart/next_hour.html")]
pub(crate) struct NextHour {
    screen: ScreenWidth,
    width: f64,
    left: f64,
    right: f64,
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
    dots: Vec<Dot>,
}

struct Dot {
    x: f64,
    radius: f64,
    title: String,
    /// The pause lasts until then: these runs do not start.
    is_paused: bool,
}

/// Runs of a collection in a minute.
struct Runs {
    start: Instant,
    x: f64,
    number: u64,
}

impl Runs {
    fn dot(&self, collection: &str, view: &View) -> Dot {
        let at = hour_minute(self.start, &view.zone);
        let number = counted(self.number, "run", "runs");
        let is_paused = view.is_paused_at(self.start);
        let paused = if is_paused { " (paused)" } else { "" };
        Dot {
            x: self.x,
            radius: (2.5 + (self.number as f64).sqrt() * 1.2).min(LANE / 2.0 - 1.0),
            title: format!("{collection}, {at}: {number}{paused}"),
            is_paused,
        }
    }
}

impl NextHour {
    pub(crate) fn new(data: &Value, view: &View, screen: ScreenWidth) -> NextHour {
        let width = screen.choose(600.0, ScreenWidth::PHONE);
        let (left, right) = screen.choose((132.0, width - 24.0), (104.0, width - 16.0));
        let name_max = screen.choose(16, 13);
        let mut lanes: BTreeMap<String, Vec<Runs>> = BTreeMap::new();
        let (mut runs, mut transition) = (0, None);
        let scale = (right - left) / 3_600.0;
        for bucket in data.list("buckets") {
            let Some(start) = bucket.time("start") else { continue };
            let seconds = (start.unix_seconds() - view.now.unix_seconds()).clamp(0, 3_600);
            let x = left + seconds as f64 * scale;
            runs += bucket.integer("count");
            if has_transition(start, start.saturating_add(BUCKET), &view.zone) {
                transition = Some(left + (seconds + BUCKET.as_secs() as i64) as f64 * scale);
            }
            for (name, number) in bucket.members("collections") {
                let number = number.integer("");
                lanes.entry(name.to_owned()).or_default().push(Runs { start, x, number });
            }
        }
        // The busiest collections, in the order of their names.
        let mut busiest: Vec<(u64, String)> = lanes
            .iter()
            .map(|(name, runs)| (runs.iter().map(|runs| runs.number).sum(), name.clone()))
            .collect();
        busiest.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let shown: Vec<_> = busiest.into_iter().take(LANES_MAX).map(|(_, name)| name).collect();
        lanes.retain(|name, _| shown.contains(name));
        let lanes: Vec<Lane> = lanes
            .into_iter()
            .enumerate()
            .map(|(index, (name, runs))| {
                let full_name = if name.is_empty() { "other collections".to_owned() } else { name };
                let y = 18.0 + index as f64 * LANE;
                let dots = runs.iter().map(|runs| runs.dot(&full_name, view)).collect();
                Lane { y, name: shortened(&full_name, name_max), dots, full_name }
            })
            .collect();
        let height = 26.0 + lanes.len().max(1) as f64 * LANE;
        let first = seconds_to_tick(view);
        let ticks = (0..6).map(|index| {
            let seconds = first + index * TICK;
            let at = view.now.saturating_add(Duration::from_secs(seconds));
            Label {
                x: left + seconds as f64 * scale,
                y: height - 4.0,
                text: match index % screen.choose(1, 2) {
                    0 => hour_minute(at, &view.zone),
                    _ => String::new(),
                },
            }
        });
        NextHour {
            screen,
            width,
            left,
            right,
            summary: format!(
                "Next hour: {} in {}{}",
                counted(runs, "run", "runs"),
                counted(lanes.len() as u64, "collection", "collections"),
                if view.is_paused() { "; everything is paused" } else { "" },
            ),
            caption: match (view.is_paused(), view.pause.time("until")) {
                (false, _) => "by collection; a larger dot is more runs".to_owned(),
                (true, None) => "paused: these runs do not start until you resume".to_owned(),
                (true, Some(until)) => {
                    let until = format::date_time(until, &view.zone);
                    format!("paused: runs before {until} do not start")
                }
            },
            is_empty: lanes.is_empty(),
            ticks: ticks.collect(),
            transition,
            lanes,
            height,
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

fn shortened(name: &str, max: usize) -> String {
    match name.chars().count() > max {
        true => name.chars().take(max - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}
