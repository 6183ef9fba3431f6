//! The SQLite store: passes requests to the writer and the readers.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kalends_domain::{
    AccessScope, CollectionPath, GroupName, GroupPath, JobName, JobPath, NewNote, NoteRecord,
    SubscriptionId,
};
use kalends_environment::Clock;
use kalends_recurrence::Instant;

use crate::api_store::{
    ApiStore, DecideCollection, DecideJob, DecidePause, Edited, EditedJob, HistoryFilter,
    JobFilter, JobsPage, Page, Scope,
};
use crate::engine_store::{
    Due, EngineStore, Heartbeat, JobAt, ParkedRuns, Retention, RunWrite, RunWriteResult,
};
use crate::error::StoreError;
use crate::events::{EventPosition, Events};
use crate::invariant_scan::ScanPage;
use crate::overview_store::{
    CollectionSummary, JobMatch, JobSearch, JobSearchPage, JobSet, JobSummary, OverviewStore,
    SchedulesPage, StatesPage, TextsFrom, TextsPage,
};
use crate::record::{
    CollectionRecord, CollectionStatus, EarlierDefinition, GateState, GroupRecord, HistoryRecord,
    JobForRun, JobKey, JobRecord, LedgerRecord, OpenRun, PauseRecord, SlotKey,
};
use crate::run_reports::{
    ClosedRunsPage, ClosedRunsQuery, NewestRuns, OpenRunCount, OpenRunsPage, OpenRunsQuery,
    RunCounts, RunReports,
};
use crate::run_state;
use crate::sessions::{SessionHash, SessionRecord, Sessions};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::lock::Lock;
use crate::sqlite::path_keys::CollectionKeys;
use crate::sqlite::prune::{self, ExcessHistory, ExpiredRows, Removed};
use crate::sqlite::queue::Priority;
use crate::sqlite::readers::{ReaderSnapshots, Readers};
use crate::sqlite::settings::{SqliteSettings, Threads};
use crate::sqlite::state::ReadState as _;
use crate::sqlite::write_back::Checkpointer;
use crate::sqlite::write_back::SharedState;
use crate::sqlite::write_back::Snapshot;
use crate::sqlite::write_back::WriteTransaction;
use crate::sqlite::writer::Writer;
use crate::sqlite::{
    backup, check, collections, connection, due, earlier_definitions, edit_collection, edit_job,
    events, groups, history, invariant_scan, jobs, jobs_for_run, key_check, migrate, notes,
    overview, overview_scan, pause, run_counts, run_reports, runs, search, sessions, tokens,
};
use crate::store::{AdminStore, LeaseClock, PauseState, Reply, StoreHealth, next_due};
use crate::stored_form::DefinitionCodec;
use crate::tokens::{TokenId, TokenRecord, Tokens};

/// Weight of an edit for the writer, in rows.
const EDIT_WEIGHT: usize = 4;

/// A store in one SQLite file. Dropping it completes waiting requests, flushes and checkpoints.
pub struct SqliteStore {
    writer: Writer,
    readers: Readers,
    codec: Arc<DefinitionCodec>,
    shared: Arc<SharedState>,
    clock: Arc<dyn Clock>,
    path: PathBuf,
    is_abandoned: bool,
    // Last, so that it is released when the threads have ended.
    _lock: Lock,
}

impl SqliteStore {
    /// Opens the store in a file, which is created if it does not exist. `clock` measures leases.
    ///
    /// Fails if another process has the file open ([`StoreError::Busy`]), if it was written with
    /// another key ([`StoreError::Key`]) or by a newer version ([`StoreError::TooNew`]).
    pub fn open(
        path: &Path,
        settings: SqliteSettings,
        codec: DefinitionCodec,
        clock: Arc<dyn Clock>,
    ) -> Result<SqliteStore, StoreError> {
        create_if_missing(path)
            .map_err(|error| StoreError::Failed(format!("{}: {error}", path.display())))?;
        let lock = Lock::take(path)?;
        let mut writing = connection::for_writing(path, &settings)?;
        migrate::migrate(&mut writing)?;
        key_check::check_or_write(&writing, codec.cipher())?;
        let (general, engine) = (settings.readers.max(1), settings.engine_readers.max(1));
        let readers = general + engine + settings.inline_readers;
        let (shared, end) = SharedState::load(&writing, readers)?;
        let shared = Arc::new(shared);
        let snapshot = |reader| {
            let connection = connection::for_reading(path, settings.reader_cache_kib)?;
            Ok(Snapshot::new(connection, Arc::clone(&shared), reader))
        };
        let (writer, readers) = match settings.threads {
            Threads::Background => {
                let mut next = 0..readers;
                let mut snapshots = |count: usize| {
                    next.by_ref().take(count).map(snapshot).collect::<SqliteResult<Vec<_>>>()
                };
                let snapshots = ReaderSnapshots {
                    general: snapshots(general)?,
                    engine: snapshots(engine)?,
                    inline: snapshots(settings.inline_readers)?,
                };
                let checkpointer = Checkpointer::start(path, &mut writing)?;
                let transaction = WriteTransaction::new(writing, Arc::clone(&shared), end);
                let (waiting_max, flush_at) =
                    (settings.writes_waiting_max, settings.flush_threshold_rows);
                let writer = Writer::start(transaction, checkpointer, waiting_max, flush_at)?;
                (writer, Readers::start(snapshots, settings.reads_waiting_max)?)
            }
            Threads::Caller => {
                let snapshots = (0..general).map(snapshot).collect::<SqliteResult<Vec<_>>>()?;
                let checkpointer = Checkpointer::inline(&mut writing)?;
                let transaction = WriteTransaction::new(writing, Arc::clone(&shared), end);
                let flush_at = settings.flush_threshold_rows;
                (Writer::inline(transaction, checkpointer, flush_at), Readers::inline(snapshots))
            }
        };
        Ok(SqliteStore {
            writer,
            readers,
            codec: Arc::new(codec),
            shared,
            clock,
            path: path.to_owned(),
            is_abandoned: false,
            _lock: lock,
        })
    }

    /// Drops the store as a crash of the process would: dirty rows stay in the change log. A store
    /// with threads of its own ([`Threads::Background`]) is closed in order instead.
    pub fn abandon(mut self) {
        self.is_abandoned = self.writer.is_inline();
    }

    /// Path of the database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Copies the store, while it is in use, to a file that must not exist.
    pub fn backup(&self, to: PathBuf) -> Reply<'_, ()> {
        self.readers.read_file(move |connection| backup::back_up_with(connection, &to))
    }

    /// Flushes all dirty rows. The store does so by itself; tools and tests use it to flush at a
    /// certain point.
    pub fn flush(&self) -> Reply<'_, ()> {
        let requested = self.writer.write(Priority::Engine, 1, |transaction| {
            transaction.wants_flush = true;
            Ok(())
        });
        // The writer takes this second request after the flush.
        let done = move || self.writer.write(Priority::Engine, 1, |_| Ok(()));
        Box::pin(async move {
            requested.await?;
            done().await
        })
    }

    fn edit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut WriteTransaction, &DefinitionCodec, Instant) -> SqliteResult<T>
        + Send
        + 'static,
    ) -> Reply<'_, T> {
        let (codec, clock) = (Arc::clone(&self.codec), Arc::clone(&self.clock));
        let work =
            move |transaction: &mut WriteTransaction| work(transaction, &codec, clock.now().into());
        self.writer.write(Priority::Edit, EDIT_WEIGHT, work)
    }

    fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Snapshot, &DefinitionCodec) -> SqliteResult<T> + Send + 'static,
    ) -> Reply<'_, T> {
        let codec = Arc::clone(&self.codec);
        self.readers.read(move |snapshot| work(snapshot, &codec))
    }

    /// A read that runs wait for.
    fn read_for_engine<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Snapshot, &DefinitionCodec) -> SqliteResult<T> + Send + 'static,
    ) -> Reply<'_, T> {
        let codec = Arc::clone(&self.codec);
        self.readers.read_for_engine(move |snapshot| work(snapshot, &codec))
    }

    /// Removes history entries beyond `keep` per job, at most `limit`; returns their number.
    async fn remove_excess_history(&self, keep: u64, limit: usize) -> Result<usize, StoreError> {
        let (mut after, mut left) = (JobKey(i64::MIN), limit);
        while left > 0 {
            let batch = left.min(prune::BATCH_MAX);
            let read = move |snapshot: &Snapshot, _: &DefinitionCodec| {
                prune::find_excess_history(snapshot, after, keep, batch)
            };
            let ExcessHistory { entries, next } = self.read(read).await?;
            if !entries.is_empty() {
                let write = move |transaction: &mut WriteTransaction| {
                    prune::remove_excess_history(transaction, &entries)
                };
                left -= self.writer.write(Priority::Engine, batch, write).await?;
            }
            match next {
                Some(next) => after = next,
                None => break,
            }
        }
        Ok(limit - left)
    }
}

/// Creates an empty database, which only its owner can read.
pub(crate) fn create_if_missing(path: &Path) -> std::io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    match backup::create_private(path) {
        Ok(_) => backup::sync_directory(path),
        // Another process was faster; the lock decides.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // Readers first: a snapshot would block the final checkpoint.
        self.readers.close();
        if !self.is_abandoned {
            self.writer.close();
        }
    }
}

impl Tokens for SqliteStore {
    fn put_token(&self, token: TokenRecord) -> Reply<'_, bool> {
        self.edit(move |transaction, _, _| tokens::put(transaction.connection(), &token))
    }

    fn token(&self, id: TokenId) -> Reply<'_, Option<TokenRecord>> {
        self.read(move |snapshot, _| tokens::find(snapshot.connection(), &id))
    }

    fn tokens(&self) -> Reply<'_, Vec<TokenRecord>> {
        self.read(|snapshot, _| tokens::list(snapshot.connection()))
    }

    fn revoke_token(&self, id: TokenId, at: Instant) -> Reply<'_, bool> {
        self.edit(move |transaction, _, _| tokens::revoke(transaction.connection(), &id, at))
    }

    fn delete_token(&self, id: TokenId) -> Reply<'_, bool> {
        self.edit(move |transaction, _, _| tokens::delete(transaction.connection(), &id))
    }

    fn note_token_use(&self, id: TokenId, at: Instant) -> Reply<'_, ()> {
        self.edit(move |transaction, _, _| tokens::note_use(transaction.connection(), &id, at))
    }
}

impl Sessions for SqliteStore {
    fn put_session(&self, session: SessionRecord) -> Reply<'_, ()> {
        self.edit(move |transaction, _, _| sessions::put(transaction.connection(), &session))
    }

    fn session(&self, hash: SessionHash) -> Reply<'_, Option<SessionRecord>> {
        self.read(move |snapshot, _| sessions::find(snapshot.connection(), hash))
    }

    fn delete_session(&self, hash: SessionHash) -> Reply<'_, bool> {
        self.edit(move |transaction, _, _| sessions::delete(transaction.connection(), hash))
    }
}

impl ApiStore for SqliteStore {
    fn put_group(&self, group: GroupRecord) -> Reply<'_, bool> {
        self.edit(move |transaction, _, _| groups::put(transaction.connection(), &group))
    }

    fn group(&self, path: GroupPath) -> Reply<'_, Option<GroupRecord>> {
        self.read(move |snapshot, _| groups::find(snapshot.connection(), &path))
    }

    fn groups(
        &self,
        subscription: SubscriptionId,
        page: Page<GroupName>,
    ) -> Reply<'_, Vec<GroupRecord>> {
        self.read(move |snapshot, _| groups::list(snapshot.connection(), &subscription, &page))
    }

    fn delete_group(&self, path: GroupPath) -> Reply<'_, bool> {
        self.edit(move |transaction, _, _| groups::delete(transaction, &path))
    }

    fn edit_collection_with_note(
        &self,
        path: CollectionPath,
        decide: DecideCollection,
        note: Option<NewNote>,
    ) -> Reply<'_, Edited<CollectionRecord>> {
        self.edit(move |transaction, _, now| {
            edit_collection::edit_collection(transaction, &path, decide, note.as_ref(), now)
        })
    }

    fn collection(&self, path: CollectionPath) -> Reply<'_, Option<CollectionRecord>> {
        self.read(move |snapshot, _| {
            let keys = CollectionKeys::new(&path);
            Ok(collections::find(snapshot.connection(), &keys)?.map(|found| found.record))
        })
    }

    fn collections(
        &self,
        scope: Scope,
        page: Page<CollectionPath>,
    ) -> Reply<'_, Vec<CollectionRecord>> {
        self.read(move |snapshot, _| collections::list(snapshot.connection(), &scope, &page))
    }

    fn edit_job_with_note(
        &self,
        path: JobPath,
        decide: DecideJob,
        note: Option<NewNote>,
    ) -> Reply<'_, EditedJob> {
        self.edit(move |transaction, codec, now| {
            edit_job::edit_job(transaction, codec, &path, decide, note.as_ref(), now)
        })
    }

    fn edit_pause_with_note(
        &self,
        decide: DecidePause,
        note: Option<NewNote>,
    ) -> Reply<'_, Option<PauseRecord>> {
        self.edit(move |transaction, _, now| {
            pause::edit_pause(transaction, decide, note.as_ref(), now)
        })
    }

    fn notes_of_job(&self, path: JobPath, page: Page<u64>) -> Reply<'_, Option<Vec<NoteRecord>>> {
        self.read(move |snapshot, _| notes::of_job(snapshot.connection(), &path, &page))
    }

    fn notes_of_collection(
        &self,
        path: CollectionPath,
        page: Page<u64>,
    ) -> Reply<'_, Option<Vec<NoteRecord>>> {
        self.read(move |snapshot, _| notes::of_collection(snapshot.connection(), &path, &page))
    }

    fn notes(&self, page: Page<u64>) -> Reply<'_, Vec<NoteRecord>> {
        self.read(move |snapshot, _| notes::all(snapshot.connection(), &page))
    }

    fn job(&self, path: JobPath) -> Reply<'_, Option<(JobRecord, CollectionStatus)>> {
        let codec = Arc::clone(&self.codec);
        let since = (self.shared.locations.version(), self.clock.now().into());
        self.readers.read_one(move |snapshot| jobs::by_path(snapshot, &codec, &path, since))
    }

    fn jobs(
        &self,
        path: CollectionPath,
        filter: JobFilter,
        page: Page<JobName>,
        scan_max: usize,
    ) -> Reply<'_, JobsPage> {
        let now = self.clock.now().into();
        self.read(move |snapshot, codec| {
            let is_paused = snapshot.shared.is_paused(now);
            search::jobs(snapshot, codec, &path, (&filter, scan_max), &page, is_paused)
        })
    }

    fn open_runs(&self, job: JobKey) -> Reply<'_, Vec<OpenRun>> {
        self.read(move |snapshot, _| Ok(runs::of_job(snapshot, job)))
    }

    fn history(
        &self,
        path: JobPath,
        filter: HistoryFilter,
        page: Page<u64>,
    ) -> Reply<'_, Option<Vec<HistoryRecord>>> {
        self.read(move |snapshot, _| history::page(snapshot, &path, filter, &page))
    }

    fn events(&self, after: Option<EventPosition>, limit: usize) -> Reply<'_, Events> {
        self.read(move |snapshot, _| events::after(snapshot, after, limit))
    }

    fn earlier_definition(
        &self,
        job: JobKey,
        generation: u64,
    ) -> Reply<'_, Option<EarlierDefinition>> {
        self.read(move |snapshot, codec| {
            earlier_definitions::find(snapshot.connection(), codec, job, generation)
        })
    }

    fn ledger(
        &self,
        job: JobKey,
        from: Instant,
        to: Instant,
        limit: usize,
    ) -> Reply<'_, Vec<LedgerRecord>> {
        self.read(move |snapshot, _| history::ledger(snapshot, job, from, to, limit))
    }
}

impl EngineStore for SqliteStore {
    fn due_between(&self, from: Instant, until: Instant, limit: usize) -> Reply<'_, Vec<Due>> {
        let now = self.clock.now().into();
        self.read_for_engine(move |snapshot, _| due::due(snapshot, (from, until), now, limit))
    }

    fn jobs_for_run_at(&self, jobs: Vec<JobAt>) -> Reply<'_, Vec<Option<Arc<JobForRun>>>> {
        self.read_for_engine(move |snapshot, codec| {
            jobs_for_run::jobs_for_run(snapshot, codec, &jobs)
        })
    }

    fn gate_states(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<GateState>>> {
        if let Some(gate_states) = jobs_for_run::gate_states_from_cache(&self.shared, &jobs) {
            return Box::pin(std::future::ready(Ok(gate_states)));
        }
        let since = self.shared.collection_switches.version();
        self.read_for_engine(move |snapshot, _| jobs_for_run::gate_states(snapshot, &jobs, since))
    }

    fn commit(&self, writes: Vec<RunWrite>) -> Reply<'_, Vec<RunWriteResult>> {
        let clock = Arc::clone(&self.clock);
        self.writer.write(Priority::Engine, writes.len(), move |transaction| {
            let now = clock.now().into();
            let mut tables = runs::Tables::new(transaction, &writes)?;
            let commit = |write| run_state::commit(&mut tables, write, now);
            let results = writes.iter().map(commit).collect::<SqliteResult<_>>()?;
            tables.finish()?;
            Ok(results)
        })
    }

    /// A file has a single node.
    fn record_heartbeat(&self, _: Heartbeat) -> Reply<'_, Option<Instant>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn claimable(&self, until: Instant, limit: usize) -> Reply<'_, Vec<OpenRun>> {
        let now = self.clock.now().into();
        self.read_for_engine(move |snapshot, _| runs::claimable(snapshot, until, now, limit))
    }

    fn parked(&self, key: SlotKey, limit: usize) -> Reply<'_, Vec<OpenRun>> {
        let now = self.clock.now().into();
        self.read(move |snapshot, _| runs::parked(snapshot, key, now, limit))
    }

    fn parked_keys(&self, limit: usize) -> Reply<'_, Vec<ParkedRuns>> {
        let keys = self.shared.runs().parked_keys(limit);
        Box::pin(std::future::ready(Ok(keys)))
    }

    fn expire_claims(&self) -> Reply<'_, usize> {
        self.edit(|transaction, _, _| Ok(runs::expire_claims(transaction)))
    }

    fn prune(&self, retention: Retention, now: Instant, limit: usize) -> Reply<'_, usize> {
        Box::pin(async move {
            // Excess entries first: they are counted over all entries of a job, expired ones included.
            let mut left =
                limit - self.remove_excess_history(retention.history_count, limit).await?;
            for expired in ExpiredRows::ALL {
                let cutoff = expired.cutoff(retention, now);
                while left > 0 {
                    let batch = left.min(prune::BATCH_MAX);
                    let write = move |transaction: &mut WriteTransaction| {
                        expired.remove(transaction, cutoff, batch)
                    };
                    let Removed { found, visible } =
                        self.writer.write(Priority::Engine, batch, write).await?;
                    left -= visible;
                    if found < batch {
                        break;
                    }
                }
            }
            Ok(limit - left)
        })
    }

    fn scan_jobs(&self, after: Option<JobKey>, scan_max: usize) -> Reply<'_, ScanPage> {
        let after = after.unwrap_or(JobKey(i64::MIN));
        self.read(move |snapshot, _| invariant_scan::scan_jobs(snapshot, after, scan_max))
    }
}

impl LeaseClock for SqliteStore {
    fn now(&self) -> Reply<'_, Instant> {
        let now = self.clock.now().into();
        Box::pin(std::future::ready(Ok(now)))
    }
}

impl PauseState for SqliteStore {
    fn pause(&self) -> Reply<'_, Option<PauseRecord>> {
        let (record, now) = (self.shared.pause_record(), self.clock.now().into());
        let active = record.filter(|record| record.pause.is_active(now));
        Box::pin(std::future::ready(Ok(active)))
    }
}

impl StoreHealth for SqliteStore {
    fn probe(&self) -> Reply<'_, ()> {
        self.edit(|transaction, _, now| {
            // SQLite does not write a row that stays the same.
            let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES ('probe', ?)";
            let value = now.ticks().to_le_bytes();
            transaction.connection().prepare_cached(sql)?.execute([value.as_slice()])?;
            Ok(())
        })
    }

    fn next_due(&self) -> Reply<'_, Option<Instant>> {
        Box::pin(next_due(self))
    }

    fn newest_entry(&self) -> Reply<'_, Option<Instant>> {
        self.read(|snapshot, _| history::newest_end(snapshot.connection()))
    }

    fn bytes(&self) -> Reply<'_, u64> {
        let bytes = size_of_files(&self.path);
        Box::pin(std::future::ready(bytes.map_err(|error| StoreError::Failed(error.to_string()))))
    }

    fn stopped(&self) -> Option<StoreError> {
        self.writer.stopped().cloned()
    }
}

/// Bytes of the database file and its WAL.
fn size_of_files(database: &Path) -> std::io::Result<u64> {
    let mut wal = database.as_os_str().to_owned();
    wal.push("-wal");
    // Without connections there is no WAL.
    let wal = std::fs::metadata(Path::new(&wal)).map_or(0, |file| file.len());
    Ok(std::fs::metadata(database)?.len() + wal)
}

impl AdminStore for SqliteStore {
    fn check(&self) -> Reply<'_, Vec<String>> {
        let codec = Arc::clone(&self.codec);
        self.readers.read_file(move |connection| check::inspect_with(connection, &codec))
    }
}

mod reports;
#[cfg(test)]
mod tests;
