//! Input times: the same for all contenders and in every run.

use crate::recurrence::schedule::Place;

/// Number of inputs for each distance.
pub(crate) const INSTANTS: usize = 1_024;

const DAY: i64 = 24 * 60 * 60;
const YEAR: i64 = 365 * DAY;

/// Distance from the start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distance {
    /// Within a year.
    Near,
    /// 20 to 30 years later.
    Far,
}

impl Distance {
    pub(crate) const ALL: [Distance; 2] = [Distance::Near, Distance::Far];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Distance::Near => "near",
            Distance::Far => "far",
        }
    }

    /// Unix times in seconds.
    pub(crate) fn instants(self, place: Place) -> Vec<i64> {
        let (from, to) = match self {
            Distance::Near => (0, YEAR),
            Distance::Far => (20 * YEAR, 30 * YEAR),
        };
        let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut scattered = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let span = (to - from).unsigned_abs();
        let offsets = (0..INSTANTS).map(|_| (scattered() % span) as i64);
        offsets.map(|offset| place.anchor() + from + offset).collect()
    }
}
