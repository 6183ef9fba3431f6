//! Pages of all jobs for the numbers over all collections.

use kalends_recurrence::{Definition, Instant};
use tokio_postgres::Row;

use crate::error::StoreError;
use crate::overview_store::{
    ScannedSchedule, ScannedState, ScannedText, SchedulesPage, StatesPage, TextsFrom, TextsPage,
};
use crate::postgres::PostgresStore;
use crate::postgres::code::rows_max;
use crate::postgres::overview::{job_name, summary, summary_columns};
use crate::postgres::row::{self, get};
use crate::record::{CollectionKey, JobKey, JobUid};
use crate::stored_form::{DefinitionCodec, read_definition, read_schedule};

impl PostgresStore {
    pub(super) async fn read_states(
        &self,
        after: Option<JobKey>,
        limit: usize,
    ) -> Result<StatesPage, StoreError> {
        // The time of creation is in another table, and needed for disabled jobs only.
        let sql = concat!(
            "SELECT ",
            summary_columns!(),
            ", CASE WHEN NOT s.enabled THEN
                 (SELECT j.created FROM jobs j WHERE j.key = s.job) END AS job_created
             FROM states s WHERE s.job > $1 ORDER BY s.job LIMIT $2"
        );
        let limit = limit.max(1);
        let after = after.map_or(i64::MIN, |after| after.0);
        let rows = self.query(sql, &[&after, &rows_max(limit)]).await?;
        let mut page = StatesPage { states: vec![], next: next(&rows, limit)? };
        for row in &rows {
            match summary(row) {
                // Reported when it is due.
                Err(StoreError::Damaged(_)) => {}
                job => {
                    let created = row::optional_at(row, "job_created")?;
                    page.states.push(ScannedState { job: job?, created });
                }
            }
        }
        Ok(page)
    }

    pub(super) async fn read_newest_job(&self) -> Result<JobKey, StoreError> {
        let rows = self.query("SELECT max(key) AS key FROM jobs", &[]).await?;
        let newest = rows.first().map(|row| get::<Option<i64>>(row, "key")).transpose()?;
        Ok(JobKey(newest.flatten().unwrap_or(0)))
    }

    pub(super) async fn read_texts(
        &self,
        from: TextsFrom,
        limit: usize,
    ) -> Result<TextsPage, StoreError> {
        let limit = limit.max(1);
        let rows = match from {
            TextsFrom::Name(after) => {
                let sql = "SELECT key, collection_id, name, search FROM jobs
                           WHERE (collection_id, job_key) > ($1, $2)
                           ORDER BY collection_id, job_key LIMIT $3";
                let after = after.map(|(collection, name)| (collection.0, name.key()));
                let (collection, name) = after.unwrap_or((i64::MIN, String::new()));
                self.query(sql, &[&collection, &name, &rows_max(limit)]).await?
            }
            TextsFrom::Key(job) => {
                let sql = "SELECT key, collection_id, name, search FROM jobs
                           WHERE key > $1 ORDER BY key LIMIT $2";
                self.query(sql, &[&job.0, &rows_max(limit)]).await?
            }
        };
        let text = |row: &Row| {
            Ok(ScannedText {
                job: JobKey(get(row, "key")?),
                collection: CollectionKey(get(row, "collection_id")?),
                name: job_name(row)?,
                text: get(row, "search")?,
            })
        };
        let texts = rows.iter().map(text).collect::<Result<_, StoreError>>()?;
        Ok(TextsPage { texts, is_full: rows.len() >= limit })
    }

    pub(super) async fn read_schedules(
        &self,
        after: Option<JobKey>,
        due_before: Instant,
        limit: usize,
    ) -> Result<SchedulesPage, StoreError> {
        // The definition only where it is needed.
        let sql = concat!(
            "SELECT ",
            summary_columns!(),
            ", j.created, j.uid, coalesce(j.authenticated, false) AS authenticated,
               CASE WHEN s.enabled AND s.lifecycle = 0 AND (s.due < $3 OR j.authenticated)
                 THEN j.definition END AS definition
             FROM (SELECT * FROM states WHERE job > $1 ORDER BY job LIMIT $2) s
             LEFT JOIN jobs j ON j.key = s.job
             ORDER BY s.job"
        );
        let limit = limit.max(1);
        let after = after.map_or(i64::MIN, |after| after.0);
        let due = due_before.ticks();
        let rows = self.query(sql, &[&after, &rows_max(limit), &due]).await?;
        let mut page = SchedulesPage { schedules: vec![], next: next(&rows, limit)? };
        for row in &rows {
            let job = match summary(row) {
                Err(StoreError::Damaged(_)) => continue,
                job => job?,
            };
            let is_authenticated = get(row, "authenticated")?;
            if !job.is_scanned(is_authenticated, due_before) {
                continue;
            }
            let Some(text) = get::<Option<&str>>(row, "definition")? else { continue };
            let unreadable = ScannedSchedule { job, definition: None, certificate_end: None };
            page.schedules.push(match decode(row, text, &self.codec, is_authenticated) {
                Ok((definition, certificate_end)) => {
                    ScannedSchedule { definition: Some(definition), certificate_end, ..unreadable }
                }
                Err(_) => unreadable,
            });
        }
        Ok(page)
    }
}

/// The last job of a full page.
fn next(rows: &[Row], limit: usize) -> Result<Option<JobKey>, StoreError> {
    let last = rows.last().filter(|_| rows.len() >= limit);
    last.map(|row| get(row, "job").map(JobKey)).transpose()
}

/// The schedule in a row, and the end of its first client certificate.
fn decode(
    row: &Row,
    text: &str,
    codec: &DefinitionCodec,
    is_authenticated: bool,
) -> Result<(Definition, Option<Instant>), StoreError> {
    let created = row::at(row, "created")?;
    if !is_authenticated {
        return Ok((read_schedule(text, created)?, None));
    }
    let uid: &[u8] = get(row, "uid")?;
    let uid = uid.try_into().map(JobUid);
    let uid = uid.map_err(|_| StoreError::Damaged("uid does not have 16 bytes".into()))?;
    let definition = read_definition(text, uid, codec)?;
    let end = definition.certificate_end();
    let (start, recurrence) = (definition.start, definition.recurrence.map(|boxed| *boxed));
    Ok((Definition { start, created, recurrence }, end))
}
