//! The changes of edits, and the statements that write them.

use std::collections::BTreeSet;

use kalends_domain::{ClosedRun, JobDefinition, JobName, Switch};
use kalends_recurrence::{Instant, duration_to_ticks};
use tokio_postgres::Row;

use crate::api_store::{JobPut, WaitingRuns};
use crate::error::StoreError;
use crate::postgres::arrays::{Column, check_number, column, parameters, state_arrays, write_rows};
use crate::postgres::code::{rows_max, without_nul};
use crate::postgres::columns::state_columns;
use crate::postgres::commit::{ClosedRow, DRAW_RUN_IDS, close_runs, open_runs, write_ledger};
use crate::postgres::due_floor::lower_due_floor;
use crate::postgres::earlier_definitions::retain_definitions;
use crate::postgres::error::PostgresError;
use crate::postgres::removal::delete_jobs;
use crate::postgres::row::get;
use crate::postgres::transaction::{Transaction, execute, query};
use crate::record::{
    EarlierDefinition, Job, JobFacts, JobKey, JobRecord, JobState, JobUid, LedgerRecord, OpenRun,
    RunId, edited_job,
};
use crate::run_state::{RunRow, close_superseded_run, manual_run, state_after_run_request};
use crate::search::search_text;
use crate::stored_form::{DefinitionCodec, write_definition};

/// The changes of edits of different jobs. An edit adds its changes all together or, if it fails, none.
#[derive(Default)]
pub(super) struct Writes {
    created: Vec<NewJob>,
    replaced: Vec<ReplacedJob>,
    /// Replaced jobs whose definitions are retained, with their generations.
    retained: Vec<(JobKey, u64)>,
    deleted: Vec<i64>,
    /// Jobs that open a manual run, with their generations, and the scheduled times.
    run: Vec<(JobKey, u64, Instant)>,
    /// Finished jobs whose retention starts anew.
    finished: Vec<(JobKey, Option<Instant>)>,
    closed: Vec<RunId>,
    ledger: Vec<ClosedRow>,
    /// Jobs whose runs may wait for another host than before.
    unparked: Vec<i64>,
    earliest_due: Option<Instant>,
}

struct NewJob {
    name: JobName,
    uid: JobUid,
    created: Instant,
    definition: DefinitionColumns,
    is_enabled: bool,
    state: JobState,
}

struct ReplacedJob {
    key: JobKey,
    definition: DefinitionColumns,
    generation: u64,
    schedule_generation: u64,
    enabled_since: Option<Instant>,
    is_enabled: bool,
    state: JobState,
}

/// The columns of table `jobs` that depend on the definition.
struct DefinitionColumns {
    text: String,
    search: String,
    tags: Vec<String>,
    facts: JobFacts,
}

impl DefinitionColumns {
    fn new(
        definition: &JobDefinition,
        facts: JobFacts,
        uid: JobUid,
        codec: &DefinitionCodec,
    ) -> Result<DefinitionColumns, StoreError> {
        Ok(DefinitionColumns {
            text: write_definition(definition, uid, codec)?,
            search: without_nul(&search_text(definition)),
            tags: tag_keys(definition)?,
            facts,
        })
    }
}

impl Writes {
    /// The number of jobs of a collection that had `before`.
    pub(super) fn jobs_after(&self, before: u64) -> u64 {
        let created = before.saturating_add(self.created.len() as u64);
        created.saturating_sub(self.deleted.len() as u64)
    }

    /// Creates a job. Returns its place among the new ones.
    pub(super) fn create(
        &mut self,
        name: &JobName,
        put: JobPut,
        codec: &DefinitionCodec,
    ) -> Result<(usize, Job), StoreError> {
        let JobPut { uid, created, definition, facts, state, waiting: _, closed_by_edit: _ } = put;
        let columns = DefinitionColumns::new(&definition, facts, uid, codec)?;
        let is_enabled = definition.switch == Switch::Enabled;
        self.lower_due(state.due);
        let (name, place) = (name.clone(), self.created.len());
        self.created.push(NewJob { name, uid, created, definition: columns, is_enabled, state });
        let (generation, schedule_generation, enabled_since) = (1, 1, None);
        let job = Job { uid, created, definition, generation, schedule_generation, enabled_since };
        Ok((place, job))
    }

    /// Replaces a job of a collection. Returns the new one.
    pub(super) fn replace(
        &mut self,
        put: JobPut,
        (collection, before): (i64, &JobRecord),
        open: &[OpenRun],
        now: Instant,
        codec: &DefinitionCodec,
    ) -> Result<JobRecord, StoreError> {
        let JobPut { definition, facts, state, waiting, closed_by_edit, .. } = put;
        let columns = DefinitionColumns::new(&definition, facts, before.job.uid, codec)?;
        if waiting == WaitingRuns::Supersede {
            for run in open {
                let Some(record) = close_superseded_run(run, now) else { continue };
                self.closed.push(run.id);
                self.ledger.push(closed_row(run.job, collection, record));
            }
        }
        let closed = closed_by_edit.map(|record| closed_row(before.key, collection, record));
        self.ledger.extend(closed);
        // The edit may have changed the host that they wait for.
        if open.iter().any(|run| run.waits_for.is_some()) {
            self.unparked.push(before.key.0);
        }
        if EarlierDefinition::is_retained(before, open) {
            self.retained.push((before.key, before.job.generation));
        }
        self.lower_due(state.due);
        let is_enabled = definition.switch == Switch::Enabled;
        let job = edited_job(&before.job, definition, waiting, now);
        self.replaced.push(ReplacedJob {
            key: before.key,
            definition: columns,
            generation: job.generation,
            schedule_generation: job.schedule_generation,
            enabled_since: job.enabled_since,
            is_enabled,
            state,
        });
        let (path, version) = (before.path.clone(), before.version + 1);
        Ok(JobRecord { key: before.key, path, job, state, version })
    }

    /// Opens a manual run of a job. Returns the job.
    pub(super) fn run(&mut self, job: &JobRecord, at: Instant) -> JobRecord {
        self.run.push((job.key, job.job.generation, at));
        let state = state_after_run_request(job.state, at);
        if state != job.state {
            self.finished.push((job.key, state.finished));
        }
        JobRecord { state, ..job.clone() }
    }

    /// Deletes a job, if there is one.
    pub(super) fn delete(&mut self, job: Option<JobKey>) {
        self.deleted.extend(job.map(|job| job.0));
    }

    fn lower_due(&mut self, due: Option<Instant>) {
        self.earliest_due = self.earliest_due.into_iter().chain(due).min();
    }

    /// Writes all changes to the jobs of a locked collection. Returns the keys of the new jobs in the order
    /// of their places.
    pub(super) async fn write(
        self,
        transaction: &Transaction<'_>,
        collection: i64,
        now: Instant,
    ) -> Result<Vec<JobKey>, PostgresError> {
        // First, because a new job may have the name of a deleted one.
        delete_jobs(transaction, &self.deleted).await?;
        // Before they are replaced.
        retain_definitions(transaction, &self.retained, now).await?;
        let runs = self.manual_runs(transaction).await?;
        let (created, ..) = tokio::try_join!(
            biased;
            self.create_jobs(transaction, collection),
            self.replace_jobs(transaction),
            self.replace_states(transaction),
            self.start_retention(transaction),
            self.unpark(transaction),
            close_runs(transaction, &self.closed),
            write_ledger(transaction, &self.ledger),
            open_runs(transaction, &runs),
            self.count_jobs(transaction, collection),
            lower_due_floor(transaction, collection, self.earliest_due),
        )?;
        Ok(created)
    }

    async fn create_jobs(
        &self,
        transaction: &Transaction<'_>,
        collection: i64,
    ) -> Result<Vec<JobKey>, PostgresError> {
        // `ORDER BY`: keys follow the order of the places.
        let sql = concat!(
            "WITH new AS (
                SELECT * FROM unnest($3::text[], $4::text[], $5::bytea[], $6::bigint[], $7::text[],
                    $8::text[], $9::integer[], $10::integer[], $11::bigint[], $12::boolean[],
                    $13::bigint[], $14::boolean[], $15::smallint[], $16::bigint[], $17::bigint[],
                    $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[],
                    $23::bigint[], $24::bigint[])
                WITH ORDINALITY AS n (job_key, name, uid, created, definition, search, first_tag,
                    last_tag, shortest_gap, authenticated, shortest_retry, enabled, ",
            state_columns!(""),
            ", place)
             ), created AS (
                INSERT INTO jobs (collection_id, job_key, name, uid, created, version, definition,
                    search, tags, shortest_gap, authenticated, shortest_retry)
                SELECT $1, job_key, name, uid, created, 1, definition, search,
                    ($2::text[])[first_tag:last_tag], shortest_gap, authenticated, shortest_retry
                FROM new ORDER BY place RETURNING key, job_key
             ), stated AS (
                INSERT INTO states (generation, schedule_generation, entries, job, collection_id,
                    enabled, ",
            state_columns!(""),
            ") SELECT 1, 1, 0, c.key, $1, n.enabled, ",
            state_columns!("n."),
            " FROM created c JOIN new n ON n.job_key = c.job_key RETURNING job
             ) SELECT job FROM stated ORDER BY job"
        );
        let jobs = &self.created;
        if jobs.is_empty() {
            return Ok(vec![]);
        }
        let [all_tags, columns @ ..] = definition_arrays(jobs, |job| &job.definition);
        let [text, search, first_tag, last_tag, gap, authenticated, retry] = columns;
        let mut columns: Vec<Column<'_>> = vec![
            Box::new(collection),
            all_tags,
            column(jobs, |job| job.name.key()),
            column(jobs, |job| job.name.as_str()),
            column(jobs, |job| job.uid.0.as_slice()),
            column(jobs, |job| job.created.ticks()),
        ];
        columns.extend([text, search, first_tag, last_tag, gap, authenticated, retry]);
        columns.push(column(jobs, |job| job.is_enabled));
        columns.extend(state_arrays(jobs, |job| &job.state));
        let rows = query(transaction, sql, &parameters(&columns)).await?;
        check_number(rows.len() as u64, (jobs.len(), "new jobs"))?;
        Ok(rows.iter().map(|row| get(row, "job").map(JobKey)).collect::<Result<_, _>>()?)
    }

    async fn replace_jobs(&self, transaction: &Transaction<'_>) -> Result<(), PostgresError> {
        let sql = "UPDATE jobs j SET version = j.version + 1, definition = n.definition,
                search = n.search, tags = ($1::text[])[n.first_tag:n.last_tag],
                shortest_gap = n.shortest_gap, authenticated = n.authenticated,
                shortest_retry = n.shortest_retry
             FROM unnest($2::text[], $3::text[], $4::integer[], $5::integer[], $6::bigint[],
                         $7::boolean[], $8::bigint[], $9::bigint[])
               AS n (definition, search, first_tag, last_tag, shortest_gap, authenticated,
                     shortest_retry, key)
             WHERE j.key = n.key";
        let jobs = &self.replaced;
        let mut columns = Vec::from(definition_arrays(jobs, |job| &job.definition));
        columns.push(column(jobs, |job| job.key.0));
        write_rows(transaction, (jobs.len(), "jobs"), sql, columns).await
    }

    async fn replace_states(&self, transaction: &Transaction<'_>) -> Result<(), PostgresError> {
        let sql = concat!(
            "UPDATE states s SET generation = n.generation,
                schedule_generation = n.schedule_generation, enabled_since = n.enabled_since,
                enabled = n.enabled, (",
            state_columns!(""),
            ") = (",
            state_columns!("n."),
            ") FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[],
                           $6::smallint[], $7::bigint[], $8::bigint[], $9::bigint[],
                           $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[],
                           $14::bigint[], $15::bigint[])
               AS n (job, generation, schedule_generation, enabled_since, enabled, ",
            state_columns!(""),
            ") WHERE s.job = n.job"
        );
        let jobs = &self.replaced;
        let mut columns = vec![
            column(jobs, |job| job.key.0),
            column(jobs, |job| job.generation.cast_signed()),
            column(jobs, |job| job.schedule_generation.cast_signed()),
            column(jobs, |job| job.enabled_since.map(Instant::ticks)),
            column(jobs, |job| job.is_enabled),
        ];
        columns.extend(state_arrays(jobs, |job| &job.state));
        write_rows(transaction, (jobs.len(), "states"), sql, columns).await
    }

    async fn start_retention(&self, transaction: &Transaction<'_>) -> Result<(), PostgresError> {
        let sql = "UPDATE states s SET finished = n.finished
             FROM unnest($1::bigint[], $2::bigint[]) AS n (job, finished) WHERE s.job = n.job";
        let columns = vec![
            column(&self.finished, |(job, _)| job.0),
            column(&self.finished, |(_, finished)| finished.map(Instant::ticks)),
        ];
        write_rows(transaction, (self.finished.len(), "states"), sql, columns).await
    }

    async fn unpark(&self, transaction: &Transaction<'_>) -> Result<(), PostgresError> {
        let sql = "UPDATE runs SET waits_for = NULL
             WHERE job = ANY ($1::bigint[]) AND waits_for IS NOT NULL";
        if !self.unparked.is_empty() {
            execute(transaction, sql, &[&self.unparked]).await?;
        }
        Ok(())
    }

    async fn count_jobs(
        &self,
        transaction: &Transaction<'_>,
        collection: i64,
    ) -> Result<(), PostgresError> {
        let sql = "UPDATE collections SET jobs = jobs + $2 WHERE id = $1";
        let more = rows_max(self.created.len()) - rows_max(self.deleted.len());
        if more != 0 {
            execute(transaction, sql, &[&collection, &more]).await?;
        }
        Ok(())
    }
}

impl Writes {
    /// The manual runs to open.
    async fn manual_runs(
        &self,
        transaction: &Transaction<'_>,
    ) -> Result<Vec<RunRow>, PostgresError> {
        if self.run.is_empty() {
            return Ok(vec![]);
        }
        let drawn = query(transaction, DRAW_RUN_IDS, &[&rows_max(self.run.len())]).await?;
        let run = |(row, (job, generation, at)): (&Row, &(JobKey, u64, Instant))| {
            Ok(manual_run(RunId(get(row, "id")?), *job, *generation, *at))
        };
        Ok(drawn.iter().zip(&self.run).map(run).collect::<Result<_, StoreError>>()?)
    }
}

/// The ledger row of an occurrence that an edit closes.
fn closed_row(job: JobKey, collection: i64, record: LedgerRecord) -> ClosedRow {
    let run = ClosedRun { record, execution: None };
    ClosedRow { job, collection: Some(collection), run }
}

/// The tags of all rows one after the other; definition, search text, positions of the first and the last
/// tag from 1, shortest gap, whether authenticated, shortest retry. An array has no rows of different
/// lengths, hence the positions.
fn definition_arrays<'a, T>(
    rows: &'a [T],
    columns: impl Fn(&'a T) -> &'a DefinitionColumns,
) -> [Column<'a>; 8] {
    let all = || rows.iter().map(&columns);
    let all_tags: Vec<&str> = all().flat_map(|row| &row.tags).map(String::as_str).collect();
    let tags_before = |row: &DefinitionColumns, before: &mut i32| {
        let first = *before;
        *before = first.saturating_add(i32::try_from(row.tags.len()).unwrap_or(i32::MAX));
        (first.saturating_add(1), *before)
    };
    let (first_tags, last_tags): (Vec<i32>, Vec<i32>) =
        all().scan(0, |before, row| Some(tags_before(row, before))).unzip();
    [
        Box::new(all_tags),
        column(rows, |row| columns(row).text.as_str()),
        column(rows, |row| columns(row).search.as_str()),
        Box::new(first_tags),
        Box::new(last_tags),
        column(rows, |row| columns(row).facts.shortest_gap.map(duration_to_ticks)),
        column(rows, |row| columns(row).facts.authenticated),
        column(rows, |row| columns(row).facts.shortest_retry.map(duration_to_ticks)),
    ]
}

/// The search keys of a job's tags: each name alone, and each name with its value.
pub(in crate::postgres) fn tag_keys(definition: &JobDefinition) -> Result<Vec<String>, StoreError> {
    let tags = definition.extensions.tags.iter().flatten();
    let both = tags.flat_map(|(name, value)| [tag_key(name, None), tag_key(name, Some(value))]);
    let distinct = both.collect::<Result<BTreeSet<_>, _>>()?;
    Ok(distinct.into_iter().collect())
}

/// The search key of a tag, as JSON: unambiguous for any name and value.
pub(in crate::postgres) fn tag_key(name: &str, value: Option<&str>) -> Result<String, StoreError> {
    serde_json::to_string(&(name.to_ascii_lowercase(), value))
        .map_err(|error| StoreError::Failed(error.to_string()))
}
