//! What waits for the writer: edits, and what the engine has decided. Edits go first, for people and
//! clients wait for them; but every transaction takes some of both.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::StoreError;
use crate::sqlite::task::Task;
use crate::sqlite::write_back::WriteTransaction;

type Writing = Box<dyn Task<WriteTransaction>>;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Somebody waits for it.
    Edit,
    /// The engine, and upkeep.
    Engine,
}

/// What waits.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    waiting_max: usize,
}

#[derive(Default)]
struct Waiting {
    edits: VecDeque<Writing>,
    engine: VecDeque<Writing>,
    is_closed: bool,
}

/// What there is to do.
pub(crate) enum Next {
    /// This.
    Task(Writing),
    /// Nothing, for some time.
    Idle,
    /// Nothing any more.
    Closed,
}

impl Queue {
    /// Of each kind, `waiting_max` may wait.
    pub(crate) fn new(waiting_max: usize) -> Queue {
        Queue { waiting: Mutex::default(), arrived: Condvar::new(), waiting_max }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, turn: Priority, task: Writing) -> Result<(), StoreError> {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return Err(StoreError::Failed("the store is closed".into()));
        }
        let line = match turn {
            Priority::Edit => &mut waiting.edits,
            Priority::Engine => &mut waiting.engine,
        };
        if line.len() >= self.waiting_max {
            return Err(StoreError::Busy("too many writes are waiting".into()));
        }
        line.push_back(task);
        self.arrived.notify_one();
        Ok(())
    }

    /// Does what waits, and takes in no more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// The next, which may take its time to arrive.
    pub(crate) fn wait(&self, patience: Duration) -> Next {
        let is_empty = |waiting: &mut Waiting| {
            waiting.edits.is_empty() && waiting.engine.is_empty() && !waiting.is_closed
        };
        let (mut waiting, _) = self
            .arrived
            .wait_timeout_while(self.lock(), patience, is_empty)
            .unwrap_or_else(PoisonError::into_inner);
        match waiting.take(Priority::Edit) {
            Some((_, task)) => Next::Task(task),
            None if waiting.is_closed => Next::Closed,
            None => Next::Idle,
        }
    }

    /// What waits now, if anything does: one whose turn it is before another.
    pub(crate) fn take(&self, first: Priority) -> Option<(Priority, Writing)> {
        self.lock().take(first)
    }
}

impl Waiting {
    fn take(&mut self, first: Priority) -> Option<(Priority, Writing)> {
        let edit =
            |line: &mut VecDeque<Writing>| line.pop_front().map(|task| (Priority::Edit, task));
        let engine =
            |line: &mut VecDeque<Writing>| line.pop_front().map(|task| (Priority::Engine, task));
        match first {
            Priority::Edit => edit(&mut self.edits).or_else(|| engine(&mut self.engine)),
            Priority::Engine => engine(&mut self.engine).or_else(|| edit(&mut self.edits)),
        }
    }
}
