//! The queue of the writer: edits and commits of the engine. Edits go first, because clients wait
//! for them, but every transaction takes some of both.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::StoreError;
use crate::sqlite::task::Task;
use crate::sqlite::write_back::WriteTransaction;

type WriteTask = Box<dyn Task<WriteTransaction>>;

/// The class of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// A request of a client.
    Edit,
    /// A commit of the engine, or maintenance.
    Engine,
}

/// A bounded queue with two priorities.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    waiting_max: usize,
}

#[derive(Default)]
struct Waiting {
    edits: VecDeque<WriteTask>,
    engine: VecDeque<WriteTask>,
    is_closed: bool,
}

/// Result of waiting for a task.
pub(crate) enum Next {
    /// The next task.
    Task(WriteTask),
    /// No task arrived before the timeout.
    Idle,
    /// The queue is closed and empty.
    Closed,
}

impl Queue {
    /// Creates a queue with room for `waiting_max` tasks of each priority.
    pub(crate) fn new(waiting_max: usize) -> Queue {
        Queue { waiting: Mutex::default(), arrived: Condvar::new(), waiting_max }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a task. Fails if the queue is closed, or as busy if it is full.
    pub(crate) fn push(&self, priority: Priority, task: WriteTask) -> Result<(), StoreError> {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return Err(StoreError::Failed("the store is closed".into()));
        }
        let queue = match priority {
            Priority::Edit => &mut waiting.edits,
            Priority::Engine => &mut waiting.engine,
        };
        if queue.len() >= self.waiting_max {
            return Err(StoreError::Busy("too many writes are waiting".into()));
        }
        queue.push_back(task);
        self.arrived.notify_one();
        Ok(())
    }

    /// Rejects new tasks. Queued ones remain.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Waits for the next task, at most for `timeout`. Edits go first.
    pub(crate) fn wait(&self, timeout: Duration) -> Next {
        let is_empty = |waiting: &mut Waiting| {
            waiting.edits.is_empty() && waiting.engine.is_empty() && !waiting.is_closed
        };
        let (mut waiting, _) = self
            .arrived
            .wait_timeout_while(self.lock(), timeout, is_empty)
            .unwrap_or_else(PoisonError::into_inner);
        match waiting.take(Priority::Edit) {
            Some((_, task)) => Next::Task(task),
            None if waiting.is_closed => Next::Closed,
            None => Next::Idle,
        }
    }

    /// Takes the next task without waiting, preferring priority `first`.
    pub(crate) fn take(&self, first: Priority) -> Option<(Priority, WriteTask)> {
        self.lock().take(first)
    }
}

impl Waiting {
    fn take(&mut self, first: Priority) -> Option<(Priority, WriteTask)> {
        let edit =
            |queue: &mut VecDeque<WriteTask>| queue.pop_front().map(|task| (Priority::Edit, task));
        let engine = |queue: &mut VecDeque<WriteTask>| {
            queue.pop_front().map(|task| (Priority::Engine, task))
        };
        match first {
            Priority::Edit => edit(&mut self.edits).or_else(|| engine(&mut self.engine)),
            Priority::Engine => engine(&mut self.engine).or_else(|| edit(&mut self.edits)),
        }
    }
}
