//! Runs over all jobs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kalends_domain::{AccessScope, JobPath, LastAttempts};
use kalends_recurrence::Instant;

use crate::memory::tables::Tables;
use crate::record::JobKey;
use crate::run_reports::{
    ALL_COLLECTIONS, ATTEMPT_SCAN_MAX, ClosedRunsPage, ClosedRunsQuery, ListedClosedRun,
    ListedOpenRun, NewestRuns, OpenRunCount, OpenRunsPage, OpenRunsQuery, RunCounts, RunFilter,
    RunPosition, buckets_between, is_in_scopes, start_of_bucket,
};

impl Tables {
    pub(super) fn newest_runs(&self, job: JobKey, limit: usize) -> NewestRuns {
        let rows = self.ledger.get(&job).into_iter().flatten().rev();
        NewestRuns {
            closed: rows.map(|(_, run)| run.into()).take(limit).collect(),
            is_running: self.open_runs(job).iter().any(|run| run.claim.is_some()),
        }
    }

    fn selected_path(&self, filter: &RunFilter, job: JobKey) -> Option<&JobPath> {
        let path = self.paths.get(&job)?;
        let is_selected = filter.job.is_none_or(|wanted| wanted == job)
            && filter.has_collection(&path.collection);
        is_selected.then_some(path)
    }

    pub(super) fn listed_open_runs(&self, query: &OpenRunsQuery) -> OpenRunsPage {
        let OpenRunsQuery { filter, before, scan_max, limit } = query;
        let is_candidate = |id| before.is_none_or(|before| id < before);
        let rows = self.runs.values().rev().filter(|row| {
            is_candidate(row.run.id) && filter.job.is_none_or(|job| job == row.run.job)
        });
        let rows: Vec<_> = rows.collect();
        let mut page = OpenRunsPage::default();
        for (index, row) in rows.iter().enumerate() {
            if let Some(path) = self.selected_path(filter, row.run.job) {
                let (path, run, attempts) = (path.clone(), row.run, row.attempts);
                page.runs.push(ListedOpenRun { path, run, attempts });
            }
            if page.runs.len() >= *limit || index + 1 >= *scan_max {
                page.end = Some(row.run.id);
                break;
            }
        }
        page
    }

    pub(super) fn open_run_count(&self, scopes: &[AccessScope], scan_max: usize) -> OpenRunCount {
        let is_counted = |row: &&crate::run_state::RunRow| {
            let path = self.paths.get(&row.run.job);
            path.is_some_and(|path| is_in_scopes(scopes, &path.collection))
        };
        let newest = self.runs.values().rev().take(scan_max);
        let count = newest.filter(is_counted).count() as u64;
        OpenRunCount { count, more: self.runs.len() >= scan_max }
    }

    pub(super) fn listed_closed_runs(&self, query: &ClosedRunsQuery) -> ClosedRunsPage {
        let ClosedRunsQuery { filter, after, scan_max, limit } = query;
        let rows = self.ledger.iter().flat_map(|(job, rows)| {
            rows.iter().map(move |(number, run)| (Reverse(*number), *job, run))
        });
        let is_candidate = |number| after.is_none_or(|after| number < after.number);
        let mut rows: Vec<_> = rows
            .filter(|(number, job, run)| {
                is_candidate(number.0)
                    && filter.job.is_none_or(|wanted| wanted == *job)
                    && run.record.closed >= filter.from
            })
            .collect();
        rows.sort_by_key(|(number, ..)| *number);
        let mut page = ClosedRunsPage::default();
        for (index, (Reverse(number), job, run)) in rows.into_iter().enumerate() {
            let position = RunPosition::of(number, &run.record);
            if let Some(path) = self.selected_path(filter, job)
                && filter.has_record(&run.record)
            {
                let entries = self.history.get(&job).into_iter().flatten().rev();
                let mut last = LastAttempts::default();
                entries.take(ATTEMPT_SCAN_MAX).for_each(|entry| last.add(run, &entry.entry));
                let (path, run) = (path.clone(), run.clone());
                page.runs.push(ListedClosedRun { path, run, last, position });
            }
            if page.runs.len() >= *limit || index + 1 >= *scan_max {
                page.end = Some(position);
                break;
            }
        }
        page
    }

    pub(super) fn read_run_counts(
        &self,
        scopes: &[AccessScope],
        from: Instant,
        to: Instant,
    ) -> Vec<(Instant, RunCounts)> {
        let collections: Vec<i64> = match scopes.contains(&AccessScope::Everything) {
            true => vec![ALL_COLLECTIONS],
            false => {
                let is_selected = |path: &&kalends_domain::CollectionPath| {
                    let collection = AccessScope::Collection((*path).clone());
                    scopes.iter().any(|scope| scope.covers(&collection))
                };
                let selected = self.collection_keys.iter().filter(|(path, _)| is_selected(path));
                selected.map(|(_, key)| key.0).collect()
            }
        };
        let buckets = buckets_between(from, to);
        let mut sums: BTreeMap<i64, RunCounts> = BTreeMap::new();
        for ((bucket, collection), counts) in &self.run_counts {
            if buckets.contains(bucket) && collections.contains(collection) {
                sums.entry(*bucket).or_default().add(*counts);
            }
        }
        sums.into_iter().map(|(bucket, counts)| (start_of_bucket(bucket), counts)).collect()
    }
}
