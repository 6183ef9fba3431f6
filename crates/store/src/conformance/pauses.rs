//! The pause of all jobs.

use std::time::Duration;

use kalends_recurrence::Instant;

use super::Subject;
use super::parked_runs::begin_parked;
use super::sample::{LEASE, NODE, at, begin, definition, job_path, put, retry};
use crate::api_store::{JobContext, JobWrite, PauseContext, PauseWrite};
use crate::engine_store::{RunWrite, RunWriteResult};
use crate::error::StoreError;
use crate::record::{CollectionStatus, Pause, PauseRecord, SlotKey};
use crate::rejection::Rejection;

/// The duration of a pause that ends by itself.
const HOUR: Duration = Duration::from_secs(3_600);

impl Subject {
    /// Pauses all jobs, until a time after now if one is given.
    async fn pause(&self, reason: &'static str, length: Option<Duration>) -> PauseRecord {
        let decide = move |context: PauseContext<'_>| {
            let since = context.active.map_or(context.now, |active| active.pause.since);
            let until = length.map(|length| context.now.saturating_add(length));
            let pause = Pause::new(since, until);
            Ok(PauseWrite::Put(PauseRecord { pause, reason: reason.into(), by: "ops".into() }))
        };
        self.store.edit_pause(Box::new(decide)).await.unwrap().unwrap()
    }

    /// Ends the pause and returns the time of its end.
    async fn resume(&self) -> Instant {
        let (sender, receiver) = std::sync::mpsc::channel();
        let decide = move |context: PauseContext<'_>| {
            let mut record = context.active.unwrap().clone();
            record.pause = record.pause.resumed(context.now);
            sender.send(context.now).unwrap();
            Ok(PauseWrite::Put(record))
        };
        assert_eq!(self.store.edit_pause(Box::new(decide)).await.unwrap(), None);
        receiver.try_iter().last().unwrap()
    }
}

/// The newest pause counts.
pub async fn a_pause_is_kept_replaced_and_ended(subject: Subject) {
    assert_eq!(subject.store.pause().await.unwrap(), None);
    let first = subject.pause("first", None).await;
    assert_eq!(subject.store.pause().await.unwrap(), Some(first.clone()));
    let second = subject.pause("second ä€😀", Some(HOUR)).await;
    assert_eq!(subject.store.pause().await.unwrap(), Some(second.clone()));
    assert_eq!((first.pause.since, second.reason.as_str()), (second.pause.since, "second ä€😀"));
    subject.resume().await;
    assert_eq!(subject.store.pause().await.unwrap(), None);
    let third = subject.pause("third", None).await;
    assert!(third.pause.since >= second.pause.since);
    assert_eq!(subject.store.pause().await.unwrap(), Some(third));
}

/// The rejection is returned.
pub async fn a_refused_edit_leaves_the_pause_as_it_was(subject: Subject) {
    let pause = subject.pause("kept", None).await;
    let refuse = |context: PauseContext<'_>| {
        assert!(context.active.is_some());
        Err(Rejection::from(StoreError::NoCollection))
    };
    let refused = subject.store.edit_pause(Box::new(refuse)).await;
    assert!(matches!(refused, Err(StoreError::Rejected(_))), "{refused:?}");
    let kept = subject.store.edit_pause(Box::new(|_| Ok(PauseWrite::Keep))).await.unwrap();
    assert_eq!(kept.as_ref(), Some(&pause));
    assert_eq!(subject.store.pause().await.unwrap(), Some(pause));
}

/// It all goes on after the pause.
pub async fn nothing_is_due_claimable_or_begun_during_a_pause(subject: Subject) {
    subject.create_collection().await;
    let waiting = subject.create_due_job("waiting").await;
    let job = subject.create_due_job("j").await;
    let (run, claim) = subject.begin_run(&job).await;
    subject.commit(retry(run, claim.token, 90)).await;
    let parked = subject.create_due_job("parked").await;
    let key = SlotKey::of_host("example.com");
    subject.commit(begin_parked(&parked, key)).await;
    let store = &subject.store;
    let held = store.claimable(at(90), 9).await.unwrap();
    assert_eq!(held.len(), 1);
    let claim_held = || RunWrite::Claim {
        run,
        seen: None,
        owner: NODE,
        lease: LEASE,
        progress: held[0].progress,
        expected: held[0].progress,
    };

    subject.pause("maintenance", None).await;
    assert_eq!(store.due(Instant::MAX, 9).await.unwrap(), []);
    assert_eq!(store.claimable(Instant::MAX, 9).await.unwrap(), []);
    assert_eq!(store.parked(key, 9).await.unwrap(), []);
    assert_eq!(subject.commit(begin(&waiting)).await, RunWriteResult::Stale);
    assert_eq!(subject.commit(claim_held()).await, RunWriteResult::Stale);

    subject.resume().await;
    let due = store.due(at(60), 9).await.unwrap();
    assert_eq!(due.iter().map(|due| due.on.job).collect::<Vec<_>>(), [waiting.key]);
    assert_eq!(store.parked(key, 9).await.unwrap().len(), 1);
    assert!(matches!(subject.commit(claim_held()).await, RunWriteResult::Claimed(_)));
    assert!(matches!(subject.commit(begin(&waiting)).await, RunWriteResult::Begun { .. }));
}

/// No write is needed.
pub async fn a_pause_ends_by_itself_at_its_time(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    subject.pause("an hour", Some(HOUR)).await;
    assert_eq!(subject.store.due(at(60), 9).await.unwrap(), []);
    assert!(subject.store.pause().await.unwrap().is_some());
    (subject.advance_clock)(HOUR + Duration::from_secs(1)).await;
    assert_eq!(subject.store.pause().await.unwrap(), None);
    assert_eq!(subject.store.due(at(60), 9).await.unwrap().len(), 1);
    assert!(matches!(subject.commit(begin(&job)).await, RunWriteResult::Begun { .. }));
}

/// Also when it has ended: the occurrences that passed in it do not run.
pub async fn gate_states_and_jobs_for_run_carry_the_newest_pause(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let pauses = || async {
        let gate_states = subject.store.gate_states(vec![job.key]).await.unwrap();
        let jobs = subject.store.jobs_for_run(vec![job.key]).await.unwrap();
        let scanned = subject.store.scan_jobs(None, 9).await.unwrap();
        let pause = gate_states[0].unwrap().pause;
        assert_eq!(jobs[0].as_ref().unwrap().pause, pause);
        assert_eq!(scanned.jobs[0].gate_state.pause, pause);
        pause
    };
    assert_eq!(pauses().await, None);
    let PauseRecord { pause, .. } = subject.pause("maintenance", Some(HOUR)).await;
    assert_eq!(pauses().await, Some(pause));
    // A job whose state changed recently, as one with a new run.
    subject.put_job("j", put(definition(), Some(at(60)))).await;
    assert_eq!(pauses().await, Some(pause));
    let resumed = pause.resumed(subject.resume().await);
    assert_eq!(pauses().await, Some(resumed));
}

/// In the same transaction, and in reads.
pub async fn edits_of_jobs_see_the_pause(subject: Subject) {
    subject.create_collection().await;
    subject.create_due_job("j").await;
    let status = |is_paused| CollectionStatus { is_paused, ..CollectionStatus::default() };
    for (reason, is_paused) in [(None, false), (Some("maintenance".to_owned()), true)] {
        let (sender, receiver) = std::sync::mpsc::channel();
        let decide = move |context: JobContext<'_>| {
            sender.send(context.pause.map(|pause| pause.reason.clone())).unwrap();
            Ok(JobWrite::Keep)
        };
        let edited = subject.store.edit_job(job_path("j"), Box::new(decide)).await.unwrap();
        assert_eq!(edited.collection, status(is_paused));
        assert_eq!(receiver.try_iter().last().unwrap(), reason);
        let (_, read) = subject.store.job(job_path("j")).await.unwrap().unwrap();
        assert_eq!(read, status(is_paused));
        let collection = job_path("j").collection;
        let page = crate::Page::first(9);
        let jobs = subject.store.jobs(collection, Default::default(), page, 9).await.unwrap();
        assert_eq!(jobs.collection, status(is_paused));
        if !is_paused {
            subject.pause("maintenance", None).await;
        }
    }
}
