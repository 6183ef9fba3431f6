//! Pages of all jobs for the numbers over all collections.

use kalends_domain::{JobName, Switch};
use kalends_recurrence::{Definition, Instant};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::error::StoreError;
use crate::overview_store::{
    ScannedSchedule, ScannedState, ScannedText, SchedulesPage, StatesPage, TextsFrom, TextsPage,
};
use crate::record::{CollectionKey, JobKey, JobUid};
use crate::sqlite::code::{Coded, collect, nth, rows_max};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::groups::invalid_name;
use crate::sqlite::overview::{SUMMARY_COLUMNS, read_summary, summary_columns};
use crate::sqlite::state::ReadState;
use crate::stored_form::{DefinitionCodec, read_definition, read_schedule};

/// The states of jobs after a key, in key order.
pub(crate) fn scan_states(
    states: &impl ReadState,
    after: JobKey,
    limit: usize,
) -> SqliteResult<StatesPage> {
    let mut statement = states.connection().prepare_cached(concat!(
        "SELECT ",
        summary_columns!(),
        " FROM state s WHERE s.job > ? ORDER BY s.job LIMIT ?"
    ))?;
    let mut creation =
        states.connection().prepare_cached("SELECT created FROM jobs WHERE job = ?")?;
    let limit = limit.max(1);
    let mut found = statement.query((Coded(after), rows_max(limit as u64)))?;
    let mut page = StatesPage::default();
    let (mut examined, mut last) = (0, None);
    while let Some(row) = found.next()? {
        (examined, last) = (examined + 1, Some(nth(row, 0)?));
        let job = match read_summary(states, row) {
            // Reported when it is due.
            Err(error) if error.is_unreadable() => continue,
            summary => summary?,
        };
        let Some(job) = job else { continue };
        let mut created = None;
        if job.switch == Switch::Disabled {
            created = creation.query_row([Coded(job.job)], |row| nth(row, 0)).optional()?;
        }
        page.states.push(ScannedState { job, created });
    }
    page.next = last.filter(|_| examined >= limit);
    Ok(page)
}

/// The greatest key of a job.
pub(crate) fn newest_job(connection: &Connection) -> SqliteResult<JobKey> {
    let mut statement = connection.prepare_cached("SELECT coalesce(max(job), 0) FROM jobs")?;
    Ok(statement.query_row((), |row| nth(row, 0))?)
}

/// The texts of jobs.
pub(crate) fn scan_texts(
    connection: &Connection,
    from: &TextsFrom,
    limit: usize,
) -> SqliteResult<TextsPage> {
    const COLUMNS: &str = "SELECT job, collection, name, search FROM jobs";
    let limit = limit.max(1);
    let rows = rows_max(limit as u64);
    let mut statement = connection.prepare_cached(&match from {
        TextsFrom::Name(_) => format!(
            "{COLUMNS} WHERE (collection, name_key) > (?, ?)
             ORDER BY collection, name_key LIMIT ?"
        ),
        TextsFrom::Key(_) => format!("{COLUMNS} WHERE job > ? ORDER BY job LIMIT ?"),
    })?;
    let found = match from {
        TextsFrom::Name(None) => statement.query((i64::MIN, "", rows)),
        TextsFrom::Name(Some((collection, name))) => {
            statement.query((collection.0, name.key(), rows))
        }
        TextsFrom::Key(job) => statement.query((Coded(*job), rows)),
    }?;
    let texts = collect(found, |row| {
        let name = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
        let name = JobName::new(name).map_err(invalid_name)?;
        let collection = CollectionKey(row.get(1)?);
        Ok(ScannedText { job: nth(row, 0)?, collection, name, text: row.get(3)? })
    })?;
    Ok(TextsPage { is_full: texts.len() >= limit, texts })
}

/// The schedules of active jobs after a key, in key order.
pub(crate) fn scan_schedules(
    states: &impl ReadState,
    codec: &DefinitionCodec,
    (after, due_before): (JobKey, Instant),
    limit: usize,
) -> SqliteResult<SchedulesPage> {
    let mut statement = states.connection().prepare_cached(concat!(
        "SELECT ",
        summary_columns!(),
        ", j.created, j.uid, j.authenticated, j.definition
         FROM state s CROSS JOIN jobs j ON j.job = s.job
         WHERE s.job > ? ORDER BY s.job LIMIT ?"
    ))?;
    let limit = limit.max(1);
    let mut found = statement.query((Coded(after), rows_max(limit as u64)))?;
    let mut page = SchedulesPage::default();
    let (mut examined, mut last) = (0, None);
    while let Some(row) = found.next()? {
        (examined, last) = (examined + 1, Some(nth(row, 0)?));
        let job = match read_summary(states, row) {
            Err(error) if error.is_unreadable() => continue,
            summary => summary?,
        };
        let is_authenticated = row.get(SUMMARY_COLUMNS + 2)?;
        if let Some(job) = job.filter(|job| job.is_scanned(is_authenticated, due_before)) {
            let unreadable = ScannedSchedule { job, definition: None, certificate_end: None };
            page.schedules.push(match decode(row, codec, is_authenticated) {
                Ok((definition, certificate_end)) => {
                    ScannedSchedule { definition: Some(definition), certificate_end, ..unreadable }
                }
                Err(_) => unreadable,
            });
        }
    }
    page.next = last.filter(|_| examined >= limit);
    Ok(page)
}

/// The schedule in a row, and the end of its first client certificate.
fn decode(
    row: &Row<'_>,
    codec: &DefinitionCodec,
    is_authenticated: bool,
) -> Result<(Definition, Option<Instant>), StoreError> {
    let damaged = |error: rusqlite::Error| StoreError::Damaged(error.to_string());
    let created = nth(row, SUMMARY_COLUMNS).map_err(damaged)?;
    let text = row.get_ref(SUMMARY_COLUMNS + 3).map_err(damaged)?;
    let text = text.as_str().map_err(|error| StoreError::Damaged(error.to_string()))?;
    if !is_authenticated {
        return Ok((read_schedule(text, created)?, None));
    }
    let uid = JobUid(row.get(SUMMARY_COLUMNS + 1).map_err(damaged)?);
    let definition = read_definition(text, uid, codec)?;
    let end = definition.certificate_end();
    let (start, recurrence) = (definition.start, definition.recurrence.map(|boxed| *boxed));
    Ok((Definition { start, created, recurrence }, end))
}
