//! Locks and connections: whom an edit, a large collection or a stopped node makes wait.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kalends_domain::{AccessScope, Collection, CollectionState, Lifecycle};
use kalends_recurrence::Instant;
use kalends_store::postgres::PostgresStore;
use kalends_store::record::{FencingToken, JobRecord, NodeId, RunId};
use kalends_store::{
    AdminStore, Advance, ApiStore, CollectionContext, CollectionWrite, DueJob, EngineStore,
    JobFilter, JobSearch, LeaseClock, OverviewStore, Page, Retention, RunWrite, RunWriteResult,
    SearchedCollection, StoreError,
};
use tokio_postgres::Client;

use super::database::{TestDatabase, settings};
use super::sample::{
    LEASE, at, begin, collection_path, due_jobs, finish, put, put_collection, put_job, standard,
    try_put_job,
};
use super::with_server;

/// Jobs `j0`, `j1` and so on in collection `c`, and the claimed run of each.
async fn claimed_runs(store: &PostgresStore, number: usize) -> Vec<(RunId, FencingToken)> {
    let jobs = due_jobs(store, number).await;
    let writes = jobs.iter().map(|job| begin(job, Some(NodeId(1)))).collect();
    let claim = |result| match result {
        RunWriteResult::Begun { run, claim: Some(claim) } => (run, claim.token),
        other => panic!("{other:?}"),
    };
    store.commit(writes).await.unwrap().into_iter().map(claim).collect()
}

/// A transaction that stays open and holds the locks of these statements.
async fn hold(database: &TestDatabase, statements: &str) -> Client {
    let client = database.client().await;
    client.batch_execute(&format!("BEGIN; {statements}")).await.unwrap();
    client
}

fn disabled() -> Collection {
    Collection { state: CollectionState::Disabled, ..standard() }
}

async fn delete_collection(store: &PostgresStore) -> Result<(), StoreError> {
    let delete = |_: CollectionContext<'_>| Ok(CollectionWrite::Delete);
    store.edit_collection(collection_path("c"), Box::new(delete)).await.map(drop)
}

async fn count(client: &Client, table: &str) -> i64 {
    client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0)
}

#[test]
fn a_collection_is_switched_and_deleted_without_the_locks_of_its_jobs() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        claimed_runs(&store, 3).await;
        // Such as a commit of another node.
        let held = hold(&database, "SELECT FROM states FOR UPDATE").await;
        put_collection(&store, "c", disabled()).await;
        assert_eq!(store.due(at(1_000), 9).await.unwrap(), []);
        put_collection(&store, "c", standard()).await;
        assert_eq!(store.due(at(1_000), 9).await.unwrap().len(), 3);
        delete_collection(&store).await.unwrap();
        assert_eq!(store.due(at(1_000), 9).await.unwrap(), []);
        held.batch_execute("ROLLBACK").await.unwrap();
    });
}

#[test]
fn leases_are_renewed_while_edits_hold_the_locks_of_their_jobs_and_collections() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        let runs = claimed_runs(&store, 2).await;
        let locks = "SELECT FROM subscriptions FOR UPDATE; SELECT FROM collections FOR UPDATE;
             SELECT FROM states FOR UPDATE";
        let held = hold(&database, locks).await;
        let renew = |&(run, token): &_| RunWrite::RenewLease { run, token, lease: LEASE };
        let renewed = store.commit(runs.iter().map(renew).collect()).await.unwrap();
        assert!(matches!(renewed[..], [RunWriteResult::Claimed(_), RunWriteResult::Claimed(_)]));
        held.batch_execute("ROLLBACK").await.unwrap();
    });
}

#[test]
fn runs_begin_and_finish_while_another_job_of_the_collection_is_edited() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        let jobs = due_jobs(&store, 2).await;
        let locks = "SELECT FROM collections FOR NO KEY UPDATE;
             SELECT FROM states WHERE job = (SELECT key FROM jobs WHERE name = 'j1') FOR UPDATE";
        let held = hold(&database, locks).await;
        let begun = store.commit(vec![begin(&jobs[0], Some(NodeId(1)))]).await.unwrap();
        let [RunWriteResult::Begun { run, claim: Some(claim) }] = begun[..] else {
            panic!("{begun:?}")
        };
        let finished = store.commit(vec![finish(run, claim.token)]).await.unwrap();
        assert_eq!(finished, [RunWriteResult::Done]);
        held.batch_execute("ROLLBACK").await.unwrap();
    });
}

#[test]
fn runs_begin_and_finish_without_the_locks_of_job_definitions() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        let jobs = due_jobs(&store, 1).await;
        let held = hold(&database, "SELECT FROM jobs FOR UPDATE").await;
        let begun = store.commit(vec![begin(&jobs[0], Some(NodeId(1)))]).await.unwrap();
        let [RunWriteResult::Begun { run, claim: Some(claim) }] = begun[..] else {
            panic!("{begun:?}")
        };
        let finished = store.commit(vec![finish(run, claim.token)]).await.unwrap();
        assert_eq!(finished, [RunWriteResult::Done]);
        held.batch_execute("ROLLBACK").await.unwrap();
    });
}

/// The rows of a large collection are removed after its deletion, some at a time.
#[test]
fn a_deleted_collection_is_invisible_at_once_and_removed_in_steps() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        let client = database.client().await;
        let runs = claimed_runs(&store, 250).await;
        let finished = runs.iter().take(200).map(|(run, token)| finish(*run, *token)).collect();
        store.commit(finished).await.unwrap();
        delete_collection(&store).await.unwrap();
        assert_eq!(count(&client, "jobs").await, 250, "removed later");
        let renew = |&(run, token): &_| RunWrite::RenewLease { run, token, lease: LEASE };
        let late = vec![renew(&runs[240]), finish(runs[241].0, runs[241].1)];
        let late = store.commit(late).await.unwrap();
        assert_eq!(late, [RunWriteResult::Stale, RunWriteResult::Stale]);
        assert_eq!(store.claimable(at(1_000), 9).await.unwrap(), []);
        assert_eq!(store.scan_jobs(None, 1_000).await.unwrap().jobs, []);
        // The name is free, and its new owner sees nothing of the old jobs.
        due_jobs(&store, 1).await;
        let listed = store.jobs(collection_path("c"), JobFilter::default(), Page::first(9), 9);
        assert_eq!(listed.await.unwrap().jobs.len(), 1);
        let keep = Retention {
            history_age: Duration::from_secs(100 * 365 * 86_400),
            history_count: 1_000,
            finished_jobs: Duration::from_secs(100 * 365 * 86_400),
        };
        assert_eq!(store.prune(keep, at(0), 100).await.unwrap(), 100, "more is left");
        let left = count(&client, "jobs").await;
        assert!((2..250).contains(&left), "{left}");
        assert_eq!(store.check().await.unwrap(), [""; 0]);
        while store.prune(keep, at(0), 100).await.unwrap() == 100 {}
        for table in ["history", "ledger", "runs", "doomed", "leftovers"] {
            assert_eq!(count(&client, table).await, 0, "{table}");
        }
        assert_eq!(count(&client, "jobs").await, 1);
        assert_eq!(store.check().await.unwrap(), [""; 0]);
    });
}

/// The caller receives an error before the time limit of the call.
#[test]
fn an_edit_waits_for_a_lock_for_a_limited_time() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        due_jobs(&store, 1).await;
        let held = hold(&database, "SELECT FROM states FOR UPDATE").await;
        let refused = try_put_job(&store, "j0", put(None)).await;
        let lock_timeout = StoreError::Busy("canceling statement due to lock timeout".into());
        assert_eq!(refused, Err(lock_timeout));
        held.batch_execute("ROLLBACK").await.unwrap();
    });
}

/// Ten deletions of collections used to take every connection, and no run began.
#[test]
fn the_engine_works_while_every_connection_of_the_api_waits() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = Arc::new(database.connect().await);
        let engine = store.for_engine();
        let jobs = due_jobs(&*store, 2).await;
        put_collection(&*store, "locked", standard()).await;
        let held =
            hold(&database, "SELECT FROM collections WHERE name = 'locked' FOR UPDATE").await;
        // Inside the transaction that holds the lock, the view would not change.
        let observer = database.client().await;
        let mut edits = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let store = store.clone();
            edits.spawn(async move {
                let delete = |_: CollectionContext<'_>| Ok(CollectionWrite::Delete);
                store.edit_collection(collection_path("locked"), Box::new(delete)).await.map(drop)
            });
        }
        let waiting = "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let connections = i64::try_from(settings().connections_max).unwrap();
        while observer.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) < connections {
            tokio::task::yield_now().await;
        }
        assert_eq!(engine.due(at(60), 9).await.unwrap().len(), 2);
        let begun = engine.commit(vec![begin(&jobs[0], Some(NodeId(1)))]).await.unwrap();
        let [RunWriteResult::Begun { run, claim: Some(claim) }] = begun[..] else {
            panic!("{begun:?}")
        };
        let renew = RunWrite::RenewLease { run, token: claim.token, lease: LEASE };
        engine.commit(vec![renew]).await.unwrap();
        assert!(engine.gate_states(vec![jobs[0].key]).await.unwrap()[0].is_some());
        engine.now().await.unwrap();
        let still: i64 = observer.query_one(waiting, &[]).await.unwrap().get(0);
        assert_eq!(still, connections, "the edits still wait");
        held.batch_execute("ROLLBACK").await.unwrap();
        edits.join_all().await;
    });
}

/// Skips `rounds` occurrences of every job, one minute each, as runs do.
async fn advance(store: &PostgresStore, jobs: &[JobRecord], rounds: u64) {
    let mut at = jobs[0].state.due.unwrap();
    for _ in 0..rounds {
        let next = at.saturating_add(Duration::from_secs(60));
        let skip = |job: &JobRecord| RunWrite::Skip {
            on: DueJob { job: job.key, generation: 1, due: at },
            advance: Advance { due: Some(next), used: 0, lifecycle: Lifecycle::Active },
            closed: vec![],
            postponed: vec![],
        };
        let skipped = store.commit(jobs.iter().map(skip).collect()).await.unwrap();
        assert!(skipped.iter().all(|result| *result == RunWriteResult::Done), "{skipped:?}");
        at = next;
    }
}

/// Limit of searches until a lower bound has risen.
const SEARCHES_MAX: usize = 10_000;

/// Pages that a search reads, from its plan.
fn pages(plan: &str) -> u64 {
    let (_, pages) = plan.split_once("Buffers: shared hit=").unwrap();
    pages.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// Pages that a search for due jobs reads.
async fn pages_of_due(store: &PostgresStore, until: Instant) -> u64 {
    pages(&store.explain_due(until, 1_000).await.unwrap())
}

/// Opens a transaction with a snapshot, as a backup does.
async fn open_snapshot(database: &TestDatabase) -> Client {
    let backup = hold(database, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await;
    backup.query_one("SELECT count(*) FROM states", &[]).await.unwrap();
    backup
}

/// A backup holds a snapshot for hours, and every run leaves an entry in the index of due jobs.
#[test]
fn a_search_for_due_jobs_does_not_read_the_past_while_an_old_snapshot_is_open() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        let jobs = due_jobs(&store, 50).await;
        let backup = open_snapshot(&database).await;
        advance(&store, &jobs, 200).await;
        let before_the_next = at(60 + 200 * 60 - 1);
        let unbounded = pages_of_due(&store, before_the_next).await;
        assert!(unbounded > 100, "the past is not large enough: {unbounded} pages");
        for _ in 0..4 {
            assert_eq!(store.due(before_the_next, 1_000).await.unwrap(), []);
        }
        let bounded = pages_of_due(&store, before_the_next).await;
        assert!(bounded < 20, "{bounded} pages");
        assert_eq!(store.due(at(60 + 200 * 60), 1_000).await.unwrap().len(), 50);
        backup.batch_execute("ROLLBACK").await.unwrap();
    });
}

/// Every claim leaves an entry in the index of leases.
#[test]
fn a_search_for_claimable_runs_does_not_read_the_past_while_an_old_snapshot_is_open() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await.for_engine();
        due_jobs(&store, 50).await;
        let backup = open_snapshot(&database).await;
        // Runs that were claimed an hour ago and have finished.
        let past = "INSERT INTO runs (id, job, generation, scheduled, cause, repeat, role, retry,
                redelivery, next_at, owner, token, lease_until, last_token)
             SELECT key * 1000 + number, key, 1, 0, 0, 1, 0, 0, 0, 0, 1, 1,
                (extract(epoch FROM clock_timestamp() - INTERVAL '1 hour') * 10000000)::bigint, 1
             FROM jobs, generate_series(1, 100) number;
             DELETE FROM runs";
        database.client().await.batch_execute(past).await.unwrap();
        let search = async || pages(&store.explain_claimable(at(0), 1_000).await.unwrap());
        let unbounded = search().await;
        assert!(unbounded > 100, "the past is not large enough: {unbounded} pages");
        // The bound rises when transactions have ended, also those of other tests.
        let mut bounded = unbounded;
        for _ in 0..SEARCHES_MAX {
            assert_eq!(store.claimable(at(0), 1_000).await.unwrap(), []);
            bounded = search().await;
            if bounded < 20 {
                break;
            }
        }
        assert!(bounded < 20, "{bounded} pages");
        backup.batch_execute("ROLLBACK").await.unwrap();
    });
}

#[test]
fn a_job_that_becomes_due_before_all_others_is_found() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        let jobs = due_jobs(&store, 3).await;
        advance(&store, &jobs, 10).await;
        let raise = async || {
            for _ in 0..4 {
                store.due(at(10_000), 9).await.unwrap();
            }
        };
        let first = async || store.due(at(10_000), 9).await.unwrap()[0].on;
        raise().await;
        // An edit in the past.
        let edited = put_job(&store, "j0", put(Some(at(30)))).await;
        assert_eq!((first().await.job, first().await.due), (edited.key, at(30)));
        raise().await;
        // A repair by the engine.
        database.client().await.execute("UPDATE states SET due = NULL", &[]).await.unwrap();
        raise().await;
        let repair = RunWrite::Reschedule {
            job: jobs[1].key,
            generation: 1,
            advance: Advance { due: Some(at(20)), used: 0, lifecycle: Lifecycle::Active },
        };
        assert_eq!(store.commit(vec![repair]).await.unwrap(), [RunWriteResult::Done]);
        assert_eq!((first().await.job, first().await.due), (jobs[1].key, at(20)));
        // A collection that was disabled.
        put_collection(&store, "c", disabled()).await;
        raise().await;
        put_collection(&store, "c", standard()).await;
        assert_eq!(first().await.due, at(20));
        assert_eq!(store.check().await.unwrap(), [""; 0]);
    });
}

#[test]
fn concurrent_edits_and_searches_lose_no_due_job() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = Arc::new(database.connect().await);
        let jobs = due_jobs(&*store, 4).await;
        let stop = Arc::new(AtomicBool::new(false));
        let searches = tokio::spawn({
            let (store, stop) = (store.for_engine(), stop.clone());
            async move {
                while !stop.load(Ordering::Relaxed) {
                    store.due(at(1_000_000), 9).await.unwrap();
                }
            }
        });
        let mut editors = tokio::task::JoinSet::new();
        for number in 0..jobs.len() {
            let store = store.clone();
            editors.spawn(async move {
                for round in 0..40_u64 {
                    // Alternately far ahead, which lets the bound rise, and in the past.
                    let due = if round % 2 == 0 { 500_000 + round } else { 40 - round };
                    put_job(&*store, &format!("j{number}"), put(Some(at(due)))).await;
                    let found = store.due(at(1_000_000), 9).await.unwrap();
                    assert_eq!(found.len(), 4, "round {round}: {found:?}");
                }
            });
        }
        editors.join_all().await;
        stop.store(true, Ordering::Relaxed);
        searches.await.unwrap();
        assert_eq!(store.check().await.unwrap(), [""; 0]);
    });
}

/// The statistics of a large table suggest a hash join with all of it.
#[test]
fn a_search_in_a_small_collection_does_not_read_the_jobs_of_others() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        for name in ["c", "d"] {
            put_collection(&store, name, standard()).await;
        }
        put_job(&store, "j", put(Some(at(60)))).await;
        let copies = "WITH copies AS (
                INSERT INTO jobs (collection_id, job_key, name, uid, created, version, definition, search,
                    tags, authenticated)
                SELECT d.id, 'J' || n, 'j' || n, j.uid, j.created, j.version, j.definition, j.search,
                    j.tags, j.authenticated
                FROM jobs j, collections d, generate_series(1, 50000) n WHERE d.name = 'd'
                RETURNING key, collection_id)
             INSERT INTO states (job, collection_id, generation, enabled, lifecycle, due, used,
                executions, failures, faulted, entries)
             SELECT key, collection_id, 1, true, 0, 0, 0, 0, 0, 0, 0 FROM copies;
             ANALYZE";
        database.client().await.batch_execute(copies).await.unwrap();
        let scope = AccessScope::Everything;
        let collections = store.collection_summaries(scope, Bound::Unbounded, 10).await.unwrap();
        let small = collections.iter().find(|one| one.jobs == 1).unwrap();
        let (key, jobs, matched) = (small.key, small.jobs, 0);
        let collections = vec![SearchedCollection { key, jobs, matched }];
        let search = JobSearch { collections, after: None, words: vec![], scan_max: 1_001 };
        let plan = store.explain_search(&search).await.unwrap();
        assert!(pages(&plan) < 50, "{plan}");
        assert_eq!(store.search_jobs(search).await.unwrap().jobs.len(), 1);
    });
}
