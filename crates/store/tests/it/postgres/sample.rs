//! Sample jobs, collections and runs.

use std::time::Duration;

use kalends_domain::{
    Action, ActionRole, AttemptStatus, Collection, CollectionName, CollectionPath, CollectionState,
    Extensions, GroupName, GroupPath, HistoryEntry, HttpRequest, JobDefinition, JobName, JobPath,
    Lifecycle, Limits, Location, MainAction, Method, Plan, SubscriptionId, Switch, Target, Timing,
    Uri,
};
use kalends_recurrence::{Frequency, Instant, Recurrence};
use kalends_store::record::{
    Cause, CollectionRecord, Disposition, FencingToken, JobFacts, JobRecord, JobState, JobUid,
    LedgerRecord, NodeId, Progress, RunId,
};
use kalends_store::{
    Advance, AttemptCounts, CollectionContext, CollectionWrite, DueJob, JobContext, JobPut,
    JobWrite, RunWrite, Store, StoreError, WaitingRuns,
};

pub(crate) const LEASE: Duration = Duration::from_secs(10);

pub(crate) fn collection_path(name: &str) -> CollectionPath {
    let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
    let group = GroupPath { subscription, group: GroupName::new("g").unwrap() };
    CollectionPath { group, collection: CollectionName::new(name).unwrap() }
}

pub(crate) fn job_path(name: &str) -> JobPath {
    JobPath { collection: collection_path("c"), job: JobName::new(name).unwrap() }
}

/// The given number of seconds after the beginning of 2026.
pub(crate) fn at(seconds: u64) -> Instant {
    let epoch: Instant = "2026-01-01T00:00:00Z".parse().unwrap();
    epoch.saturating_add(Duration::from_secs(seconds))
}

pub(crate) fn standard() -> Collection {
    Collection {
        location: Location::new("westus").unwrap(),
        tags: None,
        plan: Plan::Standard,
        state: CollectionState::Enabled,
        quota: None,
    }
}

pub(crate) fn request(uri: &str) -> HttpRequest {
    HttpRequest {
        uri: Uri::new(uri, &Limits::default()).unwrap(),
        method: Method::new("POST").unwrap(),
        headers: None,
        body: None,
        authentication: None,
    }
}

pub(crate) fn action(target: Target) -> Action {
    Action { type_as_written: "Https".into(), target }
}

/// A job that sends an HTTP request every minute.
pub(crate) fn definition() -> JobDefinition {
    JobDefinition {
        start: Some(at(0)),
        action: MainAction {
            action: action(Target::Http(request("https://example.com/x"))),
            retry: None,
            error_action: None,
        },
        recurrence: Some(Box::new(Recurrence::every(1, Frequency::Minute))),
        switch: Switch::Enabled,
        extensions: Extensions::default(),
    }
}

pub(crate) fn put(due: Option<Instant>) -> JobPut {
    JobPut {
        uid: JobUid([5; 16]),
        created: at(0),
        definition: definition(),
        facts: JobFacts::default(),
        state: JobState { due, ..JobState::default() },
        waiting: WaitingRuns::Keep,
        closed_by_edit: None,
    }
}

pub(crate) async fn put_collection(
    store: &dyn Store,
    name: &str,
    collection: Collection,
) -> CollectionRecord {
    let decide = move |_: CollectionContext<'_>| Ok(CollectionWrite::Put(collection.clone()));
    store.edit_collection(collection_path(name), Box::new(decide)).await.unwrap().after.unwrap()
}

pub(crate) async fn try_put_job(
    store: &dyn Store,
    name: &str,
    put: JobPut,
) -> Result<JobRecord, StoreError> {
    let decide = move |_: JobContext<'_>| Ok(JobWrite::Put(Box::new(put.clone())));
    Ok(store.edit_job(job_path(name), Box::new(decide)).await?.after.unwrap())
}

pub(crate) async fn put_job(store: &dyn Store, name: &str, put: JobPut) -> JobRecord {
    try_put_job(store, name, put).await.unwrap()
}

/// Creates jobs that are due at `at(60)`.
pub(crate) async fn due_jobs(store: &dyn Store, number: usize) -> Vec<JobRecord> {
    put_collection(store, "c", standard()).await;
    let mut jobs = Vec::new();
    for job in 0..number {
        jobs.push(put_job(store, &format!("j{job}"), put(Some(at(60)))).await);
    }
    jobs
}

pub(crate) fn due(job: &JobRecord) -> DueJob {
    DueJob { job: job.key, generation: job.job.generation, due: job.state.due.unwrap() }
}

pub(crate) fn begin(job: &JobRecord, owner: Option<NodeId>) -> RunWrite {
    let on = due(job);
    let next = Some(on.due.saturating_add(Duration::from_secs(60)));
    RunWrite::Begin {
        on,
        scheduled: on.due,
        progress: Progress::first(on.due),
        owner,
        lease: LEASE,
        advance: Advance { due: next, used: job.state.used + 1, lifecycle: Lifecycle::Active },
        closed: vec![],
        postponed: vec![],
        waits_for: None,
    }
}

pub(crate) fn entry(message: &str) -> HistoryEntry {
    HistoryEntry {
        started: at(60),
        ended: at(61),
        expected: at(60),
        status: AttemptStatus::Completed,
        message: message.into(),
        retry: 0,
        repeat: 1,
        role: ActionRole::Main,
        timing: Timing::default(),
        generation: Some(1),
    }
}

pub(crate) fn finish(run: RunId, token: FencingToken) -> RunWrite {
    RunWrite::Finish {
        run,
        token,
        entry: Some(entry("done")),
        counts: AttemptCounts { executed: Some(at(60)), failed: false, faulted: false },
        closed: LedgerRecord {
            generation: 1,
            from: at(60),
            to: at(60),
            count: 1,
            cause: Cause::Scheduled,
            disposition: Disposition::Completed,
            closed: at(61),
        },
        lifecycle: None,
        unused: None,
    }
}
