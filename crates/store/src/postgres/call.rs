//! One call: a connection, a transaction, its deadline, and as many tries as make sense.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{GenericClient, Object, Transaction};
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::connect::SERVER_MARGIN;
use crate::postgres::fault::{Before, Fault};

/// Tries of a transaction that others come between. With locks in one order that happens only in
/// databases without them, and there seldom ten times in a row.
const TRIES_MAX: u32 = 10;
/// Something that is done in one transaction. It may be asked more than once.
pub(super) trait Work: Send {
    /// What it comes to.
    type Answer: Send;

    /// Whether it may touch every row of a collection.
    const LENGTH: Length = Length::Short;

    /// Does it, all but the commit.
    fn carry_out<'a>(
        &'a mut self,
        transaction: &'a Transaction<'_>,
    ) -> impl Future<Output = Result<Self::Answer, Fault>> + Send + 'a;
}

/// Which deadline something has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Short,
    Long,
}

/// A connection of the pool that goes back there only where it is known to be at rest.
struct Borrowed(Option<Object>);

impl Borrowed {
    fn object(&mut self) -> Result<&mut Object, Fault> {
        self.0.as_mut().ok_or_else(|| StoreError::Failed("no connection".into()).into())
    }

    fn give_back(mut self) {
        self.0.take();
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

impl PostgresStore {
    /// Does `work` in a transaction, within its deadline.
    pub(super) async fn transact<W: Work>(&self, mut work: W) -> Result<W::Answer, StoreError> {
        let committing = AtomicBool::new(false);
        let deadline = self.deadline(W::LENGTH);
        match timeout(deadline, self.try_transact(&mut work, &committing)).await {
            Ok(answer) => answer,
            Err(_) if committing.load(Ordering::Relaxed) => {
                Err(StoreError::Unknown("no answer to the commit in time".into()))
            }
            Err(_) => Err(late(deadline)),
        }
    }

    async fn try_transact<W: Work>(
        &self,
        work: &mut W,
        committing: &AtomicBool,
    ) -> Result<W::Answer, StoreError> {
        // When a server restarts, all connections of the pool are lost; the next one is new.
        let (mut tries, mut lost) = (1, 0);
        loop {
            match self.transact_once(work, committing).await {
                Ok(answer) => return Ok(answer),
                Err(Before::Again) if tries < TRIES_MAX => tries += 1,
                Err(Before::Again) => {
                    return Err(StoreError::Busy("other changes came between each time".into()));
                }
                Err(Before::Lost(_)) if lost < self.settings.connections_max => lost += 1,
                Err(Before::Lost(error) | Before::Over(error)) => return Err(error),
            }
        }
    }

    async fn transact_once<W: Work>(
        &self,
        work: &mut W,
        committing: &AtomicBool,
    ) -> Result<W::Answer, Before> {
        committing.store(false, Ordering::Relaxed);
        let mut borrowed = self.borrow().await.map_err(Fault::before_commit)?;
        let object = borrowed.object().map_err(Fault::before_commit)?;
        let transaction = object.transaction().await;
        let transaction = transaction.map_err(|error| Fault::from(error).before_commit())?;
        let done = async {
            if W::LENGTH == Length::Long {
                let server = self.settings.long_deadline.saturating_sub(SERVER_MARGIN);
                let milliseconds = server.as_millis().max(1);
                let set = format!("SET LOCAL statement_timeout = {milliseconds}");
                transaction.batch_execute(&set).await?;
            }
            work.carry_out(&transaction).await
        };
        match done.await {
            Ok(answer) => {
                committing.store(true, Ordering::Relaxed);
                transaction.commit().await.map_err(Fault::in_commit)?;
                borrowed.give_back();
                Ok(answer)
            }
            Err(fault) => {
                let before = fault.before_commit();
                // A connection that cannot even roll back does not go back to the pool.
                if transaction.rollback().await.is_ok() {
                    borrowed.give_back();
                }
                Err(before)
            }
        }
    }

    /// The rows of one statement that changes nothing.
    pub(super) async fn ask(
        &self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let deadline = self.deadline(Length::Short);
        let answer = timeout(deadline, async {
            let mut lost = 0;
            loop {
                let asked = self.ask_once(sql, parameters).await;
                match asked.map_err(Fault::before_commit) {
                    Ok(rows) => return Ok(rows),
                    Err(Before::Again | Before::Lost(_))
                        if lost < self.settings.connections_max =>
                    {
                        lost += 1;
                    }
                    Err(Before::Lost(error) | Before::Over(error)) => return Err(error),
                    Err(Before::Again) => {
                        return Err(StoreError::Busy("other changes came between".into()));
                    }
                }
            }
        });
        answer.await.unwrap_or_else(|_| Err(late(deadline)))
    }

    async fn ask_once(
        &self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Fault> {
        let mut borrowed = self.borrow().await?;
        let rows = rows(&*borrowed.object()?, sql, parameters).await;
        match &rows {
            Err(Fault::Database(error)) if error.code().is_none() => {}
            _ => borrowed.give_back(),
        }
        rows
    }

    async fn borrow(&self) -> Result<Borrowed, Fault> {
        if self.pool.status().waiting >= self.settings.waiting_max {
            return Err(StoreError::Busy("too many calls wait for a connection".into()).into());
        }
        Ok(Borrowed(Some(self.pool.get().await?)))
    }

    fn deadline(&self, length: Length) -> Duration {
        match length {
            Length::Short => self.settings.deadline,
            Length::Long => self.settings.long_deadline,
        }
    }
}

fn late(deadline: Duration) -> StoreError {
    StoreError::Busy(format!("no answer within {deadline:?}"))
}

/// The rows of a statement, which is prepared once for each connection.
pub(super) async fn rows(
    client: &impl GenericClient,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, Fault> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, parameters).await?)
}

/// How many rows a statement changed.
pub(super) async fn change(
    transaction: &Transaction<'_>,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<u64, Fault> {
    let statement = transaction.prepare_cached(sql).await?;
    Ok(transaction.execute(&statement, parameters).await?)
}
