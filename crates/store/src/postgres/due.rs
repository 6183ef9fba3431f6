//! Jobs whose next occurrence is due.

use kalends_recurrence::Instant;
use tokio_postgres::Row;

use crate::engine_store::{Due, DueJob};
use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::code::rows_max;
use crate::postgres::row::{self, get};
use crate::record::{CollectionKey, JobKey};

impl PostgresStore {
    pub(super) async fn read_due(
        &self,
        until: Instant,
        limit: usize,
    ) -> Result<Vec<Due>, StoreError> {
        let sql = "SELECT job, generation, due, collection_id FROM states
             WHERE due <= $1 AND due IS NOT NULL AND lifecycle = 0 AND enabled
               AND collection_enabled
             ORDER BY due, job LIMIT $2";
        let due = |row: &Row| {
            let on = DueJob {
                job: JobKey(get(row, "job")?),
                generation: row::unsigned(row, "generation")?,
                due: row::at(row, "due")?,
            };
            Ok(Due { on, collection: CollectionKey(get(row, "collection_id")?) })
        };
        self.query(sql, &[&until.ticks(), &rows_max(limit)]).await?.iter().map(due).collect()
    }
}
