//! An in-memory, bounded cache of the jobs and runs that are due soon. It yields due entries in order
//! of time, round-robin over collections. It can be rebuilt from the store at any time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use foldhash::HashMap;
use kalends_recurrence::Instant;
use kalends_store::record::{CollectionKey, JobKey, OpenRun, RunId};
use kalends_store::{Due, DueJob};

/// Maximum number of jobs, and of runs. Later loads find the rest.
pub(crate) const TIMETABLE_MAX: usize = 50_000;

/// Jobs and runs that are due soon, ordered by time.
#[derive(Debug, Default)]
pub(crate) struct Timetable {
    /// Due time and generation of each job in the timetable; a job has at most one entry.
    known: HashMap<JobKey, DueJob>,
    coming: BTreeMap<(Instant, JobKey), Due>,
    /// Jobs that are due, by collection.
    ready: BTreeMap<CollectionKey, VecDeque<Due>>,
    /// The collection that was served last.
    turn: Option<CollectionKey>,
    runs: BTreeMap<(Instant, RunId), OpenRun>,
    known_runs: HashMap<RunId, Instant>,
}

impl Timetable {
    /// Adds a job or updates its due time and generation. An entry of an earlier generation than
    /// the known one is outdated: a load or a commit that preceded an edit ended after it.
    pub(crate) fn add_job(&mut self, due: Due) {
        let DueJob { job, due: at, generation } = due.on;
        if let Some(known) = self.known.get(&job) {
            if *known == due.on || known.generation > generation {
                return;
            }
            // An outdated entry in `ready` is dropped when its collection is served.
            self.coming.remove(&(known.due, job));
        }
        self.known.insert(job, due.on);
        self.coming.insert((at, job), due);
        if self.coming.len() > TIMETABLE_MAX
            && let Some(((_, last), _)) = self.coming.pop_last()
        {
            self.known.remove(&last);
        }
    }

    /// Adds a run or updates the time of its next attempt.
    pub(crate) fn add_run(&mut self, run: OpenRun) {
        self.add_run_not_before(run, run.progress.next_at);
    }

    /// Adds a run whose next attempt starts at its time, but not before `not_before`.
    pub(crate) fn add_run_not_before(&mut self, run: OpenRun, not_before: Instant) {
        let at = run.progress.next_at.max(not_before);
        if let Some(known) = self.known_runs.insert(run.id, at) {
            self.runs.remove(&(known, run.id));
        }
        self.runs.insert((at, run.id), run);
        if self.runs.len() > TIMETABLE_MAX
            && let Some(((_, last), _)) = self.runs.pop_last()
        {
            self.known_runs.remove(&last);
        }
    }

    /// Number of jobs in the timetable.
    pub(crate) fn jobs(&self) -> usize {
        self.known.len()
    }

    /// Number of jobs that were due when [`Timetable::collect_ready`] was called last.
    pub(crate) fn ready_jobs(&self) -> usize {
        self.known.len() - self.coming.len()
    }

    /// Moves the jobs that are due at or before `until` to the queues of their collections.
    pub(crate) fn collect_ready(&mut self, until: Instant) {
        while let Some(entry) = self.coming.first_entry().filter(|entry| entry.key().0 <= until) {
            let due = entry.remove();
            self.ready.entry(due.collection).or_default().push_back(due);
        }
    }

    /// Whether the timetable has a job.
    pub(crate) fn has_job(&self, job: JobKey) -> bool {
        self.known.contains_key(&job)
    }

    /// Whether the timetable has a run.
    pub(crate) fn has_run(&self, run: RunId) -> bool {
        self.known_runs.contains_key(&run)
    }

    /// Whether entries may have been dropped because of the limit.
    pub(crate) fn is_full(&self) -> bool {
        self.coming.len() >= TIMETABLE_MAX || self.runs.len() >= TIMETABLE_MAX
    }

    /// Time of the next job or run that is not yet due.
    pub(crate) fn next(&self) -> Option<Instant> {
        let job = self.coming.keys().next().map(|(at, _)| *at);
        let run = self.runs.keys().next().map(|(at, _)| *at);
        job.into_iter().chain(run).min()
    }

    /// Whether a job or run is due at or before `until`.
    pub(crate) fn has_until(&self, until: Instant) -> bool {
        !self.ready.is_empty() || self.next().is_some_and(|next| next <= until)
    }

    /// Removes and returns jobs that are due at or before `until`, round-robin over the collections
    /// that `is_admitted` accepts, earliest first within a collection.
    pub(crate) fn take_jobs(
        &mut self,
        until: Instant,
        limit: usize,
        is_admitted: impl Fn(CollectionKey) -> bool,
    ) -> Vec<Due> {
        self.collect_ready(until);
        let mut taken = Vec::new();
        let mut waiting: BTreeSet<_> =
            self.ready.keys().copied().filter(|&key| is_admitted(key)).collect();
        while taken.len() < limit {
            let after = self.turn.map_or(Bound::Unbounded, Bound::Excluded);
            let next = waiting.range((after, Bound::Unbounded)).next().or(waiting.first());
            let Some(&collection) = next else { break };
            self.turn = Some(collection);
            match self.ready.get_mut(&collection).and_then(VecDeque::pop_front) {
                Some(due) => {
                    if self.known.get(&due.on.job) == Some(&due.on) {
                        self.known.remove(&due.on.job);
                        taken.push(due);
                    }
                }
                None => {
                    self.ready.remove(&collection);
                    waiting.remove(&collection);
                }
            }
        }
        self.ready.retain(|_, jobs| !jobs.is_empty());
        taken
    }

    /// Removes and returns runs whose next attempt is due at or before `until`, earliest first.
    pub(crate) fn take_runs(&mut self, until: Instant, limit: usize) -> Vec<OpenRun> {
        let mut taken = Vec::new();
        while taken.len() < limit
            && let Some(entry) = self.runs.first_entry().filter(|entry| entry.key().0 <= until)
        {
            let run = entry.remove();
            self.known_runs.remove(&run.id);
            taken.push(run);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(due: &str, key: i64, collection: i64) -> Due {
        let on = DueJob { job: JobKey(key), generation: 1, due: due.parse().unwrap() };
        Due { on, collection: CollectionKey(collection) }
    }

    fn take(timetable: &mut Timetable, until: &str, limit: usize) -> Vec<i64> {
        let taken = timetable.take_jobs(until.parse().unwrap(), limit, |_| true);
        taken.into_iter().map(|due| due.on.job.0).collect()
    }

    #[test]
    fn due_jobs_are_taken_once_in_order_of_time() {
        let mut timetable = Timetable::default();
        for due in [job("2026-01-02", 1, 1), job("2026-01-01", 2, 1), job("2026-01-03", 3, 1)] {
            timetable.add_job(due);
            timetable.add_job(due);
        }
        assert_eq!(timetable.next(), Some("2026-01-01".parse().unwrap()));
        assert_eq!(take(&mut timetable, "2026-01-02", 1), [2]);
        assert_eq!(timetable.next(), Some("2026-01-03".parse().unwrap()));
        assert_eq!(take(&mut timetable, "2026-01-02", 9), [1]);
        assert_eq!(take(&mut timetable, "2026-01-02", 9), [0; 0]);
        assert_eq!(take(&mut timetable, "2027-01-01", 9), [3]);
        assert_eq!((timetable.next(), timetable.jobs()), (None, 0));
    }

    #[test]
    fn a_job_has_one_entry_with_its_latest_due_time() {
        let mut timetable = Timetable::default();
        timetable.add_job(job("2026-01-02", 1, 1));
        timetable.add_job(job("2026-01-05", 1, 1));
        assert_eq!(take(&mut timetable, "2026-01-04", 9), [0; 0]);
        timetable.add_job(job("2026-01-03", 2, 1));
        assert_eq!(take(&mut timetable, "2026-01-04", 0), [0; 0], "both are coming due");
        timetable.add_job(job("2026-01-06", 2, 1));
        assert_eq!(take(&mut timetable, "2026-01-07", 9), [1, 2]);
    }

    #[test]
    fn an_edit_that_keeps_the_due_time_replaces_the_entry() {
        let edited = |key| {
            let Due { on, collection } = job("2026-01-02", key, 1);
            Due { on: DueJob { generation: 2, ..on }, collection }
        };
        let mut timetable = Timetable::default();
        timetable.add_job(job("2026-01-02", 1, 1));
        timetable.add_job(edited(1));
        timetable.add_job(job("2026-01-03", 1, 1));
        timetable.add_job(job("2026-01-02", 2, 1));
        let until = "2026-01-02".parse().unwrap();
        assert_eq!(timetable.take_jobs(until, 0, |_| true), [], "both are due now");
        timetable.add_job(edited(2));
        assert_eq!(timetable.take_jobs(until, 9, |_| true), [edited(1), edited(2)]);
    }

    #[test]
    fn collections_are_served_round_robin_and_a_full_one_blocks_no_other() {
        let mut timetable = Timetable::default();
        (0..5).for_each(|key| timetable.add_job(job("2026-01-01", key, 1)));
        timetable.add_job(job("2026-01-02", 10, 2));
        timetable.add_job(job("2026-01-02", 20, 3));
        assert_eq!(take(&mut timetable, "2026-01-02", 4), [0, 10, 20, 1]);
        timetable.add_job(job("2026-01-02", 11, 2));
        let until = "2026-01-02".parse().unwrap();
        let others = timetable.take_jobs(until, 9, |collection| collection != CollectionKey(1));
        assert_eq!(others.iter().map(|due| due.on.job.0).collect::<Vec<_>>(), [11]);
        assert_eq!(take(&mut timetable, "2026-01-02", 9), [2, 3, 4]);
    }

    #[test]
    fn a_full_timetable_drops_the_latest_entries() {
        let mut timetable = Timetable::default();
        let at = |second: i64| Instant::from_ticks(second * 10_000_000).unwrap();
        for key in 0..=TIMETABLE_MAX as i64 {
            let on = DueJob { job: JobKey(key), generation: 1, due: at(100_000 - key) };
            timetable.add_job(Due { on, collection: CollectionKey(1) });
        }
        assert_eq!(timetable.jobs(), TIMETABLE_MAX);
        let all = timetable.take_jobs(Instant::MAX, usize::MAX, |_| true);
        assert!(all.iter().all(|due| due.on.job != JobKey(0)), "the last one is gone");
    }
}
