//! Completion of jobs with the last of their runs.

use kalends_domain::Lifecycle;

use crate::api_store::JobWrite;
use crate::conformance::Subject;
use crate::conformance::sample::{LEASE, NODE, advance, at, begin, closed, due, finish, retry};
use crate::engine_store::{Advance, DueJob, RunWrite, RunWriteResult};
use crate::record::{Disposition, JobRecord, OpenRun};

/// Both final states, and an edit between the last begin and its finish.
pub async fn the_last_run_completes_a_job_unless_it_was_edited(subject: Subject) {
    subject.create_collection().await;
    let last = |job: &JobRecord| {
        let mut write = begin(job);
        if let RunWrite::Begin { advance, .. } = &mut write {
            advance.due = None;
        }
        write
    };
    let job = subject.create_due_job("j").await;
    let RunWriteResult::Begun { run, claim: Some(claim) } = subject.commit(last(&job)).await else {
        panic!()
    };
    subject.commit(finish(run, claim.token, Some(Lifecycle::Faulted))).await;
    let state = subject.job("j").await.unwrap().state;
    assert_eq!((state.lifecycle, state.due), (Lifecycle::Faulted, None));
    assert!(state.finished.is_some());

    let job = subject.create_due_job("edited").await;
    let RunWriteResult::Begun { run, claim: Some(claim) } = subject.commit(last(&job)).await else {
        panic!()
    };
    subject.create_due_job("edited").await;
    assert_eq!(
        subject.commit(finish(run, claim.token, Some(Lifecycle::Completed))).await,
        RunWriteResult::Done
    );
    let state = subject.job("edited").await.unwrap().state;
    assert_eq!(
        (state.lifecycle, state.due, state.finished),
        (Lifecycle::Active, Some(at(60)), None)
    );
    assert_eq!(subject.ledger_of(&job).await.len(), 1, "the run is recorded nevertheless");
}

/// In either order of the last skip and the last finish.
pub async fn a_job_completes_with_the_last_of_its_open_runs(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (first, held) = subject.begin_run(&job).await;
    let end = Advance { due: None, used: 1, lifecycle: Lifecycle::Completed };
    let on = DueJob { due: at(120), ..due(&job) };
    let skip = RunWrite::Skip { on, advance: end, closed: vec![], postponed: vec![] };
    let finish = finish(first, held.token, Some(Lifecycle::Faulted));
    // The skip does not complete the job while its run is open.
    assert_eq!(subject.commit(skip.clone()).await, RunWriteResult::Done);
    assert_eq!(subject.job("j").await.unwrap().state.lifecycle, Lifecycle::Active);
    assert_eq!(subject.commit(finish.clone()).await, RunWriteResult::Done);
    assert_eq!(subject.job("j").await.unwrap().state.lifecycle, Lifecycle::Faulted);

    let job = subject.create_due_job("k").await;
    let (run, held) = subject.begin_run(&job).await;
    let mut finish = finish;
    if let RunWrite::Finish { run: of, token, .. } = &mut finish {
        (*of, *token) = (run, held.token);
    }
    let on = DueJob { due: at(120), ..due(&job) };
    let skip = RunWrite::Skip { on, advance: end, closed: vec![], postponed: vec![] };
    // The run finishes before the last occurrence is skipped.
    let results = subject.store.commit(vec![finish, skip]).await.unwrap();
    assert_eq!(results, [RunWriteResult::Done; 2]);
    let state = subject.job("k").await.unwrap().state;
    assert_eq!((state.lifecycle, state.due), (Lifecycle::Completed, None));
}

/// Even if the advance says completed.
pub async fn advancing_does_not_complete_a_job_with_an_open_run(subject: Subject) {
    subject.create_collection().await;
    subject.create_due_job("j").await;
    let job = async || subject.job("j").await.unwrap();
    let (run, held) = subject.begin_run(&job().await).await;
    let ends = |job: &JobRecord| Advance { lifecycle: Lifecycle::Completed, ..advance(job) };
    let skip = |job: &JobRecord| RunWrite::Skip {
        on: due(job),
        advance: ends(job),
        closed: vec![],
        postponed: vec![],
    };
    let state = async || {
        let state = job().await.state;
        (state.lifecycle, state.due, state.finished.is_some())
    };
    assert_eq!(subject.commit(skip(&job().await)).await, RunWriteResult::Done);
    assert_eq!(state().await, (Lifecycle::Active, Some(at(180)), false));
    let mut other = begin(&job().await);
    if let RunWrite::Begin { advance, .. } = &mut other {
        *advance = ends(&job().await);
    }
    let RunWriteResult::Begun { run: other, claim: Some(other_held) } = subject.commit(other).await
    else {
        panic!()
    };
    assert_eq!(state().await, (Lifecycle::Active, Some(at(240)), false));

    // The job has a next occurrence, so the last finish does not complete it either.
    let lifecycle = Some(Lifecycle::Faulted);
    let writes =
        vec![finish(other, other_held.token, lifecycle), finish(run, held.token, lifecycle)];
    assert_eq!(subject.store.commit(writes).await.unwrap(), [RunWriteResult::Done; 2]);
    assert_eq!(state().await, (Lifecycle::Active, Some(at(240)), false));
    assert_eq!(subject.commit(skip(&job().await)).await, RunWriteResult::Done);
    assert_eq!(state().await, (Lifecycle::Completed, Some(at(300)), true));
}

/// Its retention starts anew with the request and with the outcome. Runs requested earlier do not count.
pub async fn a_finished_job_that_runs_once_more_follows_the_outcome(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let state = async || subject.job("j").await.unwrap().state;
    subject.edit_job("j", JobWrite::Run { at: at(30) }).await;
    let (run, held) = subject.begin_run(&job).await;
    let end = Advance { due: None, used: 1, lifecycle: Lifecycle::Completed };
    let on = DueJob { due: at(120), ..due(&job) };
    let skip = RunWrite::Skip { on, advance: end, closed: vec![], postponed: vec![] };
    subject.commit(skip).await;
    subject.commit(finish(run, held.token, Some(Lifecycle::Completed))).await;
    let finished = state().await.finished.unwrap();

    let claim = async |run: OpenRun| {
        let write = RunWrite::Claim {
            run: run.id,
            seen: None,
            owner: NODE,
            lease: LEASE,
            progress: run.progress,
            expected: run.progress,
        };
        let RunWriteResult::Claimed(claim) = subject.commit(write).await else { panic!() };
        (run.id, claim.token)
    };
    let early = subject.store.open_runs(job.key).await.unwrap();
    let (run, token) = claim(early[0]).await;
    subject.commit(finish(run, token, Some(Lifecycle::Faulted))).await;
    let state_now = state().await;
    assert_eq!((state_now.lifecycle, state_now.finished), (Lifecycle::Completed, Some(finished)));

    let requested = finished.saturating_add(std::time::Duration::from_secs(3_600));
    let edited = subject.edit_job("j", JobWrite::Run { at: requested }).await;
    assert_eq!(edited.after.unwrap().state, state().await);
    let state_now = state().await;
    assert_eq!((state_now.lifecycle, state_now.finished), (Lifecycle::Completed, Some(requested)));
    let again = subject.store.open_runs(job.key).await.unwrap();
    let (run, token) = claim(again[0]).await;
    subject.commit(finish(run, token, Some(Lifecycle::Faulted))).await;
    let state_now = state().await;
    assert_eq!((state_now.lifecycle, state_now.due), (Lifecycle::Faulted, None));
    assert_ne!(state_now.finished, Some(requested), "the time of the outcome");
}

/// Failed attempts that a retry follows, skipped and superseded occurrences change nothing.
pub async fn consecutive_failures_count_failed_runs_since_the_last_success(subject: Subject) {
    subject.create_collection().await;
    subject.create_due_job("j").await;
    let job = async || subject.job("j").await.unwrap();
    let close = async |disposition| {
        let (run, held) = subject.begin_run(&job().await).await;
        let mut write = finish(run, held.token, None);
        if let RunWrite::Finish { closed, .. } = &mut write {
            closed.disposition = disposition;
        }
        assert_eq!(subject.commit(write).await, RunWriteResult::Done);
        job().await.state.consecutive_failures
    };
    assert_eq!(close(Disposition::Failed).await, 1);
    assert_eq!(close(Disposition::Failed).await, 2);
    assert_eq!(close(Disposition::Superseded).await, 2);
    assert_eq!(close(Disposition::SkippedDisabled).await, 2);
    let present = job().await;
    let closed = vec![closed(Disposition::SkippedOverlap, 60), closed(Disposition::Missed, 60)];
    let skip =
        RunWrite::Skip { on: due(&present), advance: advance(&present), closed, postponed: vec![] };
    assert_eq!(subject.commit(skip).await, RunWriteResult::Done);
    let (run, held) = subject.begin_run(&job().await).await;
    subject.commit(retry(run, held.token, 90)).await;
    assert_eq!(job().await.state.consecutive_failures, 2);
    let gate = subject.store.gate_states(vec![present.key]).await.unwrap();
    assert_eq!(gate[0].unwrap().state.consecutive_failures, 2);
    assert_eq!(close(Disposition::Completed).await, 0);
    assert_eq!(close(Disposition::Failed).await, 1);
}
