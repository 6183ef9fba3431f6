//! What is due soon. It decides nothing and waits for nothing: instants go in, what has come due
//! comes out.
//!
//! It holds a bounded part of what the store knows. Losing it costs nothing but the time to load it
//! again.

use std::collections::BTreeMap;

use kalends_recurrence::Instant;
use kalends_store::DueJob;
use kalends_store::record::{JobKey, OpenRun, RunId};

/// What is due soon, in the order of its instants.
#[derive(Debug, Default)]
pub(crate) struct Timetable {
    jobs: BTreeMap<(Instant, JobKey), DueJob>,
    runs: BTreeMap<(Instant, RunId), OpenRun>,
}

impl Timetable {
    /// What is known from the store takes the place of what was known before.
    pub(crate) fn load(&mut self, jobs: Vec<DueJob>, runs: Vec<OpenRun>) {
        self.jobs = jobs.into_iter().map(|job| ((job.due, job.job), job)).collect();
        self.runs = runs.into_iter().map(|run| ((run.progress.next_at, run.id), run)).collect();
    }

    pub(crate) fn add_job(&mut self, job: DueJob) {
        self.jobs.insert((job.due, job.job), job);
    }

    pub(crate) fn add_run(&mut self, run: OpenRun) {
        self.runs.insert((run.progress.next_at, run.id), run);
    }

    /// When the next of all is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        let job = self.jobs.keys().next().map(|(at, _)| *at);
        let run = self.runs.keys().next().map(|(at, _)| *at);
        job.into_iter().chain(run).min()
    }

    /// Takes jobs that are due at or before an instant, the earliest first.
    pub(crate) fn take_jobs(&mut self, until: Instant, limit: usize) -> Vec<DueJob> {
        take(&mut self.jobs, until, limit)
    }

    /// Takes runs whose next attempt is due at or before an instant, the earliest first.
    pub(crate) fn take_runs(&mut self, until: Instant, limit: usize) -> Vec<OpenRun> {
        take(&mut self.runs, until, limit)
    }
}

fn take<K: Ord + Copy, V>(
    map: &mut BTreeMap<(Instant, K), V>,
    until: Instant,
    limit: usize,
) -> Vec<V> {
    let mut taken = Vec::new();
    while taken.len() < limit {
        match map.first_entry() {
            Some(entry) if entry.key().0 <= until => taken.push(entry.remove()),
            _ => break,
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(due: &str, key: i64) -> DueJob {
        DueJob { job: JobKey(key), generation: 1, due: due.parse().unwrap() }
    }

    #[test]
    fn what_is_due_comes_out_in_order_and_once() {
        let mut timetable = Timetable::default();
        timetable.load(vec![job("2026-01-02", 1), job("2026-01-01", 2)], vec![]);
        timetable.add_job(job("2026-01-03", 3));
        timetable.add_job(job("2026-01-03", 3));
        assert_eq!(timetable.next(), Some("2026-01-01".parse().unwrap()));
        let until = |text: &str| text.parse().unwrap();
        assert_eq!(timetable.take_jobs(until("2026-01-02"), 1), [job("2026-01-01", 2)]);
        assert_eq!(timetable.take_jobs(until("2026-01-02"), 9), [job("2026-01-02", 1)]);
        assert_eq!(timetable.take_jobs(until("2026-01-02"), 9), []);
        assert_eq!(timetable.take_jobs(until("2027-01-01"), 9), [job("2026-01-03", 3)]);
        assert_eq!(timetable.next(), None);
    }
}
