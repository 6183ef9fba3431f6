//! A panic in the code of an attempt fails that attempt and nothing else.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kalends_domain::{AttemptStatus, JobDefinition, RetryKind, RetryPolicy};
use kalends_engine::{EngineMetrics, EngineSettings};
use kalends_metrics::{Exposition, Metrics};
use kalends_recurrence::{Frequency, Recurrence};
use kalends_store::ApiStore;
use kalends_store::record::Disposition;

use crate::world::{Response, World, at, job, run};

fn without_retries(mut job: JobDefinition) -> JobDefinition {
    job.action.retry = Some(Box::new(RetryPolicy {
        kind: RetryKind::None,
        interval: None,
        count: None,
        interval_max: None,
        age_max: None,
    }));
    job
}

fn value(metrics: &EngineMetrics, name: &str) -> u64 {
    let mut exposition = Exposition::default();
    metrics.write(&mut exposition);
    let text = exposition.finish();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn a_panic_in_an_attempt_is_a_failed_attempt_that_releases_its_slot() {
    run(async {
        let (mut world, metrics) = (World::new().await, Arc::<EngineMetrics>::default());
        world.start_engine_with(EngineSettings {
            attempts_max: 1,
            metrics: Arc::clone(&metrics),
            ..EngineSettings::default()
        });
        // Its outcome is unknown: the attempt is delivered again three times before it has failed.
        world.respond(&[Response::Panic; 4]);
        let recurrence = Recurrence::every(1, Frequency::Minute);
        let poison = world.put("poison", without_retries(job(&at(10), Some(recurrence)))).await;
        world.put("healthy", job(&at(30), None)).await;
        world.pass(31).await;
        assert_eq!(world.store.open_runs(poison.key).await.unwrap(), [], "no run is left claimed");
        assert_eq!(world.ledger("poison").await[0].disposition, Disposition::Failed);
        let history = world.history("poison").await;
        assert_eq!(history.len(), 4);
        assert!(history.iter().all(|entry| entry.status == AttemptStatus::Failed));
        assert!(history[0].message.contains("internal error"), "{}", history[0].message);
        let last = world.calls().pop().unwrap();
        assert_eq!((last.job, last.at), ("healthy".into(), at(30)), "the only slot is free again");
        world.pass(40).await;
        assert_eq!(world.ledger("poison").await[1].disposition, Disposition::Completed);
        assert_eq!(value(&metrics, "kalends_attempt_panics_total "), 4);
        assert_eq!(value(&metrics, "kalends_attempts_under_way "), 0);
    });
}

#[test]
fn a_panic_before_the_attempts_of_a_group_releases_all_of_them() {
    run(async {
        let mut world = World::new().await;
        world.start_engine_with(EngineSettings { attempts_max: 8, ..EngineSettings::default() });
        for number in 0..8 {
            world.put(&format!("j{number}"), job(&at(60), None)).await;
        }
        world.script.prewarm_panics.store(true, Ordering::Relaxed);
        world.pass(59).await;
        world.jump(Duration::from_millis(985)).await;
        world.jump(Duration::from_millis(15)).await;
        assert_eq!(world.script.prewarmed.lock().unwrap().len(), 1, "it panicked");
        world.script.prewarm_panics.store(false, Ordering::Relaxed);
        world.pass(2).await;
        assert_eq!(world.calls().len(), 8);
        for number in 0..8 {
            let ledger = world.ledger(&format!("j{number}")).await;
            assert_eq!(ledger[0].disposition, Disposition::Completed);
        }
    });
}
