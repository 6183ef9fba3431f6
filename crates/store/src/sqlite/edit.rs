//! Edits of collections and jobs, decided on what is there now.

use std::cell::RefCell;

use kalends_domain::{CollectionPath, JobPath};
use kalends_recurrence::Instant;
use rusqlite::{Connection, OptionalExtension as _};

use crate::error::StoreError;
use crate::form::{Keeper, write_definition};
use crate::record::{
    Cause, CollectionFacts, CollectionRecord, JobKey, JobRecord, JobState, JobUid, Progress,
};
use crate::search::search_text;
use crate::sqlite::code::Coded;
use crate::sqlite::collections::{self, Found, recount, ticks};
use crate::sqlite::jobs::{self, is_on};
use crate::sqlite::runs;
use crate::sqlite::trouble::Worked;
use crate::store::{
    CollectionContext, CollectionWrite, DecideCollection, DecideJob, Edited, JobContext, JobPut,
    JobWrite, Waiting,
};

/// Makes, changes or deletes a collection as `decide` says.
pub(crate) fn edit_collection(
    connection: &Connection,
    path: &CollectionPath,
    mut decide: DecideCollection,
    now: Instant,
) -> Worked<Edited<CollectionRecord>> {
    let found = collections::find(connection, path)?;
    let id = found.as_ref().map(|found| found.id);
    let before = found.map(|found| found.record);
    let facts = match id {
        Some(id) => collections::facts(connection, id)?,
        None => CollectionFacts::default(),
    };
    let failure = RefCell::new(None);
    let others = |plan| {
        let count = collections::count(connection, &path.group.subscription, plan, id);
        count.unwrap_or_else(|trouble| {
            failure.replace(Some(trouble));
            0
        })
    };
    let context = CollectionContext { existing: before.as_ref(), facts, others: &others };
    let write = decide(context);
    if let Some(trouble) = failure.take() {
        return Err(trouble);
    }
    let after = match (write.map_err(StoreError::Refused)?, id) {
        (CollectionWrite::Keep, _) => before.clone(),
        (CollectionWrite::Delete, id) => {
            id.map(|id| collections::delete(connection, id)).transpose()?;
            None
        }
        (CollectionWrite::Put(collection), id) => {
            match id {
                Some(id) => collections::update(connection, id, &collection)?,
                None => collections::insert(connection, path, &collection, now)?,
            }
            collections::find(connection, path)?.map(|found| found.record)
        }
    };
    Ok(Edited { before, after })
}

/// Makes, changes or deletes a job as `decide` says.
pub(crate) fn edit_job(
    connection: &Connection,
    keeper: &Keeper,
    path: &JobPath,
    mut decide: DecideJob,
    now: Instant,
) -> Worked<Edited<JobRecord>> {
    let Found { id, record: collection, jobs } =
        collections::find(connection, &path.collection)?.ok_or(StoreError::NoCollection)?;
    let before = jobs::find(connection, keeper, (id, &collection.path), &path.job)?;
    let context = JobContext { collection: &collection, jobs, existing: before.as_ref() };
    let write = decide(context).map_err(StoreError::Refused)?;
    let after = match (write, &before) {
        (JobWrite::Keep, _) => before.clone(),
        (JobWrite::Delete, None) | (JobWrite::Run { .. }, None) => None,
        (JobWrite::Delete, Some(job)) => {
            delete_job(connection, job.key)?;
            None
        }
        (JobWrite::Run { at }, Some(job)) => {
            let generation = job.job.generation;
            let progress = Progress::first(at);
            runs::open(connection, job.key, generation, at, Cause::Manual, 0, progress, None)?;
            before.clone()
        }
        (JobWrite::Put(put), before) => {
            match before {
                Some(before) => update_job(connection, keeper, id, before, &put, now)?,
                None => insert_job(connection, keeper, id, path, &put)?,
            }
            jobs::find(connection, keeper, (id, &collection.path), &path.job)?
        }
    };
    Ok(Edited { before, after })
}

fn insert_job(
    connection: &Connection,
    keeper: &Keeper,
    collection: i64,
    path: &JobPath,
    put: &JobPut,
) -> Worked<()> {
    let JobPut { uid: JobUid(uid), created, definition, facts, state, .. } = put;
    connection
        .prepare_cached(
            "INSERT INTO jobs (collection, name_key, name, uid, created, version, shortest_gap,
                 shortest_retry, authenticated, search, definition)
             VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?)",
        )?
        .execute((
            collection,
            path.job.key(),
            path.job.as_str(),
            uid,
            Coded(*created),
            facts.shortest_gap.map(ticks),
            facts.shortest_retry.map(ticks),
            facts.authenticated,
            search_text(definition),
            write_definition(definition, put.uid, keeper)?,
        ))?;
    let key = JobKey(connection.last_insert_rowid());
    insert_tags(connection, key, put)?;
    let JobState { lifecycle, due, used, last_execution, executions, failures, faulted, finished } =
        *state;
    connection
        .prepare_cached(
            "INSERT INTO state (job, collection, generation, switched_on, lifecycle, due, used,
                 last_execution, executions, failures, faulted, finished, entries)
             VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
        )?
        .execute((
            Coded(key),
            collection,
            is_on(definition.switch),
            Coded(lifecycle),
            due.map(Coded),
            Coded(used),
            last_execution.map(Coded),
            Coded(executions),
            Coded(failures),
            Coded(faulted),
            finished.map(Coded),
        ))?;
    recount(connection, collection, 1, i64::from(facts.authenticated))
}

fn update_job(
    connection: &Connection,
    keeper: &Keeper,
    collection: i64,
    before: &JobRecord,
    put: &JobPut,
    now: Instant,
) -> Worked<()> {
    let JobPut { definition, facts, state, waiting, passed, .. } = put;
    let key = before.key;
    let was_authenticated: bool = connection
        .prepare_cached("SELECT authenticated FROM jobs WHERE job = ?")?
        .query_row([Coded(key)], |row| row.get(0))?;
    connection
        .prepare_cached(
            "UPDATE jobs SET version = version + 1, shortest_gap = ?, shortest_retry = ?,
                 authenticated = ?, search = ?, definition = ? WHERE job = ?",
        )?
        .execute((
            facts.shortest_gap.map(ticks),
            facts.shortest_retry.map(ticks),
            facts.authenticated,
            search_text(definition),
            write_definition(definition, before.job.uid, keeper)?,
            Coded(key),
        ))?;
    connection.prepare_cached("DELETE FROM tags WHERE job = ?")?.execute([Coded(key)])?;
    insert_tags(connection, key, put)?;
    let JobState { lifecycle, due, used, last_execution, executions, failures, faulted, finished } =
        *state;
    connection
        .prepare_cached(
            "UPDATE state SET generation = generation + 1, switched_on = ?, lifecycle = ?, due = ?,
                 used = ?, last_execution = ?, executions = ?, failures = ?, faulted = ?,
                 finished = ? WHERE job = ?",
        )?
        .execute((
            is_on(definition.switch),
            Coded(lifecycle),
            due.map(Coded),
            Coded(used),
            last_execution.map(Coded),
            Coded(executions),
            Coded(failures),
            Coded(faulted),
            finished.map(Coded),
            Coded(key),
        ))?;
    if let Waiting::Close(disposition) = *waiting {
        runs::close_waiting(connection, key, disposition, now)?;
    }
    if let Some(passed) = passed {
        crate::sqlite::history::close(connection, key, passed)?;
    }
    let change = i64::from(facts.authenticated) - i64::from(was_authenticated);
    recount(connection, collection, 0, change)
}

fn insert_tags(connection: &Connection, key: JobKey, put: &JobPut) -> Worked<()> {
    for (name, value) in put.definition.extensions.tags.iter().flatten() {
        connection
            .prepare_cached("INSERT OR IGNORE INTO tags (job, name_key, value) VALUES (?, ?, ?)")?
            .execute((Coded(key), name.to_ascii_uppercase(), value))?;
    }
    Ok(())
}

/// Deletes a job with its runs, its history and its part of the ledger.
pub(crate) fn delete_job(connection: &Connection, key: JobKey) -> Worked<()> {
    let deleted: Option<(i64, i64)> = connection
        .prepare_cached("DELETE FROM jobs WHERE job = ? RETURNING collection, authenticated")?
        .query_row([Coded(key)], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match deleted {
        Some((collection, authenticated)) => recount(connection, collection, -1, -authenticated),
        None => Ok(()),
    }
}
