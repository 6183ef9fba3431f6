//! A host that hangs delays its own jobs only, however many of them wait.

use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{Lifecycle, RetryKind, RetryPolicy, Verbatim};
use kalends_engine::{EngineMetrics, EngineSettings};
use kalends_metrics::{Exposition, Metrics};
use kalends_recurrence::{Frequency, Recurrence};
use kalends_store::record::Disposition;
use kalends_store::{EngineStore, JobWrite};

use crate::world::{Response, World, at, job_at, run};

const DEAD: &str = "http://dead.example.com";
const HEALTHY: &str = "http://healthy.example.com";

fn limits(all: usize, host: usize) -> EngineSettings {
    EngineSettings { attempts_max: all, host_attempts_max: host, ..EngineSettings::default() }
}

fn names(world: &World) -> Vec<String> {
    world.calls().into_iter().map(|call| call.job).collect()
}

/// The time of the only call of a job.
fn called_at(world: &World, name: &str) -> Option<String> {
    let calls: Vec<_> = world.calls().into_iter().filter(|call| call.job == name).collect();
    assert!(calls.len() <= 1, "{calls:?}");
    calls.into_iter().next().map(|call| call.at)
}

async fn parked(world: &World) -> u64 {
    world.store.parked_keys(9).await.unwrap().iter().map(|parked| parked.count).sum()
}

fn value(metrics: &EngineMetrics, name: &str) -> u64 {
    let mut exposition = Exposition::default();
    metrics.write(&mut exposition);
    let text = exposition.finish();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn a_host_that_hangs_for_many_collections_delays_no_other_host() {
    run(async {
        let (mut world, metrics) = (World::new().await, Arc::<EngineMetrics>::default());
        let settings = EngineSettings { metrics: Arc::clone(&metrics), ..limits(50, 2) };
        world.start_engine_with(settings);
        world.respond(&[Response::Hang; 2]);
        for number in 0..100 {
            let collection = format!("tenant{}", number % 20);
            let job = job_at(DEAD, &at(10), None);
            world.put_in(&collection, &format!("dead{number}"), job).await;
        }
        world.put_in("tenant0", "same", job_at(HEALTHY, &at(13), None)).await;
        world.put_in("other", "healthy", job_at(HEALTHY, &at(10), None)).await;
        world.pass(13).await;
        assert_eq!(called_at(&world, "healthy"), Some(at(10)));
        assert_eq!(called_at(&world, "same"), Some(at(13)));
        assert_eq!(world.calls().len(), 4, "two attempts at the host that hangs");
        assert_eq!(parked(&world).await, 98, "the others wait in the store");
        world.pass(10).await;
        assert_eq!(value(&metrics, "kalends_runs_parked "), 98);
        assert_eq!(value(&metrics, "kalends_runs_waiting "), 0);
        world.open_target();
        world.open_target();
        world.pass(5).await;
        let mut called = names(&world);
        assert_eq!(called.len(), 102);
        called.sort();
        called.dedup();
        assert_eq!(called.len(), 102, "each job ran once");
        assert_eq!(parked(&world).await, 0);
    });
}

#[test]
fn manual_runs_at_a_host_that_hangs_do_not_delay_other_jobs_of_their_collection() {
    run(async {
        let mut world = World::new().await;
        world.start_engine_with(limits(20, 2));
        world.respond(&[Response::Hang; 2]);
        let hourly = Recurrence::every(1, Frequency::Hour);
        world.put("dead", job_at(DEAD, &at(3_600), Some(hourly))).await;
        world.put("healthy", job_at(HEALTHY, &at(10), None)).await;
        world.pass(5).await;
        for _ in 0..60 {
            world.edit("dead", JobWrite::Run { at: at(5).parse().unwrap() }).await;
        }
        world.pass(5).await;
        assert_eq!(called_at(&world, "healthy"), Some(at(10)));
        assert_eq!(parked(&world).await, 58);
        world.open_target();
        world.open_target();
        world.pass(5).await;
        assert_eq!(world.calls().len(), 61);
        assert_eq!(world.job("dead").await.state.executions, 60);
    });
}

#[test]
fn retries_at_a_host_that_hangs_do_not_delay_other_jobs() {
    run(async {
        let mut world = World::new().await;
        world.start_engine_with(limits(20, 5));
        world.respond(&[Response::Fail; 60]);
        for number in 0..60 {
            let mut job = job_at(DEAD, &at(10), None);
            job.action.retry = Some(Box::new(RetryPolicy {
                kind: RetryKind::Fixed,
                interval: Some(Verbatim::new("PT30S", Duration::from_secs(30))),
                count: Some(1),
                interval_max: None,
                age_max: None,
            }));
            world.put(&format!("dead{number}"), job).await;
        }
        world.put("healthy", job_at(HEALTHY, &at(50), None)).await;
        world.pass(20).await;
        assert_eq!(world.calls().len(), 60);
        world.respond(&[Response::Hang; 5]);
        world.pass(30).await;
        assert_eq!(called_at(&world, "healthy"), Some(at(50)));
        assert_eq!(world.calls().len(), 66);
        (0..5).for_each(|_| world.open_target());
        world.pass(5).await;
        assert_eq!(world.calls().len(), 121, "the retries run afterwards");
    });
}

#[test]
fn a_full_collection_does_not_block_a_host_for_others() {
    run(async {
        let mut world = World::new().await;
        let settings = EngineSettings { collection_attempts_max: 1, ..EngineSettings::default() };
        world.start_engine_with(settings);
        world.respond(&[Response::Hang]);
        world.put("hanging", job_at(DEAD, &at(10), None)).await;
        world.put("blocked", job_at(HEALTHY, &at(11), None)).await;
        world.put_in("other", "free", job_at(HEALTHY, &at(11), None)).await;
        world.put_in("other", "later", job_at(HEALTHY, &at(20), None)).await;
        world.pass(20).await;
        assert_eq!(names(&world), ["hanging", "free", "later"]);
        assert_eq!(called_at(&world, "free"), Some(at(11)));
        assert_eq!(called_at(&world, "later"), Some(at(20)));
        world.open_target();
        world.pass(1).await;
        assert_eq!(called_at(&world, "blocked"), Some(at(20)), "as soon as a slot is free");
    });
}

#[test]
fn a_job_that_is_moved_to_a_healthy_host_does_not_wait_for_the_other_one() {
    run(async {
        let mut world = World::new().await;
        world.start_engine_with(limits(100, 1));
        world.respond(&[Response::Hang; 2]);
        let minutely = || Some(Recurrence::every(1, Frequency::Minute));
        let other = "http://other-dead.example.com";
        world.put("hanging", job_at(DEAD, &at(10), None)).await;
        world.put("hanging-too", job_at(other, &at(10), None)).await;
        world.put("repaired", job_at(DEAD, &at(11), minutely())).await;
        world.put("waiting", job_at(other, &at(20), minutely())).await;
        world.pass(20).await;
        assert_eq!(names(&world), ["hanging", "hanging-too"]);
        assert_eq!(parked(&world).await, 1);
        // One waits in the store, the other one in memory.
        world.put("repaired", job_at(HEALTHY, &at(11), minutely())).await;
        world.put("waiting", job_at(HEALTHY, &at(20), minutely())).await;
        world.pass(60).await;
        let times = |name: &str| {
            let calls = world.calls().into_iter().filter(|call| call.job == name);
            calls.map(|call| (call.scheduled, call.at)).collect::<Vec<_>>()
        };
        assert_eq!(times("repaired"), [(at(11), at(20)), (at(71), at(71))]);
        assert_eq!(times("waiting"), [(at(20), at(21)), (at(80), at(80))]);
    });
}

#[test]
fn the_next_occurrence_of_a_parked_job_follows_its_overlap_policy() {
    run(async {
        let mut world = World::new().await;
        world.start_engine_with(limits(100, 1));
        world.respond(&[Response::Hang]);
        let recurrence = Recurrence { count: Some(2), ..Recurrence::every(1, Frequency::Minute) };
        world.put("hanging", job_at(DEAD, &at(10), None)).await;
        world.put("waiting", job_at(DEAD, &at(11), Some(recurrence))).await;
        world.pass(100).await;
        assert_eq!(names(&world), ["hanging"]);
        world.open_target();
        world.pass(1).await;
        assert_eq!(names(&world), ["hanging", "waiting"]);
        let ledger = world.ledger("waiting").await;
        let dispositions: Vec<_> = ledger.iter().map(|row| row.disposition).collect();
        assert_eq!(dispositions, [Disposition::Completed, Disposition::SkippedOverlap]);
        world.pass(60).await;
        assert_eq!(world.job("waiting").await.state.lifecycle, Lifecycle::Completed);
    });
}

#[test]
fn parked_runs_survive_a_restart() {
    run(async {
        let mut world = World::new().await;
        world.start_engine_with(limits(100, 1));
        world.respond(&[Response::Hang]);
        for name in ["a", "b", "c"] {
            world.put(name, job_at(DEAD, &at(10), None)).await;
        }
        world.pass(15).await;
        assert_eq!(parked(&world).await, 2);
        world.kill_engine();
        world.start_engine();
        world.pass(1).await;
        assert_eq!(names(&world), ["a", "b", "c"], "its slots are free");
        world.pass(20).await;
        for name in ["a", "b", "c"] {
            assert_eq!(world.job(name).await.state.lifecycle, Lifecycle::Completed);
        }
    });
}

#[test]
fn a_burst_at_a_quick_host_is_not_parked() {
    run(async {
        let (mut world, metrics) = (World::new().await, Arc::<EngineMetrics>::default());
        let settings = EngineSettings { metrics: Arc::clone(&metrics), ..limits(10_000, 4) };
        let runs = 1_500;
        for number in 0..runs {
            world.put(&format!("j{number}"), job_at(HEALTHY, &at(10), None)).await;
        }
        world.start_engine_with(settings);
        world.pass(10).await;
        let mut rounds = 0;
        while world.calls().len() < runs && rounds < 1_000 {
            world.settle().await;
            rounds += 1;
        }
        world.settle().await;
        assert_eq!(world.calls().len(), runs);
        let writes = value(&metrics, "kalends_commit_writes_total ");
        assert_eq!(writes, 2 * runs as u64, "the start and the end of each run");
    });
}

#[test]
fn a_parked_run_holds_no_slot_until_it_is_due_again_after_the_clock_was_set_back() {
    run(async {
        let mut world = World::new().await;
        world.start_engine_with(limits(50, 1));
        world.respond(&[Response::Hang]);
        world.put("first", job_at(DEAD, &at(3_610), None)).await;
        world.put("parked", job_at(DEAD, &at(3_610), None)).await;
        world.pass(3_620).await;
        assert_eq!(parked(&world).await, 1);
        world.clock_back(3_600).await;
        world.open_target();
        world.pass(5).await;
        world.put("new", job_at(DEAD, &at(40), None)).await;
        world.pass(30).await;
        assert_eq!(names(&world).last().map(String::as_str), Some("new"));
        world.pass(3_600).await;
        assert_eq!(world.calls().len(), 3, "the parked run starts at its time");
    });
}
