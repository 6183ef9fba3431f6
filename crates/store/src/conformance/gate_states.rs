//! How jobs stand: what is looked at right before a request is sent.

use kalends_domain::{Collection, CollectionState, Switch};

use crate::api_store::{CollectionWrite, JobWrite};
use crate::conformance::Subject;
use crate::conformance::sample::{at, begin, collection_path, definition, put, standard};
use crate::record::{GateState, JobKey};

async fn standing(subject: &Subject, job: JobKey) -> Option<GateState> {
    // Asked twice: the second answer may come from what was learned for the first.
    drop(subject.store.gate_states(vec![job]).await.unwrap());
    subject.store.gate_states(vec![job]).await.unwrap().pop().unwrap()
}

/// What was answered to whoever edits is seen by whoever looks afterwards.
pub async fn an_edit_is_seen_as_soon_as_it_is_answered(subject: Subject) {
    subject.make_collection().await;
    let job = subject.make_due_job("j").await;
    subject.commit(begin(&job)).await;
    let collection = async || standing(&subject, job.key).await.map(|seen| seen.collection);
    assert_eq!(collection().await, Some(Switch::Enabled));
    let disabled = Collection { state: CollectionState::Disabled, ..standard() };
    subject.put_collection(collection_path("g", "c"), disabled).await;
    assert_eq!(collection().await, Some(Switch::Disabled));
    subject.put_collection(collection_path("g", "c"), standard()).await;
    assert_eq!(collection().await, Some(Switch::Enabled));
    let generation = async || standing(&subject, job.key).await.map(|seen| seen.generation);
    let before = generation().await;
    let edited = subject.put_job("j", put(definition(), Some(at(90)))).await;
    assert_eq!(generation().await, Some(edited.job.generation));
    assert_ne!(generation().await, before);
}

/// What is gone has no standing.
pub async fn what_is_deleted_stands_nowhere(subject: Subject) {
    subject.make_collection().await;
    let (first, second) = (subject.make_due_job("a").await, subject.make_due_job("b").await);
    for job in [&first, &second] {
        subject.commit(begin(job)).await;
        assert!(standing(&subject, job.key).await.is_some());
    }
    subject.edit_job("a", JobWrite::Delete).await;
    assert_eq!(standing(&subject, first.key).await, None);
    assert!(standing(&subject, second.key).await.is_some());
    let path = collection_path("g", "c");
    let delete = Box::new(|_: crate::api_store::CollectionContext<'_>| Ok(CollectionWrite::Delete));
    subject.store.edit_collection(path, delete).await.unwrap();
    assert_eq!(standing(&subject, second.key).await, None);
}
