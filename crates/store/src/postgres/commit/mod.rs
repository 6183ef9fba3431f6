//! Commits of the engine, in batches.
//!
//! A commit reads all rows that its writes depend on under locks, applies the writes one after the
//! other in memory, so that writes to the same job or run see each other, and saves the changes
//! with one statement per table. It costs two round trips and a `COMMIT`, for any number of writes.
//!
//! A commit that begins or skips occurrences holds a shared lock on their collections. It conflicts
//! with the switch and the deletion of a collection, and not with edits of its jobs. A commit that
//! only renews leases locks its runs and nothing else, so that no edit delays it.

mod batch;
mod write;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kalends_domain::Lifecycle;
use kalends_recurrence::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::engine_store::{RunWrite, RunWriteResult};
use crate::error::StoreError;
use crate::postgres::clock::clock;
use crate::postgres::code::rows_max;
use crate::postgres::columns::{run_columns, state_columns};
use crate::postgres::error::PostgresError;
use crate::postgres::pause::{CLOCK_AND_PAUSE, clock_and_pause_of};
use crate::postgres::row::{attempts, get, run, state, unsigned};
use crate::postgres::transaction::{Operation, Transaction, execute, query};
use crate::record::{JobKey, RunId};
use crate::run_state::{self, JobRow, RunRow};
use batch::Batch;
pub(super) use write::{ClosedRow, close_runs, open_runs, write_ledger};

/// Expires the lease of every claim.
pub(super) struct ExpireClaims;

impl Operation for ExpireClaims {
    type Output = usize;

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<usize, PostgresError> {
        let lock =
            "SELECT job FROM states WHERE job IN (SELECT job FROM runs WHERE owner IS NOT NULL)
             ORDER BY job FOR UPDATE";
        query(transaction, lock, &[]).await?;
        let expire = "UPDATE runs SET lease_until = $1 WHERE owner IS NOT NULL";
        let expired = execute(transaction, expire, &[&Instant::MIN.ticks()]).await?;
        Ok(usize::try_from(expired).unwrap_or(usize::MAX))
    }
}

/// Applies run writes, each if its precondition holds.
pub(super) struct Commit {
    writes: Vec<RunWrite>,
    /// Collections in which a write makes a job due that was not, or earlier than it was. Their lock
    /// precedes the others, so they are known after a first attempt.
    lowers_due: Vec<i64>,
}

impl Operation for Commit {
    type Output = Vec<RunWriteResult>;

    const READS_FIRST: bool = true;

    async fn perform(
        &mut self,
        transaction: &Transaction<'_>,
    ) -> Result<Vec<RunWriteResult>, PostgresError> {
        let is_renewal = |write: &RunWrite| matches!(write, RunWrite::RenewLease { .. });
        let (mut batch, now) = match self.writes.iter().all(is_renewal) {
            true => self.read_renewed(transaction).await?,
            false => self.read(transaction).await?,
        };
        let mut commit = |write| run_state::commit(&mut batch, write, now);
        let results = self.writes.iter().map(&mut commit).collect::<Result<_, _>>()?;
        let changes = batch.changes();
        let lowered: Vec<_> = changes.lowered.iter().map(|(collection, _)| *collection).collect();
        if lowered.iter().any(|collection| !self.lowers_due.contains(collection)) {
            self.lowers_due = lowered;
            return Err(PostgresError::Repeat);
        }
        write::write(transaction, changes).await?;
        Ok(results)
    }
}

/// The runs with these ids and the other runs of jobs that may end.
///
/// Three searches that each use an index; one search with `OR` would scan all open runs, and so may one
/// with `IN` instead of `ANY (ARRAY(…))`, which the database turns into a join. The jobs of
/// a deleted collection have no runs. The rows are locked because a renewal locks nothing else.
const READ_RUNS: &str = concat!(
    "SELECT r.last_token, r.attempts, r.started, ",
    run_columns!("r."),
    " FROM runs r JOIN states s ON s.job = r.job JOIN collections c ON c.id = s.collection_id
     WHERE r.id = ANY (ARRAY(
        SELECT unnest($1::bigint[])
        UNION SELECT id FROM runs WHERE job = ANY ($2::bigint[])
        UNION SELECT o.id FROM runs f JOIN states s ON s.job = f.job
            JOIN runs o ON o.job = f.job
            WHERE f.id = ANY ($1::bigint[]) AND s.due IS NULL))
     ORDER BY r.id FOR UPDATE OF r"
);

/// Draws this many ids of runs.
pub(super) const DRAW_RUN_IDS: &str =
    "SELECT nextval('run_ids') AS id FROM generate_series(1, $1::bigint)";

fn run_row(row: &Row) -> Result<(RunId, RunRow), StoreError> {
    let (last_token, attempts) = (unsigned(row, "last_token")?, attempts(row)?);
    let row = RunRow { run: run(row)?, last_token, attempts };
    Ok((row.run.id, row))
}

impl Commit {
    pub(super) fn new(writes: Vec<RunWrite>) -> Commit {
        Commit { writes, lowers_due: Vec::new() }
    }

    /// Locks and reads the runs of renewals.
    async fn read_renewed(
        &self,
        transaction: &Transaction<'_>,
    ) -> Result<(Batch, Instant), PostgresError> {
        let (_, runs) = self.named();
        let none: Vec<i64> = Vec::new();
        let runs = query(transaction, READ_RUNS, &[&runs, &none]).await?;
        let runs = runs.iter().map(run_row).collect::<Result<_, _>>()?;
        let now = clock(transaction).await?;
        Ok((Batch::new(BTreeMap::new(), BTreeMap::new(), runs, VecDeque::new(), None), now))
    }

    /// Locks the collections, then the jobs of all writes in key order, then reads their rows. Each
    /// statement sees the commits before it began, so the reads must follow the locks.
    async fn read(&self, transaction: &Transaction<'_>) -> Result<(Batch, Instant), PostgresError> {
        let share = "SELECT id FROM collections
             WHERE id IN (SELECT collection_id FROM states WHERE job = ANY ($1::bigint[]))
             ORDER BY id FOR KEY SHARE";
        if !self.lowers_due.is_empty() {
            let exclude_edits = "SELECT id FROM collections WHERE id = ANY ($1) ORDER BY id
                 FOR NO KEY UPDATE";
            query(transaction, exclude_edits, &[&self.lowers_due]).await?;
        }
        let lock = concat!(
            "SELECT s.job, s.collection_id, s.generation,
                coalesce(s.schedule_generation, s.generation) AS schedule_generation, s.enabled,
                c.enabled AS collection_enabled, ",
            state_columns!("s."),
            " FROM states s JOIN collections c ON c.id = s.collection_id
             WHERE s.job IN (SELECT unnest($1::bigint[])
                             UNION SELECT job FROM runs WHERE id = ANY ($2::bigint[]))
             ORDER BY s.job FOR UPDATE OF s"
        );
        let (jobs, runs) = self.named();
        let ending = self.ending();
        let begun =
            self.writes.iter().filter(|write| matches!(write, RunWrite::Begin { .. })).count();
        let begun = rows_max(begun);
        // Prepared first, so that the queries are pipelined in this order.
        let (share, lock, read, draw, clock) = tokio::try_join!(
            transaction.prepare_cached(share),
            transaction.prepare_cached(lock),
            transaction.prepare_cached(READ_RUNS),
            transaction.prepare_cached(DRAW_RUN_IDS),
            transaction.prepare_cached(CLOCK_AND_PAUSE),
        )?;
        let (lock_on, read_on): ([&(dyn ToSql + Sync); 2], [&(dyn ToSql + Sync); 2]) =
            ([&jobs, &runs], [&runs, &ending]);
        let (share_on, draw_on): ([&(dyn ToSql + Sync); 1], [&(dyn ToSql + Sync); 1]) =
            ([&jobs], [&begun]);
        let (_, states, runs, ids, now) = tokio::try_join!(
            biased;
            transaction.query(&share, &share_on),
            transaction.query(&lock, &lock_on),
            transaction.query(&read, &read_on),
            transaction.query(&draw, &draw_on),
            transaction.query(&clock, &[]),
        )?;
        let (now, pause) = clock_and_pause_of(&now)?;
        let job_row = |row: &Row| {
            let job = JobRow {
                generation: unsigned(row, "generation")?,
                schedule_generation: unsigned(row, "schedule_generation")?,
                is_enabled: get(row, "enabled")? && get(row, "collection_enabled")?,
                state: state(row)?,
            };
            Ok((JobKey(get(row, "job")?), job))
        };
        let collection = |row: &Row| Ok((JobKey(get(row, "job")?), get(row, "collection_id")?));
        let fresh_ids = ids.iter().map(|row| get(row, "id").map(RunId));
        let batch = Batch::new(
            states.iter().map(job_row).collect::<Result<_, StoreError>>()?,
            states.iter().map(collection).collect::<Result<_, StoreError>>()?,
            runs.iter().map(run_row).collect::<Result<_, StoreError>>()?,
            fresh_ids.collect::<Result<_, StoreError>>()?,
            pause.map(|record| record.pause),
        );
        Ok((batch, now))
    }

    /// Jobs that have no next occurrence after the writes, or that the writes end: whether they
    /// have finished depends on their other open runs.
    fn ending(&self) -> Vec<i64> {
        let ending = self.writes.iter().filter_map(|write| match write {
            RunWrite::Begin { on, advance, .. } | RunWrite::Skip { on, advance, .. } => {
                let may_end = advance.due.is_none() || advance.lifecycle != Lifecycle::Active;
                may_end.then_some(on.job.0)
            }
            RunWrite::Reschedule { job, advance, .. } => {
                (advance.lifecycle != Lifecycle::Active).then_some(job.0)
            }
            _ => None,
        });
        ending.collect()
    }

    /// The jobs and runs that the writes name.
    fn named(&self) -> (Vec<i64>, Vec<i64>) {
        let mut jobs = BTreeSet::new();
        let mut runs = BTreeSet::new();
        for write in &self.writes {
            match write {
                RunWrite::Begin { on, .. } | RunWrite::Skip { on, .. } => jobs.insert(on.job.0),
                RunWrite::Reschedule { job, .. } => jobs.insert(job.0),
                RunWrite::Claim { run, .. }
                | RunWrite::Park { run, .. }
                | RunWrite::RenewLease { run, .. }
                | RunWrite::Continue { run, .. }
                | RunWrite::Finish { run, .. } => runs.insert(run.0),
            };
        }
        (jobs.into_iter().collect(), runs.into_iter().collect())
    }
}
