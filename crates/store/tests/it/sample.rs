//! Sample jobs and collections, created without validation.

use std::time::Duration;

use kalends_domain::{
    Action, Collection, CollectionName, CollectionPath, CollectionState, Extensions, GroupName,
    GroupPath, HttpRequest, JobDefinition, JobName, JobPath, Lifecycle, Location, MainAction,
    Method, NameError, Plan, SubscriptionId, Switch, Target, Uri,
};
use kalends_recurrence::{Frequency, Instant, Recurrence};
use kalends_store::record::{JobFacts, JobState, JobUid};
use kalends_store::{Advance, JobPut, WaitingRuns};

pub(crate) fn group_path(name: &str) -> Result<GroupPath, NameError> {
    let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40")?;
    Ok(GroupPath { subscription, group: GroupName::new(name)? })
}

pub(crate) fn collection_path(name: &str) -> Result<CollectionPath, NameError> {
    Ok(CollectionPath { group: group_path("g")?, collection: CollectionName::new(name)? })
}

pub(crate) fn job_path(collection: &str, name: &str) -> Result<JobPath, NameError> {
    Ok(JobPath { collection: collection_path(collection)?, job: JobName::new(name)? })
}

pub(crate) fn collection() -> Collection {
    Collection {
        location: Location::restore("West US".into()),
        tags: None,
        plan: Plan::Standard,
        state: CollectionState::Enabled,
        quota: None,
    }
}

pub(crate) fn request(uri: &str) -> HttpRequest {
    HttpRequest {
        uri: Uri::restore(uri.into()),
        method: Method::restore("POST".into()),
        headers: None,
        body: Some("{\"order\": 4711}".into()),
        authentication: None,
    }
}

/// A job that performs an action every minute.
pub(crate) fn definition(target: Target) -> JobDefinition {
    let action = Action { type_as_written: "Https".into(), target };
    JobDefinition {
        start: None,
        action: MainAction { action, retry: None, error_action: None },
        recurrence: Some(Box::new(Recurrence::every(1, Frequency::Minute))),
        switch: Switch::Enabled,
        extensions: Extensions::default(),
    }
}

pub(crate) fn put(definition: JobDefinition, uid: u128, due: Instant) -> JobPut {
    JobPut {
        uid: JobUid(uid.to_be_bytes()),
        created: due,
        definition,
        facts: JobFacts::default(),
        state: JobState { due: Some(due), ..JobState::default() },
        waiting: WaitingRuns::Keep,
        closed_by_edit: None,
    }
}

/// Advances a job by one minute.
pub(crate) fn advance(due: Instant, used: u64) -> Advance {
    let due = Some(due.saturating_add(Duration::from_secs(60)));
    Advance { due, used, lifecycle: Lifecycle::Active }
}
