//! Charts as SVG. A module computes the geometry, its template draws it.

use std::borrow::Borrow;
use std::fmt;

use kalends_recurrence::{Instant, Zone};

use crate::format::local;

mod calendar;
mod expected_load;
mod next_hour;
mod outcomes;
mod run_counts;
mod waterfall;

pub(crate) use calendar::{Calendar, CalendarData, DailyRate};
pub(crate) use expected_load::ExpectedLoad;
pub(crate) use next_hour::NextHour;
pub(crate) use outcomes::{Outcome, Outcomes};
pub(crate) use run_counts::RunCounts;
pub(crate) use waterfall::{Attempt, InFlight, Phase, Waterfall};

/// The screen that a chart with much text is drawn for. Pages have one for each, and the style sheet shows
/// one. Other charts fit any width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScreenWidth {
    Wide,
    Phone,
}

impl ScreenWidth {
    /// Width of a chart that fills a card on a phone, in pixels.
    const PHONE: f64 = 324.0;

    /// Class of the chart.
    pub(crate) fn class(self) -> &'static str {
        match self {
            ScreenWidth::Wide => "on-wide",
            ScreenWidth::Phone => "on-phone",
        }
    }

    /// One of two values.
    fn choose<T>(self, wide: T, phone: T) -> T {
        match self {
            ScreenWidth::Wide => wide,
            ScreenWidth::Phone => phone,
        }
    }
}

/// A chart for each screen.
pub(crate) struct Responsive<T> {
    pub(crate) wide: T,
    phone: T,
}

impl<T> Responsive<T> {
    pub(crate) fn new(chart: impl Fn(ScreenWidth) -> T) -> Responsive<T> {
        Responsive { wide: chart(ScreenWidth::Wide), phone: chart(ScreenWidth::Phone) }
    }
}

impl<T: fmt::Display> fmt::Display for Responsive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.wide, self.phone)
    }
}

/// A text at a position of a chart.
pub(crate) struct Label {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) text: String,
}

/// A number with one or two decimals, as short as possible: a page has hundreds of them.
fn short(value: impl Borrow<f64>) -> String {
    let value = value.borrow();
    let text = if value.abs() < 1.0 { format!("{value:.2}") } else { format!("{value:.1}") };
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text.strip_prefix("0.") {
        Some(decimals) => format!(".{decimals}"),
        None => text.to_owned(),
    }
}

/// Whether the offset of a zone changes between two times.
fn has_transition(from: Instant, to: Instant, zone: &Zone) -> bool {
    local(from, zone).offset() != local(to, zone).offset()
}

/// The smallest round number (1, 2 or 5 times a power of ten) that is at least `value`.
pub(crate) fn round_up(value: u64) -> u64 {
    let mut scale = 1;
    loop {
        for step in [1, 2, 5] {
            if step * scale >= value.min(u64::MAX / 100) {
                return step * scale;
            }
        }
        scale *= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hour_before_a_change_of_the_clock_has_a_transition() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        let hours = |from: &str, to: &str| (from.parse().unwrap(), to.parse().unwrap());
        for ((from, to), expected) in [
            (hours("2027-03-27T23:00:00Z", "2027-03-28T00:00:00Z"), false),
            (hours("2027-03-28T00:00:00Z", "2027-03-28T01:00:00Z"), true),
            (hours("2027-03-28T01:00:00Z", "2027-03-28T02:00:00Z"), false),
            (hours("2027-10-31T00:00:00Z", "2027-10-31T01:00:00Z"), true),
        ] {
            assert_eq!(has_transition(from, to, &berlin), expected, "{from}");
        }
    }

    #[test]
    fn numbers_are_short() {
        for (value, expected) in
            [(0.0, "0"), (0.004, "0"), (0.25, ".25"), (0.5, ".5"), (10.0, "10"), (16.66, "16.7")]
        {
            assert_eq!(short(value), expected);
        }
    }

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, expected) in [(0, 1), (1, 1), (3, 5), (60, 100), (101, 200), (4_999, 5_000)] {
            assert_eq!(round_up(value), expected, "{value}");
        }
        assert!(round_up(u64::MAX) > 0);
    }
}
