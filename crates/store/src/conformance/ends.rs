//! How jobs end: with the last of their runs.

use kalends_domain::Lifecycle;

use crate::conformance::Subject;
use crate::conformance::sample::{advance, at, begin, due, finish};
use crate::engine_store::{Advance, DueJob, RunWrite, RunWriteResult};
use crate::record::JobRecord;

/// Final states.
pub async fn the_last_run_finishes_a_job_unless_it_was_edited_meanwhile(subject: Subject) {
    subject.make_collection().await;
    let last = |job: &JobRecord| {
        let mut write = begin(job);
        if let RunWrite::Begin { advance, .. } = &mut write {
            advance.due = None;
        }
        write
    };
    let job = subject.make_due_job("j").await;
    let RunWriteResult::Begun { run, claim: Some(claim) } = subject.commit(last(&job)).await else {
        panic!()
    };
    subject.commit(finish(run, claim.token, Some(Lifecycle::Faulted))).await;
    let state = subject.job("j").await.unwrap().state;
    assert_eq!((state.lifecycle, state.due), (Lifecycle::Faulted, None));
    assert!(state.finished.is_some());

    let job = subject.make_due_job("edited").await;
    let RunWriteResult::Begun { run, claim: Some(claim) } = subject.commit(last(&job)).await else {
        panic!()
    };
    subject.make_due_job("edited").await;
    assert_eq!(
        subject.commit(finish(run, claim.token, Some(Lifecycle::Completed))).await,
        RunWriteResult::Done
    );
    let state = subject.job("edited").await.unwrap().state;
    assert_eq!(
        (state.lifecycle, state.due, state.finished),
        (Lifecycle::Active, Some(at(60)), None)
    );
    assert_eq!(subject.ledger_of(&job).await.len(), 1, "the run itself is recorded all the same");
}

/// Whichever it is, and however its last occurrence was closed.
pub async fn a_job_ends_with_the_last_of_its_open_runs(subject: Subject) {
    subject.make_collection().await;
    let job = subject.make_due_job("j").await;
    let (first, held) = subject.begin_run(&job).await;
    let over = Advance { due: None, used: 1, lifecycle: Lifecycle::Completed };
    let on = DueJob { due: at(120), ..due(&job) };
    let pass = RunWrite::Skip { on, advance: over, closed: vec![], postponed: vec![] };
    let finish = finish(first, held.token, Some(Lifecycle::Faulted));
    // In this order the job is not over until the run is.
    assert_eq!(subject.commit(pass.clone()).await, RunWriteResult::Done);
    assert_eq!(subject.job("j").await.unwrap().state.lifecycle, Lifecycle::Active);
    assert_eq!(subject.commit(finish.clone()).await, RunWriteResult::Done);
    assert_eq!(subject.job("j").await.unwrap().state.lifecycle, Lifecycle::Faulted);

    let job = subject.make_due_job("k").await;
    let (run, held) = subject.begin_run(&job).await;
    let mut finish = finish;
    if let RunWrite::Finish { run: of, token, .. } = &mut finish {
        (*of, *token) = (run, held.token);
    }
    let on = DueJob { due: at(120), ..due(&job) };
    let pass = RunWrite::Skip { on, advance: over, closed: vec![], postponed: vec![] };
    // In this one the run is over before the job has nothing left to come.
    let answers = subject.store.commit(vec![finish, pass]).await.unwrap();
    assert_eq!(answers, [RunWriteResult::Done; 2]);
    let state = subject.job("k").await.unwrap().state;
    assert_eq!((state.lifecycle, state.due), (Lifecycle::Completed, None));
}

/// Also where it is ended before its schedule is.
pub async fn a_job_with_an_open_run_is_not_ended_by_moving_on(subject: Subject) {
    subject.make_collection().await;
    subject.make_due_job("j").await;
    let job = async || subject.job("j").await.unwrap();
    let (run, held) = subject.begin_run(&job().await).await;
    let ends = |job: &JobRecord| Advance { lifecycle: Lifecycle::Completed, ..advance(job) };
    let pass = |job: &JobRecord| RunWrite::Skip {
        on: due(job),
        advance: ends(job),
        closed: vec![],
        postponed: vec![],
    };
    let stands = async || {
        let state = job().await.state;
        (state.lifecycle, state.due, state.finished.is_some())
    };
    assert_eq!(subject.commit(pass(&job().await)).await, RunWriteResult::Done);
    assert_eq!(stands().await, (Lifecycle::Active, Some(at(180)), false));
    let mut other = begin(&job().await);
    if let RunWrite::Begin { advance, .. } = &mut other {
        *advance = ends(&job().await);
    }
    let RunWriteResult::Begun { run: other, claim: Some(other_held) } = subject.commit(other).await
    else {
        panic!()
    };
    assert_eq!(stands().await, (Lifecycle::Active, Some(at(240)), false));

    // There is more to come, so that the last of them does not end it either.
    let over = Some(Lifecycle::Faulted);
    let writes = vec![finish(other, other_held.token, over), finish(run, held.token, over)];
    assert_eq!(subject.store.commit(writes).await.unwrap(), [RunWriteResult::Done; 2]);
    assert_eq!(stands().await, (Lifecycle::Active, Some(at(240)), false));
    assert_eq!(subject.commit(pass(&job().await)).await, RunWriteResult::Done);
    assert_eq!(stands().await, (Lifecycle::Completed, Some(at(300)), true));
}
