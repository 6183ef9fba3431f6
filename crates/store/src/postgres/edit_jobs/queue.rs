//! Puts concurrent edits of one collection into one transaction.
//!
//! Edits of the jobs of a collection exclude each other by the lock of the collection, until they are
//! durable. While a transaction with edits of a collection is in progress, further edits of this node
//! wait here, and the next transaction takes them together. Without concurrency every edit has a
//! transaction of its own, at once: nothing waits for a timer.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{slice, thread};

use kalends_domain::CollectionPath;
use kalends_environment::Stopwatch;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{EditJobs, JobEdit};
use crate::api_store::EditedJob;
use crate::error::StoreError;
use crate::postgres::notify::Listener;
use crate::postgres::transaction::{Database, timed_out};
use crate::stored_form::DefinitionCodec;

/// Edits per transaction: others of the collection wait for it.
const GROUP_MAX: usize = 128;

/// The edits of jobs that wait in this process.
pub(in crate::postgres) struct EditQueue {
    database: Database,
    codec: Arc<DefinitionCodec>,
    listener: Arc<Listener>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Edits that wait, by collection. A collection is here while a task performs its edits.
    waiting: HashMap<CollectionPath, VecDeque<WaitingEdit>>,
    /// Number of edits that wait, in all collections.
    number: usize,
    last_ticket: u64,
}

struct WaitingEdit {
    ticket: u64,
    edit: JobEdit,
    caller: Caller,
}

struct Caller {
    waited: Stopwatch,
    reply: oneshot::Sender<Result<EditedJob, StoreError>>,
}

impl EditQueue {
    pub(in crate::postgres) fn new(
        database: Database,
        codec: Arc<DefinitionCodec>,
        listener: Arc<Listener>,
    ) -> Arc<EditQueue> {
        Arc::new(EditQueue { database, codec, listener, state: Mutex::default() })
    }

    /// Performs an edit within the deadline of a call. If the future is dropped, an edit that still
    /// waits does not happen.
    pub(in crate::postgres) async fn edit(
        self: Arc<EditQueue>,
        collection: CollectionPath,
        edit: JobEdit,
    ) -> Result<EditedJob, StoreError> {
        let deadline = self.database.settings.deadline;
        let (reply, mut outcome) = oneshot::channel();
        let caller = Caller { waited: Stopwatch::start(), reply };
        let place = self.enter(collection, edit, caller)?;
        let outcome = match timeout(deadline, &mut outcome).await {
            Ok(outcome) => outcome,
            Err(_) if place.leave() => return Err(timed_out(deadline)),
            // Its transaction has begun, and has the same deadline.
            Err(_) => outcome.await,
        };
        outcome.unwrap_or_else(|_| {
            Err(StoreError::Unknown("the transaction of the edit was interrupted".into()))
        })
    }

    fn enter(
        self: &Arc<EditQueue>,
        collection: CollectionPath,
        edit: JobEdit,
        caller: Caller,
    ) -> Result<Place, StoreError> {
        let mut state = self.state();
        if state.number >= self.database.settings.waiting_max {
            return Err(StoreError::Busy("too many edits wait".into()));
        }
        state.number += 1;
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        let place = Place { queue: Arc::clone(self), collection: collection.clone(), ticket };
        let edit = WaitingEdit { ticket, edit, caller };
        match state.waiting.get_mut(&collection) {
            Some(waiting) => waiting.push_back(edit),
            None => {
                state.waiting.insert(collection.clone(), VecDeque::from([edit]));
                let turn = Turn { queue: Arc::clone(self), collection, is_over: false };
                tokio::spawn(turn.perform_all());
            }
        }
        Ok(place)
    }

    /// Takes edits of different jobs in the order of their arrival. If there are none, the turn of the
    /// collection has finished.
    fn take(&self, collection: &CollectionPath) -> Vec<WaitingEdit> {
        let mut state = self.state();
        let waiting = state.waiting.remove(collection).unwrap_or_default();
        let (mut group, mut left, mut jobs) = (Vec::new(), VecDeque::new(), HashSet::new());
        for edit in waiting {
            // A second edit of a job sees the result of the first one in the next transaction.
            match group.len() < GROUP_MAX && jobs.insert(edit.edit.job.key()) {
                true => group.push(edit),
                false => left.push_back(edit),
            }
        }
        state.number -= group.len();
        if !group.is_empty() {
            state.waiting.insert(collection.clone(), left);
        }
        group
    }

    async fn perform(&self, collection: &CollectionPath, group: Vec<WaitingEdit>) {
        let (mut edits, callers): (Vec<_>, Vec<_>) =
            group.into_iter().map(|waiting| (waiting.edit, waiting.caller)).unzip();
        let waited = callers.iter().map(|caller| caller.waited.elapsed()).max().unwrap_or_default();
        let outcomes = match self.transact(collection, &mut edits, waited).await {
            Ok(outcomes) => outcomes,
            Err(error) if edits.len() > 1 && may_concern_one_edit(&error) => {
                let mut outcomes = Vec::new();
                for (edit, caller) in edits.iter_mut().zip(&callers) {
                    let (alone, waited) = (slice::from_mut(edit), caller.waited.elapsed());
                    outcomes.extend(match self.transact(collection, alone, waited).await {
                        Ok(outcome) => outcome,
                        Err(error) => vec![Err(error)],
                    });
                }
                outcomes
            }
            Err(error) => edits.iter().map(|_| Err(error.clone())).collect(),
        };
        if outcomes.iter().any(Result::is_ok) {
            self.listener.notify();
        }
        for (caller, outcome) in callers.into_iter().zip(outcomes) {
            // Nobody receives it if the call was dropped.
            drop(caller.reply.send(outcome));
        }
    }

    /// Performs edits in one transaction, within the deadline of the one that has waited longest.
    async fn transact(
        &self,
        collection: &CollectionPath,
        edits: &mut [JobEdit],
        waited: Duration,
    ) -> Result<Vec<Result<EditedJob, StoreError>>, StoreError> {
        let left = self.database.settings.deadline.saturating_sub(waited);
        let edits = EditJobs { collection, edits, codec: &self.codec };
        self.database.transact_within(left, edits).await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether one edit may be the cause of the error of a transaction, so that the others would succeed
/// without it. Nothing was committed then.
fn may_concern_one_edit(error: &StoreError) -> bool {
    matches!(error, StoreError::Failed(_) | StoreError::Damaged(_) | StoreError::Full)
}

/// The place of an edit in the queue, given up on drop.
struct Place {
    queue: Arc<EditQueue>,
    collection: CollectionPath,
    ticket: u64,
}

impl Place {
    /// Removes the edit. Returns `false` if it does not wait any more.
    fn leave(&self) -> bool {
        let mut state = self.queue.state();
        let Some(waiting) = state.waiting.get_mut(&self.collection) else { return false };
        let Some(place) = waiting.iter().position(|edit| edit.ticket == self.ticket) else {
            return false;
        };
        waiting.remove(place);
        state.number -= 1;
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The task that performs the edits of a collection, until none waits.
struct Turn {
    queue: Arc<EditQueue>,
    collection: CollectionPath,
    is_over: bool,
}

impl Turn {
    async fn perform_all(mut self) {
        loop {
            let group = self.queue.take(&self.collection);
            if group.is_empty() {
                self.is_over = true;
                return;
            }
            self.queue.perform(&self.collection, group).await;
        }
    }
}

impl Drop for Turn {
    /// A panic concerns the edits of its transaction; those that wait go on in another task. If the
    /// runtime ends, they fail.
    fn drop(&mut self) {
        if !self.is_over && thread::panicking() {
            let (queue, collection) = (Arc::clone(&self.queue), self.collection.clone());
            tokio::spawn(Turn { queue, collection, is_over: false }.perform_all());
        } else if !self.is_over {
            let mut state = self.queue.state();
            let waiting = state.waiting.remove(&self.collection).unwrap_or_default();
            state.number -= waiting.len();
        }
    }
}
