//! The write probe of readiness checks.

use deadpool_postgres::Transaction;

use crate::postgres::error::PostgresError;
use crate::postgres::transaction::Operation;

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
