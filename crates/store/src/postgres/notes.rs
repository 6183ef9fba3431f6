//! Notes that callers give with actions.

use kalends_domain::{
    CollectionPath, JobPath, NewNote, NoteAction, NoteAuthor, NoteRecord, NoteSubject,
};
use kalends_recurrence::Instant;
use tokio_postgres::Row;

use crate::api_store::Page;
use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::arrays::{Column, column, parameters, write_rows};
use crate::postgres::code::{Code as _, rows_max, without_nul};
use crate::postgres::error::PostgresError;
use crate::postgres::row::{
    at, coded, collection_path, get, job_path, matched, path_keys, unsigned,
};
use crate::postgres::transaction::{Operation, Transaction, execute};
use crate::record::JobKey;

/// The resource of a note, as stored.
#[derive(Clone, Copy)]
pub(super) struct SubjectKey {
    /// 0 for all jobs.
    collection: i64,
    /// 0 for the collection itself or all jobs.
    job: i64,
}

impl SubjectKey {
    pub(super) const ALL_JOBS: SubjectKey = SubjectKey { collection: 0, job: 0 };

    pub(super) fn collection(collection: i64) -> SubjectKey {
        SubjectKey { collection, job: 0 }
    }

    pub(super) fn job(collection: i64, JobKey(job): JobKey) -> SubjectKey {
        SubjectKey { collection, job }
    }
}

/// Adds a note, and removes the oldest of its resource beyond the number that is kept. The resource is
/// locked.
pub(super) async fn add_note(
    transaction: &Transaction<'_>,
    subject: SubjectKey,
    action: NoteAction,
    note: &NewNote,
    now: Instant,
) -> Result<(), PostgresError> {
    add_notes(transaction, &[(subject, action, note.clone())], now).await
}

/// Adds notes about different resources in this order; see [`add_note`].
pub(super) async fn add_notes(
    transaction: &Transaction<'_>,
    notes: &[(SubjectKey, NoteAction, NewNote)],
    now: Instant,
) -> Result<(), PostgresError> {
    if notes.is_empty() {
        return Ok(());
    }
    let insert = "INSERT INTO notes (time, action, collection_id, job, author, author_name, text)
         SELECT $1, action, collection_id, job, author, author_name, text
         FROM unnest($2::smallint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[])
           WITH ORDINALITY AS n (action, collection_id, job, author, author_name, text, place)
         ORDER BY place";
    let columns: Vec<Column<'_>> = vec![
        Box::new(now.ticks()),
        column(notes, |(_, action, _)| action.code()),
        column(notes, |(subject, ..)| subject.collection),
        column(notes, |(subject, ..)| subject.job),
        column(notes, |(.., note)| without_nul(&note.author.id)),
        column(notes, |(.., note)| note.author.name.as_deref().map(without_nul)),
        column(notes, |(.., note)| note.text.as_str()),
    ];
    write_rows(transaction, (notes.len(), "notes"), insert, columns).await?;
    let limit =
        "DELETE FROM notes n USING unnest($2::bigint[], $3::bigint[]) AS s (collection_id, job)
         WHERE n.job = s.job AND n.collection_id = s.collection_id AND n.number <= (
             SELECT k.number FROM notes k WHERE k.job = s.job AND k.collection_id = s.collection_id
             ORDER BY k.number DESC LIMIT 1 OFFSET $1)";
    let columns: [Column<'_>; 3] = [
        Box::new(rows_max(NoteRecord::PER_SUBJECT_MAX)),
        column(notes, |(subject, ..)| subject.collection),
        column(notes, |(subject, ..)| subject.job),
    ];
    execute(transaction, limit, &parameters(&columns)).await?;
    Ok(())
}

impl PostgresStore {
    /// A page of the notes of a job, newest first; `None` if it does not exist.
    pub(super) async fn read_notes_of_job(
        &self,
        path: JobPath,
        page: Page<u64>,
    ) -> Result<Option<Vec<NoteRecord>>, StoreError> {
        let sql = "SELECT j.key, g.subscription, g.name AS group_name, c.name AS collection_name,
                 j.name AS job_name, n.number, n.time, n.action, n.author, n.author_name, n.text
             FROM collections c JOIN groups g ON g.id = c.group_id
             LEFT JOIN jobs j ON j.collection_id = c.id AND j.job_key = $4
             LEFT JOIN LATERAL (
               SELECT * FROM notes n WHERE n.job = j.key AND n.number < $5
               ORDER BY n.number DESC OFFSET $6 LIMIT $7
             ) n ON true
             WHERE g.subscription_key = $1 AND g.group_key = $2 AND c.collection_key = $3
             ORDER BY n.number DESC";
        let [subscription, group, collection] = path_keys(&path.collection);
        let (job, [after, skip, limit]) = (path.job.key(), bounds(&page));
        let rows = self
            .query(sql, &[&subscription, &group, &collection, &job, &after, &skip, &limit])
            .await?;
        if rows.is_empty() {
            return Err(StoreError::NoCollection);
        }
        if matched(&rows, "key")?.is_empty() {
            return Ok(None);
        }
        matched(&rows, "number")?.into_iter().map(note).collect::<Result<_, _>>().map(Some)
    }

    /// A page of the notes of a collection itself, newest first; `None` if it does not exist.
    pub(super) async fn read_notes_of_collection(
        &self,
        path: CollectionPath,
        page: Page<u64>,
    ) -> Result<Option<Vec<NoteRecord>>, StoreError> {
        let sql = "SELECT g.subscription, g.name AS group_name, c.name AS collection_name,
                 NULL AS job_name, n.number, n.time, n.action, n.author, n.author_name, n.text
             FROM collections c JOIN groups g ON g.id = c.group_id
             LEFT JOIN LATERAL (
               SELECT * FROM notes n
               WHERE n.job = 0 AND n.collection_id = c.id AND n.number < $4
               ORDER BY n.number DESC OFFSET $5 LIMIT $6
             ) n ON true
             WHERE g.subscription_key = $1 AND g.group_key = $2 AND c.collection_key = $3
             ORDER BY n.number DESC";
        let ([subscription, group, collection], [after, skip, limit]) =
            (path_keys(&path), bounds(&page));
        let rows =
            self.query(sql, &[&subscription, &group, &collection, &after, &skip, &limit]).await?;
        if rows.is_empty() {
            return Ok(None);
        }
        matched(&rows, "number")?.into_iter().map(note).collect::<Result<_, _>>().map(Some)
    }

    /// A page of all notes, newest first.
    pub(super) async fn read_notes(&self, page: Page<u64>) -> Result<Vec<NoteRecord>, StoreError> {
        let sql = "SELECT g.subscription, g.name AS group_name, c.name AS collection_name,
                 j.name AS job_name, n.number, n.time, n.action, n.author, n.author_name, n.text
             FROM notes n LEFT JOIN jobs j ON j.key = n.job
             LEFT JOIN collections c ON c.id = n.collection_id
             LEFT JOIN groups g ON g.id = c.group_id
             WHERE n.number < $1 AND (n.job = 0 OR j.key IS NOT NULL)
               AND (n.collection_id = 0 OR c.id IS NOT NULL)
             ORDER BY n.number DESC OFFSET $2 LIMIT $3";
        let [after, skip, limit] = bounds(&page);
        let rows = self.query(sql, &[&after, &skip, &limit]).await?;
        rows.iter().map(note).collect()
    }
}

/// The number that a page starts below, the notes to skip, and its limit.
fn bounds(page: &Page<u64>) -> [i64; 3] {
    [page.after.map_or(i64::MAX, rows_max), rows_max(page.skip), rows_max(page.limit)]
}

fn note(row: &Row) -> Result<NoteRecord, StoreError> {
    let collection: Option<&str> = get(row, "collection_name")?;
    let job: Option<&str> = get(row, "job_name")?;
    let subject = match (collection, job) {
        (None, _) => NoteSubject::AllJobs,
        (Some(_), None) => NoteSubject::Collection(collection_path(row)?),
        (Some(_), Some(_)) => NoteSubject::Job(job_path(row)?),
    };
    Ok(NoteRecord {
        number: unsigned(row, "number")?,
        time: at(row, "time")?,
        action: coded(row, "action")?,
        subject,
        author: NoteAuthor { id: get(row, "author")?, name: get(row, "author_name")? },
        text: get(row, "text")?,
    })
}

/// Deletes notes that were given before `oldest`, in ticks.
pub(super) struct PruneNotes {
    pub(super) oldest: i64,
    pub(super) batch_max: usize,
}

impl Operation for PruneNotes {
    type Output = usize;

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<usize, PostgresError> {
        let delete = "DELETE FROM notes WHERE number IN (
             SELECT number FROM notes WHERE time < $1 ORDER BY time LIMIT $2
             FOR UPDATE SKIP LOCKED)";
        let deleted =
            execute(transaction, delete, &[&self.oldest, &rows_max(self.batch_max)]).await?;
        Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
    }
}
