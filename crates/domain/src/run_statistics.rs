//! Closed runs: their status, and statistics over the newest ones of a job.

use std::time::Duration;

use kalends_recurrence::Instant;

use crate::ledger::{Disposition, LedgerRecord};
use crate::run::{ActionRole, AttemptStatus, HistoryEntry};

/// The attempts of a closed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Start of the first attempt.
    pub started: Instant,
    /// End of the last attempt.
    pub ended: Instant,
    /// Number of attempts, including those of the error action.
    pub attempts: u32,
}

impl Execution {
    /// Time from the start of the first attempt to the end of the last one, with the waits between.
    pub fn duration(&self) -> Duration {
        self.ended.since(self.started)
    }
}

/// A closed run, or a range of occurrences that closed without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedRun {
    /// The ledger row.
    pub record: LedgerRecord,
    /// Its attempts; `None` without an attempt, and in rows of earlier versions.
    pub execution: Option<Execution>,
}

impl ClosedRun {
    /// Whether a history entry is an attempt of this run. Runs with the same scheduled time, such as
    /// that of an edited job, follow one another.
    pub fn has_attempt(&self, entry: &HistoryEntry) -> bool {
        let Some(Execution { started, ended, .. }) = self.execution else { return false };
        entry.expected == self.record.from
            && entry.status != AttemptStatus::Postponed
            && (started..=ended).contains(&entry.started)
            && entry.ended <= ended
    }

    /// Number of attempts of the job's own action; `None` if the run made none, or if its last
    /// attempts are not known and some may be those of the error action.
    pub fn own_attempts(&self, last: &LastAttempts) -> Option<u32> {
        let all = self.execution?.attempts;
        match &last.error {
            Some(error) => Some(all.saturating_sub(error.attempts)),
            // The error action runs only after the last attempt of the job's own action failed.
            None => {
                let had_no_error_action =
                    last.main.is_some() || self.record.disposition == Disposition::Completed;
                had_no_error_action.then_some(all)
            }
        }
    }
}

/// The part of a closed run that statistics count and a list of jobs shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOutcome {
    /// Its scheduled time; the first one of a range.
    pub scheduled: Instant,
    /// How it closed.
    pub disposition: Disposition,
    /// [`Execution::duration`]; `None` without an attempt, and in rows of earlier versions.
    pub duration: Option<Duration>,
}

impl From<&ClosedRun> for RunOutcome {
    fn from(run: &ClosedRun) -> RunOutcome {
        RunOutcome {
            scheduled: run.record.from,
            disposition: run.record.disposition,
            duration: run.execution.as_ref().map(Execution::duration),
        }
    }
}

/// The last attempt of an action in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastAttempt {
    /// Its outcome.
    pub status: AttemptStatus,
    /// Its message.
    pub message: String,
    /// Number of attempts of the action in the run.
    pub attempts: u32,
}

/// The last attempts of a closed run, by action. Those that are not known are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastAttempts {
    /// Of the job's own action.
    pub main: Option<LastAttempt>,
    /// Of the error action.
    pub error: Option<LastAttempt>,
}

impl LastAttempts {
    /// Adds an entry of the job's history, of any run. Entries come newest first.
    pub fn add(&mut self, run: &ClosedRun, entry: &HistoryEntry) {
        if !run.has_attempt(entry) || self.is_complete() {
            return;
        }
        let last = match entry.role {
            ActionRole::Main => &mut self.main,
            ActionRole::Error => &mut self.error,
        };
        last.get_or_insert_with(|| LastAttempt {
            status: entry.status,
            message: entry.message.clone(),
            attempts: entry.retry + 1,
        });
    }

    /// Whether older entries add nothing: the error action runs after the job's own one.
    pub fn is_complete(&self) -> bool {
        self.main.is_some()
    }
}

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunStatus {
    /// It has not ended: an attempt is in flight, or the run waits for one.
    Running,
    /// An attempt succeeded.
    Succeeded,
    /// All attempts failed.
    Failed,
    /// It did not run by a rule: overlap, disabled, paused, quota, a request, or replaced by
    /// an edit.
    Skipped,
    /// It did not run because the service was not running.
    Missed,
}

impl RunStatus {
    /// The status of a closed run.
    pub fn of(disposition: Disposition) -> RunStatus {
        match disposition {
            Disposition::Completed => RunStatus::Succeeded,
            Disposition::Failed => RunStatus::Failed,
            Disposition::Missed => RunStatus::Missed,
            Disposition::SkippedOverlap
            | Disposition::SkippedDisabled
            | Disposition::SkippedQuota
            | Disposition::SkippedPaused
            | Disposition::SkippedByRequest
            | Disposition::Superseded => RunStatus::Skipped,
        }
    }
}

/// Statistics over the newest runs of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunStatistics {
    /// Number of runs that succeeded or failed.
    pub runs: u64,
    /// Number of runs that succeeded.
    pub succeeded: u64,
    /// Median duration; `None` if no run has a known duration.
    pub p50: Option<Duration>,
    /// The duration that 95 % of the runs do not exceed.
    pub p95: Option<Duration>,
    /// Scheduled time of the oldest run that counts.
    pub since: Option<Instant>,
}

impl RunStatistics {
    /// Maximum number of closed runs that statistics cover.
    pub const RUNS_MAX: usize = 50;

    /// Statistics over closed runs. Occurrences that did not run do not count.
    pub fn of(outcomes: &[RunOutcome]) -> RunStatistics {
        let status = |run: &&RunOutcome| RunStatus::of(run.disposition);
        let ran =
            |run: &&RunOutcome| matches!(status(run), RunStatus::Succeeded | RunStatus::Failed);
        let runs = || outcomes.iter().filter(ran);
        let mut durations: Vec<_> = runs().filter_map(|run| run.duration).collect();
        durations.sort_unstable();
        RunStatistics {
            runs: runs().count() as u64,
            succeeded: runs().filter(|run| status(run) == RunStatus::Succeeded).count() as u64,
            p50: percentile(&durations, 50),
            p95: percentile(&durations, 95),
            since: runs().map(|run| run.scheduled).min(),
        }
    }
}

/// The nearest-rank percentile of sorted values.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Cause;

    fn at(seconds: i64) -> Instant {
        Instant::from_ticks(seconds * 10_000_000).unwrap()
    }

    fn closed(disposition: Disposition, scheduled: i64, seconds: Option<i64>) -> ClosedRun {
        let record = LedgerRecord {
            generation: 1,
            from: at(scheduled),
            to: at(scheduled),
            count: 1,
            cause: Cause::Scheduled,
            disposition,
            closed: at(scheduled + 100),
        };
        let execution = seconds.map(|seconds| Execution {
            started: at(scheduled),
            ended: at(scheduled + seconds),
            attempts: 1,
        });
        ClosedRun { record, execution }
    }

    #[test]
    fn attempts_belong_to_the_run_in_whose_time_they_are() {
        let entry = |started, role, retry| HistoryEntry {
            started: at(started),
            ended: at(started + 1),
            expected: at(10),
            status: AttemptStatus::Failed,
            message: format!("{started}"),
            retry,
            repeat: 1,
            role,
            timing: crate::timing::Timing::default(),
            generation: Some(1),
        };
        use ActionRole::{Error, Main};
        // Two runs with the same scheduled time, newest entries first.
        let history =
            [entry(60, Main, 0), entry(21, Error, 0), entry(13, Main, 1), entry(10, Main, 0)];
        let first = ClosedRun {
            execution: Some(Execution { started: at(10), ended: at(22), attempts: 3 }),
            ..closed(Disposition::Failed, 10, None)
        };
        let second = ClosedRun {
            execution: Some(Execution { started: at(60), ended: at(61), attempts: 1 }),
            ..first.clone()
        };
        let last = |run: &ClosedRun, history: &[HistoryEntry]| {
            let mut last = LastAttempts::default();
            history.iter().for_each(|entry| last.add(run, entry));
            let messages =
                [&last.main, &last.error].map(|last| Some(last.as_ref()?.message.clone()));
            (messages, run.own_attempts(&last))
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(last(&first, &history), ([text("13"), text("21")], Some(2)));
        assert_eq!(last(&second, &history), ([text("60"), None], Some(1)));
        // Without the entry of the last attempt, some attempts may be those of the error action.
        assert_eq!(last(&first, &history[..1]), ([None, None], None));
        assert_eq!(last(&first, &history[..2]), ([None, text("21")], Some(2)));
        let succeeded = closed(Disposition::Completed, 10, Some(1));
        assert_eq!(last(&succeeded, &[]), ([None, None], Some(1)));
    }

    #[test]
    fn occurrences_that_did_not_run_do_not_count() {
        let runs = [
            closed(Disposition::Missed, 10, None),
            closed(Disposition::Superseded, 20, Some(1)),
            closed(Disposition::Completed, 60, Some(2)),
            closed(Disposition::Failed, 30, Some(4)),
            closed(Disposition::Completed, 40, None),
        ];
        let runs = runs.each_ref().map(RunOutcome::from);
        let expected = RunStatistics {
            runs: 3,
            succeeded: 2,
            p50: Some(Duration::from_secs(2)),
            p95: Some(Duration::from_secs(4)),
            since: Some(at(30)),
        };
        assert_eq!(RunStatistics::of(&runs), expected);
        assert_eq!(RunStatistics::of(&[]), RunStatistics::default());
    }

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let durations: Vec<_> = (1..=100).map(Duration::from_secs).collect();
        assert_eq!(percentile(&durations, 50), Some(Duration::from_secs(50)));
        assert_eq!(percentile(&durations, 95), Some(Duration::from_secs(95)));
        assert_eq!(percentile(&durations[..20], 95), Some(Duration::from_secs(19)));
        assert_eq!(percentile(&durations[..1], 95), Some(Duration::from_secs(1)));
        assert_eq!(percentile(&[], 50), None);
    }
}
