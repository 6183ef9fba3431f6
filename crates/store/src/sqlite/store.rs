//! The store: what is asked of it, passed to its threads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kalends_domain::{CollectionPath, GroupPath, JobName, JobPath, SubscriptionId};
use kalends_environment::Clock;
use kalends_recurrence::Instant;
use rusqlite::Connection;

use crate::error::StoreError;
use crate::form::Keeper;
use crate::record::{
    CollectionRecord, GroupRecord, HistoryRecord, JobBrief, JobKey, JobRecord, JobStanding,
    LedgerRecord, OpenRun,
};
use crate::sqlite::lock::Lock;
use crate::sqlite::prune::{self, Aged};
use crate::sqlite::readers::Readers;
use crate::sqlite::settings::SqliteSettings;
use crate::sqlite::trouble::Worked;
use crate::sqlite::writer::Writer;
use crate::sqlite::{
    backup, briefs, collections, connection, edit, events, groups, history, inspect, jobs,
    key_check, migrate, runs,
};
use crate::store::{
    DecideCollection, DecideJob, Due, Edited, Events, HistoryFilter, JobFilter, Page, Reply,
    Retention, RunAnswer, RunWrite, Scope, Store,
};

/// What an edit weighs for the writer, in rows.
const EDIT_WEIGHT: usize = 4;

/// A store in one SQLite file. It is closed when it is dropped: what waits is done first.
pub struct SqliteStore {
    writer: Writer,
    readers: Readers,
    keeper: Arc<Keeper>,
    clock: Arc<dyn Clock>,
    path: PathBuf,
    // After the threads: another process may begin only when they have ended.
    _lock: Lock,
}

impl SqliteStore {
    /// Opens the store in a file, or makes it. Leases are measured with `clock`.
    ///
    /// It is refused where another process has it open ([`StoreError::Busy`]), where it was written
    /// with another key ([`StoreError::Damaged`]) or by a newer version ([`StoreError::TooNew`]).
    pub fn open(
        path: &Path,
        settings: SqliteSettings,
        keeper: Keeper,
        clock: Arc<dyn Clock>,
    ) -> Result<SqliteStore, StoreError> {
        let lock = Lock::take(path)?;
        if !path.exists() {
            let made = backup::create_private(path).and_then(|_| backup::sync_folder(path));
            made.map_err(|error| StoreError::Failed(format!("{}: {error}", path.display())))?;
        }
        let mut writing = connection::for_writing(path, &settings)?;
        migrate::migrate(&mut writing)?;
        key_check::check_or_write(&writing, keeper.sealer())?;
        let reading = |_| connection::for_reading(path, settings.reader_cache_kib);
        let reading = (0..settings.readers.max(1)).map(reading).collect::<Worked<Vec<_>>>()?;
        Ok(SqliteStore {
            writer: Writer::start(writing, settings.writes_waiting_max)?,
            readers: Readers::start(reading, settings.reads_waiting_max)?,
            keeper: Arc::new(keeper),
            clock,
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// The file it is in.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why nothing is written any more, where the disk has failed. Only a new start helps.
    pub fn stopped(&self) -> Option<&StoreError> {
        self.writer.stopped()
    }

    /// Copies the store to a file that is not there yet, while it is written to.
    pub fn backup(&self, to: PathBuf) -> Reply<'_, ()> {
        self.readers.read(move |connection| backup::back_up_with(connection, &to))
    }

    fn edit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Keeper, Instant) -> Worked<T> + Send + 'static,
    ) -> Reply<'_, T> {
        let (keeper, clock) = (Arc::clone(&self.keeper), Arc::clone(&self.clock));
        let work = move |connection: &Connection| work(connection, &keeper, clock.now().into());
        self.writer.write(EDIT_WEIGHT, work)
    }

    fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Keeper) -> Worked<T> + Send + 'static,
    ) -> Reply<'_, T> {
        let keeper = Arc::clone(&self.keeper);
        self.readers.read(move |connection| work(connection, &keeper))
    }

    /// Removes entries of jobs that have more than are kept; how many there were.
    async fn remove_surplus(&self, keep: u64, limit: usize) -> Result<usize, StoreError> {
        let (mut after, mut left) = (JobKey(i64::MIN), limit);
        while left > 0 {
            let batch = left.min(prune::BATCH_MAX);
            let read = move |connection: &Connection, _: &Keeper| {
                prune::overfull(connection, after, keep, batch)
            };
            let found = self.read(read).await?;
            let Some(&last) = found.last() else { break };
            let write = move |connection: &Connection| {
                let mut removed = 0;
                for job in &found {
                    removed += prune::remove_surplus(connection, *job, keep, batch - removed)?;
                    if removed == batch {
                        return Ok((removed, JobKey(job.0.saturating_sub(1))));
                    }
                }
                Ok((removed, last))
            };
            let (removed, seen) = self.writer.write(batch, write).await?;
            left -= removed;
            after = seen;
        }
        Ok(limit - left)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // Readers first: the log can be moved into the database only when nobody reads it.
        self.readers.close();
        self.writer.close();
    }
}

impl Store for SqliteStore {
    fn put_group(&self, group: GroupRecord) -> Reply<'_, bool> {
        self.edit(move |connection, _, _| groups::put(connection, &group))
    }

    fn group(&self, path: GroupPath) -> Reply<'_, Option<GroupRecord>> {
        self.read(move |connection, _| groups::find(connection, &path))
    }

    fn groups(&self, subscription: SubscriptionId) -> Reply<'_, Vec<GroupRecord>> {
        self.read(move |connection, _| groups::list(connection, &subscription))
    }

    fn delete_group(&self, path: GroupPath) -> Reply<'_, bool> {
        self.edit(move |connection, _, _| groups::delete(connection, &path))
    }

    fn edit_collection(
        &self,
        path: CollectionPath,
        decide: DecideCollection,
    ) -> Reply<'_, Edited<CollectionRecord>> {
        self.edit(move |connection, _, now| edit::edit_collection(connection, &path, decide, now))
    }

    fn collection(&self, path: CollectionPath) -> Reply<'_, Option<CollectionRecord>> {
        self.read(move |connection, _| {
            Ok(collections::find(connection, &path)?.map(|found| found.record))
        })
    }

    fn collections(
        &self,
        scope: Scope,
        page: Page<CollectionPath>,
    ) -> Reply<'_, Vec<CollectionRecord>> {
        self.read(move |connection, _| collections::list(connection, &scope, &page))
    }

    fn edit_job(&self, path: JobPath, decide: DecideJob) -> Reply<'_, Edited<JobRecord>> {
        self.edit(move |connection, keeper, now| {
            edit::edit_job(connection, keeper, &path, decide, now)
        })
    }

    fn job(&self, path: JobPath) -> Reply<'_, Option<JobRecord>> {
        self.read(move |connection, keeper| jobs::by_path(connection, keeper, &path))
    }

    fn jobs(
        &self,
        path: CollectionPath,
        filter: JobFilter,
        page: Page<JobName>,
    ) -> Reply<'_, Vec<JobRecord>> {
        self.read(move |connection, keeper| jobs::list(connection, keeper, &path, &filter, &page))
    }

    fn job_by_key(&self, key: JobKey) -> Reply<'_, Option<JobRecord>> {
        self.read(move |connection, keeper| {
            Ok(jobs::by_key(connection, keeper, key)?.map(|(job, _)| job))
        })
    }

    fn due(&self, until: Instant, limit: usize) -> Reply<'_, Vec<Due>> {
        self.read(move |connection, _| jobs::due(connection, until, limit))
    }

    fn briefs(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<JobBrief>>> {
        self.read(move |connection, keeper| briefs::briefs(connection, keeper, &jobs))
    }

    fn standings(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<JobStanding>>> {
        self.read(move |connection, _| briefs::standings(connection, &jobs))
    }

    fn commit(&self, writes: Vec<RunWrite>) -> Reply<'_, Vec<RunAnswer>> {
        let clock = Arc::clone(&self.clock);
        self.writer.write(writes.len(), move |connection| {
            let now = clock.now().into();
            let carry_out =
                |write| Ok(runs::carry_out(connection, write, now)?.unwrap_or(RunAnswer::Stale));
            writes.iter().map(carry_out).collect()
        })
    }

    fn claimable(&self, until: Instant, limit: usize) -> Reply<'_, Vec<OpenRun>> {
        let now = self.clock.now().into();
        self.read(move |connection, _| runs::claimable(connection, until, now, limit))
    }

    fn expire_claims(&self) -> Reply<'_, usize> {
        self.edit(|connection, _, _| runs::expire_claims(connection))
    }

    fn open_runs(&self, job: JobKey) -> Reply<'_, Vec<OpenRun>> {
        self.read(move |connection, _| runs::of_job(connection, job))
    }

    fn history(
        &self,
        path: JobPath,
        filter: HistoryFilter,
        page: Page<u64>,
    ) -> Reply<'_, Option<Vec<HistoryRecord>>> {
        self.read(move |connection, _| history::page(connection, &path, filter, &page))
    }

    fn events(&self, after: Option<u64>, limit: usize) -> Reply<'_, Events> {
        self.read(move |connection, _| events::after(connection, after, limit))
    }

    fn ledger(
        &self,
        job: JobKey,
        from: Instant,
        to: Instant,
        limit: usize,
    ) -> Reply<'_, Vec<LedgerRecord>> {
        self.read(move |connection, _| history::ledger(connection, job, from, to, limit))
    }

    fn prune(&self, retention: Retention, now: Instant, limit: usize) -> Reply<'_, usize> {
        Box::pin(async move {
            // Surplus first: it is counted over all entries, old ones included.
            let mut left = limit - self.remove_surplus(retention.history_count, limit).await?;
            for aged in Aged::ALL {
                let oldest = aged.oldest(retention, now);
                while left > 0 {
                    let batch = left.min(prune::BATCH_MAX);
                    let write =
                        move |connection: &Connection| aged.remove(connection, oldest, batch);
                    let removed = self.writer.write(batch, write).await?;
                    left -= removed;
                    if removed < batch {
                        break;
                    }
                }
            }
            Ok(limit - left)
        })
    }

    fn now(&self) -> Reply<'_, Instant> {
        let now = self.clock.now().into();
        Box::pin(std::future::ready(Ok(now)))
    }

    fn check(&self) -> Reply<'_, Vec<String>> {
        self.read(inspect::inspect_with)
    }
}
