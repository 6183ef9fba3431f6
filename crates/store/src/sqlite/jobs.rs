//! Jobs, as they are read.

use kalends_domain::{CollectionPath, JobName, JobPath, Lifecycle, Switch};
use kalends_recurrence::Instant;
use rusqlite::{Connection, Row, named_params};

use crate::error::StoreError;
use crate::form::{Keeper, read_definition};
use crate::record::{CollectionKey, Job, JobKey, JobRecord, JobState, JobUid};
use crate::sqlite::code::{Code as _, Coded, collect, read, read_option, rows};
use crate::sqlite::collections::{find_path, read_collection_path};
use crate::sqlite::groups::no_name;
use crate::sqlite::trouble::Worked;
use crate::store::{Due, DueJob, JobFilter, JobFilterState, Page};

/// What a job is read from.
macro_rules! select_job {
    ($more:literal, $rest:literal) => {
        concat!(
            "SELECT j.job, j.name, j.uid, j.created, j.version, j.definition, s.generation,
                 s.lifecycle, s.due, s.used, s.last_execution, s.executions, s.failures,
                 s.faulted, s.finished",
            $more,
            " FROM jobs j JOIN state s ON s.job = j.job ",
            $rest
        )
    };
}

fn read_job(row: &Row<'_>, keeper: &Keeper, collection: CollectionPath) -> Worked<JobRecord> {
    let text = |column: &str| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
    let uid = JobUid(row.get("uid")?);
    let name = JobName::new(text("name")?).map_err(no_name)?;
    Ok(JobRecord {
        key: read(row, "job")?,
        path: JobPath { collection, job: name },
        job: Job {
            uid,
            created: read(row, "created")?,
            definition: read_definition(text("definition")?, uid, keeper)?,
            generation: read(row, "generation")?,
        },
        state: read_state(row)?,
        version: read(row, "version")?,
    })
}

pub(crate) fn read_state(row: &Row<'_>) -> Worked<JobState> {
    Ok(JobState {
        lifecycle: read(row, "lifecycle")?,
        due: read_option(row, "due")?,
        used: read(row, "used")?,
        last_execution: read_option(row, "last_execution")?,
        executions: read(row, "executions")?,
        failures: read(row, "failures")?,
        faulted: read(row, "faulted")?,
        finished: read_option(row, "finished")?,
    })
}

/// A job of a collection.
pub(crate) fn find(
    connection: &Connection,
    keeper: &Keeper,
    (id, collection): (i64, &CollectionPath),
    name: &JobName,
) -> Worked<Option<JobRecord>> {
    let mut statement =
        connection.prepare_cached(select_job!("", "WHERE j.collection = ? AND j.name_key = ?"))?;
    let found = statement.query((id, name.key()))?;
    Ok(collect(found, |row| read_job(row, keeper, collection.clone()))?.pop())
}

/// A job by its path.
pub(crate) fn by_path(
    connection: &Connection,
    keeper: &Keeper,
    path: &JobPath,
) -> Worked<Option<JobRecord>> {
    let (id, collection) =
        find_path(connection, &path.collection)?.ok_or(StoreError::NoCollection)?;
    find(connection, keeper, (id, &collection), &path.job)
}

/// The number of a job.
pub(crate) fn key(connection: &Connection, path: &JobPath) -> Worked<Option<JobKey>> {
    let (id, _) = find_path(connection, &path.collection)?.ok_or(StoreError::NoCollection)?;
    let mut statement =
        connection.prepare_cached("SELECT job FROM jobs WHERE collection = ? AND name_key = ?")?;
    let found = statement.query((id, path.job.key()))?;
    Ok(collect(found, |row| Ok(read(row, "job")?))?.pop())
}

/// What is read of a job's collection with it.
pub(crate) struct Around {
    pub(crate) key: CollectionKey,
    /// Its stored form.
    pub(crate) definition: String,
}

/// A job by its number, and what is around it.
pub(crate) fn by_key(
    connection: &Connection,
    keeper: &Keeper,
    key: JobKey,
) -> Worked<Option<(JobRecord, Around)>> {
    let mut statement = connection.prepare_cached(select_job!(
        ", c.id AS collection, c.name AS collection_name, g.subscription, g.name AS group_name,
           c.definition AS collection_definition",
        "JOIN collections c ON c.id = j.collection JOIN groups g ON g.id = c.group_id
         WHERE j.job = ?"
    ))?;
    let found = statement.query([Coded(key)])?;
    let read = |row: &Row<'_>| {
        let job = read_job(row, keeper, read_collection_path(row)?)?;
        let key = CollectionKey(row.get("collection")?);
        Ok((job, Around { key, definition: row.get("collection_definition")? }))
    };
    Ok(collect(found, read)?.pop())
}

/// A page of the jobs of a collection.
pub(crate) fn list(
    connection: &Connection,
    keeper: &Keeper,
    path: &CollectionPath,
    filter: &JobFilter,
    page: &Page<JobName>,
) -> Worked<Vec<JobRecord>> {
    let (id, collection) = find_path(connection, path)?.ok_or(StoreError::NoCollection)?;
    let after = page.after.as_ref().map(JobName::key).unwrap_or_default();
    let (limit, skip) = (rows(page.limit as u64), rows(page.skip));
    let read_job = |row: &Row<'_>| read_job(row, keeper, collection.clone());
    if *filter == JobFilter::default() {
        let mut statement = connection.prepare_cached(select_job!(
            "",
            "WHERE j.collection = ? AND j.name_key > ? ORDER BY j.name_key LIMIT ? OFFSET ?"
        ))?;
        return collect(statement.query((id, after, limit, skip))?, read_job);
    }
    let (lifecycle, switch) = filter.state.map_or((None, None), |state| match state {
        JobFilterState::Enabled => (Some(Lifecycle::Active), Some(Switch::Enabled)),
        JobFilterState::Disabled => (Some(Lifecycle::Active), Some(Switch::Disabled)),
        JobFilterState::Completed => (Some(Lifecycle::Completed), None),
        JobFilterState::Faulted => (Some(Lifecycle::Faulted), None),
    });
    let (tag, value) = filter.tag.clone().unzip();
    let mut statement = connection.prepare_cached(select_job!(
        "",
        "WHERE j.collection = :collection AND j.name_key > :after
             AND (:lifecycle IS NULL OR s.lifecycle = :lifecycle)
             AND (:switched_on IS NULL OR s.switched_on = :switched_on)
             AND (:text IS NULL OR instr(lower(j.name), :text) OR instr(j.search, :text))
             AND (:tag IS NULL OR EXISTS (
                 SELECT 1 FROM tags t WHERE t.job = j.job AND t.name_key = :tag
                     AND (:value IS NULL OR t.value = :value)))
         ORDER BY j.name_key LIMIT :limit OFFSET :skip"
    ))?;
    let found = statement.query(named_params! {
        ":collection": id,
        ":after": after,
        ":lifecycle": lifecycle.map(Coded),
        ":switched_on": switch.map(|switch| is_on(switch).code()),
        ":text": filter.contains.as_ref().map(|text| text.to_lowercase()),
        ":tag": tag.map(|name| name.to_ascii_uppercase()),
        ":value": value.flatten(),
        ":limit": limit,
        ":skip": skip,
    })?;
    collect(found, read_job)
}

pub(crate) fn is_on(switch: Switch) -> bool {
    switch == Switch::Enabled
}

/// The jobs that are due, the earliest first.
pub(crate) fn due(connection: &Connection, until: Instant, limit: usize) -> Worked<Vec<Due>> {
    let mut statement = connection.prepare_cached(
        "SELECT s.job, s.generation, s.due, s.collection
         FROM state s CROSS JOIN collections c ON c.id = s.collection
         WHERE s.due IS NOT NULL AND s.lifecycle = 0 AND s.switched_on = 1 AND s.due <= ?
             AND c.enabled = 1
         ORDER BY s.due, s.job LIMIT ?",
    )?;
    let found = statement.query((Coded(until), rows(limit as u64)))?;
    collect(found, |row| {
        let on = DueJob {
            job: read(row, "job")?,
            generation: read(row, "generation")?,
            due: read(row, "due")?,
        };
        Ok(Due { on, collection: CollectionKey(row.get("collection")?) })
    })
}
