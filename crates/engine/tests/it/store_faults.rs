//! Failing writes, late responses of the store and steps of the clock.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kalends_domain::{CollectionState, Overlap};
use kalends_engine::{EngineMetrics, EngineSettings};
use kalends_metrics::{Exposition, Metrics as _};
use kalends_recurrence::{Frequency, Recurrence};
use kalends_store::JobWrite;
use kalends_store::record::Disposition;

use crate::faulty_store::FaultyStore;
use crate::world::{World, at, job, run};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn occurrences_due_while_writes_fail_and_reads_succeed_follow_the_missed_run_policy() {
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        let mut parallel = job(&at(60), Some(Recurrence::every(1, Frequency::Minute)));
        parallel.extensions.overlap = Some(Overlap::Allow);
        world.put("j", parallel).await;
        world.pass(90).await;
        assert_eq!(world.scheduled(), [at(60)]);
        store.commits_fail.store(true, Ordering::Relaxed);
        world.pass(3_600).await;
        assert_eq!(world.scheduled(), [at(60)], "no run starts without a record");
        store.commits_fail.store(false, Ordering::Relaxed);
        world.pass(5).await;
        assert_eq!(world.scheduled(), [at(60), at(3_660)], "the newest missed occurrence runs");
        world.pass(60).await;
        assert_eq!(world.scheduled(), [at(60), at(3_660), at(3_720)]);
        let ledger = world.ledger("j").await;
        let missed = ledger.iter().filter(|row| row.disposition == Disposition::Missed);
        assert_eq!(missed.map(|row| row.count).sum::<u64>(), 59);
    });
}

#[test]
fn an_occurrence_due_in_a_short_write_failure_is_late_and_not_missed() {
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        let mut strict = job(&at(60), Some(Recurrence::every(1, Frequency::Minute)));
        strict.extensions.missed_runs = Some(kalends_domain::MissedRuns {
            policy: kalends_domain::MissedPolicy::Skip,
            within: None,
        });
        world.put("j", strict).await;
        world.pass(58).await;
        store.commits_fail.store(true, Ordering::Relaxed);
        world.pass(4).await;
        store.commits_fail.store(false, Ordering::Relaxed);
        world.pass(2).await;
        assert_eq!(world.scheduled(), [at(60)]);
    });
}

#[test]
fn jobs_that_stay_due_while_writes_fail_are_no_violated_invariant() {
    run(async {
        let metrics: Arc<EngineMetrics> = Arc::default();
        let mut world = World::new().await;
        let store = FaultyStore::new(world.store.clone(), world.clock.clone());
        let settings = EngineSettings {
            metrics: Arc::clone(&metrics),
            commit_interval: Duration::ZERO,
            ..EngineSettings::default()
        };
        world.start_engine_on(store.clone(), settings);
        world.put("j", job(&at(60), Some(Recurrence::every(1, Frequency::Minute)))).await;
        world.pass(30).await;
        store.commits_fail.store(true, Ordering::Relaxed);
        world.pass(900).await;
        store.commits_fail.store(false, Ordering::Relaxed);
        world.pass(300).await;
        assert!(metrics.scans_completed() > 1);
        assert_eq!(metrics.violations(), 0);
    });
}

#[test]
fn a_held_up_gate_response_starts_no_attempt_of_a_job_that_was_deleted_meanwhile() {
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        world.put("j", job(&at(60), None)).await;
        world.pass(59).await;
        store.gate_delays.lock().unwrap().push_back(Duration::from_secs(4));
        world.pass(2).await;
        assert!(store.gate_delays.lock().unwrap().is_empty(), "the gate states were read");
        world.edit("j", JobWrite::Delete).await;
        world.pass(10).await;
        assert_eq!(world.calls(), []);
    });
}

#[test]
fn a_held_up_gate_response_starts_no_attempt_in_a_collection_that_was_disabled_meanwhile() {
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        world.put("j", job(&at(60), None)).await;
        world.pass(59).await;
        store.gate_delays.lock().unwrap().push_back(Duration::from_secs(4));
        world.pass(2).await;
        world.switch_collection(CollectionState::Disabled).await;
        world.pass(10).await;
        assert_eq!(world.calls(), []);
        world.switch_collection(CollectionState::Enabled).await;
        world.pass(2).await;
        assert_eq!(world.scheduled(), [at(60)]);
    });
}

#[test]
fn a_run_whose_gate_responses_are_all_late_starts_when_the_store_is_fast_again() {
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        world.put("j", job(&at(60), None)).await;
        world.pass(59).await;
        store.gate_delays.lock().unwrap().extend([Duration::from_secs(4); 5]);
        world.pass(16).await;
        assert_eq!(world.calls(), [], "a lease of ten seconds ended meanwhile");
        store.gate_delays.lock().unwrap().clear();
        world.pass(20).await;
        assert_eq!(world.scheduled(), [at(60)]);
        assert_eq!(world.ledger("j").await.len(), 1);
    });
}

fn metric(metrics: &EngineMetrics, line: &str) -> bool {
    let mut page = Exposition::default();
    metrics.write(&mut page);
    page.finish().lines().any(|other| other == line)
}

#[test]
fn a_clock_step_of_sixty_days_removes_no_history_for_a_day() {
    run(async {
        let metrics: Arc<EngineMetrics> = Arc::default();
        let mut world = World::new().await;
        world.start_engine_with(EngineSettings {
            metrics: Arc::clone(&metrics),
            ..EngineSettings::default()
        });
        world.put("j", job(&at(60), Some(Recurrence::every(1, Frequency::Month)))).await;
        world.pass(90).await;
        assert_eq!(world.history("j").await.len(), 1);
        world.step_ahead(61 * DAY).await;
        world.pass(300).await;
        let first = |history: &[kalends_domain::HistoryEntry]| history[0].expected.to_string();
        assert_eq!(first(&world.history("j").await), at(60));
        assert!(metric(&metrics, "kalends_clock_steps_total{direction=\"forward\"} 1"));
        for _ in 0..23 {
            world.jump(HOUR).await;
        }
        assert_eq!(first(&world.history("j").await), at(60), "an operator has a day to react");
        for _ in 0..2 {
            world.jump(HOUR).await;
        }
        world.pass(120).await;
        assert_ne!(first(&world.history("j").await), at(60), "the clock stayed: it is right");
    });
}

#[test]
fn a_start_after_long_downtime_is_no_clock_step_and_removes_old_history() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(60), None)).await;
        world.pass(90).await;
        world.stop_engine().await;
        world.jump(59 * DAY).await;
        world.start_engine();
        world.pass(120).await;
        assert_eq!(world.history("j").await.len(), 1);
        world.stop_engine().await;
        world.jump(2 * DAY).await;
        world.start_engine();
        world.pass(120).await;
        assert!(world.try_job("j").await.is_none(), "the finished job is past its retention");
    });
}

/// 300 jobs due in 10 seconds, which two reads return; the first one takes `delay`.
async fn with_slow_first_read(delay: Duration) -> World {
    let mut world = World::new().await;
    let store = world.start_engine_on_faulty_store();
    for number in 0..300 {
        world.put(&format!("job{number:03}"), job(&at(10), None)).await;
    }
    store.definition_delays.lock().unwrap().push_back(delay);
    world.pass(9).await;
    world.jump(Duration::from_millis(950)).await;
    assert!(store.definition_delays.lock().unwrap().is_empty(), "the jobs are read");
    world
}

#[test]
fn runs_start_in_the_order_of_their_due_times_although_a_later_read_responds_first() {
    run(async {
        let world = with_slow_first_read(Duration::from_millis(60)).await;
        world.jump(Duration::from_millis(50)).await;
        assert_eq!(world.calls().len(), 0);
        world.jump(Duration::from_millis(10)).await;
        world.pass(5).await;
        let called: Vec<_> = world.calls().into_iter().map(|call| call.job).collect();
        assert_eq!(called.len(), 300);
        assert!(called.is_sorted(), "{called:?}");
    });
}

#[test]
fn a_read_of_due_jobs_that_hangs_does_not_hold_up_the_others() {
    run(async {
        let world = with_slow_first_read(Duration::from_secs(10)).await;
        world.jump(Duration::from_millis(100)).await;
        let called: Vec<_> = world.calls().into_iter().map(|call| call.job).collect();
        assert_eq!(called.len(), 44);
        assert_eq!(called[0], "job256");
        world.put("next", job(&at(12), None)).await;
        world.pass(3).await;
        assert_eq!(world.calls().len(), 45, "further jobs are read");
        world.pass(10).await;
        assert_eq!(world.calls().len(), 301);
    });
}
