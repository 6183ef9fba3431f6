//! Assignments whose result the scheduler has not received yet.

use tokio::sync::mpsc::UnboundedSender;

use crate::worker::{Assignment, AssignmentResult};

/// Returns assignments with their results to the scheduler. Admission bounds their number.
pub(crate) type Results = UnboundedSender<Box<Assignment>>;

/// An assignment that returns to the scheduler exactly once, when it is dropped, so that its claim and its
/// slot never leak. If its task panicked ahead of the attempt, it returns as one that did not start.
pub(crate) struct Unreported {
    /// `None` only while it is dropped.
    assignment: Option<Box<Assignment>>,
    results: Results,
}

impl Unreported {
    pub(crate) fn new(assignment: Box<Assignment>, results: Results) -> Unreported {
        Unreported { assignment: Some(assignment), results }
    }

    pub(crate) fn assignment(&self) -> Option<&Assignment> {
        self.assignment.as_deref()
    }

    /// Returns the assignment with its result.
    pub(crate) fn report(mut self, result: AssignmentResult) {
        if let Some(assignment) = &mut self.assignment {
            assignment.result = result;
        }
    }
}

impl Drop for Unreported {
    fn drop(&mut self) {
        if let Some(assignment) = self.assignment.take() {
            // The scheduler is gone only if the process ends; the claim then expires.
            drop(self.results.send(assignment));
        }
    }
}
