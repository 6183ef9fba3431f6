//! [`Store`] with the bug of a [`Mutant`] applied.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{
    AccessScope, CollectionPath, GroupName, GroupPath, JobName, JobPath, NewNote, NoteRecord,
    SubscriptionId,
};
use kalends_recurrence::Instant;
use kalends_store::record::{
    Claim, CollectionRecord, CollectionStatus, EarlierDefinition, GateState, GroupRecord,
    HistoryRecord, JobForRun, JobKey, JobRecord, LedgerRecord, OpenRun, PauseRecord, SlotKey,
};
use kalends_store::{
    AdminStore, ApiStore, ClosedRunsPage, ClosedRunsQuery, CollectionSummary, DecideCollection,
    DecideJob, DecidePause, Due, Edited, EditedJob, EngineStore, EventPosition, Events, Heartbeat,
    HistoryFilter, JobAt, JobFilter, JobMatch, JobSearch, JobSearchPage, JobSet, JobSummary,
    JobsPage, LeaseClock, NewestRuns, OpenRunCount, OpenRunsPage, OpenRunsQuery, OverviewStore,
    Page, ParkedRuns, PauseState, Reply, Retention, RunCounts, RunReports, RunWrite,
    RunWriteResult, ScanPage, SchedulesPage, Scope, SessionHash, SessionRecord, Sessions,
    StatesPage, StoreError, TextsFrom, TextsPage, TokenId, TokenRecord, Tokens,
};

use crate::mutant::{Existed, Mutant, MutantStore};
use crate::mutant_targets::EARLY_BY;

/// Waiting runs from which [`Mutant::CountsWaitingRunsAsRunning`] starts no other.
const WAITING_MAX: u64 = 8;
/// Delay of [`Mutant::TakesOverLate`] after the end of a lease.
const LATE_BY: Duration = Duration::from_secs(30);

impl OverviewStore for MutantStore {
    fn collection_summaries(
        &self,
        scope: AccessScope,
        from: Bound<CollectionPath>,
        limit: usize,
    ) -> Reply<'_, Vec<CollectionSummary>> {
        self.inner.collection_summaries(scope, from, limit)
    }

    fn search_jobs(&self, search: JobSearch) -> Reply<'_, JobSearchPage> {
        self.inner.search_jobs(search)
    }

    fn jobs_by_key(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<JobRecord>> {
        self.inner.jobs_by_key(jobs)
    }

    fn jobs_of_set(&self, set: JobSet, limit: usize) -> Reply<'_, Option<Vec<JobMatch>>> {
        self.inner.jobs_of_set(set, limit)
    }

    fn states_by_key(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<JobSummary>> {
        self.inner.states_by_key(jobs)
    }

    fn job_paths(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<(JobKey, JobPath)>> {
        self.inner.job_paths(jobs)
    }

    fn scan_states(&self, after: Option<JobKey>, limit: usize) -> Reply<'_, StatesPage> {
        self.inner.scan_states(after, limit)
    }

    fn newest_job(&self) -> Reply<'_, JobKey> {
        self.inner.newest_job()
    }

    fn scan_texts(&self, from: TextsFrom, limit: usize) -> Reply<'_, TextsPage> {
        self.inner.scan_texts(from, limit)
    }

    fn scan_schedules(
        &self,
        after: Option<JobKey>,
        due_before: Instant,
        limit: usize,
    ) -> Reply<'_, SchedulesPage> {
        self.inner.scan_schedules(after, due_before, limit)
    }
}

impl ApiStore for MutantStore {
    fn put_group(&self, group: GroupRecord) -> Reply<'_, bool> {
        self.inner.put_group(group)
    }

    fn group(&self, path: GroupPath) -> Reply<'_, Option<GroupRecord>> {
        self.inner.group(path)
    }

    fn groups(
        &self,
        subscription: SubscriptionId,
        page: Page<GroupName>,
    ) -> Reply<'_, Vec<GroupRecord>> {
        self.inner.groups(subscription, page)
    }

    fn delete_group(&self, path: GroupPath) -> Reply<'_, bool> {
        self.inner.delete_group(path)
    }

    fn edit_collection_with_note(
        &self,
        path: CollectionPath,
        decide: DecideCollection,
        note: Option<NewNote>,
    ) -> Reply<'_, Edited<CollectionRecord>> {
        self.inner.edit_collection_with_note(path, decide, note)
    }

    fn collection(&self, path: CollectionPath) -> Reply<'_, Option<CollectionRecord>> {
        self.inner.collection(path)
    }

    fn collections(
        &self,
        scope: Scope,
        page: Page<CollectionPath>,
    ) -> Reply<'_, Vec<CollectionRecord>> {
        self.inner.collections(scope, page)
    }

    fn edit_job_with_note(
        &self,
        path: JobPath,
        decide: DecideJob,
        note: Option<NewNote>,
    ) -> Reply<'_, EditedJob> {
        let (mutant, mut decide, mut mutate) = (self.mutant, decide, self.edit_mutator());
        let decide = move |context: kalends_store::JobContext<'_>| {
            let existed = if context.existing.is_some() { Existed::Yes } else { Existed::No };
            MutantStore::decide(mutant, &mut decide, context).map(|write| mutate(write, existed))
        };
        Box::pin(async move {
            let edited = self.inner.edit_job_with_note(path, Box::new(decide), note).await?;
            let now = self.inner.now().await?;
            edited.after.iter().for_each(|job| self.edited(job.key, now));
            Ok(edited)
        })
    }

    fn edit_pause_with_note(
        &self,
        decide: DecidePause,
        note: Option<NewNote>,
    ) -> Reply<'_, Option<PauseRecord>> {
        self.inner.edit_pause_with_note(decide, note)
    }

    fn notes_of_job(&self, path: JobPath, page: Page<u64>) -> Reply<'_, Option<Vec<NoteRecord>>> {
        self.inner.notes_of_job(path, page)
    }

    fn notes_of_collection(
        &self,
        path: CollectionPath,
        page: Page<u64>,
    ) -> Reply<'_, Option<Vec<NoteRecord>>> {
        self.inner.notes_of_collection(path, page)
    }

    fn notes(&self, page: Page<u64>) -> Reply<'_, Vec<NoteRecord>> {
        self.inner.notes(page)
    }

    fn job(&self, path: JobPath) -> Reply<'_, Option<(JobRecord, CollectionStatus)>> {
        self.inner.job(path)
    }

    fn jobs(
        &self,
        path: CollectionPath,
        filter: JobFilter,
        page: Page<JobName>,
        scan_max: usize,
    ) -> Reply<'_, JobsPage> {
        self.inner.jobs(path, filter, page, scan_max)
    }

    fn events(&self, after: Option<EventPosition>, limit: usize) -> Reply<'_, Events> {
        self.inner.events(after, limit)
    }

    fn open_runs(&self, job: JobKey) -> Reply<'_, Vec<OpenRun>> {
        self.inner.open_runs(job)
    }

    fn history(
        &self,
        path: JobPath,
        filter: HistoryFilter,
        page: Page<u64>,
    ) -> Reply<'_, Option<Vec<HistoryRecord>>> {
        self.inner.history(path, filter, page)
    }

    fn earlier_definition(
        &self,
        job: JobKey,
        generation: u64,
    ) -> Reply<'_, Option<EarlierDefinition>> {
        self.inner.earlier_definition(job, generation)
    }

    fn ledger(
        &self,
        job: JobKey,
        from: Instant,
        to: Instant,
        limit: usize,
    ) -> Reply<'_, Vec<LedgerRecord>> {
        self.inner.ledger(job, from, to, limit)
    }
}

impl RunReports for MutantStore {
    fn newest_runs(&self, jobs: Vec<JobKey>, limit: usize) -> Reply<'_, Vec<NewestRuns>> {
        self.inner.newest_runs(jobs, limit)
    }

    fn listed_open_runs(&self, query: OpenRunsQuery) -> Reply<'_, OpenRunsPage> {
        self.inner.listed_open_runs(query)
    }

    fn open_run_count(&self, scopes: Vec<AccessScope>, scan_max: usize) -> Reply<'_, OpenRunCount> {
        self.inner.open_run_count(scopes, scan_max)
    }

    fn listed_closed_runs(&self, query: ClosedRunsQuery) -> Reply<'_, ClosedRunsPage> {
        self.inner.listed_closed_runs(query)
    }

    fn run_counts(
        &self,
        scopes: Vec<AccessScope>,
        from: Instant,
        to: Instant,
    ) -> Reply<'_, Vec<(Instant, RunCounts)>> {
        self.inner.run_counts(scopes, from, to)
    }
}

impl EngineStore for MutantStore {
    fn due_between(&self, from: Instant, until: Instant, limit: usize) -> Reply<'_, Vec<Due>> {
        Box::pin(async move {
            let mut due = self.inner.due_between(from, until, limit).await?;
            if self.mutant == Mutant::CountsWaitingRunsAsRunning {
                let waiting = self.inner.parked_keys(usize::MAX).await?;
                if waiting.iter().map(|parked| parked.count).sum::<u64>() >= WAITING_MAX {
                    due.clear();
                }
            }
            if self.mutant == Mutant::MissesEditsForTenSeconds {
                let now = self.inner.now().await?;
                due.retain(|due| !self.was_just_edited(due.on.job, now));
            }
            Ok(due)
        })
    }

    fn jobs_for_run_at(&self, jobs: Vec<JobAt>) -> Reply<'_, Vec<Option<Arc<JobForRun>>>> {
        Box::pin(async move {
            let old = |job_for_run: Arc<JobForRun>| {
                let job_for_run = Arc::unwrap_or_clone(job_for_run);
                Arc::new(JobForRun {
                    job: self.with_other_skip(self.outdated(job_for_run.job)),
                    enabled_since: match self.mutant {
                        Mutant::FiresWhileCollectionDisabled | Mutant::FiresHeldRuns => {
                            Instant::MIN
                        }
                        _ => job_for_run.enabled_since,
                    },
                    pause: match self.mutant {
                        Mutant::FiresHeldRuns => None,
                        _ => job_for_run.pause,
                    },
                    ..job_for_run
                })
            };
            let jobs = self.inner.jobs_for_run_at(jobs).await.map_err(|error| match error {
                StoreError::Unreadable(jobs)
                    if self.mutant == Mutant::StopsABatchForOneUnreadableJob =>
                {
                    StoreError::Failed(format!("{jobs:?}"))
                }
                error => error,
            })?;
            Ok(jobs.into_iter().map(|job_for_run| job_for_run.map(old)).collect())
        })
    }

    fn gate_states(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<GateState>>> {
        Box::pin(async move {
            let mut states = self.inner.gate_states(jobs.clone()).await?;
            if self.mutant == Mutant::AnswersOnceForTwoRunsOfAJob {
                let mut seen = BTreeSet::new();
                jobs.iter()
                    .zip(&mut states)
                    .filter(|(job, _)| !seen.insert(**job))
                    .for_each(|(_, state)| *state = None);
            }
            let states = jobs.into_iter().zip(states);
            Ok(states.map(|(job, state)| self.outdated_gate(job, state)).collect())
        })
    }

    fn parked(&self, key: SlotKey, limit: usize) -> Reply<'_, Vec<OpenRun>> {
        self.inner.parked(
            key,
            match self.mutant {
                Mutant::ForgetsParkedRuns => 0,
                Mutant::TriesOnlyTheFirstParkedRun => limit.min(1),
                _ => limit,
            },
        )
    }

    fn parked_keys(&self, limit: usize) -> Reply<'_, Vec<ParkedRuns>> {
        self.inner.parked_keys(limit)
    }

    fn expire_claims(&self) -> Reply<'_, usize> {
        self.inner.expire_claims()
    }

    fn commit(&self, writes: Vec<RunWrite>) -> Reply<'_, Vec<RunWriteResult>> {
        Box::pin(async move {
            let mutated = writes.into_iter().map(|write| self.mutate(write));
            let mutated: Vec<_> = match self.mutant {
                Mutant::IgnoresTokens => {
                    mutated.map(|write| self.with_latest_token(write)).collect()
                }
                _ => mutated.collect(),
            };
            let results = self.inner.commit(mutated.clone()).await;
            let results = results.or_else(|error| self.results_of_failed(&mutated, error))?;
            self.track_tokens(&mutated, &results);
            Ok(results)
        })
    }

    fn record_heartbeat(&self, heartbeat: Heartbeat) -> Reply<'_, Option<Instant>> {
        Box::pin(async move {
            let others = self.inner.record_heartbeat(heartbeat).await?;
            Ok(others.filter(|_| self.mutant != Mutant::IgnoresOtherNodes))
        })
    }

    fn claimable(&self, until: Instant, limit: usize) -> Reply<'_, Vec<OpenRun>> {
        Box::pin(async move {
            let mut runs = self.inner.claimable(until, limit).await?;
            if self.mutant == Mutant::TakesOverLate {
                let now = self.inner.now().await?;
                let is_late = |claim: Claim| claim.lease_until.saturating_add(LATE_BY) < now;
                runs.retain(|run| run.claim.is_none_or(is_late));
            }
            Ok(runs)
        })
    }

    fn prune(&self, retention: Retention, now: Instant, limit: usize) -> Reply<'_, usize> {
        self.inner.prune(retention, now, limit)
    }

    fn scan_jobs(&self, after: Option<JobKey>, scan_max: usize) -> Reply<'_, ScanPage> {
        self.inner.scan_jobs(after, scan_max)
    }
}

impl LeaseClock for MutantStore {
    fn now(&self) -> Reply<'_, Instant> {
        Box::pin(async move {
            let now = self.inner.now().await?;
            let early = self.mutant == Mutant::SendsEarly;
            Ok(if early { now.saturating_add(EARLY_BY) } else { now })
        })
    }
}

impl PauseState for MutantStore {
    fn pause(&self) -> Reply<'_, Option<PauseRecord>> {
        self.inner.pause()
    }
}

impl AdminStore for MutantStore {
    fn check(&self) -> Reply<'_, Vec<String>> {
        self.inner.check()
    }
}

impl Sessions for MutantStore {
    fn put_session(&self, session: SessionRecord) -> Reply<'_, ()> {
        self.inner.put_session(session)
    }

    fn session(&self, hash: SessionHash) -> Reply<'_, Option<SessionRecord>> {
        self.inner.session(hash)
    }

    fn delete_session(&self, hash: SessionHash) -> Reply<'_, bool> {
        self.inner.delete_session(hash)
    }
}

impl Tokens for MutantStore {
    fn put_token(&self, token: TokenRecord) -> Reply<'_, bool> {
        self.inner.put_token(token)
    }

    fn token(&self, id: TokenId) -> Reply<'_, Option<TokenRecord>> {
        self.inner.token(id)
    }

    fn tokens(&self) -> Reply<'_, Vec<TokenRecord>> {
        self.inner.tokens()
    }

    fn revoke_token(&self, id: TokenId, at: Instant) -> Reply<'_, bool> {
        self.inner.revoke_token(id, at)
    }

    fn delete_token(&self, id: TokenId) -> Reply<'_, bool> {
        self.inner.delete_token(id)
    }

    fn note_token_use(&self, id: TokenId, at: Instant) -> Reply<'_, ()> {
        self.inner.note_token_use(id, at)
    }
}
