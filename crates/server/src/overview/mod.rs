//! Numbers over all jobs, computed in the background while clients ask for them.
//!
//! Three scans per node read the jobs in pages: one reads states, one schedules and certificates, and
//! one the texts that a search examines. Each rests between two scans in proportion to its own work, so
//! that all together take at most 6 % of a core.

mod attention;
mod background_scan;
mod schedules;
mod search_index;
mod states;
mod stuck_runs;

use std::sync::Arc;
use std::time::Duration;

use kalends_store::{EditedJob, StoreError};

pub(crate) use attention::{Attention, AttentionKind};
pub(crate) use schedules::{SchedulesSnapshot, align};
pub(crate) use search_index::{CurrentIndex, INDEXED_JOBS_MIN};
pub(crate) use states::{ATTENTION_MAX, CollectionOverview, StateCounts, StatesSnapshot};

use self::background_scan::{BackgroundScan, FirstResult, Pacing};
use self::search_index::{EditedTexts, SearchIndex};
use crate::app::App;

/// Jobs of one page: some milliseconds of work.
const PAGE: usize = 2_000;

/// At most 3 % of a core.
const STATES: Pacing = Pacing { period_min: Duration::from_secs(2), rest: 32 };
/// At most 2 % of a core.
const SCHEDULES: Pacing = Pacing { period_min: Duration::from_secs(5), rest: 49 };
/// At most 1 % of a core.
const TEXTS: Pacing = Pacing { period_min: Duration::from_secs(5), rest: 99 };

/// The background scans of a node.
#[derive(Default)]
pub struct Overview {
    states: BackgroundScan<StatesSnapshot>,
    schedules: BackgroundScan<SchedulesSnapshot>,
    texts: BackgroundScan<SearchIndex>,
    edited_texts: EditedTexts,
}

impl Overview {
    /// Counts and states; `None` if the first scan takes longer than a request may wait.
    pub(crate) async fn states(app: &Arc<App>) -> Option<Arc<StatesSnapshot>> {
        Overview::latest_states(app, FirstResult::Wait).await
    }

    /// Counts and states; `None` before the first scan has ended.
    pub(crate) async fn states_if_known(app: &Arc<App>) -> Option<Arc<StatesSnapshot>> {
        Overview::latest_states(app, FirstResult::Skip).await
    }

    async fn latest_states(app: &Arc<App>, first: FirstResult) -> Option<Arc<StatesSnapshot>> {
        let scan = |app: Arc<App>| Box::pin(async move { states::scan(&app).await }) as _;
        BackgroundScan::latest(app, |app| &app.overview.states, STATES, scan, first).await
    }

    /// Expected runs and certificates; `None` if the first scan takes longer than a request may wait.
    pub(crate) async fn schedules(app: &Arc<App>) -> Option<Arc<SchedulesSnapshot>> {
        let scan = |app: Arc<App>| Box::pin(async move { schedules::scan(&app).await }) as _;
        let first = FirstResult::Wait;
        BackgroundScan::latest(app, |app| &app.overview.schedules, SCHEDULES, scan, first).await
    }

    /// The texts of all jobs for a search; `None` if there are so few jobs that a scan is as quick, if
    /// there are too many, or if the first scan takes longer than a request may wait.
    pub(crate) async fn search_index(app: &Arc<App>) -> Result<Option<CurrentIndex>, StoreError> {
        match Overview::latest_texts(app, FirstResult::Wait).await {
            None => Ok(None),
            Some(index) => CurrentIndex::read(app, index).await,
        }
    }

    /// Starts to read the texts of all jobs, so that the first search finds them.
    pub(crate) async fn prepare_search(app: &Arc<App>) {
        Overview::latest_texts(app, FirstResult::Skip).await;
    }

    /// Lets the numbers follow a change of this node soon.
    pub(crate) fn note_change(&self) {
        self.states.note_change();
        self.schedules.note_change();
    }

    /// Lets the numbers follow an edit soon, and searches on this node find the job by its new text at
    /// once.
    pub(crate) fn note_edit(&self, edited: &EditedJob) {
        self.note_change();
        // A scan that starts later reads the edit, which is committed.
        if self.texts.is_running() {
            self.edited_texts.add(edited);
        }
    }

    async fn latest_texts(app: &Arc<App>, first: FirstResult) -> Option<Arc<SearchIndex>> {
        let scan = |app: Arc<App>| Box::pin(async move { search_index::scan(&app).await }) as _;
        BackgroundScan::latest(app, |app| &app.overview.texts, TEXTS, scan, first).await
    }
}
