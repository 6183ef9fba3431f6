//! Definitions that edits replaced.

use std::time::Duration;

use kalends_domain::{JobDefinition, Switch};

use crate::api_store::JobWrite;
use crate::conformance::Subject;
use crate::conformance::sample::{at, definition, full_definition, job_path, put, request};
use crate::engine_store::Retention;
use crate::record::{EarlierDefinition, JobRecord};

/// A definition with another URL than those before it.
fn numbered(number: u64) -> JobDefinition {
    let mut numbered = definition();
    numbered.action.action = request(&format!("https://example.com/{number}"));
    numbered
}

async fn put_definition(subject: &Subject, definition: JobDefinition) -> JobRecord {
    subject.put_job("j", put(definition, Some(at(60)))).await
}

/// Opens a run, so that definitions are retained from now on.
async fn open_run(subject: &Subject) {
    subject.edit_job("j", JobWrite::Run { at: at(70) }).await;
}

async fn earlier(subject: &Subject, job: &JobRecord, generation: u64) -> Option<EarlierDefinition> {
    subject.store.earlier_definition(job.key, generation).await.unwrap()
}

/// Those that no run can have used are not.
pub async fn a_definition_that_runs_may_have_used_is_retained(subject: Subject) {
    subject.create_collection().await;
    put_definition(&subject, numbered(1)).await;
    put_definition(&subject, numbered(2)).await;
    open_run(&subject).await;
    let full = JobDefinition { switch: Switch::Enabled, ..full_definition() };
    let before = subject.store.now().await.unwrap();
    let job = put_definition(&subject, full.clone()).await;
    let after = subject.store.now().await.unwrap();
    assert_eq!(earlier(&subject, &job, 1).await, None);
    let second = earlier(&subject, &job, 2).await.unwrap();
    assert_eq!((second.generation, &second.definition), (2, &numbered(2)));
    assert!((before..=after).contains(&second.replaced), "{second:?}");
    assert_eq!(earlier(&subject, &job, 3).await, None, "it is the present one");
    subject.edit_job("j", JobWrite::Keep).await;
    assert_eq!(earlier(&subject, &job, 3).await, None);
    let job = put_definition(&subject, numbered(4)).await;
    assert_eq!(earlier(&subject, &job, 3).await.unwrap().definition, full, "with its secrets");
    assert_eq!(earlier(&subject, &job, 2).await, Some(second));
    assert_eq!(earlier(&subject, &job, u64::MAX).await, None);
}

/// Older ones are not.
pub async fn the_newest_earlier_definitions_of_a_job_are_retained(subject: Subject) {
    subject.create_collection().await;
    put_definition(&subject, numbered(1)).await;
    open_run(&subject).await;
    let last = EarlierDefinition::PER_JOB_MAX + 3;
    for generation in 2..=last {
        put_definition(&subject, numbered(generation)).await;
    }
    let job = subject.job("j").await.unwrap();
    for generation in 1..last {
        let found = earlier(&subject, &job, generation).await;
        let is_retained = generation >= last - EarlierDefinition::PER_JOB_MAX;
        let expected = is_retained.then(|| numbered(generation));
        assert_eq!(found.map(|found| found.definition), expected, "{generation}");
    }
}

/// Expiry counts from the edit that replaced them.
pub async fn earlier_definitions_are_deleted_with_their_job_and_the_history(subject: Subject) {
    subject.create_collection().await;
    put_definition(&subject, numbered(1)).await;
    open_run(&subject).await;
    let job = put_definition(&subject, numbered(2)).await;
    let replaced = earlier(&subject, &job, 1).await.unwrap().replaced;
    let retention = Retention::default();
    let expiry = replaced.saturating_add(retention.history_age);
    subject.store.prune(retention, expiry, 10).await.unwrap();
    assert!(earlier(&subject, &job, 1).await.is_some(), "it is not older than the limit");
    let expired = expiry.saturating_add(Duration::from_secs(1));
    subject.store.prune(retention, expired, 10).await.unwrap();
    assert_eq!(earlier(&subject, &job, 1).await, None);
    put_definition(&subject, numbered(3)).await;
    assert!(earlier(&subject, &job, 2).await.is_some());
    subject.edit_job("j", JobWrite::Delete).await;
    assert_eq!(earlier(&subject, &job, 2).await, None);
    assert_eq!(subject.store.job(job_path("j")).await.unwrap(), None);
}
