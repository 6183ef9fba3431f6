//! Assignments whose result the scheduler has not received yet.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use crate::worker::{Assignment, AssignmentResult, FinishedAssignment};

/// An assignment that reports its result exactly once, so that its claim and its slot never leak. If
/// it is dropped before, because its task panicked ahead of the attempt, it reports that the attempt
/// did not start.
pub(crate) struct Unreported {
    assignment: Assignment,
    results: Sender<Box<FinishedAssignment>>,
    is_reported: bool,
}

impl Unreported {
    pub(crate) fn new(
        assignment: Assignment,
        results: Sender<Box<FinishedAssignment>>,
    ) -> Unreported {
        Unreported { assignment, results, is_reported: false }
    }

    pub(crate) fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    /// Sends the result to the scheduler.
    pub(crate) async fn report(mut self, result: AssignmentResult) {
        self.is_reported = true;
        // The scheduler is gone only if the process ends; the claim then expires.
        drop(self.results.send(self.finished(result)).await);
    }

    fn finished(&self, result: AssignmentResult) -> Box<FinishedAssignment> {
        let Assignment { run, claim, job_for_run, slot, .. } = &self.assignment;
        let (run, claim, slot) = (*run, *claim, *slot);
        let job_for_run = Arc::clone(job_for_run);
        Box::new(FinishedAssignment { run, claim, job_for_run, slot, result })
    }
}

impl Drop for Unreported {
    fn drop(&mut self) {
        if self.is_reported {
            return;
        }
        let sent = self.results.try_send(self.finished(AssignmentResult::NotStarted));
        if let (Err(TrySendError::Full(finished)), Ok(runtime)) = (sent, Handle::try_current()) {
            let results = self.results.clone();
            runtime.spawn(async move { drop(results.send(finished).await) });
        }
    }
}
