//! State shared by the writer and the readers of a store.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kalends_recurrence::Instant;
use rusqlite::Connection;

use crate::record::{Pause, PauseRecord};
use crate::sqlite::collection_cache::CollectionCache;
use crate::sqlite::collections::{CollectionLocation, CollectionSwitch};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::path_keys::CollectionKeys;
use crate::sqlite::pause;
use crate::sqlite::write_back::change_log::{self, LastNumbers};
use crate::sqlite::write_back::dirty_rows::DirtyRows;
use crate::sqlite::write_back::open_runs::OpenRuns;

/// Maximum number of entries of the cache of enabled collections, a few bytes each.
const ENABLED_CACHE_MAX: usize = 100_000;

/// Maximum number of entries of the cache of collection locations, a few hundred bytes each.
const LOCATION_CACHE_MAX: usize = 10_000;

/// Dirty rows, open runs and caches of collections.
pub(crate) struct SharedState {
    pub(crate) dirty_rows: DirtyRows,
    runs: RwLock<OpenRuns>,
    /// Whether collections are enabled, and since when; `None` for a deleted one.
    pub(crate) collection_switches: CollectionCache<i64, Option<CollectionSwitch>>,
    /// Ids, paths and states of collections.
    pub(crate) locations: CollectionCache<CollectionKeys, Arc<CollectionLocation>>,
    /// The newest pause of all jobs, as of the newest commit.
    pause: RwLock<Option<PauseRecord>>,
}

/// The end of the change log: the newest transaction and the numbers after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangeLogEnd {
    pub(crate) transaction: u64,
    pub(crate) numbers: LastNumbers,
}

impl SharedState {
    /// Reads the open runs and replays the change log.
    pub(crate) fn load(
        connection: &Connection,
        readers: usize,
    ) -> SqliteResult<(SharedState, ChangeLogEnd)> {
        let replayed = change_log::replay(connection)?;
        let mut runs = OpenRuns::load(connection)?;
        for (run, (transaction, row)) in replayed.runs {
            runs.apply(run, row, transaction);
        }
        let end = ChangeLogEnd { transaction: replayed.transaction, numbers: replayed.numbers };
        let dirty_rows = DirtyRows::new(replayed.jobs.into_iter(), end.transaction, readers);
        let shared = SharedState {
            dirty_rows,
            runs: RwLock::new(runs),
            collection_switches: CollectionCache::new(ENABLED_CACHE_MAX),
            locations: CollectionCache::new(LOCATION_CACHE_MAX),
            pause: RwLock::new(pause::newest(connection)?),
        };
        Ok((shared, end))
    }

    /// Invalidates the caches after a commit that changed collections.
    pub(crate) fn invalidate_collections(&self) {
        self.collection_switches.invalidate();
        self.locations.invalidate();
    }

    /// The newest pause, also one that has ended.
    pub(crate) fn pause_record(&self) -> Option<PauseRecord> {
        self.pause.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The times of the newest pause.
    pub(crate) fn pause(&self) -> Option<Pause> {
        let record = self.pause.read().unwrap_or_else(PoisonError::into_inner);
        record.as_ref().map(|record| record.pause)
    }

    /// Whether a pause of all jobs holds at `now`.
    pub(crate) fn is_paused(&self, now: Instant) -> bool {
        self.pause().is_some_and(|pause| pause.is_active(now))
    }

    /// Replaces the pause after a commit that changed it.
    pub(crate) fn set_pause(&self, record: PauseRecord) {
        *self.pause.write().unwrap_or_else(PoisonError::into_inner) = Some(record);
    }

    /// The open runs as of the newest commit.
    pub(crate) fn runs(&self) -> RwLockReadGuard<'_, OpenRuns> {
        self.runs.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open runs, for the writer.
    pub(crate) fn runs_mut(&self) -> RwLockWriteGuard<'_, OpenRuns> {
        self.runs.write().unwrap_or_else(PoisonError::into_inner)
    }
}
