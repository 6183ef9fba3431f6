//! A job as its author defined it.

use std::time::Duration;

use kalends_recurrence::{Instant, Recurrence};

use crate::http::HttpRequest;
use crate::messaging::{ServiceBusMessage, StorageQueueMessage};
use crate::retry::RetryPolicy;
use crate::verbatim::Verbatim;

/// What a job does and when, less what the service adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDefinition {
    /// `startTime`.
    pub start: Option<Instant>,
    /// What to do.
    pub action: MainAction,
    /// How it repeats; absent means once.
    pub recurrence: Option<Recurrence>,
    /// Whether it is to run.
    pub switch: Switch,
    /// Members that only the newest version of the API has.
    pub extensions: Extensions,
}

/// Whether a job is to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Switch {
    #[default]
    Enabled,
    Disabled,
}

/// What a job does, how often it tries, and what it does when all tries failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MainAction {
    /// What to do.
    pub action: Action,
    /// How often to try.
    pub retry: Option<RetryPolicy>,
    /// What to do when all tries failed.
    pub error_action: Option<ErrorAction>,
}

/// What a job does when all tries failed. There is none for the failure of this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorAction {
    /// What to do.
    pub action: Action,
    /// How often to try; absent means as often as the main action.
    pub retry: Option<RetryPolicy>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// `type`, as it was written.
    pub type_as_written: String,
    /// What it is.
    pub target: Target,
}

/// What an action calls or where it puts a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Http and Https.
    Http(HttpRequest),
    /// A storage queue.
    StorageQueue(StorageQueueMessage),
    /// A Service Bus queue.
    ServiceBusQueue(ServiceBusMessage),
    /// A Service Bus topic.
    ServiceBusTopic(ServiceBusMessage),
}

/// Members that only the newest version of the API has. Older versions neither show nor touch
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// For people.
    pub description: Option<String>,
    /// For people and searches, in their order.
    pub tags: Option<Vec<(String, String)>>,
    /// What becomes of occurrences that were missed.
    pub missed_runs: Option<MissedRuns>,
    /// What becomes of an occurrence that is due while the one before still runs.
    pub overlap: Option<Overlap>,
    /// Each occurrence is as much later as this job's own share of it.
    pub jitter: Option<Verbatim<Duration>>,
    /// How long an attempt may take.
    pub timeout: Option<Verbatim<Duration>>,
    /// Whether requests are signed.
    pub signing: Option<Signing>,
}

/// What becomes of occurrences that were missed while nothing could run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedRuns {
    /// Which of them run, late.
    pub policy: MissedPolicy,
    /// Only those not older than this.
    pub within: Option<Verbatim<Duration>>,
}

/// Which missed occurrences run, late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum MissedPolicy {
    Skip,
    Last,
    All,
}

/// What becomes of an occurrence that is due while the one before still runs or retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// It is recorded as postponed and does not run.
    #[default]
    Skip,
    /// One waits its turn.
    QueueOne,
    /// Both run.
    Allow,
}

/// Whether requests are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Signing {
    On,
    Off,
}
