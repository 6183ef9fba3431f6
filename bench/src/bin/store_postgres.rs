//! The PostgreSQL store at several sizes: microseconds per operation, bytes per job.
//!
//! ```text
//! scripts/with-postgres --durable store_postgres [JOBS …]
//! ```
//!
//! The store creates one job and SQL multiplies it, so that a million jobs exist within seconds; all
//! timed operations go through the store.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use kalends_bench::peers::processor::{parent_of, seconds_of_tree};
use kalends_domain::{
    Action, ActionRole, AttemptStatus, Collection, CollectionName, CollectionPath, CollectionState,
    Extensions, GroupName, GroupPath, HistoryEntry, HttpRequest, JobDefinition, JobName, JobPath,
    Lifecycle, Location, MainAction, Method, Plan, SubscriptionId, Switch, Target, Timing, Uri,
};
use kalends_environment::{SeededEntropy, Stopwatch};
use kalends_recurrence::{Frequency, Instant, Recurrence};
use kalends_store::encryption::{Cipher, MasterKey};
use kalends_store::postgres::{PostgresSettings, PostgresStore};
use kalends_store::record::{
    Cause, Disposition, FencingToken, JobFacts, JobState, JobUid, LedgerRecord, NodeId, Progress,
    RunId,
};
use kalends_store::stored_form::DefinitionCodec;
use kalends_store::{
    AdminStore, Advance, ApiStore, AttemptCounts, CollectionContext, CollectionWrite, DueJob,
    EngineStore, JobContext, JobFilter, JobPut, JobWrite, Page, RunWrite, RunWriteResult, SCAN_MAX,
};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

/// Number of runs in a commit of the engine.
const BATCH: usize = 500;
/// Number of repetitions of each operation.
const TIMES: usize = 40;
/// Number of concurrent edits.
const CONCURRENT: usize = 64;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut sizes =
        std::env::args().skip(1).map(|text| text.parse()).collect::<Result<Vec<i64>, _>>()?;
    if sizes.is_empty() {
        sizes = vec![1_000, 100_000];
    }
    let server =
        std::env::var("KALENDS_TEST_POSTGRES").context("run it by scripts/with-postgres")?;
    for jobs in sizes {
        println!("{jobs} jobs");
        let (client, connection) = tokio_postgres::connect(&server, NoTls).await?;
        tokio::spawn(connection);
        let name = format!("bench_{jobs}");
        client.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        let (address, _) = server.rsplit_once('/').context("an address")?;
        measure(&format!("{address}/{name}"), jobs).await?;
    }
    Ok(())
}

async fn measure(url: &str, jobs: i64) -> anyhow::Result<()> {
    let entropy = Arc::new(SeededEntropy::new(1));
    let (key, _) = MasterKey::generate(&*entropy)?;
    let codec = DefinitionCodec::new(Cipher::new(key, vec![], entropy), Default::default());
    let store = PostgresStore::connect(url, PostgresSettings::default(), codec).await?;
    let store = Arc::new(store);
    let decide = |_: CollectionContext<'_>| Ok(CollectionWrite::Put(standard()));
    store.edit_collection(path("j")?.collection, Box::new(decide)).await?;
    put(&store, "job1").await?;
    let bytes = multiply(url, jobs).await?;
    println!("{:>10.0} bytes per job", bytes as f64 / jobs as f64);

    let some = move |time: usize| (time as i64 * 7_919 % (jobs - 1)) + 2;
    let timer = Stopwatch::start();
    for time in 0..TIMES * 5 {
        put(&store, &format!("job{}", some(time))).await?;
    }
    told("PUT", timer, TIMES * 5);
    let timer = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for task in 0..CONCURRENT {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            for time in 0..TIMES {
                put(&store, &format!("job{}", some(task * TIMES + time))).await?;
            }
            anyhow::Ok(())
        });
    }
    tasks.join_all().await.into_iter().collect::<anyhow::Result<()>>()?;
    told("PUT, 64 concurrent", timer, CONCURRENT * TIMES);
    let timer = Stopwatch::start();
    for time in 0..TIMES * 10 {
        store.job(path(&format!("job{}", some(time)))?).await?.context("a job")?;
    }
    told("GET", timer, TIMES * 10);
    let timer = Stopwatch::start();
    for time in 0..TIMES {
        let after = Some(JobName::new(&format!("job{}", some(time)))?);
        let page = Page { after, skip: 0, limit: 100 };
        store.jobs(path("j")?.collection, JobFilter::default(), page, SCAN_MAX).await?;
    }
    told("list, a page of 100", timer, TIMES);
    let engine = store.for_engine();
    let server = server_process(url).await?;
    let mut spent = [Duration::ZERO; 5];
    let mut begun_in_all = 0;
    let before = (seconds_of_tree(server)?, seconds_of_tree(std::process::id())?);
    for _ in 0..TIMES {
        let timer = Stopwatch::start();
        let due = engine.due(Instant::MAX, BATCH).await?;
        spent[0] += timer.elapsed();
        let keys: Vec<_> = due.iter().map(|due| due.on.job).collect();
        let timer = Stopwatch::start();
        engine.jobs_for_run(keys.clone()).await?;
        spent[1] += timer.elapsed();
        let timer = Stopwatch::start();
        let begun = engine.commit(due.iter().map(|due| begin(&due.on)).collect()).await?;
        spent[2] += timer.elapsed();
        let timer = Stopwatch::start();
        engine.gate_states(keys).await?;
        spent[3] += timer.elapsed();
        let finishes = begun.iter().map(|answer| match *answer {
            RunWriteResult::Begun { run, claim: Some(claim) } => Ok(finish(run, claim.token)),
            answer => bail!("{answer:?}"),
        });
        let finishes = finishes.collect::<anyhow::Result<Vec<_>>>()?;
        begun_in_all += finishes.len();
        let timer = Stopwatch::start();
        engine.commit(finishes).await?;
        spent[4] += timer.elapsed();
    }
    let names = [
        "due, for one job",
        "jobs for runs, for one job",
        "begin, in commits of 500",
        "gate, for one job",
        "finish, in commits of 500",
    ];
    for (name, spent) in names.into_iter().zip(spent) {
        println!("{:>10.1} µs {name}", spent.as_secs_f64() * 1e6 / begun_in_all as f64);
    }
    let after = (seconds_of_tree(server)?, seconds_of_tree(std::process::id())?);
    for (name, spent) in [("the database", after.0 - before.0), ("the store", after.1 - before.1)] {
        println!(
            "{:>10.1} µs of the processor for a run, {name}",
            spent * 1e6 / begun_in_all as f64
        );
    }
    let wrong = store.check().await?;
    if !wrong.is_empty() {
        bail!("the store is damaged: {wrong:?}");
    }
    Ok(())
}

fn told(name: &str, timer: Stopwatch, times: usize) {
    println!("{:>10.1} µs {name}", timer.elapsed().as_secs_f64() * 1e6 / times as f64);
}

/// Process id of the database server.
async fn server_process(url: &str) -> anyhow::Result<u32> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let backend: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?;
    parent_of(backend.unsigned_abs()).context("the server has no process")
}

/// Copies the job until there are `jobs` of them and returns the size of the tables in bytes.
async fn multiply(url: &str, jobs: i64) -> anyhow::Result<i64> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let copy = format!(
        "INSERT INTO jobs (collection_id, job_key, name, uid, created, version, definition, search,
            tags, shortest_gap, authenticated, shortest_retry)
         SELECT collection_id, 'JOB' || n, 'job' || n, uid, created, version, definition, search,
            tags, shortest_gap, authenticated, shortest_retry
         FROM jobs, generate_series(2, {jobs}) n;
         INSERT INTO states (job, collection_id, generation, enabled, lifecycle, due, used,
            executions, failures, faulted, entries)
         SELECT j.key, j.collection_id, 1, true, 0, s.due + j.key, 0, 0, 0, 0, 0
         FROM jobs j, (SELECT min(due) AS due FROM states) s
         WHERE j.key NOT IN (SELECT job FROM states);
         UPDATE collections SET jobs = {jobs};
         VACUUM ANALYZE"
    );
    for statement in copy.split(';') {
        client.batch_execute(statement).await?;
    }
    let bytes = "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
         WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace";
    Ok(client.query_one(bytes, &[]).await?.try_get(0)?)
}

fn at(seconds: u64) -> Instant {
    let start = Instant::from_ticks(17_672_256_000_000_000).unwrap_or(Instant::MIN);
    start.saturating_add(Duration::from_secs(seconds))
}

fn path(name: &str) -> anyhow::Result<JobPath> {
    let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40")?;
    let group = GroupPath { subscription, group: GroupName::new("group")? };
    let collection = CollectionPath { group, collection: CollectionName::new("collection")? };
    Ok(JobPath { collection, job: JobName::new(name)? })
}

fn standard() -> Collection {
    Collection {
        location: Location::restore("West US".into()),
        tags: None,
        plan: Plan::P20Premium,
        state: CollectionState::Enabled,
        quota: None,
    }
}

async fn put(store: &PostgresStore, name: &str) -> anyhow::Result<()> {
    let decide = |_: JobContext<'_>| Ok(JobWrite::Put(Box::new(some_put())));
    store.edit_job(path(name)?, Box::new(decide)).await?;
    Ok(())
}

fn some_put() -> JobPut {
    let target = Target::Http(HttpRequest {
        uri: Uri::restore("https://example.com/orders/4711".into()),
        method: Method::restore("POST".into()),
        headers: None,
        body: Some("{\"order\": 4711}".into()),
        authentication: None,
    });
    let action = Action { type_as_written: "Https".into(), target };
    JobPut {
        uid: JobUid([7; 16]),
        created: at(0),
        definition: JobDefinition {
            start: None,
            action: MainAction { action, retry: None, error_action: None },
            recurrence: Some(Box::new(Recurrence::every(15, Frequency::Minute))),
            switch: Switch::Enabled,
            extensions: Extensions::default(),
        },
        facts: JobFacts::default(),
        state: JobState { due: Some(at(60)), ..JobState::default() },
        waiting: kalends_store::WaitingRuns::Keep,
        closed_by_edit: None,
    }
}

fn begin(on: &DueJob) -> RunWrite {
    let next = Some(on.due.saturating_add(Duration::from_secs(86_400)));
    RunWrite::Begin {
        on: *on,
        scheduled: on.due,
        progress: Progress::first(on.due),
        owner: Some(NodeId(1)),
        lease: Duration::from_secs(60),
        advance: Advance { due: next, used: 1, lifecycle: Lifecycle::Active },
        closed: vec![],
        postponed: vec![],
        waits_for: None,
    }
}

fn finish(run: RunId, token: FencingToken) -> RunWrite {
    let (message, at) = ("Http Action - Response from host 'example.com': 'OK'".into(), at(60));
    let (started, ended, expected) = (at, at, at);
    let (status, role) = (AttemptStatus::Completed, ActionRole::Main);
    let entry = HistoryEntry {
        started,
        ended,
        expected,
        status,
        message,
        retry: 0,
        repeat: 1,
        role,
        timing: Timing::default(),
        generation: Some(1),
    };
    let (cause, disposition) = (Cause::Scheduled, Disposition::Completed);
    let closed =
        LedgerRecord { generation: 1, from: at, to: at, count: 1, cause, disposition, closed: at };
    let counts = AttemptCounts { executed: Some(at), failed: false, faulted: false };
    RunWrite::Finish {
        run,
        token,
        entry: Some(entry),
        counts,
        closed,
        lifecycle: None,
        unused: None,
    }
}
