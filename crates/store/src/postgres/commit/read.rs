//! Reads the rows that the writes of a commit depend on.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use kalends_domain::Lifecycle;
use kalends_recurrence::Instant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use crate::engine_store::RunWrite;
use crate::error::StoreError;
use crate::postgres::clock::clock;
use crate::postgres::code::rows_max;
use crate::postgres::columns::{run_columns, state_columns};
use crate::postgres::commit::batch::Batch;
use crate::postgres::commit::row_cache::{KnownRuns, RowCache, VersionedJob, VersionedRun};
use crate::postgres::commit::{Commit, DRAW_RUN_IDS};
use crate::postgres::error::PostgresError;
use crate::postgres::pause::{CLOCK_AND_PAUSE, clock_and_pause_of};
use crate::postgres::row::{attempts, get, run, state, unsigned};
use crate::postgres::transaction::{Transaction, query};
use crate::record::{JobKey, RunId};
use crate::run_state::{JobRow, RunRow};

/// Locks collections, and those of jobs, so that they are neither switched nor deleted.
const SHARE_COLLECTIONS: &str = "SELECT id, enabled FROM collections
     WHERE id = ANY (ARRAY(
        SELECT unnest($1::bigint[])
        UNION SELECT collection_id FROM states WHERE job = ANY ($2::bigint[])))
     ORDER BY id FOR KEY SHARE";

const READ_COLLECTIONS: &str = "SELECT id, enabled FROM collections WHERE id = ANY ($1::bigint[])";

/// The states of jobs and of the jobs of runs.
macro_rules! read_states {
    ($lock:literal) => {
        concat!(
            "SELECT s.job, s.collection_id, s.xmin AS row_version, s.generation,
                coalesce(s.schedule_generation, s.generation) AS schedule_generation, s.enabled,
                s.enabled_since AS job_enabled_since, c.enabled AS collection_enabled, ",
            state_columns!("s."),
            " FROM states s JOIN collections c ON c.id = s.collection_id
             WHERE s.job = ANY (ARRAY(
                SELECT unnest($1::bigint[])
                UNION SELECT job FROM runs WHERE id = ANY ($2::bigint[])))
             ORDER BY s.job ",
            $lock
        )
    };
}

/// The runs with the ids `$1`, the runs of the jobs `$2`, and the other runs of jobs that may end, without
/// the runs `$3`.
///
/// Searches that each use an index; one search with `OR` would scan all open runs, and so may a join, or
/// `IN` instead of `ANY (ARRAY(…))`, which the database turns into a join. For `BETWEEN` see
/// `connect::ENGINE_PLANS`. The jobs of a deleted collection have no runs.
macro_rules! read_runs {
    ($lock:literal) => {
        concat!(
            "SELECT r.xmin AS row_version, r.last_token, r.attempts, r.started, ",
            run_columns!("r."),
            " FROM runs r JOIN states s ON s.job BETWEEN r.job AND r.job
             JOIN collections c ON c.id = s.collection_id
             WHERE r.id = ANY (ARRAY(
                SELECT unnest($1::bigint[])
                UNION SELECT id FROM runs WHERE job = ANY ($2::bigint[])
                UNION SELECT id FROM runs WHERE job = ANY (ARRAY(
                    SELECT job FROM states WHERE due IS NULL AND job = ANY (ARRAY(
                        SELECT job FROM runs WHERE id = ANY ($1::bigint[])))))
                EXCEPT SELECT unnest($3::bigint[])))
             ORDER BY r.id ",
            $lock
        )
    };
}

const LOCK_STATES: &str = read_states!("FOR UPDATE OF s");
const READ_STATES: &str = read_states!("");
/// The runs are locked because a renewal locks nothing else.
const LOCK_RUNS: &str = read_runs!("FOR UPDATE OF r");
const READ_RUNS: &str = read_runs!("");

/// The jobs and runs that writes name.
#[derive(Default)]
pub(super) struct Named {
    pub(super) jobs: BTreeSet<JobKey>,
    pub(super) runs: BTreeSet<RunId>,
}

impl Commit {
    /// Locks and reads the runs of renewals.
    pub(super) async fn read_renewed(
        &self,
        transaction: &Transaction<'_>,
    ) -> Result<(Batch, Instant), PostgresError> {
        let runs = run_ids(&self.named().runs);
        let none: Vec<i64> = Vec::new();
        let runs = query(transaction, LOCK_RUNS, &[&runs, &none, &none]).await?;
        let runs = runs.iter().map(versioned_run).collect::<Result<_, _>>()?;
        let now = clock(transaction).await?;
        Ok((Batch::new(BTreeMap::new(), HashMap::new(), runs, VecDeque::new(), None), now))
    }

    /// Locks the collections, then the jobs of all writes in key order, then reads their rows. Each
    /// statement sees the commits before it began, so the reads must follow the locks.
    pub(super) async fn read_locked(
        &self,
        transaction: &Transaction<'_>,
    ) -> Result<(Batch, Instant), PostgresError> {
        if !self.lowers_due.is_empty() {
            let exclude_edits = "SELECT id FROM collections WHERE id = ANY ($1) ORDER BY id
                 FOR NO KEY UPDATE";
            query(transaction, exclude_edits, &[&self.lowers_due]).await?;
        }
        let Named { jobs, runs } = self.named();
        let wanted = RowsToRead {
            states: job_keys(&jobs),
            runs: run_ids(&runs),
            ending: job_keys(&self.ending()),
            ..RowsToRead::default()
        };
        let rows = wanted.read(transaction, (LOCK_STATES, LOCK_RUNS), self.begun()).await?;
        rows.batch(BTreeMap::new(), BTreeMap::new())
    }

    /// Reads the rows that the node has not cached, without locks, and the collections. The writes
    /// have the versions of the rows.
    ///
    /// A write that changes a job names the version of its state, so it does not happen if another
    /// transaction has opened or closed a run of the schedule since the state was read: such a
    /// transaction changes the state, too.
    pub(super) async fn read_unlocked(
        &self,
        transaction: &Transaction<'_>,
        row_cache: &RowCache,
    ) -> Result<(Batch, Instant), PostgresError> {
        let Named { jobs, runs } = self.named();
        let (cached_jobs, cached_runs) = row_cache.find(&jobs, &runs);
        let uncached_jobs = jobs.iter().filter(|job| !cached_jobs.contains_key(job));
        let uncached_runs: BTreeSet<_> =
            runs.iter().filter(|run| !cached_runs.contains_key(run)).copied().collect();
        let ending = match uncached_runs.is_empty() {
            true => self.finishing(&cached_jobs, &cached_runs),
            false => {
                self.ending().union(&self.finishing(&cached_jobs, &cached_runs)).copied().collect()
            }
        };
        let collection = |job: &JobKey| cached_jobs.get(job).map(|job| job.collection);
        let begun: BTreeSet<i64> = jobs.iter().filter_map(collection).collect();
        let all: BTreeSet<i64> = cached_jobs.values().map(|job| job.collection).collect();
        let wanted = RowsToRead {
            states: uncached_jobs.map(|job| job.0).collect(),
            runs: run_ids(&uncached_runs),
            ending: job_keys(&ending),
            cached_runs: cached_runs.keys().map(|run| run.0).collect(),
            shared_collections: begun.iter().copied().collect(),
            other_collections: all.difference(&begun).copied().collect(),
        };
        let rows = wanted.read(transaction, (READ_STATES, READ_RUNS), self.begun()).await?;
        rows.batch(cached_jobs, cached_runs)
    }

    /// The number of runs that may begin.
    fn begun(&self) -> usize {
        self.writes.iter().filter(|write| matches!(write, RunWrite::Begin { .. })).count()
    }

    /// Jobs that have no next occurrence after the writes, or that the writes end: whether they
    /// have finished depends on their other open runs.
    fn ending(&self) -> BTreeSet<JobKey> {
        let ending = self.writes.iter().filter_map(|write| match write {
            RunWrite::Begin { on, advance, .. } | RunWrite::Skip { on, advance, .. } => {
                let may_end = advance.due.is_none() || advance.lifecycle != Lifecycle::Active;
                may_end.then_some(on.job)
            }
            RunWrite::Reschedule { job, advance, .. } => {
                (advance.lifecycle != Lifecycle::Active).then_some(*job)
            }
            _ => None,
        });
        ending.collect()
    }

    /// Jobs without a next occurrence, before the writes or after them, of which a cached run
    /// finishes that is not known to be the only one.
    fn finishing(
        &self,
        jobs: &BTreeMap<JobKey, VersionedJob>,
        runs: &BTreeMap<RunId, VersionedRun>,
    ) -> BTreeSet<JobKey> {
        let ending = self.ending();
        let finishing = self.writes.iter().filter_map(|write| match write {
            RunWrite::Finish { run, lifecycle: Some(_), .. } => {
                let key = runs.get(run)?.row.run.job;
                let job = jobs.get(&key)?;
                let may_end = job.row.state.due.is_none() || ending.contains(&key);
                (may_end && job.runs != KnownRuns::One(*run)).then_some(key)
            }
            _ => None,
        });
        finishing.collect()
    }

    /// The jobs and runs that the writes name.
    pub(super) fn named(&self) -> Named {
        let mut named = Named::default();
        for write in &self.writes {
            match write {
                RunWrite::Begin { on, .. } | RunWrite::Skip { on, .. } => named.jobs.insert(on.job),
                RunWrite::Reschedule { job, .. } => named.jobs.insert(*job),
                RunWrite::Claim { run, .. }
                | RunWrite::Park { run, .. }
                | RunWrite::RenewLease { run, .. }
                | RunWrite::Continue { run, .. }
                | RunWrite::Finish { run, .. } => named.runs.insert(*run),
            };
        }
        named
    }
}

/// Rows that a commit reads.
#[derive(Default)]
struct RowsToRead {
    /// Jobs whose states are read. Their collections are locked.
    states: Vec<i64>,
    runs: Vec<i64>,
    /// Jobs of which all open runs are read.
    ending: Vec<i64>,
    /// Runs that are not read.
    cached_runs: Vec<i64>,
    /// Collections that are locked.
    shared_collections: Vec<i64>,
    /// Collections that are only read.
    other_collections: Vec<i64>,
}

/// Rows that a commit has read.
struct ReadRows {
    collections: Vec<Row>,
    states: Vec<Row>,
    runs: Vec<Row>,
    ids: Vec<Row>,
    clock: Vec<Row>,
}

impl RowsToRead {
    /// Reads the rows, and draws ids for `begun` runs.
    async fn read(
        &self,
        transaction: &Transaction<'_>,
        (read_states, read_runs): (&str, &str),
        begun: usize,
    ) -> Result<ReadRows, PostgresError> {
        let begun = rows_max(begun);
        // Prepared first, so that the queries are pipelined in this order.
        let (share, others, states, runs, draw, clock) = tokio::try_join!(
            transaction.prepare_cached(SHARE_COLLECTIONS),
            transaction.prepare_cached(READ_COLLECTIONS),
            transaction.prepare_cached(read_states),
            transaction.prepare_cached(read_runs),
            transaction.prepare_cached(DRAW_RUN_IDS),
            transaction.prepare_cached(CLOCK_AND_PAUSE),
        )?;
        let is_any = |keys: [&Vec<i64>; 2]| keys.iter().any(|keys| !keys.is_empty());
        let has_shared = is_any([&self.shared_collections, &self.states]);
        let (has_states, has_runs) =
            (is_any([&self.states, &self.runs]), is_any([&self.runs, &self.ending]));
        let has_others = !self.other_collections.is_empty();
        let share_on: [&(dyn ToSql + Sync); 2] = [&self.shared_collections, &self.states];
        let others_on: [&(dyn ToSql + Sync); 1] = [&self.other_collections];
        let states_on: [&(dyn ToSql + Sync); 2] = [&self.states, &self.runs];
        let runs_on: [&(dyn ToSql + Sync); 3] = [&self.runs, &self.ending, &self.cached_runs];
        let draw_on: [&(dyn ToSql + Sync); 1] = [&begun];
        let (shared, others, states, runs, ids, clock) = tokio::try_join!(
            biased;
            query_if(has_shared, transaction, &share, &share_on),
            query_if(has_others, transaction, &others, &others_on),
            query_if(has_states, transaction, &states, &states_on),
            query_if(has_runs, transaction, &runs, &runs_on),
            query_if(begun > 0, transaction, &draw, &draw_on),
            query_if(true, transaction, &clock, &[]),
        )?;
        let collections = shared.into_iter().chain(others).collect();
        Ok(ReadRows { collections, states, runs, ids, clock })
    }
}

impl ReadRows {
    /// The rows with those that were cached.
    fn batch(
        &self,
        mut jobs: BTreeMap<JobKey, VersionedJob>,
        mut runs: BTreeMap<RunId, VersionedRun>,
    ) -> Result<(Batch, Instant), PostgresError> {
        let (now, pause) = clock_and_pause_of(&self.clock)?;
        let mut collections = HashMap::new();
        for row in &self.collections {
            collections.insert(get(row, "id")?, get(row, "enabled")?);
        }
        for row in &self.states {
            let (key, job) = (JobKey(get(row, "job")?), versioned_job(row)?);
            collections.insert(job.collection, get(row, "collection_enabled")?);
            jobs.insert(key, job);
        }
        let is_in_collection = |run: &VersionedRun| {
            let job = jobs.get(&run.row.run.job);
            job.is_none_or(|job| collections.contains_key(&job.collection))
        };
        runs.retain(|_, run| is_in_collection(run));
        for row in &self.runs {
            let (id, run) = versioned_run(row)?;
            runs.insert(id, run);
        }
        let ids = self.ids.iter().map(|row| get(row, "id").map(RunId));
        let ids = ids.collect::<Result<_, StoreError>>()?;
        let pause = pause.map(|record| record.pause);
        Ok((Batch::new(jobs, collections, runs, ids, pause), now))
    }
}

/// Executes a statement under a condition.
async fn query_if(
    condition: bool,
    transaction: &Transaction<'_>,
    statement: &Statement,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    if condition { transaction.query(statement, parameters).await } else { Ok(vec![]) }
}

fn versioned_job(row: &Row) -> Result<VersionedJob, StoreError> {
    let job = JobRow {
        generation: unsigned(row, "generation")?,
        schedule_generation: unsigned(row, "schedule_generation")?,
        is_enabled: get(row, "enabled")?,
        state: state(row)?,
    };
    VersionedJob::new(job, KnownRuns::Unknown, row)
}

fn versioned_run(row: &Row) -> Result<(RunId, VersionedRun), StoreError> {
    let (last_token, attempts) = (unsigned(row, "last_token")?, attempts(row)?);
    let version = get(row, "row_version")?;
    let row = RunRow { run: run(row)?, last_token, attempts };
    Ok((row.run.id, VersionedRun { row, version }))
}

fn job_keys(jobs: &BTreeSet<JobKey>) -> Vec<i64> {
    jobs.iter().map(|job| job.0).collect()
}

fn run_ids(runs: &BTreeSet<RunId>) -> Vec<i64> {
    runs.iter().map(|run| run.0).collect()
}
