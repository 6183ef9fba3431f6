//! Job definitions.

use std::time::Duration;

use kalends_recurrence::{Instant, Recurrence};

use crate::http::{HttpAuthentication, HttpRequest};
use crate::messaging::{ServiceBusMessage, StorageQueueMessage};
use crate::retry::RetryPolicy;
use crate::verbatim::Verbatim;

/// A job as the client defines it, without status and other service data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDefinition {
    /// `startTime`; the creation time if absent.
    pub start: Option<Instant>,
    /// The action with its retry policy and error action.
    pub action: MainAction,
    /// The job runs once if absent.
    /// Boxed like the other large members that most jobs do not have: definitions are moved often.
    pub recurrence: Option<Box<Recurrence>>,
    /// Whether the job is enabled.
    pub switch: Switch,
    /// Members that only the newest API version has.
    pub extensions: Extensions,
}

impl JobDefinition {
    /// End of the validity of its client certificate, of the first one if the error action has one,
    /// too.
    pub fn certificate_end(&self) -> Option<Instant> {
        let error_action = self.action.error_action.as_ref().map(|error| &error.action);
        let actions = [Some(&self.action.action), error_action].into_iter().flatten();
        let end = |action: &Action| {
            let Target::Http(request) = &action.target else { return None };
            match request.authentication.as_deref() {
                Some(HttpAuthentication::ClientCertificate {
                    certificate: Some(facts), ..
                }) => Some(facts.expiration),
                _ => None,
            }
        };
        actions.filter_map(end).min()
    }
}

/// Whether a job or collection is enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory")]
pub enum Switch {
    #[default]
    Enabled,
    Disabled,
}

/// The action of a job with its retry policy and error action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MainAction {
    /// The action to execute.
    pub action: Action,
    /// Retry policy; the default policy if absent.
    pub retry: Option<Box<RetryPolicy>>,
    /// Runs after all attempts of the action failed.
    /// Boxed, because it is rare and large.
    pub error_action: Option<Box<ErrorAction>>,
}

/// An action that runs after all attempts of the main action failed. It has no error action itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorAction {
    /// The action to execute.
    pub action: Action,
    /// Retry policy; that of the main action if absent.
    pub retry: Option<Box<RetryPolicy>>,
}

/// An action type and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// `type` in its original spelling, which the API returns.
    pub type_as_written: String,
    /// The request or message to send.
    pub target: Target,
}

/// The request or message that an action sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An HTTP or HTTPS request.
    Http(HttpRequest),
    /// A message to an Azure Storage queue.
    StorageQueue(StorageQueueMessage),
    /// A message to a Service Bus queue.
    ServiceBusQueue(ServiceBusMessage),
    /// A message to a Service Bus topic.
    ServiceBusTopic(ServiceBusMessage),
}

/// Members that only the newest API version has. Older versions neither return nor change them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Free text.
    pub description: Option<String>,
    /// Names and values in the order in which they were sent; job filters match them.
    pub tags: Option<Vec<(String, String)>>,
    /// Policy for missed occurrences.
    pub missed_runs: Option<MissedRuns>,
    /// Policy for an occurrence that is due while the previous one still runs.
    pub overlap: Option<Overlap>,
    /// Maximum offset from the scheduled time; the offset of a job is constant.
    pub jitter: Option<Verbatim<Duration>>,
    /// Timeout of an attempt.
    pub timeout: Option<Verbatim<Duration>>,
    /// Whether requests are signed.
    pub signing: Option<Signing>,
}

/// Policy for occurrences that the service missed because it was not running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedRuns {
    /// The missed occurrences that run late.
    pub policy: MissedPolicy,
    /// Maximum age of an occurrence that runs late.
    pub within: Option<Verbatim<Duration>>,
}

/// The missed occurrences that run late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissedPolicy {
    /// No missed occurrence runs.
    Skip,
    /// Only the newest missed occurrence runs.
    Last,
    /// All missed occurrences run, one after the other.
    All,
}

/// Policy for an occurrence that is due while the previous one is running or retrying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// The occurrence does not run; the history records it as postponed.
    #[default]
    Skip,
    /// One occurrence is queued; further ones do not run.
    QueueOne,
    /// The occurrences run concurrently.
    Allow,
}

/// Whether the requests of a job are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory")]
pub enum Signing {
    On,
    Off,
}
