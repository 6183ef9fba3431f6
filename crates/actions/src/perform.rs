//! What an attempt does to the world.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use kalends_domain::{Action, ActionRole, Cause, JobPath, Outcome, Signing, Timing};
use kalends_recurrence::Instant;

/// An attempt that is going on.
pub type Performing<'a> = Pin<Box<dyn Future<Output = Report> + Send + 'a>>;

/// What is being made ready for attempts.
pub type Readying = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Carries out attempts.
pub trait Perform: Send + Sync {
    /// Carries out one attempt. It ends within the order's time-out.
    fn perform(&self, order: Order) -> Performing<'_>;

    /// What makes ready that which attempts need, which are all to be made when a while has passed;
    /// it is given up then. The targets are told nothing of the attempts. Who makes nothing ready is
    /// only later with them.
    fn make_ready(&self, orders: &[&Order], ahead: Duration) -> Vec<Readying> {
        let _ = (orders, ahead);
        Vec::new()
    }
}

/// One attempt that is to be made.
#[derive(Clone, Debug)]
pub struct Order {
    /// Of which job.
    pub path: JobPath,
    /// The job's identity over all installations.
    pub uid: [u8; 16],
    /// Which edit of the job it is.
    pub generation: u64,
    /// Where the job's collection is said to be.
    pub region: String,
    /// What is to be done.
    pub action: Action,
    /// Which of the job's actions that is.
    pub role: ActionRole,
    /// When the occurrence was due.
    pub scheduled: Instant,
    /// Why there is one.
    pub cause: Cause,
    /// 0 for the first attempt, n for the n-th retry.
    pub retry: u32,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether a request is signed.
    pub signing: Signing,
}

/// How an attempt went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// What history says of it.
    pub message: String,
    /// How long its parts took.
    pub timing: Timing,
}

impl Report {
    /// A report without times.
    pub fn new(outcome: Outcome, message: impl Into<String>) -> Report {
        Report { outcome, message: message.into(), timing: Timing::default() }
    }

    /// A failure that asks for no delay.
    pub fn failed(message: impl Into<String>) -> Report {
        Report::new(Outcome::Failed { retry_after: None }, message)
    }

    /// The same with times.
    pub fn with_timing(self, timing: Timing) -> Report {
        Report { timing, ..self }
    }
}
