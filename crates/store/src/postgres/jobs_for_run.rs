//! Jobs in bulk, for the engine: before it starts runs and after it finishes them.

use std::collections::HashMap;
use std::sync::Arc;

use kalends_domain::{Location, Switch};
use tokio_postgres::Row;

use crate::error::{StoreError, UnreadableJob};
use crate::postgres::PostgresStore;
use crate::postgres::columns::{gate_columns, job_columns, pause_columns, run_columns};
use crate::postgres::commit::VersionedJob;
use crate::postgres::pause::pause;
use crate::postgres::row::{self, get};
use crate::record::{
    CollectionKey, GateState, JobForRun, JobKey, OpenRun, OpenRunSummary, both_enabled_since,
};
use crate::run_state::JobRow;
use crate::stored_form::read_collection;

impl PostgresStore {
    pub(super) async fn read_jobs_for_run(
        &self,
        jobs: Vec<JobKey>,
    ) -> Result<Vec<Option<Arc<JobForRun>>>, StoreError> {
        let sql = concat!(
            "SELECT ",
            job_columns!(),
            ", ",
            pause_columns!(),
            ", s.xmin AS row_version, s.enabled, s.collection_id, c.enabled_since,
                c.definition AS collection_definition
              FROM jobs j JOIN states s ON s.job = j.key JOIN collections c ON c.id = j.collection_id
              JOIN groups g ON g.id = c.group_id LEFT JOIN pause p ON true
              WHERE j.key = ANY ($1)"
        );
        let open =
            concat!("SELECT ", run_columns!(""), " FROM runs WHERE job = ANY ($1) ORDER BY id");
        let mut keys = keys(&jobs);
        keys.sort_unstable();
        keys.dedup();
        // A job with two due runs is named twice.
        let is_distinct = keys.len() == jobs.len();
        // Runs before jobs: if a run begins in between, the job is read as no longer due.
        let open = self.query(open, &[&keys]).await?;
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
        let rows = self.query(sql, &[&keys]).await?;
        let mut found = HashMap::with_capacity(rows.len());
        let mut versioned = Vec::with_capacity(rows.len());
        let mut last_location: Option<(&str, Location)> = None;
        for row in &rows {
            let job = match row::job(row, &self.codec) {
                Err(StoreError::Unreadable(jobs)) => {
                    unreadable.extend(jobs);
                    continue;
                }
                job => job?,
            };
            let collection_text: &str = get(row, "collection_definition")?;
            // Most jobs are of the same collection as the one before.
            let location = match last_location.take_if(|(text, _)| *text == collection_text) {
                Some((_, location)) => location,
                None => read_collection(collection_text)?.location,
            };
            last_location = Some((collection_text, location.clone()));
            let open = OpenRunSummary::of(runs.remove(&job.key).unwrap_or_default());
            let collection = CollectionKey(get(row, "collection_id")?);
            let enabled_since =
                both_enabled_since(job.job.enabled_since, row::at(row, "enabled_since")?);
            let (key, pause) = (job.key, pause(row)?);
            let state = JobRow {
                generation: job.job.generation,
                schedule_generation: job.job.schedule_generation,
                is_enabled: get(row, "enabled")?,
                state: job.state,
            };
            versioned.push((key, VersionedJob::new(state, row)?));
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

    pub(super) async fn read_gate_states(
        &self,
        jobs: Vec<JobKey>,
    ) -> Result<Vec<Option<GateState>>, StoreError> {
        let sql = concat!(
            "SELECT s.job, ",
            gate_columns!(),
            " FROM states s JOIN collections c ON c.id = s.collection_id
              LEFT JOIN pause p ON true WHERE s.job = ANY ($1)"
        );
        let rows = self.query(sql, &[&keys(&jobs)]).await?;
        let found = rows.iter().map(|row| Ok((JobKey(get(row, "job")?), gate_state(row)?)));
        let found = found.collect::<Result<HashMap<_, _>, StoreError>>()?;
        Ok(jobs.iter().map(|job| found.get(job).copied()).collect())
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
