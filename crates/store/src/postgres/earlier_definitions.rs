//! Definitions of jobs that edits replaced.

use kalends_recurrence::Instant;

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::arrays::{Column, column, parameters, write_rows};
use crate::postgres::code::rows_max;
use crate::postgres::error::PostgresError;
use crate::postgres::row::{at, get, uid};
use crate::postgres::transaction::{Operation, Transaction, execute};
use crate::record::{EarlierDefinition, JobKey};
use crate::stored_form::read_definition;

/// Retains the present definitions of locked jobs that are about to be replaced, with their generations,
/// and removes the oldest beyond the number that is retained.
pub(super) async fn retain_definitions(
    transaction: &Transaction<'_>,
    jobs: &[(JobKey, u64)],
    now: Instant,
) -> Result<(), PostgresError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let insert = "INSERT INTO earlier_definitions (job, generation, replaced, definition)
         SELECT j.key, n.generation, $1, j.definition
         FROM unnest($2::bigint[], $3::bigint[]) AS n (job, generation) JOIN jobs j ON j.key = n.job";
    let columns: Vec<Column<'_>> = vec![
        Box::new(now.ticks()),
        column(jobs, |(job, _)| job.0),
        column(jobs, |(_, generation)| generation.cast_signed()),
    ];
    write_rows(transaction, (jobs.len(), "earlier definitions"), insert, columns).await?;
    let limit = "DELETE FROM earlier_definitions e
         USING unnest($2::bigint[], $3::bigint[]) AS n (job, generation)
         WHERE e.job = n.job AND e.generation <= n.generation - $1";
    let columns: [Column<'_>; 3] = [
        Box::new(EarlierDefinition::PER_JOB_MAX.cast_signed()),
        column(jobs, |(job, _)| job.0),
        column(jobs, |(_, generation)| generation.cast_signed()),
    ];
    execute(transaction, limit, &parameters(&columns)).await?;
    Ok(())
}

impl PostgresStore {
    /// The definition of a job in an earlier generation.
    pub(super) async fn read_earlier_definition(
        &self,
        job: JobKey,
        generation: u64,
    ) -> Result<Option<EarlierDefinition>, StoreError> {
        let sql = "SELECT e.replaced, e.definition, j.uid
             FROM earlier_definitions e JOIN jobs j ON j.key = e.job
             WHERE e.job = $1 AND e.generation = $2";
        let rows = self.query(sql, &[&job.0, &generation.cast_signed()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let definition = read_definition(get(row, "definition")?, uid(row)?, &self.codec)?;
        Ok(Some(EarlierDefinition { generation, replaced: at(row, "replaced")?, definition }))
    }
}

/// Deletes definitions that were replaced before `oldest`, in ticks.
pub(super) struct PruneDefinitions {
    pub(super) oldest: i64,
    pub(super) batch_max: usize,
}

impl Operation for PruneDefinitions {
    type Output = usize;

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<usize, PostgresError> {
        let delete = "DELETE FROM earlier_definitions WHERE number IN (
             SELECT number FROM earlier_definitions WHERE replaced < $1 ORDER BY replaced LIMIT $2
             FOR UPDATE SKIP LOCKED)";
        let deleted =
            execute(transaction, delete, &[&self.oldest, &rows_max(self.batch_max)]).await?;
        Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
    }
}
