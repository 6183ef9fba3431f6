//! Jitter, clock steps, disabled collections and crash loops.

use std::time::Duration;

use kalends_domain::{
    AttemptStatus, CollectionState, Lifecycle, MissedPolicy, MissedRuns, RetryKind, RetryPolicy,
    Verbatim,
};
use kalends_recurrence::{Frequency, Recurrence};
use kalends_store::record::Disposition;

use crate::world::{Response, World, at, job, run};

const YEAR: Duration = Duration::from_secs(365 * 86_400);

#[test]
fn jitter_delays_the_start_and_keeps_the_scheduled_time() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        let mut spread = job(&at(10), Some(Recurrence::every(1, Frequency::Hour)));
        // The share of this job is a hair below one in 255: ten seconds.
        spread.extensions.jitter = Some(Verbatim::new("PT42M30S", Duration::from_secs(2_550)));
        world.put("j", spread).await;
        world.pass(19).await;
        assert_eq!(world.calls(), []);
        assert_eq!(world.job("j").await.state.due.map(|due| due.to_string()), Some(at(3_610)));
        world.pass(20).await;
        let made: Vec<_> = world.calls().into_iter().map(|c| (c.scheduled, c.at)).collect();
        assert_eq!(made, [(at(10), at(20))]);
        let rows = world.ledger("j").await;
        assert_eq!((rows.len(), rows[0].from.to_string()), (1, at(10)));
    });
}

#[test]
fn a_clock_that_was_temporarily_ahead_causes_no_missed_occurrences() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.pass(5).await;
        world.jump(YEAR).await;
        world.clock_back(YEAR.as_secs()).await;
        let mut strict = job(&at(60), Some(Recurrence::every(1, Frequency::Minute)));
        strict.extensions.missed_runs =
            Some(MissedRuns { policy: MissedPolicy::Skip, within: None });
        world.put("j", strict).await;
        world.pass(130).await;
        assert_eq!(world.scheduled(), [at(60), at(120)]);
    });
}

#[test]
fn enabling_a_collection_starts_no_skipped_occurrences() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(60), Some(Recurrence::every(1, Frequency::Minute)))).await;
        world.pass(65).await;
        world.switch_collection(CollectionState::Disabled).await;
        world.pass(300).await;
        assert_eq!(world.scheduled(), [at(60)]);
        world.switch_collection(CollectionState::Enabled).await;
        world.pass(30).await;
        assert_eq!(world.scheduled(), [at(60)]);
        world.pass(60).await;
        assert_eq!(world.scheduled(), [at(60), at(420)]);
        let rows = world.ledger("j").await.into_iter();
        let skipped: Vec<_> = rows
            .filter(|row| row.disposition == Disposition::SkippedDisabled)
            .map(|row| (row.from.to_string(), row.to.to_string(), row.count))
            .collect();
        assert_eq!(skipped, [(at(120), at(360), 5)]);
        let history = world.history("j").await;
        let held: Vec<_> =
            history.iter().filter(|entry| entry.status == AttemptStatus::Postponed).collect();
        assert!(held.len() == 1 && held[0].message.contains("collection was disabled"), "{held:?}");
    });
}

#[test]
fn a_one_time_job_runs_when_its_collection_is_enabled() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(60), None)).await;
        world.switch_collection(CollectionState::Disabled).await;
        world.pass(300).await;
        assert_eq!(world.scheduled(), [] as [String; 0]);
        world.switch_collection(CollectionState::Enabled).await;
        world.pass(30).await;
        assert_eq!(world.scheduled(), [at(60)]);
    });
}

#[test]
fn a_pending_retry_continues_when_its_collection_is_enabled() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(60), Some(Recurrence::every(1, Frequency::Minute)))).await;
        world.respond(&[Response::Fail]);
        world.pass(65).await;
        world.switch_collection(CollectionState::Disabled).await;
        world.pass(300).await;
        assert_eq!(world.scheduled(), [at(60)]);
        world.switch_collection(CollectionState::Enabled).await;
        world.pass(30).await;
        assert_eq!(world.scheduled(), [at(60), at(60)]);
    });
}

#[test]
fn a_job_whose_attempt_crashes_four_processes_is_faulted() {
    run(async {
        let mut world = World::new().await;
        let mut poison = job(&at(10), None);
        poison.action.retry = Some(Box::new(RetryPolicy {
            kind: RetryKind::None,
            interval: None,
            count: None,
            interval_max: None,
            age_max: None,
        }));
        world.put("j", poison).await;
        world.respond(&[Response::Hang; 10]);
        for _ in 0..8 {
            world.start_engine();
            world.pass(30).await;
            world.kill_engine();
        }
        assert_eq!(world.calls().len(), 4, "the attempt and three redeliveries");
        let state = world.job("j").await.state;
        assert_eq!((state.lifecycle, state.failures), (Lifecycle::Faulted, 1));
        let history = world.history("j").await;
        assert!(history.len() == 1 && history[0].message.contains("given up"), "{history:?}");
    });
}
