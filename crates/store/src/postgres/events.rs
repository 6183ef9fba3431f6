//! What came into the history of all jobs, for who follows it.

use tokio_postgres::Row;

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::code::rows_max;
use crate::postgres::row;
use crate::store::Events;

impl PostgresStore {
    /// Numbers are given out before a transaction commits: one may be seen after a larger one.
    pub(super) async fn read_events(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Events, StoreError> {
        let newest = "SELECT coalesce(max(sequence), 0) AS newest FROM history";
        let newest = self.ask(newest, &[]).await?;
        let newest = newest.first().map_or(Ok(0), |row| row::unsigned(row, "newest"))?;
        let Some(after) = after else { return Ok(Events { entries: vec![], newest }) };
        let sql = concat!(
            "SELECT ",
            row::history_columns!(),
            ", j.name AS job_name, c.name AS collection_name, g.subscription, g.name AS group_name
             FROM history h JOIN jobs j ON j.key = h.job JOIN collections c ON c.id = j.collection_id
             JOIN groups g ON g.id = c.group_id
             WHERE h.sequence > $1 ORDER BY h.sequence LIMIT $2"
        );
        let found = self.ask(sql, &[&rows_max(after), &rows_max(limit)]).await?;
        let entry = |found: &Row| Ok((row::job_path(found)?, row::history(found)?));
        let entries = found.iter().map(entry).collect::<Result<Vec<_>, StoreError>>()?;
        let seen = entries.last().map_or(0, |(_, record)| record.sequence);
        Ok(Events { entries, newest: newest.max(seen) })
    }
}
