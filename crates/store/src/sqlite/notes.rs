//! Notes that callers give with actions.

use kalends_domain::{
    CollectionPath, JobName, JobPath, NewNote, NoteAction, NoteAuthor, NoteRecord, NoteSubject,
};
use kalends_recurrence::Instant;
use rusqlite::{Connection, Row};

use crate::api_store::Page;
use crate::record::JobKey;
use crate::sqlite::code::{Coded, collect, read, rows_max};
use crate::sqlite::collections::{self, CollectionLocation, read_collection_path};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::groups::invalid_name;
use crate::sqlite::jobs;
use crate::sqlite::path_keys::CollectionKeys;
use crate::sqlite::prune::Removed;

/// The resource of a note, as stored.
#[derive(Clone, Copy)]
pub(crate) struct SubjectKey {
    /// 0 for all jobs.
    collection: i64,
    /// 0 for the collection itself or all jobs.
    job: i64,
}

impl SubjectKey {
    pub(crate) const ALL_JOBS: SubjectKey = SubjectKey { collection: 0, job: 0 };

    pub(crate) fn collection(collection: i64) -> SubjectKey {
        SubjectKey { collection, job: 0 }
    }

    pub(crate) fn job(collection: i64, JobKey(job): JobKey) -> SubjectKey {
        SubjectKey { collection, job }
    }
}

/// Adds a note, and removes the oldest of its resource beyond the number that is kept.
pub(crate) fn add(
    connection: &Connection,
    SubjectKey { collection, job }: SubjectKey,
    action: NoteAction,
    note: &NewNote,
    now: Instant,
) -> SqliteResult<()> {
    let NewNote { author: NoteAuthor { id, name }, text } = note;
    connection
        .prepare_cached(
            "INSERT INTO notes (time, action, collection, job, author, author_name, text)
             VALUES (?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute((Coded(now), Coded(action), collection, job, id, name, text.as_str()))?;
    connection
        .prepare_cached(
            "DELETE FROM notes WHERE job = ?1 AND collection = ?2 AND number <= (
                 SELECT number FROM notes WHERE job = ?1 AND collection = ?2
                 ORDER BY number DESC LIMIT 1 OFFSET ?3)",
        )?
        .execute((job, collection, rows_max(NoteRecord::PER_SUBJECT_MAX as u64)))?;
    Ok(())
}

/// Deletes the notes of a job.
pub(crate) fn delete_of_job(connection: &Connection, job: JobKey) -> SqliteResult<()> {
    connection.prepare_cached("DELETE FROM notes WHERE job = ?")?.execute([Coded(job)])?;
    Ok(())
}

/// Deletes the notes of a collection itself. Those of its jobs are deleted with the jobs.
pub(crate) fn delete_of_collection(connection: &Connection, collection: i64) -> SqliteResult<()> {
    connection
        .prepare_cached("DELETE FROM notes WHERE job = 0 AND collection = ?")?
        .execute([collection])?;
    Ok(())
}

/// Removes at most `limit` notes that were given before `cutoff`.
pub(crate) fn remove_expired(
    connection: &Connection,
    cutoff: Instant,
    limit: usize,
) -> SqliteResult<Removed> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM notes WHERE number IN (
             SELECT number FROM notes WHERE time < ? ORDER BY time LIMIT ?)
         RETURNING collection = 0 OR collection IN (SELECT id FROM collections)",
    )?;
    let rows = statement.query((Coded(cutoff), rows_max(limit as u64)))?;
    let visible = collect(rows, |row| Ok(row.get::<_, bool>(0)?))?;
    let count = visible.iter().filter(|is_visible| **is_visible).count();
    Ok(Removed { found: visible.len(), visible: count })
}

/// A page of the notes of a job, newest first; `None` if it does not exist.
pub(crate) fn of_job(
    connection: &Connection,
    path: &JobPath,
    page: &Page<u64>,
) -> SqliteResult<Option<Vec<NoteRecord>>> {
    let Some(JobKey(job)) = jobs::key(connection, path)? else { return Ok(None) };
    let sql = "SELECT n.*, g.subscription, g.name AS group_name, c.name AS collection_name,
             j.name AS job_name
         FROM notes n JOIN jobs j ON j.job = n.job JOIN collections c ON c.id = n.collection
             JOIN groups g ON g.id = c.group_id
         WHERE n.job = ? AND n.number < ? ORDER BY n.number DESC LIMIT ? OFFSET ?";
    let mut statement = connection.prepare_cached(sql)?;
    let (after, limit, skip) = bounds(page);
    collect(statement.query((job, after, limit, skip))?, read_note).map(Some)
}

/// A page of the notes of a collection itself, newest first; `None` if it does not exist.
pub(crate) fn of_collection(
    connection: &Connection,
    path: &CollectionPath,
    page: &Page<u64>,
) -> SqliteResult<Option<Vec<NoteRecord>>> {
    let Some(CollectionLocation { id, .. }) =
        collections::locate(connection, &CollectionKeys::new(path))?
    else {
        return Ok(None);
    };
    let sql = "SELECT n.*, g.subscription, g.name AS group_name, c.name AS collection_name,
             NULL AS job_name
         FROM notes n JOIN collections c ON c.id = n.collection JOIN groups g ON g.id = c.group_id
         WHERE n.job = 0 AND n.collection = ? AND n.number < ?
         ORDER BY n.number DESC LIMIT ? OFFSET ?";
    let mut statement = connection.prepare_cached(sql)?;
    let (after, limit, skip) = bounds(page);
    collect(statement.query((id, after, limit, skip))?, read_note).map(Some)
}

/// A page of all notes, newest first.
pub(crate) fn all(connection: &Connection, page: &Page<u64>) -> SqliteResult<Vec<NoteRecord>> {
    let mut statement = connection.prepare_cached(
        "SELECT n.*, g.subscription, g.name AS group_name, c.name AS collection_name,
             j.name AS job_name
         FROM notes n LEFT JOIN jobs j ON j.job = n.job
             LEFT JOIN collections c ON c.id = n.collection
             LEFT JOIN groups g ON g.id = c.group_id
         WHERE n.number < ? AND (n.job = 0 OR j.job IS NOT NULL)
             AND (n.collection = 0 OR c.id IS NOT NULL)
         ORDER BY n.number DESC LIMIT ? OFFSET ?",
    )?;
    collect(statement.query(bounds(page))?, read_note)
}

/// The number that a page starts below, its limit, and the notes to skip.
fn bounds(page: &Page<u64>) -> (i64, i64, i64) {
    let after = page.after.map_or(i64::MAX, rows_max);
    (after, rows_max(page.limit as u64), rows_max(page.skip))
}

fn read_note(row: &Row<'_>) -> SqliteResult<NoteRecord> {
    let collection: Option<&str> =
        row.get_ref("collection_name")?.as_str_or_null().map_err(rusqlite::Error::from)?;
    let job: Option<&str> =
        row.get_ref("job_name")?.as_str_or_null().map_err(rusqlite::Error::from)?;
    let subject = match (collection, job) {
        (None, _) => NoteSubject::AllJobs,
        (Some(_), None) => NoteSubject::Collection(read_collection_path(row)?),
        (Some(_), Some(job)) => {
            let job = JobName::new(job).map_err(invalid_name)?;
            NoteSubject::Job(JobPath { collection: read_collection_path(row)?, job })
        }
    };
    Ok(NoteRecord {
        number: read(row, "number")?,
        time: read(row, "time")?,
        action: read(row, "action")?,
        subject,
        author: NoteAuthor { id: row.get("author")?, name: row.get("author_name")? },
        text: row.get("text")?,
    })
}
