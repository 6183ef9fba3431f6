//! Loads jobs and runs that are due soon. The window adapts to the number of rows, so that a load takes
//! milliseconds regardless of the number of jobs.

use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{Lifecycle, Switch};
use kalends_recurrence::Instant;
use kalends_store::record::{GateState, OpenRun, PauseRecord};
use kalends_store::{Due, DueJob, EngineStore, ParkedRuns, StoreError};

use super::parked_runs::PARKED_KEYS_MAX;
use super::store_calls::StoreResponse;
use super::{BATCH_MAX, Scheduler, earlier};
use crate::status::CallKind;
use crate::timetable::TIMETABLE_MAX;

/// Minimum window. Loads happen twice per window.
const WINDOW_MIN: Duration = Duration::from_secs(1);
/// A load with more jobs that are due later halves the window of the next one.
const ROWS_TARGET: usize = 10_000;
/// Jobs that have been due for longer are a backlog, as after downtime or when a collection is enabled.
const BACKLOG_AGE: Duration = Duration::from_secs(10);
/// Maximum number of overdue jobs that a load reads: of the backlog, and of those that are no backlog.
const OVERDUE_MAX: usize = 10_000;
/// Maximum number of jobs due later that a load reads.
const COMING_MAX: usize = TIMETABLE_MAX - 2 * OVERDUE_MAX;
/// The resolution of [`Instant`].
const TICK: Duration = Duration::from_nanos(100);
/// Loads triggered by edits take at most one part in this many of the time.
const NUDGED_SHARE: u32 = 5;
/// After a rejected claim of a run, the next load is due after this time. Not at once: in a cluster,
/// every run that two nodes want has one rejected claim.
const RELOAD_AFTER: Duration = Duration::from_secs(1);

/// When to load, and how far ahead.
pub(super) struct LoadSchedule {
    at: Instant,
    window: Duration,
    window_max: Duration,
    /// An edit requested a load.
    nudged: bool,
    /// Uptimes of the start and of the end of the last load.
    last: (Duration, Duration),
    /// Whether the last load reached the row limit.
    is_truncated: bool,
}

impl LoadSchedule {
    pub(super) fn new(now: Instant, window_max: Duration) -> LoadSchedule {
        let last = (Duration::ZERO, Duration::ZERO);
        LoadSchedule {
            at: now,
            window: window_max,
            window_max,
            nudged: false,
            last,
            is_truncated: false,
        }
    }

    /// Makes the next load due now.
    pub(super) fn load_now(&mut self, now: Instant) {
        self.at = now;
    }

    /// Makes the next load due at `at` or earlier.
    pub(super) fn load_by(&mut self, at: Instant) {
        self.at = self.at.min(at);
    }

    /// Makes the next load due soon.
    pub(super) fn load_soon(&mut self, now: Instant) {
        self.load_by(now.saturating_add(RELOAD_AFTER));
    }

    /// Whether the last load reached the row limit.
    pub(super) fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Whether a load started after the uptime `moment` and has finished.
    pub(super) fn has_loaded_since(&self, moment: Duration) -> bool {
        self.last.0 > moment
    }

    /// Records the request of an edit.
    pub(super) fn nudged(&mut self) {
        self.nudged = true;
    }

    /// Time of the next load.
    pub(super) fn next(&self, elapsed: Duration, now: Instant) -> Option<Instant> {
        let (began, ended) = self.last;
        let earliest = ended + (ended - began) * (NUDGED_SHARE - 1);
        let nudged = self.nudged.then(|| now.saturating_add(earliest.saturating_sub(elapsed)));
        nudged.into_iter().chain([self.at]).min()
    }

    /// Plans the next load. `asked` is the time for which this one read, `now` that of its end.
    fn finished(
        &mut self,
        (asked, now): (Instant, Instant),
        (began, ended): (Duration, Duration),
        jobs: &DueJobs,
    ) {
        self.last = (began, ended.max(began));
        self.is_truncated = jobs.is_truncated;
        if jobs.coming.len() > ROWS_TARGET {
            self.window = (self.window / 2).max(WINDOW_MIN);
        } else if jobs.coming.len() < ROWS_TARGET / 4 {
            self.window = (self.window * 2).min(self.window_max);
        }
        // If the clock was set forward meanwhile, the jobs that became due by that were not read.
        let expected = asked.saturating_add(ended.saturating_sub(began));
        self.at = now.min(expected).saturating_add(self.window / 2);
    }
}

/// Jobs that are due, or will be within the window of a load.
#[derive(Default)]
struct DueJobs {
    overdue: Vec<Due>,
    coming: Vec<Due>,
    /// Whether there are more.
    is_truncated: bool,
}

impl DueJobs {
    /// Reads the backlog, other overdue jobs, and coming ones with a limit for each, so that a backlog
    /// of any size does not keep other jobs out of the timetable.
    async fn read(
        store: &dyn EngineStore,
        (now, until): (Instant, Instant),
        (overdue_max, coming_max): (usize, usize),
    ) -> Result<DueJobs, StoreError> {
        let backlog_until = earlier(now, BACKLOG_AGE);
        let backlog = store.due(backlog_until, overdue_max).await?;
        let later = backlog_until.saturating_add(TICK);
        let recent = store.due_between(later, now, overdue_max).await?;
        let coming = store.due_between(now.saturating_add(TICK), until, coming_max).await?;
        let is_truncated = backlog.len() >= overdue_max
            || recent.len() >= overdue_max
            || coming.len() >= coming_max;
        Ok(DueJobs { overdue: [backlog, recent].concat(), coming, is_truncated })
    }
}

/// Rows of a load.
pub(super) struct LoadedRows {
    jobs: DueJobs,
    runs: Vec<OpenRun>,
    parked: Vec<ParkedRuns>,
    /// Read before the others: while it holds, they are empty.
    pause: Option<PauseRecord>,
}

impl Scheduler {
    pub(super) fn load(&mut self, now: Instant) {
        let elapsed = self.services.clock.uptime();
        let is_running_low =
            self.load_schedule.is_truncated && self.timetable.ready_jobs() < OVERDUE_MAX / 4;
        let is_time = self.load_schedule.next(elapsed, now).is_some_and(|at| at <= now);
        if self.calls.loading || !(is_time || is_running_low) {
            return;
        }
        self.calls.loading = true;
        self.load_schedule.nudged = false;
        let until = now.saturating_add(self.load_schedule.window);
        let (store, clock) = (Arc::clone(&self.services.store), self.store_clock.clone());
        self.store_calls.push(Box::pin(async move {
            let rows = async {
                if let Some(clock) = clock {
                    clock.synchronize(&*store).await?;
                }
                let pause = store.pause().await?;
                let limits = (OVERDUE_MAX, COMING_MAX);
                let jobs = DueJobs::read(&*store, (now, until), limits).await?;
                let runs = store.claimable(until, TIMETABLE_MAX).await?;
                let parked = store.parked_keys(PARKED_KEYS_MAX).await?;
                Ok(LoadedRows { jobs, runs, parked, pause })
            };
            StoreResponse::Loaded { asked: now, began: elapsed, rows: rows.await }
        }));
    }

    pub(super) fn handle_load(
        &mut self,
        (asked, began): (Instant, Duration),
        rows: Result<LoadedRows, StoreError>,
    ) {
        self.calls.loading = false;
        let Ok(LoadedRows { jobs, runs, parked, pause }) = rows else {
            return self.pause_store_calls(CallKind::Read);
        };
        let now = self.now();
        self.outage.call_succeeded(CallKind::Read, now);
        let uptimes = (began, self.services.clock.uptime());
        self.load_schedule.finished((asked, now), uptimes, &jobs);
        self.observe_pause(pause, now);
        self.retry_unreadable_jobs();
        self.add_parked_keys(&parked);
        self.waiting_jobs.clear();
        self.add_to_timetable(jobs.overdue.into_iter().chain(jobs.coming), runs);
        self.timetable.collect_ready(now);
    }

    /// Adds jobs and runs that this node does not work on.
    pub(super) fn add_to_timetable(
        &mut self,
        jobs: impl IntoIterator<Item = Due>,
        runs: Vec<OpenRun>,
    ) {
        for due in jobs {
            if !self.busy_jobs.contains(&due.on.job) && !self.unreadable.contains(due.on.job) {
                self.timetable.add_job(due);
            }
        }
        for run in runs {
            if !self.busy_runs.contains(&run.id)
                && !self.held_claims.contains_key(&run.id)
                && !self.unreadable.contains(run.job)
            {
                self.timetable.add_run(run);
            }
        }
    }

    /// Reads the state of jobs that changed after they were loaded, so that their next occurrence
    /// does not wait for the next load.
    pub(super) fn reload_changed_jobs(&mut self) {
        if self.calls.reloading || self.changed_jobs.is_empty() {
            return;
        }
        self.calls.reloading = true;
        let count = self.changed_jobs.len().min(BATCH_MAX);
        let changed: Vec<_> = self.changed_jobs.drain(..count).collect();
        let store = Arc::clone(&self.services.store);
        self.store_calls.push(Box::pin(async move {
            let states = store.gate_states(changed.iter().map(|due| due.on.job).collect()).await;
            StoreResponse::Reloaded { changed, states }
        }));
    }

    pub(super) fn handle_reload(
        &mut self,
        changed: Vec<Due>,
        states: Result<Vec<Option<GateState>>, StoreError>,
    ) {
        self.calls.reloading = false;
        let Ok(states) = states else { return self.pause_store_calls(CallKind::Read) };
        let now = self.now();
        let until = now.saturating_add(self.load_schedule.window);
        for (Due { on: DueJob { job, .. }, collection }, state) in changed.into_iter().zip(states) {
            let Some(gate_state) = state else { continue };
            let GateState { generation, switch, collection: collection_switch, state, .. } =
                gate_state;
            let is_active = (state.lifecycle, switch, collection_switch)
                == (Lifecycle::Active, Switch::Enabled, Switch::Enabled)
                && !gate_state.is_paused(now);
            let due = state.due.filter(|&due| is_active && due <= until);
            if let Some(due) = due
                && !self.busy_jobs.contains(&job)
            {
                self.timetable.add_job(Due { on: DueJob { job, generation, due }, collection });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kalends_store::record::{CollectionKey, JobKey};

    use super::*;

    const WINDOW_MAX: Duration = Duration::from_secs(20);

    fn due_at(due: Instant) -> Due {
        let on = DueJob { job: JobKey(1), generation: 1, due };
        Due { on, collection: CollectionKey(1) }
    }

    #[test]
    fn the_window_shrinks_with_many_rows_and_grows_with_few() {
        let now = Instant::MIN;
        let mut loads = LoadSchedule::new(now, WINDOW_MAX);
        let took = (Duration::ZERO, Duration::from_millis(1));
        let due: Due = due_at(now);
        let mut window_after = |coming| {
            let jobs = DueJobs { coming: vec![due; coming], ..DueJobs::default() };
            loads.finished((now, now), took, &jobs);
            loads.window
        };
        assert_eq!(window_after(5_000), WINDOW_MAX);
        assert_eq!(window_after(20_000), WINDOW_MAX / 2);
        assert_eq!((0..9).map(|_| window_after(20_000)).last(), Some(WINDOW_MIN));
        assert_eq!((0..9).map(|_| window_after(0)).last(), Some(WINDOW_MAX));
    }

    #[test]
    fn edits_load_at_once_but_loads_take_only_a_fraction_of_the_time() {
        let now: Instant = "2026-01-01".parse().unwrap();
        let seconds = Duration::from_secs;
        let mut loads = LoadSchedule::new(now, WINDOW_MAX);
        let began = earlier(now, seconds(1));
        loads.finished((began, now), (seconds(100), seconds(101)), &DueJobs::default());
        let later = now.saturating_add(seconds(10));
        assert_eq!(loads.next(seconds(101), now), Some(later));
        loads.nudged();
        assert_eq!(loads.next(seconds(101), now), Some(now.saturating_add(seconds(4))));
        assert_eq!(loads.next(seconds(106), now), Some(now));
    }

    #[test]
    fn a_load_during_which_the_clock_was_set_is_repeated_soon() {
        let now: Instant = "2026-01-01".parse().unwrap();
        let seconds = Duration::from_secs;
        let next_after = |asked, now| {
            let mut loads = LoadSchedule::new(asked, WINDOW_MAX);
            loads.finished((asked, now), (seconds(100), seconds(101)), &DueJobs::default());
            loads.next(seconds(101), now)
        };
        let (later, soon) = (now.saturating_add(seconds(60)), now.saturating_add(seconds(11)));
        assert_eq!(next_after(now, later), Some(soon), "in the past: at once");
        assert_eq!(next_after(later, now), Some(now.saturating_add(seconds(10))));
    }
}
