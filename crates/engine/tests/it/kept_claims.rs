//! An attempt that is due at once on the same node keeps its claim.

use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{ActionRole, JobDefinition, RetryKind, RetryPolicy};
use kalends_engine::{EngineMetrics, EngineSettings};
use kalends_metrics::{Exposition, Metrics};
use kalends_store::ApiStore;
use kalends_store::record::{Disposition, NodeId};

use crate::world::{Response, World, action_at, at, job, run, with_error_action};

/// A job with an error action and without retries.
fn failing_once() -> JobDefinition {
    let mut job = with_error_action(job(&at(10), None));
    job.action.retry = Some(Box::new(RetryPolicy {
        kind: RetryKind::None,
        interval: None,
        count: None,
        interval_max: None,
        age_max: None,
    }));
    job
}

/// Writes that the engine committed.
fn writes(metrics: &EngineMetrics) -> u64 {
    let mut exposition = Exposition::default();
    metrics.write(&mut exposition);
    let text = exposition.finish();
    let mut lines =
        text.lines().filter_map(|line| line.strip_prefix("kalends_commit_writes_total "));
    lines.next().unwrap().parse().unwrap()
}

fn counted(metrics: &Arc<EngineMetrics>) -> EngineSettings {
    EngineSettings { metrics: Arc::clone(metrics), ..EngineSettings::default() }
}

#[test]
fn an_error_action_due_at_once_needs_no_second_claim() {
    run(async {
        let (mut world, metrics) = (World::new().await, Arc::default());
        world.start_engine_with(counted(&metrics));
        world.respond(&[Response::Fail, Response::Hang]);
        let created = world.put("j", failing_once()).await;
        world.pass(10).await;
        let roles: Vec<_> = world.calls().iter().map(|call| call.role).collect();
        assert_eq!(roles, [ActionRole::Main, ActionRole::Error]);
        assert_eq!(writes(&metrics), 2, "the start of the run and the failed attempt");
        // The lease of the kept claim is renewed.
        world.pass(60).await;
        let open = world.store.open_runs(created.key).await.unwrap();
        let claim = open[0].claim.unwrap();
        assert_eq!(claim.owner, NodeId(1));
        assert!(claim.lease_until > at(70).parse().unwrap());
        world.open_target();
        world.settle().await;
        assert_eq!(world.calls().len(), 2);
        assert_eq!(world.ledger("j").await[0].disposition, Disposition::Failed);
        assert_eq!(world.history("j").await.len(), 2);
    });
}

#[test]
fn a_retry_due_later_releases_the_claim() {
    run(async {
        let (mut world, metrics) = (World::new().await, Arc::default());
        world.start_engine_with(counted(&metrics));
        world.respond(&[Response::Fail]);
        let created = world.put("j", job(&at(10), None)).await;
        world.pass(12).await;
        let open = world.store.open_runs(created.key).await.unwrap();
        assert_eq!((open[0].claim, open[0].progress.retry), (None, 1));
        world.pass(30).await;
        assert_eq!(world.calls().len(), 2);
        assert_eq!(writes(&metrics), 4, "start, retry, claim, end");
    });
}

#[test]
fn an_error_action_without_a_free_slot_releases_the_claim_and_waits() {
    run(async {
        let (mut world, metrics) = (World::new().await, Arc::default());
        world.start_engine_with(EngineSettings { host_attempts_max: 1, ..counted(&metrics) });
        let elsewhere = "http://elsewhere.example.com";
        let mut hanging = job(&at(9), None);
        hanging.action.action = action_at(elsewhere);
        world.put("hanging", hanging).await;
        let mut failing = failing_once();
        failing.action.error_action.as_mut().unwrap().action = action_at(elsewhere);
        let created = world.put("j", failing).await;
        world.respond(&[Response::Hang, Response::Fail]);
        world.pass(12).await;
        assert_eq!(world.calls().len(), 2);
        let open = world.store.open_runs(created.key).await.unwrap();
        assert_eq!((open[0].claim, open[0].progress.role), (None, ActionRole::Error));
        world.open_target();
        world.pass(2).await;
        assert_eq!(world.calls().last().map(|call| call.role), Some(ActionRole::Error));
        assert_eq!(world.ledger("j").await[0].disposition, Disposition::Failed);
    });
}

#[test]
fn the_error_action_of_a_crashed_node_is_redelivered_after_its_lease() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::Fail, Response::Hang]);
        world.put("j", failing_once()).await;
        world.pass(12).await;
        world.kill_engine();
        world.start_engine();
        world.pass(5).await;
        assert_eq!(world.calls().len(), 2, "the lease has not expired");
        world.pass(25).await;
        let roles: Vec<_> = world.calls().iter().map(|call| call.role).collect();
        assert_eq!(roles, [ActionRole::Main, ActionRole::Error, ActionRole::Error]);
        assert_eq!(world.ledger("j").await.len(), 1);
    });
}

#[test]
fn a_shutdown_releases_the_claim_of_an_error_action_that_was_to_start_at_once() {
    run(async {
        let mut world = World::new().await;
        let commit_interval = Duration::from_secs(60);
        let paced = EngineSettings { commit_interval, ..EngineSettings::default() };
        world.start_engine_on(world.store.clone(), paced);
        world.respond(&[Response::Fail]);
        let created = world.put("j", failing_once()).await;
        world.pass(11).await;
        assert_eq!(world.calls().len(), 1, "the result waits for its commit");
        world.stop_engine().await;
        assert_eq!(world.calls().len(), 1, "a shutdown starts no attempt");
        let open = world.store.open_runs(created.key).await.unwrap();
        assert_eq!((open[0].claim, open[0].progress.role), (None, ActionRole::Error));
    });
}
