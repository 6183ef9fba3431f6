//! Charts as SVG. A module computes the geometry, its template draws it.

use std::fmt;

mod calendar;
mod expected_load;
mod next_hour;
mod outcomes;
mod run_counts;
mod waterfall;

pub(crate) use calendar::{Calendar, CalendarData, DailyRate};
pub(crate) use expected_load::ExpectedLoad;
pub(crate) use next_hour::NextHour;
pub(crate) use outcomes::Outcomes;
pub(crate) use run_counts::RunCounts;
pub(crate) use waterfall::{Attempt, Phase, Waterfall};

/// The screen that a chart is drawn for. Pages have a chart for each, and the style sheet shows one.
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
    fn axes_end_at_round_numbers() {
        for (value, expected) in [(0, 1), (1, 1), (3, 5), (60, 100), (101, 200), (4_999, 5_000)] {
            assert_eq!(round_up(value), expected, "{value}");
        }
        assert!(round_up(u64::MAX) > 0);
    }
}
