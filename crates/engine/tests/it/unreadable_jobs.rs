//! Jobs whose definitions cannot be read.

use kalends_domain::{ActionRole, JobDefinition, RetryKind, RetryPolicy};
use kalends_recurrence::{Frequency, Recurrence};
use kalends_store::JobWrite;

use crate::world::{Response, World, at, job, job_at, run, with_error_action};

const DAMAGED: &str = "http://damaged.example.com/";

fn minutely(uri: &str) -> JobDefinition {
    job_at(uri, &at(60), Some(Recurrence::every(1, Frequency::Minute)))
}

/// Scheduled times of the calls of a URI.
fn calls_of(world: &World, uri: &str) -> Vec<String> {
    let calls = world.calls().into_iter().filter(|call| call.uri == uri);
    calls.map(|call| call.scheduled).collect()
}

#[test]
fn an_unreadable_job_delays_no_other_and_runs_when_it_can_be_read_again() {
    const OTHER: &str = "http://other.example.com/";
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        let damaged = world.put("damaged", minutely(DAMAGED)).await;
        world.put("other", minutely(OTHER)).await;
        store.unreadable.lock().unwrap().insert(damaged.key);
        world.pass(121).await;
        assert_eq!(calls_of(&world, OTHER), [at(60), at(120)]);
        store.unreadable.lock().unwrap().clear();
        world.pass(315).await;
        assert_eq!(calls_of(&world, DAMAGED).first(), Some(&at(60)));
    });
}

#[test]
fn a_job_that_replaces_an_unreadable_one_runs_at_its_time() {
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        let damaged = world.put("j", minutely(DAMAGED)).await;
        store.unreadable.lock().unwrap().insert(damaged.key);
        world.pass(90).await;
        world.edit("j", JobWrite::Delete).await;
        world.put("j", job(&at(100), None)).await;
        world.pass(11).await;
        assert_eq!(world.scheduled(), [at(100)]);
    });
}

#[test]
fn edited_jobs_are_concluded_by_their_new_definitions_beside_unreadable_ones() {
    const EDITED: [&str; 4] = ["a", "b", "c", "d"];
    const DAMAGED: [&str; 4] = ["e", "f", "g", "h"];
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        world.respond(&[Response::HangThenFail; 8]);
        let (kind, interval, count) = (RetryKind::None, None, None);
        let none = RetryPolicy { kind, interval, count, interval_max: None, age_max: None };
        let mut impatient = job(&at(10), None);
        impatient.action.retry = Some(Box::new(none));
        for name in EDITED.into_iter().chain(DAMAGED) {
            world.put(name, impatient.clone()).await;
        }
        world.pass(12).await;
        for name in EDITED.into_iter().chain(DAMAGED) {
            world.patch(name, |job| *job = with_error_action(job.clone())).await;
        }
        for name in DAMAGED {
            let key = world.job(name).await.key;
            store.unreadable.lock().unwrap().insert(key);
        }
        for _ in EDITED.into_iter().chain(DAMAGED) {
            world.open_target();
        }
        world.pass(1).await;
        let calls = world.calls();
        let errors = calls.iter().filter(|call| call.role == ActionRole::Error).count();
        assert_eq!((calls.len() - errors, errors), (8, EDITED.len()));
    });
}
