use std::time::Duration;

use kalends_domain::{ActionRole, AttemptStatus, Timing};

use super::*;
use crate::record::NodeId;

const JOB: JobKey = JobKey(7);
const LEASE: Duration = Duration::from_secs(10);
const DONE: AttemptCounts = AttemptCounts { executed: None, failed: false, faulted: false };

fn at(seconds: i64) -> Instant {
    Instant::from_unix_seconds(seconds).unwrap()
}

fn job(due: Option<i64>) -> JobRow {
    let state = JobState { due: due.map(at), used: 3, ..JobState::default() };
    JobRow { generation: 2, schedule_generation: 2, is_enabled: true, state }
}

fn run(claim: Option<(u64, i64)>) -> RunRow {
    let claim = claim.map(|(token, lease)| Claim {
        owner: NodeId(1),
        token: FencingToken(token),
        lease_until: at(lease),
    });
    let mut row = manual_run(RunId(5), JOB, 2, at(100));
    row.run.cause = Cause::Scheduled;
    row.run.claim = claim;
    row.last_token = 4;
    row
}

fn entry() -> HistoryEntry {
    HistoryEntry {
        started: at(100),
        ended: at(101),
        expected: at(100),
        status: AttemptStatus::Failed,
        message: "no".into(),
        retry: 0,
        repeat: 3,
        role: ActionRole::Main,
        timing: Timing::default(),
        generation: Some(1),
    }
}

fn record(disposition: Disposition) -> LedgerRecord {
    let closed = close_superseded_run(&run(None).run, at(102)).unwrap();
    LedgerRecord { disposition, ..closed }
}

fn begin(owner: Option<NodeId>) -> RunWrite {
    RunWrite::Begin {
        on: DueJob { job: JOB, generation: 2, due: at(100) },
        scheduled: at(100),
        progress: Progress::first(at(100)),
        owner,
        lease: LEASE,
        advance: Advance { due: Some(at(160)), used: 4, lifecycle: Lifecycle::Active },
        closed: vec![record(Disposition::Missed)],
        postponed: vec![entry()],
        waits_for: None,
    }
}

fn claim(seen: Option<u64>, progress: Progress) -> RunWrite {
    let seen = seen.map(FencingToken);
    RunWrite::Claim {
        run: RunId(5),
        seen,
        owner: NodeId(2),
        lease: LEASE,
        progress,
        expected: progress,
    }
}

fn finish(token: u64, lifecycle: Option<Lifecycle>) -> RunWrite {
    RunWrite::Finish {
        run: RunId(5),
        token: FencingToken(token),
        entry: Some(entry()),
        counts: AttemptCounts { executed: Some(at(100)), failed: true, faulted: true },
        closed: record(Disposition::Failed),
        lifecycle,
        unused: None,
    }
}

fn rows(job: Option<JobRow>, run: Option<RunRow>) -> Rows {
    Rows { job, run, has_other_run: false, new_run: Some(RunId(9)), pause: None }
}

#[test]
fn an_occurrence_begins_only_on_the_job_that_was_read() {
    let write = begin(Some(NodeId(1)));
    let change = apply(&rows(Some(job(Some(100))), None), &write, at(99)).unwrap();
    let RunChange::Open(opened) = change.run else { panic!("{change:?}") };
    let lease_until = at(109);
    let expected = Claim { owner: NodeId(1), token: FencingToken(1), lease_until };
    assert_eq!((opened.run.id, opened.run.claim), (RunId(9), Some(expected)));
    assert_eq!(opened.run.repeat, 4);
    assert_eq!(change.job.map(|(_, state)| (state.due, state.used)), Some((Some(at(160)), 4)));
    assert_eq!((change.ledger.len(), change.history.len()), (1, 1));

    let edited = JobRow { generation: 3, ..job(Some(100)) };
    let disabled = JobRow { is_enabled: false, ..job(Some(100)) };
    let mut finished = job(Some(100));
    finished.state.lifecycle = Lifecycle::Completed;
    for present in [None, Some(job(Some(160))), Some(edited), Some(disabled), Some(finished)] {
        let rejected = apply(&rows(present, None), &write, at(99));
        assert_eq!(rejected, Err(Rejected::JobChanged), "{present:?}");
    }
}

#[test]
fn a_job_ends_with_a_skipped_occurrence_only_if_no_run_of_its_schedule_is_open() {
    let write = RunWrite::Skip {
        on: DueJob { job: JOB, generation: 2, due: at(100) },
        advance: Advance { due: None, used: 3, lifecycle: Lifecycle::Completed },
        closed: vec![],
        postponed: vec![],
    };
    for (has_other_run, expected) in [(false, Lifecycle::Completed), (true, Lifecycle::Active)] {
        let rows = Rows { has_other_run, ..rows(Some(job(Some(100))), None) };
        let (_, state) = apply(&rows, &write, at(101)).unwrap().job.unwrap();
        assert_eq!(state.lifecycle, expected);
        assert_eq!(state.finished, (!has_other_run).then(|| at(101)));
    }
}

#[test]
fn a_claim_needs_a_free_run_and_the_token_that_was_read() {
    let first = Progress::first(at(100));
    let later = Progress::first(at(130));
    let cases = [
        (None, claim(None, first), Ok(())),
        (None, claim(None, later), Err(Rejected::NotClaimable)),
        (None, claim(Some(4), first), Err(Rejected::NotClaimable)),
        (Some((4, 150)), claim(Some(4), later), Err(Rejected::NotClaimable)),
        (Some((4, 120)), claim(Some(4), later), Err(Rejected::NotClaimable)),
        (Some((4, 119)), claim(Some(4), later), Ok(())),
        (Some((4, 119)), claim(Some(3), later), Err(Rejected::NotClaimable)),
        (Some((4, 119)), claim(None, later), Err(Rejected::NotClaimable)),
    ];
    for (present, write, expected) in cases {
        let change = apply(&rows(None, Some(run(present))), &write, at(120));
        assert_eq!(change.as_ref().map(drop), expected.as_ref().map(drop), "{present:?} {write:?}");
        if let Ok(Change { run: RunChange::Update(row), .. }) = change {
            let claim = row.run.claim.unwrap();
            assert_eq!((claim.token, claim.lease_until), (FencingToken(5), at(130)));
            assert_eq!(row.last_token, 5, "a token is never handed out twice");
        }
    }
    assert_eq!(apply(&rows(None, None), &claim(None, first), at(1)), Err(Rejected::RunClosed));
}

#[test]
fn a_stale_owner_changes_nothing() {
    let renew = |token| RunWrite::RenewLease { run: RunId(5), token, lease: LEASE };
    let go_on = |token| RunWrite::Continue {
        run: RunId(5),
        token,
        entry: None,
        counts: DONE,
        progress: Progress::first(at(130)),
        claim: ClaimAfter::Keep { lease: LEASE },
    };
    let (job, stale) = (Some(job(None)), FencingToken(3));
    for write in [renew(stale), go_on(stale), finish(3, Some(Lifecycle::Completed))] {
        let taken_over = rows(job, Some(run(Some((4, 150)))));
        assert_eq!(apply(&taken_over, &write, at(120)), Err(Rejected::ClaimLost), "{write:?}");
        let released = rows(job, Some(run(None)));
        assert_eq!(apply(&released, &write, at(120)), Err(Rejected::ClaimLost), "{write:?}");
        assert_eq!(apply(&rows(job, None), &write, at(120)), Err(Rejected::RunClosed));
    }
    // An expired lease that no other node took over still counts.
    let held = rows(job, Some(run(Some((4, 1)))));
    let write = renew(FencingToken(4));
    let renewed = apply(&held, &write, at(120)).unwrap();
    let RunChange::Update(row) = renewed.run else { panic!("{renewed:?}") };
    assert_eq!(row.run.claim.map(|claim| claim.lease_until), Some(at(130)));
}

#[test]
fn a_retry_releases_the_claim_and_counts_the_attempt() {
    let progress = Progress { retry: 1, ..Progress::first(at(130)) };
    let counts = AttemptCounts { executed: Some(at(100)), failed: true, faulted: false };
    let (run_id, token, entry) = (RunId(5), FencingToken(4), Some(entry()));
    let claim = ClaimAfter::Release;
    let write = RunWrite::Continue { run: run_id, token, entry, counts, progress, claim };
    let rows = rows(Some(job(Some(160))), Some(run(Some((4, 150)))));
    let change = apply(&rows, &write, at(120)).unwrap();
    assert_eq!(change.result(), RunWriteResult::Done);
    let RunChange::Update(row) = change.run else { panic!("{change:?}") };
    assert_eq!((row.run.claim, row.run.progress, row.last_token), (None, progress, 4));
    let (_, state) = change.job.unwrap();
    assert_eq!((state.executions, state.failures, state.faulted), (1, 1, 0));
    assert_eq!(state.last_execution, Some(at(100)));
    assert_eq!((change.ledger.len(), change.history.len()), (0, 1));
}

#[test]
fn a_kept_claim_has_the_same_owner_a_new_token_and_a_renewed_lease() {
    let progress = Progress { role: ActionRole::Error, ..Progress::first(at(120)) };
    let (run_id, token, claim) = (RunId(5), FencingToken(4), ClaimAfter::Keep { lease: LEASE });
    let write = RunWrite::Continue {
        run: run_id,
        token,
        entry: Some(entry()),
        counts: DONE,
        progress,
        claim,
    };
    let present = run(Some((4, 150)));
    let owner = present.run.claim.unwrap().owner;
    let change = apply(&rows(Some(job(Some(160))), Some(present)), &write, at(120)).unwrap();
    let kept = Claim { owner, token: FencingToken(5), lease_until: at(130) };
    assert_eq!(change.result(), RunWriteResult::Claimed(kept));
    assert_eq!(change.history.len(), 1);
    let RunChange::Update(row) = change.run else { panic!("{change:?}") };
    assert_eq!((row.run.claim, row.run.progress, row.last_token), (Some(kept), progress, 5));
    let repeated = apply(&rows(Some(job(Some(160))), Some(row)), &write, at(121));
    assert_eq!(repeated, Err(Rejected::ClaimLost), "its reply was lost");
}

#[test]
fn the_last_run_of_a_schedule_ends_its_job() {
    let write = finish(4, Some(Lifecycle::Faulted));
    let held = Some(run(Some((4, 150))));
    let lifecycle = |rows: &Rows| {
        let change = apply(rows, &write, at(120)).unwrap();
        assert_eq!(change.run, RunChange::Close(RunId(5)));
        assert_eq!((change.ledger.len(), change.history.len()), (1, 1));
        change.job.map(|(_, state)| (state.lifecycle, state.faulted))
    };
    assert_eq!(lifecycle(&rows(Some(job(None)), held)), Some((Lifecycle::Faulted, 1)));
    let recurring = rows(Some(job(Some(160))), held);
    assert_eq!(lifecycle(&recurring), Some((Lifecycle::Active, 1)));
    let others = Rows { has_other_run: true, ..rows(Some(job(None)), held) };
    assert_eq!(lifecycle(&others), Some((Lifecycle::Active, 1)));
    let edited = JobRow { generation: 3, schedule_generation: 3, ..job(None) };
    assert_eq!(lifecycle(&rows(Some(edited), held)), Some((Lifecycle::Active, 1)));
    assert_eq!(lifecycle(&rows(None, held)), None, "a deleted job keeps no counters");
}

#[test]
fn an_edit_closes_waiting_runs_and_leaves_claimed_ones() {
    let closed = close_superseded_run(&run(None).run, at(120)).unwrap();
    assert_eq!(
        (closed.from, closed.to, closed.count, closed.closed),
        (at(100), at(100), 1, at(120))
    );
    assert_eq!(close_superseded_run(&run(Some((4, 1))).run, at(120)), None);
}

#[test]
fn an_expired_claim_keeps_its_owner_and_token() {
    let expired = expire_claim(run(Some((4, 150)))).unwrap();
    let claim = expired.run.claim.unwrap();
    assert_eq!((claim.token, claim.lease_until), (FencingToken(4), Instant::MIN));
    assert_eq!(expire_claim(run(None)), None);
}
