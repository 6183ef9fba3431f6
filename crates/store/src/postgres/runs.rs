//! Open runs: reads. `commit` writes them.

use kalends_recurrence::Instant;
use tokio_postgres::Row;

use crate::engine_store::ParkedRuns;
use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::code::{Code, rows_max};
use crate::postgres::columns::run_columns;
use crate::postgres::row;
use crate::record::{Cause, JobKey, OpenRun, SlotKey};

/// Two searches, each with its own index: unclaimed runs, and runs whose claim has expired.
const CLAIMABLE: &str = concat!(
    "WITH clock AS (
        SELECT extract(epoch FROM date_trunc('second', now()))::bigint * 10000000
            + extract(microseconds FROM now())::bigint % 1000000 * 10 AS ticks
     ), found AS (
        (SELECT r.* FROM runs r JOIN states s ON s.job = r.job
         JOIN collections c ON c.id = s.collection_id
         WHERE r.owner IS NULL AND r.waits_for IS NULL AND r.next_at <= $1 AND c.enabled
           AND (s.enabled OR r.cause = $3)
         ORDER BY r.next_at, r.id LIMIT $2)
        UNION ALL
        (SELECT r.* FROM runs r JOIN states s ON s.job = r.job
         JOIN collections c ON c.id = s.collection_id
         WHERE r.owner IS NOT NULL AND r.lease_until >= $4
           AND r.lease_until < (SELECT ticks FROM clock)
           AND c.enabled AND (s.enabled OR r.cause = $3)
         ORDER BY r.next_at, r.id LIMIT $2)
     ) SELECT ",
    run_columns!("r."),
    " FROM found r ORDER BY r.next_at, r.id LIMIT $2"
);

/// The runs that can be read. A run that a newer version wrote, or whose row is damaged, does not stop the
/// others; [`EngineStore::jobs_for_run`] reports its job.
///
/// [`EngineStore::jobs_for_run`]: crate::EngineStore::jobs_for_run
fn readable(rows: &[Row]) -> Vec<OpenRun> {
    rows.iter().filter_map(|row| row::run(row).ok()).collect()
}

impl PostgresStore {
    pub(super) async fn read_claimable(
        &self,
        until: Instant,
        limit: usize,
    ) -> Result<Vec<OpenRun>, StoreError> {
        let (until, limit) = (until.ticks(), rows_max(limit));
        let floor = self.lease_floor().await?;
        let rows = self.query(CLAIMABLE, &[&until, &limit, &Cause::Manual.code(), &floor]).await?;
        Ok(readable(&rows))
    }

    /// The plan of a search for claimable runs with its actual costs, as text of the database.
    pub async fn explain_claimable(
        &self,
        until: Instant,
        limit: usize,
    ) -> Result<String, StoreError> {
        let (until, limit) = (until.ticks(), rows_max(limit));
        let floor = self.lease_floor().await?;
        self.explain(CLAIMABLE, &[&until, &limit, &Cause::Manual.code(), &floor]).await
    }

    pub(super) async fn read_parked(
        &self,
        key: SlotKey,
        limit: usize,
    ) -> Result<Vec<OpenRun>, StoreError> {
        let sql = concat!(
            "SELECT ",
            run_columns!("r."),
            " FROM runs r JOIN states s ON s.job = r.job
              JOIN collections c ON c.id = s.collection_id
              WHERE r.waits_for = $1 AND c.enabled AND (s.enabled OR r.cause = $3)
              ORDER BY r.next_at, r.id LIMIT $2"
        );
        let (key, manual) = (key.0.cast_signed(), Cause::Manual.code());
        let rows = self.query(sql, &[&key, &rows_max(limit), &manual]).await?;
        Ok(readable(&rows))
    }

    pub(super) async fn read_parked_keys(
        &self,
        limit: usize,
    ) -> Result<Vec<ParkedRuns>, StoreError> {
        let sql = "SELECT waits_for, count(*) AS count FROM runs WHERE waits_for IS NOT NULL
             GROUP BY waits_for ORDER BY waits_for LIMIT $1";
        let parked = |row: &Row| {
            let key = SlotKey(row::unsigned(row, "waits_for")?);
            Ok(ParkedRuns { key, count: row::unsigned(row, "count")? })
        };
        self.query(sql, &[&rows_max(limit)]).await?.iter().map(parked).collect()
    }

    pub(super) async fn read_open_runs(&self, job: JobKey) -> Result<Vec<OpenRun>, StoreError> {
        let sql = concat!(
            "SELECT ",
            run_columns!("r."),
            " FROM runs r JOIN states s ON s.job = r.job
              JOIN collections c ON c.id = s.collection_id WHERE r.job = $1 ORDER BY r.id"
        );
        self.query(sql, &[&job.0]).await?.iter().map(row::run).collect()
    }
}
