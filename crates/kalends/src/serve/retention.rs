//! Settings of retention.

use std::time::Duration;

use kalends_store::Retention;

use crate::serve::duration::duration_in;

const HOUR: Duration = Duration::from_secs(3_600);
/// Ten years of 365 days; the upper limit of retention by age.
const AGE_MAX: Duration = HOUR.saturating_mul(24 * 365 * 10);

/// Retention of history and of finished jobs.
#[derive(clap::Args)]
#[command(next_help_heading = "Retention")]
pub(super) struct RetentionSettings {
    /// Age at which history entries, occurrences, notes and replaced definitions are removed, between
    /// PT1H and P3650D. All nodes of a store must have the same retention
    #[arg(long, env = "KALENDS_HISTORY_RETENTION", value_name = "DURATION", default_value = "P60D", value_parser = age)]
    history_retention: Duration,

    /// Maximum number of history entries of one job; older ones are removed
    #[arg(long, env = "KALENDS_HISTORY_ENTRIES_PER_JOB", value_name = "NUMBER", default_value_t = Retention::default().history_count, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    history_entries_per_job: u64,

    /// Time after which completed and faulted jobs are removed, between PT1H and P3650D
    #[arg(long, env = "KALENDS_FINISHED_JOB_RETENTION", value_name = "DURATION", default_value = "P60D", value_parser = age)]
    finished_job_retention: Duration,
}

fn age(text: &str) -> anyhow::Result<Duration> {
    duration_in(text, HOUR..=AGE_MAX)
}

impl From<&RetentionSettings> for Retention {
    fn from(settings: &RetentionSettings) -> Retention {
        Retention {
            history_age: settings.history_retention,
            history_count: settings.history_entries_per_job,
            finished_jobs: settings.finished_job_retention,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_store() {
        let command = RetentionSettings::augment_args(Command::new("serve"));
        let matches = command.try_get_matches_from(["serve"]).unwrap();
        let settings = RetentionSettings::from_arg_matches(&matches).unwrap();
        assert_eq!(Retention::from(&settings), Retention::default());
    }
}
