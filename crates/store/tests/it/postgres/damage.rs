//! Damage that is done to the database behind the back of the store is found by the engine, counted,
//! and put right where that can do no harm.

use std::sync::Arc;

use kalends_environment::ManualClock;
use kalends_store::Store;

use super::sample::{at, due_jobs, job_path};
use super::scratch::Scratch;
use super::with_server;
use crate::mended::Mending;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(at(0).timestamp().unwrap()))
}

#[test]
fn a_job_that_is_never_due_is_given_its_next_instant() {
    with_server(async {
        let scratch = Scratch::make().await;
        let store = Arc::new(scratch.connect().await);
        due_jobs(&*store, 1).await;
        scratch.plain().await.execute("UPDATE states SET due = NULL", &[]).await.unwrap();
        let mending = Mending::start(store.clone(), &clock());
        let is_due = async |_: &Mending| {
            store.job(job_path("j0")).await.unwrap().unwrap().0.state.due.is_some()
        };
        mending.until(is_due).await;
        assert_eq!(mending.found(), ["never_due 1"]);
        mending.stop().await;
    });
}

#[test]
fn a_job_without_a_state_is_told() {
    with_server(async {
        let scratch = Scratch::make().await;
        let store = Arc::new(scratch.connect().await);
        due_jobs(&*store, 1).await;
        scratch.plain().await.execute("DELETE FROM states", &[]).await.unwrap();
        let mending = Mending::start(store, &clock());
        mending.until(async |mending| !mending.found().is_empty()).await;
        assert_eq!(mending.found(), ["orphan 1"]);
        mending.stop().await;
    });
}
