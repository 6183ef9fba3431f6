//! A job that is edited shortly before its scheduled time runs on time.

use std::time::Duration;

use kalends_engine::EngineSettings;
use kalends_recurrence::{Frequency, Recurrence};

use crate::world::{World, at, job, run};

fn minutely() -> Recurrence {
    Recurrence::every(1, Frequency::Minute)
}

/// Scheduled time and time of each call.
fn times(world: &World) -> Vec<(String, String)> {
    world.calls().into_iter().map(|call| (call.scheduled, call.at)).collect()
}

#[test]
fn an_edit_that_keeps_the_next_scheduled_time_does_not_delay_it() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(60), Some(minutely()))).await;
        world.pass(55).await;
        let mut edited = job(&at(60), Some(minutely()));
        edited.extensions.description = Some("edited".into());
        world.put("j", edited).await;
        world.pass(5).await;
        assert_eq!(times(&world), [(at(60), at(60))]);
    });
}

#[test]
fn an_edit_without_a_nudge_does_not_delay_the_next_scheduled_time() {
    run(async {
        let mut world = World::new().await;
        world.start_engine();
        world.put("j", job(&at(60), Some(minutely()))).await;
        world.pass(55).await;
        // As if through another node: only the store knows of it.
        world.put_without_nudge("j", job(&at(60), Some(minutely()))).await;
        world.pass(5).await;
        assert_eq!(times(&world), [(at(60), at(60))]);
    });
}

#[test]
fn a_job_edited_before_the_commit_of_its_run_is_loaded_at_once() {
    run(async {
        let mut world = World::new().await;
        // Starts of runs are committed at most every three seconds.
        let commit_interval = Duration::from_secs(15);
        let paced = EngineSettings { commit_interval, ..EngineSettings::default() };
        world.start_engine_on(world.store.clone(), paced);
        world.put("first", job(&at(58), None)).await;
        world.put("j", job(&at(60), Some(minutely()))).await;
        world.pass(59).await;
        world.jump(Duration::from_millis(990)).await;
        world.put("j", job(&at(60), Some(minutely()))).await;
        world.jump(Duration::from_millis(10)).await;
        world.pass(6).await;
        let last = times(&world).pop().unwrap();
        assert_eq!(last, (at(60), at(64)), "the commit after the rejected one, not the next load");
    });
}
