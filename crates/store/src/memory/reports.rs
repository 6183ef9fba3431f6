//! Reads over all jobs: overview, search, runs.

use super::*;

impl OverviewStore for MemoryStore {
    fn collection_summaries(
        &self,
        scope: AccessScope,
        from: Bound<CollectionPath>,
        limit: usize,
    ) -> Reply<'_, Vec<CollectionSummary>> {
        ready(Ok(self.tables().collection_summaries(&scope, from, limit)))
    }

    fn search_jobs(&self, search: JobSearch) -> Reply<'_, JobSearchPage> {
        ready(Ok(self.tables().search_jobs(&search)))
    }

    fn jobs_by_key(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<JobRecord>> {
        ready(Ok(self.tables().jobs_by_key(&jobs)))
    }

    fn jobs_of_set(&self, set: JobSet, limit: usize) -> Reply<'_, Option<Vec<JobMatch>>> {
        ready(Ok(self.tables().jobs_of_set(set, limit)))
    }

    fn states_by_key(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<JobSummary>> {
        ready(Ok(self.tables().states_by_key(&jobs)))
    }

    fn job_paths(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<(JobKey, JobPath)>> {
        let tables = self.tables();
        let path = |key: &JobKey| Some((*key, tables.job(*key)?.record.path.clone()));
        ready(Ok(jobs.iter().filter_map(path).collect()))
    }

    fn scan_states(&self, after: Option<JobKey>, limit: usize) -> Reply<'_, StatesPage> {
        ready(Ok(self.tables().scan_states(after, limit)))
    }

    fn newest_job(&self) -> Reply<'_, JobKey> {
        ready(Ok(self.tables().newest_job()))
    }

    fn scan_texts(&self, from: TextsFrom, limit: usize) -> Reply<'_, TextsPage> {
        ready(Ok(self.tables().scan_texts(&from, limit)))
    }

    fn scan_schedules(
        &self,
        after: Option<JobKey>,
        due_before: Instant,
        limit: usize,
    ) -> Reply<'_, SchedulesPage> {
        ready(Ok(self.tables().scan_schedules(after, due_before, limit)))
    }
}

impl RunReports for MemoryStore {
    fn newest_runs(&self, jobs: Vec<JobKey>, limit: usize) -> Reply<'_, Vec<NewestRuns>> {
        let tables = self.tables();
        ready(Ok(jobs.iter().map(|job| tables.newest_runs(*job, limit)).collect()))
    }

    fn listed_open_runs(&self, query: OpenRunsQuery) -> Reply<'_, OpenRunsPage> {
        ready(Ok(self.tables().listed_open_runs(&query)))
    }

    fn open_run_count(&self, scopes: Vec<AccessScope>, scan_max: usize) -> Reply<'_, OpenRunCount> {
        ready(Ok(self.tables().open_run_count(&scopes, scan_max)))
    }

    fn listed_closed_runs(&self, query: ClosedRunsQuery) -> Reply<'_, ClosedRunsPage> {
        ready(Ok(self.tables().listed_closed_runs(&query)))
    }

    fn run_counts(
        &self,
        scopes: Vec<AccessScope>,
        from: Instant,
        to: Instant,
    ) -> Reply<'_, Vec<(Instant, RunCounts)>> {
        ready(Ok(self.tables().read_run_counts(&scopes, from, to)))
    }
}
