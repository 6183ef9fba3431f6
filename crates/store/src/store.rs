//! What the API and the engine ask of a store.
//!
//! Every method is one transaction: it happens wholly or not at all, and when it has answered `Ok`
//! it survives the death of the process and of the machine. Edits are *decided inside* the
//! transaction: the caller hands in a function of what is there now, so that two edits cannot both
//! decide on the same state.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use kalends_domain::{
    AttemptStatus, Collection, CollectionPath, CollectionState, GroupPath, HistoryEntry,
    JobDefinition, JobName, JobPath, Lifecycle, Plan, SubscriptionId, Switch,
};
use kalends_recurrence::Instant;

use crate::error::StoreError;
use crate::events::{EventPosition, Events};
use crate::invariant_scan::ScanPage;
use crate::record::{
    Claim, CollectionFacts, CollectionKey, CollectionRecord, Disposition, FencingToken, GateState,
    GroupRecord, HistoryRecord, JobFacts, JobForRun, JobKey, JobRecord, JobState, JobUid,
    LedgerRecord, NodeId, OpenRun, Progress, RunId,
};
use crate::tokens::Tokens;

/// An answer that is on its way.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Where jobs, runs, history and tokens are kept.
pub trait Store: Tokens {
    /// Makes a group, or replaces what is said of it. `true` where it is new.
    fn put_group(&self, group: GroupRecord) -> Reply<'_, bool>;

    /// A group.
    fn group(&self, path: GroupPath) -> Reply<'_, Option<GroupRecord>>;

    /// The groups of a subscription, by name.
    fn groups(&self, subscription: SubscriptionId) -> Reply<'_, Vec<GroupRecord>>;

    /// Deletes a group with all its collections, their jobs and history. `false` where there was
    /// none.
    fn delete_group(&self, path: GroupPath) -> Reply<'_, bool>;

    /// Makes, changes or deletes a collection as `decide` says. Making one makes its group too.
    /// Deleting one deletes its jobs, their runs and their history.
    fn edit_collection(
        &self,
        path: CollectionPath,
        decide: DecideCollection,
    ) -> Reply<'_, Edited<CollectionRecord>>;

    /// A collection.
    fn collection(&self, path: CollectionPath) -> Reply<'_, Option<CollectionRecord>>;

    /// The collections of a subscription or of one of its groups, by group and name.
    fn collections(
        &self,
        scope: Scope,
        page: Page<CollectionPath>,
    ) -> Reply<'_, Vec<CollectionRecord>>;

    /// Makes, changes or deletes a job as `decide` says; [`StoreError::NoCollection`] where there
    /// is no collection for it. Deleting one deletes its runs and its history.
    fn edit_job(&self, path: JobPath, decide: DecideJob) -> Reply<'_, Edited<JobRecord>>;

    /// A job and the state of its collection; [`StoreError::NoCollection`] where there is no
    /// collection for it.
    fn job(&self, path: JobPath) -> Reply<'_, Option<(JobRecord, CollectionState)>>;

    /// The jobs of a collection by name; [`StoreError::NoCollection`] where there is none. With a
    /// filter it scan_max at no more than `scan_max` jobs, and at one at least; what it found until then
    /// may be less than the page, or nothing.
    fn jobs(
        &self,
        path: CollectionPath,
        filter: JobFilter,
        page: Page<JobName>,
        scan_max: usize,
    ) -> Reply<'_, JobsPage>;

    /// A job by its number, for who works on a run of it.
    fn job_by_key(&self, key: JobKey) -> Reply<'_, Option<JobRecord>>;

    /// Active and enabled jobs, in enabled collections, that are due at or before an instant, the
    /// earliest first.
    fn due(&self, until: Instant, limit: usize) -> Reply<'_, Vec<Due>>;

    /// What there is to know of jobs before runs of them are begun; `None` for a job that is no
    /// longer there. A job that was begun while this was read is not seen as due any more.
    fn jobs_for_run(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<JobForRun>>>;

    /// How jobs stand; `None` for a job that is no longer there.
    fn gate_states(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<GateState>>>;

    /// Carries out what the engine has decided, all in one transaction. Each write says what it
    /// rests on; one that rests on what is no longer so changes nothing and is answered
    /// [`RunWriteResult::Stale`], and the others are carried out all the same.
    fn commit(&self, writes: Vec<RunWrite>) -> Reply<'_, Vec<RunWriteResult>>;

    /// Runs that nobody works on and whose next attempt is due at or before an instant, and runs
    /// whose claim has expired by the clock of the store; in enabled collections only, the earliest
    /// first.
    fn claimable(&self, until: Instant, limit: usize) -> Reply<'_, Vec<OpenRun>>;

    /// Lets every claim expire at once, and says how many there were. For a process that knows that
    /// it is the only one: whoever made them is gone.
    fn expire_claims(&self) -> Reply<'_, usize>;

    /// The open runs of a job.
    fn open_runs(&self, job: JobKey) -> Reply<'_, Vec<OpenRun>>;

    /// History of a job, the newest first; [`StoreError::NoCollection`] where there is no
    /// collection, `None` where there is no job.
    fn history(
        &self,
        path: JobPath,
        filter: HistoryFilter,
        page: Page<u64>,
    ) -> Reply<'_, Option<Vec<HistoryRecord>>>;

    /// What came into the history and the ledger of any job after a position, of each at most `limit`
    /// in the order of the numbers; nothing where there is no position to begin from. Numbers may be
    /// left out for good, and where several nodes write, a smaller one may be seen after a larger one.
    fn events(&self, after: Option<EventPosition>, limit: usize) -> Reply<'_, Events>;

    /// How occurrences of a job whose instants lie in `from..=to` were closed, in their order.
    fn ledger(
        &self,
        job: JobKey,
        from: Instant,
        to: Instant,
        limit: usize,
    ) -> Reply<'_, Vec<LedgerRecord>>;

    /// Removes what retention no longer keeps, at most `limit` entries at a time, and says how many
    /// there were. Fewer than `limit` means that it is done.
    fn prune(&self, retention: Retention, now: Instant, limit: usize) -> Reply<'_, usize>;

    /// Looks through all jobs, after one, in the order of their numbers, for who checks that all is
    /// well. It scan_max at no more than `scan_max` rows, and at one job at least.
    fn scan_jobs(&self, after: Option<JobKey>, scan_max: usize) -> Reply<'_, ScanPage>;

    /// The time by the clock that leases are measured with.
    fn now(&self) -> Reply<'_, Instant>;

    /// Looks for what must not be: damage of the files, rows that belong to nothing. What it finds,
    /// a line each.
    fn check(&self) -> Reply<'_, Vec<String>>;
}

/// What becomes of a collection, decided inside the transaction. It may be asked more than once.
pub type DecideCollection =
    Box<dyn FnMut(CollectionContext<'_>) -> Result<CollectionWrite, Refusal> + Send>;

/// What there is when a collection is edited.
#[derive(Clone, Copy)]
pub struct CollectionContext<'a> {
    /// The collection, where there is one.
    pub existing: Option<&'a CollectionRecord>,
    /// What its jobs have in common.
    pub facts: CollectionFacts,
    /// How many other collections its subscription has of each plan.
    pub others: &'a dyn Fn(Plan) -> u64,
}

/// What becomes of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectionWrite {
    /// Nothing.
    Keep,
    /// It is made or replaced.
    Put(Collection),
    /// It is deleted.
    Delete,
}

/// What becomes of a job, decided inside the transaction. It may be asked more than once.
pub type DecideJob = Box<dyn FnMut(JobContext<'_>) -> Result<JobWrite, Refusal> + Send>;

/// What there is when a job is edited.
#[derive(Clone, Copy, Debug)]
pub struct JobContext<'a> {
    /// Its collection.
    pub collection: &'a CollectionRecord,
    /// How many jobs the collection has, this one included where it exists.
    pub jobs: u64,
    /// The job, where there is one.
    pub existing: Option<&'a JobRecord>,
}

/// What becomes of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobWrite {
    /// Nothing.
    Keep,
    /// It is made or replaced.
    Put(Box<JobPut>),
    /// A run is made beside its schedule, due at once.
    Run {
        /// When.
        at: Instant,
    },
    /// It is deleted.
    Delete,
}

/// A job that is made or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPut {
    /// Its identity; an existing job keeps its own.
    pub uid: JobUid,
    /// When it was created; an existing job keeps its own.
    pub created: Instant,
    /// What its author defined.
    pub definition: JobDefinition,
    /// What plan and quota ask of it.
    pub facts: JobFacts,
    /// What has become of it.
    pub state: JobState,
    /// What becomes of its open runs that nobody works on.
    pub waiting: WaitingRuns,
    /// Occurrences of the job as it was that had come due and were not begun: the edit closes them.
    pub closed_by_edit: Option<LedgerRecord>,
}

/// What an edit does with open runs that nobody works on. Those being worked on are not touched:
/// who works on them sees the edit by the job's generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingRuns {
    /// They stay.
    Keep,
    /// They go, and the ledger says so.
    Close(Disposition),
}

/// Why an edit is refused by who decides it. The store passes it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Of what kind.
    pub kind: RefusalKind,
    /// The member, where it is about one.
    pub path: Option<String>,
    /// In words.
    pub message: String,
}

/// The kinds of refusals that callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum RefusalKind {
    NotFound,
    Invalid,
    JobFinished,
    JobsMax,
    CollectionsMax,
    QuotaConflict,
    RecurrenceTooFrequent,
    NotInFreePlan,
    PreconditionFailed,
}

/// What an edit came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited<T> {
    /// What was there before.
    pub before: Option<T>,
    /// What is there now.
    pub after: Option<T>,
}

/// Whose collections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of a subscription.
    Subscription(SubscriptionId),
    /// Those of a group.
    Group(GroupPath),
}

/// Which part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<K> {
    /// Only what comes after this one in the order of the list.
    pub after: Option<K>,
    /// Passed over from there.
    pub skip: u64,
    /// At most as many.
    pub limit: usize,
}

/// As many jobs a search looks at before others have their turn: some milliseconds.
pub const SCAN_MAX: usize = 5_000;

/// Jobs that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobsPage {
    /// They, by name.
    pub jobs: Vec<JobRecord>,
    /// The state of their collection.
    pub collection: CollectionState,
    /// Where to look for what is missing of the page; `None` where it is full, or where all was
    /// looked at.
    pub rest: Option<Page<JobName>>,
}

impl JobsPage {
    /// What was found of a page when `skip` matches were still to be passed over, and the search
    /// has come as far as `end`, which is nowhere if there is nothing behind it.
    pub(crate) fn new(
        (jobs, collection): (Vec<JobRecord>, CollectionState),
        page: &Page<JobName>,
        skip: u64,
        end: Option<JobName>,
    ) -> JobsPage {
        let limit = page.limit.saturating_sub(jobs.len());
        let rest = end.filter(|_| limit > 0).map(|end| Page { after: Some(end), skip, limit });
        JobsPage { jobs, collection, rest }
    }
}

/// Which jobs of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Those in this state, as users see it.
    pub state: Option<JobFilterState>,
    /// Those whose name, target, description or tags hold this text, without regard to case.
    pub contains: Option<String>,
    /// Those with this tag, and, if given, this value.
    pub tag: Option<(String, Option<String>)>,
}

/// The states of jobs as users see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum JobFilterState {
    Enabled,
    Disabled,
    Completed,
    Faulted,
}

impl JobFilterState {
    /// The state of a job as users see it.
    pub fn of(switch: Switch, lifecycle: Lifecycle) -> JobFilterState {
        match (lifecycle, switch) {
            (Lifecycle::Completed, _) => JobFilterState::Completed,
            (Lifecycle::Faulted, _) => JobFilterState::Faulted,
            (Lifecycle::Active, Switch::Enabled) => JobFilterState::Enabled,
            (Lifecycle::Active, Switch::Disabled) => JobFilterState::Disabled,
        }
    }
}

impl<K> Page<K> {
    /// The first `limit`.
    pub fn first(limit: usize) -> Page<K> {
        Page { after: None, skip: 0, limit }
    }
}

/// Which entries of a job's history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryFilter {
    /// Those that ended so.
    pub status: Option<AttemptStatus>,
}

/// A job that is due, and the collection it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The job.
    pub on: DueJob,
    /// Its collection.
    pub collection: CollectionKey,
}

/// A job that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueJob {
    /// Which.
    pub job: JobKey,
    /// Of which edit.
    pub generation: u64,
    /// When.
    pub due: Instant,
}

/// Something the engine has decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunWrite {
    /// An occurrence is begun: its run is opened and claimed, and the job goes on to its next. It
    /// rests on the job being active, of this generation and due then.
    Begin {
        /// What it rests on.
        on: DueJob,
        /// The occurrence that runs: the one it rests on, or a later one where that was missed.
        scheduled: Instant,
        /// Where the run stands.
        progress: Progress,
        /// Who works on it; `None` leaves it to be claimed.
        owner: Option<NodeId>,
        /// For how long.
        lease: Duration,
        /// What has become of the job.
        advance: Advance,
        /// Occurrences that were closed without a run before this one.
        closed: Vec<LedgerRecord>,
        /// What history says of them.
        postponed: Vec<HistoryEntry>,
    },
    /// Occurrences are closed without a run, and the job goes on. It rests on the same.
    Skip {
        /// What it rests on.
        on: DueJob,
        /// What has become of the job.
        advance: Advance,
        /// How they were closed.
        closed: Vec<LedgerRecord>,
        /// What history says of them.
        postponed: Vec<HistoryEntry>,
    },
    /// A run that nobody works on, or whose claim has expired, is claimed. It rests on that, and,
    /// where nobody works on it, on its standing where `progress` says: it may have been worked on
    /// and given up again since it was seen.
    Claim {
        /// Which.
        run: RunId,
        /// The token it was seen with.
        seen: Option<FencingToken>,
        /// Who works on it.
        owner: NodeId,
        /// For how long.
        lease: Duration,
        /// Where it stands now.
        progress: Progress,
    },
    /// A claim is prolonged, or, with a lease of no time, handed back. It rests on the token.
    RenewLease {
        /// Which.
        run: RunId,
        /// The proof.
        token: FencingToken,
        /// For how long from now.
        lease: Duration,
    },
    /// An attempt ended and another one follows. It rests on the token.
    Continue {
        /// Which.
        run: RunId,
        /// The proof.
        token: FencingToken,
        /// What history says of the attempt.
        entry: Option<HistoryEntry>,
        /// What the counters say of it.
        counts: AttemptCounts,
        /// Where the run stands now; the claim is given up.
        progress: Progress,
    },
    /// The run is over. It rests on the token.
    Finish {
        /// Which.
        run: RunId,
        /// The proof.
        token: FencingToken,
        /// What history says of the last attempt.
        entry: Option<HistoryEntry>,
        /// What the counters say of it.
        counts: AttemptCounts,
        /// How the occurrence was closed.
        closed: LedgerRecord,
        /// What the job becomes if this was its last run: it has no next occurrence, no other run
        /// of its schedule is open, and its definition is still that of the run.
        lifecycle: Option<Lifecycle>,
    },
}

/// How a job goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance {
    /// Its next occurrence.
    pub due: Option<Instant>,
    /// How many occurrences have started a run.
    pub used: u64,
    /// What it becomes. It does not end while a run of its schedule is open: the last of them ends
    /// it.
    pub lifecycle: Lifecycle,
}

/// What one attempt adds to the counters of its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptCounts {
    /// When an attempt of the main action started.
    pub executed: Option<Instant>,
    /// Whether it failed.
    pub failed: bool,
    /// Whether all tries of the occurrence failed.
    pub faulted: bool,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunWriteResult {
    /// A run was opened.
    Begun {
        /// Its number.
        run: RunId,
        /// The claim, where one was asked for.
        claim: Option<Claim>,
    },
    /// It was claimed or prolonged.
    Claimed(Claim),
    /// It was done.
    Done,
    /// What it rested on is no longer so; nothing was done.
    Stale,
}

/// How long things are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// History entries and ledger rows older than this go.
    pub history_age: Duration,
    /// Of each job, as many of the newest entries stay.
    pub history_count: u64,
    /// Finished jobs go when they have been finished for so long.
    pub finished_jobs: Duration,
}

impl Default for Retention {
    fn default() -> Retention {
        const DAY: Duration = Duration::from_secs(86_400);
        Retention { history_age: 60 * DAY, history_count: 1_000, finished_jobs: 60 * DAY }
    }
}
