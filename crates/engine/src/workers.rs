//! Tasks that execute attempts.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use crate::unreported::Unreported;
use crate::worker::{Gate, Services, run_assignment};

/// Tasks that wait for an attempt; more than this end. Each takes about 2 KB.
const IDLE_MAX: usize = 256;

/// Executes attempts, each in a task. A task that has finished one waits for the next: creating a task
/// takes longer than waking one.
#[derive(Default)]
pub(crate) struct Workers {
    idle: Mutex<Vec<Arc<Worker>>>,
}

/// The state of a task without an attempt in flight. A channel for each task would take several times as
/// long.
#[derive(Default)]
struct Worker(Mutex<Inbox>);

enum Inbox {
    /// No attempt is assigned; the waker of the task, once it waits.
    Empty(Option<Waker>),
    Assigned(Unreported, Gate),
    /// The task ends.
    Closed,
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox::Empty(None)
    }
}

impl Workers {
    /// Starts an attempt.
    pub(crate) fn start(
        self: &Arc<Workers>,
        assignment: Unreported,
        gate: Gate,
        services: &Services,
    ) {
        let idle = lock(&self.idle).pop();
        let worker = idle.unwrap_or_else(|| {
            let worker = Arc::<Worker>::default();
            tokio::spawn(work(Arc::clone(&worker), Arc::downgrade(self), services.clone()));
            worker
        });
        worker.put(Inbox::Assigned(assignment, gate));
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        lock(&self.idle).drain(..).for_each(|worker| worker.put(Inbox::Closed));
    }
}

impl Worker {
    /// Replaces an empty inbox and wakes the task.
    fn put(&self, inbox: Inbox) {
        let before = std::mem::replace(&mut *lock(&self.0), inbox);
        if let Inbox::Empty(Some(waker)) = before {
            waker.wake();
        }
    }

    /// Takes the assigned attempt; `None` if the task ends.
    fn poll_take(&self, context: &mut Context<'_>) -> Poll<Option<(Unreported, Gate)>> {
        let mut inbox = lock(&self.0);
        match std::mem::take(&mut *inbox) {
            Inbox::Assigned(assignment, gate) => Poll::Ready(Some((assignment, gate))),
            Inbox::Closed => Poll::Ready(None),
            Inbox::Empty(_) => {
                *inbox = Inbox::Empty(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

async fn work(worker: Arc<Worker>, workers: Weak<Workers>, services: Services) {
    while let Some((assignment, gate)) = poll_fn(|context| worker.poll_take(context)).await {
        run_assignment(assignment, gate, &services).await;
        let Some(workers) = workers.upgrade() else { return };
        let mut idle = lock(&workers.idle);
        if idle.len() >= IDLE_MAX {
            return;
        }
        idle.push(Arc::clone(&worker));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
