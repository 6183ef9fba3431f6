//! Limits of schedules and the delay of the first run.

use std::time::Duration;

use kalends_recurrence::{Frequency, IntervalMax, Settings};

use crate::serve::duration::duration;

/// Limits of schedules, for `kalends serve` and `kalends next`. They apply to definitions that clients
/// send; jobs of the store keep running if a limit is lowered.
#[derive(clap::Args)]
#[command(next_help_heading = "Schedules")]
pub(crate) struct ScheduleSettings {
    /// Delay of the first run of jobs without a start time, such as PT20S
    #[arg(long, env = "KALENDS_START_DELAY", value_name = "DURATION", default_value = "PT0S", value_parser = duration)]
    start_delay: Duration,

    /// Maximum number of months from the creation of a job to its start time
    #[arg(long, env = "KALENDS_START_MONTHS_AHEAD", value_name = "NUMBER", default_value_t = Settings::default().start_months_ahead_max, value_parser = clap::value_parser!(i64).range(1..=1_200))]
    start_months_ahead: i64,

    /// Maximum interval of schedules with frequency minute
    #[arg(long, env = "KALENDS_INTERVAL_MINUTES", value_name = "NUMBER", default_value_t = Settings::default().interval_max.minutes, value_parser = up_to(Frequency::Minute))]
    interval_minutes: i64,

    /// Maximum interval of schedules with frequency hour
    #[arg(long, env = "KALENDS_INTERVAL_HOURS", value_name = "NUMBER", default_value_t = Settings::default().interval_max.hours, value_parser = up_to(Frequency::Hour))]
    interval_hours: i64,

    /// Maximum interval of schedules with frequency day
    #[arg(long, env = "KALENDS_INTERVAL_DAYS", value_name = "NUMBER", default_value_t = Settings::default().interval_max.days, value_parser = up_to(Frequency::Day))]
    interval_days: i64,

    /// Maximum interval of schedules with frequency week
    #[arg(long, env = "KALENDS_INTERVAL_WEEKS", value_name = "NUMBER", default_value_t = Settings::default().interval_max.weeks, value_parser = up_to(Frequency::Week))]
    interval_weeks: i64,

    /// Maximum interval of schedules with frequency month
    #[arg(long, env = "KALENDS_INTERVAL_MONTHS", value_name = "NUMBER", default_value_t = Settings::default().interval_max.months, value_parser = up_to(Frequency::Month))]
    interval_months: i64,

    /// Maximum interval of schedules with frequency year
    #[arg(long, env = "KALENDS_INTERVAL_YEARS", value_name = "NUMBER", default_value_t = Settings::default().interval_max.years, value_parser = up_to(Frequency::Year))]
    interval_years: i64,
}

/// From 1 to the longest interval that the arithmetic supports.
fn up_to(frequency: Frequency) -> clap::builder::RangedI64ValueParser<i64> {
    clap::value_parser!(i64).range(1..=IntervalMax::supported(frequency))
}

impl From<&ScheduleSettings> for Settings {
    fn from(settings: &ScheduleSettings) -> Settings {
        Settings {
            interval_max: IntervalMax {
                minutes: settings.interval_minutes,
                hours: settings.interval_hours,
                days: settings.interval_days,
                weeks: settings.interval_weeks,
                months: settings.interval_months,
                years: settings.interval_years,
            },
            start_months_ahead_max: settings.start_months_ahead,
            start_delay: settings.start_delay,
        }
    }
}
