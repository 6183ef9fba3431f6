//! Lists of jobs, and searches among them.
//!
//! A search looks at a stretch of names: it begins behind the page before, and ends where as many
//! jobs were looked at as it may. A tag with its value has an index in the order of names, so that its
//! stretch has no other jobs.

use kalends_domain::{CollectionPath, JobName};
use rusqlite::{Connection, OptionalExtension as _, ToSql, named_params};

use crate::api_store::{JobFilter, JobsPage, Page};
use crate::error::StoreError;
use crate::sqlite::code::{collect, rows};
use crate::sqlite::collections::{CollectionLocation, locate};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::groups::no_name;
use crate::sqlite::jobs::{read_job, select_job, state_of};
use crate::sqlite::path_keys::CollectionKeys;
use crate::sqlite::state::ReadState;
use crate::stored_form::DefinitionCodec;

/// No name comes after it: it is greater than all that names are made of.
const AFTER_ALL: &str = "~";

/// A page of the jobs of a collection.
pub(crate) fn jobs(
    states: &impl ReadState,
    codec: &DefinitionCodec,
    path: &CollectionPath,
    (filter, scan_max): (&JobFilter, usize),
    page: &Page<JobName>,
) -> SqliteResult<JobsPage> {
    let connection = states.connection();
    let CollectionLocation { id, path: collection, state: collection_state } =
        locate(connection, &CollectionKeys::new(path))?.ok_or(StoreError::NoCollection)?;
    let after = page.after.as_ref().map(JobName::key).unwrap_or_default();
    if *filter == JobFilter::default() {
        let mut statement = connection.prepare_cached(select_job!(
            "WHERE j.collection = ? AND j.name_key > ? ORDER BY j.name_key LIMIT ? OFFSET ?"
        ))?;
        let (limit, skip) = (rows(page.limit as u64), rows(page.skip));
        let jobs = collect(statement.query((id, after, limit, skip))?, |row| {
            read_job(row, codec, collection.clone(), state_of(states, row)?)
        })?;
        return Ok(JobsPage { jobs, collection: collection_state, rest: None });
    }
    let text = filter.contains.as_ref().map(|text| text.to_lowercase());
    let (tag, value) = filter.tag.clone().unzip();
    let (tag, value) = (tag.map(|name| name.to_ascii_uppercase()), value.flatten());
    let behind = rows(scan_max.max(1) as u64 - 1);
    let end = match (&tag, &value) {
        (Some(tag), Some(value)) => name(
            connection,
            "SELECT job_key FROM tags
             WHERE collection = ? AND name_key = ? AND value = ? AND job_key > ?
             ORDER BY job_key LIMIT 1 OFFSET ?",
            &[&id, tag, value, &after, &behind],
        ),
        _ => name(
            connection,
            "SELECT name_key FROM jobs WHERE collection = ? AND name_key > ?
             ORDER BY name_key LIMIT 1 OFFSET ?",
            &[&id, &after, &behind],
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
        ":end": end.as_deref().unwrap_or(AFTER_ALL),
        ":text": text,
        ":tag": tag,
        ":value": value,
    })?;
    // The state is not always in the table, so that the table cannot be asked for it.
    let (mut jobs, mut skip) = (Vec::new(), page.skip);
    while jobs.len() < page.limit
        && let Some(row) = found.next()?
    {
        let (key, state) = state_of(states, row)?;
        if filter.state.is_none_or(|wanted| wanted == state.as_seen()) {
            match skip {
                0 => jobs.push(read_job(row, codec, collection.clone(), (key, state))?),
                _ => skip -= 1,
            }
        }
    }
    let end = end.map(|end| JobName::new(&end)).transpose().map_err(no_name)?;
    Ok(JobsPage::new((jobs, collection_state), page, skip, end))
}

fn name(connection: &Connection, sql: &str, values: &[&dyn ToSql]) -> SqliteResult<Option<String>> {
    Ok(connection.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?)
}
