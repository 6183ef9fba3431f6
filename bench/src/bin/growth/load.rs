//! Jobs loaded without the API, which would take hours for ten million. None of them is due for a year.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use kalends_bench::peers::database::connect;
use kalends_bench::peers::now;
use kalends_bench::store::workload::{collection, collection_path, job_name, job_put};
use kalends_bench::store::{LOADING, bytes_in, in_flight, wait};
use kalends_domain::JobPath;
use kalends_environment::{SystemClock, SystemEntropy};
use kalends_recurrence::Instant;
use kalends_store::encryption::Cipher;
use kalends_store::postgres::{PostgresSettings, PostgresStore};
use kalends_store::sqlite::{SqliteSettings, SqliteStore};
use kalends_store::stored_form::DefinitionCodec;
use kalends_store::{
    ApiStore, CollectionContext, CollectionWrite, JobContext, JobPut, JobWrite, KeyFile, Reply,
    StoreError,
};

/// Number of collections at every size: the runs of each use connections of their own. A prime number, so that a burst
/// of jobs at equal distances has jobs of all.
const COLLECTIONS: usize = 7;
/// Time until the first of the loaded jobs is due.
const YEAR: Duration = Duration::from_secs(365 * 86_400);
/// Number of jobs that one statement adds to PostgreSQL.
const STATEMENT: usize = 200_000;

/// A store that is filled while no server uses it.
pub(crate) trait Loader {
    /// Adds the jobs with the numbers from `from` to `to` and returns the size of the store in bytes.
    async fn load(&self, from: usize, to: usize) -> anyhow::Result<u64>;

    /// Adds the flags that select the store.
    fn select(&self, command: &mut Command);
}

/// An SQLite file: the store creates the collections and a job in each, and SQL multiplies these.
pub(crate) struct SqliteLoader {
    pub(crate) path: PathBuf,
}

/// A PostgreSQL database: the store creates the collections and one job, and SQL multiplies it.
pub(crate) struct PostgresLoader {
    pub(crate) url: String,
    /// Path of the key file.
    pub(crate) key: PathBuf,
}

impl Loader for SqliteLoader {
    async fn load(&self, from: usize, to: usize) -> anyhow::Result<u64> {
        // On a thread without a runtime: Tokio's budget of a task would be used up by the replies of the
        // store and renewed only when this future returns.
        std::thread::scope(|scope| scope.spawn(|| self.fill(from, to)).join())
            .map_err(|_| anyhow::anyhow!("the thread that loads jobs has panicked"))?
    }

    fn select(&self, command: &mut Command) {
        command.args(["--store", &format!("sqlite:{}", self.path.display())]);
    }
}

impl SqliteLoader {
    fn fill(&self, from: usize, to: usize) -> anyhow::Result<u64> {
        let codec = codec(&KeyFile::beside(&self.path), &self.path)?;
        let settings = SqliteSettings::default();
        let store = SqliteStore::open(&self.path, settings, codec, Arc::new(SystemClock))?;
        let collections = new_collections(from, to);
        for number in collections.clone() {
            wait(put_collection(&store, number)?)?;
        }
        in_flight(LOADING, collections.map(|job| put_job(&store, job)), drop)?;
        wait(store.flush())?;
        drop(store);
        let connection = rusqlite::Connection::open(&self.path)?;
        connection.execute_batch(&copies_in_sqlite(from, to))?;
        drop(connection);
        Ok(bytes_in(self.path.parent().context("no folder")?)?)
    }
}

/// Copies the first job of each collection to the other numbers from `from` to `to`, with names as
/// [`job_path`] forms them. Copies are due at the time of the first job.
fn copies_in_sqlite(from: usize, to: usize) -> String {
    let (first, last) = (from.max(COLLECTIONS), to - 1);
    let copy = |table: &str, columns: &str, values: &str| {
        format!(
            "INSERT INTO {table} ({columns})
             SELECT {values} FROM new n CROSS JOIN {table} t ON t.job = n.template;"
        )
    };
    let jobs = copy(
        "jobs",
        "job, name_key, name, collection, uid, created, version, shortest_gap, shortest_retry, authenticated,
         search, definition",
        "n.job, upper(n.name), n.name, t.collection, t.uid, t.created, t.version, t.shortest_gap,
         t.shortest_retry, t.authenticated, t.search, t.definition",
    );
    let state = copy(
        "state",
        "job, collection, generation, switched_on, lifecycle, due, used, last_execution, executions, failures,
         faulted, finished, entries, newest_entry, newest_closing, schedule_generation, enabled_since",
        "n.job, t.collection, t.generation, t.switched_on, t.lifecycle, t.due, t.used, t.last_execution,
         t.executions, t.failures, t.faulted, t.finished, t.entries, t.newest_entry, t.newest_closing,
         t.schedule_generation, t.enabled_since",
    );
    // By time, which is not the order of the jobs.
    let due = "INSERT INTO due (due, job, packed)
        SELECT d.due, n.job, d.packed FROM due d CROSS JOIN new n ON n.template = d.job ORDER BY d.due, n.job;";
    format!(
        "CREATE TEMP TABLE templates AS
             SELECT j.job, CAST(substr(c.name, length('collection-') + 1) AS INTEGER) AS number
             FROM collections c JOIN jobs j ON j.job = (SELECT min(job) FROM jobs WHERE collection = c.id);
         CREATE TEMP TABLE new AS
             WITH RECURSIVE numbers (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})
             SELECT (SELECT max(job) FROM jobs) + 1 + n - {first} AS job, t.job AS template,
                 printf('job-%08x', (n * 2654435761) & 4294967295) AS name
             FROM numbers CROSS JOIN templates t ON t.number = n % {COLLECTIONS};
         CREATE INDEX temp.new_template ON new (template);
         BEGIN; {jobs} {state} {due}
         UPDATE collections SET jobs = (SELECT count(*) FROM jobs j WHERE j.collection = collections.id);
         COMMIT; DROP TABLE new; DROP TABLE templates;"
    )
}

impl Loader for PostgresLoader {
    async fn load(&self, from: usize, to: usize) -> anyhow::Result<u64> {
        let codec = codec(&KeyFile::new(self.key.clone()), Path::new(""))?;
        let store = PostgresStore::connect(&self.url, PostgresSettings::default(), codec).await?;
        for number in new_collections(from, to) {
            put_collection(&store, number)?.await?;
        }
        if from == 0 {
            put_job(&store, 0).await?;
        }
        drop(store);
        let client = connect(&self.url).await?;
        // The checkpoint below makes all jobs durable.
        client.batch_execute("SET synchronous_commit = off").await?;
        let mut next = from.max(1);
        while next < to {
            let end = to.min(next + STATEMENT);
            client.batch_execute(&multiplication(next, end)).await?;
            next = end;
        }
        let count = "UPDATE collections c SET jobs = (SELECT count(*) FROM jobs j WHERE j.collection_id = c.id)";
        client.batch_execute(count).await?;
        client.batch_execute("VACUUM ANALYZE").await?;
        client.batch_execute("CHECKPOINT").await?;
        let size = "SELECT pg_database_size(current_database())";
        Ok(client.query_one(size, &[]).await?.try_get::<_, i64>(0)?.unsigned_abs())
    }

    fn select(&self, command: &mut Command) {
        command.args(["--store", &self.url]).arg("--key-file").arg(&self.key);
    }
}

/// Copies the first job to the numbers from `from` to `to`, with names as [`job_path`] forms them.
fn multiplication(from: usize, to: usize) -> String {
    let last = to - 1;
    format!(
        "WITH template AS (SELECT j.*, s.due FROM jobs j JOIN states s ON s.job = j.key ORDER BY j.key LIMIT 1),
              numbers AS (SELECT n, 'job-' || lpad(to_hex((n * 2654435761) & 4294967295), 8, '0') AS name
                          FROM generate_series({from}::bigint, {last}) n),
              copies AS (
                  INSERT INTO jobs (collection_id, job_key, name, uid, created, version, definition, search,
                      tags, shortest_gap, authenticated, shortest_retry)
                  SELECT c.id, upper(n.name), n.name, t.uid, t.created, t.version, t.definition, t.search,
                      t.tags, t.shortest_gap, t.authenticated, t.shortest_retry
                  FROM numbers n CROSS JOIN template t
                  JOIN collections c ON c.name = 'collection-' || (n.n % {COLLECTIONS})
                  RETURNING key, collection_id)
         INSERT INTO states (job, collection_id, generation, enabled, lifecycle, due, used, executions,
             failures, faulted, entries)
         SELECT c.key, c.collection_id, 1, true, 0, t.due + c.key, 0, 0, 0, 0, 0
         FROM copies c CROSS JOIN template t"
    )
}

/// The job with a number, from 0.
pub(crate) fn job_path(job: usize) -> anyhow::Result<JobPath> {
    Ok(JobPath { collection: collection_path(job % COLLECTIONS)?, job: job_name(job)? })
}

/// Numbers of the collections that do not exist yet.
fn new_collections(from: usize, to: usize) -> std::ops::Range<usize> {
    from.min(COLLECTIONS)..to.min(COLLECTIONS)
}

fn put_collection(store: &impl ApiStore, number: usize) -> anyhow::Result<Reply<'_, impl Sized>> {
    let decide = Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Put(collection())));
    Ok(store.edit_collection(collection_path(number)?, decide))
}

fn put_job(store: &impl ApiStore, job: usize) -> Reply<'_, impl Sized> {
    // A job has no occurrences before its creation, and it is edited to run soon.
    let (created, due) = (instant_now(), due(job));
    let decide = move |_: JobContext<'_>| {
        Ok(JobWrite::Put(Box::new(JobPut { created, ..job_put(job, 0, due) })))
    };
    match job_path(job) {
        Ok(path) => store.edit_job(path, Box::new(decide)),
        Err(error) => Box::pin(std::future::ready(Err(StoreError::Failed(format!("{error:#}"))))),
    }
}

/// A random time of a day in a year.
fn due(job: usize) -> Instant {
    let spread = u64::from((job as u32).wrapping_mul(0x85eb_ca6b));
    instant_now().saturating_add(YEAR).saturating_add(Duration::from_millis(spread % 86_400_000))
}

fn instant_now() -> Instant {
    Instant::from_ticks(now().as_microsecond() * 10).unwrap_or(Instant::MIN)
}

fn codec(file: &KeyFile, store: &Path) -> anyhow::Result<DefinitionCodec> {
    let entropy = Arc::new(SystemEntropy);
    let key = file.read_or_create(store, &*entropy)?;
    Ok(DefinitionCodec::new(Cipher::new(key, vec![], entropy), Default::default()))
}
