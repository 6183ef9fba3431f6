//! The calls of the REST API.
//!
//! Edits are decided *inside* the transaction: the caller hands in a function of the current state
//! and time, so that two concurrent edits cannot both decide on the same state.

use kalends_domain::{
    AttemptStatus, Collection, CollectionPath, GroupName, GroupPath, JobDefinition, JobName,
    JobPath, Lifecycle, NewNote, NoteRecord, OpenScheduledRuns, Plan, SubscriptionId, Switch,
};
use kalends_recurrence::Instant;

use crate::error::UnreadableJob;
use crate::events::{EventPosition, Events};
use crate::overview_store::OverviewStore;
use crate::record::{
    Cause, CollectionFacts, CollectionRecord, CollectionStatus, EarlierDefinition, GroupRecord,
    HistoryRecord, JobFacts, JobKey, JobRecord, JobState, JobUid, LedgerRecord, OpenRun,
    PauseRecord,
};
use crate::rejection::Rejection;
use crate::run_reports::RunReports;
use crate::sessions::Sessions;
use crate::store::{LeaseClock, PauseState, Reply};
use crate::tokens::Tokens;

/// The calls of the REST API.
pub trait ApiStore:
    OverviewStore + RunReports + Tokens + Sessions + LeaseClock + PauseState
{
    /// Creates or replaces a group. Returns `true` if it is new. Fails with
    /// [`StoreError::TooManyGroups`] if its subscription has no room for a new one.
    ///
    /// [`StoreError::TooManyGroups`]: crate::StoreError::TooManyGroups
    fn put_group(&self, group: GroupRecord) -> Reply<'_, bool>;

    /// Reads a group.
    fn group(&self, path: GroupPath) -> Reply<'_, Option<GroupRecord>>;

    /// Lists the groups of a subscription by name.
    fn groups(
        &self,
        subscription: SubscriptionId,
        page: Page<GroupName>,
    ) -> Reply<'_, Vec<GroupRecord>>;

    /// Deletes a group with its collections, their jobs and history. Returns `false` if there was
    /// none.
    fn delete_group(&self, path: GroupPath) -> Reply<'_, bool>;

    /// Creates, changes or deletes a collection as `decide` says. Creating a collection creates its
    /// group as well, and fails like [`ApiStore::put_group`]; deleting one deletes its jobs, their
    /// runs, their history and all notes.
    fn edit_collection(
        &self,
        path: CollectionPath,
        decide: DecideCollection,
    ) -> Reply<'_, Edited<CollectionRecord>> {
        self.edit_collection_with_note(path, decide, None)
    }

    /// Like [`ApiStore::edit_collection`], and stores a note in the same transaction, unless the edit is
    /// rejected or the collection does not exist afterwards.
    fn edit_collection_with_note(
        &self,
        path: CollectionPath,
        decide: DecideCollection,
        note: Option<NewNote>,
    ) -> Reply<'_, Edited<CollectionRecord>>;

    /// Reads a collection.
    fn collection(&self, path: CollectionPath) -> Reply<'_, Option<CollectionRecord>>;

    /// Lists collections by group and name.
    fn collections(
        &self,
        scope: Scope,
        page: Page<CollectionPath>,
    ) -> Reply<'_, Vec<CollectionRecord>>;

    /// Creates, changes, runs or deletes a job as `decide` says. Fails with
    /// [`StoreError::NoCollection`] if its collection does not exist. Deleting a job deletes its
    /// runs, its history and its notes.
    ///
    /// [`StoreError::NoCollection`]: crate::StoreError::NoCollection
    fn edit_job(&self, path: JobPath, decide: DecideJob) -> Reply<'_, EditedJob> {
        self.edit_job_with_note(path, decide, None)
    }

    /// Like [`ApiStore::edit_job`], and stores a note in the same transaction, unless the edit is
    /// rejected or the job does not exist afterwards.
    fn edit_job_with_note(
        &self,
        path: JobPath,
        decide: DecideJob,
        note: Option<NewNote>,
    ) -> Reply<'_, EditedJob>;

    /// Notes of a job, newest first, those with smaller numbers than `page.after`. `None` if there is
    /// no such job; fails with [`StoreError::NoCollection`] if its collection does not exist.
    ///
    /// [`StoreError::NoCollection`]: crate::StoreError::NoCollection
    fn notes_of_job(&self, path: JobPath, page: Page<u64>) -> Reply<'_, Option<Vec<NoteRecord>>>;

    /// Notes of a collection itself, without those of its jobs, newest first; `None` if it does not
    /// exist.
    fn notes_of_collection(
        &self,
        path: CollectionPath,
        page: Page<u64>,
    ) -> Reply<'_, Option<Vec<NoteRecord>>>;

    /// Notes of all jobs and collections, newest first.
    fn notes(&self, page: Page<u64>) -> Reply<'_, Vec<NoteRecord>>;

    /// Pauses all jobs, or changes or ends the pause, as `decide` says. Returns the pause that holds
    /// afterwards.
    fn edit_pause(&self, decide: DecidePause) -> Reply<'_, Option<PauseRecord>> {
        self.edit_pause_with_note(decide, None)
    }

    /// Like [`ApiStore::edit_pause`], and stores a note in the same transaction, unless the edit is
    /// rejected.
    fn edit_pause_with_note(
        &self,
        decide: DecidePause,
        note: Option<NewNote>,
    ) -> Reply<'_, Option<PauseRecord>>;

    /// Reads a job and the status of its collection. Fails with [`StoreError::NoCollection`] if the
    /// collection does not exist.
    ///
    /// [`StoreError::NoCollection`]: crate::StoreError::NoCollection
    fn job(&self, path: JobPath) -> Reply<'_, Option<(JobRecord, CollectionStatus)>>;

    /// Lists the jobs of a collection by name, without those that cannot be read. Fails with [`StoreError::NoCollection`] if the
    /// collection does not exist. With a filter it examines at most `scan_max` jobs, at least one,
    /// and may return fewer matches than the page has room for.
    ///
    /// [`StoreError::NoCollection`]: crate::StoreError::NoCollection
    fn jobs(
        &self,
        path: CollectionPath,
        filter: JobFilter,
        page: Page<JobName>,
        scan_max: usize,
    ) -> Reply<'_, JobsPage>;

    /// The definition that a job had in an earlier generation. `None` if the job never ran with it, or if
    /// it is no longer retained.
    fn earlier_definition(
        &self,
        job: JobKey,
        generation: u64,
    ) -> Reply<'_, Option<EarlierDefinition>>;

    /// The open runs of a job.
    fn open_runs(&self, job: JobKey) -> Reply<'_, Vec<OpenRun>>;

    /// History of a job, newest first. `None` if there is no such job; fails with
    /// [`StoreError::NoCollection`] if its collection does not exist.
    ///
    /// [`StoreError::NoCollection`]: crate::StoreError::NoCollection
    fn history(
        &self,
        path: JobPath,
        filter: HistoryFilter,
        page: Page<u64>,
    ) -> Reply<'_, Option<Vec<HistoryRecord>>>;

    /// History entries and ledger rows of all jobs after a position, at most `limit` of each, in
    /// order of their numbers. Without a position it returns only the newest one. Numbers may be
    /// skipped, and with several nodes a smaller number may become visible after a larger one.
    fn events(&self, after: Option<EventPosition>, limit: usize) -> Reply<'_, Events>;

    /// Occurrence records of a job whose scheduled times lie in `from..=to`, in order.
    fn ledger(
        &self,
        job: JobKey,
        from: Instant,
        to: Instant,
        limit: usize,
    ) -> Reply<'_, Vec<LedgerRecord>>;
}

/// Decides an edit of a collection inside the transaction. It may be called more than once.
pub type DecideCollection =
    Box<dyn FnMut(CollectionContext<'_>) -> Result<CollectionWrite, Rejection> + Send>;

/// The current state that an edit of a collection is decided on.
#[derive(Clone, Copy)]
pub struct CollectionContext<'a> {
    /// The collection, if it exists.
    pub existing: Option<&'a CollectionRecord>,
    /// Sums over its jobs that plans and quotas limit.
    pub facts: CollectionFacts,
    /// Counts the other collections of the subscription in a plan.
    pub others: &'a dyn Fn(Plan) -> u64,
    /// The store's clock, read when nothing else can change the collection any more.
    pub now: Instant,
}

/// The effect of an edit on a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectionWrite {
    /// Leaves it unchanged.
    Keep,
    /// Creates or replaces it.
    Put(Collection),
    /// Deletes it.
    Delete,
}

/// Decides an edit of the pause inside the transaction. It may be called more than once.
pub type DecidePause = Box<dyn FnMut(PauseContext<'_>) -> Result<PauseWrite, Rejection> + Send>;

/// The current state that an edit of the pause is decided on.
#[derive(Clone, Copy, Debug)]
pub struct PauseContext<'a> {
    /// The pause, if one holds now.
    pub active: Option<&'a PauseRecord>,
    /// The store's clock, read when nothing else can change the pause any more.
    pub now: Instant,
}

/// The effect of an edit on the pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PauseWrite {
    /// Leaves it unchanged.
    Keep,
    /// Replaces the newest pause.
    Put(PauseRecord),
}

/// The pause of a record, if it holds at `now`.
pub(crate) fn active_pause(record: Option<&PauseRecord>, now: Instant) -> Option<&PauseRecord> {
    record.filter(|record| record.pause.is_active(now))
}

/// Decides an edit of a job inside the transaction. It may be called more than once.
pub type DecideJob = Box<dyn FnMut(JobContext<'_>) -> Result<JobWrite, Rejection> + Send>;

/// The current state that an edit of a job is decided on.
#[derive(Clone, Copy, Debug)]
pub struct JobContext<'a> {
    /// The collection of the job.
    pub collection: &'a CollectionRecord,
    /// Number of jobs in the collection, this one included if it exists.
    pub jobs: u64,
    /// The job, if it exists and can be read.
    pub existing: Option<&'a JobRecord>,
    /// Why the job, which exists, cannot be read. Such a job can be deleted, and replaced by a new one;
    /// any other write fails with [`StoreError::Unreadable`].
    ///
    /// [`StoreError::Unreadable`]: crate::StoreError::Unreadable
    pub unreadable: Option<&'a UnreadableJob>,
    /// The store's clock, read when nothing else can change the job any more. An edit must not go by
    /// an earlier time: while it waited for the store, the job may have started a run.
    pub now: Instant,
    /// Its open runs, by id.
    pub open: &'a [OpenRun],
    /// The pause of all jobs, if one holds now.
    pub pause: Option<&'a PauseRecord>,
}

impl JobContext<'_> {
    /// The open runs of the job's schedule.
    pub fn open_scheduled_runs(&self) -> OpenScheduledRuns {
        let scheduled = || self.open.iter().filter(|run| run.cause == Cause::Scheduled);
        let since = self.existing.map_or(0, |existing| existing.job.schedule_generation);
        let count = scheduled().filter(|run| !run.is_superseded(since)).count();
        let latest = scheduled().map(|run| run.scheduled).max();
        OpenScheduledRuns { count: count as u64, latest }
    }
}

/// The effect of an edit on a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobWrite {
    /// Leaves it unchanged.
    Keep,
    /// Creates or replaces it.
    Put(Box<JobPut>),
    /// Opens a manual run, due at once, beside the schedule.
    Run {
        /// Scheduled time of the run.
        at: Instant,
    },
    /// Deletes it.
    Delete,
}

/// The new version of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPut {
    /// Identity of a new job; an existing job keeps its own.
    pub uid: JobUid,
    /// Creation time of a new job; an existing job keeps its own.
    pub created: Instant,
    /// The definition as its author wrote it.
    pub definition: JobDefinition,
    /// Properties that plans and quotas limit.
    pub facts: JobFacts,
    /// Schedule state and counters after the edit.
    pub state: JobState,
    /// The effect of the edit on open runs of the schedule.
    pub waiting: WaitingRuns,
    /// Occurrences that had come due under the old definition and were not begun: the edit closes
    /// them.
    pub closed_by_edit: Option<LedgerRecord>,
}

/// The effect of an edit on the open runs of a job's schedule. Manual runs always stay open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingRuns {
    /// The schedule stays the same, and its runs go on with the new definition.
    Keep,
    /// The schedule changed, or a finished job starts again: the schedule generation becomes that of
    /// the edit, and unclaimed runs are closed as superseded. Claimed runs are left alone: their
    /// owner notices the edit by the schedule generation.
    Supersede,
}

/// A resource before and after an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited<T> {
    /// The resource before the edit; `None` if it is new.
    pub before: Option<T>,
    /// The resource after the edit; `None` if it was deleted.
    pub after: Option<T>,
}

/// A job before and after an edit, and the status of its collection in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedJob {
    /// The job before the edit; `None` if it is new.
    pub before: Option<JobRecord>,
    /// The job after the edit; `None` if it was deleted.
    pub after: Option<JobRecord>,
    /// The status of its collection.
    pub collection: CollectionStatus,
}

/// The collections of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All collections of a subscription.
    Subscription(SubscriptionId),
    /// The collections of one group.
    Group(GroupPath),
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<K> {
    /// Only items after this one, in list order.
    pub after: Option<K>,
    /// Items to skip from there.
    pub skip: u64,
    /// Maximum number of items.
    pub limit: usize,
}

impl<K> Page<K> {
    /// The first `limit` items.
    pub fn first(limit: usize) -> Page<K> {
        Page { after: None, skip: 0, limit }
    }
}

/// Resource groups of a subscription: the limit of Azure Resource Manager. Groups have no other
/// limit, and are created on first use.
pub const GROUPS_PER_SUBSCRIPTION_MAX: usize = 980;

/// Jobs that one search examines before it yields to others: some milliseconds of work.
pub const SCAN_MAX: usize = 5_000;

/// A page of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobsPage {
    /// Matching jobs by name.
    pub jobs: Vec<JobRecord>,
    /// The status of their collection.
    pub collection: CollectionStatus,
    /// Continues an unfinished search; `None` if the page is full or every job was examined.
    pub rest: Option<Page<JobName>>,
}

impl JobsPage {
    /// A page whose search has examined jobs up to `end`, `None` at the end of the collection, with
    /// `skip` matches still to be skipped.
    pub(crate) fn new(
        (jobs, collection): (Vec<JobRecord>, CollectionStatus),
        page: &Page<JobName>,
        skip: u64,
        end: Option<JobName>,
    ) -> JobsPage {
        let limit = page.limit.saturating_sub(jobs.len());
        let rest = end.filter(|_| limit > 0).map(|end| Page { after: Some(end), skip, limit });
        JobsPage { jobs, collection, rest }
    }
}

/// Selects jobs of a collection. All conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// The state shown to users.
    pub state: Option<JobFilterState>,
    /// Text in name, target, description or tags, compared without regard to case.
    pub contains: Option<String>,
    /// A tag and, if given, its value.
    pub tag: Option<(String, Option<String>)>,
}

/// The state of a job as users see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the states of the API")]
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

/// Selects entries of a job's history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryFilter {
    /// The status of the attempt.
    pub status: Option<AttemptStatus>,
}
