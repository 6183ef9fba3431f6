//! Heartbeats of the nodes that share the database.

use kalends_recurrence::{Instant, duration_to_ticks};

use crate::engine_store::{HEARTBEAT_RETENTION, HEARTBEAT_VALID, Heartbeat};
use crate::error::StoreError;
use crate::postgres::error::PostgresError;
use crate::postgres::row::optional_at;
use crate::postgres::transaction::{Deadline, Operation, Transaction, query};

/// Records a heartbeat, forgets nodes that are gone, and reads those in service.
pub(super) struct RecordHeartbeat(pub(super) Heartbeat);

impl Operation for RecordHeartbeat {
    type Output = Option<Instant>;

    const DEADLINE: Deadline = Deadline::Renewal;

    async fn perform(
        &mut self,
        transaction: &Transaction<'_>,
    ) -> Result<Option<Instant>, PostgresError> {
        let sql = "
            WITH own AS (
                INSERT INTO nodes (node, serving_since, heartbeat) VALUES ($1, $2, $3)
                ON CONFLICT (node) DO UPDATE
                SET serving_since = EXCLUDED.serving_since, heartbeat = EXCLUDED.heartbeat
            ), gone AS (
                DELETE FROM nodes WHERE node <> $1 AND abs(heartbeat - $3) > $5
            )
            SELECT min(serving_since) AS since FROM nodes
            WHERE node <> $1 AND abs(heartbeat - $3) <= $4";
        let Heartbeat { node, serving_since, sent } = self.0;
        let (valid, retained) =
            (duration_to_ticks(HEARTBEAT_VALID), duration_to_ticks(HEARTBEAT_RETENTION));
        let node = node.0.cast_signed();
        let rows = query(
            transaction,
            sql,
            &[&node, &serving_since.ticks(), &sent.ticks(), &valid, &retained],
        )
        .await?;
        let since = rows.first().map(|row| optional_at(row, "since")).transpose();
        Ok(since.map_err(|error: StoreError| error)?.flatten())
    }
}
