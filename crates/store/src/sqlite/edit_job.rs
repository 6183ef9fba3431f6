//! Edits of jobs, decided inside the write transaction.

use std::collections::BTreeSet;

use kalends_domain::{JobDefinition, JobName, JobPath, NewNote, Switch};
use kalends_recurrence::{Instant, duration_to_ticks};
use rusqlite::Connection;

use crate::api_store::{DecideJob, EditedJob, JobContext, JobPut, JobWrite, active_pause};
use crate::error::StoreError;
use crate::notes::action_on_job;
use crate::record::{
    CollectionStatus, EarlierDefinition, Job, JobKey, JobRecord, JobUid, edited_job,
};
use crate::run_state::state_after_run_request;
use crate::search::search_text;
use crate::sqlite::chain::append_ledger;
use crate::sqlite::code::Coded;
use crate::sqlite::collections::{self, CollectionRow, recount};
use crate::sqlite::earlier_definitions;
use crate::sqlite::error::{SqliteError, SqliteResult};
use crate::sqlite::jobs::{self, EditableJob};
use crate::sqlite::notes::{self, SubjectKey};
use crate::sqlite::path_keys::PathKeys;
use crate::sqlite::removal::delete_job;
use crate::sqlite::runs;
use crate::sqlite::state::{ReadState as _, StateRow};
use crate::sqlite::write_back::WriteTransaction;
use crate::stored_form::{DefinitionCodec, write_definition};

/// Creates, changes or deletes a job as `decide` returns, and adds the note.
pub(crate) fn edit_job(
    transaction: &mut WriteTransaction,
    codec: &DefinitionCodec,
    path: &JobPath,
    mut decide: DecideJob,
    note: Option<&NewNote>,
    now: Instant,
) -> SqliteResult<EditedJob> {
    let keys = PathKeys::new(path);
    let found = collections::find(transaction.connection(), &keys.collection)?;
    let CollectionRow { id, record: collection, jobs } = found.ok_or(StoreError::NoCollection)?;
    let (existing, unreadable) = match jobs::find(transaction, codec, (id, &collection.path), &keys)
    {
        Err(SqliteError::Store(StoreError::Unreadable(mut jobs))) => (None, jobs.pop()),
        existing => (existing?, None),
    };
    let before = existing.as_ref().map(|existing| &existing.record);
    let open = before.map(|job| transaction.runs_of(job.key)).unwrap_or_default();
    let open: Vec<_> = open.iter().map(|row| row.run).collect();
    let pause = transaction.pause_record();
    let context = JobContext {
        collection: &collection,
        jobs,
        existing: before,
        unreadable: unreadable.as_ref(),
        now,
        open: &open,
        pause: active_pause(pause.as_ref(), now),
    };
    let write = decide(context).map_err(StoreError::Rejected)?;
    let action = action_on_job(&write, before);
    if let Some(job) = unreadable {
        match write {
            // The new job replaces it; its runs, history and ledger are deleted.
            JobWrite::Put(_) | JobWrite::Delete => delete_job(transaction, job.key)?,
            JobWrite::Keep | JobWrite::Run { .. } => {
                return Err(StoreError::Unreadable(vec![job]).into());
            }
        }
    }
    let after = match (write, &existing) {
        (JobWrite::Keep, _) => before.cloned(),
        (JobWrite::Delete, None) | (JobWrite::Run { .. }, None) => None,
        (JobWrite::Delete, Some(existing)) => {
            delete_job(transaction, existing.record.key)?;
            None
        }
        (JobWrite::Run { at }, Some(EditableJob { record: job, row, .. })) => {
            runs::open_manual(transaction, job.key, id, job.job.generation, at);
            let state = state_after_run_request(job.state, at);
            if state != job.state {
                transaction.set_state(job.key, row, Some(StateRow { state, ..*row }))?;
            }
            Some(JobRecord { state, ..job.clone() })
        }
        (JobWrite::Put(put), Some(existing)) => {
            if EarlierDefinition::is_retained(&existing.record, &open) {
                earlier_definitions::retain(transaction.connection(), &existing.record, now)?;
            }
            Some(update_job(transaction, codec, existing, *put, now)?)
        }
        (JobWrite::Put(put), None) => {
            let path = JobPath { collection: collection.path.clone(), job: path.job.clone() };
            Some(insert_job(transaction, codec, id, path, *put)?)
        }
    };
    if let (Some(note), Some(action), Some(job)) = (note, action, &after) {
        notes::add(transaction.connection(), SubjectKey::job(id, job.key), action, note, now)?;
    }
    let is_paused = active_pause(pause.as_ref(), now).is_some();
    let collection = CollectionStatus { state: collection.collection.state, is_paused };
    Ok(EditedJob { before: existing.map(|existing| existing.record), after, collection })
}

fn insert_job(
    transaction: &mut WriteTransaction,
    codec: &DefinitionCodec,
    collection: i64,
    path: JobPath,
    put: JobPut,
) -> SqliteResult<JobRecord> {
    let connection = transaction.connection();
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
            facts.shortest_gap.map(duration_to_ticks),
            facts.shortest_retry.map(duration_to_ticks),
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
        newest_ledger_row: 0,
        schedule_generation: 1,
        enabled_since: None,
    };
    recount(connection, collection, 1, i64::from(facts.authenticated))?;
    transaction.add_state(key, &row)?;
    let (generation, schedule_generation, enabled_since) = (1, 1, None);
    let job = Job { uid, created, definition, generation, schedule_generation, enabled_since };
    Ok(JobRecord { key, path, job, state, version: 1 })
}

fn update_job(
    transaction: &mut WriteTransaction,
    codec: &DefinitionCodec,
    existing: &EditableJob,
    put: JobPut,
    now: Instant,
) -> SqliteResult<JobRecord> {
    let EditableJob { record: before, row, .. } = existing;
    let JobPut { definition, facts, state, waiting, closed_by_edit, .. } = put;
    let (key, uid) = (before.key, before.job.uid);
    let connection = transaction.connection();
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
    // Separate, because it would write pages of two indexes even if the values stay the same.
    let (gap, retry) =
        (facts.shortest_gap.map(duration_to_ticks), facts.shortest_retry.map(duration_to_ticks));
    if (gap, retry) != existing.shortest {
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
    let change = i64::from(facts.authenticated) - i64::from(existing.authenticated);
    recount(connection, row.collection, 0, change)?;
    let switched_on = definition.switch == Switch::Enabled;
    let job = edited_job(&before.job, definition, waiting, now);
    let mut after = StateRow {
        generation: job.generation,
        switched_on,
        state,
        schedule_generation: job.schedule_generation,
        enabled_since: job.enabled_since,
        ..*row
    };
    runs::adapt_to_edit(transaction, key, &mut after, waiting, now)?;
    if let Some(closed_by_edit) = &closed_by_edit {
        append_ledger(transaction, key, &mut after, closed_by_edit)?;
    }
    transaction.set_state(key, row, Some(after))?;
    Ok(JobRecord { key, path: before.path.clone(), job, state, version: before.version + 1 })
}

/// The tags of a job as indexed: name in upper case, and value.
pub(crate) fn tag_rows(definition: &JobDefinition) -> BTreeSet<(String, &str)> {
    let tags = definition.extensions.tags.iter().flatten();
    tags.map(|(tag, value)| (tag.to_ascii_uppercase(), value.as_str())).collect()
}

pub(crate) fn insert_tags<'a>(
    connection: &Connection,
    (collection, name): (i64, &JobName),
    key: JobKey,
    tags: impl IntoIterator<Item = &'a (String, &'a str)>,
) -> SqliteResult<()> {
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
