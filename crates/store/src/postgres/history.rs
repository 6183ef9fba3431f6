//! History and the ledger of one job: reads. `events` reads those of all jobs.

use kalends_domain::JobPath;
use kalends_recurrence::Instant;

use crate::api_store::{HistoryFilter, Page};
use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::code::{Code, rows_max};
use crate::postgres::columns::{entry_columns, ledger_columns};
use crate::postgres::row::{self, matched, path_keys};
use crate::record::{HistoryRecord, JobKey, LedgerRecord};

impl PostgresStore {
    /// End of the newest history entry of all jobs.
    pub(super) async fn read_newest_end(&self) -> Result<Option<Instant>, StoreError> {
        let newest = "SELECT ended FROM history ORDER BY sequence DESC LIMIT 1";
        let rows = self.query(newest, &[]).await?;
        rows.first().map(|row| row::at(row, "ended")).transpose()
    }

    pub(super) async fn read_history(
        &self,
        path: JobPath,
        filter: HistoryFilter,
        page: Page<u64>,
    ) -> Result<Option<Vec<HistoryRecord>>, StoreError> {
        let sql = concat!(
            "SELECT j.key, h.sequence, ",
            entry_columns!("h."),
            " FROM collections c JOIN groups g ON g.id = c.group_id
             LEFT JOIN jobs j ON j.collection_id = c.id AND j.job_key = $4
             LEFT JOIN LATERAL (
               SELECT * FROM history h WHERE h.job = j.key
                 AND h.sequence < $5
                 AND ($6::smallint IS NULL OR h.status = $6)
               ORDER BY h.sequence DESC OFFSET $7 LIMIT $8
             ) h ON true
             WHERE g.subscription_key = $1 AND g.group_key = $2 AND c.collection_key = $3
             ORDER BY h.sequence DESC"
        );
        let [subscription, group, collection] = path_keys(&path.collection);
        let after = page.after.map_or(i64::MAX, rows_max);
        let status = filter.status.map(Code::code);
        let (job, skip, limit) = (path.job.key(), rows_max(page.skip), rows_max(page.limit));
        let rows = self
            .query(sql, &[&subscription, &group, &collection, &job, &after, &status, &skip, &limit])
            .await?;
        if rows.is_empty() {
            return Err(StoreError::NoCollection);
        }
        if matched(&rows, "key")?.is_empty() {
            return Ok(None);
        }
        let entries = matched(&rows, "sequence")?.into_iter().map(row::history);
        entries.collect::<Result<_, _>>().map(Some)
    }

    pub(super) async fn read_ledger(
        &self,
        job: JobKey,
        from: Instant,
        to: Instant,
        limit: usize,
    ) -> Result<Vec<LedgerRecord>, StoreError> {
        // Two searches that each use an index: rows that begin in the span, and the few rows of
        // several occurrences that begin before it and reach into it.
        let sql = concat!(
            "SELECT ",
            ledger_columns!("l."),
            " FROM (
                (SELECT * FROM ledger WHERE job = $1 AND first_at >= $2 AND first_at <= $3
                 ORDER BY first_at, last_at, number LIMIT $4)
                UNION ALL
                (SELECT * FROM ledger
                 WHERE job = $1 AND first_at < last_at AND last_at >= $2 AND first_at < $2
                   AND first_at <= $3
                 ORDER BY first_at, last_at, number LIMIT $4)
              ) l JOIN jobs j ON j.key = l.job JOIN collections c ON c.id = j.collection_id
              ORDER BY l.first_at, l.last_at, l.number LIMIT $4"
        );
        let rows = self.query(sql, &[&job.0, &from.ticks(), &to.ticks(), &rows_max(limit)]).await?;
        rows.iter().map(row::ledger).collect()
    }
}
