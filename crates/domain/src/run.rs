//! Runs: attempts, the step that follows from an outcome, job status and history entries.

use std::time::Duration;

use kalends_recurrence::Instant;

use crate::retry::Retries;
use crate::timing::Timing;

/// Maximum number of redeliveries of one attempt whose outcome is unknown because the process died. After
/// that the attempt counts as failed.
pub const REDELIVERIES_MAX: u32 = 3;

/// The action of a job that an attempt executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActionRole {
    /// The action of the job.
    Main,
    /// The error action, which runs after all attempts of the main action failed.
    Error,
}

/// An attempt that ended, or was interrupted when the process died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The executed action.
    pub role: ActionRole,
    /// 0 for the first attempt, n for the n-th retry.
    pub retry: u32,
    /// Number of times that this attempt was redelivered after the process died.
    pub redelivery: u32,
    /// Start time of the first attempt of this action in the same run.
    pub first_started: Instant,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The target accepted the request or message.
    Succeeded,
    /// The target rejected it or could not be reached.
    Failed {
        /// The `Retry-After` value of the response.
        retry_after: Option<Duration>,
    },
    /// The process died during the attempt. The target may or may not have accepted the request.
    Indeterminate,
}

/// The step that follows from the outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// The run is completed.
    Completed,
    /// The same attempt starts again immediately, without using a retry.
    Redeliver,
    /// The next attempt is scheduled.
    Retry {
        /// Start time of the next attempt.
        at: Instant,
    },
    /// All attempts failed; the error action starts immediately.
    RunErrorAction,
    /// All attempts failed, and the run is faulted.
    Faulted,
}

/// The step after all attempts of the main action failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFault {
    /// The error action of the job runs.
    RunErrorAction,
    /// The job has no error action.
    Nothing,
}

/// Decides the next step after an attempt ended at `ended`. `retries` is the retry policy of its action.
pub fn conclude(
    attempt: Attempt,
    outcome: Outcome,
    retries: Retries,
    on_fault: OnFault,
    ended: Instant,
) -> Conclusion {
    let retry_after = match outcome {
        Outcome::Succeeded => {
            // The run stays faulted even if its error action succeeds.
            return match attempt.role {
                ActionRole::Main => Conclusion::Completed,
                ActionRole::Error => Conclusion::Faulted,
            };
        }
        Outcome::Indeterminate if attempt.redelivery < REDELIVERIES_MAX => {
            return Conclusion::Redeliver;
        }
        Outcome::Indeterminate => None,
        Outcome::Failed { retry_after } => retry_after,
    };
    match retries.next(attempt.retry, attempt.first_started, ended, retry_after) {
        Some(at) => Conclusion::Retry { at },
        None => match (attempt.role, on_fault) {
            (ActionRole::Main, OnFault::RunErrorAction) => Conclusion::RunErrorAction,
            _ => Conclusion::Faulted,
        },
    }
}

/// Lifecycle of a job. A completed or faulted job can only be deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifecycle {
    /// The job has upcoming occurrences or is disabled.
    #[default]
    Active,
    /// The schedule has ended, and the last run succeeded.
    Completed,
    /// The schedule has ended, and all attempts of the last run failed.
    Faulted,
}

/// The lifecycle of a job after its last run.
pub fn final_state(last: Conclusion) -> Lifecycle {
    match last {
        Conclusion::Faulted | Conclusion::RunErrorAction => Lifecycle::Faulted,
        _ => Lifecycle::Completed,
    }
}

/// The status of a job that the API returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobStatus {
    /// Start time of the last attempt of the main action.
    pub last_execution: Option<Instant>,
    /// Scheduled time of the next occurrence that runs.
    pub next_execution: Option<Instant>,
    /// Occurrences up to this time are skipped by request; absent if none to come is.
    pub skip_until: Option<Instant>,
    /// Number of attempts of the main action.
    pub executions: u64,
    /// Number of failed attempts of the main action.
    pub failures: u64,
    /// Number of occurrences of which all attempts failed.
    pub faulted: u64,
}

/// An entry of the job history: one attempt, or an occurrence that did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Start time of the attempt.
    pub started: Instant,
    /// End time of the attempt.
    pub ended: Instant,
    /// Scheduled time of the occurrence.
    pub expected: Instant,
    /// Outcome of the attempt.
    pub status: AttemptStatus,
    /// The response of the target, or the reason why there is none.
    pub message: String,
    /// 0 for the first attempt, n for the n-th retry.
    pub retry: u32,
    /// Number of the occurrence, from 1.
    pub repeat: u64,
    /// The executed action.
    pub role: ActionRole,
    /// Duration of the phases of the attempt, as far as they were measured.
    pub timing: Timing,
    /// Generation of the job's definition that the attempt used; `None` in entries of earlier
    /// versions, which did not record it.
    pub generation: Option<u64>,
}

/// The status of a history entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptStatus {
    /// The attempt succeeded.
    Completed,
    /// The attempt failed.
    Failed,
    /// The occurrence was due and did not run at its scheduled time.
    Postponed,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        let epoch: Instant = "2026-01-01T00:00:00Z".parse().unwrap();
        epoch.saturating_add(Duration::from_secs(seconds))
    }

    fn attempt(role: ActionRole, retry: u32, redelivery: u32) -> Attempt {
        Attempt { role, retry, redelivery, first_started: at(0) }
    }

    const FAILED: Outcome = Outcome::Failed { retry_after: None };

    #[track_caller]
    fn check(attempt: Attempt, outcome: Outcome, on_fault: OnFault, expected: Conclusion) {
        assert_eq!(conclude(attempt, outcome, Retries::of(None), on_fault, at(10)), expected);
    }

    #[test]
    fn a_success_completes_the_run_and_a_failure_is_retried_four_times() {
        use ActionRole::Main;
        check(attempt(Main, 0, 0), Outcome::Succeeded, OnFault::Nothing, Conclusion::Completed);
        check(attempt(Main, 4, 0), Outcome::Succeeded, OnFault::Nothing, Conclusion::Completed);
        let again = Conclusion::Retry { at: at(40) };
        check(attempt(Main, 0, 0), FAILED, OnFault::Nothing, again);
        check(attempt(Main, 3, 0), FAILED, OnFault::RunErrorAction, again);
        check(attempt(Main, 4, 0), FAILED, OnFault::Nothing, Conclusion::Faulted);
        check(attempt(Main, 4, 0), FAILED, OnFault::RunErrorAction, Conclusion::RunErrorAction);
    }

    #[test]
    fn an_error_action_is_retried_but_the_run_stays_faulted() {
        use ActionRole::Error;
        check(
            attempt(Error, 0, 0),
            Outcome::Succeeded,
            OnFault::RunErrorAction,
            Conclusion::Faulted,
        );
        check(
            attempt(Error, 0, 0),
            FAILED,
            OnFault::RunErrorAction,
            Conclusion::Retry { at: at(40) },
        );
        check(attempt(Error, 4, 0), FAILED, OnFault::RunErrorAction, Conclusion::Faulted);
    }

    #[test]
    fn an_interrupted_attempt_is_redelivered_three_times_and_then_counts_as_failed() {
        use ActionRole::Main;
        let died = Outcome::Indeterminate;
        check(attempt(Main, 4, 2), died, OnFault::Nothing, Conclusion::Redeliver);
        check(attempt(Main, 4, 3), died, OnFault::Nothing, Conclusion::Faulted);
        check(attempt(Main, 0, 3), died, OnFault::Nothing, Conclusion::Retry { at: at(40) });
    }

    #[test]
    fn the_last_run_decides_the_final_lifecycle() {
        assert_eq!(final_state(Conclusion::Completed), Lifecycle::Completed);
        assert_eq!(final_state(Conclusion::Faulted), Lifecycle::Faulted);
        assert_eq!(final_state(Conclusion::RunErrorAction), Lifecycle::Faulted);
    }
}
