//! The nouns and decisions of the scheduler: pure values, no clock, no I/O, no serialisation.

mod access;
mod collection;
mod destination;
mod explain;
mod fault;
mod http;
mod jitter;
mod job;
mod ledger;
mod limits;
mod messaging;
mod name;
mod occurrence;
mod plan;
mod retry;
mod run;
mod secret;
mod standing;
mod timeline;
mod timing;
mod written;

pub use access::{Grant, Permission, Place, PlaceError, Role};
pub use collection::{Collection, CollectionState, Location, MaxRecurrence, Quota};
pub use destination::{
    AllowEntry, AllowProblem, Denial, EgressMode, EgressPolicy, Forbidden, Network, Reach, Whose,
    reach,
};
pub use explain::{ExplainQuestion, Explanation, Reason, explain};
pub use fault::{Fault, FaultKind};
pub use http::{
    CertificateFacts, HeaderFault, Headers, HttpAuthentication, HttpRequest, Method, Uri,
    check_audience, check_tenant,
};
pub use jitter::jittered;
pub use job::{
    Action, ErrorAction, Extensions, JobDefinition, MainAction, MissedPolicy, MissedRuns, Overlap,
    Signing, Switch, Target,
};
pub use ledger::{Cause, Disposition, LedgerRecord};
pub use limits::Limits;
pub use messaging::{
    BrokeredProperties, MessageFormat, ServiceBusAuthentication, ServiceBusAuthenticationKind,
    ServiceBusMessage, StorageQueueMessage, TimeToLive, Transport, check_entity, check_namespace,
    check_property, check_queue_name, check_storage_account,
};
pub use name::{
    CollectionName, CollectionPath, GroupName, GroupPath, JobName, JobPath, NameError,
    SubscriptionId,
};
pub use occurrence::{Begin, Closed, DueDecision, DueQuestion, UnderWay, When, Why, decide_due};
pub use plan::{
    CollectionFacts, JobFacts, Plan, PlanLimits, check_collection, check_job, facts_of, jobs_max,
};
pub use retry::{Retries, RetryKind, RetryPolicy};
pub use run::{
    ActionRole, Attempt, AttemptStatus, Conclusion, HistoryEntry, JobStatus, Lifecycle, OnFault,
    Outcome, REDELIVERIES_MAX, conclude, final_state,
};
pub use secret::{SECRET_HEADERS, SECRET_PARAMETERS, Secret};
pub use standing::{
    EditKind, Standing, closed_by_edit, kept_rule_of, rule_of, standing_after_edit, standing_of_new,
};
pub use timeline::{Course, RunUnderWay, Stage, Timeline, TimelineRow};
pub use timing::{Micros, Timing};
pub use written::Written;
