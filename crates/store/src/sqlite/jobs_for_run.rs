//! Jobs in bulk, for the engine: before it starts runs and after it finishes them.

use std::collections::HashMap;
use std::sync::Arc;

use kalends_domain::Switch;

use crate::engine_store::JobAt;
use crate::error::StoreError;
use crate::record::{GateState, JobForRun, JobKey, JobRecord, Pause, both_enabled_since};
use crate::sqlite::collection_cache::CacheVersion;
use crate::sqlite::collection_of_job::CollectionOfJob;
use crate::sqlite::collections::CollectionSwitch;
use crate::sqlite::due_batch::DueBatch;
use crate::sqlite::error::{SqliteError, SqliteResult};
use crate::sqlite::state::{ReadState as _, StateRow};
use crate::sqlite::write_back::{SharedState, Snapshot};
use crate::sqlite::{collections, jobs, runs};
use crate::stored_form::DefinitionCodec;

/// Jobs with the data that the engine needs to start runs.
pub(crate) fn jobs_for_run(
    snapshot: &Snapshot,
    codec: &DefinitionCodec,
    jobs: &[JobAt],
) -> SqliteResult<Vec<Option<Arc<JobForRun>>>> {
    let states = known_states(snapshot, jobs)?;
    let jobs = jobs.iter().map(|at| at.job).zip(states);
    let pause = snapshot.shared.pause();
    let job_for_run = |(job, collection): (JobRecord, CollectionOfJob)| {
        let CollectionOfJob { key: collection, enabled_since, location, .. } = collection;
        let enabled_since = both_enabled_since(job.job.enabled_since, enabled_since);
        let open = runs::summary(snapshot, job.key);
        Arc::new(JobForRun { job, collection, location, enabled_since, open, pause })
    };
    let mut unreadable = Vec::new();
    let found = jobs::by_keys(snapshot, codec, jobs, |key, job| match job {
        Ok(job) => Ok(job.map(job_for_run)),
        Err(error) => {
            unreadable.push(SqliteError::into_unreadable(error, key)?);
            Ok(None)
        }
    })?;
    match unreadable.is_empty() {
        true => Ok(found),
        false => Err(StoreError::Unreadable(unreadable).into()),
    }
}

/// The states of jobs that are dirty rows, or in a row of `due` near those of the others; `None` for the
/// rest.
fn known_states(snapshot: &Snapshot, jobs: &[JobAt]) -> SqliteResult<Vec<Option<StateRow>>> {
    let mut states: Vec<_> = jobs.iter().map(|at| snapshot.dirty_state(at.job)).collect();
    let position = |(at, state): (&JobAt, &Option<_>)| match state {
        None => Some((at.due?, at.job)),
        Some(_) => None,
    };
    let expected = jobs.iter().zip(&states).filter_map(position).collect();
    let mut due = DueBatch::read(snapshot.connection(), expected)?;
    for (at, state) in jobs.iter().zip(&mut states) {
        if let (None, Some(time)) = (&state, at.due) {
            *state = due.take((time, at.job)).map(Some);
        }
    }
    Ok(states.into_iter().map(Option::flatten).collect())
}

/// Gate states from memory, if all jobs changed recently, as those with a new run did. This avoids a
/// read of the database. The result includes all acknowledged writes.
pub(crate) fn gate_states_from_cache(
    shared: &SharedState,
    jobs: &[JobKey],
) -> Option<Vec<Option<GateState>>> {
    let pause = shared.pause();
    let mut last = None;
    let gate_state = |row: Option<StateRow>| {
        let Some(row) = row else { return Some(None) };
        let collection = match last {
            Some((id, collection)) if id == row.collection => collection,
            _ => shared.collection_switches.get(&row.collection)?,
        };
        last = Some((row.collection, collection));
        Some(collection.map(|collection| gate_state_of(&row, collection, pause)))
    };
    shared.dirty_rows.as_committed(jobs)?.into_iter().map(gate_state).collect()
}

/// Gate states from the database. `since` must be obtained before the snapshot.
pub(crate) fn gate_states(
    snapshot: &Snapshot,
    jobs: &[JobKey],
    since: CacheVersion,
) -> SqliteResult<Vec<Option<GateState>>> {
    let mut switches: HashMap<i64, Option<CollectionSwitch>> = HashMap::new();
    let pause = snapshot.shared.pause();
    let mut gate_state = |key: &JobKey| {
        let Some(row) = snapshot.state(*key)? else { return Ok(None) };
        let collection = match switches.get(&row.collection) {
            Some(known) => *known,
            None => {
                let found = collections::switch(snapshot.connection(), row.collection)?;
                switches.insert(row.collection, found);
                found
            }
        };
        Ok(collection.map(|collection| gate_state_of(&row, collection, pause)))
    };
    let gate_states = jobs.iter().map(&mut gate_state).collect();
    snapshot.shared.collection_switches.insert(since, switches);
    gate_states
}

pub(crate) fn gate_state_of(
    row: &StateRow,
    collection: CollectionSwitch,
    pause: Option<Pause>,
) -> GateState {
    GateState {
        generation: row.generation,
        switch: switch(row.switched_on),
        collection: switch(collection.is_enabled),
        state: row.state,
        schedule_generation: row.schedule_generation,
        enabled_since: both_enabled_since(row.enabled_since, collection.enabled_since),
        pause,
    }
}

fn switch(is_on: bool) -> Switch {
    if is_on { Switch::Enabled } else { Switch::Disabled }
}
