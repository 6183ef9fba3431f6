//! The store of a simulated world: in memory, or a real SQLite file that a crash closes and reopens.

use std::ops::Bound;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kalends_domain::{
    AccessScope, CollectionPath, GroupName, GroupPath, JobName, JobPath, NewNote, NoteRecord,
    SubscriptionId,
};
use kalends_environment::{Clock, SeededEntropy};
use kalends_recurrence::Instant;
use kalends_store::encryption::{Cipher, MasterKey};
use kalends_store::memory::MemoryStore;
use kalends_store::record::{
    CollectionRecord, CollectionStatus, EarlierDefinition, GateState, GroupRecord, HistoryRecord,
    JobForRun, JobKey, JobRecord, LedgerRecord, OpenRun, PauseRecord, SlotKey,
};
use kalends_store::sqlite::{SqliteSettings, SqliteStore, Threads};
use kalends_store::stored_form::DefinitionCodec;
use kalends_store::{
    AdminStore, ApiStore, ClosedRunsPage, ClosedRunsQuery, CollectionSummary, DecideCollection,
    DecideJob, DecidePause, Due, Edited, EditedJob, EngineStore, EventPosition, Events, Heartbeat,
    HistoryFilter, JobAt, JobFilter, JobMatch, JobSearch, JobSearchPage, JobSet, JobSummary,
    JobsPage, LeaseClock, NewestRuns, OpenRunCount, OpenRunsPage, OpenRunsQuery, OverviewStore,
    Page, ParkedRuns, PauseState, Reply, Retention, RunCounts, RunReports, RunWrite,
    RunWriteResult, ScanPage, SchedulesPage, Scope, SessionHash, SessionRecord, Sessions,
    StatesPage, Store, StoreError, TextsFrom, TextsPage, TokenId, TokenRecord, Tokens,
    UnreadableJob,
};

/// The store that a world runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// The reference store.
    Memory,
    /// A SQLite file, with a small write-back cache so that flushes happen all the time.
    Sqlite,
}

impl StoreKind {
    /// Every kind.
    pub const ALL: [StoreKind; 2] = [StoreKind::Memory, StoreKind::Sqlite];
}

/// Dirty rows that a simulated store keeps before it flushes: few, so that every world flushes.
const FLUSH_THRESHOLD_ROWS: usize = 6;

/// How the process of a store ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It closes the store.
    Graceful,
    /// It dies with dirty rows in the change log.
    Crash,
}

/// A store whose process can end and start again.
pub(crate) struct RestartableStore {
    backend: Backend,
    /// Heartbeats of the nodes. A SQLite file belongs to one process and keeps none, but here it
    /// stands for a store that several nodes share.
    heartbeats: MemoryStore,
    /// A job whose definition cannot be read to run it.
    unreadable: Mutex<Option<JobKey>>,
}

enum Backend {
    Memory(Arc<MemoryStore>),
    Sqlite(SqliteFile),
}

struct SqliteFile {
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    open: Mutex<Option<Arc<SqliteStore>>>,
}

impl RestartableStore {
    pub(crate) fn new(kind: StoreKind, clock: Arc<dyn Clock>) -> RestartableStore {
        let heartbeats = MemoryStore::new(Arc::clone(&clock));
        let backend = match kind {
            StoreKind::Memory => Backend::Memory(Arc::new(MemoryStore::new(clock))),
            StoreKind::Sqlite => {
                let (folder, open) = (scratch_folder(), Mutex::new(None));
                let file = SqliteFile { folder, clock, open };
                *file.open() = Some(Arc::new(file.start()));
                Backend::Sqlite(file)
            }
        };
        RestartableStore { backend, heartbeats, unreadable: Mutex::default() }
    }

    /// Ends the process of the store and starts it again on the same file. The memory store stands
    /// for a database server and goes on.
    pub(crate) fn restart(&self, exit: Exit) {
        let Backend::Sqlite(file) = &self.backend else { return };
        let mut open = file.open();
        let store = open.take().and_then(Arc::into_inner);
        let store = store.expect("no call is in flight when a process ends");
        match exit {
            Exit::Graceful => drop(store),
            Exit::Crash => store.abandon(),
        }
        *open = Some(Arc::new(file.start()));
    }

    /// Chooses the job that cannot be read.
    pub(crate) fn set_unreadable(&self, job: Option<JobKey>) {
        *self.unreadable.lock().unwrap_or_else(PoisonError::into_inner) = job;
    }

    fn unreadable_of(&self, jobs: &[JobAt]) -> Option<UnreadableJob> {
        let unreadable = *self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        let key = unreadable.filter(|job| jobs.iter().any(|at| at.job == *job))?;
        Some(UnreadableJob { key, path: None, reason: "simulated".to_owned() })
    }

    fn current(&self) -> Arc<dyn Store> {
        match &self.backend {
            Backend::Memory(store) => Arc::clone(store) as Arc<dyn Store>,
            Backend::Sqlite(file) => {
                let store = file.open().clone();
                store.expect("the store is open between restarts")
            }
        }
    }
}

impl SqliteFile {
    fn open(&self) -> MutexGuard<'_, Option<Arc<SqliteStore>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> SqliteStore {
        let entropy = Arc::new(SeededEntropy::new(1));
        let (key, _) = MasterKey::generate(&*entropy).expect("seeded entropy does not fail");
        let codec = DefinitionCodec::new(Cipher::new(key, vec![], entropy), Default::default());
        let settings = SqliteSettings {
            readers: 1,
            threads: Threads::Caller,
            flush_threshold_rows: FLUSH_THRESHOLD_ROWS,
            ..SqliteSettings::default()
        };
        let path = self.folder.join("kalends.db");
        SqliteStore::open(&path, settings, codec, Arc::clone(&self.clock))
            .expect("a store that was committed to opens again")
    }
}

impl Drop for SqliteFile {
    fn drop(&mut self) {
        drop(self.open().take());
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// A new folder, in memory if the system has such a file system: a simulated crash loses no page
/// that was written, so that the disk's own durability does not matter here.
fn scratch_folder() -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let shared_memory = PathBuf::from("/dev/shm");
    let base = if shared_memory.is_dir() { shared_memory } else { std::env::temp_dir() };
    let folder = base.join(format!("kalends-simulation-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a scratch folder can be created");
    folder
}

/// Passes calls on to the store that is open now.
macro_rules! delegate {
    ($($name:ident($($argument:ident: $type:ty),*) -> $output:ty;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> Reply<'_, $output> {
            let store = self.current();
            Box::pin(async move { store.$name($($argument),*).await })
        })*
    };
}

impl ApiStore for RestartableStore {
    delegate! {
        put_group(group: GroupRecord) -> bool;
        group(path: GroupPath) -> Option<GroupRecord>;
        groups(subscription: SubscriptionId, page: Page<GroupName>) -> Vec<GroupRecord>;
        delete_group(path: GroupPath) -> bool;
        edit_collection_with_note(path: CollectionPath, decide: DecideCollection, note: Option<NewNote>) -> Edited<CollectionRecord>;
        collection(path: CollectionPath) -> Option<CollectionRecord>;
        collections(scope: Scope, page: Page<CollectionPath>) -> Vec<CollectionRecord>;
        edit_pause_with_note(decide: DecidePause, note: Option<NewNote>) -> Option<PauseRecord>;
        edit_job_with_note(path: JobPath, decide: DecideJob, note: Option<NewNote>) -> EditedJob;
        notes_of_job(path: JobPath, page: Page<u64>) -> Option<Vec<NoteRecord>>;
        notes_of_collection(path: CollectionPath, page: Page<u64>) -> Option<Vec<NoteRecord>>;
        notes(page: Page<u64>) -> Vec<NoteRecord>;
        job(path: JobPath) -> Option<(JobRecord, CollectionStatus)>;
        jobs(path: CollectionPath, filter: JobFilter, page: Page<JobName>, scan_max: usize) -> JobsPage;
        open_runs(job: JobKey) -> Vec<OpenRun>;
        earlier_definition(job: JobKey, generation: u64) -> Option<EarlierDefinition>;
        history(path: JobPath, filter: HistoryFilter, page: Page<u64>) -> Option<Vec<HistoryRecord>>;
        events(after: Option<EventPosition>, limit: usize) -> Events;
        ledger(job: JobKey, from: Instant, to: Instant, limit: usize) -> Vec<LedgerRecord>;
    }
}

impl OverviewStore for RestartableStore {
    delegate! {
        collection_summaries(scope: AccessScope, from: Bound<CollectionPath>, limit: usize) -> Vec<CollectionSummary>;
        search_jobs(search: JobSearch) -> JobSearchPage;
        jobs_by_key(jobs: Vec<JobKey>) -> Vec<JobRecord>;
        jobs_of_set(set: JobSet, limit: usize) -> Option<Vec<JobMatch>>;
        states_by_key(jobs: Vec<JobKey>) -> Vec<JobSummary>;
        job_paths(jobs: Vec<JobKey>) -> Vec<(JobKey, JobPath)>;
        scan_states(after: Option<JobKey>, limit: usize) -> StatesPage;
        newest_job() -> JobKey;
        scan_texts(from: TextsFrom, limit: usize) -> TextsPage;
        scan_schedules(after: Option<JobKey>, due_before: Instant, limit: usize) -> SchedulesPage;
    }
}

impl RunReports for RestartableStore {
    delegate! {
        newest_runs(jobs: Vec<JobKey>, limit: usize) -> Vec<NewestRuns>;
        listed_open_runs(query: OpenRunsQuery) -> OpenRunsPage;
        open_run_count(scopes: Vec<AccessScope>, scan_max: usize) -> OpenRunCount;
        listed_closed_runs(query: ClosedRunsQuery) -> ClosedRunsPage;
        run_counts(scopes: Vec<AccessScope>, from: Instant, to: Instant) -> Vec<(Instant, RunCounts)>;
    }
}

impl EngineStore for RestartableStore {
    fn record_heartbeat(&self, heartbeat: Heartbeat) -> Reply<'_, Option<Instant>> {
        self.heartbeats.record_heartbeat(heartbeat)
    }

    fn jobs_for_run_at(&self, jobs: Vec<JobAt>) -> Reply<'_, Vec<Option<Arc<JobForRun>>>> {
        let (store, unreadable) = (self.current(), self.unreadable_of(&jobs));
        Box::pin(async move {
            match unreadable {
                None => store.jobs_for_run_at(jobs).await,
                Some(job) => Err(StoreError::Unreadable(vec![job])),
            }
        })
    }

    delegate! {
        due_between(from: Instant, until: Instant, limit: usize) -> Vec<Due>;
        gate_states(jobs: Vec<JobKey>) -> Vec<Option<GateState>>;
        commit(writes: Vec<RunWrite>) -> Vec<RunWriteResult>;
        claimable(until: Instant, limit: usize) -> Vec<OpenRun>;
        parked(key: SlotKey, limit: usize) -> Vec<OpenRun>;
        parked_keys(limit: usize) -> Vec<ParkedRuns>;
        expire_claims() -> usize;
        prune(retention: Retention, now: Instant, limit: usize) -> usize;
        scan_jobs(after: Option<JobKey>, scan_max: usize) -> ScanPage;
    }
}

impl LeaseClock for RestartableStore {
    delegate! {
        now() -> Instant;
    }
}

impl PauseState for RestartableStore {
    delegate! {
        pause() -> Option<PauseRecord>;
    }
}

impl AdminStore for RestartableStore {
    delegate! {
        check() -> Vec<String>;
    }
}

impl Sessions for RestartableStore {
    delegate! {
        put_session(session: SessionRecord) -> ();
        session(hash: SessionHash) -> Option<SessionRecord>;
        delete_session(hash: SessionHash) -> bool;
    }
}

impl Tokens for RestartableStore {
    delegate! {
        put_token(token: TokenRecord) -> bool;
        token(id: TokenId) -> Option<TokenRecord>;
        tokens() -> Vec<TokenRecord>;
        revoke_token(id: TokenId, at: Instant) -> bool;
        delete_token(id: TokenId) -> bool;
        note_token_use(id: TokenId, at: Instant) -> ();
    }
}
