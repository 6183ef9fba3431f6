//! What an attempt does to the world.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{Action, ActionRole, Outcome};
use kalends_recurrence::Instant;
use kalends_store::record::{Cause, JobRecord};

/// An attempt that is going on.
pub type Performing<'a> = Pin<Box<dyn Future<Output = Report> + Send + 'a>>;

/// Carries out attempts.
pub trait Perform: Send + Sync {
    /// Carries out one attempt. It ends within the order's time-out.
    fn perform(&self, order: Order) -> Performing<'_>;
}

/// One attempt that is to be made.
#[derive(Clone, Debug)]
pub struct Order {
    /// Of which job.
    pub job: Arc<JobRecord>,
    /// Of which of its actions.
    pub role: ActionRole,
    /// When the occurrence was due.
    pub scheduled: Instant,
    /// Why there is one.
    pub cause: Cause,
    /// 0 for the first attempt, n for the n-th retry.
    pub retry: u32,
    /// How long it may take.
    pub timeout: Duration,
}

impl Order {
    /// What is to be done.
    pub fn action(&self) -> &Action {
        let main = &self.job.job.definition.action;
        match (self.role, &main.error_action) {
            (ActionRole::Error, Some(error)) => &error.action,
            _ => &main.action,
        }
    }
}

/// How an attempt went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// What history says of it.
    pub message: String,
}
