//! The write probe of readiness checks, and the size of the store.

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::error::PostgresError;
use crate::postgres::row::unsigned;
use crate::postgres::transaction::{Operation, Transaction};

impl PostgresStore {
    /// Bytes of all tables with their indexes.
    pub(super) async fn read_bytes(&self) -> Result<u64, StoreError> {
        let sql = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint AS bytes
             FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'";
        let rows = self.query(sql, &[]).await?;
        rows.first().map_or(Ok(0), |row| unsigned(row, "bytes"))
    }
}

/// Locks a row, which the database writes and a read-only database refuses. It changes no value, so
/// that probes leave nothing for VACUUM.
pub(super) struct Probe;

impl Operation for Probe {
    type Output = ();

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<(), PostgresError> {
        transaction.execute("SELECT FROM key_check FOR NO KEY UPDATE", &[]).await?;
        Ok(())
    }
}
