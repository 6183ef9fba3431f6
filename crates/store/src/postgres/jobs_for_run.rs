//! Jobs in bulk, for the engine: before it starts runs and after it finishes them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use kalends_domain::{CollectionPath, Location, Switch};
use kalends_recurrence::Instant;
use tokio_postgres::Row;

use crate::error::{StoreError, UnreadableJob};
use crate::postgres::PostgresStore;
use crate::postgres::arrays::unnest_arrays;
use crate::postgres::columns::{gate_columns, job_of_columns, pause_columns, run_columns};
use crate::postgres::commit::{KnownRuns, VersionedJob};
use crate::postgres::pause::pause;
use crate::postgres::row::{self, get};
use crate::postgres::transaction::Query;
use crate::record::{
    CollectionKey, GateState, JobForRun, JobKey, OpenRun, OpenRunSummary, Pause, both_enabled_since,
};
use crate::run_state::JobRow;
use crate::stored_form::read_collection;

/// The columns of [`CollectionGate::new`], from tables `c` (collections) and `p` (pause).
macro_rules! collection_gate_columns {
    () => {
        concat!("c.enabled AS collection_enabled, c.enabled_since, ", pause_columns!())
    };
}

impl PostgresStore {
    pub(super) async fn read_jobs_for_run(
        &self,
        jobs: Vec<JobKey>,
    ) -> Result<Vec<Option<Arc<JobForRun>>>, StoreError> {
        // Without `ORDER BY id`, for which the database may read all open runs by the index of ids if there
        // were few when it planned the statement.
        let open = concat!("SELECT ", run_columns!(""), " FROM runs WHERE job = ANY ($1)");
        // `EXISTS` instead of `LIMIT 1` may read all open runs into a hash table.
        let sql = concat!(
            "SELECT ",
            job_of_columns!(),
            ", s.xmin AS row_version, s.enabled, s.collection_id,
                (SELECT r.id FROM runs r WHERE r.job = j.key LIMIT 1) IS NOT NULL AS has_runs
              FROM jobs j JOIN states s ON s.job = j.key WHERE j.key = ANY ($1)"
        );
        let mut keys = keys(&jobs);
        keys.sort_unstable();
        keys.dedup();
        // A job with two due runs is named twice.
        let is_distinct = keys.len() == jobs.len();
        // Runs before jobs: if a run begins in between, the job is read as no longer due.
        let (open, rows) = self.query_both((open, &[&keys]), Some((sql, &[&keys]))).await?;
        let mut runs: HashMap<JobKey, Vec<OpenRun>> = HashMap::new();
        let mut unreadable = Vec::new();
        for row in &open {
            let key = JobKey(get(row, "job")?);
            match row::run(row) {
                Ok(run) => runs.entry(key).or_default().push(run),
                Err(error) => {
                    unreadable.push(UnreadableJob { key, path: None, reason: error.to_string() });
                }
            }
        }
        let collections = self.read_collections_of(&rows).await?;
        let mut found = HashMap::with_capacity(rows.len());
        let mut versioned = Vec::with_capacity(rows.len());
        for row in &rows {
            let collection = get(row, "collection_id")?;
            let CollectionForRun { path, location, gate } = match collections.get(&collection) {
                None => continue,
                Some(Ok(collection)) => collection,
                Some(Err(reason)) => {
                    let (key, reason) = (JobKey(get(row, "key")?), reason.clone());
                    unreadable.push(UnreadableJob { key, path: None, reason });
                    continue;
                }
            };
            let job = match row::job_of(row, path, &self.codec) {
                Err(StoreError::Unreadable(jobs)) => {
                    unreadable.extend(jobs);
                    continue;
                }
                job => job?,
            };
            let mut open = runs.remove(&job.key).unwrap_or_default();
            open.sort_unstable_by_key(|run| run.id);
            let open = OpenRunSummary::of(open);
            let state = JobRow {
                generation: job.job.generation,
                schedule_generation: job.job.schedule_generation,
                is_enabled: get(row, "enabled")?,
                state: job.state,
            };
            // In the snapshot of the state, unlike the runs that were read before.
            let known = if get(row, "has_runs")? { KnownRuns::Unknown } else { KnownRuns::None };
            let key = job.key;
            versioned.push((key, VersionedJob::new(state, known, row)?));
            let enabled_since = both_enabled_since(job.job.enabled_since, gate.enabled_since);
            let (collection, location) = (CollectionKey(collection), location.clone());
            let pause = gate.pause;
            let job = JobForRun { job, collection, location, enabled_since, open, pause };
            found.insert(key, Arc::new(job));
        }
        self.row_cache.add_read(versioned.into_iter());
        let mut of_key = |key: &JobKey| match is_distinct {
            true => found.remove(key),
            false => found.get(key).cloned(),
        };
        match unreadable.is_empty() {
            true => Ok(jobs.iter().map(&mut of_key).collect()),
            false => Err(StoreError::Unreadable(unreadable)),
        }
    }

    /// The collections of jobs, by number, without deleted ones, or why one cannot be read. A burst has many
    /// jobs of few collections.
    async fn read_collections_of(
        &self,
        jobs: &[Row],
    ) -> Result<HashMap<i64, Result<CollectionForRun, String>>, StoreError> {
        let sql = concat!(
            "SELECT c.id, g.subscription, g.name AS group_name, c.name AS collection_name,
                c.definition AS collection_definition, ",
            collection_gate_columns!(),
            " FROM collections c JOIN groups g ON g.id = c.group_id LEFT JOIN pause p ON true
              WHERE c.id = ANY ($1)"
        );
        let ids = jobs.iter().map(|row| get(row, "collection_id"));
        let ids: Vec<i64> = ids.collect::<Result<BTreeSet<_>, _>>()?.into_iter().collect();
        let rows = if ids.is_empty() { vec![] } else { self.query(sql, &[&ids]).await? };
        let collection = |row: &Row| match CollectionForRun::new(row) {
            Err(StoreError::Damaged(reason)) => Ok((get(row, "id")?, Err(reason))),
            collection => Ok((get(row, "id")?, Ok(collection?))),
        };
        rows.iter().map(collection).collect()
    }

    /// The database compares the versions of the states that the node has cached, and returns only those
    /// that have changed.
    pub(super) async fn read_gate_states(
        &self,
        jobs: Vec<JobKey>,
    ) -> Result<Vec<Option<GateState>>, StoreError> {
        // No row has the version 0.
        let changed = concat!(
            "SELECT n.job, c.id AS collection_id, ",
            gate_columns!(),
            " FROM (",
            unnest_arrays!(1 bigint, 2 integer),
            ") AS n (job, version) LEFT JOIN states s ON s.job = n.job
              LEFT JOIN collections c ON c.id = s.collection_id LEFT JOIN pause p ON true
              WHERE s.job IS NULL OR s.xmin <> n.version"
        );
        let collections = concat!(
            "SELECT c.id, ",
            collection_gate_columns!(),
            " FROM collections c LEFT JOIN pause p ON true WHERE c.id = ANY ($1::bigint[])"
        );
        let cached = self.row_cache.states(&jobs);
        let versions: Vec<i32> =
            cached.iter().map(|job| job.map_or(0, |job| job.version.number())).collect();
        let of_cached: BTreeSet<i64> = cached.iter().flatten().map(|job| job.collection).collect();
        let of_cached: Vec<i64> = of_cached.into_iter().collect();
        let changed: Query<'_> = (changed, &[&keys(&jobs), &versions]);
        let collections: Query<'_> = (collections, &[&of_cached]);
        let (changed, collections) = self.query_both(changed, Some(collections)).await?;
        let mut found = HashMap::new();
        for row in &changed {
            let exists = get::<Option<i64>>(row, "collection_id")?.is_some();
            let state = exists.then(|| gate_state(row)).transpose()?;
            found.insert(JobKey(get(row, "job")?), state);
        }
        let mut collection_gates = HashMap::new();
        for row in &collections {
            collection_gates.insert(get::<i64>(row, "id")?, CollectionGate::new(row)?);
        }
        let state = |(key, cached): (&JobKey, &Option<VersionedJob>)| match found.get(key) {
            Some(state) => *state,
            None => {
                let job = cached.as_ref()?;
                Some(collection_gates.get(&job.collection)?.state(job))
            }
        };
        Ok(jobs.iter().zip(&cached).map(state).collect())
    }
}

/// A collection whose jobs are about to run.
struct CollectionForRun {
    path: CollectionPath,
    location: Location,
    gate: CollectionGate,
}

impl CollectionForRun {
    fn new(row: &Row) -> Result<CollectionForRun, StoreError> {
        Ok(CollectionForRun {
            path: row::collection_path(row)?,
            location: read_collection(get(row, "collection_definition")?)?.location,
            gate: CollectionGate::new(row)?,
        })
    }
}

/// The part of a gate state that the jobs of a collection share.
struct CollectionGate {
    switch: Switch,
    enabled_since: Instant,
    pause: Option<Pause>,
}

impl CollectionGate {
    fn new(row: &Row) -> Result<CollectionGate, StoreError> {
        Ok(CollectionGate {
            switch: switch(get(row, "collection_enabled")?),
            enabled_since: row::at(row, "enabled_since")?,
            pause: pause(row)?,
        })
    }

    fn state(&self, job: &VersionedJob) -> GateState {
        GateState {
            generation: job.row.generation,
            switch: switch(job.row.is_enabled),
            collection: self.switch,
            state: job.row.state,
            schedule_generation: job.row.schedule_generation,
            enabled_since: both_enabled_since(job.enabled_since, self.enabled_since),
            pause: self.pause,
        }
    }
}

fn keys(jobs: &[JobKey]) -> Vec<i64> {
    jobs.iter().map(|job| job.0).collect()
}

/// Reads the columns of `gate_columns!`.
pub(super) fn gate_state(row: &Row) -> Result<GateState, StoreError> {
    Ok(GateState {
        generation: row::unsigned(row, "generation")?,
        switch: switch(get(row, "enabled")?),
        collection: switch(get(row, "collection_enabled")?),
        state: row::state(row)?,
        schedule_generation: row::unsigned(row, "schedule_generation")?,
        enabled_since: both_enabled_since(
            row::optional_at(row, "job_enabled_since")?,
            row::at(row, "enabled_since")?,
        ),
        pause: pause(row)?,
    })
}

pub(super) fn switch(is_on: bool) -> Switch {
    if is_on { Switch::Enabled } else { Switch::Disabled }
}
