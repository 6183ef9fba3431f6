//! The interface between the engine and the actions: one attempt in, one report out.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use kalends_domain::{Action, ActionRole, Cause, JobPath, Outcome, Signing, Timing};
use kalends_recurrence::Instant;

use crate::send_fence::{NotSent, SendFence};

/// An attempt in flight.
pub type AttemptFuture<'a> =
    Pin<Box<dyn Future<Output = Result<AttemptReport, NotSent>> + Send + 'a>>;

/// Opens connections for later attempts.
pub type PrewarmFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Executes attempts.
pub trait ActionExecutor: Send + Sync {
    /// Executes one attempt. The future completes within the request's timeout. `fence` is checked
    /// right before the first byte of each request that is part of the action; if it is closed before
    /// the first one, the result is [`NotSent`]. A request in flight is not cancelled.
    fn execute<'a>(&'a self, request: AttemptRequest<'a>, fence: SendFence) -> AttemptFuture<'a>;

    /// Opens connections for `requests`, which are all due in `ahead`. Each future gives up when
    /// `ahead` has elapsed, and sends nothing of the attempts. The default opens none: attempts then
    /// connect when they are due.
    fn prewarm(&self, requests: &[AttemptRequest<'_>], ahead: Duration) -> Vec<PrewarmFuture> {
        let _ = (requests, ahead);
        Vec::new()
    }
}

/// One attempt to execute. It borrows the definition of its job.
#[derive(Clone, Copy, Debug)]
pub struct AttemptRequest<'a> {
    /// The job that the attempt belongs to.
    pub path: &'a JobPath,
    /// The job's globally unique id.
    pub uid: [u8; 16],
    /// The job's generation, which increases with every edit.
    pub generation: u64,
    /// The location of the job's collection, for headers and messages.
    pub region: &'a str,
    /// The action to execute.
    pub action: &'a Action,
    /// Whether `action` is the job's main action or its error action.
    pub role: ActionRole,
    /// The scheduled time of the occurrence.
    pub scheduled: Instant,
    /// Whether the schedule or a user started the run.
    pub cause: Cause,
    /// 0 for the first attempt, n for the n-th retry.
    pub retry: u32,
    /// The time limit of the whole attempt.
    pub timeout: Duration,
    /// Whether HTTP requests are signed.
    pub signing: Signing,
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptReport {
    /// Whether the attempt succeeded, failed or has an unknown result.
    pub outcome: Outcome,
    /// The message for the job's history.
    pub message: String,
    /// The duration of each phase; phases that were not reached have none.
    pub timing: Timing,
}

impl AttemptReport {
    /// A report without phase durations.
    pub fn new(outcome: Outcome, message: impl Into<String>) -> AttemptReport {
        AttemptReport { outcome, message: message.into(), timing: Timing::default() }
    }

    /// A failure without `Retry-After`.
    pub fn failed(message: impl Into<String>) -> AttemptReport {
        AttemptReport::new(Outcome::Failed { retry_after: None }, message)
    }

    /// The message without the headers and the body of the response: for the log.
    pub fn summary(&self) -> &str {
        let ends = [" Response Headers:", "\r", "\n"];
        let end = ends.iter().filter_map(|end| self.message.find(end)).min();
        end.and_then(|end| self.message.get(..end)).unwrap_or(&self.message)
    }

    /// Sets the phase durations.
    pub fn with_timing(self, timing: Timing) -> AttemptReport {
        AttemptReport { timing, ..self }
    }
}
