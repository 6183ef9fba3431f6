//! Reads see changes that are in the change log and not yet flushed to the tables, and do not see
//! deleted rows that are still in the file.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use kalends_domain::{ActionRole, AttemptStatus, HistoryEntry, Target, Timing};
use kalends_recurrence::Instant;
use kalends_store::record::{Cause, Disposition, JobKey, LedgerRecord, NodeId, Progress};
use kalends_store::sqlite::{SqliteSettings, SqliteStore, inspect};
use kalends_store::{
    AdminStore, ApiStore, AttemptCounts, CollectionContext, CollectionWrite, DueJob, EngineStore,
    HistoryFilter, JobContext, JobFilter, JobWrite, Page, Retention, RunWrite, RunWriteResult,
    StoreError,
};
use rusqlite::Connection;

use super::{at, clock, codec};
use crate::block_on;
use crate::sample::{
    advance, collection, collection_path, definition, group_path, job_path, put, request,
};

const NO_FINDINGS: Vec<String> = Vec::new();

fn open(path: &Path, flush_threshold_rows: usize) -> SqliteStore {
    let settings = SqliteSettings { flush_threshold_rows, ..SqliteSettings::default() };
    SqliteStore::open(path, settings, codec(1), clock()).unwrap()
}

async fn create_collection(store: &SqliteStore, write: CollectionWrite) {
    let decide = Box::new(move |_: CollectionContext<'_>| Ok(write.clone()));
    store.edit_collection(collection_path("c").unwrap(), decide).await.unwrap();
}

async fn create_job(store: &SqliteStore, name: &str) -> JobKey {
    let put = put(definition(Target::Http(request("https://example.com/"))), 7, at(0));
    let decide = move |_: JobContext<'_>| Ok(JobWrite::Put(Box::new(put.clone())));
    let edited = store.edit_job(job_path("c", name).unwrap(), Box::new(decide)).await.unwrap();
    edited.after.unwrap().key
}

/// Begins and finishes the n-th run of a job that is due every minute.
async fn run(store: &SqliteStore, job: JobKey, number: u64) {
    let due = at(60 * number);
    let begin = RunWrite::Begin {
        on: DueJob { job, generation: 1, due },
        scheduled: due,
        progress: Progress::first(due),
        owner: Some(NodeId(1)),
        lease: Duration::from_secs(10),
        advance: advance(due, number + 1),
        closed: vec![],
        postponed: vec![],
        waits_for: None,
    };
    let begun = store.commit(vec![begin]).await.unwrap();
    let [RunWriteResult::Begun { run, claim: Some(claim) }] = begun[..] else {
        panic!("{begun:?}")
    };
    let entry = HistoryEntry {
        started: due,
        ended: due,
        expected: due,
        status: AttemptStatus::Completed,
        message: "200 OK".into(),
        retry: 0,
        repeat: number + 1,
        role: ActionRole::Main,
        timing: Timing::default(),
        generation: Some(1),
    };
    let closed = LedgerRecord {
        generation: 1,
        from: due,
        to: due,
        count: 1,
        cause: Cause::Scheduled,
        disposition: Disposition::Completed,
        closed: due,
    };
    let counts = AttemptCounts { executed: Some(due), failed: false, faulted: false };
    let token = claim.token;
    let finish = RunWrite::Finish {
        run,
        token,
        entry: Some(entry),
        counts,
        closed,
        lifecycle: None,
        unused: None,
    };
    assert_eq!(store.commit(vec![finish]).await.unwrap(), [RunWriteResult::Done]);
}

/// A number in the file, read as another process would.
fn count(path: &Path, sql: &str) -> i64 {
    Connection::open(path).unwrap().query_row(sql, (), |row| row.get(0)).unwrap()
}

/// Waits until a number in the file has the given value.
#[track_caller]
fn wait_for(path: &Path, sql: &str, expected: i64) {
    for _ in 0..2_000 {
        if count(path, sql) == expected {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{sql}: {} and not {expected}", count(path, sql));
}

#[test]
fn readers_see_every_acknowledged_write_during_a_flush() {
    const RUNS: u64 = 120;
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("kalends.db"), 1);
    let (first, second) = block_on(async {
        create_collection(&store, CollectionWrite::Put(collection())).await;
        (create_job(&store, "first").await, create_job(&store, "second").await)
    });
    let acknowledged = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let path = job_path("c", "first").unwrap();
                let mut before = 0;
                while before < RUNS {
                    before = acknowledged.load(Ordering::SeqCst);
                    let (job, _) = block_on(store.job(path.clone())).unwrap().unwrap();
                    assert!(job.state.executions >= before, "{} of {before}", job.state.executions);
                    // Due time and count come from one snapshot.
                    assert_eq!(job.state.due, Some(at(60 * job.state.used)));
                    let (filter, page) = (HistoryFilter::default(), Page::first(1_000));
                    let entries = block_on(store.history(path.clone(), filter, page));
                    let entries = entries.unwrap().unwrap();
                    let repeats: Vec<_> = entries.iter().rev().map(|e| e.entry.repeat).collect();
                    assert!(repeats.len() as u64 >= before);
                    assert_eq!(repeats, (1..=repeats.len() as u64).collect::<Vec<_>>());
                    let ledger = block_on(store.ledger(first, Instant::MIN, Instant::MAX, 1_000));
                    assert!(ledger.unwrap().len() as u64 >= before);
                    let due = block_on(store.due(Instant::MAX, 10)).unwrap();
                    assert_eq!(due.len(), 2, "{due:?}");
                }
            });
        }
        for number in 0..RUNS {
            block_on(run(&store, first, number));
            acknowledged.store(number + 1, Ordering::SeqCst);
            block_on(run(&store, second, number));
        }
    });
    assert_eq!(block_on(store.check()).unwrap(), NO_FINDINGS);
}

#[test]
fn the_change_log_is_flushed_when_idle_without_losing_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    let store = open(&path, 100_000);
    let job = block_on(async {
        create_collection(&store, CollectionWrite::Put(collection())).await;
        let job = create_job(&store, "job").await;
        for number in 0..20 {
            run(&store, job, number).await;
        }
        job
    });
    assert_eq!(inspect(&path, &codec(1)).unwrap(), NO_FINDINGS);
    // The writer is idle and performs maintenance.
    wait_for(&path, "SELECT executions FROM state", 20);
    wait_for(&path, "SELECT count(*) < 10 FROM log", 1);
    let state = block_on(store.jobs_for_run(vec![job])).unwrap().remove(0).unwrap().job.state;
    assert_eq!((state.executions, state.due), (20, Some(at(60 * 20))));
    assert_eq!(block_on(store.check()).unwrap(), NO_FINDINGS);
}

#[test]
fn the_change_log_of_a_job_that_runs_often_stays_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    let store = open(&path, 100);
    block_on(async {
        create_collection(&store, CollectionWrite::Put(collection())).await;
        let job = create_job(&store, "job").await;
        for number in 0..40 {
            run(&store, job, number).await;
        }
    });
    let entries = count(&path, "SELECT count(*) FROM log");
    assert!(entries < 60, "{entries} entries");
    assert_eq!(block_on(store.check()).unwrap(), NO_FINDINGS);
}

#[test]
fn new_jobs_are_due_before_they_are_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    let store = open(&path, 100_000);
    block_on(async {
        create_collection(&store, CollectionWrite::Put(collection())).await;
        let mut keys = Vec::new();
        for name in ["a", "b", "c"] {
            keys.push(create_job(&store, name).await);
        }
        let due = async || {
            let due = store.due(Instant::MAX, 10).await.unwrap();
            due.iter().map(|due| due.on.job).collect::<Vec<_>>()
        };
        assert_eq!(due().await, keys);
        let delete = Box::new(|_: JobContext<'_>| Ok(JobWrite::Delete));
        store.edit_job(job_path("c", "b").unwrap(), delete).await.unwrap();
        run(&store, keys[2], 0).await;
        assert_eq!(due().await, [keys[0], keys[2]]);
        assert_eq!(inspect(&path, &codec(1)).unwrap(), NO_FINDINGS);
        store.flush().await.unwrap();
        assert_eq!(count(&path, "SELECT count(*) FROM due"), 2);
        assert_eq!(count(&path, "SELECT count(*) FROM log"), 1, "the flush empties the change log");
        assert_eq!(due().await, [keys[0], keys[2]]);
        assert_eq!(store.check().await.unwrap(), NO_FINDINGS);
    });
}

#[test]
fn open_runs_and_ids_survive_flushes_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    let begin = |job, seconds| RunWrite::Begin {
        on: DueJob { job, generation: 1, due: at(seconds) },
        scheduled: at(seconds),
        progress: Progress::first(at(seconds)),
        owner: None,
        lease: Duration::ZERO,
        advance: advance(at(seconds), 1),
        closed: vec![],
        postponed: vec![],
        waits_for: None,
    };
    let run_of = |results: Vec<RunWriteResult>| match results[..] {
        [RunWriteResult::Begun { run, .. }] => run,
        _ => panic!("{results:?}"),
    };
    block_on(async {
        let store = open(&path, 100_000);
        create_collection(&store, CollectionWrite::Put(collection())).await;
        let job = create_job(&store, "job").await;
        let first = run_of(store.commit(vec![begin(job, 0)]).await.unwrap());
        store.flush().await.unwrap();
        let runs = store.open_runs(job).await.unwrap();
        drop(store);
        let store = open(&path, 100_000);
        assert_eq!(store.open_runs(job).await.unwrap(), runs);
        assert_eq!(store.claimable(Instant::MAX, 10).await.unwrap(), runs);
        // Deleting the job deletes the run; its id is not reused.
        let decide = Box::new(|_: JobContext<'_>| Ok(JobWrite::Delete));
        store.edit_job(job_path("c", "job").unwrap(), decide).await.unwrap();
        assert_eq!(store.claimable(Instant::MAX, 10).await.unwrap(), []);
        store.flush().await.unwrap();
        assert_eq!(count(&path, "SELECT count(*) FROM runs"), 0);
        drop(store);
        let store = open(&path, 100_000);
        let other = create_job(&store, "job").await;
        let second = run_of(store.commit(vec![begin(other, 0)]).await.unwrap());
        assert!(second > first && other > job);
        assert_eq!(store.check().await.unwrap(), NO_FINDINGS);
    });
}

#[test]
fn pruning_rows_in_the_middle_of_a_chain_keeps_the_others_reachable() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("kalends.db"), 100_000);
    let ledger_row = |seconds| LedgerRecord {
        generation: 1,
        from: at(seconds),
        to: at(seconds),
        count: 1,
        cause: Cause::Scheduled,
        disposition: Disposition::Missed,
        closed: at(seconds),
    };
    let entry = |seconds| HistoryEntry {
        started: at(seconds),
        ended: at(seconds),
        expected: at(seconds),
        status: AttemptStatus::Postponed,
        message: String::new(),
        retry: 0,
        repeat: 0,
        role: ActionRole::Main,
        timing: Timing::default(),
        generation: Some(1),
    };
    // Two adjacent rows are older than the one before them.
    let times = [100, 0, 1, 101, 2];
    block_on(async {
        create_collection(&store, CollectionWrite::Put(collection())).await;
        let job = create_job(&store, "job").await;
        let skip = RunWrite::Skip {
            on: DueJob { job, generation: 1, due: at(0) },
            advance: advance(at(0), 0),
            closed: times.map(ledger_row).to_vec(),
            postponed: times.map(entry).to_vec(),
        };
        assert_eq!(store.commit(vec![skip]).await.unwrap(), [RunWriteResult::Done]);
        let retention = Retention { history_age: Duration::ZERO, ..Retention::default() };
        assert_eq!(store.prune(retention, at(50), 100).await.unwrap(), 6);
        let (filter, page) = (HistoryFilter::default(), Page::first(10));
        let entries = store.history(job_path("c", "job").unwrap(), filter, page).await;
        let starts: Vec<_> = entries.unwrap().unwrap().iter().map(|e| e.entry.started).collect();
        assert_eq!(starts, [at(101), at(100)]);
        let ledger = store.ledger(job, Instant::MIN, Instant::MAX, 10).await.unwrap();
        assert_eq!(ledger, [ledger_row(100), ledger_row(101)]);
        assert_eq!(store.check().await.unwrap(), NO_FINDINGS);
    });
}

#[test]
fn a_deleted_collection_disappears_at_once_and_is_removed_in_the_background() {
    const JOBS: usize = 1_500;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    let store = open(&path, 100_000);
    block_on(async {
        create_collection(&store, CollectionWrite::Put(collection())).await;
        let mut keys = Vec::new();
        for number in 0..JOBS {
            keys.push(create_job(&store, &format!("job-{number}")).await);
        }
        for number in 0..5 {
            run(&store, keys[0], number).await;
        }
        create_collection(&store, CollectionWrite::Delete).await;
        let jobs = |filter| store.jobs(collection_path("c").unwrap(), filter, Page::first(10), 10);
        assert_eq!(jobs(JobFilter::default()).await, Err(StoreError::NoCollection));
        for key in [keys[0], keys[JOBS - 1]] {
            assert_eq!(
                store
                    .jobs_for_run(vec![key])
                    .await
                    .unwrap()
                    .remove(0)
                    .map(|found| found.job.clone()),
                None
            );
            assert_eq!(store.ledger(key, Instant::MIN, Instant::MAX, 10).await.unwrap(), []);
        }
        assert_eq!(store.due(Instant::MAX, 10).await.unwrap(), []);
        assert_eq!(inspect(&path, &codec(1)).unwrap(), NO_FINDINGS);

        // The name can be reused; the new collection is empty.
        create_collection(&store, CollectionWrite::Put(collection())).await;
        let decide = |context: JobContext<'_>| {
            assert_eq!((context.jobs, context.existing), (0, None));
            Ok(JobWrite::Keep)
        };
        store.edit_job(job_path("c", "job-0").unwrap(), Box::new(decide)).await.unwrap();
        let key = create_job(&store, "job-0").await;
        run(&store, key, 0).await;
        // The removal continues after a restart.
        drop(store);
        let store = open(&path, 100_000);
        wait_for(&path, "SELECT count(*) FROM doomed", 0);
        wait_for(&path, "SELECT count(*) FROM leftovers", 0);
        for table in ["jobs", "state", "due", "history", "ledger"] {
            assert_eq!(count(&path, &format!("SELECT count(*) FROM {table}")), 1, "{table}");
        }
        assert_eq!(store.check().await.unwrap(), NO_FINDINGS);

        assert!(store.delete_group(group_path("g").unwrap()).await.unwrap());
        assert_eq!(
            store.jobs_for_run(vec![key]).await.unwrap().remove(0).map(|found| found.job.clone()),
            None
        );
        wait_for(&path, "SELECT count(*) FROM history", 0);
        assert_eq!(store.check().await.unwrap(), NO_FINDINGS);
    });
}
