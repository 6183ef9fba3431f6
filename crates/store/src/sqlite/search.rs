//! Lists and filtered searches of the jobs of a collection.
//!
//! A filtered search examines a range of names: it starts after the previous page and contains at most
//! `scan_max` jobs. For a tag with a value, an index in name order limits the range to jobs with it.

use kalends_domain::{CollectionPath, JobName};
use rusqlite::{Connection, OptionalExtension as _, ToSql, named_params};

use crate::api_store::{JobFilter, JobsPage, Page};
use crate::error::StoreError;
use crate::record::CollectionStatus;
use crate::sqlite::code::{collect, rows_max};
use crate::sqlite::collections::{CollectionLocation, locate};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::groups::invalid_name;
use crate::sqlite::jobs::{read_job, select_job, state_of};
use crate::sqlite::path_keys::CollectionKeys;
use crate::sqlite::state::ReadState;
use crate::stored_form::DefinitionCodec;

/// Sorts after every name.
const AFTER_ALL_NAMES: &str = "~";

/// A page of the jobs of a collection.
pub(crate) fn jobs(
    states: &impl ReadState,
    codec: &DefinitionCodec,
    path: &CollectionPath,
    (filter, scan_max): (&JobFilter, usize),
    page: &Page<JobName>,
    is_paused: bool,
) -> SqliteResult<JobsPage> {
    let connection = states.connection();
    let CollectionLocation { id, path: collection, state } =
        locate(connection, &CollectionKeys::new(path))?.ok_or(StoreError::NoCollection)?;
    let collection_status = CollectionStatus { state, is_paused };
    let after = page.after.as_ref().map(JobName::key).unwrap_or_default();
    if *filter == JobFilter::default() {
        let mut statement = connection.prepare_cached(select_job!(
            "WHERE j.collection = ? AND j.name_key > ? ORDER BY j.name_key LIMIT ? OFFSET ?"
        ))?;
        let (limit, skip) = (rows_max(page.limit as u64), rows_max(page.skip));
        let rows = collect(statement.query((id, after, limit, skip))?, |row| {
            let job = state_of(states, row, &collection)
                .and_then(|state| read_job(row, codec, collection.clone(), state));
            Ok((JobName::new(&row.get::<_, String>(1)?).ok(), readable(job)?))
        })?;
        // Jobs that cannot be read leave room for others after them.
        let end = rows.last().and_then(|(name, _)| name.clone());
        let end = end.filter(|_| rows.len() >= page.limit);
        let jobs = rows.into_iter().filter_map(|(_, job)| job).collect();
        return Ok(JobsPage::new((jobs, collection_status), page, 0, end));
    }
    let text = filter.contains.as_ref().map(|text| text.to_lowercase());
    let (tag, value) = filter.tag.clone().unzip();
    let (tag, value) = (tag.map(|name| name.to_ascii_uppercase()), value.flatten());
    let scan_offset = rows_max(scan_max.max(1) as u64 - 1);
    let end = match (&tag, &value) {
        (Some(tag), Some(value)) => find_name(
            connection,
            "SELECT job_key FROM tags
             WHERE collection = ? AND name_key = ? AND value = ? AND job_key > ?
             ORDER BY job_key LIMIT 1 OFFSET ?",
            &[&id, tag, value, &after, &scan_offset],
        ),
        _ => find_name(
            connection,
            "SELECT name_key FROM jobs WHERE collection = ? AND name_key > ?
             ORDER BY name_key LIMIT 1 OFFSET ?",
            &[&id, &after, &scan_offset],
        ),
    }?;
    let mut statement = connection.prepare_cached(match value {
        Some(_) => select_job!(
            "JOIN tags t ON t.job = j.job
             WHERE t.collection = :collection AND t.name_key = :tag AND t.value = :value
                 AND t.job_key > :after AND t.job_key <= :end
                 AND (:text IS NULL OR instr(lower(j.name), :text) OR instr(j.search, :text))
             ORDER BY t.job_key"
        ),
        None => select_job!(
            "WHERE j.collection = :collection AND j.name_key > :after AND j.name_key <= :end
                 AND (:text IS NULL OR instr(lower(j.name), :text) OR instr(j.search, :text))
                 AND (:tag IS NULL OR :value IS NOT NULL OR EXISTS (
                     SELECT 1 FROM tags t WHERE t.job = j.job AND t.name_key = :tag))
             ORDER BY j.name_key"
        ),
    })?;
    let mut found = statement.query(named_params! {
        ":collection": id,
        ":after": after,
        ":end": end.as_deref().unwrap_or(AFTER_ALL_NAMES),
        ":text": text,
        ":tag": tag,
        ":value": value,
    })?;
    // States may be in the change log only, so SQL cannot filter by state.
    let (mut jobs, mut skip) = (Vec::new(), page.skip);
    while jobs.len() < page.limit
        && let Some(row) = found.next()?
    {
        let Some((key, state)) = readable(state_of(states, row, &collection))? else { continue };
        if filter.state.is_none_or(|state_filter| state_filter == state.filter_state()) {
            match skip {
                0 => jobs.extend(readable(read_job(row, codec, collection.clone(), (key, state)))?),
                _ => skip -= 1,
            }
        }
    }
    let end = end.map(|end| JobName::new(&end)).transpose().map_err(invalid_name)?;
    Ok(JobsPage::new((jobs, collection_status), page, skip, end))
}

/// A job of a list, or its state; `None` if it cannot be read, so that the list shows the others.
fn readable<T>(job: SqliteResult<T>) -> SqliteResult<Option<T>> {
    match job {
        Err(error) if error.is_unreadable() => Ok(None),
        job => job.map(Some),
    }
}

/// The single name that a query returns, if any.
fn find_name(
    connection: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
) -> SqliteResult<Option<String>> {
    Ok(connection.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?)
}
