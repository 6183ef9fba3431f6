//! Work for a thread of the store, and the reply to the caller.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::sqlite::error::{SqliteError, SqliteResult};
use crate::store::Reply;

/// A unit of work that runs on a thread with the context `C`.
pub(crate) trait Task<C>: Send {
    /// Does the work and keeps the result for [`Task::complete`].
    fn run(&mut self, context: &mut C) -> TaskOutcome;

    /// Replies to the caller: with the result, or with the error of the transaction.
    fn complete(self: Box<Self>, outcome: Result<(), StoreError>);

    /// Approximate number of rows that the work touches.
    fn weight(&self) -> usize;
}

/// How the transaction goes on after a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskOutcome {
    /// Keep the changes.
    Keep,
    /// Roll back the changes of the task, which failed with this error.
    RollBack(StoreError),
    /// The disk or the file failed.
    Stop(StoreError),
}

/// A task with the channel of its reply.
struct PendingTask<T, F> {
    work: Option<F>,
    weight: usize,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

/// Creates a task and the receiver of its result.
pub(crate) fn task<C, T, F>(
    weight: usize,
    work: F,
) -> (Box<dyn Task<C>>, oneshot::Receiver<Result<T, StoreError>>)
where
    C: 'static,
    T: Send + 'static,
    F: FnOnce(&mut C) -> SqliteResult<T> + Send + 'static,
{
    let (reply, receiver) = oneshot::channel();
    (Box::new(PendingTask { work: Some(work), weight, result: None, reply }), receiver)
}

impl<C, T, F> Task<C> for PendingTask<T, F>
where
    T: Send,
    F: FnOnce(&mut C) -> SqliteResult<T> + Send,
{
    fn run(&mut self, context: &mut C) -> TaskOutcome {
        let Some(work) = self.work.take() else { return TaskOutcome::Keep };
        // Work includes the caller's decision; a panic in it must not end the thread.
        let result = catch_unwind(AssertUnwindSafe(|| work(context))).unwrap_or_else(|_| {
            Err(StoreError::Failed("the decision of an edit panicked".into()).into())
        });
        let is_fatal =
            matches!(&result, Err(SqliteError::Sql(error)) if SqliteError::is_fatal(error));
        let result = result.map_err(StoreError::from);
        let outcome = match &result {
            Ok(_) => TaskOutcome::Keep,
            Err(error) if is_fatal => TaskOutcome::Stop(error.clone()),
            Err(error) => TaskOutcome::RollBack(error.clone()),
        };
        self.result = Some(result);
        outcome
    }

    fn complete(self: Box<Self>, outcome: Result<(), StoreError>) {
        let PendingTask { result, reply, .. } = *self;
        let missing = || Err(StoreError::Failed("the task did not run".into()));
        let result = outcome.and_then(|()| result.unwrap_or_else(missing));
        // The caller may have gone away.
        drop(reply.send(result));
    }

    fn weight(&self) -> usize {
        self.weight
    }
}

/// The future of a result that arrives through a channel.
pub(crate) fn reply<'a, T: Send + 'static>(
    sent: Result<oneshot::Receiver<Result<T, StoreError>>, StoreError>,
) -> Reply<'a, T> {
    Box::pin(async move {
        let stopped = |_| StoreError::Failed("the store has stopped".into());
        sent?.await.map_err(stopped)?
    })
}
