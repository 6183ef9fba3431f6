//! What retention no longer keeps, in batches that are small enough for the writer to go on beside
//! them.

use std::time::Duration;

use kalends_recurrence::Instant;
use rusqlite::Connection;

use crate::record::JobKey;
use crate::sqlite::code::{Coded, collect, read, rows};
use crate::sqlite::collections::ticks;
use crate::sqlite::edit::delete_job;
use crate::sqlite::trouble::Worked;
use crate::store::Retention;

/// Rows that one transaction removes: a few milliseconds.
pub(crate) const BATCH_MAX: usize = 500;

/// What is removed by its age.
#[derive(Clone, Copy)]
pub(crate) enum Aged {
    /// History entries that started before an instant.
    History,
    /// Ledger rows that were written before an instant.
    Ledger,
    /// Jobs that were finished before an instant.
    Jobs,
}

impl Aged {
    /// In the order in which they go.
    pub(crate) const ALL: [Aged; 3] = [Aged::History, Aged::Ledger, Aged::Jobs];

    /// What is older than this goes.
    pub(crate) fn oldest(self, retention: Retention, now: Instant) -> Instant {
        let age: Duration = match self {
            Aged::History | Aged::Ledger => retention.history_age,
            Aged::Jobs => retention.finished_jobs,
        };
        Instant::from_ticks(now.ticks().saturating_sub(ticks(age))).unwrap_or(Instant::MIN)
    }

    /// Removes at most `limit`, the oldest first, and says how many there were.
    pub(crate) fn remove(
        self,
        connection: &Connection,
        oldest: Instant,
        limit: usize,
    ) -> Worked<usize> {
        let limit = rows(limit as u64);
        match self {
            Aged::History => {
                let mut statement = connection.prepare_cached(
                    "SELECT sequence, job FROM history WHERE started < ? ORDER BY started LIMIT ?",
                )?;
                let found = statement.query((Coded(oldest), limit))?;
                let found = collect(found, |row| Ok((row.get("sequence")?, read(row, "job")?)))?;
                found.iter().try_for_each(|&(entry, job)| remove_entry(connection, entry, job))?;
                Ok(found.len())
            }
            Aged::Ledger => Ok(connection
                .prepare_cached(
                    "DELETE FROM ledger WHERE id IN
                         (SELECT id FROM ledger WHERE closed < ? ORDER BY closed LIMIT ?)",
                )?
                .execute((Coded(oldest), limit))?),
            Aged::Jobs => {
                let mut statement = connection.prepare_cached(
                    "SELECT job FROM state WHERE finished IS NOT NULL AND finished < ?
                     ORDER BY finished LIMIT ?",
                )?;
                let found = statement.query((Coded(oldest), limit))?;
                let found = collect(found, |row| Ok(read(row, "job")?))?;
                found.iter().try_for_each(|&job| delete_job(connection, job))?;
                Ok(found.len())
            }
        }
    }
}

fn remove_entry(connection: &Connection, sequence: i64, job: JobKey) -> Worked<()> {
    connection.prepare_cached("DELETE FROM history WHERE sequence = ?")?.execute([sequence])?;
    connection
        .prepare_cached("UPDATE state SET entries = entries - 1 WHERE job = ?")?
        .execute([Coded(job)])?;
    Ok(())
}

/// Jobs with more entries than are kept of each, after one; as many as can matter for `limit`
/// entries. It walks over the narrow table of all jobs, and is therefore asked of a reader.
pub(crate) fn overfull(
    connection: &Connection,
    after: JobKey,
    keep: u64,
    limit: usize,
) -> Worked<Vec<JobKey>> {
    let mut statement = connection.prepare_cached(
        "SELECT job FROM state WHERE job > ? AND entries > ? ORDER BY job LIMIT ?",
    )?;
    let found = statement.query((Coded(after), rows(keep), rows(limit as u64)))?;
    collect(found, |row| Ok(read(row, "job")?))
}

/// Removes a job's oldest entries beyond those that are kept, at most `limit`.
pub(crate) fn remove_surplus(
    connection: &Connection,
    job: JobKey,
    keep: u64,
    limit: usize,
) -> Worked<usize> {
    let removed = connection
        .prepare_cached(
            "DELETE FROM history WHERE sequence IN (
                 SELECT sequence FROM history WHERE job = ?1 ORDER BY sequence
                 LIMIT max(0, min(?2, (SELECT entries FROM state WHERE job = ?1) - ?3)))",
        )?
        .execute((Coded(job), rows(limit as u64), rows(keep)))?;
    connection
        .prepare_cached("UPDATE state SET entries = entries - ? WHERE job = ?")?
        .execute((rows(removed as u64), Coded(job)))?;
    Ok(removed)
}
