//! An occurrence being worked on: attempts, what follows from their outcome, and what is kept.

use std::time::Duration;

use kalends_recurrence::Instant;

use crate::retry::Retries;
use crate::timing::Timing;

/// After as many redeliveries of one attempt (the process died in the middle of it) it counts as
/// failed.
pub const REDELIVERIES_MAX: u32 = 3;

/// Which of a job's actions an attempt carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActionRole {
    /// The action itself.
    Main,
    /// What is done when all tries of the action failed.
    Error,
}

/// An attempt that was made, or was being made when the process died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Of which action.
    pub role: ActionRole,
    /// 0 for the first, n for the n-th retry.
    pub retry: u32,
    /// How often this very attempt was begun again after the process died.
    pub redelivery: u32,
    /// When the first attempt of this action for this occurrence started.
    pub first_started: Instant,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The target took it.
    Succeeded,
    /// It did not; `retry_after` is what the target asked for.
    Failed {
        /// What the target asked for.
        retry_after: Option<Duration>,
    },
    /// The process died in the middle: the target may or may not have taken it.
    Indeterminate,
}

/// What follows from the outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// The occurrence is completed.
    Completed,
    /// The same attempt is begun again, at once; it uses no retry.
    Redeliver,
    /// The next attempt, then.
    Retry {
        /// When.
        at: Instant,
    },
    /// All tries failed: the error action comes next, at once.
    RunErrorAction,
    /// All tries failed, and there is nothing more to do.
    Faulted,
}

/// Whether a job has something to do when all tries failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFault {
    /// It has an error action.
    RunErrorAction,
    /// It has none.
    Nothing,
}

/// What follows from how an attempt ended at `ended`. `retries` are those of its action.
pub fn conclude(
    attempt: Attempt,
    outcome: Outcome,
    retries: Retries,
    on_fault: OnFault,
    ended: Instant,
) -> Conclusion {
    let retry_after = match outcome {
        Outcome::Succeeded => {
            // A successful error action does not make up for the failure that called for it.
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

/// What a job has become. A finished job can only be deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifecycle {
    /// It has occurrences to come, or is switched off.
    #[default]
    Active,
    /// It has ended, and its last run succeeded.
    Completed,
    /// It has ended, and all tries of its last run failed.
    Faulted,
}

/// What a job has become after its last occurrence ended so.
pub fn final_state(last: Conclusion) -> Lifecycle {
    match last {
        Conclusion::Faulted | Conclusion::RunErrorAction => Lifecycle::Faulted,
        _ => Lifecycle::Completed,
    }
}

/// What the service says of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobStatus {
    /// When the last attempt of the main action started.
    pub last_execution: Option<Instant>,
    /// When the next occurrence is.
    pub next_execution: Option<Instant>,
    /// Attempts of the main action.
    pub executions: u64,
    /// Failed attempts of the main action.
    pub failures: u64,
    /// Occurrences of which all tries failed.
    pub faulted: u64,
}

/// An attempt as history keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// When it started.
    pub started: Instant,
    /// When it ended.
    pub ended: Instant,
    /// When the occurrence was due.
    pub expected: Instant,
    /// How it ended.
    pub status: AttemptStatus,
    /// What the target answered, or why there is no answer.
    pub message: String,
    /// 0 for the first attempt, n for the n-th retry.
    pub retry: u32,
    /// The number of the occurrence, from 1.
    pub repeat: u64,
    /// Of which action.
    pub role: ActionRole,
    /// How long its parts took, as far as anybody knows.
    pub timing: Timing,
}

/// How an attempt ended, as history says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptStatus {
    /// The target took it.
    Completed,
    /// It did not.
    Failed,
    /// The occurrence was due and did not run at its time.
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
    fn a_success_completes_and_a_failure_is_tried_four_more_times() {
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
    fn an_error_action_is_tried_again_too_but_never_makes_a_success() {
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
    fn what_died_in_the_middle_is_redelivered_three_times_and_then_counts_as_failed() {
        use ActionRole::Main;
        let died = Outcome::Indeterminate;
        check(attempt(Main, 4, 2), died, OnFault::Nothing, Conclusion::Redeliver);
        check(attempt(Main, 4, 3), died, OnFault::Nothing, Conclusion::Faulted);
        check(attempt(Main, 0, 3), died, OnFault::Nothing, Conclusion::Retry { at: at(40) });
    }

    #[test]
    fn the_last_run_decides_what_a_job_becomes() {
        assert_eq!(final_state(Conclusion::Completed), Lifecycle::Completed);
        assert_eq!(final_state(Conclusion::Faulted), Lifecycle::Faulted);
        assert_eq!(final_state(Conclusion::RunErrorAction), Lifecycle::Faulted);
    }
}
