//! The store: what is asked of it, passed to its threads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kalends_domain::{
    CollectionPath, CollectionState, GroupPath, JobName, JobPath, SubscriptionId,
};
use kalends_environment::Clock;
use kalends_recurrence::Instant;

use crate::error::StoreError;
use crate::events::{EventPosition, Events};
use crate::invariant_scan::ScanPage;
use crate::record::{
    CollectionRecord, GateState, GroupRecord, HistoryRecord, JobForRun, JobKey, JobRecord,
    LedgerRecord, OpenRun,
};
use crate::run_state;
use crate::sqlite::around::Arounds;
use crate::sqlite::desk::Desk;
use crate::sqlite::lock::Lock;
use crate::sqlite::memory::Memory;
use crate::sqlite::mover::Mover;
use crate::sqlite::names::CollectionKeys;
use crate::sqlite::prune::{self, Aged, Removed, Surplus};
use crate::sqlite::queue::Turn;
use crate::sqlite::readers::Readers;
use crate::sqlite::settings::SqliteSettings;
use crate::sqlite::state::States as _;
use crate::sqlite::trouble::Worked;
use crate::sqlite::view::View;
use crate::sqlite::writer::Writer;
use crate::sqlite::{
    backup, collections, connection, due, edit, events, groups, history, inspect, invariant_scan,
    jobs, jobs_for_run, key_check, migrate, runs, search, tokens,
};
use crate::store::{
    DecideCollection, DecideJob, Due, Edited, HistoryFilter, JobFilter, JobsPage, Page, Reply,
    Retention, RunWrite, RunWriteResult, Scope, Store,
};
use crate::stored_form::DefinitionCodec;
use crate::tokens::{TokenId, TokenRecord, Tokens};

/// What an edit weighs for the writer, in rows.
const EDIT_WEIGHT: usize = 4;

/// A store in one SQLite file. It is closed when it is dropped: what waits is done first.
pub struct SqliteStore {
    writer: Writer,
    readers: Readers,
    codec: Arc<DefinitionCodec>,
    memory: Arc<Memory>,
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
        codec: DefinitionCodec,
        clock: Arc<dyn Clock>,
    ) -> Result<SqliteStore, StoreError> {
        let lock = Lock::take(path)?;
        if !path.exists() {
            let made = backup::create_private(path).and_then(|_| backup::sync_folder(path));
            made.map_err(|error| StoreError::Failed(format!("{}: {error}", path.display())))?;
        }
        let mut writing = connection::for_writing(path, &settings)?;
        migrate::migrate(&mut writing)?;
        key_check::check_or_write(&writing, codec.cipher())?;
        let readers = settings.readers.max(1);
        let (memory, end) = Memory::load(&writing, readers + settings.inline_readers)?;
        let memory = Arc::new(memory);
        let view = |reader| {
            let connection = connection::for_reading(path, settings.reader_cache_kib)?;
            Ok(View::new(connection, Arc::clone(&memory), reader))
        };
        let views = (0..readers).map(view).collect::<Worked<Vec<_>>>()?;
        let at_hand = (readers..readers + settings.inline_readers).map(view);
        let at_hand = at_hand.collect::<Worked<Vec<_>>>()?;
        let mover = Mover::start(path, &mut writing)?;
        let desk = Desk::new(writing, Arc::clone(&memory), end);
        Ok(SqliteStore {
            writer: Writer::start(
                desk,
                mover,
                settings.writes_waiting_max,
                settings.flush_threshold_rows,
            )?,
            readers: Readers::start(views, at_hand, settings.reads_waiting_max)?,
            codec: Arc::new(codec),
            memory,
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
        self.readers.read_file(move |connection| backup::back_up_with(connection, &to))
    }

    /// Brings all that is in the log into the tables. The store does so by itself; this is for tools
    /// and tests that want it at a certain moment.
    pub fn fold(&self) -> Reply<'_, ()> {
        let asked = self.writer.write(Turn::Engine, 1, |desk| {
            desk.wants_fold = true;
            Ok(())
        });
        // It is done when the thread turns to something else.
        let done = move || self.writer.write(Turn::Engine, 1, |_| Ok(()));
        Box::pin(async move {
            asked.await?;
            done().await
        })
    }

    fn edit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Desk, &DefinitionCodec, Instant) -> Worked<T> + Send + 'static,
    ) -> Reply<'_, T> {
        let (codec, clock) = (Arc::clone(&self.codec), Arc::clone(&self.clock));
        let work = move |desk: &mut Desk| work(desk, &codec, clock.now().into());
        self.writer.write(Turn::Edit, EDIT_WEIGHT, work)
    }

    fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&View, &DefinitionCodec) -> Worked<T> + Send + 'static,
    ) -> Reply<'_, T> {
        let codec = Arc::clone(&self.codec);
        self.readers.read(move |view| work(view, &codec))
    }

    /// Removes entries of jobs that have more than are kept; how many there were.
    async fn remove_surplus(&self, keep: u64, limit: usize) -> Result<usize, StoreError> {
        let (mut after, mut left) = (JobKey(i64::MIN), limit);
        while left > 0 {
            let batch = left.min(prune::BATCH_MAX);
            let read =
                move |view: &View, _: &DefinitionCodec| prune::surplus(view, after, keep, batch);
            let Surplus { entries, next } = self.read(read).await?;
            if !entries.is_empty() {
                let write = move |desk: &mut Desk| prune::remove_surplus(desk, &entries);
                left -= self.writer.write(Turn::Engine, batch, write).await?;
            }
            match next {
                Some(next) => after = next,
                None => break,
            }
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

impl Tokens for SqliteStore {
    fn put_token(&self, token: TokenRecord) -> Reply<'_, bool> {
        self.edit(move |desk, _, _| tokens::put(desk.connection(), &token))
    }

    fn token(&self, id: TokenId) -> Reply<'_, Option<TokenRecord>> {
        self.read(move |view, _| tokens::find(view.connection(), &id))
    }

    fn tokens(&self) -> Reply<'_, Vec<TokenRecord>> {
        self.read(|view, _| tokens::list(view.connection()))
    }

    fn revoke_token(&self, id: TokenId, at: Instant) -> Reply<'_, bool> {
        self.edit(move |desk, _, _| tokens::revoke(desk.connection(), &id, at))
    }

    fn delete_token(&self, id: TokenId) -> Reply<'_, bool> {
        self.edit(move |desk, _, _| tokens::delete(desk.connection(), &id))
    }

    fn note_token_use(&self, id: TokenId, at: Instant) -> Reply<'_, ()> {
        self.edit(move |desk, _, _| tokens::note_use(desk.connection(), &id, at))
    }
}

impl Store for SqliteStore {
    fn put_group(&self, group: GroupRecord) -> Reply<'_, bool> {
        self.edit(move |desk, _, _| groups::put(desk.connection(), &group))
    }

    fn group(&self, path: GroupPath) -> Reply<'_, Option<GroupRecord>> {
        self.read(move |view, _| groups::find(view.connection(), &path))
    }

    fn groups(&self, subscription: SubscriptionId) -> Reply<'_, Vec<GroupRecord>> {
        self.read(move |view, _| groups::list(view.connection(), &subscription))
    }

    fn delete_group(&self, path: GroupPath) -> Reply<'_, bool> {
        self.edit(move |desk, _, _| groups::delete(desk, &path))
    }

    fn edit_collection(
        &self,
        path: CollectionPath,
        decide: DecideCollection,
    ) -> Reply<'_, Edited<CollectionRecord>> {
        self.edit(move |desk, _, now| edit::edit_collection(desk, &path, decide, now))
    }

    fn collection(&self, path: CollectionPath) -> Reply<'_, Option<CollectionRecord>> {
        self.read(move |view, _| {
            let keys = CollectionKeys::new(&path);
            Ok(collections::find(view.connection(), &keys)?.map(|found| found.record))
        })
    }

    fn collections(
        &self,
        scope: Scope,
        page: Page<CollectionPath>,
    ) -> Reply<'_, Vec<CollectionRecord>> {
        self.read(move |view, _| collections::list(view.connection(), &scope, &page))
    }

    fn edit_job(&self, path: JobPath, decide: DecideJob) -> Reply<'_, Edited<JobRecord>> {
        self.edit(move |desk, codec, now| edit::edit_job(desk, codec, &path, decide, now))
    }

    fn job(&self, path: JobPath) -> Reply<'_, Option<(JobRecord, CollectionState)>> {
        let (codec, since) = (Arc::clone(&self.codec), self.memory.homes.changes());
        self.readers.read_one(move |view| jobs::by_path(view, &codec, &path, since))
    }

    fn jobs(
        &self,
        path: CollectionPath,
        filter: JobFilter,
        page: Page<JobName>,
        scan_max: usize,
    ) -> Reply<'_, JobsPage> {
        self.read(move |view, codec| search::jobs(view, codec, &path, (&filter, scan_max), &page))
    }

    fn job_by_key(&self, key: JobKey) -> Reply<'_, Option<JobRecord>> {
        self.read(move |view, codec| {
            let found = jobs::by_key(view, codec, key, &mut Arounds::default())?;
            Ok(found.map(|(job, _)| job))
        })
    }

    fn due(&self, until: Instant, limit: usize) -> Reply<'_, Vec<Due>> {
        self.read(move |view, _| due::due(view, until, limit))
    }

    fn jobs_for_run(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<JobForRun>>> {
        self.read(move |view, codec| jobs_for_run::jobs_for_run(view, codec, &jobs))
    }

    fn gate_states(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<GateState>>> {
        if let Some(standings) = jobs_for_run::cached_gate_states(&self.memory, &jobs) {
            return Box::pin(std::future::ready(Ok(standings)));
        }
        let since = self.memory.switches.changes();
        self.read(move |view, _| jobs_for_run::gate_states(view, &jobs, since))
    }

    fn commit(&self, writes: Vec<RunWrite>) -> Reply<'_, Vec<RunWriteResult>> {
        let clock = Arc::clone(&self.clock);
        self.writer.write(Turn::Engine, writes.len(), move |desk| {
            let now = clock.now().into();
            let mut tables = runs::Tables::new(desk);
            writes.iter().map(|write| run_state::commit(&mut tables, write, now)).collect()
        })
    }

    fn claimable(&self, until: Instant, limit: usize) -> Reply<'_, Vec<OpenRun>> {
        let now = self.clock.now().into();
        self.read(move |view, _| runs::claimable(view, until, now, limit))
    }

    fn expire_claims(&self) -> Reply<'_, usize> {
        self.edit(|desk, _, _| Ok(runs::expire_claims(desk)))
    }

    fn open_runs(&self, job: JobKey) -> Reply<'_, Vec<OpenRun>> {
        self.read(move |view, _| Ok(runs::of_job(view, job)))
    }

    fn history(
        &self,
        path: JobPath,
        filter: HistoryFilter,
        page: Page<u64>,
    ) -> Reply<'_, Option<Vec<HistoryRecord>>> {
        self.read(move |view, _| history::page(view, &path, filter, &page))
    }

    fn events(&self, after: Option<EventPosition>, limit: usize) -> Reply<'_, Events> {
        self.read(move |view, _| events::after(view, after, limit))
    }

    fn ledger(
        &self,
        job: JobKey,
        from: Instant,
        to: Instant,
        limit: usize,
    ) -> Reply<'_, Vec<LedgerRecord>> {
        self.read(move |view, _| history::ledger(view, job, from, to, limit))
    }

    fn prune(&self, retention: Retention, now: Instant, limit: usize) -> Reply<'_, usize> {
        Box::pin(async move {
            // Surplus first: it is counted over all entries, old ones included.
            let mut left = limit - self.remove_surplus(retention.history_count, limit).await?;
            for aged in Aged::ALL {
                let oldest = aged.oldest(retention, now);
                while left > 0 {
                    let batch = left.min(prune::BATCH_MAX);
                    let write = move |desk: &mut Desk| aged.remove(desk, oldest, batch);
                    let Removed { found, seen } =
                        self.writer.write(Turn::Engine, batch, write).await?;
                    left -= seen;
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
        self.read(move |view, _| invariant_scan::scan_jobs(view, after, scan_max))
    }

    fn now(&self) -> Reply<'_, Instant> {
        let now = self.clock.now().into();
        Box::pin(std::future::ready(Ok(now)))
    }

    fn check(&self) -> Reply<'_, Vec<String>> {
        let codec = Arc::clone(&self.codec);
        self.readers.read_file(move |connection| inspect::inspect_with(connection, &codec))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use kalends_domain::{Collection, CollectionName, GroupName, Location, Plan};
    use kalends_environment::{SeededEntropy, SystemClock};

    use super::*;
    use crate::encryption::{Cipher, MasterKey};
    use crate::store::CollectionWrite;

    fn open(path: &Path) -> SqliteStore {
        let entropy = Arc::new(SeededEntropy::new(1));
        let (key, _) = MasterKey::generate(&*entropy).unwrap();
        let codec = DefinitionCodec::new(Cipher::new(key, vec![], entropy), &[]);
        SqliteStore::open(path, SqliteSettings::default(), codec, Arc::new(SystemClock)).unwrap()
    }

    fn job_path() -> JobPath {
        let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
        let group = GroupPath { subscription, group: GroupName::new("g").unwrap() };
        let collection = CollectionPath { group, collection: CollectionName::new("c").unwrap() };
        JobPath { collection, job: JobName::new("j").unwrap() }
    }

    #[tokio::test]
    async fn a_collection_that_goes_while_it_is_read_is_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder.path().join("kalends.db"));
        let edit = async |write: CollectionWrite| {
            let decide = Box::new(move |_: crate::store::CollectionContext<'_>| Ok(write.clone()));
            store.edit_collection(job_path().collection, decide).await.unwrap();
        };
        let plan = Plan::Standard;
        let (location, state) = (Location::restore("West US".into()), CollectionState::Enabled);
        let collection = Collection { location, tags: None, plan, state, quota: None };
        edit(CollectionWrite::Put(collection)).await;

        let ((is_taken, taken), (go_on, goes_on)) = (sync_channel(0), sync_channel(0));
        let (codec, since) = (Arc::clone(&store.codec), store.memory.homes.changes());
        let reading = store.readers.read(move |view| {
            // The view is taken by now.
            is_taken.send(()).unwrap();
            goes_on.recv().unwrap();
            jobs::by_path(view, &codec, &job_path(), since)
        });
        taken.recv().unwrap();
        edit(CollectionWrite::Delete).await;
        go_on.send(()).unwrap();
        assert_eq!(reading.await, Ok(None), "it was there then");
        assert_eq!(store.job(job_path()).await, Err(StoreError::NoCollection));
    }
}
