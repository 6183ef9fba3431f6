//! Definitions of jobs that edits replaced.

use kalends_recurrence::Instant;
use rusqlite::{Connection, OptionalExtension as _};

use crate::record::{EarlierDefinition, JobKey, JobRecord, JobUid};
use crate::sqlite::code::{Coded, read, rows_max};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::prune::Removed;
use crate::stored_form::{DefinitionCodec, read_definition};

/// Retains the present definition of a job that is about to be replaced, and removes the oldest beyond
/// the number that is retained.
pub(crate) fn retain(connection: &Connection, job: &JobRecord, now: Instant) -> SqliteResult<()> {
    let generation = job.job.generation;
    connection
        .prepare_cached(
            "INSERT INTO earlier_definitions (job, generation, replaced, definition)
             SELECT job, ?, ?, definition FROM jobs WHERE job = ?",
        )?
        .execute((rows_max(generation), Coded(now), Coded(job.key)))?;
    let excess = generation.saturating_sub(EarlierDefinition::PER_JOB_MAX);
    connection
        .prepare_cached("DELETE FROM earlier_definitions WHERE job = ? AND generation <= ?")?
        .execute((Coded(job.key), rows_max(excess)))?;
    Ok(())
}

/// The definition of a job in an earlier generation.
pub(crate) fn find(
    connection: &Connection,
    codec: &DefinitionCodec,
    job: JobKey,
    generation: u64,
) -> SqliteResult<Option<EarlierDefinition>> {
    let found = connection
        .prepare_cached(
            "SELECT e.replaced, e.definition, j.uid
             FROM earlier_definitions e JOIN jobs j ON j.job = e.job
             WHERE e.job = ? AND e.generation = ?",
        )?
        .query_row((Coded(job), rows_max(generation)), |row| {
            let uid = JobUid(row.get("uid")?);
            Ok((read(row, "replaced")?, row.get::<_, String>("definition")?, uid))
        })
        .optional()?;
    let Some((replaced, text, uid)) = found else { return Ok(None) };
    let definition = read_definition(&text, uid, codec)?;
    Ok(Some(EarlierDefinition { generation, replaced, definition }))
}

/// Deletes the earlier definitions of a job.
pub(crate) fn delete_of_job(connection: &Connection, job: JobKey) -> SqliteResult<()> {
    let sql = "DELETE FROM earlier_definitions WHERE job = ?";
    connection.prepare_cached(sql)?.execute([Coded(job)])?;
    Ok(())
}

/// Removes at most `limit` definitions that were replaced before `cutoff`.
pub(crate) fn remove_expired(
    connection: &Connection,
    cutoff: Instant,
    limit: usize,
) -> SqliteResult<Removed> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM earlier_definitions WHERE number IN (
             SELECT number FROM earlier_definitions WHERE replaced < ? ORDER BY replaced LIMIT ?)",
    )?;
    let found = statement.execute((Coded(cutoff), rows_max(limit as u64)))?;
    // They are not entries of a job: the caller of `prune` does not count them.
    Ok(Removed { found, visible: 0 })
}
