//! Jobs, as they are read.

use std::sync::Arc;

use kalends_domain::{CollectionPath, CollectionState, JobName, JobPath};
use rusqlite::{Connection, Row};

use crate::error::StoreError;
use crate::record::{Job, JobKey, JobRecord, JobUid};
use crate::sqlite::around::{Around, Arounds};
use crate::sqlite::code::{Coded, collect, nth, nth_option, read};
use crate::sqlite::collections::{Home, home};
use crate::sqlite::desk::Desk;
use crate::sqlite::groups::no_name;
use crate::sqlite::memory::Memory;
use crate::sqlite::names::{Names, PathKeys};
use crate::sqlite::remembered::Changes;
use crate::sqlite::state::{StateRow, States, read_state};
use crate::sqlite::trouble::Worked;
use crate::sqlite::view::View;
use crate::stored_form::{DefinitionCodec, read_definition};

/// Selects jobs, with the rest of a statement; and more columns than those of the job.
macro_rules! select_job {
    ($rest:literal) => {
        concat!($crate::sqlite::jobs::select_job!(@ ""), $rest)
    };
    (@ $more:literal) => {
        concat!(
            "SELECT j.job, j.name, j.uid, j.created, j.version, j.definition, s.collection,
                 s.generation, s.switched_on, s.lifecycle, s.due, s.used, s.last_execution,
                 s.executions, s.failures, s.faulted, s.finished, s.entries, s.newest_entry,
                 s.newest_closing",
            $more,
            " FROM jobs j JOIN state s ON s.job = j.job "
        )
    };
}

pub(crate) use select_job;

/// Where its state begins.
const STATE: usize = 6;

/// The state of a job in an answer: what was changed lately, or what the table says.
pub(crate) fn state_of(states: &impl States, row: &Row<'_>) -> Worked<(JobKey, StateRow)> {
    let key = nth(row, 0)?;
    let state = match states.changed(key).flatten() {
        Some(changed) => changed,
        None => read_state(row, STATE)?,
    };
    Ok((key, state))
}

/// A job in an answer.
pub(crate) fn read_job(
    row: &Row<'_>,
    codec: &DefinitionCodec,
    collection: CollectionPath,
    (key, state): (JobKey, StateRow),
) -> Worked<JobRecord> {
    let text = |column: usize| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
    let uid = JobUid(row.get(2)?);
    let name = JobName::new(text(1)?).map_err(no_name)?;
    Ok(JobRecord {
        key,
        path: JobPath { collection, job: name },
        job: Job {
            uid,
            created: nth(row, 3)?,
            definition: read_definition(text(5)?, uid, codec)?,
            generation: state.generation,
        },
        state: state.state,
        version: nth(row, 4)?,
    })
}

/// Selects a job of a collection by its name, with more than the job: by the index, and where its
/// number may be known. Parameters are the collection, the name and the number.
macro_rules! select_named {
    ($more:literal) => {
        [
            concat!(
                select_job!(@ $more),
                "WHERE j.job = ?3 AND +j.collection = ?1 AND +j.name_key = ?2"
            ),
            concat!(select_job!(@ $more), "WHERE j.collection = ?1 AND j.name_key = ?2"),
        ]
    };
}

/// Where the additional columns begin.
const MORE: usize = 20;

/// Finds a job of a collection with statements of `select_named`: the one that is remembered to have
/// its name, if it has it, or the one that the index says.
fn look_up<T>(
    states: &impl States,
    names: &Names,
    (collection, keys): (i64, &PathKeys),
    [by_number, by_name]: [&str; 2],
    read: impl Fn(&Row<'_>) -> Worked<T>,
) -> Worked<Option<T>> {
    let connection = states.connection();
    if let Some(guess) = names.guess(keys) {
        let mut statement = connection.prepare_cached(by_number)?;
        let mut found = statement.query((collection, &keys.job, Coded(guess)))?;
        if let Some(row) = found.next()? {
            return read(row).map(Some);
        }
    }
    let mut statement = connection.prepare_cached(by_name)?;
    let mut found = statement.query((collection, &keys.job))?;
    let Some(row) = found.next()? else { return Ok(None) };
    names.learn(keys, nth(row, 0)?);
    read(row).map(Some)
}

/// A job that may be edited, and what is kept beside its definition.
pub(crate) struct Kept {
    pub(crate) record: JobRecord,
    pub(crate) row: StateRow,
    pub(crate) authenticated: bool,
    /// The shortest gap and the shortest retry, as they are written.
    pub(crate) shortest: (Option<i64>, Option<i64>),
}

/// A job of a collection, for an edit.
pub(crate) fn find(
    desk: &Desk,
    codec: &DefinitionCodec,
    (id, collection): (i64, &CollectionPath),
    keys: &PathKeys,
) -> Worked<Option<Kept>> {
    let sql = select_named!(", j.authenticated, j.shortest_gap, j.shortest_retry");
    look_up(desk, &desk.memory.names, (id, keys), sql, |row| {
        let (key, state) = state_of(desk, row)?;
        Ok(Kept {
            record: read_job(row, codec, collection.clone(), (key, state))?,
            row: state,
            authenticated: row.get(MORE)?,
            shortest: (row.get(MORE + 1)?, row.get(MORE + 2)?),
        })
    })
}

/// A job by its path, and the state of its collection. The job is read by one statement, which sees
/// one state of the store; the collection is as it was when this began, or later. `since` is from
/// before the view was taken.
pub(crate) fn by_path(
    view: &View,
    codec: &DefinitionCodec,
    path: &JobPath,
    since: Changes,
) -> Worked<Option<(JobRecord, CollectionState)>> {
    let Memory { homes, names, .. } = &*view.memory;
    let keys = PathKeys::new(path);
    let home = match homes.get(&keys.collection) {
        Some(home) => home,
        None => {
            let found = home(view.connection(), &keys.collection)?;
            let found = Arc::new(found.ok_or(StoreError::NoCollection)?);
            homes.learn(since, [(keys.collection.clone(), Arc::clone(&found))]);
            found
        }
    };
    let sql = select_named!(", (SELECT max(sequence) FROM log)");
    look_up(view, names, (home.id, &keys), sql, |row| {
        let key = nth(row, 0)?;
        let seen = nth_option(row, MORE)?.unwrap_or_default();
        let state = match view.as_of(key, seen).flatten() {
            Some(changed) => changed,
            None => read_state(row, STATE)?,
        };
        Ok((read_job(row, codec, home.path.clone(), (key, state))?, home.state))
    })
}

/// The number of a job.
pub(crate) fn key(connection: &Connection, path: &JobPath) -> Worked<Option<JobKey>> {
    let keys = PathKeys::new(path);
    let Home { id, .. } = home(connection, &keys.collection)?.ok_or(StoreError::NoCollection)?;
    let mut statement =
        connection.prepare_cached("SELECT job FROM jobs WHERE collection = ? AND name_key = ?")?;
    let found = statement.query((id, keys.job))?;
    Ok(collect(found, |row| Ok(read(row, "job")?))?.pop())
}

/// Whether a job is there, and its collection.
pub(crate) fn is_there(connection: &Connection, job: JobKey) -> Worked<bool> {
    let mut statement = connection.prepare_cached(
        "SELECT 1 FROM jobs j JOIN collections c ON c.id = j.collection WHERE j.job = ?",
    )?;
    Ok(statement.exists([Coded(job)])?)
}

/// A job by its number, and what is around it: of collections that were asked for before it is known.
pub(crate) fn by_key(
    states: &impl States,
    codec: &DefinitionCodec,
    key: JobKey,
    arounds: &mut Arounds,
) -> Worked<Option<(JobRecord, Around)>> {
    let connection = states.connection();
    let mut statement = connection.prepare_cached(select_job!("WHERE j.job = ?"))?;
    let mut found = statement.query([Coded(key)])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let (key, state) = state_of(states, row)?;
    // Jobs of a collection that is gone are out of reach.
    let Some(around) = arounds.get(connection, state.collection)? else { return Ok(None) };
    let job = read_job(row, codec, around.path.clone(), (key, state))?;
    Ok(Some((job, around)))
}
