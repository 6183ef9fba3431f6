//! Renewal of leases, and attempts whose lease ends before they send.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kalends_recurrence::Instant;
use kalends_store::record::{JobRecord, NodeId};
use kalends_store::{ApiStore, EngineStore, RunWrite, RunWriteResult};

use crate::world::{Response, World, at, job, run};

#[test]
fn a_failed_renewal_is_retried_before_the_renewals_of_younger_claims() {
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        world.respond(&[Response::Hang, Response::Hang]);
        let older = world.put("older", job(&at(10), None)).await;
        world.put("younger", job(&at(14), None)).await;
        world.pass(14).await;
        assert_eq!(world.calls().len(), 2);
        let lease_until = async || lease_until(&world, &older).await;
        let first = lease_until().await;
        // The lease of the older claim is half expired; its renewal fails once.
        store.next_renewal_fails.store(true, Ordering::Relaxed);
        world.pass(1).await;
        assert!(!store.next_renewal_fails.load(Ordering::Relaxed), "a renewal was sent");
        assert_eq!(lease_until().await, first);
        world.pass(2).await;
        assert!(lease_until().await > first, "the younger claim is not renewed before 19 s");
    });
}

async fn lease_until(world: &World, job: &JobRecord) -> Instant {
    let open = world.store.open_runs(job.key).await.unwrap();
    open[0].claim.unwrap().lease_until
}

#[test]
fn a_renewal_does_not_wait_for_other_writes() {
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        world.respond(&[Response::Hang]);
        let held = world.put("held", job(&at(10), None)).await;
        world.put("b", job(&at(12), None)).await;
        world.put("c", job(&at(13), None)).await;
        world.put("d", job(&at(14), None)).await;
        world.pass(11).await;
        let first = lease_until(&world, &held).await;
        store.commits_hang.store(true, Ordering::Relaxed);
        world.pass(7).await;
        assert_eq!(world.calls().len(), 1, "the commits of the other jobs hang");
        assert!(lease_until(&world, &held).await > first);
    });
}

/// Lets another node claim the only run of a job, as if the lease had expired.
async fn take_over(world: &World, job: &JobRecord) {
    let open = world.store.open_runs(job.key).await.unwrap()[0];
    let token = open.claim.unwrap().token;
    let expire = RunWrite::RenewLease { run: open.id, token, lease: Duration::ZERO };
    world.store.commit(vec![expire]).await.unwrap();
    world.jump(Duration::from_millis(1)).await;
    let claim = RunWrite::Claim {
        run: open.id,
        seen: Some(token),
        owner: NodeId(99),
        lease: Duration::from_secs(1_000),
        progress: open.progress,
        expected: open.progress,
    };
    let results = world.store.commit(vec![claim]).await.unwrap();
    assert!(matches!(results[0], RunWriteResult::Claimed(_)));
}

#[test]
fn an_attempt_whose_renewal_was_refused_sends_nothing() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::ConnectSlowly]);
        let created = world.put("j", job(&at(10), None)).await;
        world.pass(12).await;
        take_over(&world, &created).await;
        // The lease is renewed when half of it has passed.
        world.pass(4).await;
        world.open_target();
        world.pass(10).await;
        assert_eq!(world.calls(), []);
        assert_eq!(world.history("j").await, [], "nothing counts as an attempt");
        let open = world.store.open_runs(created.key).await.unwrap();
        assert_eq!(open[0].claim.unwrap().owner, NodeId(99), "the run belongs to its new owner");
    });
}

#[test]
fn an_attempt_whose_lease_ended_sends_nothing_and_the_run_is_released() {
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        world.respond(&[Response::ConnectSlowly]);
        world.put("j", job(&at(10), None)).await;
        world.pass(12).await;
        store.renewals_fail.store(true, Ordering::Relaxed);
        world.pass(9).await;
        store.commits_fail.store(true, Ordering::Relaxed);
        world.open_target();
        world.pass(2).await;
        assert_eq!(world.calls(), [], "no node knows who owns the run now");
        store.commits_fail.store(false, Ordering::Relaxed);
        store.renewals_fail.store(false, Ordering::Relaxed);
        world.pass(5).await;
        assert_eq!(world.scheduled(), [at(10)]);
        assert_eq!(world.history("j").await.len(), 1, "the attempt that was not sent is no entry");
        assert_eq!(world.ledger("j").await.len(), 1);
    });
}

#[test]
fn a_slow_connection_under_a_renewed_lease_sends() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::ConnectSlowly]);
        world.put("j", job(&at(10), None)).await;
        world.pass(50).await;
        assert_eq!(world.calls(), []);
        world.open_target();
        world.pass(1).await;
        assert_eq!(world.scheduled(), [at(10)]);
        assert_eq!(world.ledger("j").await.len(), 1);
    });
}
