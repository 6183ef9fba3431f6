//! The jobs and runs of the measurement, the same for every contender.

use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{
    Action, Collection, CollectionName, CollectionPath, CollectionState, Extensions, GroupName,
    GroupPath, HttpRequest, JobDefinition, JobName, JobPath, Location, MainAction, Method,
    NameError, Plan, SubscriptionId, Switch, Target, Uri,
};
use kalends_environment::SeededEntropy;
use kalends_recurrence::{Frequency, Instant, Recurrence};
use kalends_store::encryption::{Cipher, MasterKey};
use kalends_store::record::{JobFacts, JobState, JobUid};
use kalends_store::stored_form::DefinitionCodec;
use kalends_store::{DueJob, JobPut, WaitingRuns};

use crate::store::JOBS_PER_COLLECTION;

/// The interval of every job's recurrence.
const PERIOD: Duration = Duration::from_secs(900);

/// The earliest due time, 2026-01-01T00:00:00Z, in ticks of 100 ns since 1970.
const START_TICKS: i64 = 17_672_256_000_000_000;

/// A codec with a key of its own; the URIs of all jobs are encrypted.
pub fn codec() -> anyhow::Result<DefinitionCodec> {
    let entropy = Arc::new(SeededEntropy::new(1));
    let (key, _) = MasterKey::generate(&*entropy)?;
    Ok(DefinitionCodec::new(Cipher::new(key, vec![], entropy), Default::default()))
}

/// The collection with a number, from 0.
pub fn collection_path(number: usize) -> Result<CollectionPath, NameError> {
    let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40")?;
    let group = GroupPath { subscription, group: GroupName::new("group")? };
    Ok(CollectionPath { group, collection: CollectionName::new(&format!("collection-{number}"))? })
}

/// The job with a number, from 0.
pub fn job_path(job: usize) -> Result<JobPath, NameError> {
    let collection = collection_path(job / JOBS_PER_COLLECTION)?;
    Ok(JobPath { collection, job: job_name(job)? })
}

/// The name of the job with a number, in random order.
pub fn job_name(job: usize) -> Result<JobName, NameError> {
    JobName::new(&format!("job-{:08x}", (job as u32).wrapping_mul(0x9e37_79b1)))
}

/// An enabled collection of the largest plan.
pub fn collection() -> Collection {
    Collection {
        location: Location::restore("West US".into()),
        tags: None,
        plan: Plan::P20Premium,
        state: CollectionState::Enabled,
        quota: None,
    }
}

/// The first due time of a job: a random time within [`PERIOD`], so that jobs that are due together
/// are far apart in key order.
pub fn first_due(job: usize) -> Instant {
    let spread = (job as u32).wrapping_mul(0x85eb_ca6b);
    let phase = Duration::from_millis(u64::from(spread) % (PERIOD.as_millis() as u64));
    Instant::from_ticks(START_TICKS).unwrap_or(Instant::MIN).saturating_add(phase)
}

/// A job whose definition differs in each `edit`.
pub fn job_put(job: usize, edit: usize, due: Instant) -> JobPut {
    let target = Target::Http(HttpRequest {
        uri: Uri::restore(format!("https://example.com/orders/{job}?sig=signature-{job}")),
        method: Method::restore("POST".into()),
        headers: None,
        body: Some(format!("{{\"order\": {job}, \"edit\": {edit}}}")),
        authentication: None,
    });
    let action = Action { type_as_written: "Https".into(), target };
    let definition = JobDefinition {
        start: None,
        action: MainAction { action, retry: None, error_action: None },
        recurrence: Some(Box::new(Recurrence::every(15, Frequency::Minute))),
        switch: Switch::Enabled,
        extensions: Extensions::default(),
    };
    JobPut {
        uid: JobUid((job as u128).to_be_bytes()),
        created: due,
        definition,
        facts: JobFacts { shortest_gap: Some(PERIOD), ..JobFacts::default() },
        state: JobState { due: Some(due), ..JobState::default() },
        waiting: WaitingRuns::Keep,
        closed_by_edit: None,
    }
}

/// The next due time that keeps the jobs that are due first: the shortest time later.
pub fn due_again_at_once(on: DueJob) -> Instant {
    on.due.saturating_add(Duration::from_nanos(100))
}

/// The next due time of jobs that stay due together, after all others.
pub fn due_again_together(on: DueJob) -> Instant {
    on.due.saturating_add(PERIOD)
}

/// The next due time at a random time of a day: the worst case, in which no two runs of a commit
/// share a page of the due index.
pub fn due_again_far_apart(on: DueJob) -> Instant {
    let spread = (on.job.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    due_again_together(on).saturating_add(Duration::from_millis(spread % 86_400_000))
}
