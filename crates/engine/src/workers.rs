//! Tasks that execute attempts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::unreported::Unreported;
use crate::worker::{Gate, Services, run_assignment};

/// Tasks that wait for an attempt; more than this end. Each takes about 2 KB.
const IDLE_MAX: usize = 256;

/// Executes attempts, each in a task. A task that has finished one waits for the next: creating a task
/// takes longer than waking one.
#[derive(Default)]
pub(crate) struct Workers {
    idle: Mutex<Vec<Sender<Work>>>,
}

/// An attempt, with the sender that the task returns to the idle ones. A task does not keep it, so that
/// it ends when [`Workers`] is dropped.
struct Work {
    assignment: Unreported,
    gate: Gate,
    sender: Sender<Work>,
}

impl Workers {
    /// Starts an attempt.
    pub(crate) fn start(
        self: &Arc<Workers>,
        assignment: Unreported,
        gate: Gate,
        services: &Services,
    ) {
        let idle = self.lock().pop();
        let sender = idle.unwrap_or_else(|| {
            let (sender, received) = channel(1);
            tokio::spawn(work(received, Arc::downgrade(self), services.clone()));
            sender
        });
        // An idle task has nothing in its channel. If it is gone, the runtime is shutting down, and the
        // dropped assignment reports that the attempt did not start.
        drop(sender.clone().try_send(Work { assignment, gate, sender }));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Sender<Work>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn work(mut received: Receiver<Work>, workers: Weak<Workers>, services: Services) {
    while let Some(Work { assignment, gate, sender }) = received.recv().await {
        run_assignment(assignment, gate, &services).await;
        let Some(workers) = workers.upgrade() else { return };
        let mut idle = workers.lock();
        if idle.len() >= IDLE_MAX {
            return;
        }
        idle.push(sender);
    }
}
