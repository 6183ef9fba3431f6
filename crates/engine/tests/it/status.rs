//! The state of the engine that other threads observe.

use std::sync::atomic::Ordering;

use kalends_engine::EngineState;
use kalends_store::StoreError;

use crate::world::{World, at, job, run};

#[test]
fn an_engine_that_cannot_write_is_failing_until_it_can() {
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        world.put("j", job(&at(10), None)).await;
        store.commits_fail.store(true, Ordering::Relaxed);
        world.pass(9).await;
        assert_eq!(world.engine().status().state(), EngineState::Running);
        world.pass(20).await;
        let state = world.engine().status().state();
        let EngineState::Failing { lasting, error } = state else { panic!("{state:?}") };
        assert_eq!((lasting.as_secs(), error), (19, StoreError::Full));
        store.commits_fail.store(false, Ordering::Relaxed);
        world.pass(1).await;
        assert_eq!(world.engine().status().state(), EngineState::Running);
        assert_eq!(world.calls().len(), 1);
    });
}

#[test]
fn the_end_of_a_loop_that_panicked_is_noticed() {
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        store.panics.store(true, Ordering::Relaxed);
        world.engine().ended().await;
    });
}
