//! What the writer and the readers share beside the file.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rusqlite::Connection;

use crate::sqlite::collection_cache::CollectionCache;
use crate::sqlite::collections::CollectionLocation;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::path_keys::CollectionKeys;
use crate::sqlite::write_back::change_log::{self, Numbers};
use crate::sqlite::write_back::dirty_rows::DirtyRows;
use crate::sqlite::write_back::open_runs::Runs;

/// Collections of which it is cached whether they are enabled: some bytes each.
const SWITCHES_MAX: usize = 100_000;

/// Collections of which it is cached where their jobs are: some hundred bytes each.
const HOMES_MAX: usize = 10_000;

/// Changed lately and not in its table yet; and what is cached, to be looked up less often.
pub(crate) struct SharedState {
    pub(crate) dirty_rows: DirtyRows,
    runs: RwLock<Runs>,
    /// Whether collections are enabled; `None` for one that is gone.
    pub(crate) switches: CollectionCache<i64, Option<bool>>,
    /// Where jobs of a collection are.
    pub(crate) locations: CollectionCache<CollectionKeys, Arc<CollectionLocation>>,
}

/// Where the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) transaction: u64,
    pub(crate) numbers: Numbers,
}

impl SharedState {
    /// Reads the open runs, and what the log says came later.
    pub(crate) fn load(
        connection: &Connection,
        readers: usize,
    ) -> SqliteResult<(SharedState, End)> {
        let replayed = change_log::replay(connection)?;
        let mut runs = Runs::load(connection)?;
        for (run, (transaction, row)) in replayed.runs {
            runs.apply(run, row, transaction);
        }
        let end = End { transaction: replayed.transaction, numbers: replayed.numbers };
        let dirty_rows = DirtyRows::new(replayed.jobs.into_iter(), end.transaction, readers);
        let memory = SharedState {
            dirty_rows,
            runs: RwLock::new(runs),
            switches: CollectionCache::new(SWITCHES_MAX),
            locations: CollectionCache::new(HOMES_MAX),
        };
        Ok((memory, end))
    }

    /// A commit has changed collections.
    pub(crate) fn forget_collections(&self) {
        self.switches.forget();
        self.locations.forget();
    }

    /// The open runs, as of the newest commit.
    pub(crate) fn runs(&self) -> RwLockReadGuard<'_, Runs> {
        self.runs.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, for the writer.
    pub(crate) fn runs_mut(&self) -> RwLockWriteGuard<'_, Runs> {
        self.runs.write().unwrap_or_else(PoisonError::into_inner)
    }
}
