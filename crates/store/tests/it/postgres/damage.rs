//! Damage that is done to the database behind the back of the store is found by the engine, counted,
//! and put right where that can do no harm.

use std::sync::Arc;
use std::time::Duration;

use kalends_environment::ManualClock;
use kalends_store::postgres::PostgresStore;
use kalends_store::record::NodeId;
use kalends_store::{AdminStore, ApiStore, EngineStore};

use super::sample::{at, begin, due_jobs, job_path};
use super::scratch::{Scratch, codec, settings};
use super::with_server;
use crate::mended::Mending;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(at(0).timestamp().unwrap()))
}

/// Writes something that an index does not get to know of.
async fn unseen_by(index: &str, scratch: &Scratch, written: impl Future<Output = ()>) {
    let client = scratch.plain().await;
    let sql = "UPDATE pg_index SET indisready = NOT indisready
         WHERE indexrelid = $1::text::regclass";
    assert_eq!(client.execute(sql, &[&index]).await.unwrap(), 1);
    written.await;
    assert_eq!(client.execute(sql, &[&index]).await.unwrap(), 1);
}

/// A store that searches along indexes, as it does where there is much to search. What the database
/// does not search so it takes for very long then, and would compile it first.
async fn by_index(scratch: &Scratch) -> Arc<PostgresStore> {
    let url = format!("{}?options=-c%20enable_seqscan%3Doff%20-c%20jit%3Doff", scratch.url);
    Arc::new(PostgresStore::connect(&url, settings(), codec(1)).await.unwrap())
}

#[test]
fn a_job_that_is_due_and_not_told_of_is_put_back() {
    with_server(async {
        let scratch = Scratch::make().await;
        let store = scratch.connect().await;
        unseen_by("states_due", &scratch, async { drop(due_jobs(&store, 1).await) }).await;
        let store = by_index(&scratch).await;
        assert_eq!(store.due(at(1_000), 9).await.unwrap(), []);
        let mending = Mending::start(store.clone(), &clock());
        mending.until(async |mending| mending.calls().len() >= 3).await;
        assert_eq!(mending.found(), ["overdue 1"], "it is due like any other again");
        mending.stop().await;
    });
}

#[test]
fn a_run_that_is_due_and_not_told_of_is_taken_up() {
    // It waits, or the node that worked on it is gone.
    for (index, owner) in [("runs_waiting", None), ("runs_claimed", Some(NodeId(2)))] {
        with_server(async {
            let scratch = Scratch::make().await;
            let store = scratch.connect().await;
            let jobs = due_jobs(&store, 1).await;
            let job = jobs.first().unwrap();
            let begun = async {
                store.commit(vec![begin(job, owner)]).await.unwrap();
                // The clock of the database is ahead of that of the engine.
                scratch.pass(Duration::from_secs(100 * 365 * 86_400)).await;
            };
            unseen_by(index, &scratch, begun).await;
            let store = by_index(&scratch).await;
            assert_eq!(store.claimable(at(1_000), 9).await.unwrap(), []);
            assert_eq!(store.open_runs(job.key).await.unwrap().len(), 1);
            let mending = Mending::start(store.clone(), &clock());
            mending.until(async |mending| mending.calls().contains(&at(60))).await;
            assert_eq!(mending.found(), ["lost_run 1"]);
            let is_over = async |_: &Mending| {
                let open = store.open_runs(job.key).await.unwrap();
                open.iter().all(|run| run.scheduled != at(60))
            };
            mending.until(is_over).await;
            mending.stop().await;
            assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
        });
    }
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
