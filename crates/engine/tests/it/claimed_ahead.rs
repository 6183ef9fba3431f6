//! Runs at a quick host are claimed while attempts of earlier ones are in flight.

use kalends_engine::EngineSettings;

use crate::world::{Response, World, at, job, run};

const JOBS: usize = 12;

/// Two attempts at a time; the first four succeed at once, the others hang.
async fn quick_then_hanging() -> World {
    let mut world = World::new().await;
    world.respond(&[Response::Succeed; 4]);
    world.respond(&[Response::Hang; JOBS - 4]);
    world.start_engine_with(EngineSettings { host_attempts_max: 2, ..EngineSettings::default() });
    for number in 0..JOBS {
        world.put(&format!("job{number}"), job(&at(10), None)).await;
    }
    world.pass(9).await;
    world.jump(std::time::Duration::from_secs(1)).await;
    world
}

/// Number of jobs whose run has begun.
async fn begun(world: &World) -> usize {
    let mut begun = 0;
    for number in 0..JOBS {
        begun += usize::from(world.job(&format!("job{number}")).await.state.due.is_none());
    }
    begun
}

#[test]
fn a_quick_host_has_claimed_runs_ready_and_never_more_attempts_than_its_limit() {
    run(async {
        let world = quick_then_hanging().await;
        assert_eq!(world.calls().len(), 6, "four have ended, two are in flight");
        assert_eq!(begun(&world).await, 10, "four more are claimed");
        for started in 7..=JOBS {
            world.open_target();
            world.settle().await;
            assert_eq!(world.calls().len(), started);
        }
        world.open_target();
        world.open_target();
        world.settle().await;
        for number in 0..JOBS {
            assert_eq!(world.job(&format!("job{number}")).await.state.executions, 1);
        }
    });
}

#[test]
fn runs_that_wait_for_a_host_that_became_slow_are_released_for_other_nodes() {
    run(async {
        let mut world = quick_then_hanging().await;
        world.start_another_engine();
        world.jump(std::time::Duration::from_millis(199)).await;
        assert_eq!(world.calls().len(), 8, "the other node runs what is not claimed");
        world.jump(std::time::Duration::from_millis(1)).await;
        world.pass(10).await;
        assert_eq!(world.calls().len(), JOBS, "the other node has free slots");
    });
}

#[test]
fn a_shutdown_releases_runs_that_were_claimed_ahead() {
    run(async {
        let mut world = quick_then_hanging().await;
        let stopping = world.begin_stop();
        world.settle().await;
        world.open_target();
        world.open_target();
        stopping.await.unwrap();
        assert_eq!(world.calls().len(), 6);
        world.start_engine();
        for _ in 6..JOBS {
            world.settle().await;
            world.open_target();
        }
        world.settle().await;
        assert_eq!(world.calls().len(), JOBS, "the next process runs them without delay");
    });
}
