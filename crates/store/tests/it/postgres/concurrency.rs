//! Concurrent calls on several nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kalends_domain::{Collection, CollectionState, Plan};
use kalends_store::postgres::PostgresStore;
use kalends_store::record::{FencingToken, NodeId, Progress};
use kalends_store::{
    AdminStore, ApiStore, CollectionContext, CollectionWrite, EngineStore, HistoryFilter,
    JobContext, JobFilter, JobPut, JobWrite, LeaseClock as _, LeaseRenewal, Page, Rejection,
    RenewalResult, RunWrite, RunWriteResult, StoreError,
};
use tokio::task::JoinSet;

use super::database::TestDatabase;
use super::sample::{
    LEASE, at, begin, collection_path, due_jobs, finish, job_path, put, put_collection, put_job,
    standard,
};
use super::with_server;

fn rejection() -> Rejection {
    Rejection::from(std::io::Error::other("no"))
}

async fn two_nodes() -> [Arc<PostgresStore>; 2] {
    let database = TestDatabase::create().await;
    [Arc::new(database.connect().await), Arc::new(database.connect().await)]
}

/// Opens all connections of both nodes, so that the following calls are concurrent.
async fn warm_up(nodes: &[Arc<PostgresStore>; 2]) {
    let mut tasks = JoinSet::new();
    for number in 0..64 {
        let node = nodes[number % 2].clone();
        let decide = |_: JobContext<'_>| Ok(JobWrite::Keep);
        tasks.spawn(async move { node.edit_job(job_path("none"), Box::new(decide)).await });
    }
    tasks.join_all().await;
}

#[test]
fn one_of_many_concurrent_puts_creates_the_fiftieth_job() {
    with_server(async {
        let nodes = two_nodes().await;
        due_jobs(&*nodes[0], 49).await;
        warm_up(&nodes).await;
        for round in 0..8 {
            let mut tasks = JoinSet::new();
            for number in 0..32 {
                let node = nodes[number % 2].clone();
                let decide = |context: JobContext<'_>| match context.jobs < 50 {
                    true => Ok(JobWrite::Put(Box::new(put(None)))),
                    false => Err(rejection()),
                };
                let name = job_path(&format!("new{number}"));
                tasks.spawn(async move { node.edit_job(name, Box::new(decide)).await });
            }
            let results = tasks.join_all().await;
            let mut created = results.iter().flatten().filter_map(|edited| edited.after.clone());
            let (fiftieth, another) = (created.next().unwrap(), created.next());
            assert_eq!(another, None, "round {round}");
            let refused = Err(StoreError::Rejected(rejection()));
            assert_eq!(results.iter().filter(|result| **result == refused).count(), 31);
            let jobs =
                nodes[1].jobs(collection_path("c"), JobFilter::default(), Page::first(99), 99);
            assert_eq!(jobs.await.unwrap().jobs.len(), 50);
            let delete = Box::new(|_: JobContext<'_>| Ok(JobWrite::Delete));
            nodes[0].edit_job(fiftieth.path, delete).await.unwrap();
        }
        assert_eq!(nodes[0].check().await.unwrap(), [""; 0]);
    });
}

#[test]
fn one_of_many_concurrent_puts_creates_the_only_free_collection() {
    with_server(async {
        let nodes = two_nodes().await;
        let mut tasks = JoinSet::new();
        for number in 0..16 {
            let node = nodes[number % 2].clone();
            let decide = |context: CollectionContext<'_>| match (context.others)(Plan::Free) {
                0 => Ok(CollectionWrite::Put(Collection { plan: Plan::Free, ..standard() })),
                _ => Err(rejection()),
            };
            let path = collection_path(&format!("c{number}"));
            tasks.spawn(async move { node.edit_collection(path, Box::new(decide)).await.is_ok() });
        }
        let created = tasks.join_all().await.into_iter().filter(|is_created| *is_created).count();
        assert_eq!(created, 1);
    });
}

#[test]
fn each_run_is_claimed_by_one_of_two_nodes() {
    with_server(async {
        let nodes = two_nodes().await;
        let jobs = due_jobs(&*nodes[0], 40).await;
        let begun = jobs.iter().map(|job| begin(job, None)).collect();
        nodes[0].commit(begun).await.unwrap();
        let runs = nodes[0].claimable(at(60), 100).await.unwrap();
        assert_eq!(runs.len(), 40);
        let claims = |node: u64| {
            runs.iter().map(move |run| RunWrite::Claim {
                run: run.id,
                seen: None,
                owner: NodeId(node),
                lease: LEASE,
                progress: Progress::first(at(60)),
                expected: Progress::first(at(60)),
            })
        };
        // In reverse order, which would deadlock if locks were taken in the order of the batch.
        let (one, other) = (claims(1).collect(), claims(2).rev().collect());
        let (one, other) = tokio::join!(nodes[0].commit(one), nodes[1].commit(other));
        let (one, mut other) = (one.unwrap(), other.unwrap());
        other.reverse();
        for (run, (one, other)) in runs.iter().zip(one.into_iter().zip(other)) {
            let (claim, owner) = match (one, other) {
                (RunWriteResult::Claimed(claim), RunWriteResult::Stale) => (claim, NodeId(1)),
                (RunWriteResult::Stale, RunWriteResult::Claimed(claim)) => (claim, NodeId(2)),
                results => panic!("{results:?}"),
            };
            assert_eq!((claim.owner, claim.token), (owner, FencingToken(1)));
            let open = nodes[0].open_runs(run.job).await.unwrap();
            assert_eq!(open[0].claim, Some(claim));
        }
    });
}

#[test]
fn a_stale_fencing_token_records_nothing() {
    with_server(async {
        let database = TestDatabase::create().await;
        let (paused, successor) = (database.connect().await, database.connect().await);
        let jobs = due_jobs(&paused, 1).await;
        let begun = paused.commit(vec![begin(&jobs[0], Some(NodeId(1)))]).await.unwrap();
        let [RunWriteResult::Begun { run, claim: Some(old) }] = begun[..] else {
            panic!("{begun:?}")
        };
        database.advance_clock(LEASE * 2).await;
        let progress = Progress::first(at(60));
        let seen = Some(old.token);
        let take = RunWrite::Claim {
            run,
            seen,
            owner: NodeId(2),
            lease: LEASE,
            progress,
            expected: progress,
        };
        let taken = successor.commit(vec![take]).await.unwrap();
        let [RunWriteResult::Claimed(new)] = taken[..] else { panic!("{taken:?}") };
        let extend = RunWrite::RenewLease { run, token: old.token, lease: LEASE };
        let (late, done) = tokio::join!(
            paused.commit(vec![extend, finish(run, old.token)]),
            successor.commit(vec![finish(run, new.token)]),
        );
        assert_eq!(late.unwrap(), [RunWriteResult::Stale, RunWriteResult::Stale]);
        assert_eq!(done.unwrap(), [RunWriteResult::Done]);
        let history = successor.history(job_path("j0"), HistoryFilter::default(), Page::first(9));
        assert_eq!(history.await.unwrap().unwrap().len(), 1);
        assert_eq!(
            successor
                .jobs_for_run(vec![jobs[0].key])
                .await
                .unwrap()
                .remove(0)
                .map(|found| found.job.clone())
                .unwrap()
                .state
                .executions,
            1
        );
    });
}

#[test]
fn concurrent_edits_of_one_job_are_serialized() {
    with_server(async {
        let nodes = two_nodes().await;
        due_jobs(&*nodes[0], 1).await;
        warm_up(&nodes).await;
        let mut tasks = JoinSet::new();
        for number in 0..32 {
            let node = nodes[number % 2].clone();
            // Each edit increments the counter.
            let decide = |context: JobContext<'_>| {
                let mut put = put(Some(at(60)));
                put.state.used = context.existing.unwrap().state.used + 1;
                Ok(JobWrite::Put(Box::new(put)))
            };
            tasks.spawn(async move { node.edit_job(job_path("j0"), Box::new(decide)).await });
        }
        let mut versions: Vec<_> = tasks
            .join_all()
            .await
            .into_iter()
            .map(|edit| edit.unwrap().after.unwrap().version)
            .collect();
        versions.sort_unstable();
        assert_eq!(versions, (2..34).collect::<Vec<_>>());
        let (job, _) = nodes[0].job(job_path("j0")).await.unwrap().unwrap();
        assert_eq!((job.state.used, job.job.generation), (32, 33));
    });
}

#[test]
fn concurrent_edits_do_not_lose_counter_updates_of_runs() {
    with_server(async {
        let nodes = two_nodes().await;
        let mut job = due_jobs(&*nodes[0], 1).await.remove(0);
        warm_up(&nodes).await;
        let mut runs = Vec::new();
        for _ in 0..60 {
            let begun = nodes[0].commit(vec![begin(&job, Some(NodeId(1)))]).await.unwrap();
            let [RunWriteResult::Begun { run, claim: Some(claim) }] = begun[..] else { panic!() };
            runs.push((run, claim.token));
            job = nodes[0]
                .jobs_for_run(vec![job.key])
                .await
                .unwrap()
                .remove(0)
                .map(|found| found.job.clone())
                .unwrap();
        }
        let edits = Arc::new(AtomicUsize::new(0));
        let mut editors = JoinSet::new();
        for number in 0..3 {
            let (node, edits) = (nodes[number % 2].clone(), edits.clone());
            editors.spawn(async move {
                loop {
                    let decide = |context: JobContext<'_>| {
                        let state = context.existing.unwrap().state;
                        Ok(JobWrite::Put(Box::new(JobPut { state, ..put(None) })))
                    };
                    node.edit_job(job_path("j0"), Box::new(decide)).await.unwrap();
                    edits.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for (number, (run, token)) in runs.into_iter().enumerate() {
            // Without edits in between, the test would show nothing.
            while edits.load(Ordering::Relaxed) < number / 10 {
                tokio::task::yield_now().await;
            }
            let done = nodes[1].commit(vec![finish(run, token)]).await.unwrap();
            assert_eq!(done, [RunWriteResult::Done]);
        }
        editors.shutdown().await;
        let job = nodes[0]
            .jobs_for_run(vec![job.key])
            .await
            .unwrap()
            .remove(0)
            .map(|found| found.job.clone())
            .unwrap();
        assert_eq!((job.state.executions, job.state.used), (60, 60));
        assert_eq!(nodes[0].check().await.unwrap(), [""; 0]);
    });
}

#[test]
fn an_edit_that_waited_for_a_lock_is_decided_at_the_time_it_got_it() {
    with_server(async {
        let database = TestDatabase::create().await;
        let node = Arc::new(database.connect().await);
        due_jobs(&*node, 1).await;
        let mut holder = database.client().await;
        let holding = holder.transaction().await.unwrap();
        holding.execute("SELECT FROM states FOR UPDATE", &[]).await.unwrap();
        let (decided, was_decided) = std::sync::mpsc::channel();
        let decide = move |context: JobContext<'_>| {
            decided.send(context.now).unwrap();
            Ok(JobWrite::Keep)
        };
        let editor = node.clone();
        let edit =
            tokio::spawn(async move { editor.edit_job(job_path("j0"), Box::new(decide)).await });
        let waiting = "SELECT FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let observer = database.client().await;
        while observer.query(waiting, &[]).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let before_release = node.now().await.unwrap();
        holding.commit().await.unwrap();
        edit.await.unwrap().unwrap();
        assert!(was_decided.recv().unwrap() > before_release);
    });
}

#[test]
fn nothing_begins_after_an_acknowledged_disable() {
    with_server(async {
        let nodes = two_nodes().await;
        for round in 0..10 {
            let name = format!("r{round}");
            put_collection(&*nodes[0], "c", standard()).await;
            let job = put_job(&*nodes[0], &name, put(Some(at(60)))).await;
            let disabled = Collection { state: CollectionState::Disabled, ..standard() };
            let (begun, _) = tokio::join!(
                async {
                    let mut current = job.clone();
                    let mut number = 0;
                    loop {
                        let result = nodes[1].commit(vec![begin(&current, None)]).await.unwrap();
                        if result == [RunWriteResult::Stale] {
                            return number;
                        }
                        number += 1;
                        current = nodes[1]
                            .jobs_for_run(vec![job.key])
                            .await
                            .unwrap()
                            .remove(0)
                            .map(|found| found.job.clone())
                            .unwrap();
                    }
                },
                async {
                    put_collection(&*nodes[0], "c", disabled).await;
                    // From here on no run begins.
                    let open = nodes[0].open_runs(job.key).await.unwrap().len();
                    let now = nodes[0]
                        .jobs_for_run(vec![job.key])
                        .await
                        .unwrap()
                        .remove(0)
                        .map(|found| found.job.clone())
                        .unwrap();
                    let late = nodes[0].commit(vec![begin(&now, None)]).await.unwrap();
                    assert_eq!(late, [RunWriteResult::Stale]);
                    assert_eq!(nodes[0].open_runs(job.key).await.unwrap().len(), open);
                },
            );
            assert_eq!(nodes[0].open_runs(job.key).await.unwrap().len(), begun);
        }
    });
}

#[test]
fn concurrent_commits_edits_and_deletions_do_not_deadlock() {
    with_server(async {
        let nodes = two_nodes().await;
        let jobs = Arc::new(due_jobs(&*nodes[0], 12).await);
        let mut tasks = JoinSet::new();
        for number in 0..40_usize {
            let (node, jobs) = (nodes[number % 2].clone(), jobs.clone());
            tasks.spawn(async move {
                let name = format!("j{}", number % 12);
                match number % 5 {
                    0 => drop(put_job(&*node, &name, put(Some(at(60)))).await),
                    1 => {
                        let decide = |_: JobContext<'_>| Ok(JobWrite::Delete);
                        node.edit_job(job_path(&name), Box::new(decide)).await.unwrap();
                    }
                    2 => {
                        let state = [CollectionState::Enabled, CollectionState::Disabled];
                        let state = state[number / 5 % 2];
                        put_collection(&*node, "c", Collection { state, ..standard() }).await;
                    }
                    _ => {
                        let mut writes: Vec<_> =
                            jobs.iter().map(|job| begin(job, Some(NodeId(1)))).collect();
                        writes.rotate_left(number % 12);
                        node.commit(writes).await.unwrap();
                    }
                }
            });
        }
        tasks.join_all().await;
        assert_eq!(nodes[0].check().await.unwrap(), [""; 0]);
    });
}

#[test]
fn a_job_that_another_transaction_has_locked_does_not_delay_renewals_of_other_leases() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        let mut renewals = Vec::new();
        let jobs = due_jobs(&store, 2).await;
        for job in &jobs {
            let begun = store.commit(vec![begin(job, Some(NodeId(1)))]).await.unwrap();
            let [RunWriteResult::Begun { run, claim: Some(claim) }] = begun[..] else { panic!() };
            renewals.push(LeaseRenewal { run, token: claim.token, lease: LEASE });
        }
        let mut client = database.client().await;
        let transaction = client.transaction().await.unwrap();
        let lock = "SELECT 1 FROM states WHERE job = $1 FOR UPDATE";
        transaction.query(lock, &[&jobs[0].key.0]).await.unwrap();
        let results = store.renew_leases(renewals.clone()).await.unwrap();
        let [RenewalResult::Busy, RenewalResult::Renewed(_)] = results[..] else {
            panic!("{results:?}")
        };
        transaction.rollback().await.unwrap();
        let results = store.renew_leases(renewals).await.unwrap();
        let is_renewed = |result| matches!(result, &RenewalResult::Renewed(_));
        assert!(results.iter().all(is_renewed), "{results:?}");
    });
}
