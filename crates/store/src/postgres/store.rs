//! Implements the store's traits with the operations of the other modules.

use std::future::Future;
use std::ops::Bound;
use std::sync::Arc;

use kalends_domain::{
    AccessScope, CollectionPath, GroupName, GroupPath, JobName, JobPath, NewNote, NoteRecord,
    SubscriptionId,
};
use kalends_recurrence::Instant;

use crate::api_store::{
    ApiStore, DecideCollection, DecideJob, DecidePause, Edited, EditedJob, HistoryFilter,
    JobFilter, JobsPage, Page, Scope,
};
use crate::engine_store::{
    Due, EngineStore, Heartbeat, JobAt, LeaseRenewal, ParkedRuns, RenewalResult, Retention,
    RunWrite, RunWriteResult,
};
use crate::error::StoreError;
use crate::events::{EventPosition, Events};
use crate::invariant_scan::ScanPage;
use crate::overview_store::{
    CollectionSummary, JobMatch, JobSearch, JobSearchPage, JobSet, JobSummary, OverviewStore,
    SchedulesPage, StatesPage, TextsFrom, TextsPage,
};
use crate::postgres::PostgresStore;
use crate::postgres::check::Check;
use crate::postgres::commit::ExpireClaims;
use crate::postgres::edit_collection::EditCollection;
use crate::postgres::edit_jobs::JobEdit;
use crate::postgres::groups::{DeleteGroup, PutGroup};
use crate::postgres::heartbeat::RecordHeartbeat;
use crate::postgres::pause::EditPause;
use crate::postgres::probe::Probe;
use crate::postgres::renew_leases::RenewLeases;
use crate::record::{
    CollectionRecord, CollectionStatus, EarlierDefinition, GateState, GroupRecord, HistoryRecord,
    JobForRun, JobKey, JobRecord, LedgerRecord, OpenRun, PauseRecord, SlotKey,
};
use crate::run_reports::{
    ClosedRunsPage, ClosedRunsQuery, NewestRuns, OpenRunCount, OpenRunsPage, OpenRunsQuery,
    RunCounts, RunReports,
};
use crate::store::{AdminStore, LeaseClock, PauseState, Reply, StoreHealth, next_due};

impl PostgresStore {
    /// Awaits an edit and notifies all nodes if it succeeded.
    async fn notifying<T>(
        &self,
        edit: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let output = edit.await?;
        self.listener.notify();
        Ok(output)
    }

    /// The rows of a read, or none while a pause holds.
    async fn unless_paused<T>(
        &self,
        read: impl Future<Output = Result<Vec<T>, StoreError>>,
    ) -> Result<Vec<T>, StoreError> {
        match self.read_pause().await? {
            Some(_) => Ok(vec![]),
            None => read.await,
        }
    }
}

impl ApiStore for PostgresStore {
    fn put_group(&self, group: GroupRecord) -> Reply<'_, bool> {
        Box::pin(self.transact(PutGroup(group)))
    }

    fn group(&self, path: GroupPath) -> Reply<'_, Option<GroupRecord>> {
        Box::pin(self.read_group(path))
    }

    fn groups(
        &self,
        subscription: SubscriptionId,
        page: Page<GroupName>,
    ) -> Reply<'_, Vec<GroupRecord>> {
        Box::pin(self.read_groups(subscription, page))
    }

    fn delete_group(&self, path: GroupPath) -> Reply<'_, bool> {
        Box::pin(self.notifying(self.transact(DeleteGroup(path))))
    }

    fn edit_collection_with_note(
        &self,
        path: CollectionPath,
        decide: DecideCollection,
        note: Option<NewNote>,
    ) -> Reply<'_, Edited<CollectionRecord>> {
        Box::pin(self.notifying(self.transact(EditCollection { path, decide, note })))
    }

    fn collection(&self, path: CollectionPath) -> Reply<'_, Option<CollectionRecord>> {
        Box::pin(self.read_collection(path))
    }

    fn collections(
        &self,
        scope: Scope,
        page: Page<CollectionPath>,
    ) -> Reply<'_, Vec<CollectionRecord>> {
        Box::pin(self.read_collections(scope, page))
    }

    fn edit_job_with_note(
        &self,
        path: JobPath,
        decide: DecideJob,
        note: Option<NewNote>,
    ) -> Reply<'_, EditedJob> {
        let JobPath { collection, job } = path;
        Box::pin(Arc::clone(&self.edits).edit(collection, JobEdit { job, decide, note }))
    }

    fn edit_pause_with_note(
        &self,
        decide: DecidePause,
        note: Option<NewNote>,
    ) -> Reply<'_, Option<PauseRecord>> {
        Box::pin(self.notifying(self.transact(EditPause { decide, note })))
    }

    fn notes_of_job(&self, path: JobPath, page: Page<u64>) -> Reply<'_, Option<Vec<NoteRecord>>> {
        Box::pin(self.read_notes_of_job(path, page))
    }

    fn notes_of_collection(
        &self,
        path: CollectionPath,
        page: Page<u64>,
    ) -> Reply<'_, Option<Vec<NoteRecord>>> {
        Box::pin(self.read_notes_of_collection(path, page))
    }

    fn notes(&self, page: Page<u64>) -> Reply<'_, Vec<NoteRecord>> {
        Box::pin(self.read_notes(page))
    }

    fn job(&self, path: JobPath) -> Reply<'_, Option<(JobRecord, CollectionStatus)>> {
        Box::pin(self.read_job(path))
    }

    fn jobs(
        &self,
        path: CollectionPath,
        filter: JobFilter,
        page: Page<JobName>,
        scan_max: usize,
    ) -> Reply<'_, JobsPage> {
        Box::pin(self.read_jobs(path, filter, page, scan_max))
    }

    fn open_runs(&self, job: JobKey) -> Reply<'_, Vec<OpenRun>> {
        Box::pin(self.read_open_runs(job))
    }

    fn history(
        &self,
        path: JobPath,
        filter: HistoryFilter,
        page: Page<u64>,
    ) -> Reply<'_, Option<Vec<HistoryRecord>>> {
        Box::pin(self.read_history(path, filter, page))
    }

    fn events(&self, after: Option<EventPosition>, limit: usize) -> Reply<'_, Events> {
        Box::pin(self.read_events(after, limit))
    }

    fn earlier_definition(
        &self,
        job: JobKey,
        generation: u64,
    ) -> Reply<'_, Option<EarlierDefinition>> {
        Box::pin(self.read_earlier_definition(job, generation))
    }

    fn ledger(
        &self,
        job: JobKey,
        from: Instant,
        to: Instant,
        limit: usize,
    ) -> Reply<'_, Vec<LedgerRecord>> {
        Box::pin(self.read_ledger(job, from, to, limit))
    }
}

impl OverviewStore for PostgresStore {
    fn collection_summaries(
        &self,
        scope: AccessScope,
        from: Bound<CollectionPath>,
        limit: usize,
    ) -> Reply<'_, Vec<CollectionSummary>> {
        Box::pin(self.read_collection_summaries(scope, from, limit))
    }

    fn search_jobs(&self, search: JobSearch) -> Reply<'_, JobSearchPage> {
        Box::pin(self.find_jobs(search))
    }

    fn jobs_by_key(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<JobRecord>> {
        Box::pin(self.read_jobs_by_key(jobs))
    }

    fn jobs_of_set(&self, set: JobSet, limit: usize) -> Reply<'_, Option<Vec<JobMatch>>> {
        Box::pin(self.read_jobs_of_set(set, limit))
    }

    fn states_by_key(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<JobSummary>> {
        Box::pin(self.read_states_by_key(jobs))
    }

    fn job_paths(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<(JobKey, JobPath)>> {
        Box::pin(self.read_job_paths(jobs))
    }

    fn scan_states(&self, after: Option<JobKey>, limit: usize) -> Reply<'_, StatesPage> {
        Box::pin(self.read_states(after, limit))
    }

    fn newest_job(&self) -> Reply<'_, JobKey> {
        Box::pin(self.read_newest_job())
    }

    fn scan_texts(&self, from: TextsFrom, limit: usize) -> Reply<'_, TextsPage> {
        Box::pin(self.read_texts(from, limit))
    }

    fn scan_schedules(
        &self,
        after: Option<JobKey>,
        due_before: Instant,
        limit: usize,
    ) -> Reply<'_, SchedulesPage> {
        Box::pin(self.read_schedules(after, due_before, limit))
    }
}

impl RunReports for PostgresStore {
    fn newest_runs(&self, jobs: Vec<JobKey>, limit: usize) -> Reply<'_, Vec<NewestRuns>> {
        Box::pin(self.read_newest_runs(jobs, limit))
    }

    fn listed_open_runs(&self, query: OpenRunsQuery) -> Reply<'_, OpenRunsPage> {
        Box::pin(self.read_listed_open_runs(query))
    }

    fn open_run_count(&self, scopes: Vec<AccessScope>, scan_max: usize) -> Reply<'_, OpenRunCount> {
        Box::pin(self.read_open_run_count(scopes, scan_max))
    }

    fn listed_closed_runs(&self, query: ClosedRunsQuery) -> Reply<'_, ClosedRunsPage> {
        Box::pin(self.read_listed_closed_runs(query))
    }

    fn run_counts(
        &self,
        scopes: Vec<AccessScope>,
        from: Instant,
        to: Instant,
    ) -> Reply<'_, Vec<(Instant, RunCounts)>> {
        Box::pin(self.read_run_counts(scopes, from, to))
    }
}

impl EngineStore for PostgresStore {
    fn due_between(&self, from: Instant, until: Instant, limit: usize) -> Reply<'_, Vec<Due>> {
        Box::pin(self.unless_paused(self.read_due(from, until, limit)))
    }

    fn jobs_for_run_at(&self, jobs: Vec<JobAt>) -> Reply<'_, Vec<Option<Arc<JobForRun>>>> {
        let jobs = jobs.into_iter().map(|at| at.job).collect();
        Box::pin(self.read_jobs_for_run(jobs))
    }

    fn gate_states(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<GateState>>> {
        Box::pin(self.read_gate_states(jobs))
    }

    fn commit(&self, writes: Vec<RunWrite>) -> Reply<'_, Vec<RunWriteResult>> {
        // A released claim is worth a notification: other nodes take the run over at once.
        let is_release = |write: &RunWrite| matches!(write, RunWrite::RenewLease { lease, .. } if lease.is_zero());
        match writes.iter().any(is_release) {
            true => Box::pin(self.notifying(self.commit_writes(writes))),
            false => Box::pin(self.commit_writes(writes)),
        }
    }

    fn renew_leases(&self, renewals: Vec<LeaseRenewal>) -> Reply<'_, Vec<RenewalResult>> {
        Box::pin(async move {
            let runs: Vec<_> = renewals.iter().map(|renewal| renewal.run).collect();
            let results = self.transact(RenewLeases(renewals)).await;
            self.row_cache.forget_runs(runs.into_iter());
            results
        })
    }

    fn record_heartbeat(&self, heartbeat: Heartbeat) -> Reply<'_, Option<Instant>> {
        Box::pin(self.transact(RecordHeartbeat(heartbeat)))
    }

    fn claimable(&self, until: Instant, limit: usize) -> Reply<'_, Vec<OpenRun>> {
        Box::pin(self.unless_paused(self.read_claimable(until, limit)))
    }

    fn parked(&self, key: SlotKey, limit: usize) -> Reply<'_, Vec<OpenRun>> {
        Box::pin(self.unless_paused(self.read_parked(key, limit)))
    }

    fn parked_keys(&self, limit: usize) -> Reply<'_, Vec<ParkedRuns>> {
        Box::pin(self.read_parked_keys(limit))
    }

    fn expire_claims(&self) -> Reply<'_, usize> {
        Box::pin(self.transact(ExpireClaims))
    }

    fn prune(&self, retention: Retention, now: Instant, limit: usize) -> Reply<'_, usize> {
        Box::pin(self.prune_all(retention, now, limit))
    }

    fn scan_jobs(&self, after: Option<JobKey>, scan_max: usize) -> Reply<'_, ScanPage> {
        Box::pin(self.read_scan_page(after, scan_max))
    }
}

impl LeaseClock for PostgresStore {
    fn now(&self) -> Reply<'_, Instant> {
        Box::pin(self.read_clock())
    }
}

impl PauseState for PostgresStore {
    fn pause(&self) -> Reply<'_, Option<PauseRecord>> {
        Box::pin(self.read_pause())
    }
}

impl StoreHealth for PostgresStore {
    fn probe(&self) -> Reply<'_, ()> {
        Box::pin(self.transact(Probe))
    }

    fn next_due(&self) -> Reply<'_, Option<Instant>> {
        Box::pin(next_due(self))
    }

    fn newest_entry(&self) -> Reply<'_, Option<Instant>> {
        Box::pin(self.read_newest_end())
    }

    fn bytes(&self) -> Reply<'_, u64> {
        Box::pin(self.read_bytes())
    }

    fn stopped(&self) -> Option<StoreError> {
        None
    }
}

impl AdminStore for PostgresStore {
    fn check(&self) -> Reply<'_, Vec<String>> {
        Box::pin(self.transact(Check(&self.codec)))
    }
}
