//! Sample jobs, collections and runs.

use std::time::Duration;

use kalends_domain::{
    Action, ActionRole, AttemptStatus, Collection, CollectionName, CollectionPath, CollectionState,
    ErrorAction, Extensions, GroupName, GroupPath, Headers, HistoryEntry, HttpAuthentication,
    HttpRequest, JobDefinition, JobName, JobPath, Lifecycle, Limits, Location, MainAction,
    MessageFormat, Method, MissedPolicy, MissedRuns, Overlap, Plan, Quota, RetryKind, RetryPolicy,
    Secret, Signing, StorageQueueMessage, SubscriptionId, Switch, Target, Timing, Uri, Verbatim,
};
use kalends_recurrence::{
    Frequency, Instant, Interval, MonthlyOccurrence, Recurrence, RecurrencePattern, Schedule,
    Weekday, Zone,
};

use crate::api_store::{CollectionWrite, EditedJob, JobPut, JobWrite, Page, WaitingRuns};
use crate::conformance::Subject;
use crate::engine_store::{Advance, AttemptCounts, ClaimAfter, DueJob, RunWrite, RunWriteResult};
use crate::record::{
    Cause, Claim, CollectionRecord, Disposition, FencingToken, JobFacts, JobRecord, JobState,
    JobUid, LedgerRecord, NodeId, Progress, RunId,
};

pub(crate) const NODE: NodeId = NodeId(7);
pub(crate) const LEASE: Duration = Duration::from_secs(10);

pub(crate) fn group(name: &str) -> GroupPath {
    let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
    GroupPath { subscription, group: GroupName::new(name).unwrap() }
}

pub(crate) fn collection_path(group_name: &str, name: &str) -> CollectionPath {
    CollectionPath { group: group(group_name), collection: CollectionName::new(name).unwrap() }
}

pub(crate) fn job_path(name: &str) -> JobPath {
    JobPath { collection: collection_path("g", "c"), job: JobName::new(name).unwrap() }
}

/// The given number of seconds after the beginning of 2026.
pub(crate) fn at(seconds: u64) -> Instant {
    let epoch: Instant = "2026-01-01T00:00:00Z".parse().unwrap();
    epoch.saturating_add(Duration::from_secs(seconds))
}

pub(crate) fn standard() -> Collection {
    Collection {
        location: Location::new("westus").unwrap(),
        tags: Some(vec![("team".into(), "billing".into())]),
        plan: Plan::Standard,
        state: CollectionState::Enabled,
        quota: Some(Quota { max_job_count: Some(20), ..Quota::default() }),
    }
}

/// A job that sends an HTTP request every minute.
pub(crate) fn definition() -> JobDefinition {
    JobDefinition {
        start: Some(at(0)),
        action: MainAction {
            action: request("https://example.com/x"),
            retry: None,
            error_action: None,
        },
        recurrence: Some(Box::new(Recurrence::every(1, Frequency::Minute))),
        switch: Switch::Enabled,
        extensions: Extensions::default(),
    }
}

pub(crate) fn request(uri: &str) -> Action {
    Action {
        type_as_written: "hTTps".into(),
        target: Target::Http(HttpRequest {
            uri: Uri::new(uri, &Limits::default()).unwrap(),
            method: Method::new("post").unwrap(),
            headers: None,
            body: None,
            authentication: None,
        }),
    }
}

/// A definition that sets nearly every member.
pub(crate) fn cron(expression: &str) -> Recurrence {
    Recurrence::new(RecurrencePattern::Cron(expression.parse().unwrap()))
}

pub(crate) fn full_definition() -> JobDefinition {
    let minute = || Some(Verbatim::new("00:01:00", Duration::from_secs(60)));
    let headers = vec![
        ("Content-Type".to_owned(), "text/plain".to_owned()),
        ("Authorization".to_owned(), "canary-header".to_owned()),
    ];
    let schedule = Schedule {
        minutes: Some(vec![30, 0, 30]),
        hours: Some(vec![2]),
        monthly_occurrences: Some(vec![MonthlyOccurrence {
            day: Weekday::Friday,
            occurrence: Some(-1),
        }]),
        ..Schedule::default()
    };
    let recurrence = Recurrence {
        pattern: RecurrencePattern::Interval(Interval {
            first_day_of_week: Weekday::Monday,
            schedule: Some(schedule),
            ..Interval::new(2, Frequency::Month)
        }),
        count: Some(12),
        end: Some(at(100_000_000)),
        zone: Some(Zone::named("Europe/Berlin").unwrap()),
    };
    JobDefinition {
        start: Instant::from_ticks(at(0).ticks() + 6_617_338),
        action: MainAction {
            action: Action {
                type_as_written: "Https".into(),
                target: Target::Http(HttpRequest {
                    uri: Uri::new("https://example.com/x?sig=canary-uri", &Limits::default())
                        .unwrap(),
                    method: Method::new("POST").unwrap(),
                    headers: Some(Headers::new(headers, &Limits::default()).unwrap()),
                    body: Some("{\"text\": \"ä€😀\\u0000 'quoted'\"}".into()),
                    authentication: Some(Box::new(HttpAuthentication::Basic {
                        username: Some("user".into()),
                        password: Some(Secret::new("canary-password".into())),
                    })),
                }),
            },
            retry: Some(Box::new(RetryPolicy {
                kind: RetryKind::Exponential,
                interval: minute(),
                count: Some(3),
                interval_max: Some(Verbatim::new("PT1H", Duration::from_secs(3_600))),
                age_max: None,
            })),
            error_action: Some(Box::new(ErrorAction {
                action: Action {
                    type_as_written: "storageQueue".into(),
                    target: Target::StorageQueue(StorageQueueMessage {
                        storage_account: Some("Account".into()),
                        queue_name: Some("queue".into()),
                        sas_token: Some(Secret::new("canary-token".into())),
                        message: Some("it failed".into()),
                        format: MessageFormat::Raw,
                    }),
                },
                retry: None,
            })),
        },
        recurrence: Some(Box::new(recurrence)),
        switch: Switch::Disabled,
        extensions: Extensions {
            description: Some("nightly export".into()),
            tags: Some(vec![("Team".into(), "billing".into())]),
            missed_runs: Some(MissedRuns { policy: MissedPolicy::All, within: minute() }),
            overlap: Some(Overlap::QueueOne),
            jitter: minute(),
            timeout: minute(),
            signing: Some(Signing::On),
        },
    }
}

pub(crate) fn put(definition: JobDefinition, due: Option<Instant>) -> JobPut {
    JobPut {
        uid: JobUid([5; 16]),
        created: at(0),
        definition,
        facts: JobFacts::default(),
        state: JobState { due, ..JobState::default() },
        waiting: WaitingRuns::Keep,
        closed_by_edit: None,
    }
}

/// Calls that must succeed.
impl Subject {
    pub(crate) async fn create_collection(&self) -> CollectionRecord {
        self.put_collection(collection_path("g", "c"), standard()).await
    }

    pub(crate) async fn put_collection(
        &self,
        path: CollectionPath,
        collection: Collection,
    ) -> CollectionRecord {
        let decide =
            move |_: crate::CollectionContext<'_>| Ok(CollectionWrite::Put(collection.clone()));
        self.store.edit_collection(path, Box::new(decide)).await.unwrap().after.unwrap()
    }

    pub(crate) async fn put_job(&self, name: &str, put: JobPut) -> JobRecord {
        self.edit_job(name, JobWrite::Put(Box::new(put))).await.after.unwrap()
    }

    pub(crate) async fn edit_job(&self, name: &str, write: JobWrite) -> EditedJob {
        let decide = move |_: crate::JobContext<'_>| Ok(write.clone());
        self.store.edit_job(job_path(name), Box::new(decide)).await.unwrap()
    }

    /// Creates a job that is due at `at(60)`.
    pub(crate) async fn create_due_job(&self, name: &str) -> JobRecord {
        self.put_job(name, put(definition(), Some(at(60)))).await
    }

    pub(crate) async fn job(&self, name: &str) -> Option<JobRecord> {
        self.store.job(job_path(name)).await.unwrap().map(|(job, _)| job)
    }

    pub(crate) async fn commit(&self, write: RunWrite) -> RunWriteResult {
        self.store.commit(vec![write]).await.unwrap()[0]
    }

    /// Begins the due occurrence of a job and claims its run.
    pub(crate) async fn begin_run(&self, job: &JobRecord) -> (RunId, Claim) {
        match self.commit(begin(job)).await {
            RunWriteResult::Begun { run, claim: Some(claim) } => (run, claim),
            result => panic!("{result:?}"),
        }
    }

    pub(crate) async fn history_of(&self, name: &str) -> Vec<HistoryEntry> {
        let page = Page::first(1_000);
        let history = self.store.history(job_path(name), Default::default(), page).await.unwrap();
        history.unwrap().into_iter().map(|record| record.entry).collect()
    }

    pub(crate) async fn ledger_of(&self, job: &JobRecord) -> Vec<LedgerRecord> {
        self.store.ledger(job.key, Instant::MIN, Instant::MAX, 1_000).await.unwrap()
    }
}

pub(crate) fn due(job: &JobRecord) -> DueJob {
    DueJob { job: job.key, generation: job.job.generation, due: job.state.due.unwrap() }
}

/// Advances a job by one minute.
pub(crate) fn advance(job: &JobRecord) -> Advance {
    let due = job.state.due.map(|due| due.saturating_add(Duration::from_secs(60)));
    Advance { due, used: job.state.used + 1, lifecycle: Lifecycle::Active }
}

pub(crate) fn begin(job: &JobRecord) -> RunWrite {
    RunWrite::Begin {
        on: due(job),
        scheduled: due(job).due,
        progress: Progress::first(due(job).due),
        owner: Some(NODE),
        lease: LEASE,
        advance: advance(job),
        closed: vec![],
        postponed: vec![],
        waits_for: None,
    }
}

pub(crate) fn finish(run: RunId, token: FencingToken, lifecycle: Option<Lifecycle>) -> RunWrite {
    RunWrite::Finish {
        run,
        token,
        entry: Some(entry(AttemptStatus::Completed, 60)),
        counts: AttemptCounts { executed: Some(at(60)), failed: false, faulted: false },
        closed: closed(Disposition::Completed, 60),
        lifecycle,
        unused: None,
    }
}

pub(crate) fn entry(status: AttemptStatus, started: u64) -> HistoryEntry {
    HistoryEntry {
        started: at(started),
        ended: at(started + 1),
        expected: at(started),
        status,
        message: format!("attempt at {started}"),
        retry: 0,
        repeat: 1,
        role: ActionRole::Main,
        timing: Timing::default(),
        generation: Some(1),
    }
}

pub(crate) fn closed(disposition: Disposition, scheduled: u64) -> LedgerRecord {
    LedgerRecord {
        generation: 1,
        from: at(scheduled),
        to: at(scheduled),
        count: 1,
        cause: Cause::Scheduled,
        disposition,
        closed: at(scheduled + 1),
    }
}

pub(crate) fn failed(started: u64) -> AttemptCounts {
    AttemptCounts { executed: Some(at(started)), failed: true, faulted: false }
}

/// Progress of a run that waits for its first retry.
pub(crate) fn retry_at(seconds: u64) -> Progress {
    Progress {
        role: ActionRole::Main,
        retry: 1,
        redelivery: 0,
        next_at: at(seconds),
        first_started: Some(at(60)),
    }
}

/// Ends an attempt; the run waits for its retry.
pub(crate) fn retry(run: RunId, token: FencingToken, seconds: u64) -> RunWrite {
    RunWrite::Continue {
        run,
        token,
        entry: Some(entry(AttemptStatus::Failed, 60)),
        counts: failed(60),
        progress: retry_at(seconds),
        claim: ClaimAfter::Release,
    }
}
