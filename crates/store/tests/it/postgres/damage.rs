//! The invariant scan of the engine detects and counts damage to the database, and repairs it where
//! that is safe.

use std::sync::Arc;
use std::time::Duration;

use kalends_environment::ManualClock;
use kalends_store::postgres::PostgresStore;
use kalends_store::record::{JobRecord, NodeId, SlotKey};
use kalends_store::{AdminStore, ApiStore, EngineStore, StoreError};

use super::database::{TestDatabase, codec, settings};
use super::sample::{at, begin, due_jobs, job_path};
use super::with_server;
use crate::repair::RepairTest;
use crate::unreadable;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(at(0).timestamp().unwrap()))
}

/// Performs a write that an index does not record.
async fn hidden_from(index: &str, database: &TestDatabase, written: impl Future<Output = ()>) {
    let client = database.client().await;
    let sql = "UPDATE pg_index SET indisready = NOT indisready
         WHERE indexrelid = $1::text::regclass";
    assert_eq!(client.execute(sql, &[&index]).await.unwrap(), 1);
    written.await;
    assert_eq!(client.execute(sql, &[&index]).await.unwrap(), 1);
}

/// A store that uses indexes even for small tables. Without JIT: the planner considers other plans so
/// expensive that it would compile them first.
async fn with_index_scans(database: &TestDatabase) -> Arc<PostgresStore> {
    let url = format!("{}?options=-c%20enable_seqscan%3Doff%20-c%20jit%3Doff", database.url);
    Arc::new(PostgresStore::connect(&url, settings(), codec(1)).await.unwrap())
}

#[test]
fn a_due_job_missing_from_the_due_list_is_repaired() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        hidden_from("states_due", &database, async { drop(due_jobs(&store, 1).await) }).await;
        let store = with_index_scans(&database).await;
        assert_eq!(store.due(at(1_000), 9).await.unwrap(), []);
        let test = RepairTest::start(store.clone(), &clock());
        test.until(async |test| test.calls().len() >= 3).await;
        assert_eq!(test.found(), ["overdue 1"], "it is due again like any other");
        test.stop().await;
    });
}

#[test]
fn a_due_run_missing_from_the_claimable_runs_is_claimed() {
    // Unclaimed, or claimed by a node that died.
    for (index, owner) in [("runs_waiting", None), ("runs_claimed", Some(NodeId(2)))] {
        with_server(async {
            let database = TestDatabase::create().await;
            let store = database.connect().await;
            let jobs = due_jobs(&store, 1).await;
            let job = jobs.first().unwrap();
            let begun = async {
                store.commit(vec![begin(job, owner)]).await.unwrap();
                // The clock of the database is ahead of that of the engine.
                database.advance_clock(Duration::from_secs(100 * 365 * 86_400)).await;
            };
            hidden_from(index, &database, begun).await;
            let store = with_index_scans(&database).await;
            assert_eq!(store.claimable(at(1_000), 9).await.unwrap(), []);
            assert_eq!(store.open_runs(job.key).await.unwrap().len(), 1);
            let test = RepairTest::start(store.clone(), &clock());
            test.until(async |test| test.calls().contains(&at(60))).await;
            assert_eq!(test.found(), ["lost_run 1"]);
            let is_finished = async |_: &RepairTest| {
                let open = store.open_runs(job.key).await.unwrap();
                open.iter().all(|run| run.scheduled != at(60))
            };
            test.until(is_finished).await;
            test.stop().await;
            assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
        });
    }
}

#[test]
fn a_job_without_a_due_time_is_given_its_next_occurrence() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = Arc::new(database.connect().await);
        due_jobs(&*store, 1).await;
        database.client().await.execute("UPDATE states SET due = NULL", &[]).await.unwrap();
        let test = RepairTest::start(store.clone(), &clock());
        let is_due = async |_: &RepairTest| {
            store.job(job_path("j0")).await.unwrap().unwrap().0.state.due.is_some()
        };
        test.until(is_due).await;
        // The clock of the test may bring the next scan before the repair is committed.
        let found = test.found();
        assert!(matches!(&found[..], [one] if one.starts_with("never_due ")), "{found:?}");
        test.stop().await;
    });
}

#[test]
fn a_job_without_a_state_is_reported() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = Arc::new(database.connect().await);
        due_jobs(&*store, 1).await;
        database.client().await.execute("DELETE FROM states", &[]).await.unwrap();
        let test = RepairTest::start(store, &clock());
        test.until(async |test| !test.found().is_empty()).await;
        assert_eq!(test.found(), ["orphan 1"]);
        test.stop().await;
    });
}

#[test]
fn jobs_that_cannot_be_read_do_not_stop_the_others_and_can_be_replaced_and_deleted() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = Arc::new(database.connect().await);
        unreadable::create_jobs(&*store, at(60)).await;
        let client = database.client().await;
        // An action of a newer version; a damaged id.
        let damage = r#"UPDATE jobs SET definition = '{"action":{"action":{"Future":{}}}}'
                 WHERE name = 'bad';
             UPDATE jobs SET uid = '\x00' WHERE name = 'worse'"#;
        client.batch_execute(damage).await.unwrap();
        unreadable::check(store, &clock(), at(60)).await;
    });
}

#[test]
fn jobs_whose_state_cannot_be_read_do_not_stop_the_others_and_can_be_replaced_and_deleted() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = Arc::new(database.connect().await);
        unreadable::create_jobs(&*store, at(60)).await;
        let damage = unreadable::damage_states("states", "key");
        database.client().await.batch_execute(&damage).await.unwrap();
        unreadable::check(store, &clock(), at(60)).await;
    });
}

#[test]
fn runs_that_cannot_be_read_do_not_stop_the_others() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        let jobs = due_jobs(&store, 3).await;
        let begun = jobs.iter().map(|job| begin(job, None)).collect();
        store.commit(begun).await.unwrap();
        let (bad, good) = jobs.split_first().unwrap();
        let client = database.client().await;
        client.execute("UPDATE runs SET role = 99 WHERE job = $1", &[&bad.key.0]).await.unwrap();
        let claimable = store.claimable(at(1_000), 9).await.unwrap();
        let keys = |jobs: &[JobRecord]| jobs.iter().map(|job| job.key).collect::<Vec<_>>();
        assert_eq!(claimable.iter().map(|run| run.job).collect::<Vec<_>>(), keys(good));
        match store.jobs_for_run(keys(&jobs)).await {
            Err(StoreError::Unreadable(unreadable)) => {
                assert_eq!(unreadable.iter().map(|job| job.key).collect::<Vec<_>>(), [bad.key]);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(store.jobs_for_run(keys(good)).await.unwrap().len(), 2);
        let client = database.client().await;
        client.execute("UPDATE runs SET waits_for = 7", &[]).await.unwrap();
        let parked = store.parked(SlotKey(7), 9).await.unwrap();
        assert_eq!(parked.iter().map(|run| run.job).collect::<Vec<_>>(), keys(good));
    });
}

#[test]
fn jobs_encrypted_with_an_unknown_key_do_not_stop_the_others_and_can_be_replaced_and_deleted() {
    with_server(async {
        let (database, other) = (TestDatabase::create().await, TestDatabase::create().await);
        let store = Arc::new(database.connect().await);
        unreadable::create_jobs(&*store, at(60)).await;
        let with_other_key = PostgresStore::connect(&other.url, settings(), codec(2)).await;
        unreadable::create_jobs(&with_other_key.unwrap(), at(60)).await;
        let (client, other) = (database.client().await, other.client().await);
        for name in ["bad", "worse"] {
            let definition = "SELECT definition FROM jobs WHERE name = $1";
            let row = other.query_one(definition, &[&name]).await.unwrap();
            let copy = "UPDATE jobs SET definition = $2 WHERE name = $1";
            client.execute(copy, &[&name, &row.get::<_, &str>(0)]).await.unwrap();
        }
        unreadable::check(store, &clock(), at(60)).await;
    });
}
