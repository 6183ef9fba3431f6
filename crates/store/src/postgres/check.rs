//! The integrity check: orphaned rows, wrong counters, impossible states and unreadable
//! definitions.

use crate::error::StoreError;
use crate::postgres::columns::job_columns;
use crate::postgres::error::PostgresError;
use crate::postgres::row::{get, job, uid};
use crate::postgres::transaction::{Deadline, Operation, Transaction, query};
use crate::stored_form::{DefinitionCodec, read_definition};

/// Findings of each kind that are reported; one is enough to investigate.
const FINDINGS_MAX: i64 = 20;
/// Definitions per statement.
const DEFINITIONS_MAX: i64 = 500;

/// Each query returns violations of one invariant as column `finding`.
const CHECKS: [&str; 13] = [
    "SELECT 'run ' || r.id || ' belongs to no job' AS finding FROM runs r
     LEFT JOIN jobs j ON j.key = r.job WHERE j.key IS NULL LIMIT $1",
    "SELECT 'state ' || s.job || ' belongs to no job' AS finding FROM states s
     LEFT JOIN jobs j ON j.key = s.job WHERE j.key IS NULL LIMIT $1",
    "SELECT 'job ' || j.key || ' has no state' AS finding FROM jobs j
     LEFT JOIN states s ON s.job = j.key WHERE s.job IS NULL LIMIT $1",
    "SELECT 'history of no job: ' || h.job AS finding FROM history h
     LEFT JOIN jobs j ON j.key = h.job LEFT JOIN leftovers o ON o.job = h.job
     WHERE j.key IS NULL AND o.job IS NULL GROUP BY h.job LIMIT $1",
    "SELECT 'ledger of no job: ' || l.job AS finding FROM ledger l
     LEFT JOIN jobs j ON j.key = l.job LEFT JOIN leftovers o ON o.job = l.job
     WHERE j.key IS NULL AND o.job IS NULL GROUP BY l.job LIMIT $1",
    "SELECT 'earlier definition ' || e.number || ' belongs to no job' AS finding
     FROM earlier_definitions e LEFT JOIN jobs j ON j.key = e.job WHERE j.key IS NULL LIMIT $1",
    "SELECT 'note ' || n.number || ' belongs to nothing' AS finding FROM notes n
     LEFT JOIN jobs j ON j.key = n.job LEFT JOIN collections c ON c.id = n.collection_id
     WHERE n.job <> 0 AND j.key IS NULL OR n.job = 0 AND n.collection_id <> 0 AND c.id IS NULL
     LIMIT $1",
    "SELECT 'collection ' || c.id || ' counts ' || c.jobs || ' jobs and has ' || count(j.key)
        AS finding
     FROM collections c LEFT JOIN jobs j ON j.collection_id = c.id
     GROUP BY c.id HAVING c.jobs <> count(j.key) LIMIT $1",
    "SELECT 'job ' || s.job || ' counts ' || s.entries || ' entries and has ' || count(h.job)
        AS finding
     FROM states s LEFT JOIN history h ON h.job = s.job
     GROUP BY s.job HAVING s.entries <> count(h.job) LIMIT $1",
    "SELECT 'job ' || j.key || ' belongs to no collection' AS finding
     FROM jobs j LEFT JOIN collections c ON c.id = j.collection_id
     LEFT JOIN doomed d ON d.collection_id = j.collection_id
     WHERE c.id IS NULL AND d.collection_id IS NULL LIMIT $1",
    "SELECT 'job ' || s.job || ' is due before the lower bound of its collection' AS finding
     FROM states s JOIN due_floors f ON f.collection_id = s.collection_id
     WHERE s.lifecycle = 0 AND s.enabled AND s.due < f.due LIMIT $1",
    "SELECT 'job ' || job || ' is finished and active' AS finding FROM states
     WHERE lifecycle = 0 AND finished IS NOT NULL LIMIT $1",
    "SELECT 'run ' || r.id || ' has a generation or token from the future' AS finding
     FROM runs r JOIN states s ON s.job = r.job
     WHERE r.generation > s.generation OR r.token > r.last_token LIMIT $1",
];

/// Runs all checks on one snapshot and returns one line for each finding.
pub(super) struct Check<'a>(pub(super) &'a DefinitionCodec);

impl Operation for Check<'_> {
    type Output = Vec<String>;
    const DEADLINE: Deadline = Deadline::Long;

    async fn perform(
        &mut self,
        transaction: &Transaction<'_>,
    ) -> Result<Vec<String>, PostgresError> {
        // All statements see one snapshot.
        let snapshot = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY";
        transaction.batch_execute(snapshot).await?;
        let mut findings = Vec::new();
        for check in CHECKS {
            let found = query(transaction, check, &[&FINDINGS_MAX]).await?;
            for row in &found {
                findings.push(get(row, "finding")?);
            }
        }
        self.read_definitions(transaction, &mut findings).await?;
        Ok(findings)
    }
}

impl Check<'_> {
    /// Reports definitions that cannot be parsed or decrypted.
    async fn read_definitions(
        &self,
        transaction: &Transaction<'_>,
        findings: &mut Vec<String>,
    ) -> Result<(), PostgresError> {
        let sql = concat!(
            "SELECT ",
            job_columns!(),
            " FROM jobs j JOIN states s ON s.job = j.key JOIN collections c ON c.id = j.collection_id
              JOIN groups g ON g.id = c.group_id WHERE j.key > $1 ORDER BY j.key LIMIT $2"
        );
        let mut after = i64::MIN;
        loop {
            let found = query(transaction, sql, &[&after, &DEFINITIONS_MAX]).await?;
            let Some(last) = found.last() else { break };
            after = get(last, "key")?;
            for row in &found {
                if let Err(StoreError::Unreadable(jobs)) = job(row, self.0) {
                    let found = jobs.iter().map(|job| format!("job {}: {}", job.key.0, job.reason));
                    findings.extend(found);
                }
            }
        }
        let sql = "SELECT e.number, e.job, e.generation, j.uid, e.definition
             FROM earlier_definitions e JOIN jobs j ON j.key = e.job
             WHERE e.number > $1 ORDER BY e.number LIMIT $2";
        let mut after = i64::MIN;
        loop {
            let found = query(transaction, sql, &[&after, &DEFINITIONS_MAX]).await?;
            let Some(last) = found.last() else { return Ok(()) };
            after = get(last, "number")?;
            for row in &found {
                if let Err(error) = read_definition(get(row, "definition")?, uid(row)?, self.0) {
                    let (job, generation): (i64, i64) = (get(row, "job")?, get(row, "generation")?);
                    findings.push(format!("job {job}, generation {generation}: {error}"));
                }
            }
        }
    }
}
