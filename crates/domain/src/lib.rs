//! Domain model of the scheduler: types and decisions without clock, I/O or serialization.

mod access;
mod collection;
mod destination;
mod end_time;
mod explain;
mod http;
mod http_status;
mod jitter;
mod job;
mod ledger;
mod limits;
mod messaging;
mod name;
mod note;
mod note_record;
mod occurrence;
mod pause;
mod plan;
mod retry;
mod revival;
mod run;
mod run_statistics;
mod schedule_state;
mod secret;
mod timeline;
mod timing;
mod validation_error;
mod verbatim;

pub use access::{AccessScope, AccessScopeError, Grant, Permission, Role};
pub use collection::{Collection, CollectionState, Location, MaxRecurrence, Quota};
pub use destination::{
    AddressClass, AddressOwner, AllowEntry, AllowEntryError, EgressDenial, EgressMode,
    EgressPolicy, ForbiddenEndpoint, Network, classify_address,
};
pub use end_time::check_end_time;
pub use explain::{ExplainInput, ExplainReason, Explanation, explain};
pub use http::{
    CertificateFacts, HeaderError, Headers, HttpAuthentication, HttpRequest, Method, Uri,
    check_audience, check_tenant,
};
pub use http_status::{RESPONSE_MESSAGE, status_name, status_of_message, status_of_name};
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
pub use note::{NoteText, NoteTextError};
pub use note_record::{NewNote, NoteAction, NoteAuthor, NoteRecord, NoteSubject};
pub use occurrence::{
    CloseReason, ClosedOccurrences, DueDecision, DueInput, InFlight, OpenRunsMax, RunStart,
    StartTiming, decide_due,
};
pub use pause::{OffTime, OffTimes, Pause, PauseEnd, PauseRecord};
pub use plan::{
    CollectionFacts, JobFacts, Plan, PlanLimits, check_collection, check_job, counted, facts_of,
    jobs_max,
};
pub use retry::{Retries, RetryKind, RetryPolicy};
pub use revival::{NotRevived, schedule_state_of_revived};
pub use run::{
    ActionRole, Attempt, AttemptStatus, Conclusion, HistoryEntry, JobStatus, Lifecycle, OnFault,
    Outcome, REDELIVERIES_MAX, conclude, final_state,
};
pub use run_statistics::{
    ClosedRun, Execution, LastAttempt, LastAttempts, RunOutcome, RunStatistics, RunStatus,
};
pub use schedule_state::{
    EditKind, OpenScheduledRuns, ScheduleEdit, ScheduleState, changes_schedule, closed_by_edit,
    rule_of, schedule_state_after_edit, schedule_state_of_new, stored_rule, stored_rule_of,
};
pub use secret::{
    SECRET_PARAMETERS, Secret, SecretHeaders, is_secret_parameter, mask_secret_parameters,
};
pub use timeline::{
    COLLECTION_ATTEMPTS_MAX, HOST_ATTEMPTS_MAX, JobSnapshot, OccurrenceState, RunInFlight,
    SlotLimit, Timeline, TimelineRow,
};
pub use timing::{Micros, Timing};
pub use validation_error::{Found, ValidationError, ValidationErrorKind};
pub use verbatim::Verbatim;
