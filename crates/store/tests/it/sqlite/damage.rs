//! The invariant scan of the engine detects and counts damage to the file, and repairs it where that
//! is safe.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{Collection, CollectionState, Lifecycle, Target};
use kalends_environment::ManualClock;
use kalends_store::record::{Cause, Disposition, JobRecord, LedgerRecord, NodeId, Progress};
use kalends_store::sqlite::{SqliteSettings, SqliteStore};
use kalends_store::{
    AdminStore, Advance, ApiStore, CollectionContext, CollectionWrite, DueJob, EngineStore,
    JobContext, JobWrite, RunWrite, RunWriteResult,
};
use rusqlite::Connection;

use super::{at, clock, codec};
use crate::block_on;
use crate::repair::RepairTest;
use crate::sample::{advance, collection, collection_path, definition, job_path, put, request};
use crate::unreadable;

fn open(path: &Path, clock: &Arc<ManualClock>) -> Arc<SqliteStore> {
    let settings = SqliteSettings::default();
    Arc::new(SqliteStore::open(path, settings, codec(1), clock.clone()).unwrap())
}

/// A store with one job, due every minute from `at(60)` on.
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
    let decide = move |_: CollectionContext<'_>| Ok(CollectionWrite::Put(collection.clone()));
    store.edit_collection(collection_path(name).unwrap(), Box::new(decide)).await.unwrap();
}

fn damage(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

async fn job(store: &SqliteStore) -> JobRecord {
    store.job(job_path("c", "j").unwrap()).await.unwrap().unwrap().0
}

#[test]
fn a_due_job_missing_from_the_due_list_is_repaired() {
    block_on(async {
        let clock = clock();
        let (_folder, path) = with_job(&clock).await;
        damage(&path, "DELETE FROM due");
        let store = open(&path, &clock);
        assert_eq!(store.due(at(1_000), 9).await.unwrap(), []);
        let test = RepairTest::start(store.clone(), &clock);
        test.until(async |test| !test.calls().is_empty()).await;
        assert_eq!(test.found(), ["overdue 1"]);
        test.until(async |test| test.calls().len() >= 3).await;
        assert_eq!(test.found(), ["overdue 1"], "it is due again like any other");
        test.stop().await;
        assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    });
}

#[test]
fn a_job_without_a_due_time_is_given_its_next_occurrence() {
    block_on(async {
        let clock = clock();
        let (_folder, path) = with_job(&clock).await;
        damage(&path, "UPDATE state SET due = NULL; DELETE FROM due");
        let store = open(&path, &clock);
        let test = RepairTest::start(store.clone(), &clock);
        test.until(async |test| test.calls().len() >= 2).await;
        assert_eq!(test.found(), ["never_due 1"]);
        test.stop().await;
        assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    });
}

#[test]
fn a_due_run_missing_from_the_claimable_runs_is_claimed() {
    // Unclaimed, or claimed by a node that died.
    for owner in [None, Some(NodeId(2))] {
        block_on(async {
            let clock = clock();
            let (_folder, path) = with_job(&clock).await;
            let store = open(&path, &clock);
            let job = job(&store).await;
            let begin = RunWrite::Begin {
                on: DueJob { job: job.key, generation: job.job.generation, due: at(60) },
                scheduled: at(60),
                progress: Progress::first(at(60)),
                owner,
                lease: Duration::from_secs(10),
                advance: advance(at(60), 1),
                closed: vec![],
                postponed: vec![],
                waits_for: None,
            };
            store.commit(vec![begin]).await.unwrap();
            let disabled = Collection { state: CollectionState::Disabled, ..collection() };
            put_collection(&store, "off", disabled).await;
            store.flush().await.unwrap();
            drop(store);
            // The tables are complete; without this, the change log would be applied again. The
            // run is moved to a disabled collection.
            damage(
                &path,
                "DELETE FROM log WHERE sequence < (SELECT max(sequence) FROM log);
                 UPDATE runs SET collection = (SELECT id FROM collections WHERE NOT enabled)",
            );
            let store = open(&path, &clock);
            assert_eq!(store.claimable(at(1_000), 9).await.unwrap(), []);
            assert_eq!(store.open_runs(job.key).await.unwrap().len(), 1);
            let test = RepairTest::start(store.clone(), &clock);
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
fn counters_that_contradict_the_history_are_reported() {
    block_on(async {
        let clock = clock();
        let (_folder, path) = with_job(&clock).await;
        let store = open(&path, &clock);
        let test = RepairTest::start(store.clone(), &clock);
        test.until(async |test| test.calls().len() >= 3 && test.scans_completed() >= 2).await;
        assert_eq!(test.found(), Vec::<String>::new(), "no violation yet");
        test.stop().await;
        assert!(job(&store).await.state.executions >= 3);
        store.flush().await.unwrap();
        drop(store);
        damage(&path, "UPDATE history SET status = 1");
        let store = open(&path, &clock);
        let test = RepairTest::start(store, &clock);
        test.until(async |test| !test.found().is_empty()).await;
        assert_eq!(test.found(), ["counts 1"]);
        test.stop().await;
    });
}

#[test]
fn orphaned_rows_are_reported() {
    block_on(async {
        let clock = clock();
        let (_folder, path) = with_job(&clock).await;
        damage(&path, "DELETE FROM jobs; DELETE FROM due");
        let store = open(&path, &clock);
        let test = RepairTest::start(store, &clock);
        test.until(async |test| !test.found().is_empty()).await;
        assert_eq!(test.found(), ["orphan 1"]);
        test.stop().await;
    });
}

/// Rows that cannot be decoded prove which rows were read.
#[test]
fn a_read_of_the_ledger_stops_at_the_start_of_its_period() {
    block_on(async {
        let clock = clock();
        let (_folder, path) = with_job(&clock).await;
        let store = open(&path, &clock);
        let key = job(&store).await.key;
        let minutes = 2_000;
        for minute in 1..=minutes {
            let (due, next) = (at(minute * 60), at(minute * 60 + 60));
            let skip = RunWrite::Skip {
                on: DueJob { job: key, generation: 1, due },
                advance: Advance { due: Some(next), used: 0, lifecycle: Lifecycle::Active },
                closed: vec![LedgerRecord {
                    generation: 1,
                    from: due,
                    to: due,
                    count: 1,
                    cause: Cause::Scheduled,
                    disposition: Disposition::Missed,
                    closed: due,
                }],
                postponed: vec![],
            };
            assert_eq!(store.commit(vec![skip]).await.unwrap(), [RunWriteResult::Done]);
        }
        store.flush().await.unwrap();
        damage(&path, "UPDATE ledger SET disposition = 99 WHERE id < 1000");
        let rows = store.ledger(key, at((minutes - 9) * 60), at(minutes * 60), 99).await.unwrap();
        assert_eq!(rows.len(), 10);
        let all = store.ledger(key, at(0), at(minutes * 60), 9_999).await;
        assert!(all.is_err(), "the rows before the period cannot be read");
    });
}

#[test]
fn jobs_that_cannot_be_read_do_not_stop_the_others_and_can_be_replaced_and_deleted() {
    block_on(async {
        let (clock, folder) = (clock(), tempfile::tempdir().unwrap());
        let path = folder.path().join("store");
        let store = open(&path, &clock);
        unreadable::create_jobs(&*store, at(60)).await;
        // An action of a newer version; a damaged id.
        damage(
            &path,
            r#"UPDATE jobs SET definition = '{"action":{"action":{"Future":{}}}}' WHERE name = 'bad';
               UPDATE jobs SET uid = x'00' WHERE name = 'worse'"#,
        );
        unreadable::check(store, &clock, at(60)).await;
    });
}

#[test]
fn jobs_whose_state_cannot_be_read_do_not_stop_the_others_and_can_be_replaced_and_deleted() {
    block_on(async {
        let (clock, folder) = (clock(), tempfile::tempdir().unwrap());
        let path = folder.path().join("store");
        unreadable::create_jobs(&*open(&path, &clock), at(60)).await;
        // While the store is closed, because its memory contains recent states.
        damage(&path, &unreadable::damage_states("state", "job"));
        unreadable::check(open(&path, &clock), &clock, at(60)).await;
        let reopened = open(&path, &clock);
        let deleted = reopened.job(job_path("c", "worse").unwrap()).await.unwrap();
        assert_eq!(deleted, None, "the change log does not restore it");
        assert_eq!(reopened.check().await.unwrap(), Vec::<String>::new());
    });
}

#[test]
fn jobs_encrypted_with_an_unknown_key_do_not_stop_the_others_and_can_be_replaced_and_deleted() {
    block_on(async {
        let (clock, folder) = (clock(), tempfile::tempdir().unwrap());
        let (path, other) = (folder.path().join("store"), folder.path().join("other"));
        let settings = SqliteSettings::default();
        let with_other_key = SqliteStore::open(&other, settings, codec(2), clock.clone()).unwrap();
        unreadable::create_jobs(&with_other_key, at(60)).await;
        drop(with_other_key);
        let store = open(&path, &clock);
        unreadable::create_jobs(&*store, at(60)).await;
        let copy = format!(
            "ATTACH '{}' AS other;
             UPDATE jobs SET definition =
                 (SELECT o.definition FROM other.jobs o WHERE o.name = jobs.name)
             WHERE name IN ('bad', 'worse')",
            other.display()
        );
        damage(&path, &copy);
        unreadable::check(store, &clock, at(60)).await;
    });
}
