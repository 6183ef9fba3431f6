//! Dump of a database as JSON lines.

use deadpool_postgres::Object;
use tokio_postgres::IsolationLevel;

use crate::dump::{DumpError, VIEWS, WriteLine};
use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::error::{PostgresError, TransactionFailure};

/// Number of rows that one round trip reads.
const ROWS: &str = "FETCH 500 FROM rows";

impl PostgresStore {
    /// Writes the contents of the store as JSON lines: one object for each row of the views. All lines
    /// show one snapshot.
    pub async fn dump(&self, write: WriteLine<'_>) -> Result<(), DumpError> {
        let mut client =
            self.database.pool.get().await.map_err(|error| store_error(error.into()))?;
        let dumped = dump(&mut client, write).await;
        if dumped.is_err() {
            // The connection may be inside the transaction: close it.
            drop(Object::take(client));
        }
        dumped
    }
}

async fn dump(client: &mut Object, write: WriteLine<'_>) -> Result<(), DumpError> {
    let failed = |error: tokio_postgres::Error| store_error(error.into());
    let transaction = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await
        .map_err(failed)?;
    // The receiver of the lines may be slow, and so may a large sort.
    let no_timeouts =
        "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
    transaction.batch_execute(no_timeouts).await.map_err(failed)?;
    for (kind, view, order) in VIEWS {
        let declare = format!(
            "DECLARE rows NO SCROLL CURSOR FOR
             SELECT row_to_json(v)::TEXT FROM {view} v ORDER BY v.{order}"
        );
        transaction.batch_execute(&declare).await.map_err(failed)?;
        loop {
            let rows = transaction.query(ROWS, &[]).await.map_err(failed)?;
            if rows.is_empty() {
                break;
            }
            for row in &rows {
                let object: &str = row.try_get(0).map_err(failed)?;
                let members = object.strip_prefix('{').unwrap_or(object);
                write(&format!("{{\"kind\":\"{kind}\",{members}")).map_err(DumpError::Output)?;
            }
        }
        transaction.batch_execute("CLOSE rows").await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)?;
    Ok(())
}

fn store_error(error: PostgresError) -> StoreError {
    match error.before_commit() {
        TransactionFailure::Conflict => StoreError::Busy("the dump conflicted with others".into()),
        TransactionFailure::ConnectionLost(error) | TransactionFailure::Permanent(error) => error,
    }
}
