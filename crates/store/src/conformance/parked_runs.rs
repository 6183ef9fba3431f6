//! Runs that wait for a free slot of their host or collection.

use std::time::Duration;

use kalends_domain::CollectionState;

use crate::api_store::JobWrite;
use crate::conformance::Subject;
use crate::conformance::sample::{
    LEASE, NODE, at, begin, collection_path, definition, put, standard,
};
use crate::engine_store::{ParkedRuns, RunWrite, RunWriteResult};
use crate::record::{CollectionKey, FencingToken, JobRecord, OpenRun, Progress, RunId, SlotKey};

fn host() -> SlotKey {
    SlotKey::of_host("hanging.example.com")
}

fn collection() -> SlotKey {
    SlotKey::of_collection(CollectionKey(1))
}

/// The begin of a run without a slot.
pub(crate) fn begin_parked(job: &JobRecord, key: SlotKey) -> RunWrite {
    let mut write = begin(job);
    if let RunWrite::Begin { owner, waits_for, .. } = &mut write {
        (*owner, *waits_for) = (None, Some(key));
    }
    write
}

fn park(run: &OpenRun, progress: Progress, generation: u64) -> RunWrite {
    let seen = run.claim.map(|claim| claim.token);
    let expected = run.progress;
    RunWrite::Park { run: run.id, seen, generation, progress, expected, waits_for: host() }
}

fn claim(run: RunId, seen: Option<FencingToken>, progress: Progress) -> RunWrite {
    RunWrite::Claim { run, seen, owner: NODE, lease: LEASE, progress, expected: progress }
}

impl Subject {
    async fn parked_ids(&self, key: SlotKey) -> Vec<RunId> {
        let parked = self.store.parked(key, 9).await.unwrap();
        assert!(parked.iter().all(|run| run.waits_for == Some(key) && run.claim.is_none()));
        parked.iter().map(|run| run.id).collect()
    }

    async fn claimable_ids(&self) -> Vec<RunId> {
        let claimable = self.store.claimable(at(1_000_000), 9).await.unwrap();
        claimable.iter().map(|run| run.id).collect()
    }

    async fn manual_run(&self, job: &JobRecord, seconds: u64) -> OpenRun {
        let name = job.path.job.to_string();
        self.edit_job(&name, JobWrite::Run { at: at(seconds) }).await;
        self.store.open_runs(job.key).await.unwrap().pop().unwrap()
    }
}

/// The next occurrence is scheduled, and the run is found by its host, earliest first.
pub async fn a_parked_occurrence_advances_its_job_and_is_not_claimable(subject: Subject) {
    subject.create_collection().await;
    let mut parked = Vec::new();
    for (name, due) in [("late", 120), ("early", 60), ("other", 60)] {
        let job = subject.put_job(name, put(definition(), Some(at(due)))).await;
        let key = if name == "other" { collection() } else { host() };
        match subject.commit(begin_parked(&job, key)).await {
            RunWriteResult::Begun { run, claim: None } => parked.push(run),
            result => panic!("{result:?}"),
        }
        assert_eq!(subject.job(name).await.unwrap().state.due, Some(at(due + 60)));
    }
    assert_eq!(subject.claimable_ids().await, []);
    assert_eq!(subject.parked_ids(host()).await, [parked[1], parked[0]]);
    assert_eq!(subject.parked_ids(collection()).await, [parked[2]]);
    assert_eq!(subject.store.parked(host(), 1).await.unwrap().len(), 1);
    let mut keys = subject.store.parked_keys(9).await.unwrap();
    keys.sort_by_key(|parked| parked.count);
    let expected = [(collection(), 1), (host(), 2)];
    assert_eq!(keys, expected.map(|(key, count)| ParkedRuns { key, count }));
    assert_eq!(subject.store.parked_keys(1).await.unwrap().len(), 1);
}

/// A claim ends the parking; later attempts of the run are claimable as usual.
pub async fn a_run_is_parked_until_it_is_claimed(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let run = subject.manual_run(&job, 5).await;
    let outdated = OpenRun { progress: Progress { retry: 1, ..run.progress }, ..run };
    assert_eq!(subject.commit(park(&outdated, run.progress, 1)).await, RunWriteResult::Stale);
    assert_eq!(subject.claimable_ids().await, [run.id], "its progress was another");
    assert_eq!(subject.commit(park(&run, run.progress, 1)).await, RunWriteResult::Done);
    assert_eq!(subject.claimable_ids().await, []);
    assert_eq!(subject.parked_ids(host()).await, [run.id]);
    let claimed = subject.commit(claim(run.id, None, run.progress)).await;
    assert!(matches!(claimed, RunWriteResult::Claimed(_)), "{claimed:?}");
    assert_eq!(subject.parked_ids(host()).await, []);
    assert_eq!(subject.store.parked_keys(9).await.unwrap(), []);
    let open = subject.store.open_runs(job.key).await.unwrap();
    assert_eq!(open[0].waits_for, None);
    assert_eq!(subject.commit(park(&run, run.progress, 1)).await, RunWriteResult::Stale);
}

/// The take-over after a crash may find no free slot; the expired claim is released.
pub async fn a_run_of_a_crashed_node_is_parked_with_its_progress(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (id, first) = subject.begin_run(&job).await;
    let run = subject.store.open_runs(job.key).await.unwrap()[0];
    let progress = Progress { redelivery: 1, ..run.progress };
    assert_eq!(subject.commit(park(&run, progress, 1)).await, RunWriteResult::Stale, "its lease");
    (subject.advance_clock)(LEASE + Duration::from_secs(1)).await;
    assert_eq!(subject.commit(park(&run, progress, 1)).await, RunWriteResult::Done);
    let parked = subject.store.parked(host(), 9).await.unwrap();
    assert_eq!((parked[0].id, parked[0].claim, parked[0].progress), (id, None, progress));
    let renewal = RunWrite::RenewLease { run: id, token: first.token, lease: LEASE };
    assert_eq!(subject.commit(renewal).await, RunWriteResult::Stale, "the node lost its claim");
    let taken = subject.commit(claim(id, None, progress)).await;
    assert!(matches!(taken, RunWriteResult::Claimed(claim) if claim.token > first.token));
}

/// The edit may have changed the host.
pub async fn a_run_of_an_edited_job_is_not_parked(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let run = subject.manual_run(&job, 5).await;
    subject.put_job("j", put(definition(), Some(at(60)))).await;
    assert_eq!(subject.commit(park(&run, run.progress, 1)).await, RunWriteResult::Stale);
    assert_eq!(subject.commit(park(&run, run.progress, 2)).await, RunWriteResult::Done);
}

/// A job that is repaired runs at once.
pub async fn an_edit_makes_parked_runs_claimable(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let other = subject.create_due_job("other").await;
    for job in [&job, &other] {
        let run = subject.manual_run(job, 5).await;
        assert_eq!(subject.commit(park(&run, run.progress, 1)).await, RunWriteResult::Done);
    }
    subject.put_job("j", put(definition(), Some(at(60)))).await;
    let claimable = subject.store.claimable(at(10), 9).await.unwrap();
    assert_eq!(claimable.iter().map(|run| run.job).collect::<Vec<_>>(), [job.key]);
    let parked = subject.store.parked(host(), 9).await.unwrap();
    assert_eq!(parked.iter().map(|run| run.job).collect::<Vec<_>>(), [other.key]);
}

/// They stay parked and go on when the collection is enabled.
pub async fn parked_runs_of_disabled_collections_are_held(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    subject.commit(begin_parked(&job, host())).await;
    let disabled = kalends_domain::Collection { state: CollectionState::Disabled, ..standard() };
    subject.put_collection(collection_path("g", "c"), disabled).await;
    assert_eq!(subject.parked_ids(host()).await, []);
    assert_eq!(subject.claimable_ids().await, []);
    subject.put_collection(collection_path("g", "c"), standard()).await;
    assert_eq!(subject.parked_ids(host()).await.len(), 1);
}
