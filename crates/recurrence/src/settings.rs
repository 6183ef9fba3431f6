//! What an operator may set about schedules.

use std::time::Duration;

use crate::Frequency;

/// Limits on schedules, and the delay of a run "at once".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The longest interval of each frequency, in its unit.
    pub interval_max: IntervalMax,
    /// How many months after its creation a job may start.
    pub start_months_ahead_max: i64,
    /// How long after the creation a job without a `startTime` runs for the first time.
    pub start_delay: Duration,
}

/// The longest interval of each frequency.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct IntervalMax {
    pub minutes: i64,
    pub hours: i64,
    pub days: i64,
    pub weeks: i64,
    pub months: i64,
    pub years: i64,
}

impl Default for Settings {
    /// The documented limits of the service whose API this is; no delay.
    fn default() -> Settings {
        Settings {
            interval_max: IntervalMax {
                minutes: 1_000,
                hours: 1_000,
                days: 548,
                weeks: 78,
                months: 18,
                years: 1,
            },
            start_months_ahead_max: 18,
            start_delay: Duration::ZERO,
        }
    }
}

impl Settings {
    /// The longest interval allowed for a frequency: what is set, within what the arithmetic can
    /// do (400 years, or a million minutes or hours).
    pub fn interval_max(&self, frequency: Frequency) -> i64 {
        let set = &self.interval_max;
        match frequency {
            Frequency::Minute => set.minutes.min(1_000_000),
            Frequency::Hour => set.hours.min(1_000_000),
            Frequency::Day => set.days.min(146_097),
            Frequency::Week => set.weeks.min(20_871),
            Frequency::Month => set.months.min(4_800),
            Frequency::Year => set.years.min(400),
        }
    }
}
