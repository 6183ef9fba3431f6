//! Several nodes on one store: take-over of runs, and the continuity of their service.

use std::sync::atomic::Ordering;

use kalends_domain::{JobDefinition, MissedPolicy, MissedRuns};
use kalends_recurrence::{Frequency, Recurrence};
use kalends_store::record::Disposition;

use crate::world::{Response, World, at, job, run};

/// A job every minute whose missed occurrences do not run.
fn strict() -> JobDefinition {
    let mut strict = job(&at(60), Some(Recurrence::every(1, Frequency::Minute)));
    strict.extensions.missed_runs = Some(MissedRuns { policy: MissedPolicy::Skip, within: None });
    strict
}

#[test]
fn the_run_of_a_killed_node_is_taken_over_two_seconds_after_its_lease() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::Hang]);
        world.put("j", job(&at(10), None)).await;
        world.pass(13).await;
        assert_eq!(world.calls().len(), 1);
        world.start_another_engine();
        world.pass(1).await;
        world.kill_engine();
        // The lease of ten seconds began right before the attempt.
        world.pass(5).await;
        assert_eq!(world.calls().len(), 1, "the lease has not expired");
        world.pass(3).await;
        assert_eq!(world.calls().len(), 2);
        assert_eq!(world.ledger("j").await.len(), 1);
    });
}

#[test]
fn a_retry_that_a_killed_node_was_to_make_starts_on_time() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.respond(&[Response::Fail]);
        world.put("j", job(&at(10), None)).await;
        world.start_another_engine();
        world.pass(12).await;
        assert_eq!(world.calls().len(), 1);
        world.kill_engine();
        world.pass(30).await;
        let made: Vec<_> = world.calls().into_iter().map(|call| (call.retry, call.at)).collect();
        assert_eq!(made, [(0, at(10)), (1, at(40))]);
    });
}

#[test]
fn a_node_that_has_just_started_runs_the_occurrence_that_another_was_late_with() {
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        world.put("j", strict()).await;
        world.pass(50).await;
        store.commits_hang.store(true, Ordering::Relaxed);
        world.pass(15).await;
        assert_eq!(world.calls(), [], "the first node cannot start it");
        world.start_another_engine();
        world.pass(2).await;
        assert_eq!(world.scheduled(), [at(60)]);
        // The first node is gone, the second knows how long the service has lasted.
        world.kill_engine();
        world.pass(120).await;
        assert_eq!(world.scheduled(), [at(60), at(120), at(180)]);
    });
}

#[test]
fn occurrences_of_a_time_without_any_node_are_missed() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.start_another_engine();
        world.put("j", strict()).await;
        world.pass(70).await;
        world.kill_engine();
        world.kill_other_engines();
        world.pass(60).await;
        world.start_engine();
        world.start_another_engine();
        world.pass(60).await;
        assert_eq!(world.scheduled(), [at(60), at(180)]);
        let missed = world.ledger("j").await;
        let missed = missed.iter().filter(|row| row.disposition == Disposition::Missed);
        assert_eq!(missed.map(|row| row.from.to_string()).collect::<Vec<_>>(), [at(120)]);
    });
}
