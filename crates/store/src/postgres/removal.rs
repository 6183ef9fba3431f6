//! What goes with a job and with a collection. The caller holds the locks of the collections.

use deadpool_postgres::Transaction;

use crate::postgres::call::{change, rows};
use crate::postgres::fault::Fault;
use crate::postgres::row::get;

/// Locks the states of jobs, in the order in which everybody does.
pub(super) async fn lock_states(
    transaction: &Transaction<'_>,
    jobs: &[i64],
) -> Result<Vec<i64>, Fault> {
    let lock = "SELECT job FROM states WHERE job = ANY($1) ORDER BY job FOR UPDATE";
    let locked = rows(transaction, lock, &[&jobs]).await?;
    Ok(locked.iter().map(|row| get(row, "job")).collect::<Result<Vec<i64>, _>>()?)
}

/// Locks the states of all jobs of collections.
pub(super) async fn lock_states_of(
    transaction: &Transaction<'_>,
    collections: &[i64],
) -> Result<Vec<i64>, Fault> {
    let lock = "SELECT s.job FROM states s JOIN jobs j ON j.key = s.job
         WHERE j.collection_id = ANY($1) ORDER BY s.job FOR UPDATE OF s";
    let locked = rows(transaction, lock, &[&collections]).await?;
    Ok(locked.iter().map(|row| get(row, "job")).collect::<Result<Vec<i64>, _>>()?)
}

/// Deletes jobs whose states are locked, with their runs, history and ledger.
pub(super) async fn delete_jobs(transaction: &Transaction<'_>, jobs: &[i64]) -> Result<(), Fault> {
    for delete in [
        "DELETE FROM runs WHERE job = ANY($1)",
        "DELETE FROM history WHERE job = ANY($1)",
        "DELETE FROM ledger WHERE job = ANY($1)",
        "DELETE FROM states WHERE job = ANY($1)",
        "DELETE FROM jobs WHERE key = ANY($1)",
    ] {
        change(transaction, delete, &[&jobs]).await?;
    }
    Ok(())
}

/// Deletes collections with all their jobs.
pub(super) async fn delete_collections(
    transaction: &Transaction<'_>,
    collections: &[i64],
) -> Result<(), Fault> {
    let jobs = lock_states_of(transaction, collections).await?;
    delete_jobs(transaction, &jobs).await?;
    let delete = "DELETE FROM collections WHERE id = ANY($1)";
    change(transaction, delete, &[&collections]).await?;
    Ok(())
}
