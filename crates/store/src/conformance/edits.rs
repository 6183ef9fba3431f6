//! Edits, disabling and enabling of jobs with open runs.

use std::time::Duration;

use kalends_domain::{AttemptStatus, CollectionState, Lifecycle, Switch};

use crate::api_store::{JobPut, JobWrite, WaitingRuns};
use crate::conformance::Subject;
use crate::conformance::sample::{
    NODE, advance, at, begin, closed, collection_path, definition, due, entry, failed, finish, put,
    standard,
};
use crate::engine_store::{AttemptCounts, ClaimAfter, RunWrite, RunWriteResult, UnusedOccurrence};
use crate::record::{Cause, Claim, Disposition, JobRecord, JobState, Progress, RunId};

/// Begins the last occurrence of a job.
async fn begin_last(subject: &Subject, job: &JobRecord) -> (RunId, Claim) {
    let mut write = begin(job);
    if let RunWrite::Begin { advance, .. } = &mut write {
        advance.due = None;
    }
    match subject.commit(write).await {
        RunWriteResult::Begun { run, claim: Some(claim) } => (run, claim),
        result => panic!("{result:?}"),
    }
}

/// Edits a job without a next occurrence.
async fn edit(subject: &Subject, switch: Switch, waiting: WaitingRuns) -> JobRecord {
    let mut put = JobPut { waiting, ..put(definition(), None) };
    put.definition.switch = switch;
    subject.put_job("j", put).await
}

fn retry(run: RunId, claim: Claim) -> RunWrite {
    RunWrite::Continue {
        run,
        token: claim.token,
        entry: Some(entry(AttemptStatus::Failed, 60)),
        counts: failed(60),
        progress: Progress { retry: 1, ..Progress::first(at(90)) },
        claim: ClaimAfter::Release,
    }
}

/// The run completes the job, although the job was edited meanwhile.
pub async fn an_edit_that_keeps_the_schedule_keeps_its_runs(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (run, claim) = begin_last(&subject, &job).await;
    let decide = move |context: crate::JobContext<'_>| {
        assert_eq!(context.open.iter().map(|run| run.id).collect::<Vec<_>>(), [run]);
        let open = context.open_scheduled_runs();
        assert_eq!((open.count, open.latest), (1, Some(at(60))));
        Ok(JobWrite::Keep)
    };
    let path = crate::conformance::sample::job_path("j");
    subject.store.edit_job(path, Box::new(decide)).await.unwrap();
    let edited = edit(&subject, Switch::Enabled, WaitingRuns::Keep).await.job;
    assert_eq!((edited.generation, edited.schedule_generation), (2, 1));
    assert_eq!(edited.enabled_since, None, "it was never disabled");
    assert_eq!(subject.store.open_runs(job.key).await.unwrap().len(), 1);
    subject.commit(finish(run, claim.token, Some(Lifecycle::Completed))).await;
    assert_eq!(subject.job("j").await.unwrap().state.lifecycle, Lifecycle::Completed);
    assert_eq!(subject.ledger_of(&job).await.len(), 1);
}

/// Also not after a further edit, which keeps the schedule.
pub async fn a_superseded_run_does_not_complete_its_job(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (run, claim) = begin_last(&subject, &job).await;
    let moved = edit(&subject, Switch::Enabled, WaitingRuns::Supersede).await.job;
    assert_eq!((moved.generation, moved.schedule_generation), (2, 2));
    let kept = edit(&subject, Switch::Enabled, WaitingRuns::Keep).await.job;
    assert_eq!((kept.generation, kept.schedule_generation), (3, 2));
    let gate_states = subject.store.gate_states(vec![job.key]).await.unwrap();
    assert_eq!(gate_states[0].map(|state| state.schedule_generation), Some(2));
    subject.commit(finish(run, claim.token, Some(Lifecycle::Completed))).await;
    assert_eq!(subject.job("j").await.unwrap().state.lifecycle, Lifecycle::Active);
}

/// Manual runs are no part of the schedule.
pub async fn an_edit_of_the_schedule_keeps_manual_runs(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    subject.edit_job("j", JobWrite::Run { at: at(5) }).await;
    edit(&subject, Switch::Enabled, WaitingRuns::Supersede).await;
    let open = subject.store.open_runs(job.key).await.unwrap();
    assert_eq!(open.iter().map(|run| run.cause).collect::<Vec<_>>(), [Cause::Manual]);
    assert_eq!(subject.ledger_of(&job).await, []);
}

/// Waiting runs and those whose lease has expired.
pub async fn a_disabled_job_holds_its_scheduled_runs(subject: Subject) {
    let collection = subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (waiting, claim) = subject.begin_run(&job).await;
    subject.commit(retry(waiting, claim)).await;
    let (abandoned, _) = subject.begin_run(&subject.job("j").await.unwrap()).await;
    let claimable = async || {
        let runs = subject.store.claimable(at(100), 9).await.unwrap();
        runs.iter().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(claimable().await, [waiting]);
    edit(&subject, Switch::Disabled, WaitingRuns::Keep).await;
    subject.edit_job("j", JobWrite::Run { at: at(5) }).await;
    (subject.advance_clock)(Duration::from_secs(60)).await;
    let held = claimable().await;
    assert!(held.len() == 1 && !held.contains(&waiting), "only the manual run: {held:?}");
    let enabled = edit(&subject, Switch::Enabled, WaitingRuns::Keep).await.job;
    assert_eq!(claimable().await, [held[0], waiting, abandoned], "by their next attempt");
    let since = enabled.enabled_since.unwrap();
    assert!(since >= collection.enabled_since);
    let gate_states = subject.store.gate_states(vec![job.key]).await.unwrap();
    assert_eq!(gate_states[0].map(|state| state.enabled_since), Some(since));
    let jobs = subject.store.jobs_for_run(vec![job.key]).await.unwrap();
    assert_eq!(jobs[0].as_ref().map(|job| job.enabled_since), Some(since));

    let switch = |state| kalends_domain::Collection { state, ..standard() };
    for state in [CollectionState::Disabled, CollectionState::Enabled] {
        (subject.advance_clock)(Duration::from_secs(1)).await;
        subject.put_collection(collection_path("g", "c"), switch(state)).await;
    }
    let gate_states = subject.store.gate_states(vec![job.key]).await.unwrap();
    assert!(gate_states[0].is_some_and(|state| state.enabled_since >= since));
}

/// The schedule goes on if the count had ended it.
pub async fn an_occurrence_that_did_not_run_gives_its_use_of_the_count_back(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (run, claim) = begin_last(&subject, &job).await;
    assert_eq!(subject.job("j").await.unwrap().state.used, 1);
    let unused = RunWrite::Finish {
        run,
        token: claim.token,
        entry: Some(entry(AttemptStatus::Postponed, 60)),
        counts: AttemptCounts::default(),
        closed: closed(Disposition::SkippedDisabled, 60),
        lifecycle: Some(Lifecycle::Completed),
        unused: Some(UnusedOccurrence { next: Some(at(180)) }),
    };
    assert_eq!(subject.commit(unused).await, RunWriteResult::Done);
    let state = subject.job("j").await.unwrap().state;
    assert_eq!((state.used, state.due), (0, Some(at(180))));
    assert_eq!((state.lifecycle, state.executions), (Lifecycle::Active, 0));
}

/// A run that was held is claimed with a later time of its first attempt.
pub async fn a_claim_may_change_the_progress_that_was_read(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (run, claim) = subject.begin_run(&job).await;
    subject.commit(retry(run, claim)).await;
    let expected = Progress { retry: 1, ..Progress::first(at(90)) };
    let progress = Progress { first_started: Some(at(100)), next_at: at(120), ..expected };
    let (seen, lease) = (None, Duration::from_secs(10));
    let take = |expected| RunWrite::Claim { run, seen, owner: NODE, lease, progress, expected };
    assert_eq!(subject.commit(take(progress)).await, RunWriteResult::Stale);
    assert!(matches!(subject.commit(take(expected)).await, RunWriteResult::Claimed(_)));
    let open = subject.store.open_runs(job.key).await.unwrap();
    assert_eq!(open[0].progress, progress);
}

/// Entries of earlier versions have none.
pub async fn attempts_record_the_generation_of_their_definition(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (run, claim) = subject.begin_run(&job).await;
    let mut write = retry(run, claim);
    if let RunWrite::Continue { entry: Some(entry), .. } = &mut write {
        entry.generation = Some(u64::from(u32::MAX));
    }
    subject.commit(write).await;
    let generations: Vec<_> =
        subject.history_of("j").await.into_iter().map(|entry| entry.generation).collect();
    assert_eq!(generations, [Some(u64::from(u32::MAX))]);
}

/// The request increments the generation, so that a begin decided before it is rejected.
pub async fn runs_keep_a_requested_skip_and_no_skipped_occurrence_begins(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    assert_eq!(job.state.skip_until, None);
    let state = JobState { skip_until: Some(at(120)), ..job.state };
    let skip = JobPut { state, waiting: WaitingRuns::Keep, ..put(definition(), None) };
    let skipping = subject.put_job("j", skip).await;
    assert_eq!(subject.commit(begin(&job)).await, RunWriteResult::Stale);
    assert_eq!(subject.store.open_runs(job.key).await.unwrap(), []);

    let closed = vec![closed(Disposition::SkippedByRequest, 60)];
    let (on, advance) = (due(&skipping), advance(&skipping));
    let write = RunWrite::Skip { on, advance, closed: closed.clone(), postponed: vec![] };
    assert_eq!(subject.commit(write).await, RunWriteResult::Done);
    assert_eq!(subject.ledger_of(&job).await, closed);
    let advanced = subject.job("j").await.unwrap();
    assert_ne!(advanced.state.due, job.state.due);
    let (run, claim) = subject.begin_run(&advanced).await;
    assert_eq!(subject.commit(finish(run, claim.token, None)).await, RunWriteResult::Done);
    assert_eq!(subject.job("j").await.unwrap().state.skip_until, Some(at(120)));
    let jobs = subject.store.jobs_for_run(vec![job.key]).await.unwrap();
    assert_eq!(jobs[0].as_ref().unwrap().job.state.skip_until, Some(at(120)));
}
