//! Deletes jobs and collections with their dependent rows. The caller has locked the collections.

use deadpool_postgres::Transaction;

use crate::postgres::error::PostgresError;
use crate::postgres::row::get;
use crate::postgres::transaction::{execute, query};

/// Locks the states of jobs in ascending order, as all transactions do.
pub(super) async fn lock_states(
    transaction: &Transaction<'_>,
    jobs: &[i64],
) -> Result<Vec<i64>, PostgresError> {
    let lock = "SELECT job FROM states WHERE job = ANY($1) ORDER BY job FOR UPDATE";
    let locked = query(transaction, lock, &[&jobs]).await?;
    Ok(locked.iter().map(|row| get(row, "job")).collect::<Result<Vec<i64>, _>>()?)
}

/// Locks the states of all jobs of collections and returns the jobs.
pub(super) async fn lock_states_of(
    transaction: &Transaction<'_>,
    collections: &[i64],
) -> Result<Vec<i64>, PostgresError> {
    let lock = "SELECT s.job FROM states s JOIN jobs j ON j.key = s.job
         WHERE j.collection_id = ANY($1) ORDER BY s.job FOR UPDATE OF s";
    let locked = query(transaction, lock, &[&collections]).await?;
    Ok(locked.iter().map(|row| get(row, "job")).collect::<Result<Vec<i64>, _>>()?)
}

/// Deletes jobs whose states are locked, with their runs, history and ledger.
pub(super) async fn delete_jobs(
    transaction: &Transaction<'_>,
    jobs: &[i64],
) -> Result<(), PostgresError> {
    for delete in [
        "DELETE FROM runs WHERE job = ANY($1)",
        "DELETE FROM history WHERE job = ANY($1)",
        "DELETE FROM ledger WHERE job = ANY($1)",
        "DELETE FROM states WHERE job = ANY($1)",
        "DELETE FROM jobs WHERE key = ANY($1)",
    ] {
        execute(transaction, delete, &[&jobs]).await?;
    }
    Ok(())
}

/// Deletes collections with their jobs.
pub(super) async fn delete_collections(
    transaction: &Transaction<'_>,
    collections: &[i64],
) -> Result<(), PostgresError> {
    let jobs = lock_states_of(transaction, collections).await?;
    delete_jobs(transaction, &jobs).await?;
    let delete = "DELETE FROM collections WHERE id = ANY($1)";
    execute(transaction, delete, &[&collections]).await?;
    Ok(())
}
