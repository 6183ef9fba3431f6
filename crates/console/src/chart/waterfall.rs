//! The attempts of a run on one time axis, with the waits between them. Long waits are shortened, so
//! that attempts of milliseconds stay visible between retries of minutes.

use std::time::Duration;

use askama::Template;
use kalends_recurrence::Instant;

use super::{Label, ScreenWidth};
use crate::format::{duration, fine_duration};
use crate::mark::Mark;
use crate::view::Elapsed;

/// Width of a shortened wait.
const WAIT_MAX: f64 = 104.0;
/// Share of the axis that all waits have at most, if they are shortened.
const WAITS_SHARE_MAX: f64 = 0.5;
const BAR_MIN: f64 = 3.0;
/// Space for the last label of the axis.
const TICK_WIDTH: f64 = 48.0;
/// Width of a character of a label, at most on average.
const CHARACTER_WIDTH: f64 = 7.5;
/// Distance of two labels of the axis.
const TICK_DISTANCE: f64 = 72.0;

/// An attempt.
pub(crate) struct Attempt {
    pub(crate) label: String,
    pub(crate) started: Instant,
    pub(crate) ended: Instant,
    /// Whether it has not started.
    pub(crate) is_coming: bool,
    pub(crate) in_flight: Option<InFlight>,
    /// DNS, connect, TLS, first byte; none were measured, or did not happen.
    pub(crate) phases: Vec<(Phase, Duration)>,
    /// Class of the colour of the outcome.
    pub(crate) class: &'static str,
    /// Outcome in a few words.
    pub(crate) text: String,
}

/// An attempt that has not ended.
pub(crate) struct InFlight {
    pub(crate) elapsed: Elapsed,
    /// When it ends at the latest, if that is known.
    pub(crate) timeout: Option<Instant>,
}

impl Attempt {
    /// The end of its part of the axis.
    fn end(&self) -> Instant {
        let timeout = self.in_flight.as_ref().and_then(|attempt| attempt.timeout);
        timeout.map_or(self.ended, |timeout| timeout.max(self.ended))
    }

    /// The outcome with the time that has passed.
    fn summary(&self) -> String {
        match &self.in_flight {
            Some(attempt) => format!("{}: {} for {}", self.label, self.text, attempt.elapsed.text),
            None => format!("{}: {}", self.label, self.text),
        }
    }
}

/// A phase of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Dns,
    Connect,
    Tls,
    /// From the request to the first byte of the response.
    FirstByte,
    /// The rest.
    Body,
}

impl Phase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Dns => "DNS",
            Phase::Connect => "connect",
            Phase::Tls => "TLS",
            Phase::FirstByte => "first byte",
            Phase::Body => "rest",
        }
    }

    fn opacity(self) -> f64 {
        match self {
            Phase::Dns => 0.35,
            Phase::Connect => 0.55,
            Phase::Tls => 0.8,
            Phase::FirstByte => 1.0,
            Phase::Body => 0.6,
        }
    }
}

/// Positions of the parts of a chart.
struct Geometry {
    width: f64,
    /// The axis is between these.
    left: f64,
    right: f64,
    row: f64,
    /// Top of a bar in its row.
    bar: f64,
    /// The text of an attempt: after its bar, or above it at this position.
    text: Option<f64>,
    /// The wait before an attempt: in a column at this position, or in a line above the attempt.
    wait: Option<f64>,
}

impl Geometry {
    fn of(screen: ScreenWidth) -> Geometry {
        let width = screen.choose(1_200.0, ScreenWidth::PHONE);
        match screen {
            ScreenWidth::Wide => Geometry {
                width,
                left: 232.0,
                right: width - 208.0,
                row: 32.0,
                bar: 9.0,
                text: None,
                wait: Some(100.0),
            },
            ScreenWidth::Phone => Geometry {
                width,
                left: 0.0,
                right: width,
                row: 44.0,
                bar: 20.0,
                text: Some(100.0),
                wait: None,
            },
        }
    }

    /// Height of the line with the wait before an attempt.
    fn wait_line(&self) -> f64 {
        if self.wait.is_some() { 0.0 } else { 18.0 }
    }

    /// Top of a row. The first one has no wait.
    fn top(&self, index: usize) -> f64 {
        index as f64 * (self.row + self.wait_line())
    }

    /// The text of the wait before the attempt of a row.
    fn waited(&self, top: f64, text: String) -> Label {
        match self.wait {
            Some(x) => Label { x, y: top + self.bar + 11.0, text },
            None => Label { x: 0.0, y: top - 2.0, text },
        }
    }
}

/// The chart.
#[derive(Template)]
#[template(path = "chart/waterfall.html")]
pub(crate) struct Waterfall {
    screen: ScreenWidth,
    geometry: Geometry,
    bars: Vec<Bar>,
    ticks: Vec<Label>,
    height: f64,
    /// Whether a wait is shortened.
    pub(crate) is_shortened: bool,
    /// The outcomes that segments have the colour of.
    pub(crate) outcomes: Vec<(Mark, &'static str)>,
    pub(crate) summary: String,
}

struct Bar {
    label: Label,
    y: f64,
    wait: Option<Wait>,
    waited: Option<Label>,
    /// The time that an attempt in flight has until its timeout.
    rest: Option<Wait>,
    elapsed: Option<Elapsed>,
    segments: Vec<Segment>,
    text: Label,
}

struct Wait {
    from: f64,
    to: f64,
    title: String,
}

struct Segment {
    x: f64,
    width: f64,
    class: &'static str,
    opacity: f64,
    title: String,
}

impl Waterfall {
    /// `attempts` in their order. The axis starts at the scheduled time.
    pub(crate) fn new(scheduled: Instant, attempts: &[Attempt], screen: ScreenWidth) -> Waterfall {
        let geometry = Geometry::of(screen);
        let mut waits = Vec::new();
        let mut end = scheduled;
        for attempt in attempts {
            waits.push(attempt.started.since(end));
            end = attempt.end().max(end);
        }
        let lengths: Vec<_> =
            attempts.iter().map(|attempt| attempt.end().since(attempt.started)).collect();
        let scale = Scale::new(&waits, &lengths, geometry.right - geometry.left);
        let tick_y = geometry.top(attempts.len()) - geometry.wait_line() + 20.0;
        let mut x = geometry.left;
        let (mut bars, mut ticks) = (Vec::new(), Vec::<Label>::new());
        for (index, (attempt, wait)) in attempts.iter().zip(&waits).enumerate() {
            let top = geometry.top(index);
            let y = top + geometry.bar;
            // The middle of the bar, or the line above it.
            let text_y = if geometry.text.is_some() { y - 6.0 } else { y + 11.0 };
            let from = x;
            x += scale.wait(*wait);
            let (at, width) = (x, scale.attempt(attempt.ended.since(attempt.started)));
            x += scale.attempt(attempt.end().since(attempt.started));
            let tick_x = at.min(geometry.width - TICK_WIDTH);
            let text = format!("+{}", fine_duration(attempt.started.since(scheduled)));
            let is_new = |tick: &Label| tick_x - tick.x >= TICK_DISTANCE && tick.text != text;
            if ticks.last().is_none_or(is_new) {
                ticks.push(Label { x: tick_x, y: tick_y, text });
            }
            let verb = match (index, attempt.is_coming) {
                (0, _) => "started after",
                (_, true) => "waits",
                (_, false) => "waited",
            };
            let waited = format!("{verb} {}", fine_duration(*wait));
            bars.push(Bar {
                label: Label { x: 0.0, y: text_y, text: attempt.label.clone() },
                y,
                wait: (at - from >= 1.0).then(|| Wait { from, to: at, title: waited.clone() }),
                waited: (index > 0 && !wait.is_zero()).then(|| geometry.waited(top, waited)),
                rest: (x - at > width).then(|| Wait {
                    from: at + width,
                    to: x,
                    title: format!(
                        "timeout after {}",
                        duration(attempt.end().since(attempt.started))
                    ),
                }),
                elapsed: attempt.in_flight.as_ref().map(|attempt| attempt.elapsed.clone()),
                segments: segments(attempt, at, width),
                text: Label {
                    x: geometry.text.unwrap_or(x + 8.0),
                    y: text_y,
                    text: attempt.text.clone(),
                },
            });
        }
        if let Some(last) = attempts.last() {
            ticks.extend(end_tick(last, scheduled, x, tick_y, &ticks, &geometry));
        }
        let ended = attempts.iter().map(|attempt| attempt.ended).max().unwrap_or(scheduled);
        let took = fine_duration(ended.since(scheduled));
        let texts: Vec<_> = attempts.iter().map(Attempt::summary).collect();
        Waterfall {
            screen,
            height: geometry.top(attempts.len()) - geometry.wait_line() + 28.0,
            outcomes: outcomes(attempts),
            is_shortened: waits.iter().any(|wait| scale.shortens(*wait)),
            summary: format!("Attempts of this run within {took}. {}", texts.join(". ")),
            bars,
            ticks,
            geometry,
        }
    }
}

/// The label of the end of the axis, if there is space for it after the others.
fn end_tick(
    last: &Attempt,
    scheduled: Instant,
    x: f64,
    y: f64,
    ticks: &[Label],
    geometry: &Geometry,
) -> Option<Label> {
    let is_timeout = last.end() > last.ended;
    let time = fine_duration(last.end().since(scheduled));
    let text = if is_timeout { format!("+{time} timeout") } else { format!("+{time}") };
    let x = x.min(geometry.width - text.chars().count() as f64 * CHARACTER_WIDTH);
    let is_new = |tick: &Label| x - tick.x >= TICK_DISTANCE && tick.text != text;
    ticks.last().is_none_or(is_new).then_some(Label { x, y, text })
}

/// The outcomes of attempts, each once.
fn outcomes(attempts: &[Attempt]) -> Vec<(Mark, &'static str)> {
    let all = [
        ("f-ok", Mark::Succeeded, "succeeded"),
        ("f-fail", Mark::Failed, "failed"),
        ("f-run", Mark::Running, "running"),
    ];
    let occurs = |class| attempts.iter().any(|attempt| attempt.class == class);
    let found = all.into_iter().filter(|(class, ..)| occurs(*class));
    found.map(|(_, mark, name)| (mark, name)).collect()
}

fn segments(attempt: &Attempt, x: f64, width: f64) -> Vec<Segment> {
    let whole = attempt.ended.since(attempt.started);
    let measured: Duration = attempt.phases.iter().map(|(_, length)| *length).sum();
    let rest = whole.saturating_sub(measured);
    let phases = attempt.phases.iter().copied().chain([(Phase::Body, rest)]);
    let whole = whole.max(measured).as_secs_f64().max(f64::MIN_POSITIVE);
    if attempt.phases.is_empty() {
        let title = attempt.summary();
        return vec![Segment { x, width, class: attempt.class, opacity: 1.0, title }];
    }
    let mut at = x;
    phases
        .filter(|(_, length)| !length.is_zero())
        .map(|(phase, length)| {
            let width = width * length.as_secs_f64() / whole;
            let segment = Segment {
                x: at,
                width,
                class: match phase {
                    Phase::Dns | Phase::Connect | Phase::Tls => "f-accent",
                    Phase::FirstByte | Phase::Body => attempt.class,
                },
                opacity: phase.opacity(),
                title: format!("{}: {} {}", attempt.label, phase.name(), fine_duration(length)),
            };
            at += width;
            segment
        })
        .collect()
}

/// Widths of attempts and waits. All attempts have one scale; waits have the same up to a limit.
struct Scale {
    per_second: f64,
    wait_max: f64,
}

impl Scale {
    /// `width` of the axis.
    fn new(waits: &[Duration], attempts: &[Duration], width: f64) -> Scale {
        let wait_max = WAIT_MAX.min(width * WAITS_SHARE_MAX / waits.len().max(1) as f64);
        let sum = |lengths: &[Duration]| lengths.iter().map(Duration::as_secs_f64).sum::<f64>();
        let running = sum(attempts);
        let mut waits: Vec<_> = waits.iter().map(Duration::as_secs_f64).collect();
        waits.sort_by(f64::total_cmp);
        // Shorten the longest waits, one after the other, until the others fit at the scale.
        let mut shortened = 0.0;
        loop {
            let rest = width - shortened * wait_max;
            let per_second = rest / (running + waits.iter().sum::<f64>()).max(f64::MIN_POSITIVE);
            match waits.last() {
                Some(longest) if longest * per_second > wait_max => {
                    waits.pop();
                    shortened += 1.0;
                }
                _ => return Scale { per_second, wait_max },
            }
        }
    }

    fn attempt(&self, length: Duration) -> f64 {
        (length.as_secs_f64() * self.per_second).max(BAR_MIN)
    }

    fn wait(&self, length: Duration) -> f64 {
        (length.as_secs_f64() * self.per_second).min(self.wait_max)
    }

    fn shortens(&self, length: Duration) -> bool {
        length.as_secs_f64() * self.per_second > self.wait_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(start: u64, length: u64) -> Attempt {
        let at = |milliseconds| {
            START.parse::<Instant>().unwrap().saturating_add(Duration::from_millis(milliseconds))
        };
        Attempt {
            label: "Attempt".to_owned(),
            started: at(start),
            ended: at(start + length),
            is_coming: false,
            in_flight: None,
            phases: vec![],
            class: "f-ok",
            text: String::new(),
        }
    }

    const START: &str = "2026-11-16T01:30:00Z";

    fn chart(attempts: &[Attempt]) -> Waterfall {
        Waterfall::new(START.parse().unwrap(), attempts, ScreenWidth::Wide)
    }

    fn widths(chart: &Waterfall) -> Vec<f64> {
        chart.bars.iter().map(|bar| bar.segments[0].width.round()).collect()
    }

    #[test]
    fn one_attempt_fills_the_axis() {
        let chart = chart(&[attempt(0, 400)]);
        assert_eq!(widths(&chart), [chart.geometry.right - chart.geometry.left]);
        assert!(!chart.is_shortened);
    }

    fn ticks(chart: &Waterfall) -> Vec<&str> {
        chart.ticks.iter().map(|tick| tick.text.as_str()).collect()
    }

    #[test]
    fn the_axis_has_a_label_at_both_ends() {
        assert_eq!(ticks(&chart(&[attempt(0, 400)])), ["+0 ms", "+400 ms"]);
    }

    #[test]
    fn the_axis_of_an_attempt_in_flight_ends_at_its_timeout() {
        let running = |timeout: Option<&str>| {
            let elapsed = Elapsed { since: START.to_owned(), text: "15 s".to_owned() };
            let timeout = timeout.map(|at| at.parse().unwrap());
            let in_flight = Some(InFlight { elapsed, timeout });
            let text = "running".to_owned();
            Attempt { in_flight, text, class: "f-run", ..attempt(0, 15_000) }
        };
        let known = chart(&[running(Some("2026-11-16T01:31:00Z"))]);
        assert_eq!(ticks(&known), ["+0 ms", "+1 min timeout"]);
        let width = known.geometry.right - known.geometry.left;
        assert_eq!(widths(&known), [width / 4.0]);
        let rest = known.bars[0].rest.as_ref().unwrap();
        assert_eq!((rest.to, rest.title.as_str()), (known.geometry.right, "timeout after 1 min"));
        assert!(known.summary.ends_with("Attempt: running for 15 s"), "{}", known.summary);
        let unknown = chart(&[running(None)]);
        assert_eq!(widths(&unknown), [width]);
        assert!(unknown.bars[0].rest.is_none());
        let late = chart(&[running(Some("2026-11-16T01:30:05Z"))]);
        assert_eq!(widths(&late), [width]);
    }

    #[test]
    fn long_waits_are_shortened_and_attempts_keep_one_scale() {
        let chart = chart(&[attempt(0, 100), attempt(30_100, 200), attempt(60_300, 100)]);
        let widths = widths(&chart);
        assert!((widths[1] - 2.0 * widths[0]).abs() <= 1.0 && widths[0] == widths[2], "{widths:?}");
        assert!(chart.is_shortened && widths[0] > 100.0, "{widths:?}");
        let last = chart.bars[2].segments[0].x + widths[2];
        assert!((last - chart.geometry.right).abs() < 2.0, "{last}");
        let wait = chart.bars[1].wait.as_ref().unwrap();
        assert_eq!((wait.to - wait.from).round(), WAIT_MAX);
        assert_eq!(chart.bars[1].waited.as_ref().unwrap().text, "waited 30 s");
    }

    #[test]
    fn waits_are_readable_beside_any_number_of_attempts() {
        let attempts: Vec<_> = (0..10).map(|index| attempt(index * 15_005, 5)).collect();
        for screen in [ScreenWidth::Wide, ScreenWidth::Phone] {
            let chart = Waterfall::new(START.parse().unwrap(), &attempts, screen);
            let mut below = 0.0;
            for bar in &chart.bars[1..] {
                let waited = bar.waited.as_ref().unwrap();
                assert_eq!(waited.text, "waited 15 s");
                // Texts have 13 pixels, and on a wide screen a column of their own.
                assert!(waited.y - 13.0 >= below - 1.0 && waited.y <= chart.height, "{}", waited.y);
                match screen {
                    ScreenWidth::Wide => assert!(waited.x + 120.0 <= chart.geometry.left),
                    ScreenWidth::Phone => assert!(waited.y <= bar.label.y - 13.0),
                }
                below = bar.y + 14.0;
            }
        }
    }

    #[test]
    fn short_waits_have_the_scale_of_the_attempts() {
        let chart = chart(&[attempt(0, 1_000), attempt(1_050, 1_000)]);
        let wait = chart.bars[1].wait.as_ref().unwrap();
        let expected = widths(&chart)[0] / 20.0;
        assert!((wait.to - wait.from - expected).abs() < 1.0);
        assert!(!chart.is_shortened);
    }

    #[test]
    fn phases_divide_the_bar_and_a_moment_is_visible() {
        let mut first = attempt(0, 100);
        first.phases = vec![
            (Phase::Connect, Duration::from_millis(25)),
            (Phase::FirstByte, Duration::from_millis(50)),
        ];
        let chart = chart(&[first, attempt(100, 0)]);
        let parts: Vec<_> = chart.bars[0].segments.iter().map(|part| part.width).collect();
        assert_eq!(parts.len(), 3);
        assert!((parts[1] - 2.0 * parts[0]).abs() < 0.01 && (parts[2] - parts[0]).abs() < 0.01);
        assert_eq!(widths(&chart)[1], BAR_MIN);
    }

    #[test]
    fn no_attempt_and_an_attempt_before_its_time_are_drawn() {
        assert_eq!(chart(&[]).bars.len(), 0);
        let early = Attempt { started: "2026-11-16T01:29:59Z".parse().unwrap(), ..attempt(0, 5) };
        assert_eq!(chart(&[early]).bars.len(), 1);
    }
}
