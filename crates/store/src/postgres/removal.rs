//! Deletion. A deleted job or collection is invisible at once; its rows are removed later in short
//! transactions, because a collection may have a million jobs and a job a long history.
//!
//! Every statement that reads jobs or runs joins their collection, so the jobs of a deleted
//! collection are unreachable. Only a lease may still be renewed, until the attempt has finished.

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::code::rows_max;
use crate::postgres::error::PostgresError;
use crate::postgres::row::get;
use crate::postgres::transaction::{Operation, Transaction, execute, query};

/// Rows of history or ledger per transaction.
const ROWS_MAX: usize = 500;
/// Jobs per transaction: their states stay locked for a few milliseconds.
const JOBS_MAX: usize = 100;

/// Locks the states of jobs in ascending order, as all transactions do.
pub(super) async fn lock_states(
    transaction: &Transaction<'_>,
    jobs: &[i64],
) -> Result<Vec<i64>, PostgresError> {
    let lock = "SELECT job FROM states WHERE job = ANY($1) ORDER BY job FOR UPDATE";
    let locked = query(transaction, lock, &[&jobs]).await?;
    Ok(locked.iter().map(|row| get(row, "job")).collect::<Result<Vec<i64>, _>>()?)
}

/// Waits for commits that begin runs of these collections. Later ones wait for this transaction.
pub(super) async fn exclude_commits(
    transaction: &Transaction<'_>,
    collections: &[i64],
) -> Result<(), PostgresError> {
    let lock = "SELECT id FROM collections WHERE id = ANY($1) ORDER BY id FOR UPDATE";
    query(transaction, lock, &[&collections]).await?;
    Ok(())
}

/// Deletes jobs whose states are locked, with their runs, notes and earlier definitions. Their history and
/// ledger rows become unreachable and are removed later.
pub(super) async fn delete_jobs(
    transaction: &Transaction<'_>,
    jobs: &[i64],
) -> Result<(), PostgresError> {
    if jobs.is_empty() {
        return Ok(());
    }
    for delete in [
        "DELETE FROM runs WHERE job = ANY($1)",
        "DELETE FROM notes WHERE job = ANY($1)",
        "DELETE FROM earlier_definitions WHERE job = ANY($1)",
        "DELETE FROM states WHERE job = ANY($1)",
        "DELETE FROM jobs WHERE key = ANY($1)",
        "INSERT INTO leftovers (job) SELECT unnest($1::bigint[])",
    ] {
        execute(transaction, delete, &[&jobs]).await?;
    }
    Ok(())
}

/// Deletes collections with their own notes. Their jobs become unreachable and are removed later.
pub(super) async fn delete_collections(
    transaction: &Transaction<'_>,
    collections: &[i64],
) -> Result<(), PostgresError> {
    exclude_commits(transaction, collections).await?;
    for delete in [
        "DELETE FROM due_floors WHERE collection_id = ANY($1)",
        "DELETE FROM notes WHERE job = 0 AND collection_id = ANY($1)",
        "DELETE FROM collections WHERE id = ANY($1)",
        "INSERT INTO doomed (collection_id) SELECT unnest($1::bigint[])",
    ] {
        execute(transaction, delete, &[&collections]).await?;
    }
    Ok(())
}

impl PostgresStore {
    /// Removes about `limit` unreachable rows. Returns whether none are left.
    pub(super) async fn remove_deleted(&self, limit: usize) -> Result<bool, StoreError> {
        let mut left = limit;
        while left > 0 {
            let removed = self.transact(RemoveJobs).await? + self.transact(RemoveLeftovers).await?;
            if removed == 0 {
                return Ok(true);
            }
            left = left.saturating_sub(removed);
        }
        Ok(false)
    }
}

/// Removes jobs of a deleted collection, and finally its row in `doomed`. Returns 0 if there is none.
struct RemoveJobs;

impl Operation for RemoveJobs {
    type Output = usize;

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<usize, PostgresError> {
        // One node removes the jobs of a collection at a time.
        let doomed = "SELECT collection_id FROM doomed ORDER BY collection_id LIMIT 1
             FOR UPDATE SKIP LOCKED";
        let doomed = query(transaction, doomed, &[]).await?;
        let Some(row) = doomed.first() else { return Ok(0) };
        let collection: i64 = get(row, "collection_id")?;
        let jobs = "SELECT key FROM jobs WHERE collection_id = $1 ORDER BY job_key LIMIT $2";
        let jobs = query(transaction, jobs, &[&collection, &rows_max(JOBS_MAX)]).await?;
        let jobs = jobs.iter().map(|row| get(row, "key")).collect::<Result<Vec<i64>, _>>()?;
        if jobs.is_empty() {
            let done = "DELETE FROM doomed WHERE collection_id = $1";
            execute(transaction, done, &[&collection]).await?;
            return Ok(1);
        }
        lock_states(transaction, &jobs).await?;
        delete_jobs(transaction, &jobs).await?;
        Ok(jobs.len())
    }
}

/// Removes history and ledger rows of deleted jobs, and finally the rows of these jobs in
/// `leftovers`. Returns 0 if there are none.
struct RemoveLeftovers;

impl Operation for RemoveLeftovers {
    type Output = usize;

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<usize, PostgresError> {
        let jobs = "SELECT job FROM leftovers ORDER BY job LIMIT $1 FOR UPDATE SKIP LOCKED";
        let jobs = query(transaction, jobs, &[&rows_max(JOBS_MAX)]).await?;
        let jobs = jobs.iter().map(|row| get(row, "job")).collect::<Result<Vec<i64>, _>>()?;
        if jobs.is_empty() {
            return Ok(0);
        }
        let mut removed = 0;
        for delete in [
            "DELETE FROM history WHERE (job, sequence) IN (
                SELECT job, sequence FROM history WHERE job = ANY($1) LIMIT $2)",
            "DELETE FROM ledger WHERE (job, first_at, last_at, number) IN (
                SELECT job, first_at, last_at, number FROM ledger WHERE job = ANY($1) LIMIT $2)",
        ] {
            let limit = rows_max(ROWS_MAX - removed);
            let deleted = execute(transaction, delete, &[&jobs, &limit]).await?;
            removed = removed.saturating_add(usize::try_from(deleted).unwrap_or(usize::MAX));
            if removed >= ROWS_MAX {
                return Ok(removed);
            }
        }
        execute(transaction, "DELETE FROM leftovers WHERE job = ANY($1)", &[&jobs]).await?;
        Ok(removed + jobs.len())
    }
}
