//! Reads over all jobs: overview, search, runs.

use super::*;

impl OverviewStore for SqliteStore {
    fn collection_summaries(
        &self,
        scope: AccessScope,
        from: Bound<CollectionPath>,
        limit: usize,
    ) -> Reply<'_, Vec<CollectionSummary>> {
        self.read(move |snapshot, _| {
            overview::collection_summaries(snapshot.connection(), &scope, &from, limit)
        })
    }

    fn search_jobs(&self, search: JobSearch) -> Reply<'_, JobSearchPage> {
        self.read(move |snapshot, _| overview::search_jobs(snapshot, &search))
    }

    fn jobs_by_key(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<JobRecord>> {
        self.read(move |snapshot, codec| overview::jobs_by_key(snapshot, codec, &jobs))
    }

    fn jobs_of_set(&self, set: JobSet, limit: usize) -> Reply<'_, Option<Vec<JobMatch>>> {
        self.read(move |snapshot, _| overview::jobs_of_set(snapshot, set, limit))
    }

    fn states_by_key(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<JobSummary>> {
        self.read(move |snapshot, _| overview::states_by_key(snapshot, &jobs))
    }

    fn job_paths(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<(JobKey, JobPath)>> {
        self.read(move |snapshot, _| overview::job_paths(snapshot.connection(), &jobs))
    }

    fn scan_states(&self, after: Option<JobKey>, limit: usize) -> Reply<'_, StatesPage> {
        let after = after.unwrap_or(JobKey(i64::MIN));
        self.read(move |snapshot, _| overview_scan::scan_states(snapshot, after, limit))
    }

    fn newest_job(&self) -> Reply<'_, JobKey> {
        self.read(|snapshot, _| overview_scan::newest_job(snapshot.connection()))
    }

    fn scan_texts(&self, from: TextsFrom, limit: usize) -> Reply<'_, TextsPage> {
        self.read(move |snapshot, _| overview_scan::scan_texts(snapshot.connection(), &from, limit))
    }

    fn scan_schedules(
        &self,
        after: Option<JobKey>,
        due_before: Instant,
        limit: usize,
    ) -> Reply<'_, SchedulesPage> {
        let from = (after.unwrap_or(JobKey(i64::MIN)), due_before);
        self.read(move |snapshot, codec| {
            overview_scan::scan_schedules(snapshot, codec, from, limit)
        })
    }
}

impl RunReports for SqliteStore {
    fn newest_runs(&self, jobs: Vec<JobKey>, limit: usize) -> Reply<'_, Vec<NewestRuns>> {
        self.read(move |snapshot, _| run_reports::newest_runs(snapshot, &jobs, limit))
    }

    fn listed_open_runs(&self, query: OpenRunsQuery) -> Reply<'_, OpenRunsPage> {
        self.read(move |snapshot, _| run_reports::open_runs(snapshot, &query))
    }

    fn open_run_count(&self, scopes: Vec<AccessScope>, scan_max: usize) -> Reply<'_, OpenRunCount> {
        self.read(move |snapshot, _| run_reports::open_run_count(snapshot, &scopes, scan_max))
    }

    fn listed_closed_runs(&self, query: ClosedRunsQuery) -> Reply<'_, ClosedRunsPage> {
        self.read(move |snapshot, _| run_reports::closed_runs(snapshot, &query))
    }

    fn run_counts(
        &self,
        scopes: Vec<AccessScope>,
        from: Instant,
        to: Instant,
    ) -> Reply<'_, Vec<(Instant, RunCounts)>> {
        self.read(move |snapshot, _| run_counts::read(snapshot.connection(), &scopes, from, to))
    }
}
