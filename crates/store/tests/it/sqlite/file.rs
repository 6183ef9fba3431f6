//! The database file: access, locking, limits, backup and the integrity check.

use std::fs;
use std::path::Path;
use std::time::Duration;

use kalends_domain::Target;
use kalends_environment::Clock as _;
use kalends_store::sqlite::{SqliteSettings, SqliteStore, back_up, inspect};
use kalends_store::{
    AdminStore, ApiStore, CollectionContext, CollectionWrite, EditedJob, JobContext, JobFilter,
    JobWrite, Page, Reply, StoreError, StoreHealth as _,
};
use rusqlite::Connection;

use super::{at, clock, codec, open};
use crate::block_on;
use crate::sample::{collection, collection_path, definition, job_path, put, request};

async fn create_collection(store: &SqliteStore) {
    let decide = Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Put(collection())));
    store.edit_collection(collection_path("c").unwrap(), decide).await.unwrap();
}

fn put_job<'a>(store: &'a SqliteStore, name: &str) -> Reply<'a, EditedJob> {
    let put = put(definition(Target::Http(request("https://example.com/"))), 7, at(60));
    let decide = move |_: JobContext<'_>| Ok(JobWrite::Put(Box::new(put.clone())));
    store.edit_job(job_path("c", name).unwrap(), Box::new(decide))
}

async fn names(store: &SqliteStore) -> Vec<String> {
    let path = collection_path("c").unwrap();
    let jobs = store.jobs(path, JobFilter::default(), Page::first(10_000), 1).await.unwrap().jobs;
    jobs.iter().map(|job| job.path.job.to_string()).collect()
}

/// Modifies the file of a closed store.
fn tamper(path: &Path, sql: &str) {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "foreign_keys", "OFF").unwrap();
    connection.execute_batch(sql).unwrap();
}

#[test]
fn acknowledged_writes_are_there_when_the_store_is_reopened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    block_on(async {
        let store = open(&path).unwrap();
        create_collection(&store).await;
        put_job(&store, "First").await.unwrap();
        drop(store);
        assert!(
            !folder.path().join("kalends.db-wal").exists(),
            "closing the store checkpoints the WAL"
        );
        let store = open(&path).unwrap();
        assert_eq!(names(&store).await, ["First"]);
        assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
        assert_eq!(store.path(), path);
    });
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    let _store = open(&path).unwrap();
    for name in ["kalends.db", "kalends.db-wal", "kalends.db-shm"] {
        let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}");
    }
}

#[test]
fn a_second_open_is_refused_until_the_first_store_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    let store = open(&path).unwrap();
    let second = open(&path).err().unwrap();
    assert!(matches!(&second, StoreError::Busy(text) if text.contains("another process")));
    drop(store);
    open(&path).unwrap();
}

#[cfg(unix)]
#[test]
fn a_second_open_through_a_symbolic_link_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("kalends.db"), folder.path().join("link.db"));
    let store = open(&path).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(open(&link).err().unwrap(), StoreError::Busy(_)));
    drop(store);
    let store = open(&link).unwrap();
    assert!(matches!(open(&path).err().unwrap(), StoreError::Busy(_)));
    drop(store);
}

#[test]
fn another_key_is_refused_and_the_right_one_still_opens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    drop(open(&path).unwrap());
    let other = SqliteStore::open(&path, SqliteSettings::default(), codec(2), clock());
    assert!(matches!(other.err().unwrap(), StoreError::Key(text) if text.contains("another key")));
    assert!(matches!(inspect(&path, &codec(2)), Err(StoreError::Key(_))));
    open(&path).unwrap();
}

#[test]
fn newer_and_foreign_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    drop(open(&path).unwrap());
    tamper(&path, "PRAGMA user_version = 99");
    assert!(matches!(open(&path).err().unwrap(), StoreError::TooNew { found: 99, .. }));

    let text = folder.path().join("text");
    fs::write(&text, "not a database, but long enough to look like a file with content").unwrap();
    assert!(matches!(open(&text).err().unwrap(), StoreError::Damaged(_)));
}

#[test]
fn an_interrupted_migration_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    // The state after a kill before the first migration was committed: an empty file.
    fs::write(&path, "").unwrap();
    block_on(async { create_collection(&open(&path).unwrap()).await });
}

#[test]
fn a_failed_request_does_not_affect_others_of_the_same_commit() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open(&folder.path().join("kalends.db")).unwrap();
        create_collection(&store).await;
        let panics = |_: JobContext<'_>| -> Result<JobWrite, kalends_store::Rejection> {
            std::panic::resume_unwind(Box::new("no decision"))
        };
        // All are queued before the first one completes.
        let first = put_job(&store, "a");
        let bad = store.edit_job(job_path("c", "b").unwrap(), Box::new(panics));
        let absent = store.edit_job(
            job_path("nowhere", "b").unwrap(),
            Box::new(|_: JobContext<'_>| Ok(JobWrite::Keep)),
        );
        let last = put_job(&store, "z");
        assert!(first.await.is_ok());
        assert!(matches!(bad.await, Err(StoreError::Failed(text)) if text.contains("panicked")));
        assert_eq!(absent.await, Err(StoreError::NoCollection));
        assert!(last.await.is_ok());
        assert_eq!(names(&store).await, ["a", "z"]);
    });
}

#[test]
fn a_full_write_queue_is_busy() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let settings = SqliteSettings { writes_waiting_max: 2, ..SqliteSettings::default() };
        let path = folder.path().join("kalends.db");
        let store = SqliteStore::open(&path, settings, codec(1), clock()).unwrap();
        create_collection(&store).await;
        // The first edit blocks the writer until the others are queued.
        let (started, has_started) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let block = move |_: JobContext<'_>| {
            started.send(()).unwrap();
            released.recv().unwrap();
            Ok(JobWrite::Keep)
        };
        let blocked = store.edit_job(job_path("c", "x").unwrap(), Box::new(block));
        has_started.recv().unwrap();
        let waiting = [put_job(&store, "a"), put_job(&store, "b")];
        let refused = put_job(&store, "c").await;
        assert!(matches!(refused, Err(StoreError::Busy(_))));
        release.send(()).unwrap();
        blocked.await.unwrap();
        for edit in waiting {
            edit.await.unwrap();
        }
        assert_eq!(names(&store).await, ["a", "b"]);
    });
}

#[test]
fn an_edit_that_waited_for_the_writer_is_decided_at_the_time_of_its_turn() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let clock = clock();
        let path = folder.path().join("kalends.db");
        let settings = SqliteSettings::default();
        let store = SqliteStore::open(&path, settings, codec(1), clock.clone()).unwrap();
        create_collection(&store).await;
        let (started, has_started) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let block = move |_: JobContext<'_>| {
            started.send(()).unwrap();
            released.recv().unwrap();
            Ok(JobWrite::Keep)
        };
        let blocked = store.edit_job(job_path("c", "x").unwrap(), Box::new(block));
        has_started.recv().unwrap();
        let (decided, was_decided) = std::sync::mpsc::channel();
        let (decided_job, decided_collection) = (decided.clone(), decided);
        let edit_job = move |context: JobContext<'_>| {
            decided_job.send(context.now).unwrap();
            Ok(JobWrite::Keep)
        };
        let edit_collection = move |context: CollectionContext<'_>| {
            decided_collection.send(context.now).unwrap();
            Ok(CollectionWrite::Keep)
        };
        let job = store.edit_job(job_path("c", "x").unwrap(), Box::new(edit_job));
        let collection =
            store.edit_collection(collection_path("c").unwrap(), Box::new(edit_collection));
        clock.set(clock.now().checked_add(Duration::from_secs(90)).unwrap());
        release.send(()).unwrap();
        blocked.await.unwrap();
        job.await.unwrap();
        collection.await.unwrap();
        assert_eq!(was_decided.iter().collect::<Vec<_>>(), [at(90), at(90)]);
    });
}

#[test]
fn a_full_store_reports_it_and_accepts_writes_when_the_limit_is_raised() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    let settings = SqliteSettings { size_max_kib: Some(512), ..SqliteSettings::default() };
    block_on(async {
        let store = SqliteStore::open(&path, settings, codec(1), clock()).unwrap();
        create_collection(&store).await;
        let mut written = 0;
        let error = loop {
            match put_job(&store, &format!("job-{written:05}")).await {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error, StoreError::Full);
        assert_eq!(store.stopped(), None);
        // Requests in the same commit fail too.
        let together = [put_job(&store, "x"), put_job(&store, "y")];
        for put in together {
            assert!(matches!(put.await, Err(StoreError::Full)));
        }
        assert_eq!(names(&store).await.len(), written);
        assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
        drop(store);
        let store = open(&path).unwrap();
        put_job(&store, "more").await.unwrap();
        assert_eq!(names(&store).await.len(), written + 1);
    });
}

#[test]
fn a_backup_during_writes_is_consistent() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("kalends.db"), folder.path().join("copy.db"));
    block_on(async {
        let store = open(&path).unwrap();
        create_collection(&store).await;
        for number in 0..50 {
            put_job(&store, &format!("before-{number}")).await.unwrap();
        }
        let copying = store.backup(copy.clone());
        let after = (0..200).map(|number| put_job(&store, &format!("while-{number}")));
        let after: Vec<_> = after.collect();
        copying.await.unwrap();
        for put in after {
            put.await.unwrap();
        }
        let again = store.backup(copy.clone()).await;
        assert!(matches!(again, Err(StoreError::Failed(text)) if text.contains("exists")));
        // A tool can back up while the process runs.
        back_up(&path, &codec(1), &folder.path().join("second.db")).unwrap();
        assert_eq!(inspect(&path, &codec(1)).unwrap(), Vec::<String>::new());

        let copied = open(&copy).unwrap();
        assert_eq!(copied.check().await.unwrap(), Vec::<String>::new());
        let copied = names(&copied).await;
        assert_eq!(copied.iter().filter(|name| name.starts_with("before")).count(), 50);
    });
}

#[test]
fn the_integrity_check_finds_every_kind_of_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    for (sql, finding) in [
        ("DELETE FROM state", "has no state"),
        ("UPDATE state SET collection = 99", "another collection"),
        ("UPDATE state SET entries = 5", "counts 5 entries"),
        ("UPDATE collections SET jobs = 9", "counts 9 jobs"),
        ("UPDATE jobs SET definition = '{}'", "cannot be read"),
        ("DELETE FROM collections", "belongs to nothing"),
        ("DELETE FROM jobs", "a state and is not there"),
        ("UPDATE due SET due = due + 1", "due at another time"),
        ("DELETE FROM due", "due at another time"),
        ("INSERT INTO due SELECT due + 1, job, packed FROM due", "due at another time"),
        ("UPDATE due SET packed = x'00'", "another row where it is due"),
        ("UPDATE state SET used = 5", "another row where it is due"),
        ("INSERT INTO finished VALUES (1, 1)", "finished at another time"),
        ("UPDATE state SET lifecycle = 1", "due at another time"),
        ("INSERT INTO log VALUES (9, x'07')", "row 9 of the log cannot be read"),
        (
            "INSERT INTO runs (run, job, collection, generation, scheduled, cause, repeat, role, retry,
                redelivery, next_at, last_token) VALUES (99, 1, 1, 9, 0, 0, 0, 0, 0, 0, 0, 0)",
            "run 99",
        ),
        ("INSERT INTO ledger VALUES (9, 1, 0, 1, 0, 0, 1, 0, 0, 0, NULL, NULL, NULL)", "the log ends at"),
        ("INSERT INTO ledger VALUES (9, 1, 0, 1, 0, 0, 1, 0, 0, 0, NULL, NULL, NULL)", "older than its span"),
        (
            "INSERT INTO ledger VALUES (9, 1, 0, 1, 0, 0, 1, 0, 0, 0, NULL, NULL, NULL);
             INSERT INTO spans VALUES (1, 0, 0, -1)",
            "later than its span",
        ),
        ("INSERT INTO ledger VALUES (9, 1, 0, 1, 0, 0, 1, 0, 0, 0, NULL, NULL, NULL)", "out of reach"),
        ("INSERT INTO ledger VALUES (9, 5, 0, 1, 0, 0, 1, 0, 0, 0, NULL, NULL, NULL)", "belongs to nothing"),
        ("INSERT INTO notes VALUES (1, 0, 0, 1, 999, '', NULL, '')", "note 1 belongs to nothing"),
        ("INSERT INTO earlier_definitions VALUES (1, 999, 1, 0, '{}')", "belongs to no job"),
        ("INSERT INTO earlier_definitions VALUES (1, 1, 7, 0, '{}')", "job 1, generation 7: "),
        ("INSERT INTO notes VALUES (1, 0, 0, 999, 0, '', NULL, '')", "note 1 belongs to nothing"),
    ] {
        block_on(async {
            let store = open(&path).unwrap();
            create_collection(&store).await;
            put_job(&store, "job").await.unwrap();
        });
        assert_eq!(inspect(&path, &codec(1)).unwrap(), Vec::<String>::new());
        tamper(&path, sql);
        let found = inspect(&path, &codec(1)).unwrap();
        assert!(found.iter().any(|line| line.contains(finding)), "{sql}: {found:?}");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_ciphertext_moved_to_another_job_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    block_on(async {
        let store = open(&path).unwrap();
        create_collection(&store).await;
        for (name, uid) in [("a", 1), ("b", 2)] {
            let target = Target::Http(request("https://example.com/?sig=canary"));
            let put = put(definition(target), uid, at(60));
            let decide = move |_: JobContext<'_>| Ok(JobWrite::Put(Box::new(put.clone())));
            store.edit_job(job_path("c", name).unwrap(), Box::new(decide)).await.unwrap();
        }
    });
    tamper(
        &path,
        "UPDATE jobs SET definition = (SELECT definition FROM jobs WHERE name = 'a')
         WHERE name = 'b'",
    );
    block_on(async {
        let store = open(&path).unwrap();
        assert!(store.job(job_path("c", "a").unwrap()).await.is_ok());
        let moved = store.job(job_path("c", "b").unwrap()).await;
        let Err(StoreError::Unreadable(jobs)) = moved else { panic!("{moved:?}") };
        assert!(jobs[0].reason.contains("moved"), "{jobs:?}");
    });
}
