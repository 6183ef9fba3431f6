//! Schedule limits that an operator can configure.

use std::time::Duration;

use crate::Frequency;

/// Schedule limits and the delay of the first run of a job without a `startTime`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum `interval` for each frequency.
    pub interval_max: IntervalMax,
    /// Maximum number of months from the creation of a job to its `startTime`.
    pub start_months_ahead_max: i64,
    /// Time from creation to the first run of a job without a `startTime`.
    pub start_delay: Duration,
}

/// Maximum `interval` for each frequency, in units of the frequency.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory")]
pub struct IntervalMax {
    pub minutes: i64,
    pub hours: i64,
    pub days: i64,
    pub weeks: i64,
    pub months: i64,
    pub years: i64,
}

impl Default for Settings {
    /// The documented limits of Azure Scheduler, and no start delay.
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
    /// Maximum interval for a frequency: the configured limit, capped at what the arithmetic
    /// supports.
    pub fn interval_max(&self, frequency: Frequency) -> i64 {
        let configured = &self.interval_max;
        let configured = match frequency {
            Frequency::Minute => configured.minutes,
            Frequency::Hour => configured.hours,
            Frequency::Day => configured.days,
            Frequency::Week => configured.weeks,
            Frequency::Month => configured.months,
            Frequency::Year => configured.years,
        };
        configured.min(IntervalMax::supported(frequency))
    }
}

impl IntervalMax {
    /// The longest interval that the arithmetic supports: 400 years, or a million minutes or hours.
    pub fn supported(frequency: Frequency) -> i64 {
        match frequency {
            Frequency::Minute | Frequency::Hour => 1_000_000,
            Frequency::Day => 146_097,
            Frequency::Week => 20_871,
            Frequency::Month => 4_800,
            Frequency::Year => 400,
        }
    }
}
