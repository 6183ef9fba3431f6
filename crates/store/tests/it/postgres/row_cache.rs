//! Commits with cached rows that others have changed meanwhile.

use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{Collection, CollectionState, Lifecycle, Switch};
use kalends_store::postgres::PostgresStore;
use kalends_store::record::{Claim, JobRecord, NodeId, Progress, RunId};
use kalends_store::{
    AdminStore, Advance, ApiStore, CollectionContext, CollectionWrite, EngineStore, JobContext,
    JobWrite, LeaseRenewal, RunWrite, RunWriteResult,
};

use super::database::TestDatabase;
use super::sample::{
    LEASE, at, begin, collection_path, due, due_jobs, finish, job_path, put, put_collection,
    put_job, standard,
};
use super::with_server;

/// The engines of two nodes, and a store for edits.
struct Nodes {
    database: TestDatabase,
    edits: PostgresStore,
    engines: [PostgresStore; 2],
}

async fn nodes() -> Nodes {
    let database = TestDatabase::create().await;
    let (one, other) = (database.connect().await, database.connect().await);
    Nodes { engines: [one.for_engine(), other.for_engine()], edits: one, database }
}

/// Begins a run of each job that the node has read.
async fn begin_all(engine: &PostgresStore, jobs: &[JobRecord]) -> Vec<(RunId, Claim)> {
    engine.jobs_for_run(jobs.iter().map(|job| job.key).collect()).await.unwrap();
    let begun = jobs.iter().map(|job| begin(job, Some(NodeId(1)))).collect();
    let results = engine.commit(begun).await.unwrap();
    let begun = results.into_iter().map(|result| match result {
        RunWriteResult::Begun { run, claim: Some(claim) } => (run, claim),
        result => panic!("{result:?}"),
    });
    begun.collect()
}

fn finishes(runs: &[(RunId, Claim)]) -> Vec<RunWrite> {
    runs.iter().map(|(run, claim)| finish(*run, claim.token)).collect()
}

async fn executions(store: &PostgresStore, name: &str) -> u64 {
    store.job(job_path(name)).await.unwrap().unwrap().0.state.executions
}

#[test]
fn an_edit_after_the_read_makes_the_begin_stale_and_no_other() {
    with_server(async {
        let Nodes { edits, engines: [engine, _], .. } = nodes().await;
        let jobs = due_jobs(&edits, 3).await;
        engine.jobs_for_run(jobs.iter().map(|job| job.key).collect()).await.unwrap();
        put_job(&edits, "j1", put(Some(at(60)))).await;
        let begun = jobs.iter().map(|job| begin(job, Some(NodeId(1)))).collect();
        let results = engine.commit(begun).await.unwrap();
        let is_begun: Vec<_> =
            results.iter().map(|result| matches!(result, RunWriteResult::Begun { .. })).collect();
        assert_eq!(is_begun, [true, false, true]);
        assert_eq!(edits.check().await.unwrap(), [""; 0]);
    });
}

#[test]
fn an_edit_during_the_attempt_keeps_its_changes_and_the_counts() {
    with_server(async {
        let Nodes { edits, engines: [engine, _], .. } = nodes().await;
        let jobs = due_jobs(&edits, 2).await;
        let runs = begin_all(&engine, &jobs).await;
        let edited = put_job(&edits, "j0", put(Some(at(600)))).await;
        let results = engine.commit(finishes(&runs)).await.unwrap();
        assert_eq!(results, [RunWriteResult::Done; 2]);
        let (job, _) = edits.job(job_path("j0")).await.unwrap().unwrap();
        assert_eq!((job.state.due, job.job.generation), (Some(at(600)), edited.job.generation));
        assert_eq!(executions(&edits, "j0").await, edited.state.executions + 1);
        assert_eq!(executions(&edits, "j1").await, 1);
        assert_eq!(edits.check().await.unwrap(), [""; 0]);
    });
}

#[test]
fn the_next_occurrence_of_an_edited_job_begins_beside_an_open_run() {
    with_server(async {
        let Nodes { edits, engines: [engine, _], .. } = nodes().await;
        let jobs = due_jobs(&edits, 1).await;
        begin_all(&engine, &jobs).await;
        // The engine knows the state that it has written, which is out of date now.
        let edited = put_job(&edits, "j0", put(Some(at(120)))).await;
        let begun = engine.commit(vec![begin(&edited, Some(NodeId(1)))]).await.unwrap();
        assert!(matches!(begun[..], [RunWriteResult::Begun { .. }]), "{begun:?}");
        assert_eq!(edits.check().await.unwrap(), [""; 0]);
    });
}

#[test]
fn a_run_that_another_node_has_taken_over_is_not_finished() {
    with_server(async {
        let Nodes { database, edits, engines: [engine, other] } = nodes().await;
        let jobs = due_jobs(&edits, 2).await;
        let runs = begin_all(&engine, &jobs).await;
        database.advance_clock(Duration::from_secs(60)).await;
        let (run, claim) = runs[0];
        let take_over = RunWrite::Claim {
            run,
            seen: Some(claim.token),
            owner: NodeId(2),
            lease: LEASE,
            progress: Progress::first(at(60)),
            expected: Progress::first(at(60)),
        };
        let taken = other.commit(vec![take_over]).await.unwrap();
        let [RunWriteResult::Claimed(new)] = taken[..] else { panic!("{taken:?}") };
        let results = engine.commit(finishes(&runs)).await.unwrap();
        assert_eq!(results, [RunWriteResult::Stale, RunWriteResult::Done]);
        assert_eq!(executions(&edits, "j0").await, 0);
        let results = other.commit(finishes(&[(run, new)])).await.unwrap();
        assert_eq!(results, [RunWriteResult::Done]);
        assert_eq!(executions(&edits, "j0").await, 1);
        assert_eq!(edits.check().await.unwrap(), [""; 0]);
    });
}

#[test]
fn a_repeated_finish_is_stale() {
    with_server(async {
        let Nodes { edits, engines: [engine, other], .. } = nodes().await;
        let jobs = due_jobs(&edits, 1).await;
        let runs = begin_all(&engine, &jobs).await;
        // As if the reply to the first one had been lost: the node still has the rows in its cache.
        assert_eq!(other.commit(finishes(&runs)).await.unwrap(), [RunWriteResult::Done]);
        assert_eq!(engine.commit(finishes(&runs)).await.unwrap(), [RunWriteResult::Stale]);
        assert_eq!(executions(&edits, "j0").await, 1);
    });
}

#[test]
fn a_renewed_run_is_finished() {
    with_server(async {
        let Nodes { edits, engines: [engine, _], .. } = nodes().await;
        let jobs = due_jobs(&edits, 1).await;
        let runs = begin_all(&engine, &jobs).await;
        let (run, token) = (runs[0].0, runs[0].1.token);
        engine.renew_leases(vec![LeaseRenewal { run, token, lease: LEASE }]).await.unwrap();
        assert_eq!(engine.commit(finishes(&runs)).await.unwrap(), [RunWriteResult::Done]);
        assert_eq!(executions(&edits, "j0").await, 1);
    });
}

#[test]
fn runs_of_a_deleted_collection_are_stale() {
    with_server(async {
        let Nodes { edits, engines: [engine, _], .. } = nodes().await;
        let jobs = due_jobs(&edits, 2).await;
        let runs = begin_all(&engine, &jobs[..1]).await;
        engine.jobs_for_run(vec![jobs[1].key]).await.unwrap();
        let delete = Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Delete));
        edits.edit_collection(collection_path("c"), delete).await.unwrap();
        let mut writes = finishes(&runs);
        writes.push(begin(&jobs[1], Some(NodeId(1))));
        assert_eq!(engine.commit(writes).await.unwrap(), [RunWriteResult::Stale; 2]);
    });
}

#[test]
fn the_last_of_two_runs_on_two_nodes_finishes_the_job() {
    with_server(async {
        let Nodes { edits, engines: [engine, other], .. } = nodes().await;
        let jobs = due_jobs(&edits, 1).await;
        let first = begin_all(&engine, &jobs).await;
        let (job, _) = edits.job(job_path("j0")).await.unwrap().unwrap();
        other.jobs_for_run(vec![job.key]).await.unwrap();
        let mut second = begin(&job, Some(NodeId(2)));
        if let RunWrite::Begin { advance, .. } = &mut second {
            *advance = Advance { due: None, used: 2, lifecycle: Lifecycle::Completed };
        }
        let begun = other.commit(vec![second]).await.unwrap();
        let [RunWriteResult::Begun { run, claim: Some(claim) }] = begun[..] else {
            panic!("{begun:?}")
        };
        let last = |runs: &[(RunId, Claim)]| {
            let mut writes = finishes(runs);
            for write in &mut writes {
                if let RunWrite::Finish { lifecycle, .. } = write {
                    *lifecycle = Some(Lifecycle::Completed);
                }
            }
            writes
        };
        let lifecycle = async || {
            let (job, _) = edits.job(job_path("j0")).await.unwrap().unwrap();
            job.state.lifecycle
        };
        assert_eq!(other.commit(last(&[(run, claim)])).await.unwrap(), [RunWriteResult::Done]);
        assert_eq!(lifecycle().await, Lifecycle::Active, "the first run is open");
        assert_eq!(engine.commit(last(&first)).await.unwrap(), [RunWriteResult::Done]);
        assert_eq!(lifecycle().await, Lifecycle::Completed);
        assert_eq!(edits.check().await.unwrap(), [""; 0]);
    });
}

#[test]
fn the_last_of_two_runs_on_one_node_finishes_the_job() {
    with_server(async {
        let Nodes { edits, engines: [engine, _], .. } = nodes().await;
        let jobs = due_jobs(&edits, 1).await;
        let mut runs = begin_all(&engine, &jobs).await;
        let (job, _) = edits.job(job_path("j0")).await.unwrap().unwrap();
        let mut last = begin(&job, Some(NodeId(1)));
        if let RunWrite::Begin { advance, .. } = &mut last {
            *advance = Advance { due: None, used: 2, lifecycle: Lifecycle::Completed };
        }
        let begun = engine.commit(vec![last]).await.unwrap();
        let [RunWriteResult::Begun { run, claim: Some(claim) }] = begun[..] else {
            panic!("{begun:?}")
        };
        runs.push((run, claim));
        for (run, expected) in runs.into_iter().zip([Lifecycle::Active, Lifecycle::Completed]) {
            let mut writes = finishes(&[run]);
            if let Some(RunWrite::Finish { lifecycle, .. }) = writes.first_mut() {
                *lifecycle = Some(Lifecycle::Completed);
            }
            assert_eq!(engine.commit(writes).await.unwrap(), [RunWriteResult::Done]);
            let (job, _) = edits.job(job_path("j0")).await.unwrap().unwrap();
            assert_eq!(job.state.lifecycle, expected);
        }
        assert_eq!(edits.check().await.unwrap(), [""; 0]);
    });
}

#[test]
fn gate_states_of_cached_jobs_follow_every_change() {
    with_server(async {
        let Nodes { edits, engines: [engine, other], .. } = nodes().await;
        let jobs = due_jobs(&edits, 3).await;
        let keys: Vec<_> = jobs.iter().map(|job| job.key).collect();
        begin_all(&engine, &jobs[..2]).await;
        // The other node has cached none of them.
        let current = async || {
            let states = engine.gate_states(keys.clone()).await.unwrap();
            assert_eq!(states, other.gate_states(keys.clone()).await.unwrap());
            states
        };
        let begun = current().await;
        assert!(begun.iter().all(Option::is_some));

        let mut disabled = put(Some(at(600)));
        disabled.definition.switch = Switch::Disabled;
        put_job(&edits, "j0", disabled).await;
        let edited = current().await;
        assert_eq!(edited[0].map(|state| state.switch), Some(Switch::Disabled));
        assert_eq!(edited[1..], begun[1..]);

        let collection = Collection { state: CollectionState::Disabled, ..standard() };
        put_collection(&edits, "c", collection).await;
        let switched = current().await;
        assert!(switched.iter().flatten().all(|state| state.collection == Switch::Disabled));

        let delete = Box::new(|_: JobContext<'_>| Ok(JobWrite::Delete));
        edits.edit_job(job_path("j1"), delete).await.unwrap();
        let deleted = current().await;
        assert_eq!(deleted.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);

        let delete = Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Delete));
        edits.edit_collection(collection_path("c"), delete).await.unwrap();
        assert_eq!(current().await, [None; 3]);
    });
}

/// A statement keeps the plan for the rows that a table had when it was first executed.
#[test]
fn commits_that_were_planned_with_one_open_run_do_not_scan_many() {
    with_server(async {
        let Nodes { database, edits, engines } = nodes().await;
        let client = database.client().await;
        let jobs = due_jobs(&edits, 5).await;
        begin_all(&engines[0], &jobs[..1]).await;
        client.batch_execute("VACUUM ANALYZE runs").await.unwrap();
        let engine = database.connect().await.for_engine();
        let run = async |jobs: &[JobRecord]| {
            let runs = begin_all(&engine, jobs).await;
            engine.gate_states(jobs.iter().map(|job| job.key).collect()).await.unwrap();
            assert_eq!(engine.commit(finishes(&runs)).await.unwrap(), [RunWriteResult::Done; 2]);
        };
        run(&jobs[1..3]).await;
        let open = "INSERT INTO runs (id, job, generation, scheduled, cause, repeat, role, retry,
                redelivery, next_at, last_token)
             SELECT 1000000 + n, 1000000 + n, 1, 0, 0, 1, 0, 0, 0, 0, 0
             FROM generate_series(1, 5000) n";
        client.batch_execute(open).await.unwrap();
        run(&jobs[3..]).await;
        // A session reports its counts at the latest when it ends.
        drop((edits, engines, engine));
        let sessions = "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let read =
            "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'runs'";
        for _ in 0..1_000 {
            if client.query_one(sessions, &[]).await.unwrap().get::<_, i64>(0) == 0 {
                let read: i64 = client.query_one(read, &[]).await.unwrap().get(0);
                assert!((1..5_000).contains(&read), "{read} entries of indexes were read");
                return;
            }
            client.batch_execute("SELECT pg_sleep(0.02)").await.unwrap();
        }
        panic!("the sessions have not ended");
    });
}

#[test]
fn each_occurrence_is_begun_by_one_of_two_nodes() {
    with_server(async {
        let Nodes { edits, engines, .. } = nodes().await;
        let jobs = due_jobs(&edits, 40).await;
        let engines = engines.map(Arc::new);
        for round in 0..10 {
            let mut current = Vec::new();
            for job in &jobs {
                current.push(edits.job(job.path.clone()).await.unwrap().unwrap().0);
            }
            let run_all = async |engine: &PostgresStore, jobs: Vec<JobRecord>| {
                engine.jobs_for_run(jobs.iter().map(|job| job.key).collect()).await.unwrap();
                let begun = jobs.iter().map(|job| begin(job, Some(NodeId(1)))).collect();
                let begun = engine.commit(begun).await.unwrap();
                let runs = begun.into_iter().filter_map(|result| match result {
                    RunWriteResult::Begun { run, claim } => Some((run, claim.unwrap())),
                    _ => None,
                });
                let runs: Vec<_> = runs.collect();
                let results = engine.commit(finishes(&runs)).await.unwrap();
                assert!(results.iter().all(|result| *result == RunWriteResult::Done));
                runs.len()
            };
            let reversed = current.iter().rev().cloned().collect();
            let (one, other) =
                tokio::join!(run_all(&engines[0], current), run_all(&engines[1], reversed));
            assert_eq!(one + other, jobs.len(), "round {round}");
        }
        for job in &jobs {
            assert_eq!(executions(&edits, job.path.job.as_str()).await, 10);
            let (job, _) = edits.job(job.path.clone()).await.unwrap().unwrap();
            assert_eq!(due(&job).due, at(660));
        }
        assert_eq!(edits.check().await.unwrap(), [""; 0]);
    });
}
