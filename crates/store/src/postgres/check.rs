//! What must not be: rows that belong to nothing, counts that do not add up, states that no step
//! leads to.

use deadpool_postgres::Transaction;

use crate::error::StoreError;
use crate::postgres::call::{Length, Work, rows};
use crate::postgres::columns::job_columns;
use crate::postgres::fault::Fault;
use crate::postgres::row::{get, job};
use crate::stored_form::DefinitionCodec;

/// Findings of each kind that are told; one is enough to be worried.
const FINDINGS_MAX: i64 = 20;
/// Definitions that are read at a time.
const DEFINITIONS: i64 = 500;

/// Each finds what must not be, and says it as `finding`.
const CHECKS: [&str; 9] = [
    "SELECT 'run ' || r.id || ' belongs to no job' AS finding FROM runs r
     LEFT JOIN jobs j ON j.key = r.job WHERE j.key IS NULL LIMIT $1",
    "SELECT 'job ' || j.key || ' has no state' AS finding FROM jobs j
     LEFT JOIN states s ON s.job = j.key WHERE s.job IS NULL LIMIT $1",
    "SELECT 'history of no job: ' || h.job AS finding FROM history h
     LEFT JOIN jobs j ON j.key = h.job WHERE j.key IS NULL GROUP BY h.job LIMIT $1",
    "SELECT 'ledger of no job: ' || l.job AS finding FROM ledger l
     LEFT JOIN jobs j ON j.key = l.job WHERE j.key IS NULL GROUP BY l.job LIMIT $1",
    "SELECT 'collection ' || c.id || ' counts ' || c.jobs || ' jobs and has ' || count(j.key)
        AS finding
     FROM collections c LEFT JOIN jobs j ON j.collection_id = c.id
     GROUP BY c.id HAVING c.jobs <> count(j.key) LIMIT $1",
    "SELECT 'job ' || s.job || ' counts ' || s.entries || ' entries and has ' || count(h.job)
        AS finding
     FROM states s LEFT JOIN history h ON h.job = s.job
     GROUP BY s.job HAVING s.entries <> count(h.job) LIMIT $1",
    "SELECT 'job ' || j.key || ' takes its collection for another state' AS finding
     FROM jobs j JOIN states s ON s.job = j.key JOIN collections c ON c.id = j.collection_id
     WHERE s.collection_enabled <> c.enabled LIMIT $1",
    "SELECT 'job ' || job || ' is finished and is not' AS finding FROM states
     WHERE lifecycle = 0 AND finished IS NOT NULL LIMIT $1",
    "SELECT 'run ' || r.id || ' is of an edit that is to come' AS finding
     FROM runs r JOIN states s ON s.job = r.job
     WHERE r.generation > s.generation OR r.token > r.last_token LIMIT $1",
];

/// Looks for what must not be.
pub(super) struct Check<'a>(pub(super) &'a DefinitionCodec);

impl Work for Check<'_> {
    type Answer = Vec<String>;
    const LENGTH: Length = Length::Long;

    async fn carry_out(&mut self, transaction: &Transaction<'_>) -> Result<Vec<String>, Fault> {
        // All statements look at the same moment.
        let once = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY";
        transaction.batch_execute(once).await?;
        let mut findings = Vec::new();
        for check in CHECKS {
            let found = rows(transaction, check, &[&FINDINGS_MAX]).await?;
            for row in &found {
                findings.push(get(row, "finding")?);
            }
        }
        self.read_definitions(transaction, &mut findings).await?;
        Ok(findings)
    }
}

impl Check<'_> {
    /// Whether every definition can be read and every secret opened.
    async fn read_definitions(
        &self,
        transaction: &Transaction<'_>,
        findings: &mut Vec<String>,
    ) -> Result<(), Fault> {
        let sql = concat!(
            "SELECT ",
            job_columns!(),
            " FROM jobs j JOIN states s ON s.job = j.key JOIN collections c ON c.id = j.collection_id
              JOIN groups g ON g.id = c.group_id WHERE j.key > $1 ORDER BY j.key LIMIT $2"
        );
        let mut after = i64::MIN;
        loop {
            let found = rows(transaction, sql, &[&after, &DEFINITIONS]).await?;
            let Some(last) = found.last() else { return Ok(()) };
            after = get(last, "key")?;
            for row in &found {
                if let Err(StoreError::Damaged(what)) = job(row, self.0) {
                    findings.push(format!("job {}: {what}", get::<i64>(row, "key")?));
                }
            }
        }
    }
}
