//! Runs: the advance of jobs, manual runs, and batches of writes.

use kalends_domain::{AttemptStatus, CollectionState, Lifecycle, Switch};

use crate::api_store::{JobPut, JobWrite, WaitingRuns};
use crate::conformance::Subject;
use crate::conformance::sample::{
    LEASE, NODE, advance, at, begin, closed, collection_path, definition, due, entry, finish, put,
    retry, retry_at, standard,
};
use crate::engine_store::{Advance, DueJob, RunWrite, RunWriteResult};
use crate::record::{
    Cause, Disposition, FencingToken, GateState, JobKey, OpenRunSummary, Progress, RunId,
};

/// Jobs by due time, with a limit.
pub async fn only_active_enabled_jobs_in_enabled_collections_are_due(subject: Subject) {
    subject.create_collection().await;
    let late = subject.put_job("late", put(definition(), Some(at(61)))).await;
    let early = subject.create_due_job("early").await;
    let mut disabled = put(definition(), Some(at(60)));
    disabled.definition.switch = Switch::Disabled;
    subject.put_job("disabled", disabled).await;
    let mut done = put(definition(), Some(at(60)));
    done.state.lifecycle = Lifecycle::Completed;
    subject.put_job("done", done).await;
    subject.put_job("never", put(definition(), None)).await;

    let jobs = async |until, limit| {
        let due = subject.store.due(at(until), limit).await.unwrap();
        assert!(due.windows(2).all(|two| two[0].collection == two[1].collection));
        due.into_iter().map(|due| due.on).collect::<Vec<_>>()
    };
    assert_eq!(jobs(61, 9).await, [due(&early), due(&late)]);
    assert_eq!(jobs(60, 9).await, [due(&early)]);
    assert_eq!(jobs(61, 1).await, [due(&early)]);
    assert_eq!(jobs(59, 9).await, []);
    let between = async |from, until| {
        let due = subject.store.due_between(at(from), at(until), 9).await.unwrap();
        due.into_iter().map(|due| due.on).collect::<Vec<_>>()
    };
    assert_eq!(between(60, 61).await, [due(&early), due(&late)]);
    assert_eq!(between(61, 61).await, [due(&late)]);
    assert_eq!(between(62, 99).await, []);
    for state in [CollectionState::Disabled, CollectionState::Suspended] {
        let collection = kalends_domain::Collection { state, ..standard() };
        subject.put_collection(collection_path("g", "c"), collection).await;
        assert_eq!(jobs(61, 9).await, []);
        assert_eq!(subject.commit(begin(&early)).await, RunWriteResult::Stale);
    }
    subject.put_collection(collection_path("g", "c"), standard()).await;
    assert_eq!(jobs(61, 9).await, [due(&early), due(&late)]);
}

/// The next occurrence does not depend on the end of this one.
pub async fn beginning_an_occurrence_advances_the_job(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let before = subject.store.now().await.unwrap();
    let (run, claim) = subject.begin_run(&job).await;
    let after = subject.store.now().await.unwrap();
    assert_eq!((claim.owner, claim.token), (NODE, FencingToken(1)));
    assert!(before.saturating_add(LEASE) <= claim.lease_until);
    assert!(claim.lease_until <= after.saturating_add(LEASE));
    let moved = subject.job("j").await.unwrap();
    assert_eq!((moved.state.due, moved.state.used), (Some(at(120)), 1));
    assert_eq!((moved.version, moved.job), (job.version, job.job), "a run is not an edit");
    let open = subject.store.open_runs(job.key).await.unwrap();
    assert_eq!(open.len(), 1);
    assert_eq!((open[0].id, open[0].scheduled, open[0].repeat), (run, at(60), 1));
    assert_eq!((open[0].cause, open[0].claim), (Cause::Scheduled, Some(claim)));
    assert_eq!(open[0].progress, Progress::first(at(60)));
}

/// After an acknowledged edit, nothing begins that was decided before it.
pub async fn a_begin_that_precedes_an_edit_is_stale(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let edited = subject.create_due_job("j").await;
    assert_eq!(subject.commit(begin(&job)).await, RunWriteResult::Stale, "another generation");
    let elsewhere = DueJob { due: at(61), ..due(&edited) };
    let skip = RunWrite::Skip {
        on: elsewhere,
        advance: advance(&edited),
        closed: vec![],
        postponed: vec![],
    };
    assert_eq!(subject.commit(skip).await, RunWriteResult::Stale, "another due time");
    subject.edit_job("j", JobWrite::Delete).await;
    assert_eq!(subject.commit(begin(&edited)).await, RunWriteResult::Stale, "deleted");
}

/// After missed occurrences, the newest runs and the others are recorded.
pub async fn a_later_occurrence_than_the_due_one_may_run(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let mut write = begin(&job);
    if let RunWrite::Begin { scheduled, progress, closed: rows, .. } = &mut write {
        *scheduled = at(600);
        progress.next_at = at(600);
        *rows = vec![closed(Disposition::Missed, 60)];
    }
    assert!(matches!(subject.commit(write).await, RunWriteResult::Begun { .. }));
    let open = subject.store.open_runs(job.key).await.unwrap();
    assert_eq!((open[0].scheduled, open[0].progress.next_at), (at(600), at(600)));
    assert_eq!(subject.ledger_of(&job).await, [closed(Disposition::Missed, 60)]);
}

/// Two nodes may see the same job as due.
pub async fn an_occurrence_is_begun_once(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let results = subject.store.commit(vec![begin(&job), begin(&job)]).await.unwrap();
    assert!(
        matches!(results[..], [RunWriteResult::Begun { .. }, RunWriteResult::Stale]),
        "{results:?}"
    );
    assert_eq!(subject.commit(begin(&job)).await, RunWriteResult::Stale);
    assert_eq!(subject.store.open_runs(job.key).await.unwrap().len(), 1);
}

/// Every skipped occurrence is in the ledger.
pub async fn skipped_occurrences_are_recorded(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let mut missed = closed(Disposition::Missed, 60);
    (missed.to, missed.count) = (at(6_000), 100);
    let postponed = entry(AttemptStatus::Postponed, 60);
    let skip = RunWrite::Skip {
        on: due(&job),
        advance: Advance { due: Some(at(6_060)), used: 0, lifecycle: Lifecycle::Active },
        closed: vec![missed.clone()],
        postponed: vec![postponed.clone()],
    };
    assert_eq!(subject.commit(skip.clone()).await, RunWriteResult::Done);
    assert_eq!(subject.commit(skip).await, RunWriteResult::Stale);
    assert_eq!(subject.ledger_of(&job).await, [missed]);
    assert_eq!(subject.history_of("j").await, [postponed]);
    let state = subject.job("j").await.unwrap().state;
    assert_eq!((state.due, state.used, state.executions), (Some(at(6_060)), 0, 0));

    let last = RunWrite::Skip {
        on: DueJob { due: at(6_060), ..due(&job) },
        advance: Advance { due: None, used: 0, lifecycle: Lifecycle::Completed },
        closed: vec![closed(Disposition::SkippedOverlap, 6_060)],
        postponed: vec![],
    };
    assert_eq!(subject.commit(last).await, RunWriteResult::Done);
    let state = subject.job("j").await.unwrap().state;
    assert_eq!((state.due, state.lifecycle), (None, Lifecycle::Completed));
    assert!(state.finished.is_some());
}

/// Occurrences that came due and did not begin are in the ledger.
pub async fn an_edit_records_the_occurrences_it_closes(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let closed_by_edit = crate::record::LedgerRecord {
        to: at(180),
        count: 3,
        ..closed(Disposition::Superseded, 60)
    };
    let edit =
        JobPut { closed_by_edit: Some(closed_by_edit.clone()), ..put(definition(), Some(at(240))) };
    subject.put_job("j", edit).await;
    assert_eq!(subject.ledger_of(&job).await, [closed_by_edit]);
}

/// Works for disabled jobs too.
pub async fn a_manual_run_is_opened_beside_the_schedule(subject: Subject) {
    subject.create_collection().await;
    let mut disabled = put(definition(), Some(at(60)));
    disabled.definition.switch = Switch::Disabled;
    let job = subject.put_job("j", disabled).await;
    let edited = subject.edit_job("j", JobWrite::Run { at: at(5) }).await;
    assert_eq!(edited.after, Some(job.clone()), "schedule, count and version stay");
    let runs = subject.store.claimable(at(5), 9).await.unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].cause, runs[0].scheduled, runs[0].claim), (Cause::Manual, at(5), None));
    assert_eq!((runs[0].job, runs[0].progress), (job.key, Progress::first(at(5))));
}

/// A claimed run continues under the old generation.
pub async fn an_edit_closes_unclaimed_runs(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (waiting, claim) = subject.begin_run(&job).await;
    subject.commit(retry(waiting, claim.token, 90)).await;
    let (busy, held) = subject.begin_run(&subject.job("j").await.unwrap()).await;
    let edit = JobPut { waiting: WaitingRuns::Supersede, ..put(definition(), Some(at(180))) };
    let edited = subject.put_job("j", edit).await;
    let open = subject.store.open_runs(job.key).await.unwrap();
    assert_eq!(open.iter().map(|run| (run.id, run.generation)).collect::<Vec<_>>(), [(busy, 1)]);
    let ledger = subject.ledger_of(&edited).await;
    assert_eq!(ledger.len(), 1);
    assert_eq!(
        (ledger[0].from, ledger[0].disposition, ledger[0].generation),
        (at(60), Disposition::Superseded, 1)
    );
    assert_eq!(subject.commit(finish(busy, held.token, None)).await, RunWriteResult::Done);
}

/// Writes to runs of a deleted job are stale.
pub async fn deleting_a_job_deletes_its_runs(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (run, claim) = subject.begin_run(&job).await;
    subject.edit_job("j", JobWrite::Delete).await;
    assert_eq!(subject.commit(finish(run, claim.token, None)).await, RunWriteResult::Stale);
    assert_eq!(subject.store.open_runs(job.key).await.unwrap(), []);
    assert_eq!(subject.ledger_of(&job).await, []);
    assert_eq!(subject.store.check().await.unwrap(), [""; 0]);
}

/// Retries resume when the collection is enabled again.
pub async fn runs_of_disabled_collections_are_not_claimable(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (run, claim) = subject.begin_run(&job).await;
    subject.commit(retry(run, claim.token, 90)).await;
    let disabled = kalends_domain::Collection { state: CollectionState::Disabled, ..standard() };
    subject.put_collection(collection_path("g", "c"), disabled).await;
    assert_eq!(subject.store.claimable(at(90), 9).await.unwrap(), []);
    subject.put_collection(collection_path("g", "c"), standard()).await;
    assert_eq!(subject.store.claimable(at(90), 9).await.unwrap().len(), 1);
}

/// The other writes take effect.
pub async fn a_stale_write_does_not_affect_the_others_of_its_batch(subject: Subject) {
    subject.create_collection().await;
    let first = subject.create_due_job("first").await;
    let second = subject.create_due_job("second").await;
    subject.commit(begin(&first)).await;
    let writes =
        vec![begin(&first), begin(&second), finish(RunId(i64::MAX), FencingToken(1), None)];
    let results = subject.store.commit(writes).await.unwrap();
    assert!(
        matches!(
            results[..],
            [RunWriteResult::Stale, RunWriteResult::Begun { .. }, RunWriteResult::Stale]
        ),
        "{results:?}"
    );
    assert_eq!(subject.store.commit(vec![]).await.unwrap(), []);
}

/// Each write sees the effects of the previous ones.
pub async fn writes_of_a_batch_are_applied_in_order(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (run, claim) = subject.begin_run(&job).await;
    let next = subject.job("j").await.unwrap();
    let writes = vec![
        retry(run, claim.token, 90),
        finish(run, claim.token, None),
        begin(&next),
        RunWrite::Claim {
            run,
            seen: None,
            owner: NODE,
            lease: LEASE,
            progress: retry_at(90),
            expected: retry_at(90),
        },
        finish(run, FencingToken(claim.token.0 + 1), None),
    ];
    let results = subject.store.commit(writes).await.unwrap();
    assert!(
        matches!(
            results[..],
            [
                RunWriteResult::Done,
                RunWriteResult::Stale,
                RunWriteResult::Begun { .. },
                RunWriteResult::Claimed(_),
                RunWriteResult::Done
            ]
        ),
        "{results:?}"
    );
    let state = subject.job("j").await.unwrap().state;
    assert_eq!((state.executions, state.failures, state.used), (2, 1, 2));
    assert_eq!(subject.store.open_runs(job.key).await.unwrap().len(), 1);
}

/// Results are in the order of the keys; missing jobs are `None`.
pub async fn jobs_for_run_and_gate_states_are_read_in_bulk(subject: Subject) {
    let collection = subject.create_collection().await;
    let idle = subject.create_due_job("idle").await;
    let busy = subject.create_due_job("busy").await;
    let mut off = put(definition(), Some(at(60)));
    off.definition.switch = Switch::Disabled;
    let off = subject.put_job("off", off).await;
    subject.begin_run(&busy).await;
    let busy = subject.job("busy").await.unwrap();

    let keys = vec![off.key, JobKey(i64::MAX), busy.key, idle.key];
    let jobs_for_run = subject.store.jobs_for_run(keys.clone()).await.unwrap();
    let gate_states = subject.store.gate_states(keys).await.unwrap();
    let location = standard().location;
    let expected = [Some(&off), None, Some(&busy), Some(&idle)];
    for (job, (found, gate_state)) in
        expected.into_iter().zip(jobs_for_run.iter().zip(&gate_states))
    {
        let read = found.as_ref().map(|found| (&found.job, &found.location));
        assert_eq!(read, job.map(|job| (job, &location)));
        let open = found.as_ref().map_or(0, |found| found.open.count);
        assert_eq!(open, usize::from(job == Some(&busy)));
        let expected = job.map(|job| GateState {
            generation: job.job.generation,
            switch: job.job.definition.switch,
            collection: Switch::Enabled,
            state: job.state,
            schedule_generation: job.job.schedule_generation,
            enabled_since: collection.enabled_since,
            pause: None,
        });
        assert_eq!(*gate_state, expected);
    }
    let disabled = kalends_domain::Collection { state: CollectionState::Disabled, ..standard() };
    subject.put_collection(collection_path("g", "c"), disabled).await;
    let gate_states = subject.store.gate_states(vec![idle.key]).await.unwrap();
    assert_eq!(gate_states[0].map(|state| state.collection), Some(Switch::Disabled));
}

/// The engine keeps the summary for each run it executes: memory must not grow with the square of
/// their number.
pub async fn the_summary_of_open_runs_counts_all_and_lists_the_first_scheduled(subject: Subject) {
    subject.create_collection().await;
    let mut job = subject.create_due_job("j").await;
    let key = job.key;
    let mut scheduled = Vec::new();
    for number in 0..OpenRunSummary::SCHEDULED_MAX + 3 {
        subject.edit_job("j", JobWrite::Run { at: at(number as u64) }).await;
        scheduled.push(subject.begin_run(&job).await.0);
        job = subject.job("j").await.unwrap();
    }
    let found = subject.store.jobs_for_run(vec![key]).await.unwrap().remove(0).unwrap();
    let open = &found.open;
    assert_eq!(open.count, 2 * scheduled.len());
    scheduled.truncate(OpenRunSummary::SCHEDULED_MAX);
    let listed: Vec<_> = open.scheduled.iter().map(|run| run.id).collect();
    assert_eq!(listed, scheduled, "the ones opened first");
}

/// Two runs of one job are due at the same time, such as a retry and a manual run: the engine asks
/// for the job of each.
pub async fn each_position_is_answered_when_a_job_is_named_twice(subject: Subject) {
    subject.create_collection().await;
    let (job, other) = (subject.create_due_job("j").await, subject.create_due_job("other").await);
    subject.begin_run(&job).await;
    subject.edit_job("j", JobWrite::Run { at: at(61) }).await;
    let keys = vec![job.key, other.key, job.key, JobKey(i64::MAX), job.key];
    let jobs_for_run = subject.store.jobs_for_run(keys.clone()).await.unwrap();
    let found: Vec<_> = jobs_for_run
        .iter()
        .map(|found| found.as_ref().map(|found| (found.job.key, found.open.count)))
        .collect();
    let (twice, once) = (Some((job.key, 2)), Some((other.key, 0)));
    assert_eq!(found, [twice, once, twice, None, twice]);
    let gate_states = subject.store.gate_states(keys).await.unwrap();
    let answered: Vec<_> = gate_states.iter().map(Option::is_some).collect();
    assert_eq!(answered, [true, true, true, false, true]);
    assert_eq!(gate_states[0], gate_states[2]);
}

/// Both entries are recorded, and both runs are closed.
pub async fn two_runs_of_one_job_finish_in_one_batch(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (first, claim) = subject.begin_run(&job).await;
    let (second, other) = subject.begin_run(&subject.job("j").await.unwrap()).await;
    let writes = vec![
        finish(first, claim.token, None),
        finish(second, other.token, None),
        finish(first, claim.token, None),
    ];
    let results = subject.store.commit(writes).await.unwrap();
    assert_eq!(results, [RunWriteResult::Done, RunWriteResult::Done, RunWriteResult::Stale]);
    assert_eq!(subject.store.open_runs(job.key).await.unwrap(), []);
    assert_eq!(subject.history_of("j").await.len(), 2);
    assert_eq!(subject.ledger_of(&job).await.len(), 2);
    assert_eq!(subject.job("j").await.unwrap().state.executions, 2);
    assert_eq!(subject.store.check().await.unwrap(), [""; 0]);
}
