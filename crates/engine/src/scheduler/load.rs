//! Loading what is due soon. AssignmentResult far ahead depends on how much there is: a load should be over in
//! milliseconds, however many jobs there are.

use std::sync::Arc;
use std::time::Duration;

use kalends_recurrence::Instant;
use kalends_store::record::OpenRun;
use kalends_store::{Due, StoreError};

use super::Scheduler;
use super::store_calls::StoreResponse;
use crate::timetable::TIMETABLE_MAX;

/// LoadSchedule reach at least so far ahead, and are made twice as often.
const REACH_MIN: Duration = Duration::from_secs(1);
/// A load that finds more reaches less far the next time.
const ROWS_AIM: usize = 10_000;
/// Edits make loads take up at most one part in so many of the time.
const NUDGED_SHARE: u32 = 5;

/// When to load, and how far ahead.
pub(super) struct LoadSchedule {
    at: Instant,
    reach: Duration,
    reach_max: Duration,
    /// Something was edited.
    nudged: bool,
    /// When the last one began and ended, as time that has passed.
    last: (Duration, Duration),
    /// The last one found more than it could take.
    is_cut: bool,
}

impl LoadSchedule {
    pub(super) fn new(now: Instant, reach_max: Duration) -> LoadSchedule {
        let last = (Duration::ZERO, Duration::ZERO);
        LoadSchedule { at: now, reach: reach_max, reach_max, nudged: false, last, is_cut: false }
    }

    pub(super) fn at_once(&mut self, now: Instant) {
        self.at = now;
    }

    /// Whether the last one found more than it could take.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether one was begun after a moment, and is over.
    pub(super) fn has_loaded_since(&self, moment: Duration) -> bool {
        self.last.0 > moment
    }

    pub(super) fn nudged(&mut self) {
        self.nudged = true;
    }

    /// When to load next.
    pub(super) fn next(&self, elapsed: Duration, now: Instant) -> Option<Instant> {
        let (began, ended) = self.last;
        let rested = ended + (ended - began) * (NUDGED_SHARE - 1);
        let nudged = self.nudged.then(|| now.saturating_add(rested.saturating_sub(elapsed)));
        nudged.into_iter().chain([self.at]).min()
    }

    fn done(&mut self, now: Instant, (began, ended): (Duration, Duration), rows: usize) {
        self.last = (began, ended.max(began));
        self.is_cut = rows >= TIMETABLE_MAX;
        if rows > ROWS_AIM {
            self.reach = (self.reach / 2).max(REACH_MIN);
        } else if rows < ROWS_AIM / 4 {
            self.reach = (self.reach * 2).min(self.reach_max);
        }
        self.at = now.saturating_add(self.reach / 2);
    }
}

/// What a load found.
pub(super) struct LoadedRows {
    jobs: Vec<Due>,
    runs: Vec<OpenRun>,
}

impl Scheduler {
    pub(super) fn load(&mut self, now: Instant) {
        let elapsed = self.services.clock.uptime();
        let runs_low = self.load_schedule.is_cut && self.timetable.jobs() < TIMETABLE_MAX / 4;
        let is_time = self.load_schedule.next(elapsed, now).is_some_and(|at| at <= now);
        if self.calls.loading || !(is_time || runs_low) {
            return;
        }
        self.calls.loading = true;
        self.load_schedule.nudged = false;
        let until = now.saturating_add(self.load_schedule.reach);
        let (store, clock) = (Arc::clone(&self.services.store), self.store_clock.clone());
        self.store_calls.push(Box::pin(async move {
            let found = async {
                if let Some(clock) = clock {
                    clock.ask(&*store).await?;
                }
                let jobs = store.due(until, TIMETABLE_MAX).await?;
                Ok(LoadedRows { jobs, runs: store.claimable(until, TIMETABLE_MAX).await? })
            };
            StoreResponse::Loaded { began: elapsed, found: found.await }
        }));
    }

    pub(super) fn handle_load(&mut self, began: Duration, found: Result<LoadedRows, StoreError>) {
        self.calls.loading = false;
        let Ok(LoadedRows { jobs, runs }) = found else { return self.pause_store_calls() };
        let now = self.now();
        self.outage.store_responded(now);
        self.load_schedule.done(now, (began, self.services.clock.uptime()), jobs.len());
        for due in jobs {
            if !self.busy_jobs.contains(&due.on.job) {
                self.timetable.add_job(due);
            }
        }
        for run in runs {
            if !self.busy_runs.contains(&run.id) && !self.held_claims.contains_key(&run.id) {
                self.timetable.add_run(run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REACH_MAX: Duration = Duration::from_secs(20);

    #[test]
    fn much_to_load_makes_loads_shorter_and_little_makes_them_reach_further() {
        let now = Instant::MIN;
        let mut loads = LoadSchedule::new(now, REACH_MAX);
        let took = (Duration::ZERO, Duration::from_millis(1));
        let mut reach_after = |rows| {
            loads.done(now, took, rows);
            loads.reach
        };
        assert_eq!(reach_after(5_000), REACH_MAX);
        assert_eq!(reach_after(20_000), REACH_MAX / 2);
        assert_eq!((0..9).map(|_| reach_after(20_000)).last(), Some(REACH_MIN));
        assert_eq!((0..9).map(|_| reach_after(0)).last(), Some(REACH_MAX));
    }

    #[test]
    fn edits_are_looked_at_at_once_but_loads_take_up_a_part_of_the_time_only() {
        let now: Instant = "2026-01-01".parse().unwrap();
        let seconds = Duration::from_secs;
        let mut loads = LoadSchedule::new(now, REACH_MAX);
        loads.done(now, (seconds(100), seconds(101)), 0);
        let later = now.saturating_add(seconds(10));
        assert_eq!(loads.next(seconds(101), now), Some(later));
        loads.nudged();
        assert_eq!(loads.next(seconds(101), now), Some(now.saturating_add(seconds(4))));
        assert_eq!(loads.next(seconds(106), now), Some(now));
    }
}
