//! Commits of the engine, in batches.
//!
//! A commit reads all rows that its writes depend on under locks, applies the writes one after the
//! other in memory, so that writes to the same job or run see each other, and saves the changes
//! with one statement per table. It costs two round trips and a `COMMIT`, for any number of writes.

mod batch;
mod write;

use std::collections::BTreeSet;

use deadpool_postgres::Transaction;
use kalends_domain::Lifecycle;
use kalends_recurrence::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::engine_store::{RunWrite, RunWriteResult};
use crate::error::StoreError;
use crate::postgres::clock::{CLOCK, clock_of};
use crate::postgres::code::rows_max;
use crate::postgres::columns::{run_columns, state_columns};
use crate::postgres::error::PostgresError;
use crate::postgres::row::{get, run, state, unsigned};
use crate::postgres::transaction::{Operation, execute, query};
use crate::record::{JobKey, RunId};
use crate::run_state::{self, JobRow, RunRow};
use batch::Batch;
pub(super) use write::{close_runs, open_runs, write_ledger};

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
pub(super) struct Commit(pub(super) Vec<RunWrite>);

impl Operation for Commit {
    type Output = Vec<RunWriteResult>;

    async fn perform(
        &mut self,
        transaction: &Transaction<'_>,
    ) -> Result<Vec<RunWriteResult>, PostgresError> {
        let (mut batch, now) = self.read(transaction).await?;
        let mut commit = |write| run_state::commit(&mut batch, write, now);
        let results = self.0.iter().map(&mut commit).collect::<Result<_, _>>()?;
        write::write(transaction, batch.changes()).await?;
        Ok(results)
    }
}

impl Commit {
    /// Locks the jobs of all writes in key order, then reads their rows. Each statement sees the
    /// commits before it began, so the reads must follow the locks.
    async fn read(&self, transaction: &Transaction<'_>) -> Result<(Batch, Instant), PostgresError> {
        let lock = concat!(
            "SELECT job, generation, coalesce(schedule_generation, generation) AS schedule_generation,
                enabled, collection_enabled, ",
            state_columns!(""),
            " FROM states
             WHERE job IN (SELECT unnest($1::bigint[])
                           UNION SELECT job FROM runs WHERE id = ANY ($2::bigint[]))
             ORDER BY job FOR UPDATE"
        );
        // Three searches that each use an index; one search with `OR` would scan all open runs.
        let read = concat!(
            "SELECT r.last_token, ",
            run_columns!("r."),
            " FROM runs r WHERE r.id IN (
                SELECT unnest($1::bigint[])
                UNION SELECT id FROM runs WHERE job = ANY ($2::bigint[])
                UNION SELECT o.id FROM runs f JOIN states s ON s.job = f.job
                    JOIN runs o ON o.job = f.job
                    WHERE f.id = ANY ($1::bigint[]) AND s.due IS NULL)"
        );
        let draw = "SELECT nextval('run_ids') AS id FROM generate_series(1, $1::bigint)";
        let (jobs, runs) = self.named();
        let ending = self.ending();
        let begun = self.0.iter().filter(|write| matches!(write, RunWrite::Begin { .. })).count();
        let begun = rows_max(begun);
        // Prepared first, so that the queries are pipelined in this order.
        let (lock, read, draw, clock) = tokio::try_join!(
            transaction.prepare_cached(lock),
            transaction.prepare_cached(read),
            transaction.prepare_cached(draw),
            transaction.prepare_cached(CLOCK),
        )?;
        let (lock_on, read_on): ([&(dyn ToSql + Sync); 2], [&(dyn ToSql + Sync); 2]) =
            ([&jobs, &runs], [&runs, &ending]);
        let draw_on: [&(dyn ToSql + Sync); 1] = [&begun];
        let (states, runs, ids, now) = tokio::try_join!(
            biased;
            transaction.query(&lock, &lock_on),
            transaction.query(&read, &read_on),
            transaction.query(&draw, &draw_on),
            transaction.query(&clock, &[]),
        )?;
        let now = clock_of(&now)?;
        let job_row = |row: &Row| {
            let job = JobRow {
                generation: unsigned(row, "generation")?,
                schedule_generation: unsigned(row, "schedule_generation")?,
                is_enabled: get(row, "enabled")? && get(row, "collection_enabled")?,
                state: state(row)?,
            };
            Ok((JobKey(get(row, "job")?), job))
        };
        let run_row = |row: &Row| {
            let row = RunRow { run: run(row)?, last_token: unsigned(row, "last_token")? };
            Ok((row.run.id, row))
        };
        let fresh_ids = ids.iter().map(|row| get(row, "id").map(RunId));
        let batch = Batch::new(
            states.iter().map(job_row).collect::<Result<_, StoreError>>()?,
            runs.iter().map(run_row).collect::<Result<_, StoreError>>()?,
            fresh_ids.collect::<Result<_, StoreError>>()?,
        );
        Ok((batch, now))
    }

    /// Jobs that have no next occurrence after the writes, or that the writes end: whether they
    /// have finished depends on their other open runs.
    fn ending(&self) -> Vec<i64> {
        let ending = self.0.iter().filter_map(|write| match write {
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
        for write in &self.0 {
            match write {
                RunWrite::Begin { on, .. } | RunWrite::Skip { on, .. } => jobs.insert(on.job.0),
                RunWrite::Reschedule { job, .. } => jobs.insert(job.0),
                RunWrite::Claim { run, .. }
                | RunWrite::RenewLease { run, .. }
                | RunWrite::Continue { run, .. }
                | RunWrite::Finish { run, .. } => runs.insert(run.0),
            };
        }
        (jobs.into_iter().collect(), runs.into_iter().collect())
    }
}
