//! Single jobs: reads. Lists are in `search`.

use std::sync::Arc;

use kalends_domain::{CollectionPath, JobName, JobPath};
use kalends_recurrence::Instant;
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator as _;
use rusqlite::{Connection, Row};

use crate::error::{StoreError, UnreadableJob};
use crate::record::{CollectionStatus, Job, JobKey, JobRecord, JobUid};
use crate::sqlite::code::{Coded, collect, nth, nth_option, read};
use crate::sqlite::collection_cache::CacheVersion;
use crate::sqlite::collection_of_job::{CollectionOfJob, CollectionsOfJobs};
use crate::sqlite::collections::{CollectionLocation, locate};
use crate::sqlite::error::{SqliteError, SqliteResult};
use crate::sqlite::groups::invalid_name;
use crate::sqlite::path_keys::PathKeys;
use crate::sqlite::state::{self, ReadState, StateRow, read_state};
use crate::sqlite::write_back::{Snapshot, WriteTransaction};
use crate::stored_form::{DefinitionCodec, read_definition};

/// A SELECT of jobs with their states. `$rest` continues the statement; `$more` adds columns.
macro_rules! select_job {
    ($rest:literal) => {
        concat!($crate::sqlite::jobs::select_job!(@ ""), $rest)
    };
    (@ $more:literal) => {
        concat!(
            "SELECT j.job, j.name, j.uid, j.created, j.version, j.definition, s.collection,
                 s.generation, s.switched_on, s.lifecycle, s.due, s.used, s.last_execution,
                 s.executions, s.failures, s.faulted, s.finished, s.entries, s.newest_entry,
                 s.newest_closing, s.schedule_generation, s.enabled_since, s.consecutive_failures,
                 s.skip_until",
            $more,
            " FROM jobs j JOIN state s ON s.job = j.job "
        )
    };
}

pub(crate) use select_job;

/// The index of the first column of the state.
const STATE_COLUMN: usize = 6;

/// The key and state of a job in a row of `select_job!`. A dirty row takes precedence over the table.
/// Fails with [`StoreError::Unreadable`] if the state cannot be decoded.
pub(crate) fn state_of(
    states: &impl ReadState,
    row: &Row<'_>,
    collection: &CollectionPath,
) -> SqliteResult<(JobKey, StateRow)> {
    let key = nth(row, 0)?;
    state_or(row, key, states.dirty_state(key).flatten(), || Some(collection.to_string()))
}

/// The dirty state of a job, or the one in a row of `select_job!`. `collection` is for an error.
fn state_or(
    row: &Row<'_>,
    key: JobKey,
    dirty: Option<StateRow>,
    collection: impl FnOnce() -> Option<String>,
) -> SqliteResult<(JobKey, StateRow)> {
    match dirty.map_or_else(|| read_state(row, STATE_COLUMN), Ok) {
        Ok(state) => Ok((key, state)),
        Err(error) => Err(with_path(error.into(), row, key, collection())),
    }
}

/// The error of a job in a row of `select_job!`: [`StoreError::Unreadable`] if its contents caused it.
fn with_path(
    error: SqliteError,
    row: &Row<'_>,
    key: JobKey,
    collection: Option<String>,
) -> SqliteError {
    let job = match error.into_unreadable(key) {
        Ok(job) => job,
        Err(other) => return other,
    };
    let name = row.get::<_, String>(1).ok();
    let path = collection.zip(name).map(|(collection, name)| format!("{collection}/jobs/{name}"));
    StoreError::Unreadable(vec![UnreadableJob { path, ..job }]).into()
}

/// Reads a job from a row of `select_job!`. Fails with [`StoreError::Unreadable`] if its contents
/// cannot be decoded.
pub(crate) fn read_job(
    row: &Row<'_>,
    codec: &DefinitionCodec,
    collection: CollectionPath,
    (key, state): (JobKey, StateRow),
) -> SqliteResult<JobRecord> {
    decode_job(row, codec, &collection, (key, state))
        .map_err(|error| with_path(error, row, key, Some(collection.to_string())))
}

fn decode_job(
    row: &Row<'_>,
    codec: &DefinitionCodec,
    collection: &CollectionPath,
    (key, state): (JobKey, StateRow),
) -> SqliteResult<JobRecord> {
    let text = |column: usize| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
    let uid = JobUid(row.get(2)?);
    let name = JobName::new(text(1)?).map_err(invalid_name)?;
    Ok(JobRecord {
        key,
        path: JobPath { collection: collection.clone(), job: name },
        job: Job {
            uid,
            created: nth(row, 3)?,
            definition: read_definition(text(5)?, uid, codec)?,
            generation: state.generation,
            schedule_generation: state.schedule_generation,
            enabled_since: state.enabled_since,
        },
        state: state.state,
        version: nth(row, 4)?,
    })
}

/// Selects a job by its collection and name, with additional columns.
macro_rules! select_named {
    ($more:literal) => {
        concat!(select_job!(@ $more), "WHERE j.collection = ?1 AND j.name_key = ?2")
    };
}

/// The index of the first additional column.
const MORE_COLUMNS: usize = STATE_COLUMN + state::COLUMNS;

/// A job for an edit, with the columns that the edit compares.
pub(crate) struct EditableJob {
    pub(crate) record: JobRecord,
    pub(crate) row: StateRow,
    pub(crate) authenticated: bool,
    /// The shortest gap and the shortest retry, in ticks of 100 ns.
    pub(crate) shortest: (Option<i64>, Option<i64>),
}

/// Finds a job of a collection for an edit.
pub(crate) fn find(
    transaction: &WriteTransaction,
    codec: &DefinitionCodec,
    (id, collection): (i64, &CollectionPath),
    keys: &PathKeys,
) -> SqliteResult<Option<EditableJob>> {
    let sql = select_named!(", j.authenticated, j.shortest_gap, j.shortest_retry");
    let mut statement = transaction.connection().prepare_cached(sql)?;
    let mut found = statement.query((id, &keys.job))?;
    let Some(row) = found.next()? else { return Ok(None) };
    let (key, state) = state_of(transaction, row, collection)?;
    Ok(Some(EditableJob {
        record: read_job(row, codec, collection.clone(), (key, state))?,
        row: state,
        authenticated: row.get(MORE_COLUMNS)?,
        shortest: (row.get(MORE_COLUMNS + 1)?, row.get(MORE_COLUMNS + 2)?),
    }))
}

/// A job by its path, and the status of its collection at `now`. One statement reads the job, hence one snapshot;
/// the collection is as of the start of the request, or later. `since` must be obtained before the
/// snapshot.
pub(crate) fn by_path(
    snapshot: &Snapshot,
    codec: &DefinitionCodec,
    path: &JobPath,
    (since, now): (CacheVersion, Instant),
) -> SqliteResult<Option<(JobRecord, CollectionStatus)>> {
    let keys = PathKeys::new(path);
    let locations = &snapshot.shared.locations;
    let collection = match locations.get(&keys.collection) {
        Some(collection) => collection,
        None => {
            let found = locate(snapshot.connection(), &keys.collection)?;
            let found = Arc::new(found.ok_or(StoreError::NoCollection)?);
            locations.insert(since, [(keys.collection.clone(), Arc::clone(&found))]);
            found
        }
    };
    let sql = select_named!(", (SELECT max(sequence) FROM log)");
    let mut statement = snapshot.connection().prepare_cached(sql)?;
    let mut found = statement.query((collection.id, &keys.job))?;
    let Some(row) = found.next()? else { return Ok(None) };
    let key = nth(row, 0)?;
    let seen = nth_option(row, MORE_COLUMNS)?.unwrap_or_default();
    let dirty = snapshot.as_of(key, seen).flatten();
    let state = state_or(row, key, dirty, || Some(collection.path.to_string()))?;
    let job = read_job(row, codec, collection.path.clone(), state)?;
    let (state, is_paused) = (collection.state, snapshot.shared.is_paused(now));
    Ok(Some((job, CollectionStatus { state, is_paused })))
}

/// The key of a job by its path.
pub(crate) fn key(connection: &Connection, path: &JobPath) -> SqliteResult<Option<JobKey>> {
    let keys = PathKeys::new(path);
    let CollectionLocation { id, .. } =
        locate(connection, &keys.collection)?.ok_or(StoreError::NoCollection)?;
    let mut statement =
        connection.prepare_cached("SELECT job FROM jobs WHERE collection = ? AND name_key = ?")?;
    let found = statement.query((id, keys.job))?;
    Ok(collect(found, |row| Ok(read(row, "job")?))?.pop())
}

/// Whether a job and its collection exist.
pub(crate) fn exists(connection: &Connection, job: JobKey) -> SqliteResult<bool> {
    let mut statement = connection.prepare_cached(
        "SELECT 1 FROM jobs j JOIN collections c ON c.id = j.collection WHERE j.job = ?",
    )?;
    Ok(statement.exists([Coded(job)])?)
}

/// Greatest distance between the keys of jobs that are read by one statement. Passing a row costs less
/// than a tenth of beginning a statement.
const DISTANCE_MAX: i64 = 8;

/// Jobs by their keys, each with its collection; `None` for a job that does not exist. The states of
/// some are known. Jobs that were created together are often due together: consecutive keys that ascend
/// are read by one statement.
pub(crate) fn by_keys<S: ReadState, T>(
    states: &S,
    codec: &DefinitionCodec,
    keys: impl Iterator<Item = (JobKey, Option<StateRow>)>,
    mut read: impl FnMut(JobKey, SqliteResult<Option<(JobRecord, CollectionOfJob)>>) -> SqliteResult<T>,
) -> SqliteResult<Vec<T>> {
    let mut collections = CollectionsOfJobs::default();
    let connection = states.connection();
    let mut with_state =
        connection.prepare_cached(select_job!("WHERE j.job >= ? ORDER BY j.job"))?;
    let mut without_state = connection.prepare_cached(
        "SELECT job, name, uid, created, version, definition FROM jobs WHERE job >= ? ORDER BY job",
    )?;
    let mut jobs = Vec::with_capacity(keys.size_hint().0);
    let mut keys = keys.peekable();
    while let Some((first, known)) = keys.peek() {
        let (first, is_known) = (*first, known.is_some());
        let statement = if is_known { &mut without_state } else { &mut with_state };
        let mut rows = statement.query([Coded(first)])?;
        rows.advance()?;
        let mut at = first;
        while let Some((key, known)) = keys.next_if(|(key, known)| {
            let near = at.0..=at.0.saturating_add(DISTANCE_MAX);
            near.contains(&key.0) && known.is_some() == is_known
        }) {
            at = key;
            while rows.get().map_or(Ok(false), |row| nth(row, 0).map(|job: JobKey| job < key))? {
                rows.advance()?;
            }
            let row = match rows.get() {
                Some(row) if nth::<JobKey>(row, 0)? == key => Some(row),
                _ => None,
            };
            let read_row = |row| match known {
                None => read_by_key(states, codec, (key, row), &mut collections),
                Some(state) => read_with_state(states, codec, (key, state), row, &mut collections),
            };
            let job = row.map(read_row);
            jobs.push(read(key, job.transpose().map(Option::flatten))?);
        }
    }
    Ok(jobs)
}

/// A job by its key, and its collection; `collections` caches those read before.
pub(crate) fn by_key(
    states: &impl ReadState,
    codec: &DefinitionCodec,
    key: JobKey,
    collections: &mut CollectionsOfJobs,
) -> SqliteResult<Option<(JobRecord, CollectionOfJob)>> {
    let mut statement = states.connection().prepare_cached(select_job!("WHERE j.job = ?"))?;
    let mut found = statement.query([Coded(key)])?;
    let Some(row) = found.next()? else { return Ok(None) };
    read_by_key(states, codec, (key, row), collections)
}

fn read_by_key(
    states: &impl ReadState,
    codec: &DefinitionCodec,
    (key, row): (JobKey, &Row<'_>),
    collections: &mut CollectionsOfJobs,
) -> SqliteResult<Option<(JobRecord, CollectionOfJob)>> {
    let connection = states.connection();
    let dirty = states.dirty_state(key).flatten();
    let state = state_or(row, key, dirty, || path_of_collection(connection, key))?;
    read_with_state(states, codec, state, row, collections)
}

fn read_with_state(
    states: &impl ReadState,
    codec: &DefinitionCodec,
    (key, state): (JobKey, StateRow),
    row: &Row<'_>,
    collections: &mut CollectionsOfJobs,
) -> SqliteResult<Option<(JobRecord, CollectionOfJob)>> {
    // Jobs of a deleted collection are not visible.
    let collection = collections.get(states.connection(), state.collection)?;
    let Some(collection) = collection else { return Ok(None) };
    let job = read_job(row, codec, collection.path.clone(), (key, state))?;
    Ok(Some((job, collection)))
}

/// The path of a job's collection; `None` if it cannot be read. For errors only.
fn path_of_collection(connection: &Connection, job: JobKey) -> Option<String> {
    let mut statement =
        connection.prepare_cached("SELECT collection FROM jobs WHERE job = ?").ok()?;
    let id = statement.query_row([Coded(job)], |row| row.get(0)).ok()?;
    let collection = CollectionsOfJobs::default().get(connection, id).ok()??;
    Some(collection.path.to_string())
}
