//! Jobs whose next occurrence is due.

use std::sync::atomic::Ordering;

use kalends_recurrence::Instant;
use tokio_postgres::Row;

use crate::engine_store::{Due, DueJob};
use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::code::rows_max;
use crate::postgres::due_floor::{RaiseDueFloors, SEARCHES_PER_RAISE};
use crate::postgres::row::{self, get};
use crate::record::{CollectionKey, JobKey};

/// Searches each enabled collection from its lower bound. Jobs of disabled collections, of which
/// there may be a million, are not visited.
const DUE: &str = "SELECT d.job, d.generation, d.due, c.id AS collection_id
     FROM collections c LEFT JOIN due_floors f ON f.collection_id = c.id
     CROSS JOIN LATERAL (
        SELECT s.job, s.generation, s.due FROM states s
        WHERE s.collection_id = c.id AND s.due >= greatest(f.due, $3) AND s.due <= $1
          AND s.due IS NOT NULL AND s.lifecycle = 0 AND s.enabled
        ORDER BY s.due, s.job LIMIT $2
     ) d
     WHERE c.enabled AND greatest(f.due, $3) <= $1
     ORDER BY d.due, d.job LIMIT $2";

impl PostgresStore {
    pub(super) async fn read_due(
        &self,
        from: Instant,
        until: Instant,
        limit: usize,
    ) -> Result<Vec<Due>, StoreError> {
        let due = |row: &Row| {
            let on = DueJob {
                job: JobKey(get(row, "job")?),
                generation: row::unsigned(row, "generation")?,
                due: row::at(row, "due")?,
            };
            Ok(Due { on, collection: CollectionKey(get(row, "collection_id")?) })
        };
        let parameters: [i64; 3] = [until.ticks(), rows_max(limit), from.ticks()];
        let [until_ticks, limit, from] = &parameters;
        let found = self.query(DUE, &[until_ticks, limit, from]).await?;
        let searches = self.due_searches.fetch_add(1, Ordering::Relaxed);
        if searches.is_multiple_of(SEARCHES_PER_RAISE) {
            // If it fails, the next searches take longer.
            drop(self.transact(RaiseDueFloors { until }).await);
        }
        found.iter().map(due).collect()
    }

    /// The plan of a search for due jobs with its actual costs, as text of the database.
    pub async fn explain_due(&self, until: Instant, limit: usize) -> Result<String, StoreError> {
        let (until, limit) = (until.ticks(), rows_max(limit));
        self.explain(DUE, &[&until, &limit, &Instant::MIN.ticks()]).await
    }
}
