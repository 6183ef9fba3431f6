//! Damage that is done to the file behind the back of the store is found by the engine, counted, and
//! put right where that can do no harm.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{Collection, CollectionState, Target};
use kalends_environment::ManualClock;
use kalends_store::record::{JobRecord, NodeId, Progress};
use kalends_store::sqlite::{SqliteSettings, SqliteStore};
use kalends_store::{
    AdminStore, ApiStore, CollectionContext, CollectionWrite, DueJob, EngineStore, JobContext,
    JobWrite, RunWrite,
};
use rusqlite::Connection;

use super::{at, clock, codec};
use crate::block_on;
use crate::mended::Mending;
use crate::sample::{advance, collection, collection_path, definition, job_path, put, request};

fn open(path: &Path, clock: &Arc<ManualClock>) -> Arc<SqliteStore> {
    let settings = SqliteSettings::default();
    Arc::new(SqliteStore::open(path, settings, codec(1), clock.clone()).unwrap())
}

/// A folder with a store that has one job, due every minute from a minute on.
async fn with_job(clock: &Arc<ManualClock>) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open(&path, clock);
    put_collection(&store, "c", collection()).await;
    let put = put(definition(Target::Http(request("http://example.com"))), 1, at(60));
    let put = move |_: JobContext<'_>| Ok(JobWrite::Put(Box::new(put.clone())));
    store.edit_job(job_path("c", "j").unwrap(), Box::new(put)).await.unwrap();
    store.flush().await.unwrap();
    (folder, path)
}

async fn put_collection(store: &SqliteStore, name: &str, collection: Collection) {
    let made = move |_: CollectionContext<'_>| Ok(CollectionWrite::Put(collection.clone()));
    store.edit_collection(collection_path(name).unwrap(), Box::new(made)).await.unwrap();
}

fn damage(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

async fn job(store: &SqliteStore) -> JobRecord {
    store.job(job_path("c", "j").unwrap()).await.unwrap().unwrap().0
}

#[test]
fn a_job_that_is_due_and_not_told_of_is_put_back() {
    block_on(async {
        let clock = clock();
        let (_folder, path) = with_job(&clock).await;
        damage(&path, "DELETE FROM due");
        let store = open(&path, &clock);
        assert_eq!(store.due(at(1_000), 9).await.unwrap(), []);
        let mending = Mending::start(store.clone(), &clock);
        mending.until(async |mending| !mending.calls().is_empty()).await;
        assert_eq!(mending.found(), ["overdue 1"]);
        mending.until(async |mending| mending.calls().len() >= 3).await;
        assert_eq!(mending.found(), ["overdue 1"], "it is due like any other again");
        mending.stop().await;
        assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    });
}

#[test]
fn a_job_that_is_never_due_is_given_its_next_instant() {
    block_on(async {
        let clock = clock();
        let (_folder, path) = with_job(&clock).await;
        damage(&path, "UPDATE state SET due = NULL; DELETE FROM due");
        let store = open(&path, &clock);
        let mending = Mending::start(store.clone(), &clock);
        mending.until(async |mending| mending.calls().len() >= 2).await;
        assert_eq!(mending.found(), ["never_due 1"]);
        mending.stop().await;
        assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    });
}

#[test]
fn a_run_that_is_due_and_not_told_of_is_taken_up() {
    // It waits, or the node that worked on it is gone.
    for owner in [None, Some(NodeId(2))] {
        block_on(async {
            let clock = clock();
            let (_folder, path) = with_job(&clock).await;
            let store = open(&path, &clock);
            let kept = job(&store).await;
            let begin = RunWrite::Begin {
                on: DueJob { job: kept.key, generation: kept.job.generation, due: at(60) },
                scheduled: at(60),
                progress: Progress::first(at(60)),
                owner,
                lease: Duration::from_secs(10),
                advance: advance(at(60), 1),
                closed: vec![],
                postponed: vec![],
            };
            store.commit(vec![begin]).await.unwrap();
            let disabled = Collection { state: CollectionState::Disabled, ..collection() };
            put_collection(&store, "off", disabled).await;
            store.flush().await.unwrap();
            drop(store);
            // The tables have all of it, but the log would say it again. The run now counts as one
            // of a collection in which nothing runs.
            damage(
                &path,
                "DELETE FROM log WHERE sequence < (SELECT max(sequence) FROM log);
                 UPDATE runs SET collection = (SELECT id FROM collections WHERE NOT enabled)",
            );
            let store = open(&path, &clock);
            assert_eq!(store.claimable(at(1_000), 9).await.unwrap(), []);
            assert_eq!(store.open_runs(kept.key).await.unwrap().len(), 1);
            let mending = Mending::start(store.clone(), &clock);
            mending.until(async |mending| mending.calls().contains(&at(60))).await;
            assert_eq!(mending.found(), ["lost_run 1"]);
            let is_over = async |_: &Mending| {
                let open = store.open_runs(kept.key).await.unwrap();
                open.iter().all(|run| run.scheduled != at(60))
            };
            mending.until(is_over).await;
            mending.stop().await;
            assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
        });
    }
}

#[test]
fn counters_that_history_contradicts_are_told() {
    block_on(async {
        let clock = clock();
        let (_folder, path) = with_job(&clock).await;
        let store = open(&path, &clock);
        let mending = Mending::start(store.clone(), &clock);
        mending.until(async |mending| mending.calls().len() >= 3 && mending.surveys() >= 2).await;
        assert_eq!(mending.found(), Vec::<String>::new(), "nothing is wrong yet");
        mending.stop().await;
        assert!(job(&store).await.state.executions >= 3);
        store.flush().await.unwrap();
        drop(store);
        damage(&path, "UPDATE history SET status = 1");
        let store = open(&path, &clock);
        let mending = Mending::start(store, &clock);
        mending.until(async |mending| !mending.found().is_empty()).await;
        assert_eq!(mending.found(), ["counts 1"]);
        mending.stop().await;
    });
}

#[test]
fn what_belongs_to_nothing_is_told() {
    block_on(async {
        let clock = clock();
        let (_folder, path) = with_job(&clock).await;
        damage(&path, "DELETE FROM jobs; DELETE FROM due");
        let store = open(&path, &clock);
        let mending = Mending::start(store, &clock);
        mending.until(async |mending| !mending.found().is_empty()).await;
        assert_eq!(mending.found(), ["orphan 1"]);
        mending.stop().await;
    });
}
