//! Reads over all collections: the search for jobs, and pages of all jobs.

use std::ops::Bound;

use kalends_domain::{AccessScope, CollectionPath, JobName, JobPath, Lifecycle, Switch};
use kalends_recurrence::{Definition, Instant};

use crate::api_store::JobFilterState;
use crate::record::{CollectionKey, CollectionRecord, JobKey, JobRecord};
use crate::store::Reply;

/// Reads over all collections. Each call is bounded; a caller that reads on starts where the previous
/// call ended.
pub trait OverviewStore: Send + Sync {
    /// The collections of a scope by subscription, group and name, at most `limit`.
    fn collection_summaries(
        &self,
        scope: AccessScope,
        from: Bound<CollectionPath>,
        limit: usize,
    ) -> Reply<'_, Vec<CollectionSummary>>;

    /// Searches jobs by collection and name. Examines about [`JobSearch::scan_max`] jobs, at least
    /// one.
    fn search_jobs(&self, search: JobSearch) -> Reply<'_, JobSearchPage>;

    /// The jobs of a set, and perhaps some others, in any order. `None` if there are more than `limit`,
    /// or if this store cannot find them without a scan of all jobs.
    fn jobs_of_set(&self, set: JobSet, limit: usize) -> Reply<'_, Option<Vec<JobMatch>>>;

    /// Jobs by their keys, in any order, without those that do not exist or cannot be read.
    fn jobs_by_key(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<JobRecord>>;

    /// The states of jobs by their keys, in any order, without those that do not exist or cannot be
    /// read.
    fn states_by_key(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<JobSummary>>;

    /// The paths of jobs, in any order, without those that do not exist.
    fn job_paths(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<(JobKey, JobPath)>>;

    /// The states of jobs after a key, in key order. Examines at most `limit` jobs. States that cannot
    /// be read are absent; jobs of deleted collections may be present.
    fn scan_states(&self, after: Option<JobKey>, limit: usize) -> Reply<'_, StatesPage>;

    /// The greatest key of a job; 0 if there is none.
    fn newest_job(&self) -> Reply<'_, JobKey>;

    /// The texts of jobs, at most `limit`, at least one. Jobs of deleted collections may be present.
    fn scan_texts(&self, from: TextsFrom, limit: usize) -> Reply<'_, TextsPage>;

    /// The schedules of enabled, active jobs after a key, in key order, if they are due before
    /// `due_before` or use HTTP authentication. Examines at most `limit` jobs; others as in
    /// [`OverviewStore::scan_states`].
    fn scan_schedules(
        &self,
        after: Option<JobKey>,
        due_before: Instant,
        limit: usize,
    ) -> Reply<'_, SchedulesPage>;
}

/// A page of states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatesPage {
    /// States in key order.
    pub states: Vec<ScannedState>,
    /// The next page starts after this job; `None` after the last page.
    pub next: Option<JobKey>,
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScannedState {
    /// The state.
    pub job: JobSummary,
    /// Time of creation of a disabled job; it is not read for others.
    pub created: Option<Instant>,
}

/// The first job of a scan of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextsFrom {
    /// By collection and name, after this job; `None`: from the start.
    Name(Option<(CollectionKey, JobName)>),
    /// By key, after this job: those that were created after it.
    Key(JobKey),
}

/// A page of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextsPage {
    /// Texts in the order of the scan.
    pub texts: Vec<ScannedText>,
    /// Whether the page has `limit` jobs, so that another one may follow.
    pub is_full: bool,
}

/// The texts of a job that a search examines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedText {
    /// Number of the job.
    pub job: JobKey,
    /// Number of its collection.
    pub collection: CollectionKey,
    /// Name with the spelling of its creation.
    pub name: JobName,
    /// Target, description and tags in lower case.
    pub text: String,
}

/// A page of schedules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulesPage {
    /// Schedules in key order.
    pub schedules: Vec<ScannedSchedule>,
    /// The next page starts after this job; `None` after the last page.
    pub next: Option<JobKey>,
}

/// The schedule of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedSchedule {
    /// The state of the job.
    pub job: JobSummary,
    /// The schedule; `None` if the definition cannot be read.
    pub definition: Option<Definition>,
    /// End of the validity of its client certificate, of the first one if it has several.
    pub certificate_end: Option<Instant>,
}

/// A collection with its number and the number of its jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionSummary {
    /// Number of the collection in this store.
    pub key: CollectionKey,
    /// The collection.
    pub record: CollectionRecord,
    /// Number of its jobs.
    pub jobs: u64,
}

/// A search for jobs in several collections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSearch {
    /// The collections to search, in this order.
    pub collections: Vec<SearchedCollection>,
    /// Only jobs after this one in the first collection.
    pub after: Option<JobName>,
    /// Texts, at most [`SEARCH_WORDS_MAX`], that must all occur, each in name, target, description or
    /// tags, compared without regard to case. A line break before and after a tag makes it match a whole
    /// tag. None match every job.
    pub words: Vec<String>,
    /// Number of jobs to examine.
    pub scan_max: usize,
}

/// A collection to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchedCollection {
    /// Number of the collection.
    pub key: CollectionKey,
    /// About the number of its jobs: decides how many collections one statement examines.
    pub jobs: u64,
    /// The words of the search that every job of the collection matches: bit 0 for the first one.
    pub matched: u16,
}

/// Words of a search.
pub const SEARCH_WORDS_MAX: usize = u16::BITS as usize;

impl JobSearch {
    /// The words that jobs of a collection must have, in lower case.
    pub fn words_of(&self, collection: &SearchedCollection) -> Vec<String> {
        let words = self.words.iter().enumerate();
        let missing = words.filter(|(place, _)| (collection.matched >> place) & 1 == 0);
        missing.map(|(_, word)| word.to_lowercase()).collect()
    }
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSearchPage {
    /// Matching jobs, in the order of the collections and by name.
    pub jobs: Vec<JobMatch>,
    /// Where the next search starts, if this one ended after [`JobSearch::scan_max`] jobs. `None` if
    /// all were examined.
    pub rest: Option<SearchPosition>,
}

/// A position in a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPosition {
    /// The collection to go on with.
    pub collection: CollectionKey,
    /// Only jobs after this one in it.
    pub after: Option<JobName>,
}

/// A set of jobs that a store finds without a scan, because it is usually small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobSet {
    /// Disabled jobs.
    Disabled,
    /// Jobs with at least [`FAILING_MIN`] failed runs in a row.
    Failing,
    /// Completed and faulted jobs.
    Finished,
}

impl JobSet {
    /// Whether a job belongs to the set.
    pub(crate) fn contains(self, job: &JobSummary) -> bool {
        match self {
            JobSet::Disabled => job.switch == Switch::Disabled,
            JobSet::Failing => job.consecutive_failures >= FAILING_MIN,
            JobSet::Finished => job.lifecycle != Lifecycle::Active,
        }
    }
}

/// Failed runs in a row from which on a job is failing.
pub const FAILING_MIN: u64 = 3;

/// A job that matches a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobMatch {
    /// Name with the spelling of its creation.
    pub name: JobName,
    /// The state of the job.
    pub state: JobSummary,
}

/// The columns of a job's state that lists and counts need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobSummary {
    /// Number of the job.
    pub job: JobKey,
    /// Number of its collection.
    pub collection: CollectionKey,
    /// Whether the job is enabled by its author.
    pub switch: Switch,
    /// Whether the job is active, completed or faulted.
    pub lifecycle: Lifecycle,
    /// The next occurrence that has neither a run nor a ledger row.
    pub due: Option<Instant>,
    /// Occurrences that started a run since the last edit that resets the count.
    pub used: u64,
    /// Start of the last attempt of the main action.
    pub last_execution: Option<Instant>,
    /// When the job was last enabled; `None` if it was never disabled.
    pub enabled_since: Option<Instant>,
    /// Number of failed runs since the last run that succeeded.
    pub consecutive_failures: u64,
}

impl JobSummary {
    /// The state of the job as users see it.
    pub fn filter_state(&self) -> JobFilterState {
        JobFilterState::of(self.switch, self.lifecycle)
    }

    /// Whether [`OverviewStore::scan_schedules`] returns the job.
    pub(crate) fn is_scanned(&self, is_authenticated: bool, due_before: Instant) -> bool {
        let is_due = self.due.is_some_and(|due| due < due_before);
        self.filter_state() == JobFilterState::Enabled && (is_due || is_authenticated)
    }
}

/// The smallest key that a range of collections contains: subscription, group and collection. Names
/// have no characters below the one that is appended.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn first_keys(from: &Bound<CollectionPath>) -> [String; 3] {
    let keys = |path: &CollectionPath, end: &str| {
        let collection = path.collection.key() + end;
        [path.group.subscription.key(), path.group.group.key(), collection]
    };
    match from {
        Bound::Unbounded => Default::default(),
        Bound::Included(path) => keys(path, ""),
        Bound::Excluded(path) => keys(path, "\u{1}"),
    }
}

/// The keys of a scope: subscription, group and collection. `None` matches any.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn scope_keys(scope: &AccessScope) -> [Option<String>; 3] {
    match scope {
        AccessScope::Everything => [None, None, None],
        AccessScope::Subscription(subscription) => [Some(subscription.key()), None, None],
        AccessScope::Group(path) => [Some(path.subscription.key()), Some(path.group.key()), None],
        AccessScope::Collection(path) => [
            Some(path.group.subscription.key()),
            Some(path.group.group.key()),
            Some(path.collection.key()),
        ],
    }
}
