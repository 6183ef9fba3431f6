//! Creates, replaces, runs or deletes a job.

use std::collections::BTreeSet;

use deadpool_postgres::Transaction;
use kalends_domain::{ClosedRun, JobDefinition, JobPath, NewNote, Switch};
use kalends_recurrence::{Instant, duration_to_ticks};
use tokio_postgres::types::ToSql;

use crate::api_store::{
    DecideJob, EditedJob, JobContext, JobPut, JobWrite, WaitingRuns, active_pause,
};
use crate::error::StoreError;
use crate::notes::action_on_job;
use crate::postgres::code::{Code, without_nul};
use crate::postgres::columns::{job_columns, run_columns, state_columns};
use crate::postgres::commit::{ClosedRow, close_runs, open_runs, write_ledger};
use crate::postgres::due_floor::lower_due_floor;
use crate::postgres::edit_collection::{LockedCollection, lock_collection};
use crate::postgres::error::PostgresError;
use crate::postgres::notes::{SubjectKey, add_note};
use crate::postgres::pause::clock_and_pause;
use crate::postgres::removal::delete_jobs;
use crate::postgres::row::{get, job, run};
use crate::postgres::transaction::{Operation, execute, query};
use crate::record::{
    CollectionStatus, Job, JobFacts, JobKey, JobRecord, JobState, LedgerRecord, OpenRun, RunId,
    edited_job,
};
use crate::run_state::{close_superseded_run, manual_run, state_after_run_request};
use crate::search::search_text;
use crate::stored_form::{DefinitionCodec, write_definition};

/// Creates, replaces, runs or deletes a job as `decide` returns, and adds the note.
pub(super) struct EditJob<'a> {
    pub(super) path: JobPath,
    pub(super) decide: DecideJob,
    pub(super) note: Option<NewNote>,
    pub(super) codec: &'a DefinitionCodec,
}

impl Operation for EditJob<'_> {
    type Output = EditedJob;

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<EditedJob, PostgresError> {
        let collection = lock_collection(transaction, &self.path.collection).await?;
        let collection = collection.ok_or(StoreError::NoCollection)?;
        let (before, unreadable) = match self.lock_job(transaction, &collection).await {
            Err(PostgresError::Store(StoreError::Unreadable(mut jobs))) => (None, jobs.pop()),
            before => (before?, None),
        };
        // A statement of its own: one that waits for a lock reads the clock before it waits.
        let (now, pause) = clock_and_pause(transaction).await?;
        let open = match &before {
            Some(job) => open_runs_of(transaction, job.key).await?,
            None => vec![],
        };
        let context = JobContext {
            collection: &collection.record,
            jobs: collection.jobs,
            existing: before.as_ref(),
            unreadable: unreadable.as_ref(),
            now,
            open: &open,
            pause: active_pause(pause.as_ref(), now),
        };
        let write = (self.decide)(context).map_err(StoreError::Rejected)?;
        let action = action_on_job(&write, before.as_ref());
        if let Some(job) = unreadable {
            match write {
                // The new job replaces it; its runs, history and ledger are deleted.
                JobWrite::Put(_) | JobWrite::Delete => {
                    delete_job(transaction, job.key, collection.id).await?;
                }
                JobWrite::Keep | JobWrite::Run { .. } => {
                    return Err(StoreError::Unreadable(vec![job]).into());
                }
            }
        }
        let after = match (write, &before) {
            (JobWrite::Keep, _) => before.clone(),
            (JobWrite::Delete, None) | (JobWrite::Run { .. }, None) => None,
            (JobWrite::Delete, Some(job)) => {
                delete_job(transaction, job.key, collection.id).await?;
                None
            }
            (JobWrite::Run { at }, Some(job)) => {
                open_manual_run(transaction, job, at).await?;
                let state = state_after_run_request(job.state, at);
                if state != job.state {
                    let update = "UPDATE states SET finished = $2 WHERE job = $1";
                    let finished = state.finished.map(Instant::ticks);
                    execute(transaction, update, &[&job.key.0, &finished]).await?;
                }
                Some(JobRecord { state, ..job.clone() })
            }
            (JobWrite::Put(put), Some(job)) => {
                lower_due_floor(transaction, collection.id, put.state.due).await?;
                Some(self.replace(transaction, *put, (collection.id, job), &open, now).await?)
            }
            (JobWrite::Put(put), None) => Some(self.create(transaction, *put, &collection).await?),
        };
        if let (Some(note), Some(action), Some(job)) = (&self.note, action, &after) {
            let subject = SubjectKey::job(collection.id, job.key);
            add_note(transaction, subject, action, note, now).await?;
        }
        let is_paused = active_pause(pause.as_ref(), now).is_some();
        let collection = CollectionStatus { state: collection.record.collection.state, is_paused };
        Ok(EditedJob { before, after, collection })
    }
}

/// Deletes a job and counts it out of its collection.
async fn delete_job(
    transaction: &Transaction<'_>,
    job: JobKey,
    collection: i64,
) -> Result<(), PostgresError> {
    delete_jobs(transaction, &[job.0]).await?;
    let one_less = "UPDATE collections SET jobs = jobs - 1 WHERE id = $1";
    execute(transaction, one_less, &[&collection]).await?;
    Ok(())
}

// `&mut self` throughout: `decide` is `Send` but not `Sync`.
impl EditJob<'_> {
    /// Locks the job until the commit; `None` if it does not exist.
    async fn lock_job(
        &mut self,
        transaction: &Transaction<'_>,
        collection: &LockedCollection,
    ) -> Result<Option<JobRecord>, PostgresError> {
        let lock = concat!(
            "SELECT ",
            job_columns!(),
            " FROM jobs j JOIN states s ON s.job = j.key JOIN collections c ON c.id = j.collection_id
              JOIN groups g ON g.id = c.group_id
              WHERE j.collection_id = $1 AND j.job_key = $2 FOR UPDATE OF s"
        );
        let found = query(transaction, lock, &[&collection.id, &self.path.job.key()]).await?;
        Ok(found.first().map(|row| job(row, self.codec)).transpose()?)
    }

    async fn create(
        &mut self,
        transaction: &Transaction<'_>,
        put: JobPut,
        collection: &LockedCollection,
    ) -> Result<JobRecord, PostgresError> {
        let JobPut { uid, created, definition, facts, state, waiting: _, closed_by_edit: _ } = put;
        let path =
            JobPath { collection: collection.record.path.clone(), job: self.path.job.clone() };
        let text = write_definition(&definition, uid, self.codec)?;
        let insert = "INSERT INTO jobs (collection_id, job_key, name, uid, created, version,
                definition, search, tags, shortest_gap, authenticated, shortest_retry)
             VALUES ($1, $2, $3, $4, $5, 1, $6, $7, $8, $9, $10, $11) RETURNING key";
        let (gap, authenticated, retry) = fact_columns(facts);
        let inserted = query(
            transaction,
            insert,
            &[
                &collection.id,
                &path.job.key(),
                &path.job.as_str(),
                &uid.0.as_slice(),
                &created.ticks(),
                &text,
                &without_nul(&search_text(&definition)),
                &tag_keys(&definition)?,
                &gap,
                &authenticated,
                &retry,
            ],
        )
        .await?;
        let key = inserted.first().map(|row| get::<i64>(row, "key")).transpose()?;
        let key =
            key.ok_or_else(|| StoreError::Failed("the insert of a job returned no key".into()))?;
        let insert_state = concat!(
            "INSERT INTO states (generation, schedule_generation, entries, job, collection_id,
                enabled, ",
            state_columns!(""),
            ") VALUES (1, 1, 0, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
        );
        let is_on = definition.switch == Switch::Enabled;
        let state_columns = StateColumns::of(state);
        let [
            lifecycle,
            due,
            used,
            last,
            executions,
            failures,
            faulted,
            finished,
            consecutive,
            skip_until,
        ] = state_columns.values();
        execute(
            transaction,
            insert_state,
            &[
                &key,
                &collection.id,
                &is_on,
                lifecycle,
                due,
                used,
                last,
                executions,
                failures,
                faulted,
                finished,
                consecutive,
                skip_until,
            ],
        )
        .await?;
        lower_due_floor(transaction, collection.id, state.due).await?;
        let one_more = "UPDATE collections SET jobs = jobs + 1 WHERE id = $1";
        execute(transaction, one_more, &[&collection.id]).await?;
        let (generation, schedule_generation, enabled_since) = (1, 1, None);
        let job = Job { uid, created, definition, generation, schedule_generation, enabled_since };
        Ok(JobRecord { key: JobKey(key), path, job, state, version: 1 })
    }

    async fn replace(
        &mut self,
        transaction: &Transaction<'_>,
        put: JobPut,
        (collection, before): (i64, &JobRecord),
        open: &[OpenRun],
        now: Instant,
    ) -> Result<JobRecord, PostgresError> {
        let JobPut { definition, facts, state, waiting, closed_by_edit, .. } = put;
        let key = before.key.0;
        if waiting == WaitingRuns::Supersede {
            close_superseded_runs(transaction, collection, open, now).await?;
        }
        // The edit may have changed the host that they wait for.
        if open.iter().any(|run| run.waits_for.is_some()) {
            let unpark =
                "UPDATE runs SET waits_for = NULL WHERE job = $1 AND waits_for IS NOT NULL";
            execute(transaction, unpark, &[&key]).await?;
        }
        if let Some(closed_by_edit) = closed_by_edit {
            let row = closed_row(before.key, collection, closed_by_edit);
            write_ledger(transaction, &[row]).await?;
        }
        let text = write_definition(&definition, before.job.uid, self.codec)?;
        let update = "UPDATE jobs SET version = version + 1, definition = $2, search = $3,
                tags = $4, shortest_gap = $5, authenticated = $6, shortest_retry = $7
             WHERE key = $1";
        let (gap, authenticated, retry) = fact_columns(facts);
        let search = without_nul(&search_text(&definition));
        let tags = tag_keys(&definition)?;
        execute(transaction, update, &[&key, &text, &search, &tags, &gap, &authenticated, &retry])
            .await?;
        let update_state = concat!(
            "UPDATE states SET generation = $13, schedule_generation = $14, enabled_since = $15,
                enabled = $2, (",
            state_columns!(""),
            ") = ($3, $4, $5, $6, $7, $8, $9, $10, $11, $12) WHERE job = $1"
        );
        let is_on = definition.switch == Switch::Enabled;
        let job = edited_job(&before.job, definition, waiting, now);
        let (generation, schedule_generation, enabled_since) = (
            job.generation.cast_signed(),
            job.schedule_generation.cast_signed(),
            job.enabled_since.map(Instant::ticks),
        );
        let state_columns = StateColumns::of(state);
        let [
            lifecycle,
            due,
            used,
            last,
            executions,
            failures,
            faulted,
            finished,
            consecutive,
            skip_until,
        ] = state_columns.values();
        execute(
            transaction,
            update_state,
            &[
                &key,
                &is_on,
                lifecycle,
                due,
                used,
                last,
                executions,
                failures,
                faulted,
                finished,
                consecutive,
                skip_until,
                &generation,
                &schedule_generation,
                &enabled_since,
            ],
        )
        .await?;
        let version = before.version + 1;
        Ok(JobRecord { key: before.key, path: before.path.clone(), job, state, version })
    }
}

/// The values of `state_columns!`, in the same order.
struct StateColumns {
    lifecycle: i16,
    due: Option<i64>,
    used: i64,
    last: Option<i64>,
    executions: i64,
    failures: i64,
    faulted: i64,
    finished: Option<i64>,
    consecutive_failures: i64,
    skip_until: Option<i64>,
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
            consecutive_failures: state.consecutive_failures.cast_signed(),
            skip_until: state.skip_until.map(Instant::ticks),
        }
    }

    fn values(&self) -> [&(dyn ToSql + Sync); 10] {
        [
            &self.lifecycle,
            &self.due,
            &self.used,
            &self.last,
            &self.executions,
            &self.failures,
            &self.faulted,
            &self.finished,
            &self.consecutive_failures,
            &self.skip_until,
        ]
    }
}

/// Shortest gap, whether authenticated, shortest retry.
fn fact_columns(facts: JobFacts) -> (Option<i64>, bool, Option<i64>) {
    (
        facts.shortest_gap.map(duration_to_ticks),
        facts.authenticated,
        facts.shortest_retry.map(duration_to_ticks),
    )
}

/// The search keys of a job's tags: each name alone, and each name with its value.
pub(super) fn tag_keys(definition: &JobDefinition) -> Result<Vec<String>, StoreError> {
    let tags = definition.extensions.tags.iter().flatten();
    let both = tags.flat_map(|(name, value)| [tag_key(name, None), tag_key(name, Some(value))]);
    let distinct = both.collect::<Result<BTreeSet<_>, _>>()?;
    Ok(distinct.into_iter().collect())
}

/// The search key of a tag, as JSON: unambiguous for any name and value.
pub(super) fn tag_key(name: &str, value: Option<&str>) -> Result<String, StoreError> {
    serde_json::to_string(&(name.to_ascii_lowercase(), value))
        .map_err(|error| StoreError::Failed(error.to_string()))
}

async fn open_manual_run(
    transaction: &Transaction<'_>,
    job: &JobRecord,
    at: Instant,
) -> Result<(), PostgresError> {
    let drawn = query(transaction, "SELECT nextval('run_ids') AS id", &[]).await?;
    let id = drawn.first().map(|row| get(row, "id")).transpose()?;
    let id = id.ok_or_else(|| StoreError::Failed("no run id was drawn".into()))?;
    open_runs(transaction, &[manual_run(RunId(id), job.key, job.job.generation, at)]).await
}

async fn open_runs_of(
    transaction: &Transaction<'_>,
    job: JobKey,
) -> Result<Vec<OpenRun>, PostgresError> {
    let read =
        concat!("SELECT ", run_columns!("r."), " FROM runs r WHERE r.job = $1 ORDER BY r.id");
    let open = query(transaction, read, &[&job.0]).await?;
    Ok(open.iter().map(run).collect::<Result<_, _>>()?)
}

/// The ledger row of an occurrence that an edit closes.
fn closed_row(job: JobKey, collection: i64, record: LedgerRecord) -> ClosedRow {
    let run = ClosedRun { record, execution: None };
    ClosedRow { job, collection: Some(collection), run }
}

async fn close_superseded_runs(
    transaction: &Transaction<'_>,
    collection: i64,
    open: &[OpenRun],
    now: Instant,
) -> Result<(), PostgresError> {
    let record = |run: &OpenRun| {
        Some((run.id, closed_row(run.job, collection, close_superseded_run(run, now)?)))
    };
    let (closed, records): (Vec<_>, Vec<_>) = open.iter().filter_map(record).unzip();
    close_runs(transaction, &closed).await?;
    write_ledger(transaction, &records).await
}
