//! Work that is done on another thread and answered from there.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::sqlite::error::{SqliteError, SqliteResult};
use crate::store::Reply;

/// Work that waits for its thread, and what it works with there.
pub(crate) trait Task<C>: Send {
    /// Does it; the answer is kept until it may be given.
    fn work(&mut self, with: &mut C) -> After;

    /// Gives the answer, or what went wrong with all that was done together with it.
    fn answer(self: Box<Self>, fate: Result<(), StoreError>);

    /// How much work it is, in rows, roughly.
    fn weight(&self) -> usize;
}

/// What has to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// What it did stays.
    Keep,
    /// What it did is undone, for it failed so.
    Undo(StoreError),
    /// The disk or the file has failed.
    Stop(StoreError),
}

struct Asked<T, F> {
    work: Option<F>,
    weight: usize,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

/// Work and where its answer arrives.
pub(crate) fn task<C, T, F>(
    weight: usize,
    work: F,
) -> (Box<dyn Task<C>>, oneshot::Receiver<Result<T, StoreError>>)
where
    C: 'static,
    T: Send + 'static,
    F: FnOnce(&mut C) -> SqliteResult<T> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (Box::new(Asked { work: Some(work), weight, result: None, reply }), answer)
}

impl<C, T, F> Task<C> for Asked<T, F>
where
    T: Send,
    F: FnOnce(&mut C) -> SqliteResult<T> + Send,
{
    fn work(&mut self, with: &mut C) -> After {
        let Some(work) = self.work.take() else { return After::Keep };
        // Who decides an edit is not ours; its panic must not take the thread with it.
        let worked = catch_unwind(AssertUnwindSafe(|| work(with))).unwrap_or_else(|_| {
            Err(StoreError::Failed("what decides the edit has panicked".into()).into())
        });
        let is_fatal =
            matches!(&worked, Err(SqliteError::Sql(error)) if SqliteError::is_fatal(error));
        let result = worked.map_err(StoreError::from);
        let after = match &result {
            Ok(_) => After::Keep,
            Err(error) if is_fatal => After::Stop(error.clone()),
            Err(error) => After::Undo(error.clone()),
        };
        self.result = Some(result);
        after
    }

    fn answer(self: Box<Self>, fate: Result<(), StoreError>) {
        let Asked { result, reply, .. } = *self;
        let missing = || Err(StoreError::Failed("it was not begun".into()));
        let result = fate.and_then(|()| result.unwrap_or_else(missing));
        // Who asked may have gone.
        drop(reply.send(result));
    }

    fn weight(&self) -> usize {
        self.weight
    }
}

/// An answer that arrives from a thread.
pub(crate) fn reply<'a, T: Send + 'static>(
    sent: Result<oneshot::Receiver<Result<T, StoreError>>, StoreError>,
) -> Reply<'a, T> {
    Box::pin(async move {
        let stopped = |_| StoreError::Failed("the store has stopped".into());
        sent?.await.map_err(stopped)?
    })
}
