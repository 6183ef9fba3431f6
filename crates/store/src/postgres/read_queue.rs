//! Puts concurrent reads of single jobs into one statement.
//!
//! Most of the cost of a statement is that of its messages, not of its rows. While statements are in
//! progress, further reads of this node wait here, and the next statement reads all jobs of one
//! collection among them. It begins after they were requested, so that each of them sees every edit
//! that was acknowledged before. Without concurrency every read has a statement of its own, at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kalends_domain::{CollectionPath, JobPath};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_postgres::Row;

use crate::error::StoreError;
use crate::postgres::columns::{collection_status_columns, job_columns};
use crate::postgres::row::{get, path_keys};
use crate::postgres::transaction::{Database, timed_out};

/// Statements in progress: the database executes one while the rows of the other are decoded.
const STATEMENTS_MAX: usize = 2;
/// Jobs per statement: the first of them waits for the last.
const GROUP_MAX: usize = 128;

/// The reads of jobs that wait in this process.
pub(super) struct ReadQueue {
    database: Database,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// In the order of arrival.
    waiting: Vec<WaitingRead>,
    /// Number of tasks that perform reads.
    turns: usize,
}

struct WaitingRead {
    path: JobPath,
    reply: oneshot::Sender<FoundRow>,
}

/// The row of a job, `None` if there is no such job.
type FoundRow = Result<Option<Arc<Row>>, StoreError>;

impl ReadQueue {
    pub(super) fn new(database: Database) -> Arc<ReadQueue> {
        Arc::new(ReadQueue { database, state: Mutex::default() })
    }

    /// Reads the row of a job and its collection within the deadline of a call: `job_columns!` and
    /// `collection_status_columns!`.
    pub(super) async fn read(self: &Arc<ReadQueue>, path: JobPath) -> FoundRow {
        let deadline = self.database.settings.deadline;
        let (reply, found) = oneshot::channel();
        self.enter(WaitingRead { path, reply })?;
        let interrupted = || StoreError::Unavailable("the read was interrupted".into());
        match timeout(deadline, found).await {
            Ok(found) => found.map_err(|_| interrupted())?,
            Err(_) => Err(timed_out(deadline)),
        }
    }

    fn enter(self: &Arc<ReadQueue>, read: WaitingRead) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.waiting.len() >= self.database.settings.waiting_max {
            return Err(StoreError::Busy("too many reads wait".into()));
        }
        state.waiting.push(read);
        if state.turns < STATEMENTS_MAX {
            state.turns += 1;
            tokio::spawn(Turn { queue: Arc::clone(self), has_finished: false }.perform_all());
        }
        Ok(())
    }

    /// Takes reads of the collection that has waited longest. If there are none, the turn has finished.
    fn take(&self) -> Option<(CollectionPath, Vec<WaitingRead>)> {
        let mut state = self.state();
        // Nobody waits for the result of a call that was dropped.
        state.waiting.retain(|read| !read.reply.is_closed());
        let Some(collection) = state.waiting.first().map(|read| read.path.collection.clone())
        else {
            state.turns -= 1;
            return None;
        };
        let mut number = 0;
        let group = state.waiting.extract_if(.., |read| {
            number += usize::from(read.path.collection == collection);
            read.path.collection == collection && number <= GROUP_MAX
        });
        let group = group.collect();
        Some((collection, group))
    }

    async fn perform(&self, collection: &CollectionPath, group: Vec<WaitingRead>) {
        let found = self.find(collection, &group).await;
        for WaitingRead { path, reply } in group {
            let row = match &found {
                Ok(rows) => Ok(rows.get(&path.job.key()).cloned()),
                Err(error) => Err(error.clone()),
            };
            drop(reply.send(row));
        }
    }

    /// The rows of jobs by their keys.
    async fn find(
        &self,
        collection: &CollectionPath,
        group: &[WaitingRead],
    ) -> Result<HashMap<String, Arc<Row>>, StoreError> {
        // The subquery hides the number of jobs from the planner, which otherwise plans the statement
        // anew for each number.
        let sql = concat!(
            "SELECT ",
            job_columns!(),
            ", j.job_key, ",
            collection_status_columns!(),
            " FROM collections c JOIN groups g ON g.id = c.group_id
              LEFT JOIN (jobs j JOIN states s ON s.job = j.key)
                ON j.collection_id = c.id AND j.job_key = ANY ((SELECT $4::text[])::text[])
              LEFT JOIN pause p ON true
              WHERE g.subscription_key = $1 AND g.group_key = $2 AND c.collection_key = $3"
        );
        let [subscription, group_key, collection] = path_keys(collection);
        let jobs: Vec<_> = group.iter().map(|read| read.path.job.key()).collect();
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&subscription, &group_key, &collection, &jobs];
        let rows = self.database.query(sql, &parameters).await?;
        if rows.is_empty() {
            return Err(StoreError::NoCollection);
        }
        let mut found = HashMap::with_capacity(rows.len());
        for row in rows {
            if let Some(key) = get::<Option<String>>(&row, "job_key")? {
                found.insert(key, Arc::new(row));
            }
        }
        Ok(found)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task that performs reads until none waits.
struct Turn {
    queue: Arc<ReadQueue>,
    has_finished: bool,
}

impl Turn {
    async fn perform_all(mut self) {
        while let Some((collection, group)) = self.queue.take() {
            self.queue.perform(&collection, group).await;
        }
        self.has_finished = true;
    }
}

impl Drop for Turn {
    /// After a panic, or if the runtime ends, the reads that wait fail.
    fn drop(&mut self) {
        if !self.has_finished {
            let mut state = self.queue.state();
            state.turns -= 1;
            state.waiting.clear();
        }
    }
}
