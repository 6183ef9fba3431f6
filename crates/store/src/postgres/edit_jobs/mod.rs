//! Creates, replaces, runs and deletes jobs: edits of different jobs of one collection, in one
//! transaction. `queue` puts the edits together.
//!
//! The transaction locks the collection and the jobs, reads everything that the edits are decided on,
//! decides them one after the other in memory, and writes the changes with one statement per table. It
//! costs two round trips and a `COMMIT`, for any number of edits. An edit that is rejected writes
//! nothing, and the others go on.

mod queue;
mod write;

use std::collections::HashMap;

use kalends_domain::{CollectionPath, JobName, JobPath, NewNote, NoteAction};
use kalends_recurrence::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::api_store::{DecideJob, EditedJob, JobContext, JobWrite, active_pause};
use crate::error::StoreError;
use crate::notes::action_on_job;
use crate::postgres::columns::{job_columns, run_columns};
use crate::postgres::edit_collection::{LOCK_COLLECTION, LockedCollection, locked_collection};
use crate::postgres::error::PostgresError;
use crate::postgres::notes::{SubjectKey, add_notes};
use crate::postgres::pause::{CLOCK_AND_PAUSE, clock_and_pause_of};
use crate::postgres::row::{get, job, path_keys, run};
use crate::postgres::transaction::{Operation, Transaction};
use crate::record::{CollectionStatus, Job, JobKey, JobRecord, JobState, OpenRun, PauseRecord};
use crate::stored_form::DefinitionCodec;
pub(super) use queue::EditQueue;
use write::Writes;
pub(super) use write::{tag_key, tag_keys};

/// Creates, replaces, runs or deletes a job as `decide` returns, and adds the note.
pub(super) struct JobEdit {
    pub(super) job: JobName,
    pub(super) decide: DecideJob,
    pub(super) note: Option<NewNote>,
}

/// Edits of different jobs of one collection. The output has the outcome of each.
struct EditJobs<'a> {
    collection: &'a CollectionPath,
    edits: &'a mut [JobEdit],
    codec: &'a DefinitionCodec,
}

impl Operation for EditJobs<'_> {
    type Output = Vec<Result<EditedJob, StoreError>>;

    const READS_FIRST: bool = true;

    // The database would plan a statement anew for each length of its arrays, which takes longer than the
    // edit of one job.
    const BEGIN: &'static str = "BEGIN; SET LOCAL plan_cache_mode = force_generic_plan";

    async fn perform(
        &mut self,
        transaction: &Transaction<'_>,
    ) -> Result<Self::Output, PostgresError> {
        let names: Vec<_> = self.edits.iter().map(|edit| edit.job.key()).collect();
        let locked = lock(transaction, self.collection, &names, self.codec).await?;
        let Some(mut locked) = locked else {
            return Ok(self.edits.iter().map(|_| Err(StoreError::NoCollection)).collect());
        };
        let mut writes = Writes::default();
        let codec = self.codec;
        let decide = |edit: &mut JobEdit| locked.decide(edit, codec, &mut writes);
        let decided: Vec<_> = self.edits.iter_mut().map(decide).collect();
        let created = writes.write(transaction, locked.collection.id, locked.now).await?;
        let mut outcomes = Vec::with_capacity(decided.len());
        let mut notes = Vec::new();
        for (edit, decided) in self.edits.iter().zip(decided) {
            outcomes.push(match decided {
                Err(error) => Err(error),
                Ok(Decided { before, after, action }) => {
                    let after = locked.record(&edit.job, after, &created)?;
                    if let (Some(note), Some(action), Some(job)) = (&edit.note, action, &after) {
                        let subject = SubjectKey::job(locked.collection.id, job.key);
                        notes.push((subject, action, note.clone()));
                    }
                    Ok(EditedJob { before, after, collection: locked.status() })
                }
            });
        }
        add_notes(transaction, &notes, locked.now).await?;
        Ok(outcomes)
    }
}

/// The state that the edits are decided on. It does not change until the commit.
struct Locked {
    collection: LockedCollection,
    /// The jobs that exist, by the key of their name.
    jobs: HashMap<String, FoundJob>,
    now: Instant,
    /// The newest pause.
    pause: Option<PauseRecord>,
}

struct FoundJob {
    job: Result<JobRecord, StoreError>,
    open: Result<Vec<OpenRun>, StoreError>,
}

/// The effect of an edit.
struct Decided {
    before: Option<JobRecord>,
    after: After,
    action: Option<NoteAction>,
}

/// A job after an edit.
enum After {
    /// `None` if it does not exist.
    Existing(Option<JobRecord>),
    /// The job that is created at this place.
    New { place: usize, job: Job, state: JobState },
}

/// Selects the jobs of `$4` in the collection `$1`, `$2`, `$3`.
macro_rules! named_jobs {
    () => {
        " FROM groups g JOIN collections c ON c.group_id = g.id
          JOIN jobs j ON j.collection_id = c.id JOIN states s ON s.job = j.key
          WHERE g.subscription_key = $1 AND g.group_key = $2 AND c.collection_key = $3
            AND j.job_key = ANY ($4::text[])"
    };
}

/// Locks the collection and the jobs with these names until the commit; `None` if there is no such
/// collection.
async fn lock(
    transaction: &Transaction<'_>,
    path: &CollectionPath,
    names: &[String],
    codec: &DefinitionCodec,
) -> Result<Option<Locked>, PostgresError> {
    const LOCK_JOBS: &str = concat!(
        "SELECT j.job_key, ",
        job_columns!(),
        named_jobs!(),
        " ORDER BY s.job FOR UPDATE OF s"
    );
    const READ_RUNS: &str = concat!(
        "SELECT ",
        run_columns!("r."),
        " FROM runs r WHERE r.job IN (SELECT j.key",
        named_jobs!(),
        ") ORDER BY r.id"
    );
    // Prepared first, so that the queries are pipelined in this order. Each statement sees the commits
    // before it began, so the reads must follow the locks; so must the clock, because a statement that
    // waits for a lock reads the clock before it waits.
    let (lock_collection, lock_jobs, read_runs, clock) = tokio::try_join!(
        biased;
        transaction.prepare_cached(LOCK_COLLECTION),
        transaction.prepare_cached(LOCK_JOBS),
        transaction.prepare_cached(READ_RUNS),
        transaction.prepare_cached(CLOCK_AND_PAUSE),
    )?;
    let [subscription, group, collection] = path_keys(path);
    let all: [&(dyn ToSql + Sync); 4] = [&subscription, &group, &collection, &names];
    let path: [&(dyn ToSql + Sync); 3] = [&subscription, &group, &collection];
    let (collection, jobs, runs, clock) = tokio::try_join!(
        biased;
        transaction.query(&lock_collection, &path),
        transaction.query(&lock_jobs, &all),
        transaction.query(&read_runs, &all),
        transaction.query(&clock, &[]),
    )?;
    let Some(collection) = locked_collection(&collection)? else { return Ok(None) };
    let (now, pause) = clock_and_pause_of(&clock)?;
    let jobs = found_jobs(&jobs, &runs, codec)?;
    Ok(Some(Locked { collection, jobs, now, pause }))
}

fn found_jobs(
    jobs: &[Row],
    runs: &[Row],
    codec: &DefinitionCodec,
) -> Result<HashMap<String, FoundJob>, StoreError> {
    let mut open: HashMap<i64, Result<Vec<OpenRun>, StoreError>> = HashMap::new();
    for row in runs {
        let of_job = open.entry(get(row, "job")?).or_insert(Ok(vec![]));
        match (of_job, run(row)) {
            (Ok(of_job), Ok(run)) => of_job.push(run),
            (of_job @ Ok(_), Err(error)) => *of_job = Err(error),
            (Err(_), _) => {}
        }
    }
    let found = |row: &Row| {
        let open = open.remove(&get(row, "key")?).unwrap_or(Ok(vec![]));
        Ok((get(row, "job_key")?, FoundJob { job: job(row, codec), open }))
    };
    jobs.iter().map(found).collect()
}

impl Locked {
    /// Decides an edit, after those whose changes are in `writes`, and adds its changes.
    fn decide(
        &mut self,
        edit: &mut JobEdit,
        codec: &DefinitionCodec,
        writes: &mut Writes,
    ) -> Result<Decided, StoreError> {
        let (before, open, unreadable) = match self.jobs.remove(&edit.job.key()) {
            None => (None, vec![], None),
            Some(FoundJob { job: Ok(job), open }) => (Some(job), open?, None),
            Some(FoundJob { job: Err(StoreError::Unreadable(mut jobs)), .. }) => {
                (None, vec![], jobs.pop())
            }
            Some(FoundJob { job: Err(error), .. }) => return Err(error),
        };
        let context = JobContext {
            collection: &self.collection.record,
            jobs: writes.jobs_after(self.collection.jobs),
            existing: before.as_ref(),
            unreadable: unreadable.as_ref(),
            now: self.now,
            open: &open,
            pause: active_pause(self.pause.as_ref(), self.now),
        };
        let write = (edit.decide)(context).map_err(StoreError::Rejected)?;
        let action = action_on_job(&write, before.as_ref());
        let after = match (write, &before, unreadable) {
            (JobWrite::Keep | JobWrite::Run { .. }, _, Some(job)) => {
                return Err(StoreError::Unreadable(vec![job]));
            }
            (JobWrite::Keep, before, None) => After::Existing(before.clone()),
            (JobWrite::Run { .. }, None, None) => After::Existing(None),
            (JobWrite::Run { at }, Some(job), None) => After::Existing(Some(writes.run(job, at))),
            (JobWrite::Delete, job, unreadable) => {
                let unreadable = unreadable.map(|job| job.key);
                writes.delete(job.as_ref().map(|job| job.key).or(unreadable));
                After::Existing(None)
            }
            (JobWrite::Put(put), Some(job), _) => {
                let collection = self.collection.id;
                let after = writes.replace(*put, (collection, job), &open, self.now, codec)?;
                After::Existing(Some(after))
            }
            (JobWrite::Put(put), None, unreadable) => {
                let state = put.state;
                let (place, job) = writes.create(&edit.job, *put, codec)?;
                // The new job replaces it; its runs, history and ledger are deleted.
                writes.delete(unreadable.map(|job| job.key));
                After::New { place, job, state }
            }
        };
        Ok(Decided { before, after, action })
    }

    /// The record of a job after its edit. `created` has the keys of new jobs.
    fn record(
        &self,
        name: &JobName,
        after: After,
        created: &[JobKey],
    ) -> Result<Option<JobRecord>, StoreError> {
        match after {
            After::Existing(job) => Ok(job),
            After::New { place, job, state } => {
                let key = created.get(place).copied();
                let key = key.ok_or_else(|| StoreError::Failed("a new job has no key".into()))?;
                let path =
                    JobPath { collection: self.collection.record.path.clone(), job: name.clone() };
                Ok(Some(JobRecord { key, path, job, state, version: 1 }))
            }
        }
    }

    fn status(&self) -> CollectionStatus {
        let is_paused = active_pause(self.pause.as_ref(), self.now).is_some();
        CollectionStatus { state: self.collection.record.collection.state, is_paused }
    }
}
