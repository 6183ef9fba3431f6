//! Commits of many runs, whose rows are read, inserted and deleted together.

use std::path::Path;
use std::time::Duration;

use kalends_domain::{ActionRole, AttemptStatus, HistoryEntry, Lifecycle, Target, Timing};
use kalends_recurrence::Instant;
use kalends_store::record::{Cause, Disposition, JobKey, LedgerRecord, NodeId, Progress};
use kalends_store::sqlite::SqliteStore;
use kalends_store::{
    AdminStore, Advance, ApiStore, AttemptCounts, CollectionContext, CollectionWrite, DueJob,
    EngineStore, HistoryFilter, JobContext, JobWrite, Page, Retention, RunWrite, RunWriteResult,
};
use rusqlite::Connection;

use super::{at, open};
use crate::block_on;
use crate::sample::{collection, collection_path, definition, job_path, put, request};

/// More than two statements of several rows, and a rest.
const JOBS: u64 = 45;

const NO_FINDINGS: Vec<String> = Vec::new();

/// The due time of the job with a number: three times, each with jobs that are adjacent in the table.
fn due_of(number: u64) -> u64 {
    number / 15
}

async fn put_job(store: &SqliteStore, number: u64) -> JobKey {
    let target = Target::Http(request("https://example.com/"));
    let put = put(definition(target), u128::from(number), at(due_of(number)));
    let decide = move |_: JobContext<'_>| Ok(JobWrite::Put(Box::new(put.clone())));
    let path = job_path("c", &format!("job-{number}")).unwrap();
    store.edit_job(path, Box::new(decide)).await.unwrap().after.unwrap().key
}

/// A store with jobs whose rows are in the tables and not in memory.
async fn store_with_jobs(path: &Path) -> (SqliteStore, Vec<JobKey>) {
    let store = open(path).unwrap();
    let decide = Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Put(collection())));
    store.edit_collection(collection_path("c").unwrap(), decide).await.unwrap();
    let mut jobs = Vec::new();
    for number in 0..JOBS {
        jobs.push(put_job(&store, number).await);
    }
    drop(store);
    (open(path).unwrap(), jobs)
}

fn begin(number: u64, job: JobKey) -> RunWrite {
    let due = at(due_of(number));
    RunWrite::Begin {
        on: DueJob { job, generation: 1, due },
        scheduled: due,
        progress: Progress::first(due),
        owner: Some(NodeId(1)),
        lease: Duration::from_secs(10),
        advance: Advance { due: None, used: 1, lifecycle: Lifecycle::Completed },
        closed: vec![],
        postponed: vec![],
        waits_for: None,
    }
}

fn finish(number: u64, begun: RunWriteResult) -> RunWrite {
    let RunWriteResult::Begun { run, claim: Some(claim) } = begun else { panic!("{begun:?}") };
    let due = at(due_of(number));
    let entry = HistoryEntry {
        started: due,
        ended: due,
        expected: due,
        status: AttemptStatus::Completed,
        message: message(number),
        retry: 0,
        repeat: 1,
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
    RunWrite::Finish {
        run,
        token: claim.token,
        entry: Some(entry),
        counts: AttemptCounts { executed: Some(due), failed: false, faulted: false },
        closed,
        lifecycle: Some(Lifecycle::Completed),
        unused: None,
    }
}

/// Texts of different lengths, some of them empty or not ASCII.
fn message(number: u64) -> String {
    "é".repeat(number as usize % 7)
}

fn count(path: &Path, sql: &str) -> i64 {
    Connection::open(path).unwrap().query_row(sql, (), |row| row.get(0)).unwrap()
}

/// Numbers of jobs in an order that is neither that of the table nor its reverse.
fn in_mixed_order(numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let (even, mut odd): (Vec<_>, Vec<_>) = numbers.partition(|number| number % 2 == 0);
    odd.reverse();
    even.into_iter().chain(odd).collect()
}

#[test]
fn every_run_of_a_large_commit_has_its_own_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    block_on(async {
        let (store, jobs) = store_with_jobs(&path).await;
        let key = |number: u64| jobs[number as usize];
        // Some stay due between the others; one of these was edited, so that it is also in memory.
        let stays = |number: u64| number % 11 == 3;
        put_job(&store, 14).await;
        let numbers = in_mixed_order((0..JOBS).filter(|number| !stays(*number)));
        let mut begins: Vec<_> =
            numbers.iter().map(|number| begin(*number, key(*number))).collect();
        // A time at which the job is not due.
        begins.push(begin(JOBS + 30, key(0)));
        let mut begun = store.commit(begins).await.unwrap();
        assert_eq!(begun.pop(), Some(RunWriteResult::Stale));
        let finishes = numbers.iter().zip(begun).map(|(number, begun)| finish(*number, begun));
        let finished = store.commit(finishes.collect()).await.unwrap();
        assert!(finished.iter().all(|result| *result == RunWriteResult::Done), "{finished:?}");

        let due = store.due(at(99), 99).await.unwrap();
        let due: Vec<_> = due.iter().map(|due| due.on.job).collect();
        let expected: Vec<_> = (0..JOBS).filter(|number| stays(*number)).map(key).collect();
        assert_eq!(due, expected);
        for number in 0..JOBS {
            let path = job_path("c", &format!("job-{number}")).unwrap();
            let history = store.history(path, HistoryFilter::default(), Page::first(9)).await;
            let history = history.unwrap().unwrap();
            let messages: Vec<_> = history.iter().map(|row| row.entry.message.clone()).collect();
            let expected = if stays(number) { vec![] } else { vec![message(number)] };
            assert_eq!(messages, expected, "job {number}");
            let ledger = store.ledger(key(number), Instant::MIN, Instant::MAX, 9).await.unwrap();
            assert_eq!(ledger.len(), usize::from(!stays(number)), "job {number}");
        }
        assert_eq!(store.check().await.unwrap(), NO_FINDINGS);
        drop(store);
        assert_eq!(count(&path, "SELECT count(*) FROM due"), expected.len() as i64);
        assert_eq!(count(&path, "SELECT count(*) FROM finished"), numbers.len() as i64);
        let store = open(&path).unwrap();
        assert_eq!(store.check().await.unwrap(), NO_FINDINGS);
        let retention = Retention { finished_jobs: Duration::ZERO, ..Retention::default() };
        store.prune(retention, at(9_999), 999).await.unwrap();
        assert_eq!(store.check().await.unwrap(), NO_FINDINGS);
    });
}

#[test]
fn a_commit_with_a_damaged_row_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    block_on(async {
        let (store, jobs) = store_with_jobs(&path).await;
        let damage = "UPDATE due SET packed = x'ff' WHERE job = ?";
        let damaged = jobs[40];
        Connection::open(&path).unwrap().execute(damage, [damaged.0]).unwrap();
        let begins = |but: Option<JobKey>| {
            let jobs = (0..).zip(&jobs).filter(|(_, job)| Some(**job) != but);
            jobs.map(|(number, job)| begin(number, *job)).collect::<Vec<_>>()
        };
        let error = store.commit(begins(None)).await.unwrap_err().to_string();
        assert!(error.contains(&format!("what is due of job {}", damaged.0)), "{error}");
        assert_eq!(count(&path, "SELECT count(*) FROM due"), JOBS as i64);
        let begun = store.commit(begins(Some(damaged))).await.unwrap();
        assert!(begun.iter().all(|result| matches!(result, RunWriteResult::Begun { .. })));
        assert_eq!(count(&path, "SELECT count(*) FROM due"), 1);
    });
}

#[test]
fn jobs_are_read_in_any_order_and_at_any_distance() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let (store, jobs) = store_with_jobs(&folder.path().join("kalends.db")).await;
        let decide = Box::new(|_: JobContext<'_>| Ok(JobWrite::Delete));
        store.edit_job(job_path("c", "job-5").unwrap(), decide).await.unwrap();
        let missing = [JobKey(i64::MAX), JobKey(i64::MIN)];
        let ascending: Vec<_> = jobs.iter().copied().chain(missing).collect();
        let apart: Vec<_> = ascending.iter().copied().step_by(9).collect();
        let descending: Vec<_> = ascending.iter().rev().copied().collect();
        let twice: Vec<_> = ascending.iter().flat_map(|job| [*job; 2]).collect();
        let nothing = vec![];
        for keys in [ascending, apart, descending, twice, nothing] {
            let found = store.jobs_for_run(keys.clone()).await.unwrap();
            let found: Vec<_> =
                found.iter().map(|job| job.as_ref().map(|job| job.job.key)).collect();
            let exists = |key: &JobKey| *key != jobs[5] && !missing.contains(key);
            let expected: Vec<_> = keys.iter().map(|key| Some(*key).filter(exists)).collect();
            assert_eq!(found, expected);
        }
    });
}
