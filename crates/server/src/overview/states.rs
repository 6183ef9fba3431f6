//! The scan of the states of all jobs.

use std::collections::HashMap;
use std::ops::Bound;
use std::time::Duration;

use kalends_domain::{
    AccessScope, CollectionPath, CollectionState, Lifecycle, Permission, Switch, jobs_max,
};
use kalends_environment::Stopwatch;
use kalends_recurrence::Instant;
use kalends_store::record::CollectionKey;
use kalends_store::{
    CollectionSummary, JobFilterState, JobSummary, ScannedState, StatesPage, StoreError,
};

use super::PAGE;
use super::attention::Attention;
use super::background_scan::Scanned;
use super::stuck_runs;
use crate::access::Caller;
use crate::app::App;

/// Entries of a response, and of one collection in memory. With entries of 56 bytes, they take little
/// memory even if every job needs attention.
pub(crate) const ATTENTION_MAX: usize = 200;
const HOUR: Duration = Duration::from_secs(3_600);
/// Longest rest between two pages.
const REST_MAX: Duration = Duration::from_millis(100);

/// Numbers of jobs. A failing or overdue job is enabled, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateCounts {
    pub(crate) all: u64,
    pub(crate) enabled: u64,
    pub(crate) disabled: u64,
    pub(crate) failing: u64,
    pub(crate) completed: u64,
    pub(crate) faulted: u64,
    pub(crate) overdue: u64,
}

impl StateCounts {
    fn add(&mut self, job: &JobSummary) {
        self.all += 1;
        *match job.filter_state() {
            JobFilterState::Enabled => &mut self.enabled,
            JobFilterState::Disabled => &mut self.disabled,
            JobFilterState::Completed => &mut self.completed,
            JobFilterState::Faulted => &mut self.faulted,
        } += 1;
    }

    pub(crate) fn plus(self, other: StateCounts) -> StateCounts {
        StateCounts {
            all: self.all + other.all,
            enabled: self.enabled + other.enabled,
            disabled: self.disabled + other.disabled,
            failing: self.failing + other.failing,
            completed: self.completed + other.completed,
            faulted: self.faulted + other.faulted,
            overdue: self.overdue + other.overdue,
        }
    }
}

/// A collection in the overview.
#[derive(Clone, Debug)]
pub(crate) struct CollectionOverview {
    pub(crate) path: CollectionPath,
    pub(crate) state: CollectionState,
    /// Jobs that it may have; `None` if that is not limited.
    pub(crate) jobs_max: Option<u64>,
    pub(crate) counts: StateCounts,
    /// Jobs whose next run is within an hour.
    pub(crate) due_within_hour: u64,
    /// The first entries of its list.
    pub(crate) attention: Vec<Attention>,
    /// Number of all entries.
    pub(crate) attention_count: u64,
    /// Whether its jobs run: it is enabled, and not all jobs are paused.
    runs_jobs: bool,
}

impl CollectionOverview {
    fn new(summary: &CollectionSummary, app: &App, is_paused: bool) -> CollectionOverview {
        let max = jobs_max(&summary.record.collection, app.settings.plans);
        let mut overview = CollectionOverview {
            path: summary.record.path.clone(),
            state: summary.record.collection.state,
            jobs_max: (max < u32::MAX).then_some(u64::from(max)),
            counts: StateCounts::default(),
            due_within_hour: 0,
            attention: vec![],
            attention_count: 0,
            runs_jobs: summary.record.collection.state == CollectionState::Enabled && !is_paused,
        };
        overview.note(Attention::quota(summary.jobs, overview.jobs_max));
        overview
    }

    fn note(&mut self, attention: Option<Attention>) -> bool {
        let Some(attention) = attention else { return false };
        self.attention_count += 1;
        if self.attention.len() < ATTENTION_MAX {
            self.attention.push(attention);
        }
        true
    }

    fn add(
        &mut self,
        ScannedState { job, created }: &ScannedState,
        stuck: Option<Attention>,
        now: Instant,
    ) {
        self.counts.add(job);
        self.counts.failing += u64::from(self.note(Attention::failing(job)));
        self.note(Attention::disabled_long(job, *created, now));
        if self.runs_jobs {
            self.note(stuck.filter(|_| job.filter_state() == JobFilterState::Enabled));
            self.counts.overdue += u64::from(self.note(Attention::overdue(job, now)));
            let is_active = (job.switch, job.lifecycle) == (Switch::Enabled, Lifecycle::Active);
            let is_soon = job.due.is_some_and(|due| due <= now.saturating_add(HOUR));
            self.due_within_hour += u64::from(is_active && is_soon);
        }
    }
}

/// The result of a scan.
pub(crate) struct StatesSnapshot {
    pub(crate) calculated_at: Instant,
    /// By path.
    collections: Vec<CollectionOverview>,
}

impl StatesSnapshot {
    /// The collections that a caller may read, by path.
    pub(crate) fn readable<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> impl Iterator<Item = &'a CollectionOverview> {
        let reads_all = caller.may(Permission::Read, &AccessScope::Everything);
        self.collections.iter().filter(move |collection| {
            let scope = || AccessScope::Collection(collection.path.clone());
            reads_all || caller.may(Permission::Read, &scope())
        })
    }
}

/// All collections, by path.
pub(super) async fn read_collections(app: &App) -> Result<Vec<CollectionSummary>, StoreError> {
    let (mut all, mut from) = (Vec::new(), Bound::Unbounded);
    loop {
        let page = app.store.collection_summaries(AccessScope::Everything, from, PAGE).await?;
        let Some(last) = page.last() else { return Ok(all) };
        let is_last = page.len() < PAGE;
        from = Bound::Excluded(last.record.path.clone());
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

/// Rests between two pages as long as the last one took, so that other requests are served.
pub(super) async fn rest_after(app: &App, page: Duration) {
    app.clock.sleep(page.min(REST_MAX)).await;
}

/// Scans the states of all jobs.
pub(super) async fn scan(app: &App) -> Result<Scanned<StatesSnapshot>, StoreError> {
    let now = app.now();
    let watch = Stopwatch::start();
    let summaries = read_collections(app).await?;
    let is_paused = app.store.pause().await?.is_some();
    let overview = |summary| CollectionOverview::new(summary, app, is_paused);
    let mut collections: Vec<_> = summaries.iter().map(overview).collect();
    let places = summaries.iter().enumerate().map(|(place, summary)| (summary.key, place));
    let places: HashMap<CollectionKey, usize> = places.collect();
    drop(summaries);
    let mut work = watch.elapsed();
    let (stuck, work_on_runs) = stuck_runs::find(app, now).await?;
    work += work_on_runs;
    let mut after = None;
    loop {
        let watch = Stopwatch::start();
        let StatesPage { states, next } = app.store.scan_states(after, PAGE).await?;
        for state in &states {
            // A collection that was created or deleted meanwhile is left out.
            let place = places.get(&state.job.collection);
            if let Some(overview) = place.and_then(|place| collections.get_mut(*place)) {
                overview.add(state, stuck.get(&state.job.job).copied(), now);
            }
        }
        let page = watch.elapsed();
        work += page;
        match next {
            None => break,
            Some(_) => after = next,
        }
        rest_after(app, page).await;
    }
    let result = StatesSnapshot { calculated_at: now, collections };
    Ok(Scanned { result, work })
}
