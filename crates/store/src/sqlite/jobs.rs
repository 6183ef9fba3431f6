//! Jobs, as they are read.

use kalends_domain::{CollectionPath, CollectionState, JobName, JobPath};
use rusqlite::{Connection, Row, Rows};

use crate::error::StoreError;
use crate::form::{Keeper, read_definition};
use crate::record::{Job, JobKey, JobRecord, JobUid};
use crate::sqlite::around::{Around, Arounds};
use crate::sqlite::code::{Coded, collect, nth, read};
use crate::sqlite::collections::{Home, home, read_collection_path, read_collection_state};
use crate::sqlite::desk::Desk;
use crate::sqlite::groups::no_name;
use crate::sqlite::names::PathKeys;
use crate::sqlite::state::{StateRow, States, read_state};
use crate::sqlite::trouble::Worked;
use crate::sqlite::view::View;

/// What is read of a job, in its order.
macro_rules! job_columns {
    () => {
        "j.job, j.name, j.uid, j.created, j.version, j.definition, s.collection, s.generation,
         s.switched_on, s.lifecycle, s.due, s.used, s.last_execution, s.executions, s.failures,
         s.faulted, s.finished, s.entries, s.newest_entry, s.newest_closing"
    };
}

/// What a job is read from.
macro_rules! select_job {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            $crate::sqlite::jobs::job_columns!(),
            " FROM jobs j JOIN state s ON s.job = j.job ",
            $rest
        )
    };
}

pub(crate) use job_columns;
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
    keeper: &Keeper,
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
            definition: read_definition(text(5)?, uid, keeper)?,
            generation: state.generation,
        },
        state: state.state,
        version: nth(row, 4)?,
    })
}

/// A job that may be edited, and what is kept beside its definition.
pub(crate) struct Kept {
    pub(crate) record: JobRecord,
    pub(crate) row: StateRow,
    pub(crate) authenticated: bool,
    /// The shortest gap and the shortest retry, as they are written.
    pub(crate) shortest: (Option<i64>, Option<i64>),
}

/// What it is read from.
macro_rules! select_kept {
    ($condition:literal) => {
        concat!(
            "SELECT ",
            job_columns!(),
            ", j.authenticated, j.shortest_gap, j.shortest_retry
             FROM jobs j JOIN state s ON s.job = j.job WHERE ",
            $condition
        )
    };
}

/// A job of a collection.
pub(crate) fn find(
    desk: &Desk,
    keeper: &Keeper,
    (id, collection): (i64, &CollectionPath),
    keys: &PathKeys,
) -> Worked<Option<Kept>> {
    let (connection, names) = (desk.connection(), &desk.memory.names);
    let job = |row: &Row<'_>| {
        let (key, state) = state_of(desk, row)?;
        Ok(Kept {
            record: read_job(row, keeper, collection.clone(), (key, state))?,
            row: state,
            authenticated: row.get("authenticated")?,
            shortest: (row.get("shortest_gap")?, row.get("shortest_retry")?),
        })
    };
    if let Some(guess) = names.guess(keys) {
        let mut statement = connection
            .prepare_cached(select_kept!("j.job = ? AND +j.collection = ? AND +j.name_key = ?"))?;
        let found = statement.query((Coded(guess), id, &keys.job))?;
        if let Some(found) = collect(found, job)?.pop() {
            return Ok(Some(found));
        }
    }
    let mut statement =
        connection.prepare_cached(select_kept!("j.collection = ? AND j.name_key = ?"))?;
    let found = collect(statement.query((id, &keys.job))?, job)?.pop();
    if let Some(found) = &found {
        names.learn(keys, found.record.key);
    }
    Ok(found)
}

/// Selects what [`read_found`] reads: all in one statement, which sees one state of the store.
macro_rules! select_found {
    ($job:literal) => {
        concat!(
            "SELECT ",
            $crate::sqlite::jobs::job_columns!(),
            ", c.name AS collection_name, c.enabled,
                 c.definition AS collection_definition, g.subscription, g.name AS group_name,
                 (SELECT max(sequence) FROM log) AS seen
             FROM groups g JOIN collections c ON c.group_id = g.id LEFT JOIN jobs j ON ",
            $job,
            " LEFT JOIN state s ON s.job = j.job
             WHERE g.subscription_key = ?1 AND g.name_key = ?2 AND c.name_key = ?3"
        )
    };
}

/// A job by its path, and the state of its collection.
pub(crate) fn by_path(
    view: &View,
    keeper: &Keeper,
    path: &JobPath,
) -> Worked<Option<(JobRecord, CollectionState)>> {
    let (connection, names) = (view.connection(), &view.memory.names);
    let keys = PathKeys::new(path);
    let PathKeys { subscription, group, collection, job } = &keys;
    if let Some(guess) = names.guess(&keys) {
        let mut statement = connection.prepare_cached(select_found!(
            "j.job = ?5 AND +j.collection = c.id AND +j.name_key = ?4"
        ))?;
        let found = statement.query((subscription, group, collection, job, Coded(guess)))?;
        if let Some(found) = read_found(view, keeper, found)? {
            return Ok(Some(found));
        }
    }
    let mut statement =
        connection.prepare_cached(select_found!("j.collection = c.id AND j.name_key = ?4"))?;
    let found = statement.query((subscription, group, collection, job))?;
    let found = read_found(view, keeper, found)?;
    if let Some((job, _)) = &found {
        names.learn(&keys, job.key);
    }
    Ok(found)
}

fn read_found(
    view: &View,
    keeper: &Keeper,
    mut found: Rows<'_>,
) -> Worked<Option<(JobRecord, CollectionState)>> {
    let row = found.next()?.ok_or(StoreError::NoCollection)?;
    let Some(key) = row.get::<_, Option<Coded<JobKey>>>(0)?.map(|key| key.0) else {
        return Ok(None);
    };
    let seen = row.get::<_, Option<Coded<u64>>>("seen")?.map_or(0, |seen| seen.0);
    let state = match view.as_of(key, seen).flatten() {
        Some(changed) => changed,
        None => read_state(row, STATE)?,
    };
    let collection = read_collection_state(row)?;
    let job = read_job(row, keeper, read_collection_path(row)?, (key, state))?;
    Ok(Some((job, collection)))
}

/// The number of a job.
pub(crate) fn key(connection: &Connection, path: &JobPath) -> Worked<Option<JobKey>> {
    let Home { id, .. } = home(connection, &path.collection)?.ok_or(StoreError::NoCollection)?;
    let mut statement =
        connection.prepare_cached("SELECT job FROM jobs WHERE collection = ? AND name_key = ?")?;
    let found = statement.query((id, path.job.key()))?;
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
    keeper: &Keeper,
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
    let job = read_job(row, keeper, around.path.clone(), (key, state))?;
    Ok(Some((job, around)))
}
