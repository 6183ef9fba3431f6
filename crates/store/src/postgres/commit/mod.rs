//! Commits of the engine, in batches.
//!
//! A commit reads all rows that its writes depend on, applies the writes one after the
//! other in memory, so that writes to the same job or run see each other, and saves the changes
//! with one statement per table. It costs two round trips and a `COMMIT`, for any number of writes.
//!
//! A commit that begins or skips occurrences holds a shared lock on their collections. It conflicts
//! with the switch and the deletion of a collection, and not with edits of its jobs. A commit that
//! only renews leases locks its runs and nothing else, so that no edit delays it.
//!
//! A commit that only begins, continues and finishes runs locks no other rows before it writes them, and
//! takes those that the node has cached from memory (optimistic concurrency control). Its writes name
//! the row versions that it was decided on. If one of them has changed, or if a write is rejected, nothing
//! is committed, and the commit is repeated with locks, as all other commits are carried out.

mod batch;
mod read;
mod row_cache;
mod write;

use std::sync::Arc;

use kalends_recurrence::Instant;

use crate::engine_store::{RunWrite, RunWriteResult};
use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::error::PostgresError;
use crate::postgres::transaction::{Operation, Transaction, execute, query};
use crate::run_state;
use row_cache::WrittenRows;
pub(super) use row_cache::{KnownRuns, RowCache, VersionedJob};
pub(super) use write::{ClosedRow, close_runs, open_runs, write_ledger};

/// Draws this many ids of runs.
pub(super) const DRAW_RUN_IDS: &str =
    "SELECT nextval('run_ids') AS id FROM generate_series(1, $1::bigint)";

/// Expires the lease of every claim.
pub(super) struct ExpireClaims;

impl Operation for ExpireClaims {
    type Output = usize;

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<usize, PostgresError> {
        let lock =
            "SELECT job FROM states WHERE job IN (SELECT job FROM runs WHERE owner IS NOT NULL)
             ORDER BY job FOR UPDATE";
        query(transaction, lock, &[]).await?;
        let expire = "UPDATE runs SET lease_until = $1 WHERE owner IS NOT NULL";
        let expired = execute(transaction, expire, &[&Instant::MIN.ticks()]).await?;
        Ok(usize::try_from(expired).unwrap_or(usize::MAX))
    }
}

impl PostgresStore {
    /// Applies run writes, each if its precondition holds.
    pub(super) async fn commit_writes(
        &self,
        writes: Vec<RunWrite>,
    ) -> Result<Vec<RunWriteResult>, StoreError> {
        let commit = Commit::new(writes, Arc::clone(&self.row_cache));
        let (results, written) = self.transact(commit).await?;
        if let Some(written) = written {
            self.row_cache.add_written(written);
        }
        Ok(results)
    }
}

/// Applies run writes, each if its precondition holds. The output has the result of each, and the rows
/// after the commit.
struct Commit {
    writes: Vec<RunWrite>,
    row_cache: Arc<RowCache>,
    /// Whether the rows are locked before they are read.
    is_locking: bool,
    /// Collections in which a write makes a job due that was not, or earlier than it was. Their lock
    /// precedes the others, so they are known after a first attempt.
    lowers_due: Vec<i64>,
}

impl Operation for Commit {
    type Output = (Vec<RunWriteResult>, Option<WrittenRows>);

    const READS_FIRST: bool = true;

    async fn perform(
        &mut self,
        transaction: &Transaction<'_>,
    ) -> Result<Self::Output, PostgresError> {
        let is_renewal = |write: &RunWrite| matches!(write, RunWrite::RenewLease { .. });
        let (mut batch, now) = match self.is_locking {
            false => self.read_unlocked(transaction, &self.row_cache).await?,
            true if self.writes.iter().all(is_renewal) => self.read_renewed(transaction).await?,
            true => self.read_locked(transaction).await?,
        };
        let mut commit = |write| run_state::commit(&mut batch, write, now);
        let results = self.writes.iter().map(&mut commit).collect::<Result<Vec<_>, _>>()?;
        if !self.is_locking && results.contains(&RunWriteResult::Stale) {
            // The row that the write was decided on may be out of date.
            return self.repeat_with_locks();
        }
        let changes = batch.changes();
        let lowered: Vec<_> = changes.lowered.iter().map(|(collection, _)| *collection).collect();
        if lowered.iter().any(|collection| !self.lowers_due.contains(collection)) {
            self.lowers_due = lowered;
            self.is_locking = true;
            return Err(PostgresError::Repeat);
        }
        match write::write(transaction, changes).await {
            Err(PostgresError::Changed(_)) if !self.is_locking => self.repeat_with_locks(),
            version => Ok((results, version?.map(|version| batch.written(version)))),
        }
    }
}

impl Commit {
    fn new(writes: Vec<RunWrite>, row_cache: Arc<RowCache>) -> Commit {
        // Each of them changes the state of its job, so that its version is checked. The lock of other
        // writes also keeps renewals of leases from waiting for them.
        let changes_state = |write: &RunWrite| {
            use RunWrite::{Begin, Continue, Finish};
            matches!(write, Begin { .. } | Continue { .. } | Finish { .. })
        };
        let is_locking = !writes.iter().all(changes_state) || row_cache.must_lock();
        Commit { writes, row_cache, is_locking, lowers_due: Vec::new() }
    }

    fn repeat_with_locks<T>(&mut self) -> Result<T, PostgresError> {
        self.row_cache.found_changed(self.named());
        self.is_locking = true;
        Err(PostgresError::Repeat)
    }
}
