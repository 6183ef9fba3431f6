//! Claims of runs: fencing tokens, leases, takeover and the heartbeats of nodes.

use std::time::Duration;

use kalends_domain::{AttemptStatus, Lifecycle};

use crate::conformance::Subject;
use crate::conformance::sample::{
    LEASE, NODE, at, begin, closed, entry, failed, finish, retry, retry_at,
};
use crate::engine_store::{
    ClaimAfter, HEARTBEAT_VALID, Heartbeat, LeaseRenewal, RenewalResult, RunWrite, RunWriteResult,
};
use crate::record::{Disposition, FencingToken, NodeId, Progress, RunId};

/// Writes with another or an outdated token are stale.
pub async fn only_the_holder_of_the_fencing_token_continues_or_finishes_a_run(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (run, claim) = subject.begin_run(&job).await;
    let foreign = FencingToken(claim.token.0 + 1);
    assert_eq!(subject.commit(retry(run, foreign, 90)).await, RunWriteResult::Stale);
    assert_eq!(subject.commit(finish(run, foreign, None)).await, RunWriteResult::Stale);
    assert_eq!(subject.history_of("j").await, []);

    assert_eq!(subject.commit(retry(run, claim.token, 90)).await, RunWriteResult::Done);
    let open = subject.store.open_runs(job.key).await.unwrap();
    assert_eq!((open[0].claim, open[0].progress), (None, retry_at(90)));
    assert_eq!(
        subject.commit(retry(run, claim.token, 90)).await,
        RunWriteResult::Stale,
        "released"
    );

    let claimed = RunWrite::Claim {
        run,
        seen: None,
        owner: NODE,
        lease: LEASE,
        progress: retry_at(90),
        expected: retry_at(90),
    };
    let RunWriteResult::Claimed(second) = subject.commit(claimed).await else {
        panic!("not claimed")
    };
    assert!(second.token > claim.token);
    assert_eq!(
        subject.commit(finish(run, claim.token, None)).await,
        RunWriteResult::Stale,
        "an old token"
    );
    assert_eq!(subject.commit(finish(run, second.token, None)).await, RunWriteResult::Done);
    assert_eq!(
        subject.commit(finish(run, second.token, None)).await,
        RunWriteResult::Stale,
        "finished"
    );
    assert_eq!(subject.store.open_runs(job.key).await.unwrap(), []);
    assert_eq!(subject.ledger_of(&job).await, [closed(Disposition::Completed, 60)]);
    let statuses: Vec<_> = subject.history_of("j").await.iter().map(|entry| entry.status).collect();
    assert_eq!(statuses, [AttemptStatus::Completed, AttemptStatus::Failed]);
    let state = subject.job("j").await.unwrap().state;
    assert_eq!((state.executions, state.failures, state.faulted), (2, 1, 0));
    assert_eq!((state.last_execution, state.lifecycle), (Some(at(60)), Lifecycle::Active));
}

/// The next attempt starts at once on the same node, without a second claim.
pub async fn a_kept_claim_has_a_new_token_and_expires_like_any_other(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (run, first) = subject.begin_run(&job).await;
    let keep = |token, lease| RunWrite::Continue {
        run,
        token,
        entry: Some(entry(AttemptStatus::Failed, 60)),
        counts: failed(60),
        progress: retry_at(60),
        claim: ClaimAfter::Keep { lease },
    };
    let stranger = FencingToken(first.token.0 + 1);
    assert_eq!(subject.commit(keep(stranger, LEASE)).await, RunWriteResult::Stale);
    let before = subject.store.now().await.unwrap();
    let RunWriteResult::Claimed(kept) = subject.commit(keep(first.token, LEASE)).await else {
        panic!("not kept")
    };
    assert!(kept.owner == first.owner && kept.token > first.token);
    assert!(kept.lease_until >= before.saturating_add(LEASE), "renewed");
    let open = subject.store.open_runs(job.key).await.unwrap();
    assert_eq!((open[0].claim, open[0].progress), (Some(kept), retry_at(60)));
    let statuses = subject.history_of("j").await.len();
    for write in [keep(first.token, LEASE), finish(run, first.token, None)] {
        assert_eq!(subject.commit(write).await, RunWriteResult::Stale, "the reply was lost");
    }
    assert_eq!(subject.history_of("j").await.len(), statuses, "recorded once");

    let short = Duration::from_millis(1);
    let RunWriteResult::Claimed(expired) = subject.commit(keep(kept.token, short)).await else {
        panic!("not kept")
    };
    (subject.advance_clock)(short * 2).await;
    let take_over = RunWrite::Claim {
        run,
        seen: Some(expired.token),
        owner: NodeId(99),
        lease: LEASE,
        progress: retry_at(60),
        expected: retry_at(60),
    };
    let RunWriteResult::Claimed(taken) = subject.commit(take_over).await else {
        panic!("not taken over")
    };
    assert!(taken.token > expired.token);
    assert_eq!(subject.commit(finish(run, expired.token, None)).await, RunWriteResult::Stale);
    assert_eq!(subject.commit(finish(run, taken.token, None)).await, RunWriteResult::Done);
}

/// The first of two claims wins.
pub async fn an_unclaimed_run_is_claimed_once(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (run, claim) = subject.begin_run(&job).await;
    subject.commit(retry(run, claim.token, 90)).await;
    let claimable = async |until| subject.store.claimable(at(until), 9).await.unwrap();
    assert_eq!(claimable(89).await, []);
    assert_eq!(claimable(90).await.len(), 1);
    let claim = |owner| RunWrite::Claim {
        run,
        seen: None,
        owner,
        lease: LEASE,
        progress: retry_at(90),
        expected: retry_at(90),
    };
    let results = subject.store.commit(vec![claim(NodeId(1)), claim(NodeId(2))]).await.unwrap();
    assert!(
        matches!(results[..], [RunWriteResult::Claimed(claim), RunWriteResult::Stale] if claim.owner == NodeId(1))
    );
    assert_eq!(claimable(90).await, []);
}

/// The node that held the claim has died or paused.
pub async fn an_expired_claim_is_taken_over_and_the_old_token_is_fenced_off(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let short = Duration::from_millis(1);
    let mut write = begin(&job);
    if let RunWrite::Begin { lease, .. } = &mut write {
        *lease = short;
    }
    let RunWriteResult::Begun { run, claim: Some(old) } = subject.commit(write).await else {
        panic!()
    };
    (subject.advance_clock)(short * 2).await;
    let expired = subject.store.claimable(at(0), 9).await.unwrap();
    assert_eq!(expired.iter().map(|run| run.id).collect::<Vec<_>>(), [run]);
    let take = |seen| RunWrite::Claim {
        run,
        seen,
        owner: NodeId(8),
        lease: LEASE,
        progress: Progress { redelivery: 1, ..Progress::first(at(60)) },
        expected: Progress::first(at(60)),
    };
    assert_eq!(subject.commit(take(None)).await, RunWriteResult::Stale, "it has a claim");
    let RunWriteResult::Claimed(new) = subject.commit(take(Some(old.token))).await else {
        panic!()
    };
    assert!(new.token > old.token);
    assert_eq!(
        subject.commit(take(Some(new.token))).await,
        RunWriteResult::Stale,
        "it has not expired"
    );
    assert_eq!(subject.commit(finish(run, old.token, None)).await, RunWriteResult::Stale);
    let extend = RunWrite::RenewLease { run, token: old.token, lease: LEASE };
    assert_eq!(subject.commit(extend).await, RunWriteResult::Stale);
    assert_eq!(subject.commit(finish(run, new.token, None)).await, RunWriteResult::Done);
    assert_eq!(subject.ledger_of(&job).await.len(), 1);
}

/// A claim must not reset the progress of a run that changed after it was read.
pub async fn a_claim_based_on_outdated_progress_is_stale(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (run, claim) = subject.begin_run(&job).await;
    subject.commit(retry(run, claim.token, 90)).await;
    let claim_at = |progress| RunWrite::Claim {
        run,
        seen: None,
        owner: NODE,
        lease: LEASE,
        progress,
        expected: progress,
    };
    let RunWriteResult::Claimed(second) = subject.commit(claim_at(retry_at(90))).await else {
        panic!()
    };
    subject.commit(retry(run, second.token, 180)).await;
    assert_eq!(subject.commit(claim_at(retry_at(90))).await, RunWriteResult::Stale);
    let RunWriteResult::Claimed(third) = subject.commit(claim_at(retry_at(180))).await else {
        panic!()
    };
    assert_eq!(third.token, FencingToken(3));
}

/// Attempts may last longer than a lease.
pub async fn the_holder_of_the_token_renews_its_lease(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (run, claim) = subject.begin_run(&job).await;
    let extend = RunWrite::RenewLease { run, token: claim.token, lease: 6 * LEASE };
    let RunWriteResult::Claimed(longer) = subject.commit(extend).await else { panic!() };
    assert_eq!((longer.owner, longer.token), (claim.owner, claim.token));
    assert!(longer.lease_until >= claim.lease_until.saturating_add(5 * LEASE));
    assert_eq!(subject.store.open_runs(job.key).await.unwrap()[0].claim, Some(longer));
}

/// Renewals have a call of their own, which does not wait for other writes.
pub async fn renewals_of_leases_extend_held_claims_and_report_lost_ones(subject: Subject) {
    subject.create_collection().await;
    let mut claims = Vec::new();
    for name in ["held", "closed", "taken"] {
        let job = subject.create_due_job(name).await;
        claims.push((job.key, subject.begin_run(&job).await));
    }
    let [(held_job, (held, held_claim)), (_, (closed, closed_claim)), (_, (taken, old))] =
        claims[..]
    else {
        panic!()
    };
    subject.commit(finish(closed, closed_claim.token, None)).await;
    (subject.advance_clock)(2 * LEASE).await;
    let claim = RunWrite::Claim {
        run: taken,
        seen: Some(old.token),
        owner: NodeId(8),
        lease: LEASE,
        progress: Progress::first(at(60)),
        expected: Progress::first(at(60)),
    };
    assert!(matches!(subject.commit(claim).await, RunWriteResult::Claimed(_)));
    let renewal = |run, token| LeaseRenewal { run, token, lease: LEASE };
    let renewals = vec![
        renewal(taken, old.token),
        renewal(held, held_claim.token),
        renewal(closed, closed_claim.token),
        renewal(RunId(i64::MAX), old.token),
    ];
    let results = subject.store.renew_leases(renewals).await.unwrap();
    let [RenewalResult::Lost, RenewalResult::Renewed(renewed), RenewalResult::Lost, last] =
        results[..]
    else {
        panic!("{results:?}")
    };
    assert_eq!(last, RenewalResult::Lost);
    assert_eq!((renewed.owner, renewed.token), (held_claim.owner, held_claim.token));
    assert!(renewed.lease_until > subject.store.now().await.unwrap());
    assert_eq!(subject.store.open_runs(held_job).await.unwrap()[0].claim, Some(renewed));
}

/// A single process need not wait for the claims of its predecessor to expire.
pub async fn expire_claims_releases_all_runs_at_once(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    let (run, claim) = subject.begin_run(&job).await;
    assert_eq!(subject.store.claimable(at(60), 9).await.unwrap(), []);
    assert_eq!(subject.store.expire_claims().await.unwrap(), 1);
    let claimable = subject.store.claimable(at(60), 9).await.unwrap();
    assert_eq!(claimable.iter().map(|run| run.id).collect::<Vec<_>>(), [run]);
    let seen = Some(claim.token);
    let progress = Progress { redelivery: 1, ..Progress::first(at(60)) };
    let take =
        RunWrite::Claim { run, seen, owner: NodeId(8), lease: LEASE, progress, expected: progress };
    let taken = subject.commit(take).await;
    assert!(matches!(taken, RunWriteResult::Claimed(taken) if taken.token > claim.token));
}

/// A store of a single node knows no others.
pub async fn a_heartbeat_returns_the_earliest_start_of_the_other_nodes_in_service(
    subject: Subject,
) {
    let beat = async |node, since, sent| {
        let heartbeat = Heartbeat { node: NodeId(node), serving_since: at(since), sent: at(sent) };
        subject.store.record_heartbeat(heartbeat).await.unwrap()
    };
    let valid = HEARTBEAT_VALID.as_secs();
    assert_eq!(beat(1, 100, 1_000).await, None);
    if beat(2, 1_000, 1_000).await.is_none() {
        assert_eq!(beat(1, 100, 1_001).await, None, "a store of a single node");
        return;
    }
    assert_eq!(beat(1, 100, 1_001).await, Some(at(1_000)));
    assert_eq!(beat(3, 50, 1_002).await, Some(at(100)));
    assert_eq!(beat(2, 1_000, 1_002).await, Some(at(50)));
    // Node 3 is gone; node 1 had an outage.
    assert_eq!(beat(1, 1_007, 1_002 + valid + 1).await, None);
    assert_eq!(beat(2, 1_000, 1_002 + valid + 1).await, Some(at(1_007)));
    // A heartbeat that the store gets late does not count as a new one.
    assert_eq!(beat(1, 10, 1_002).await, Some(at(50)));
    assert_eq!(beat(2, 1_000, 1_009).await, None);
    // The clock was set back.
    assert_eq!(beat(3, 900, 900).await, None);
}
