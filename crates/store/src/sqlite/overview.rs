//! Reads over all collections.

use std::ops::Bound;

use kalends_domain::{AccessScope, CollectionPath, JobName, JobPath, Switch};
use rusqlite::{Row, ToSql};

use crate::overview_store::{
    CollectionSummary, FAILING_MIN, JobMatch, JobSearch, JobSearchPage, JobSet, JobSummary,
    SearchPosition, first_keys, scope_keys,
};
use crate::record::{CollectionKey, JobKey, JobRecord};
use crate::sqlite::code::{Coded, collect, nth, nth_option, rows_max};
use crate::sqlite::collection_of_job::CollectionsOfJobs;
use crate::sqlite::collections::{CollectionRow, read_row};
use crate::sqlite::error::{SqliteError, SqliteResult};
use crate::sqlite::groups::invalid_name;
use crate::sqlite::jobs::by_key;
use crate::sqlite::state::{ReadState, StateRow};
use crate::sqlite::write_back::Snapshot;
use crate::stored_form::DefinitionCodec;

/// The collections of a scope, in order.
pub(crate) fn collection_summaries(
    connection: &rusqlite::Connection,
    scope: &AccessScope,
    from: &Bound<CollectionPath>,
    limit: usize,
) -> SqliteResult<Vec<CollectionSummary>> {
    // The groups in order, and for each its collections in order: no sort, and no row before `from`.
    let mut statement = connection.prepare_cached(
        "SELECT c.id, c.name AS collection_name, c.created, c.enabled_since, c.version, c.jobs,
             c.definition, g.subscription, g.name AS group_name
         FROM groups g CROSS JOIN collections c ON c.group_id = g.id
         WHERE (?1 IS NULL OR g.subscription_key = ?1) AND (?2 IS NULL OR g.name_key = ?2)
             AND (?3 IS NULL OR c.name_key = ?3)
             AND (g.subscription_key, g.name_key) >= (?4, ?5)
             AND c.name_key >= CASE WHEN g.subscription_key = ?4 AND g.name_key = ?5
                 THEN ?6 ELSE '' END
         ORDER BY g.subscription_key, g.name_key, c.name_key LIMIT ?7",
    )?;
    let ([subscription, group, name], first) = (scope_keys(scope), first_keys(from));
    let limit = rows_max(limit as u64);
    let [first_subscription, first_group, first_name] = first;
    let found = statement.query((
        subscription,
        group,
        name,
        first_subscription,
        first_group,
        first_name,
        limit,
    ))?;
    collect(found, |row| {
        let CollectionRow { id, record, jobs } = read_row(row)?;
        Ok(CollectionSummary { key: CollectionKey(id), record, jobs })
    })
}

/// The columns of [`read_summary`].
macro_rules! summary_columns {
    () => {
        "s.job, s.collection, s.switched_on, s.lifecycle, s.due, s.used,
             s.last_execution, s.enabled_since, s.consecutive_failures"
    };
}

pub(crate) use summary_columns;

/// The number of columns of a summary.
pub(crate) const SUMMARY_COLUMNS: usize = 9;

/// Reads a summary from the first columns of a row; `None` if the job was deleted. A dirty row takes
/// precedence over the table.
pub(crate) fn read_summary(
    states: &impl ReadState,
    row: &Row<'_>,
) -> SqliteResult<Option<JobSummary>> {
    let job = nth(row, 0)?;
    match states.dirty_state(job) {
        Some(dirty) => Ok(dirty.map(|state| summary_of(job, &state))),
        None => match stored_summary(row, job) {
            Ok(summary) => Ok(Some(summary)),
            Err(error) => Err(SqliteError::from(error).of_job(job)),
        },
    }
}

fn stored_summary(row: &Row<'_>, job: JobKey) -> rusqlite::Result<JobSummary> {
    Ok(JobSummary {
        job,
        collection: CollectionKey(row.get(1)?),
        switch: switch_of(nth(row, 2)?),
        lifecycle: nth(row, 3)?,
        due: nth_option(row, 4)?,
        used: nth(row, 5)?,
        last_execution: nth_option(row, 6)?,
        enabled_since: nth_option(row, 7)?,
        consecutive_failures: nth(row, 8)?,
    })
}

fn summary_of(job: JobKey, row: &StateRow) -> JobSummary {
    JobSummary {
        job,
        collection: CollectionKey(row.collection),
        switch: switch_of(row.switched_on),
        lifecycle: row.state.lifecycle,
        due: row.state.due,
        used: row.state.used,
        last_execution: row.state.last_execution,
        enabled_since: row.enabled_since,
        consecutive_failures: row.state.consecutive_failures,
    }
}

fn switch_of(is_on: bool) -> Switch {
    if is_on { Switch::Enabled } else { Switch::Disabled }
}

/// Searches the jobs of several collections.
pub(crate) fn search_jobs(
    states: &impl ReadState,
    search: &JobSearch,
) -> SqliteResult<JobSearchPage> {
    let connection = states.connection();
    let mut range = connection.prepare_cached(
        "SELECT count(*), max(name_key) FROM (
             SELECT name_key FROM jobs WHERE collection = ? AND name_key > ?
             ORDER BY name_key LIMIT ?)",
    )?;
    let mut page = JobSearchPage::default();
    let mut left = search.scan_max.max(1) as u64;
    let mut after = search.after.as_ref().map(JobName::key).unwrap_or_default();
    for collection in &search.collections {
        let id = collection.key.0;
        let (examined, end): (u64, Option<String>) =
            range.query_row((id, &after, rows_max(left)), |row| Ok((nth(row, 0)?, row.get(1)?)))?;
        if let Some(end) = end {
            let words = search.words_of(collection);
            let mut matches = connection.prepare_cached(&select_matches(words.len()))?;
            let mut values: Vec<&dyn ToSql> = vec![&id, &after, &end];
            values.extend(words.iter().map(|word| word as &dyn ToSql));
            let mut found = matches.query(values.as_slice())?;
            while let Some(row) = found.next()? {
                match read_match(states, row) {
                    // The list shows the others.
                    Err(error) if error.is_unreadable() => {}
                    found => page.jobs.extend(found?),
                }
            }
            if examined >= left {
                let name = JobName::new(&end).map_err(invalid_name)?;
                page.rest = Some(SearchPosition { collection: collection.key, after: Some(name) });
                return Ok(page);
            }
        }
        // A collection without jobs costs about as much as a job.
        left = left.saturating_sub(examined.max(1)).max(1);
        after = String::new();
    }
    Ok(page)
}

/// Selects the jobs of a range of names that have this number of words.
fn select_matches(words: usize) -> String {
    let word = |place: usize| {
        let place = place + 4;
        format!(
            " AND (instr(lower(j.name), ?{place}) OR instr(char(10) || j.search || char(10), ?{place}))"
        )
    };
    let words: String = (0..words).map(word).collect();
    format!(
        "SELECT {columns}, j.name FROM jobs j CROSS JOIN state s ON s.job = j.job
         WHERE j.collection = ?1 AND j.name_key > ?2 AND j.name_key <= ?3{words}
         ORDER BY j.name_key",
        columns = summary_columns!()
    )
}

/// The jobs of a set; `None` if there are more than `limit`.
pub(crate) fn jobs_of_set(
    snapshot: &Snapshot,
    set: JobSet,
    limit: usize,
) -> SqliteResult<Option<Vec<JobMatch>>> {
    // The conditions are those of the indexes. `finished` has no dirty rows.
    let (keys, is_dirty): (_, fn(&StateRow) -> bool) = match set {
        JobSet::Disabled => ("state WHERE switched_on = 0", |row| !row.switched_on),
        JobSet::Failing => ("state WHERE consecutive_failures >= 3", |row| {
            row.state.consecutive_failures >= FAILING_MIN
        }),
        JobSet::Finished => ("finished", |_| false),
    };
    let connection = snapshot.connection();
    let mut statement = connection.prepare_cached(&format!("SELECT job FROM {keys} LIMIT ?"))?;
    let found = statement.query([rows_max(limit as u64 + 1)])?;
    let mut keys: Vec<JobKey> = collect(found, |row| Ok(nth(row, 0)?))?;
    keys.extend(snapshot.shared.dirty_rows.jobs_where(|_, row| is_dirty(row)));
    keys.sort_unstable();
    keys.dedup();
    if keys.len() > limit {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(concat!(
        "SELECT ",
        summary_columns!(),
        ", j.name FROM state s CROSS JOIN jobs j ON j.job = s.job WHERE s.job = ?"
    ))?;
    let mut jobs = Vec::with_capacity(keys.len());
    for key in keys {
        let mut rows = statement.query([Coded(key)])?;
        let Some(row) = rows.next()? else { continue };
        match read_match(snapshot, row) {
            Err(error) if error.is_unreadable() => {}
            // The table may have an earlier state of a dirty row.
            found => jobs.extend(found?.filter(|job| set.contains(&job.state))),
        }
    }
    Ok(Some(jobs))
}

fn read_match(states: &impl ReadState, row: &Row<'_>) -> SqliteResult<Option<JobMatch>> {
    let Some(state) = read_summary(states, row)? else { return Ok(None) };
    let name = row.get_ref(SUMMARY_COLUMNS)?.as_str().map_err(rusqlite::Error::from)?;
    Ok(Some(JobMatch { name: JobName::new(name).map_err(invalid_name)?, state }))
}

/// The jobs with these keys that exist and can be read.
pub(crate) fn jobs_by_key(
    states: &impl ReadState,
    codec: &DefinitionCodec,
    jobs: &[JobKey],
) -> SqliteResult<Vec<JobRecord>> {
    let mut collections = CollectionsOfJobs::default();
    let mut found = Vec::with_capacity(jobs.len());
    for key in jobs {
        match by_key(states, codec, *key, &mut collections) {
            Err(error) if error.is_unreadable() => {}
            job => found.extend(job?.map(|(job, _)| job)),
        }
    }
    Ok(found)
}

/// The states of the jobs with these keys that exist and can be read.
pub(crate) fn states_by_key(
    states: &impl ReadState,
    jobs: &[JobKey],
) -> SqliteResult<Vec<JobSummary>> {
    let mut statement = states.connection().prepare_cached(concat!(
        "SELECT ",
        summary_columns!(),
        " FROM state s WHERE s.job = ?"
    ))?;
    let mut found = Vec::with_capacity(jobs.len());
    for key in jobs {
        let mut rows = statement.query([Coded(*key)])?;
        let Some(row) = rows.next()? else { continue };
        match read_summary(states, row) {
            Err(error) if error.is_unreadable() => {}
            summary => found.extend(summary?),
        }
    }
    Ok(found)
}

/// The paths of the jobs with these keys that exist.
pub(crate) fn job_paths(
    connection: &rusqlite::Connection,
    jobs: &[JobKey],
) -> SqliteResult<Vec<(JobKey, JobPath)>> {
    let mut statement =
        connection.prepare_cached("SELECT name, collection FROM jobs WHERE job = ?")?;
    let mut collections = CollectionsOfJobs::default();
    let mut found = Vec::with_capacity(jobs.len());
    for key in jobs {
        let mut rows = statement.query([Coded(*key)])?;
        let Some(row) = rows.next()? else { continue };
        let name = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        let job = JobName::new(name).map_err(invalid_name)?;
        // Jobs of a deleted collection are not visible.
        if let Some(collection) = collections.get(connection, row.get(1)?)? {
            found.push((*key, JobPath { collection: collection.path, job }));
        }
    }
    Ok(found)
}
