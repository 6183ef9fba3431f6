//! History and the ledger.

use kalends_domain::{HistoryEntry, JobPath};
use kalends_recurrence::Instant;
use rusqlite::{Connection, Row, named_params};

use crate::record::{HistoryRecord, JobKey, LedgerRecord};
use crate::sqlite::code::{Coded, collect, read, rows};
use crate::sqlite::jobs;
use crate::sqlite::trouble::Worked;
use crate::store::{HistoryFilter, Page};

/// Appends an entry.
pub(crate) fn append(connection: &Connection, job: JobKey, entry: &HistoryEntry) -> Worked<()> {
    let HistoryEntry { started, ended, expected, status, message, retry, repeat, role } = entry;
    connection
        .prepare_cached(
            "INSERT INTO history (job, started, ended, expected, status, retry, repeat, role,
                 message) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute((
            Coded(job),
            Coded(*started),
            Coded(*ended),
            Coded(*expected),
            Coded(*status),
            Coded(*retry),
            Coded(*repeat),
            Coded(*role),
            message,
        ))?;
    Ok(())
}

/// Says how an occurrence was closed.
pub(crate) fn close(connection: &Connection, job: JobKey, row: &LedgerRecord) -> Worked<()> {
    let LedgerRecord { generation, from, to, count, cause, disposition, closed } = *row;
    connection
        .prepare_cached(
            "INSERT INTO ledger (job, generation, from_at, to_at, count, cause, disposition,
                 closed) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute((
            Coded(job),
            Coded(generation),
            Coded(from),
            Coded(to),
            Coded(count),
            Coded(cause),
            Coded(disposition),
            Coded(closed),
        ))?;
    Ok(())
}

/// A page of a job's history, the newest first.
pub(crate) fn page(
    connection: &Connection,
    path: &JobPath,
    filter: HistoryFilter,
    page: &Page<u64>,
) -> Worked<Option<Vec<HistoryRecord>>> {
    let Some(job) = jobs::key(connection, path)? else { return Ok(None) };
    let mut statement = connection.prepare_cached(
        "SELECT sequence, started, ended, expected, status, retry, repeat, role, message
         FROM history
         WHERE job = :job AND sequence < :before AND (:status IS NULL OR status = :status)
         ORDER BY sequence DESC LIMIT :limit OFFSET :skip",
    )?;
    let found = statement.query(named_params! {
        ":job": Coded(job),
        ":before": rows(page.after.unwrap_or(u64::MAX)),
        ":status": filter.status.map(Coded),
        ":limit": rows(page.limit as u64),
        ":skip": rows(page.skip),
    })?;
    Ok(Some(collect(found, read_record)?))
}

pub(crate) fn read_record(row: &Row<'_>) -> Worked<HistoryRecord> {
    let entry = HistoryEntry {
        started: read(row, "started")?,
        ended: read(row, "ended")?,
        expected: read(row, "expected")?,
        status: read(row, "status")?,
        message: row.get("message")?,
        retry: read(row, "retry")?,
        repeat: read(row, "repeat")?,
        role: read(row, "role")?,
    };
    Ok(HistoryRecord { sequence: read(row, "sequence")?, entry })
}

/// How occurrences of a job were closed.
pub(crate) fn ledger(
    connection: &Connection,
    job: JobKey,
    from: Instant,
    to: Instant,
    limit: usize,
) -> Worked<Vec<LedgerRecord>> {
    let mut statement = connection.prepare_cached(
        "SELECT generation, from_at, to_at, count, cause, disposition, closed FROM ledger
         WHERE job = ? AND to_at >= ? AND from_at <= ? ORDER BY from_at, to_at, id LIMIT ?",
    )?;
    let found = statement.query((Coded(job), Coded(from), Coded(to), rows(limit as u64)))?;
    collect(found, |row| {
        Ok(LedgerRecord {
            generation: read(row, "generation")?,
            from: read(row, "from_at")?,
            to: read(row, "to_at")?,
            count: read(row, "count")?,
            cause: read(row, "cause")?,
            disposition: read(row, "disposition")?,
            closed: read(row, "closed")?,
        })
    })
}
