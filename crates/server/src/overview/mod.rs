//! Numbers over all jobs, computed in the background while clients ask for them.
//!
//! Two scans per node read the jobs in pages: one reads states, the other one schedules and
//! certificates. Each rests between two scans in proportion to its own work, so that both together
//! take at most 5 % of a core.

mod attention;
mod background_scan;
mod schedules;
mod states;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use attention::Attention;
pub(crate) use schedules::{SchedulesSnapshot, align};
pub(crate) use states::{ATTENTION_MAX, CollectionOverview, StateCounts, StatesSnapshot};

use self::background_scan::{BackgroundScan, FirstResult, Pacing};
use crate::app::App;

/// Jobs of one page: some milliseconds of work.
const PAGE: usize = 2_000;

/// At most 3 % of a core.
const STATES: Pacing = Pacing { period_min: Duration::from_secs(2), rest: 32 };
/// At most 2 % of a core.
const SCHEDULES: Pacing = Pacing { period_min: Duration::from_secs(5), rest: 49 };

/// Failed runs in a row from which on a job is failing.
pub(crate) const FAILING_MIN: u64 = 3;

/// The background scans of a node.
#[derive(Default)]
pub struct Overview {
    states: BackgroundScan<StatesSnapshot>,
    schedules: BackgroundScan<SchedulesSnapshot>,
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
}
