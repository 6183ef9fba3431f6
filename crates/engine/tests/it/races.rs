//! Race conditions. The simulation found each of them.

use std::time::Duration;

use kalends_domain::{CollectionState, Lifecycle, RetryKind, RetryPolicy};
use kalends_environment::Clock;
use kalends_recurrence::{Frequency, Recurrence};
use kalends_store::record::{Disposition, NodeId};
use kalends_store::{ApiStore, EngineStore, RunWrite, RunWriteResult};

use crate::world::{Response, World, at, job, run};

fn minutely() -> Recurrence {
    Recurrence::every(1, Frequency::Minute)
}

#[test]
fn an_edit_right_before_the_scheduled_time_does_not_lose_the_occurrence() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(60), Some(minutely()))).await;
        world.pass(59).await;
        world.jump(Duration::from_millis(990)).await;
        let mut edited = job(&at(60), Some(minutely()));
        edited.extensions.description = Some("edited while claimed".into());
        world.put("j", edited).await;
        world.pass(10).await;
        assert_eq!(world.scheduled(), [at(60)]);
        let ledger = world.ledger("j").await;
        let closed: Vec<_> = ledger.iter().map(|row| (row.generation, row.disposition)).collect();
        assert_eq!(closed, [(1, Disposition::Completed)], "the run goes on");
    });
}

#[test]
fn no_attempt_starts_after_its_collection_was_disabled() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(60), None)).await;
        world.pass(59).await;
        world.jump(Duration::from_millis(990)).await;
        world.switch_collection(CollectionState::Disabled).await;
        world.pass(30).await;
        assert_eq!(world.calls(), []);
        world.switch_collection(CollectionState::Enabled).await;
        world.pass(2).await;
        assert_eq!(world.scheduled(), [at(60)]);
    });
}

#[test]
fn a_job_completes_when_its_last_run_ends_while_its_last_occurrence_is_skipped() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::Hang]);
        let end = Some(at(120).parse().unwrap());
        world.put("j", job(&at(60), Some(Recurrence { end, ..minutely() }))).await;
        world.pass(119).await;
        world.open_target();
        world.jump(Duration::from_millis(985)).await;
        world.pass(5).await;
        let state = world.job("j").await.state;
        assert_eq!((state.lifecycle, state.due), (Lifecycle::Completed, None));
    });
}

#[test]
fn an_attempt_that_crashes_every_process_fails_after_three_redeliveries() {
    run(async {
        let mut world = World::new().await;
        world.respond(&[Response::Hang; 9]);
        let mut poison = job(&at(10), None);
        poison.action.retry = Some(Box::new(RetryPolicy {
            kind: RetryKind::None,
            interval: None,
            count: None,
            interval_max: None,
            age_max: None,
        }));
        world.put("j", poison).await;
        for _ in 0..7 {
            world.start_engine();
            world.pass(25).await;
            world.kill_engine();
        }
        assert_eq!(world.calls().len(), 4, "one attempt and three redeliveries");
        let ledger = world.ledger("j").await;
        assert_eq!(ledger.len(), 1);
        assert_eq!(ledger[0].disposition, Disposition::Failed);
        assert!(world.history("j").await[0].message.contains("died"));
    });
}

#[test]
fn a_claim_taken_over_by_another_node_is_not_renewed() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::Hang]);
        let made = world.put("j", job(&at(10), None)).await;
        world.pass(12).await;
        let open = world.store.open_runs(made.key).await.unwrap();
        let claim = open[0].claim.unwrap();
        // The engine stalls for longer than its lease, and another node claims the run first.
        let late = world.clock.now().checked_add(Duration::from_secs(60)).unwrap();
        world.clock.set(late);
        let taken = RunWrite::Claim {
            run: open[0].id,
            seen: Some(claim.token),
            owner: NodeId(99),
            lease: Duration::from_secs(1_000),
            progress: open[0].progress,
            expected: open[0].progress,
        };
        let respond = world.store.commit(vec![taken]).await.unwrap();
        assert!(matches!(respond[0], RunWriteResult::Claimed(_)));
        // A busy loop of renewals would never return here.
        world.pass(20).await;
        world.open_target();
        world.pass(1).await;
        assert_eq!(world.ledger("j").await, [], "its result is rejected");
    });
}
