//! The store as seen from a node: every call passes its [`Link`].

use std::ops::Bound;
use std::sync::Arc;

use kalends_domain::{
    AccessScope, CollectionPath, GroupName, GroupPath, JobName, JobPath, NewNote, NoteRecord,
    SubscriptionId,
};
use kalends_recurrence::Instant;
use kalends_store::record::{
    CollectionRecord, CollectionStatus, EarlierDefinition, GateState, GroupRecord, HistoryRecord,
    JobForRun, JobKey, JobRecord, LedgerRecord, OpenRun, PauseRecord, SlotKey,
};
use kalends_store::{
    AdminStore, ApiStore, ClosedRunsPage, ClosedRunsQuery, CollectionSummary, DecideCollection,
    DecideJob, DecidePause, Due, Edited, EditedJob, EngineStore, EventPosition, Events, Heartbeat,
    HistoryFilter, JobAt, JobFilter, JobMatch, JobSearch, JobSearchPage, JobSet, JobSummary,
    JobsPage, LeaseClock, NewestRuns, OpenRunCount, OpenRunsPage, OpenRunsQuery, OverviewStore,
    Page, ParkedRuns, PauseState, Reply, Retention, RunCounts, RunReports, RunWrite,
    RunWriteResult, ScanPage, SchedulesPage, Scope, StatesPage, TextsFrom, TextsPage,
};

use kalends_store::{SessionHash, SessionRecord, Sessions, TokenId, TokenRecord, Tokens};

use crate::link::{Access, Link};

impl OverviewStore for Link {
    fn collection_summaries(
        &self,
        scope: AccessScope,
        from: Bound<CollectionPath>,
        limit: usize,
    ) -> Reply<'_, Vec<CollectionSummary>> {
        let call = move || self.inner.collection_summaries(scope, from, limit);
        Box::pin(self.call(Access::Read, call))
    }

    fn search_jobs(&self, search: JobSearch) -> Reply<'_, JobSearchPage> {
        Box::pin(self.call(Access::Read, move || self.inner.search_jobs(search)))
    }

    fn jobs_by_key(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<JobRecord>> {
        Box::pin(self.call(Access::Read, move || self.inner.jobs_by_key(jobs)))
    }

    fn jobs_of_set(&self, set: JobSet, limit: usize) -> Reply<'_, Option<Vec<JobMatch>>> {
        Box::pin(self.call(Access::Read, move || self.inner.jobs_of_set(set, limit)))
    }

    fn states_by_key(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<JobSummary>> {
        Box::pin(self.call(Access::Read, move || self.inner.states_by_key(jobs)))
    }

    fn job_paths(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<(JobKey, JobPath)>> {
        Box::pin(self.call(Access::Read, move || self.inner.job_paths(jobs)))
    }

    fn scan_states(&self, after: Option<JobKey>, limit: usize) -> Reply<'_, StatesPage> {
        Box::pin(self.call(Access::Read, move || self.inner.scan_states(after, limit)))
    }

    fn newest_job(&self) -> Reply<'_, JobKey> {
        Box::pin(self.call(Access::Read, move || self.inner.newest_job()))
    }

    fn scan_texts(&self, from: TextsFrom, limit: usize) -> Reply<'_, TextsPage> {
        Box::pin(self.call(Access::Read, move || self.inner.scan_texts(from, limit)))
    }

    fn scan_schedules(
        &self,
        after: Option<JobKey>,
        due_before: Instant,
        limit: usize,
    ) -> Reply<'_, SchedulesPage> {
        let call = move || self.inner.scan_schedules(after, due_before, limit);
        Box::pin(self.call(Access::Read, call))
    }
}

impl ApiStore for Link {
    fn put_group(&self, group: GroupRecord) -> Reply<'_, bool> {
        Box::pin(self.call(Access::Write, move || self.inner.put_group(group)))
    }

    fn group(&self, path: GroupPath) -> Reply<'_, Option<GroupRecord>> {
        Box::pin(self.call(Access::Read, move || self.inner.group(path)))
    }

    fn groups(
        &self,
        subscription: SubscriptionId,
        page: Page<GroupName>,
    ) -> Reply<'_, Vec<GroupRecord>> {
        Box::pin(self.call(Access::Read, move || self.inner.groups(subscription, page)))
    }

    fn delete_group(&self, path: GroupPath) -> Reply<'_, bool> {
        Box::pin(self.call(Access::Write, move || self.inner.delete_group(path)))
    }

    fn edit_collection_with_note(
        &self,
        path: CollectionPath,
        decide: DecideCollection,
        note: Option<NewNote>,
    ) -> Reply<'_, Edited<CollectionRecord>> {
        Box::pin(
            self.call(Access::Write, move || {
                self.inner.edit_collection_with_note(path, decide, note)
            }),
        )
    }

    fn collection(&self, path: CollectionPath) -> Reply<'_, Option<CollectionRecord>> {
        Box::pin(self.call(Access::Read, move || self.inner.collection(path)))
    }

    fn collections(
        &self,
        scope: Scope,
        page: Page<CollectionPath>,
    ) -> Reply<'_, Vec<CollectionRecord>> {
        Box::pin(self.call(Access::Read, move || self.inner.collections(scope, page)))
    }

    fn edit_job_with_note(
        &self,
        path: JobPath,
        decide: DecideJob,
        note: Option<NewNote>,
    ) -> Reply<'_, EditedJob> {
        Box::pin(
            self.call(Access::Write, move || self.inner.edit_job_with_note(path, decide, note)),
        )
    }

    fn notes_of_job(&self, path: JobPath, page: Page<u64>) -> Reply<'_, Option<Vec<NoteRecord>>> {
        Box::pin(self.call(Access::Read, move || self.inner.notes_of_job(path, page)))
    }

    fn notes_of_collection(
        &self,
        path: CollectionPath,
        page: Page<u64>,
    ) -> Reply<'_, Option<Vec<NoteRecord>>> {
        Box::pin(self.call(Access::Read, move || self.inner.notes_of_collection(path, page)))
    }

    fn notes(&self, page: Page<u64>) -> Reply<'_, Vec<NoteRecord>> {
        Box::pin(self.call(Access::Read, move || self.inner.notes(page)))
    }

    fn edit_pause_with_note(
        &self,
        decide: DecidePause,
        note: Option<NewNote>,
    ) -> Reply<'_, Option<PauseRecord>> {
        Box::pin(self.call(Access::Write, move || self.inner.edit_pause_with_note(decide, note)))
    }

    fn job(&self, path: JobPath) -> Reply<'_, Option<(JobRecord, CollectionStatus)>> {
        Box::pin(self.call(Access::Read, move || self.inner.job(path)))
    }

    fn jobs(
        &self,
        path: CollectionPath,
        filter: JobFilter,
        page: Page<JobName>,
        scan_max: usize,
    ) -> Reply<'_, JobsPage> {
        Box::pin(self.call(Access::Read, move || self.inner.jobs(path, filter, page, scan_max)))
    }

    fn open_runs(&self, job: JobKey) -> Reply<'_, Vec<OpenRun>> {
        Box::pin(self.call(Access::Read, move || self.inner.open_runs(job)))
    }

    fn history(
        &self,
        path: JobPath,
        filter: HistoryFilter,
        page: Page<u64>,
    ) -> Reply<'_, Option<Vec<HistoryRecord>>> {
        Box::pin(self.call(Access::Read, move || self.inner.history(path, filter, page)))
    }

    fn events(&self, after: Option<EventPosition>, limit: usize) -> Reply<'_, Events> {
        Box::pin(self.call(Access::Read, move || self.inner.events(after, limit)))
    }

    fn earlier_definition(
        &self,
        job: JobKey,
        generation: u64,
    ) -> Reply<'_, Option<EarlierDefinition>> {
        Box::pin(self.call(Access::Read, move || self.inner.earlier_definition(job, generation)))
    }

    fn ledger(
        &self,
        job: JobKey,
        from: Instant,
        to: Instant,
        limit: usize,
    ) -> Reply<'_, Vec<LedgerRecord>> {
        Box::pin(self.call(Access::Read, move || self.inner.ledger(job, from, to, limit)))
    }
}

impl RunReports for Link {
    fn newest_runs(&self, jobs: Vec<JobKey>, limit: usize) -> Reply<'_, Vec<NewestRuns>> {
        Box::pin(self.call(Access::Read, move || self.inner.newest_runs(jobs, limit)))
    }

    fn listed_open_runs(&self, query: OpenRunsQuery) -> Reply<'_, OpenRunsPage> {
        Box::pin(self.call(Access::Read, move || self.inner.listed_open_runs(query)))
    }

    fn open_run_count(&self, scopes: Vec<AccessScope>, scan_max: usize) -> Reply<'_, OpenRunCount> {
        Box::pin(self.call(Access::Read, move || self.inner.open_run_count(scopes, scan_max)))
    }

    fn listed_closed_runs(&self, query: ClosedRunsQuery) -> Reply<'_, ClosedRunsPage> {
        Box::pin(self.call(Access::Read, move || self.inner.listed_closed_runs(query)))
    }

    fn run_counts(
        &self,
        scopes: Vec<AccessScope>,
        from: Instant,
        to: Instant,
    ) -> Reply<'_, Vec<(Instant, RunCounts)>> {
        Box::pin(self.call(Access::Read, move || self.inner.run_counts(scopes, from, to)))
    }
}

impl EngineStore for Link {
    fn due_between(&self, from: Instant, until: Instant, limit: usize) -> Reply<'_, Vec<Due>> {
        Box::pin(self.call(Access::Read, move || self.inner.due_between(from, until, limit)))
    }

    fn jobs_for_run_at(&self, jobs: Vec<JobAt>) -> Reply<'_, Vec<Option<Arc<JobForRun>>>> {
        Box::pin(self.call(Access::Read, move || self.inner.jobs_for_run_at(jobs)))
    }

    fn gate_states(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<GateState>>> {
        Box::pin(async move {
            let states = self.call(Access::Read, move || self.inner.gate_states(jobs)).await;
            self.hold_gate_states().await;
            states
        })
    }

    fn expire_claims(&self) -> Reply<'_, usize> {
        Box::pin(self.call(Access::Write, move || self.inner.expire_claims()))
    }

    fn commit(&self, writes: Vec<RunWrite>) -> Reply<'_, Vec<RunWriteResult>> {
        Box::pin(async move {
            let sent = writes.clone();
            let send = || async {
                let results = self.inner.commit(writes.clone()).await?;
                self.record_commit(&writes, &results);
                Ok((results, self.recorder.store_clock_offset()))
            };
            let (results, clock_offset) = self.call(Access::Write, send).await?;
            self.record_received_claims(&sent, &results, clock_offset);
            Ok(results)
        })
    }

    fn record_heartbeat(&self, heartbeat: Heartbeat) -> Reply<'_, Option<Instant>> {
        Box::pin(self.call(Access::Write, move || self.inner.record_heartbeat(heartbeat)))
    }

    fn claimable(&self, until: Instant, limit: usize) -> Reply<'_, Vec<OpenRun>> {
        Box::pin(self.call(Access::Read, move || self.inner.claimable(until, limit)))
    }

    fn parked(&self, key: SlotKey, limit: usize) -> Reply<'_, Vec<OpenRun>> {
        Box::pin(self.call(Access::Read, move || self.inner.parked(key, limit)))
    }

    fn parked_keys(&self, limit: usize) -> Reply<'_, Vec<ParkedRuns>> {
        Box::pin(self.call(Access::Read, move || self.inner.parked_keys(limit)))
    }

    fn prune(&self, retention: Retention, now: Instant, limit: usize) -> Reply<'_, usize> {
        Box::pin(self.call(Access::Write, move || self.inner.prune(retention, now, limit)))
    }

    fn scan_jobs(&self, after: Option<JobKey>, scan_max: usize) -> Reply<'_, ScanPage> {
        Box::pin(self.call(Access::Read, move || self.inner.scan_jobs(after, scan_max)))
    }
}

impl LeaseClock for Link {
    fn now(&self) -> Reply<'_, Instant> {
        Box::pin(self.call(Access::Read, move || self.inner.now()))
    }
}

impl PauseState for Link {
    fn pause(&self) -> Reply<'_, Option<PauseRecord>> {
        Box::pin(self.call(Access::Read, move || self.inner.pause()))
    }
}

impl AdminStore for Link {
    fn check(&self) -> Reply<'_, Vec<String>> {
        Box::pin(self.call(Access::Read, move || self.inner.check()))
    }
}

impl Sessions for Link {
    fn put_session(&self, session: SessionRecord) -> Reply<'_, ()> {
        Box::pin(self.call(Access::Write, move || self.inner.put_session(session)))
    }

    fn session(&self, hash: SessionHash) -> Reply<'_, Option<SessionRecord>> {
        Box::pin(self.call(Access::Read, move || self.inner.session(hash)))
    }

    fn delete_session(&self, hash: SessionHash) -> Reply<'_, bool> {
        Box::pin(self.call(Access::Write, move || self.inner.delete_session(hash)))
    }
}

impl Tokens for Link {
    fn put_token(&self, token: TokenRecord) -> Reply<'_, bool> {
        Box::pin(self.call(Access::Write, move || self.inner.put_token(token)))
    }

    fn token(&self, id: TokenId) -> Reply<'_, Option<TokenRecord>> {
        Box::pin(self.call(Access::Read, move || self.inner.token(id)))
    }

    fn tokens(&self) -> Reply<'_, Vec<TokenRecord>> {
        Box::pin(self.call(Access::Read, move || self.inner.tokens()))
    }

    fn revoke_token(&self, id: TokenId, at: Instant) -> Reply<'_, bool> {
        Box::pin(self.call(Access::Write, move || self.inner.revoke_token(id, at)))
    }

    fn delete_token(&self, id: TokenId) -> Reply<'_, bool> {
        Box::pin(self.call(Access::Write, move || self.inner.delete_token(id)))
    }

    fn note_token_use(&self, id: TokenId, at: Instant) -> Reply<'_, ()> {
        Box::pin(self.call(Access::Write, move || self.inner.note_token_use(id, at)))
    }
}
