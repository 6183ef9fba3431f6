//! A job is made, changed, run or deleted.

use std::collections::BTreeSet;

use deadpool_postgres::Transaction;
use kalends_domain::{CollectionState, JobDefinition, JobPath, Switch};
use kalends_recurrence::Instant;

use crate::error::StoreError;
use crate::postgres::call::{Work, change, rows};
use crate::postgres::clock::clock;
use crate::postgres::code::{Code, ticks, without_nul};
use crate::postgres::columns::{job_columns, ledger_columns, state_columns};
use crate::postgres::commit::write_ledger;
use crate::postgres::edit_collection::{Locked, lock_collection};
use crate::postgres::fault::Fault;
use crate::postgres::removal::delete_jobs;
use crate::postgres::row::{get, job};
use crate::record::{Cause, Disposition, Job, JobFacts, JobKey, JobRecord, JobState, Progress};
use crate::search::search_text;
use crate::store::{DecideJob, Edited, JobContext, JobPut, JobWrite, WaitingRuns};
use crate::stored_form::{DefinitionCodec, write_definition};

/// Makes, changes, runs or deletes a job as `decide` says.
pub(super) struct EditJob<'a> {
    pub(super) path: JobPath,
    pub(super) decide: DecideJob,
    pub(super) codec: &'a DefinitionCodec,
}

impl Work for EditJob<'_> {
    type Answer = Edited<JobRecord>;

    async fn carry_out(
        &mut self,
        transaction: &Transaction<'_>,
    ) -> Result<Edited<JobRecord>, Fault> {
        let collection = lock_collection(transaction, &self.path.collection).await?;
        let collection = collection.ok_or(StoreError::NoCollection)?;
        let before = self.lock_job(transaction, &collection).await?;
        let (record, jobs) = (&collection.record, collection.jobs);
        let context = JobContext { collection: record, jobs, existing: before.as_ref() };
        let write = (self.decide)(context).map_err(StoreError::Refused)?;
        let after = match (write, &before) {
            (JobWrite::Keep, _) => before.clone(),
            (JobWrite::Delete, None) | (JobWrite::Run { .. }, None) => None,
            (JobWrite::Delete, Some(job)) => {
                delete_jobs(transaction, &[job.key.0]).await?;
                let one_less = "UPDATE collections SET jobs = jobs - 1 WHERE id = $1";
                change(transaction, one_less, &[&collection.id]).await?;
                None
            }
            (JobWrite::Run { at }, Some(job)) => {
                open_manual_run(transaction, job, at).await?;
                before.clone()
            }
            (JobWrite::Put(put), Some(job)) => Some(self.replace(transaction, *put, job).await?),
            (JobWrite::Put(put), None) => Some(self.make(transaction, *put, &collection).await?),
        };
        Ok(Edited { before, after })
    }
}

// `&mut` throughout: who decides may not be shared between threads.
impl EditJob<'_> {
    /// Locks the job, where there is one.
    async fn lock_job(
        &mut self,
        transaction: &Transaction<'_>,
        collection: &Locked,
    ) -> Result<Option<JobRecord>, Fault> {
        let lock = concat!(
            "SELECT ",
            job_columns!(),
            " FROM jobs j JOIN states s ON s.job = j.key JOIN collections c ON c.id = j.collection_id
              JOIN groups g ON g.id = c.group_id
              WHERE j.collection_id = $1 AND j.job_key = $2 FOR UPDATE OF s"
        );
        let found = rows(transaction, lock, &[&collection.id, &self.path.job.key()]).await?;
        Ok(found.first().map(|row| job(row, self.codec)).transpose()?)
    }

    async fn make(
        &mut self,
        transaction: &Transaction<'_>,
        put: JobPut,
        collection: &Locked,
    ) -> Result<JobRecord, Fault> {
        let JobPut { uid, created, definition, facts, state, waiting: _, closed_by_edit: _ } = put;
        let path =
            JobPath { collection: collection.record.path.clone(), job: self.path.job.clone() };
        let text = write_definition(&definition, uid, self.codec)?;
        let make = "INSERT INTO jobs (collection_id, job_key, name, uid, created, version,
                definition, search, tags, shortest_gap, authenticated, shortest_retry)
             VALUES ($1, $2, $3, $4, $5, 1, $6, $7, $8, $9, $10, $11) RETURNING key";
        let (gap, authenticated, retry) = columns(facts);
        let made = rows(
            transaction,
            make,
            &[
                &collection.id,
                &path.job.key(),
                &path.job.as_str(),
                &uid.0.as_slice(),
                &created.ticks(),
                &text,
                &without_nul(&search_text(&definition)),
                &tags(&definition)?,
                &gap,
                &authenticated,
                &retry,
            ],
        )
        .await?;
        let key = made.first().map(|row| get::<i64>(row, "key")).transpose()?;
        let key = key.ok_or_else(|| StoreError::Failed("a job was not made".into()))?;
        let enabled = collection.record.collection.state == CollectionState::Enabled;
        let begin = concat!(
            "INSERT INTO states (generation, entries, job, collection_id, enabled,
                collection_enabled, ",
            state_columns!(""),
            ") VALUES (1, 0, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
        );
        let is_on = definition.switch == Switch::Enabled;
        let state_columns = StateColumns::of(state);
        let StateColumns { lifecycle, due, used, last, executions, failures, faulted, finished } =
            &state_columns;
        change(
            transaction,
            begin,
            &[
                &key,
                &collection.id,
                &is_on,
                &enabled,
                lifecycle,
                due,
                used,
                last,
                executions,
                failures,
                faulted,
                finished,
            ],
        )
        .await?;
        let one_more = "UPDATE collections SET jobs = jobs + 1 WHERE id = $1";
        change(transaction, one_more, &[&collection.id]).await?;
        let job = Job { uid, created, definition, generation: 1 };
        Ok(JobRecord { key: JobKey(key), path, job, state, version: 1 })
    }

    async fn replace(
        &mut self,
        transaction: &Transaction<'_>,
        put: JobPut,
        before: &JobRecord,
    ) -> Result<JobRecord, Fault> {
        let JobPut { definition, facts, state, waiting, closed_by_edit, .. } = put;
        let key = before.key.0;
        if let WaitingRuns::Close(disposition) = waiting {
            close_waiting(transaction, key, disposition).await?;
        }
        if let Some(closed_by_edit) = closed_by_edit {
            write_ledger(transaction, &[(before.key, closed_by_edit)]).await?;
        }
        let text = write_definition(&definition, before.job.uid, self.codec)?;
        let replace = "UPDATE jobs SET version = version + 1, definition = $2, search = $3,
                tags = $4, shortest_gap = $5, authenticated = $6, shortest_retry = $7
             WHERE key = $1";
        let (gap, authenticated, retry) = columns(facts);
        let search = without_nul(&search_text(&definition));
        let tags = tags(&definition)?;
        change(transaction, replace, &[&key, &text, &search, &tags, &gap, &authenticated, &retry])
            .await?;
        let restart = concat!(
            "UPDATE states SET generation = generation + 1, enabled = $2, (",
            state_columns!(""),
            ") = ($3, $4, $5, $6, $7, $8, $9, $10) WHERE job = $1"
        );
        let is_on = definition.switch == Switch::Enabled;
        let state_columns = StateColumns::of(state);
        let StateColumns { lifecycle, due, used, last, executions, failures, faulted, finished } =
            &state_columns;
        change(
            transaction,
            restart,
            &[&key, &is_on, lifecycle, due, used, last, executions, failures, faulted, finished],
        )
        .await?;
        let generation = before.job.generation + 1;
        let job = Job { definition, generation, ..before.job.clone() };
        let version = before.version + 1;
        Ok(JobRecord { key: before.key, path: before.path.clone(), job, state, version })
    }
}

/// A state as its columns hold it.
struct StateColumns {
    lifecycle: i16,
    due: Option<i64>,
    used: i64,
    last: Option<i64>,
    executions: i64,
    failures: i64,
    faulted: i64,
    finished: Option<i64>,
}

impl StateColumns {
    fn of(state: JobState) -> StateColumns {
        StateColumns {
            lifecycle: state.lifecycle.code(),
            due: state.due.map(Instant::ticks),
            used: state.used.cast_signed(),
            last: state.last_execution.map(Instant::ticks),
            executions: state.executions.cast_signed(),
            failures: state.failures.cast_signed(),
            faulted: state.faulted.cast_signed(),
            finished: state.finished.map(Instant::ticks),
        }
    }
}

fn columns(facts: JobFacts) -> (Option<i64>, bool, Option<i64>) {
    (facts.shortest_gap.map(ticks), facts.authenticated, facts.shortest_retry.map(ticks))
}

/// What a filter by tag is compared with: each name, alone and with its value.
fn tags(definition: &JobDefinition) -> Result<Vec<String>, StoreError> {
    let tags = definition.extensions.tags.iter().flatten();
    let both = tags.flat_map(|(name, value)| [tag(name, None), tag(name, Some(value))]);
    let distinct = both.collect::<Result<BTreeSet<_>, _>>()?;
    Ok(distinct.into_iter().collect())
}

/// A tag as a filter names it. JSON divides name and value, whatever is in them.
pub(super) fn tag(name: &str, value: Option<&str>) -> Result<String, StoreError> {
    serde_json::to_string(&(name.to_ascii_lowercase(), value))
        .map_err(|error| StoreError::Failed(error.to_string()))
}

async fn open_manual_run(
    transaction: &Transaction<'_>,
    job: &JobRecord,
    at: Instant,
) -> Result<(), Fault> {
    let open = "INSERT INTO runs (id, job, generation, scheduled, cause, repeat, role, retry,
            redelivery, next_at, last_token)
         VALUES (nextval('run_ids'), $1, $2, $3, $4, 0, $5, 0, 0, $3, 0)";
    let (generation, cause) = (job.job.generation.cast_signed(), Cause::Manual.code());
    let role = Progress::first(at).role.code();
    change(transaction, open, &[&job.key.0, &generation, &at.ticks(), &cause, &role]).await?;
    Ok(())
}

async fn close_waiting(
    transaction: &Transaction<'_>,
    job: i64,
    disposition: Disposition,
) -> Result<(), Fault> {
    let now = clock(transaction).await?;
    let close = concat!(
        "WITH gone AS (
            DELETE FROM runs WHERE job = $1 AND owner IS NULL
            RETURNING id, generation, scheduled, cause
         )
         INSERT INTO ledger (job, ",
        ledger_columns!(""),
        ") SELECT $1, scheduled, scheduled, generation, 1, cause, $2, $3 FROM gone ORDER BY id"
    );
    change(transaction, close, &[&job, &disposition.code(), &now.ticks()]).await?;
    Ok(())
}
