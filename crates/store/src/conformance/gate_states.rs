//! Gate states, which the engine checks right before it sends a request.

use kalends_domain::{Collection, CollectionState, Switch};

use crate::api_store::{CollectionWrite, JobWrite};
use crate::conformance::Subject;
use crate::conformance::sample::{at, begin, collection_path, definition, put, standard};
use crate::record::{GateState, JobKey};

async fn gate_state(subject: &Subject, job: JobKey) -> Option<GateState> {
    // Twice: the second call may be served from a cache that the first one filled.
    drop(subject.store.gate_states(vec![job]).await.unwrap());
    subject.store.gate_states(vec![job]).await.unwrap().pop().unwrap()
}

/// A read that starts after an edit was acknowledged sees the edit.
pub async fn gate_states_reflect_every_acknowledged_edit(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    subject.commit(begin(&job)).await;
    let collection = async || gate_state(&subject, job.key).await.map(|seen| seen.collection);
    assert_eq!(collection().await, Some(Switch::Enabled));
    let disabled = Collection { state: CollectionState::Disabled, ..standard() };
    subject.put_collection(collection_path("g", "c"), disabled).await;
    assert_eq!(collection().await, Some(Switch::Disabled));
    subject.put_collection(collection_path("g", "c"), standard()).await;
    assert_eq!(collection().await, Some(Switch::Enabled));
    let generation = async || gate_state(&subject, job.key).await.map(|seen| seen.generation);
    let before = generation().await;
    let edited = subject.put_job("j", put(definition(), Some(at(90)))).await;
    assert_eq!(generation().await, Some(edited.job.generation));
    assert_ne!(generation().await, before);
}

/// Neither after the job was deleted nor after its collection was.
pub async fn deleted_jobs_have_no_gate_state(subject: Subject) {
    subject.create_collection().await;
    let (first, second) = (subject.create_due_job("a").await, subject.create_due_job("b").await);
    for job in [&first, &second] {
        subject.commit(begin(job)).await;
        assert!(gate_state(&subject, job.key).await.is_some());
    }
    subject.edit_job("a", JobWrite::Delete).await;
    assert_eq!(gate_state(&subject, first.key).await, None);
    assert!(gate_state(&subject, second.key).await.is_some());
    let path = collection_path("g", "c");
    let delete = Box::new(|_: crate::api_store::CollectionContext<'_>| Ok(CollectionWrite::Delete));
    subject.store.edit_collection(path, delete).await.unwrap();
    assert_eq!(gate_state(&subject, second.key).await, None);
}
