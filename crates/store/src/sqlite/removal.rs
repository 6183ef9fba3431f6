//! Deletion. A deleted job or collection is invisible at once; its rows are removed later in small
//! steps, because a collection may have a million jobs and a job a long history.

use rusqlite::OptionalExtension as _;

use crate::record::JobKey;
use crate::sqlite::chain::ChainKind;
use crate::sqlite::code::{Coded, collect, read};
use crate::sqlite::collections::recount;
use crate::sqlite::earlier_definitions;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::notes;
use crate::sqlite::state::ReadState as _;
use crate::sqlite::write_back::WriteTransaction;

/// Deletes a job with its runs, notes and earlier definitions. Its history and ledger rows become
/// unreachable and are removed later.
pub(crate) fn delete_job(transaction: &mut WriteTransaction, job: JobKey) -> SqliteResult<()> {
    let connection = transaction.connection();
    let deleted: Option<(i64, i64)> = connection
        .prepare_cached("DELETE FROM jobs WHERE job = ? RETURNING collection, authenticated")?
        .query_row([Coded(job)], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((collection, authenticated)) = deleted else { return Ok(()) };
    connection.prepare_cached("DELETE FROM tags WHERE job = ?")?.execute([Coded(job)])?;
    notes::delete_of_job(connection, job)?;
    earlier_definitions::delete_of_job(connection, job)?;
    recount(connection, collection, -1, -authenticated)?;
    // `None` if it cannot be read, which must not keep the job.
    let state = match transaction.state(job) {
        Err(error) if error.is_unreadable() => None,
        state => Some(state?),
    };
    let deleted: Option<(i64, i64, i64)> = connection
        .prepare_cached(
            "DELETE FROM state WHERE job = ? RETURNING entries, newest_entry, newest_closing",
        )?
        .query_row([Coded(job)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    // The row in the table may be older than the state.
    let chains = match &state {
        Some(row) => row.map(|row| (row.entries != 0, row.newest_entry, row.newest_ledger_row)),
        None => deleted.map(|(entries, entry, ledger_row)| (entries != 0, entry, ledger_row)),
    };
    if let Some((has_entries, newest_entry, newest_ledger_row)) = chains
        && (has_entries || newest_ledger_row > 0)
    {
        connection
            .prepare_cached(
                "INSERT INTO leftovers (job, newest_entry, newest_closing) VALUES (?, ?, ?)",
            )?
            .execute((Coded(job), newest_entry, newest_ledger_row))?;
        transaction.has_removals = true;
    }
    match &state {
        Some(Some(row)) => transaction.set_state(job, row, None)?,
        Some(None) => {}
        None => transaction.delete_unreadable_state(job)?,
    }
    for row in transaction.runs_of(job) {
        transaction.set_run(row.run.id, None);
    }
    Ok(())
}

/// Deletes a collection with its runs and its own notes. Its jobs become unreachable and are removed later.
pub(crate) fn delete_collection(transaction: &mut WriteTransaction, id: i64) -> SqliteResult<()> {
    let connection = transaction.connection();
    connection.prepare_cached("DELETE FROM collections WHERE id = ?")?.execute([id])?;
    connection.prepare_cached("INSERT INTO doomed (collection) VALUES (?)")?.execute([id])?;
    notes::delete_of_collection(connection, id)?;
    for row in transaction.runs_of_collection(id) {
        transaction.set_run(row.run.id, None);
    }
    transaction.invalidate_collections();
    transaction.has_removals = true;
    Ok(())
}

/// Removes about `limit` unreachable rows; returns their number, 0 if none are left.
pub(crate) fn remove_some(transaction: &mut WriteTransaction, limit: usize) -> SqliteResult<usize> {
    let mut left = limit;
    while left > 0 && transaction.has_removals {
        let removed = remove_leftovers(transaction, left)? + remove_jobs(transaction, left)?;
        transaction.has_removals = removed > 0;
        left = left.saturating_sub(removed);
    }
    Ok(limit - left)
}

/// Removes jobs of a deleted collection, and finally its row in `doomed`.
fn remove_jobs(transaction: &mut WriteTransaction, limit: usize) -> SqliteResult<usize> {
    let connection = transaction.connection();
    let doomed: Option<i64> = connection
        .prepare_cached("SELECT collection FROM doomed LIMIT 1")?
        .query_row((), |row| row.get(0))
        .optional()?;
    let Some(collection) = doomed else { return Ok(0) };
    let mut statement = connection
        .prepare_cached("SELECT job FROM jobs WHERE collection = ? ORDER BY name_key LIMIT ?")?;
    let jobs = collect(statement.query((collection, limit as i64))?, |row| Ok(read(row, "job")?))?;
    drop(statement);
    if jobs.is_empty() {
        connection
            .prepare_cached("DELETE FROM doomed WHERE collection = ?")?
            .execute([collection])?;
        return Ok(1);
    }
    jobs.iter().try_for_each(|job| delete_job(transaction, *job))?;
    Ok(jobs.len())
}

/// Removes history and ledger rows of a deleted job, and finally its row in `leftovers`.
fn remove_leftovers(transaction: &mut WriteTransaction, limit: usize) -> SqliteResult<usize> {
    let connection = transaction.connection();
    let found: Option<(i64, i64, i64)> = connection
        .prepare_cached("SELECT job, newest_entry, newest_closing FROM leftovers LIMIT 1")?
        .query_row((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((job, mut entry, mut closing)) = found else { return Ok(0) };
    let mut removed = 0;
    for (kind, at) in [(ChainKind::History, &mut entry), (ChainKind::Ledger, &mut closing)] {
        while removed < limit
            && let Some(link) = kind.link(connection, *at)?
        {
            kind.delete(connection, *at)?;
            *at = link.previous;
            removed += 1;
        }
    }
    if removed < limit {
        connection.prepare_cached("DELETE FROM leftovers WHERE job = ?")?.execute([job])?;
        removed += 1;
    } else {
        connection
            .prepare_cached(
                "UPDATE leftovers SET newest_entry = ?, newest_closing = ? WHERE job = ?",
            )?
            .execute((entry, closing, job))?;
    }
    Ok(removed)
}
