//! Edits of collections and jobs, decided on what is there now.

use std::cell::RefCell;
use std::collections::BTreeSet;

use kalends_domain::{CollectionPath, JobDefinition, JobName, JobPath, Switch};
use kalends_recurrence::Instant;
use rusqlite::Connection;

use crate::error::StoreError;
use crate::record::{
    CollectionFacts, CollectionRecord, Job, JobKey, JobRecord, JobUid, enabled_since,
};
use crate::search::search_text;
use crate::sqlite::chain::close;
use crate::sqlite::code::Coded;
use crate::sqlite::collections::{self, CollectionRow, recount, ticks};
use crate::sqlite::desk::Desk;
use crate::sqlite::jobs::{self, Kept};
use crate::sqlite::names::{CollectionKeys, PathKeys};
use crate::sqlite::removal::{delete_collection, delete_job};
use crate::sqlite::runs;
use crate::sqlite::state::{StateRow, States as _};
use crate::sqlite::trouble::Worked;
use crate::store::{
    CollectionContext, CollectionWrite, DecideCollection, DecideJob, Edited, JobContext, JobPut,
    JobWrite, WaitingRuns,
};
use crate::stored_form::{DefinitionCodec, write_definition};

/// Makes, changes or deletes a collection as `decide` says.
pub(crate) fn edit_collection(
    desk: &mut Desk,
    path: &CollectionPath,
    mut decide: DecideCollection,
    now: Instant,
) -> Worked<Edited<CollectionRecord>> {
    let connection = desk.connection();
    let keys = CollectionKeys::new(path);
    let found = collections::find(connection, &keys)?;
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
            id.map(|id| delete_collection(desk, id)).transpose()?;
            None
        }
        (CollectionWrite::Put(collection), id) => {
            match id {
                Some(id) => {
                    let since = enabled_since(before.as_ref(), &collection, now);
                    collections::update(connection, id, &collection, since)?;
                }
                None => collections::insert(connection, path, &collection, now)?,
            }
            let after = collections::find(connection, &keys)?.map(|found| found.record);
            desk.forget_collections();
            after
        }
    };
    Ok(Edited { before, after })
}

/// Makes, changes or deletes a job as `decide` says.
pub(crate) fn edit_job(
    desk: &mut Desk,
    codec: &DefinitionCodec,
    path: &JobPath,
    mut decide: DecideJob,
    now: Instant,
) -> Worked<Edited<JobRecord>> {
    let keys = PathKeys::new(path);
    let found = collections::find(desk.connection(), &keys.collection)?;
    let CollectionRow { id, record: collection, jobs } = found.ok_or(StoreError::NoCollection)?;
    let kept = jobs::find(desk, codec, (id, &collection.path), &keys)?;
    let before = kept.as_ref().map(|kept| &kept.record);
    let context = JobContext { collection: &collection, jobs, existing: before };
    let write = decide(context).map_err(StoreError::Refused)?;
    let after = match (write, &kept) {
        (JobWrite::Keep, _) => before.cloned(),
        (JobWrite::Delete, None) | (JobWrite::Run { .. }, None) => None,
        (JobWrite::Delete, Some(kept)) => {
            delete_job(desk, kept.record.key)?;
            None
        }
        (JobWrite::Run { at }, Some(Kept { record: job, .. })) => {
            runs::open_manual(desk, job.key, id, job.job.generation, at);
            before.cloned()
        }
        (JobWrite::Put(put), Some(kept)) => Some(update_job(desk, codec, kept, *put, now)?),
        (JobWrite::Put(put), None) => {
            let path = JobPath { collection: collection.path.clone(), job: path.job.clone() };
            let after = insert_job(desk, codec, id, path, *put)?;
            desk.memory.names.learn(&keys, after.key);
            Some(after)
        }
    };
    Ok(Edited { before: kept.map(|kept| kept.record), after })
}

fn insert_job(
    desk: &mut Desk,
    codec: &DefinitionCodec,
    collection: i64,
    path: JobPath,
    put: JobPut,
) -> Worked<JobRecord> {
    let connection = desk.connection();
    let JobPut { uid, created, definition, facts, state, .. } = put;
    let JobUid(uid_bytes) = uid;
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
            uid_bytes,
            Coded(created),
            facts.shortest_gap.map(ticks),
            facts.shortest_retry.map(ticks),
            facts.authenticated,
            search_text(&definition),
            write_definition(&definition, uid, codec)?,
        ))?;
    let key = JobKey(connection.last_insert_rowid());
    insert_tags(connection, (collection, &path.job), key, &tag_rows(&definition))?;
    let row = StateRow {
        collection,
        generation: 1,
        switched_on: definition.switch == Switch::Enabled,
        state,
        entries: 0,
        newest_entry: 0,
        newest_closing: 0,
    };
    recount(connection, collection, 1, i64::from(facts.authenticated))?;
    desk.add_state(key, &row)?;
    let job = Job { uid, created, definition, generation: 1 };
    Ok(JobRecord { key, path, job, state, version: 1 })
}

fn update_job(
    desk: &mut Desk,
    codec: &DefinitionCodec,
    kept: &Kept,
    put: JobPut,
    now: Instant,
) -> Worked<JobRecord> {
    let Kept { record: before, row, .. } = kept;
    let JobPut { definition, facts, state, waiting, closed_by_edit, .. } = put;
    let (key, uid) = (before.key, before.job.uid);
    let connection = desk.connection();
    connection
        .prepare_cached(
            "UPDATE jobs SET version = version + 1, authenticated = ?, search = ?, definition = ?
             WHERE job = ?",
        )?
        .execute((
            facts.authenticated,
            search_text(&definition),
            write_definition(&definition, uid, codec)?,
            Coded(key),
        ))?;
    // Apart, for it changes pages of two indexes even where they stay the same.
    let (gap, retry) = (facts.shortest_gap.map(ticks), facts.shortest_retry.map(ticks));
    if (gap, retry) != kept.shortest {
        connection
            .prepare_cached("UPDATE jobs SET shortest_gap = ?, shortest_retry = ? WHERE job = ?")?
            .execute((gap, retry, Coded(key)))?;
    }
    let (tags, tags_before) = (tag_rows(&definition), tag_rows(&before.job.definition));
    for (tag, value) in tags_before.difference(&tags) {
        connection
            .prepare_cached("DELETE FROM tags WHERE job = ? AND name_key = ? AND value = ?")?
            .execute((Coded(key), tag, value))?;
    }
    let at = (row.collection, &before.path.job);
    insert_tags(connection, at, key, tags.difference(&tags_before))?;
    let change = i64::from(facts.authenticated) - i64::from(kept.authenticated);
    recount(connection, row.collection, 0, change)?;
    let mut after = StateRow {
        generation: row.generation + 1,
        switched_on: definition.switch == Switch::Enabled,
        state,
        ..*row
    };
    if let WaitingRuns::Close(disposition) = waiting {
        runs::close_waiting(desk, key, &mut after, disposition, now)?;
    }
    if let Some(closed_by_edit) = &closed_by_edit {
        close(desk, key, &mut after, closed_by_edit)?;
    }
    desk.set_state(key, row, Some(after))?;
    let job = Job { uid, created: before.job.created, definition, generation: after.generation };
    Ok(JobRecord { key, path: before.path.clone(), job, state, version: before.version + 1 })
}

/// The tags of a job as they are found: by name without regard to case, and value.
fn tag_rows(definition: &JobDefinition) -> BTreeSet<(String, &str)> {
    let tags = definition.extensions.tags.iter().flatten();
    tags.map(|(tag, value)| (tag.to_ascii_uppercase(), value.as_str())).collect()
}

fn insert_tags<'a>(
    connection: &Connection,
    (collection, name): (i64, &JobName),
    key: JobKey,
    tags: impl IntoIterator<Item = &'a (String, &'a str)>,
) -> Worked<()> {
    for (tag, value) in tags {
        connection
            .prepare_cached(
                "INSERT INTO tags (job, name_key, value, collection, job_key)
                 VALUES (?, ?, ?, ?, ?)",
            )?
            .execute((Coded(key), tag, value, collection, name.key()))?;
    }
    Ok(())
}
