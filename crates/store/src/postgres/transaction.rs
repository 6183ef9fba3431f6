//! Executes transactions and queries on pooled connections, with a deadline and bounded retries.

use std::future::Future;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Object, Pool};
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::StoreError;
use crate::postgres::connect::SERVER_MARGIN;
use crate::postgres::error::{PostgresError, TransactionFailure};
use crate::postgres::row::get;
use crate::postgres::{PostgresSettings, PostgresStore};

/// Attempts to commit a transaction despite serialization failures and deadlocks. All transactions
/// take their locks in one order, so conflicts are rare and ten in a row do not happen by chance.
const ATTEMPTS_MAX: u32 = 10;

/// A statement with its parameters.
pub(super) type Query<'a> = (&'a str, &'a [&'a (dyn ToSql + Sync)]);

/// The body of a transaction. It is repeated when the transaction is retried.
pub(super) trait Operation: Send {
    type Output: Send;

    /// [`Deadline::Long`] for an operation that may touch every row of a collection.
    const DEADLINE: Deadline = Deadline::Short;

    /// Whether the first statements only read and lock. They are then sent together with `BEGIN`; if
    /// that failed, they would have no effect.
    const READS_FIRST: bool = false;

    /// Begins the transaction.
    const BEGIN: &'static str = "BEGIN";

    /// Executes all statements; the caller commits.
    fn perform<'a>(
        &'a mut self,
        transaction: &'a Transaction<'_>,
    ) -> impl Future<Output = Result<Self::Output, PostgresError>> + Send + 'a;
}

/// Which deadline of the settings applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deadline {
    Short,
    /// For renewals of leases.
    Renewal,
    Long,
}

/// A transaction on a pooled connection. It ends with its commit, with its rollback, or with the
/// connection.
pub(super) struct Transaction<'a>(&'a ClientWrapper);

impl Deref for Transaction<'_> {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.0
    }
}

/// A pooled connection that returns to the pool only when it is known to be idle; otherwise it is
/// closed on drop.
struct Connection(Option<Object>);

impl Connection {
    fn client(&self) -> Result<&ClientWrapper, PostgresError> {
        let client = self.0.as_deref();
        client.ok_or_else(|| StoreError::Failed("no connection".into()).into())
    }

    fn return_to_pool(mut self) {
        self.0.take();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

/// A pool of connections, and the limits of its use.
#[derive(Clone)]
pub(super) struct Database {
    pub(super) pool: Pool,
    pub(super) settings: PostgresSettings,
}

impl Database {
    /// Performs `operation` in a transaction, within its deadline.
    pub(super) async fn transact<O: Operation>(
        &self,
        operation: O,
    ) -> Result<O::Output, StoreError> {
        self.transact_within(self.deadline(O::DEADLINE), operation).await
    }

    /// Performs `operation` in a transaction, within `deadline`.
    pub(super) async fn transact_within<O: Operation>(
        &self,
        deadline: Duration,
        mut operation: O,
    ) -> Result<O::Output, StoreError> {
        let committing = AtomicBool::new(false);
        match timeout(deadline, self.transact_with_retries(&mut operation, &committing)).await {
            Ok(result) => result,
            Err(_) if committing.load(Ordering::Relaxed) => {
                Err(StoreError::Unknown("the commit was not acknowledged in time".into()))
            }
            Err(_) => Err(timed_out(deadline)),
        }
    }

    async fn transact_with_retries<O: Operation>(
        &self,
        operation: &mut O,
        committing: &AtomicBool,
    ) -> Result<O::Output, StoreError> {
        // A restart of the server breaks every pooled connection; after them the next one is new.
        let (mut attempts, mut lost) = (1, 0);
        loop {
            match self.transact_once(operation, committing).await {
                Ok(output) => return Ok(output),
                Err(TransactionFailure::Conflict) if attempts < ATTEMPTS_MAX => attempts += 1,
                Err(TransactionFailure::Conflict) => {
                    let message = format!("{ATTEMPTS_MAX} attempts conflicted with others");
                    return Err(StoreError::Busy(message));
                }
                Err(TransactionFailure::ConnectionLost(_))
                    if lost < self.settings.connections_max =>
                {
                    lost += 1;
                }
                Err(
                    TransactionFailure::ConnectionLost(error)
                    | TransactionFailure::Permanent(error),
                ) => return Err(error),
            }
        }
    }

    async fn transact_once<O: Operation>(
        &self,
        operation: &mut O,
        committing: &AtomicBool,
    ) -> Result<O::Output, TransactionFailure> {
        committing.store(false, Ordering::Relaxed);
        let connection = self.connection().await.map_err(PostgresError::before_commit)?;
        let transaction = Transaction(connection.client().map_err(PostgresError::before_commit)?);
        match self.begin_and_perform(operation, &transaction).await {
            Ok(output) => {
                committing.store(true, Ordering::Relaxed);
                transaction.batch_execute("COMMIT").await.map_err(PostgresError::in_commit)?;
                connection.return_to_pool();
                Ok(output)
            }
            Err(error) => {
                let failure = error.before_commit();
                // A connection that cannot even roll back is closed.
                if transaction.batch_execute("ROLLBACK").await.is_ok() {
                    connection.return_to_pool();
                }
                Err(failure)
            }
        }
    }

    async fn begin_and_perform<O: Operation>(
        &self,
        operation: &mut O,
        transaction: &Transaction<'_>,
    ) -> Result<O::Output, PostgresError> {
        let begin = async { Ok(transaction.batch_execute(O::BEGIN).await?) };
        if O::READS_FIRST {
            // In this order: nothing proceeds if `BEGIN` failed.
            let performed = tokio::try_join!(biased; begin, operation.perform(transaction));
            return performed.map(|((), output)| output);
        }
        begin.await?;
        if O::DEADLINE == Deadline::Long {
            let server = self.settings.long_deadline.saturating_sub(SERVER_MARGIN);
            let milliseconds = server.as_millis().max(1);
            let set = format!("SET LOCAL statement_timeout = {milliseconds}");
            transaction.batch_execute(&set).await?;
        }
        operation.perform(transaction).await
    }

    /// The rows of a single read-only statement.
    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let (rows, _) = self.query_both((sql, parameters), None).await?;
        Ok(rows)
    }

    /// The rows of read-only statements that are sent together. The second one begins when the first has
    /// ended, and sees all commits before.
    pub(super) async fn query_both(
        &self,
        first: Query<'_>,
        second: Option<Query<'_>>,
    ) -> Result<(Vec<Row>, Vec<Row>), StoreError> {
        let deadline = self.deadline(Deadline::Short);
        let rows = timeout(deadline, async {
            let mut retries = 0;
            loop {
                let result = self.query_once(first, second).await;
                match result.map_err(PostgresError::before_commit) {
                    Ok(rows) => return Ok(rows),
                    Err(TransactionFailure::Conflict | TransactionFailure::ConnectionLost(_))
                        if retries < self.settings.connections_max =>
                    {
                        retries += 1;
                    }
                    Err(
                        TransactionFailure::ConnectionLost(error)
                        | TransactionFailure::Permanent(error),
                    ) => return Err(error),
                    Err(TransactionFailure::Conflict) => {
                        return Err(StoreError::Busy("the query conflicted with others".into()));
                    }
                }
            }
        });
        rows.await.unwrap_or_else(|_| Err(timed_out(deadline)))
    }

    async fn query_once(
        &self,
        first: Query<'_>,
        second: Option<Query<'_>>,
    ) -> Result<(Vec<Row>, Vec<Row>), PostgresError> {
        let connection = self.connection().await?;
        let rows = query_both(connection.client()?, first, second).await;
        match &rows {
            Err(PostgresError::Database(error)) if error.code().is_none() => {}
            _ => connection.return_to_pool(),
        }
        rows
    }

    async fn connection(&self) -> Result<Connection, PostgresError> {
        if self.pool.status().waiting >= self.settings.waiting_max {
            return Err(StoreError::Busy("too many calls wait for a connection".into()).into());
        }
        Ok(Connection(Some(self.pool.get().await?)))
    }

    fn deadline(&self, deadline: Deadline) -> Duration {
        match deadline {
            Deadline::Short => self.settings.deadline,
            Deadline::Renewal => self.settings.renewal_deadline,
            Deadline::Long => self.settings.long_deadline,
        }
    }
}

impl PostgresStore {
    /// Performs `operation` in a transaction, within its deadline.
    pub(super) async fn transact<O: Operation>(
        &self,
        operation: O,
    ) -> Result<O::Output, StoreError> {
        self.database.transact(operation).await
    }

    /// The rows of a single read-only statement.
    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.database.query(sql, parameters).await
    }

    /// The rows of read-only statements that are sent together. The second one begins when the first has
    /// ended, and sees all commits before.
    pub(super) async fn query_both(
        &self,
        first: Query<'_>,
        second: Option<Query<'_>>,
    ) -> Result<(Vec<Row>, Vec<Row>), StoreError> {
        self.database.query_both(first, second).await
    }

    /// The plan of a statement with its actual costs, as text of the database.
    pub(super) async fn explain(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<String, StoreError> {
        let explain = format!("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) {sql}");
        let rows = self.query(&explain, parameters).await?;
        let lines = rows.iter().map(|row| get::<String>(row, "QUERY PLAN"));
        lines.map(|line| line.map(|line| line + "\n")).collect()
    }
}

pub(super) fn timed_out(deadline: Duration) -> StoreError {
    StoreError::Busy(format!("no response within {deadline:?}"))
}

/// The rows of a statement. Each connection prepares it once.
pub(super) async fn query(
    client: &ClientWrapper,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, PostgresError> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, parameters).await?)
}

/// The rows of statements that are sent together.
async fn query_both(
    client: &ClientWrapper,
    first: Query<'_>,
    second: Option<Query<'_>>,
) -> Result<(Vec<Row>, Vec<Row>), PostgresError> {
    let Some(second) = second else { return Ok((query(client, first.0, first.1).await?, vec![])) };
    // Prepared first, so that the queries are pipelined in this order.
    let statements =
        (client.prepare_cached(first.0).await?, client.prepare_cached(second.0).await?);
    let rows = tokio::try_join!(
        biased;
        client.query(&statements.0, first.1),
        client.query(&statements.1, second.1),
    )?;
    Ok(rows)
}

/// Executes a statement and returns the number of affected rows.
pub(super) async fn execute(
    transaction: &Transaction<'_>,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<u64, PostgresError> {
    let statement = transaction.prepare_cached(sql).await?;
    Ok(transaction.execute(&statement, parameters).await?)
}
