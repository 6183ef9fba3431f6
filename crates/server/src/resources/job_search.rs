//! The search for jobs in all collections. A text among many jobs is found in the index of the node;
//! everything else is scanned in the store. A search ends after some time, so that it does not delay
//! other requests; the next page goes on from there.

use std::collections::{HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{
    AccessScope, CollectionName, CollectionPath, CollectionState, JobName, JobPath,
};
use kalends_environment::Stopwatch;
use kalends_store::record::{CollectionKey, JobKey};
use kalends_store::{
    CollectionSummary, JobFilterState, JobMatch, JobSearch, JobSearchPage, JobSet, JobSummary,
    SearchedCollection, StoreError,
};
use kalends_wire::{Counted, JobCounts, collection_id, job_id};

use super::readable_collections::ReadableCollections;
use crate::access::Caller;
use crate::app::App;
use crate::overview::{Attention, CurrentIndex, INDEXED_JOBS_MIN, Overview};

/// Time after which a search ends with the page that it has.
const TIME_MAX: Duration = Duration::from_millis(15);
/// Scans of a search: an upper bound on any machine.
const SCANS_MAX: usize = 100;
/// Jobs of one scan: about a millisecond of work, between which others are served.
const SCAN: usize = 2_000;
/// Jobs in a state that are read at once instead of by scans of all jobs: some milliseconds of work.
const SET_MAX: usize = 1_000;
/// Matches that are counted.
const COUNT_MAX: u64 = 1_000;
/// Time for which a search with more matches goes on, to count those in each state.
const STATES_TIME_MAX: Duration = Duration::from_millis(2);

/// The state that a search selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateFilter {
    State(JobFilterState),
    Failing,
}

impl StateFilter {
    /// The states of the API.
    pub(super) const WORDS: [(&str, StateFilter); 5] = [
        ("Enabled", StateFilter::State(JobFilterState::Enabled)),
        ("Disabled", StateFilter::State(JobFilterState::Disabled)),
        ("Failing", StateFilter::Failing),
        ("Completed", StateFilter::State(JobFilterState::Completed)),
        ("Faulted", StateFilter::State(JobFilterState::Faulted)),
    ];

    /// The set that contains all jobs in this state.
    fn set(self) -> Option<JobSet> {
        match self {
            StateFilter::State(JobFilterState::Enabled) => None,
            StateFilter::State(JobFilterState::Disabled) => Some(JobSet::Disabled),
            StateFilter::State(JobFilterState::Completed | JobFilterState::Faulted) => {
                Some(JobSet::Finished)
            }
            StateFilter::Failing => Some(JobSet::Failing),
        }
    }

    fn selects(self, job: &JobSummary) -> bool {
        match self {
            StateFilter::State(state) => job.filter_state() == state,
            StateFilter::Failing => is_failing(job),
        }
    }
}

/// Whether the last runs of an enabled job failed.
fn is_failing(job: &JobSummary) -> bool {
    Attention::failing(job).is_some()
}

/// The conditions of a search.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    /// Texts in name, collection, target, description or tags, in lower case.
    pub(super) words: Vec<String>,
    pub(super) state: Option<StateFilter>,
    pub(super) collection: Option<CollectionPath>,
}

/// The number of matches in each state, whatever state the search selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    all: u64,
    enabled: u64,
    disabled: u64,
    failing: u64,
    completed: u64,
    faulted: u64,
    progress: CountProgress,
}

/// How far the matches were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CountProgress {
    /// Up to the start of the page: matches from there on are added.
    #[default]
    UpToPage,
    /// Not to the end, and not further: the numbers are lower bounds.
    Ended,
    /// To the end.
    Complete,
}

impl Counts {
    fn add(&mut self, job: &JobSummary) {
        self.all += 1;
        self.failing += u64::from(is_failing(job));
        *match job.filter_state() {
            JobFilterState::Enabled => &mut self.enabled,
            JobFilterState::Disabled => &mut self.disabled,
            JobFilterState::Completed => &mut self.completed,
            JobFilterState::Faulted => &mut self.faulted,
        } += 1;
    }

    /// Whether further matches are not counted.
    fn is_decided(&self) -> bool {
        self.progress != CountProgress::UpToPage
    }

    /// Whether the number of all matches is decided.
    fn has_counted_all(&self) -> bool {
        self.is_decided() || self.all > COUNT_MAX
    }

    /// The form of a cursor.
    fn to_text(self) -> String {
        let Counts { all, enabled, disabled, failing, completed, faulted, progress } = self;
        let progress = match progress {
            CountProgress::UpToPage => "page",
            CountProgress::Ended => "ended",
            CountProgress::Complete => "complete",
        };
        format!("{progress} {all} {enabled} {disabled} {failing} {completed} {faulted}")
    }

    fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Counts> {
        let progress = match words.next()? {
            "page" => CountProgress::UpToPage,
            "ended" => CountProgress::Ended,
            "complete" => CountProgress::Complete,
            _ => return None,
        };
        let mut number = || words.next()?.parse().ok();
        let (all, enabled, disabled) = (number()?, number()?, number()?);
        let (failing, completed, faulted) = (number()?, number()?, number()?);
        Some(Counts { all, enabled, disabled, failing, completed, faulted, progress })
    }
}

impl Counts {
    /// Whether the count ended although there were few matches.
    fn ended_early(&self) -> bool {
        self.progress == CountProgress::Ended && self.all <= COUNT_MAX
    }

    /// Whether the numbers are lower bounds.
    pub(super) fn is_incomplete(&self) -> bool {
        self.progress != CountProgress::Complete
    }
}

impl From<Counts> for JobCounts {
    fn from(counts: Counts) -> JobCounts {
        let is_complete = counts.progress == CountProgress::Complete;
        let counted = |number: u64| Counted {
            count: number.min(COUNT_MAX),
            more: number > COUNT_MAX || !is_complete,
        };
        JobCounts {
            all: counted(counts.all),
            enabled: counted(counts.enabled),
            disabled: counted(counts.disabled),
            failing: counted(counts.failing),
            completed: counted(counts.completed),
            faulted: counted(counts.faulted),
        }
    }
}

/// The start of a page: in a collection, after a job.
#[derive(Clone, Debug)]
pub(super) struct Position {
    collection: CollectionPath,
    after: Option<JobName>,
    counts: Counts,
}

impl Position {
    /// Parses the position of a cursor.
    pub(super) fn parse(text: &str) -> Option<Position> {
        let (counts, path) = text.split_once('/')?;
        let counts = Counts::parse(counts.split(' '))?;
        let (collection, job) = match path.split_once("/jobs/") {
            Some((collection, job)) => (collection, Some(job)),
            None => (path, None),
        };
        let AccessScope::Collection(collection) =
            AccessScope::parse(&format!("/{collection}")).ok()?
        else {
            return None;
        };
        let after = job.map(JobName::new).transpose().ok()?;
        Some(Position { collection, after, counts })
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Position { collection, after, counts } = self;
        let path = match after.clone() {
            Some(job) => job_id(&JobPath { collection: collection.clone(), job }),
            None => collection_id(collection),
        };
        write!(f, "{}{path}", counts.to_text())
    }
}

/// A job of a page.
pub(super) struct FoundJob {
    pub(super) key: JobKey,
    pub(super) path: JobPath,
    pub(super) collection_state: CollectionState,
    pub(super) consecutive_failures: u64,
}

/// A page of a search.
pub(super) struct FoundJobs {
    pub(super) jobs: Vec<FoundJob>,
    pub(super) counts: Counts,
    /// Start of the next page; `None` after the last one.
    pub(super) next: Option<Position>,
}

/// Finds a page of jobs that the caller may read, by collection and name.
pub(super) async fn search(
    app: &Arc<App>,
    caller: &Caller,
    conditions: &Conditions,
    from: Option<Position>,
    size: usize,
) -> Result<FoundJobs, StoreError> {
    let index = match conditions.words.is_empty() {
        true => None,
        false => Overview::search_index(app).await?,
    };
    let watch = Stopwatch::start();
    let search = Search { index, ..Search::new(caller, conditions, from, size) };
    let (mut found, index) = search.find(app, &watch).await?;
    // A search without the index ended its count early, and the present one did not go on.
    if index.is_some() && found.counts.ended_early() {
        let count = Search { index, ..Search::new(caller, conditions, None, 0) };
        found.counts = count.find(app, &watch).await?.0.counts;
    }
    Ok(found)
}

/// A search in progress.
struct Search<'a> {
    conditions: &'a Conditions,
    size: usize,
    /// `None`: the store is scanned.
    index: Option<CurrentIndex>,
    /// The jobs in the selected state, by name. `None`: all jobs are scanned.
    set: Option<HashMap<CollectionKey, Vec<JobMatch>>>,
    collections: ReadableCollections,
    /// Collections that were read and not searched, the first one perhaps in part. Empty when all
    /// were searched.
    pending: VecDeque<CollectionSummary>,
    /// Where the search goes on in the first pending collection.
    after: Option<JobName>,
    /// The position of the request, until its collection is read.
    start: Option<Position>,
    /// Matches of the page, one more than is returned if there is a next page.
    jobs: Vec<FoundJob>,
    counts: Counts,
}

impl<'a> Search<'a> {
    fn new(
        caller: &Caller,
        conditions: &'a Conditions,
        start: Option<Position>,
        size: usize,
    ) -> Search<'a> {
        let from = start.as_ref().map(|start| start.collection.clone());
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        Search {
            conditions,
            size,
            index: None,
            set: None,
            collections: ReadableCollections::new(caller, conditions.collection.clone(), from),
            pending: VecDeque::new(),
            after: None,
            counts: start.as_ref().map(|start| start.counts).unwrap_or_default(),
            start,
            jobs: vec![],
        }
    }

    /// Finds a page. Returns the index for another search.
    async fn find(
        mut self,
        app: &App,
        watch: &Stopwatch,
    ) -> Result<(FoundJobs, Option<CurrentIndex>), StoreError> {
        self.read_collections(app).await?;
        self.read_set(app).await?;
        self.decide_count();
        for scans in 0..SCANS_MAX {
            // At least one scan, so that every page makes progress, also on a busy machine.
            let is_late = scans > 0 && watch.elapsed() >= TIME_MAX;
            if self.is_exhausted() || self.has_enough(watch) || is_late {
                break;
            }
            self.scan(app, scans == 0).await?;
        }
        let index = self.index.take();
        Ok((self.finish(), index))
    }

    /// Reads collections to search, unless some are left.
    async fn read_collections(&mut self, app: &App) -> Result<(), StoreError> {
        if self.pending.is_empty() {
            self.pending = self.collections.next(app).await?.into();
            let first = self.pending.front().map(|first| &first.record.path);
            // The collection of the cursor may have been deleted.
            let start = self.start.take().filter(|start| first == Some(&start.collection));
            self.after = start.and_then(|start| start.after);
        }
        Ok(())
    }

    /// Reads the jobs in the selected state if there are few of them among many jobs. The matches in
    /// other states are not counted then.
    async fn read_set(&mut self, app: &App) -> Result<(), StoreError> {
        let jobs: u64 = self.pending.iter().map(|collection| collection.jobs).sum();
        let set = self.conditions.state.and_then(StateFilter::set);
        let Some(set) =
            set.filter(|_| self.conditions.words.is_empty() && jobs >= INDEXED_JOBS_MIN as u64)
        else {
            return Ok(());
        };
        let Some(jobs) = app.store.jobs_of_set(set, SET_MAX).await? else { return Ok(()) };
        let mut by_collection: HashMap<_, Vec<JobMatch>> = HashMap::new();
        for job in jobs {
            by_collection.entry(job.state.collection).or_default().push(job);
        }
        for jobs in by_collection.values_mut() {
            jobs.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        }
        self.set = Some(by_collection);
        self.counts.progress = CountProgress::Ended;
        Ok(())
    }

    fn is_exhausted(&self) -> bool {
        self.pending.is_empty()
    }

    /// Without a text, the collections tell whether there are more jobs than are counted.
    fn decide_count(&mut self) {
        let jobs: u64 = self.pending.iter().map(|collection| collection.jobs).sum();
        if self.conditions.words.is_empty() && !self.counts.is_decided() && jobs > COUNT_MAX {
            self.counts.all = COUNT_MAX + 1;
            self.counts.progress = CountProgress::Ended;
        }
    }

    /// Scans some jobs.
    async fn scan(&mut self, app: &App, is_first: bool) -> Result<(), StoreError> {
        let searched = |collection: &CollectionSummary| SearchedCollection {
            key: collection.key,
            jobs: collection.jobs,
            matched: self.words_in(&collection.record.path.collection),
        };
        let scan = JobSearch {
            collections: self.pending.iter().map(searched).collect(),
            after: self.after.take(),
            words: self.conditions.words.clone(),
            scan_max: self.scan_max(is_first),
        };
        let JobSearchPage { jobs, rest } = match (&mut self.set, &self.index) {
            (Some(set), _) => take_from(set, &scan),
            (None, Some(index)) => index.search(app, scan).await?,
            (None, None) => app.store.search_jobs(scan).await?,
        };
        for found in jobs {
            // The matches are in the order of the collections.
            while self.pending.front().is_some_and(|first| first.key != found.state.collection) {
                self.pending.pop_front();
            }
            self.add(&found.state, found.name);
        }
        match rest {
            None => self.pending.clear(),
            Some(rest) => {
                while self.pending.front().is_some_and(|first| first.key != rest.collection) {
                    self.pending.pop_front();
                }
                self.after = rest.after;
            }
        }
        self.read_collections(app).await
    }

    /// The words that the name of a collection has, as bits.
    fn words_in(&self, collection: &CollectionName) -> u16 {
        let name = collection.as_str().to_lowercase();
        let places =
            self.conditions.words.iter().enumerate().filter(|(_, word)| name.contains(*word));
        places.fold(0, |bits, (place, _)| bits | (1 << place))
    }

    /// Jobs of the next scan: without conditions, every job is a match. Those of the index match the
    /// text. In most searches for a state, the first jobs have it.
    fn scan_max(&self, is_first: bool) -> usize {
        let is_scanned_for_text = !self.conditions.words.is_empty() && self.index.is_none();
        let has_conditions = is_scanned_for_text || self.conditions.state.is_some();
        match (has_conditions, self.counts.is_decided()) {
            (false, true) => self.size + 1 - self.jobs.len(),
            (false, false) => COUNT_MAX as usize + 1,
            (true, true) if is_first => 2 * self.size,
            (true, _) => SCAN,
        }
    }

    fn add(&mut self, state: &JobSummary, name: JobName) {
        let Some(collection) = self.pending.front() else { return };
        if !self.counts.is_decided() {
            self.counts.add(state);
        }
        let is_selected = self.conditions.state.is_none_or(|filter| filter.selects(state));
        if is_selected && self.jobs.len() <= self.size {
            self.jobs.push(FoundJob {
                key: state.job,
                path: JobPath { collection: collection.record.path.clone(), job: name },
                collection_state: collection.record.collection.state,
                consecutive_failures: state.consecutive_failures,
            });
        }
    }

    fn has_enough(&self, watch: &Stopwatch) -> bool {
        let has_counted = self.counts.is_decided()
            || self.counts.has_counted_all() && watch.elapsed() >= STATES_TIME_MAX;
        self.jobs.len() > self.size && has_counted
    }

    fn finish(mut self) -> FoundJobs {
        let is_full = self.jobs.len() > self.size;
        if self.counts.progress == CountProgress::UpToPage {
            if self.is_exhausted() {
                self.counts.progress = CountProgress::Complete;
            } else if is_full || self.counts.has_counted_all() {
                self.counts.progress = CountProgress::Ended;
            }
        }
        self.jobs.truncate(self.size);
        let counts = self.counts;
        let next = match is_full {
            true => self.jobs.last().map(|last| {
                let JobPath { collection, job } = last.path.clone();
                (collection, Some(job))
            }),
            // The search ended early.
            false => self.pending.front().map(|first| (first.record.path.clone(), self.after)),
        };
        let next = next.map(|(collection, after)| Position { collection, after, counts });
        FoundJobs { jobs: self.jobs, counts, next }
    }
}

/// The jobs of a set in the collections of a search.
fn take_from(set: &mut HashMap<CollectionKey, Vec<JobMatch>>, search: &JobSearch) -> JobSearchPage {
    let mut page = JobSearchPage::default();
    for (place, collection) in search.collections.iter().enumerate() {
        let after = search.after.as_ref().filter(|_| place == 0);
        let jobs = set.remove(&collection.key).unwrap_or_default();
        page.jobs
            .extend(jobs.into_iter().filter(|job| after.is_none_or(|after| job.name > *after)));
    }
    page
}
