//! The reference store: simple, in memory, without durability. It defines the behaviour of the
//! other stores; the conformance suite and the equivalence tests compare them with it.

mod events;
mod invariant_scan;
mod overview;
mod reports;
mod run_reports;
mod sessions;
mod tables;
mod tokens;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kalends_domain::{
    AccessScope, CollectionPath, GroupName, GroupPath, JobName, JobPath, NewNote, NoteRecord,
    NoteSubject, Plan, SubscriptionId,
};
use kalends_environment::Clock;
use kalends_recurrence::Instant;

use crate::api_store::{
    ApiStore, CollectionContext, CollectionWrite, DecideCollection, DecideJob, DecidePause, Edited,
    EditedJob, HistoryFilter, JobContext, JobFilter, JobFilterState, JobWrite, JobsPage, Page,
    PauseContext, PauseWrite, Scope, active_pause,
};
use crate::engine_store::{
    Due, DueJob, EngineStore, HEARTBEAT_RETENTION, HEARTBEAT_VALID, Heartbeat, JobAt, ParkedRuns,
    Retention, RunWrite, RunWriteResult,
};
use crate::error::StoreError;
use crate::events::{EventPosition, Events};
use crate::invariant_scan::ScanPage;
use crate::notes::{action_on_collection, action_on_job, action_on_pause};
use crate::overview_store::{
    CollectionSummary, JobMatch, JobSearch, JobSearchPage, JobSet, JobSummary, OverviewStore,
    SchedulesPage, StatesPage, TextsFrom, TextsPage,
};
use crate::record::{
    CollectionRecord, CollectionStatus, EarlierDefinition, GateState, GroupRecord, HistoryRecord,
    JobForRun, JobKey, JobRecord, LedgerRecord, OpenRun, OpenRunSummary, PauseRecord, SlotKey,
    both_enabled_since, enabled_since,
};
use crate::run_reports::{
    ClosedRunsPage, ClosedRunsQuery, NewestRuns, OpenRunCount, OpenRunsPage, OpenRunsQuery,
    RunCounts, RunReports,
};
use crate::run_state;
use crate::search::{has_tag, search_text};
use crate::store::{AdminStore, LeaseClock, PauseState, Reply, StoreHealth, next_due};
use tables::{JobRow, Tables};

/// A store that loses its data when the process ends.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    tables: Mutex<Tables>,
}

impl MemoryStore {
    /// An empty store that measures leases with `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> MemoryStore {
        MemoryStore { clock, tables: Mutex::default() }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self) -> Instant {
        self.clock.now().into()
    }
}

/// A result that is available at once.
fn ready<'a, T: Send + 'a>(result: Result<T, StoreError>) -> Reply<'a, T> {
    Box::pin(std::future::ready(result))
}

impl ApiStore for MemoryStore {
    fn put_group(&self, group: GroupRecord) -> Reply<'_, bool> {
        let mut tables = self.tables();
        let existing = tables.groups.get(&group.path).map(|existing| existing.path.clone());
        if existing.is_none() && !tables.has_room_for_group(&group.path.subscription) {
            return ready(Err(StoreError::TooManyGroups));
        }
        let path = existing.clone().unwrap_or_else(|| group.path.clone());
        tables.groups.insert(path.clone(), GroupRecord { path, ..group });
        ready(Ok(existing.is_none()))
    }

    fn group(&self, path: GroupPath) -> Reply<'_, Option<GroupRecord>> {
        ready(Ok(self.tables().groups.get(&path).cloned()))
    }

    fn groups(
        &self,
        subscription: SubscriptionId,
        page: Page<GroupName>,
    ) -> Reply<'_, Vec<GroupRecord>> {
        let tables = self.tables();
        let groups = tables.groups.values().filter(|group| group.path.subscription == subscription);
        let after = |group: &&GroupRecord| {
            page.after.as_ref().is_none_or(|after| group.path.group > *after)
        };
        let skip = usize::try_from(page.skip).unwrap_or(usize::MAX);
        let groups = groups.filter(after).skip(skip).take(page.limit);
        ready(Ok(groups.cloned().collect()))
    }

    fn delete_group(&self, path: GroupPath) -> Reply<'_, bool> {
        let mut tables = self.tables();
        let inside = tables.collections.keys().filter(|collection| collection.group == path);
        for collection in inside.cloned().collect::<Vec<_>>() {
            tables.delete_collection(&collection);
        }
        ready(Ok(tables.groups.remove(&path).is_some()))
    }

    fn edit_collection_with_note(
        &self,
        path: CollectionPath,
        mut decide: DecideCollection,
        note: Option<NewNote>,
    ) -> Reply<'_, Edited<CollectionRecord>> {
        let mut tables = self.tables();
        let now = self.at();
        let before = tables.collections.get(&path).cloned();
        let others = |plan: Plan| {
            let same = |other: &&CollectionRecord| {
                other.path.group.subscription == path.group.subscription
                    && other.path != path
                    && other.collection.plan == plan
            };
            tables.collections.values().filter(same).count() as u64
        };
        let facts = tables.facts(&path);
        let context = CollectionContext { existing: before.as_ref(), facts, others: &others, now };
        let write = match decide(context) {
            Ok(write) => write,
            Err(rejection) => return ready(Err(StoreError::Rejected(rejection))),
        };
        let action = action_on_collection(&write, before.as_ref());
        let after = match write {
            CollectionWrite::Keep => before.clone(),
            CollectionWrite::Delete => {
                tables.delete_collection(&path);
                None
            }
            CollectionWrite::Put(collection) => {
                let is_new = !tables.groups.contains_key(&path.group);
                if is_new && !tables.has_room_for_group(&path.group.subscription) {
                    return ready(Err(StoreError::TooManyGroups));
                }
                let group = tables.groups.entry(path.group.clone());
                let group = group.or_insert_with(|| GroupRecord {
                    path: path.group.clone(),
                    location: None,
                    tags: vec![],
                });
                let named = CollectionPath { group: group.path.clone(), ..path.clone() };
                let record = CollectionRecord {
                    path: before.as_ref().map_or(named, |before| before.path.clone()),
                    enabled_since: enabled_since(before.as_ref(), &collection, now),
                    collection,
                    created: before.as_ref().map_or(now, |before| before.created),
                    version: before.as_ref().map_or(1, |before| before.version + 1),
                };
                tables.put_collection(record.clone());
                Some(record)
            }
        };
        if let (Some(note), Some(action), Some(after)) = (&note, action, &after) {
            tables.add_note(NoteSubject::Collection(after.path.clone()), action, note, now);
        }
        ready(Ok(Edited { before, after }))
    }

    fn collection(&self, path: CollectionPath) -> Reply<'_, Option<CollectionRecord>> {
        ready(Ok(self.tables().collections.get(&path).cloned()))
    }

    fn collections(
        &self,
        scope: Scope,
        page: Page<CollectionPath>,
    ) -> Reply<'_, Vec<CollectionRecord>> {
        let tables = self.tables();
        let in_scope = |record: &&CollectionRecord| match &scope {
            Scope::Subscription(subscription) => record.path.group.subscription == *subscription,
            Scope::Group(group) => record.path.group == *group,
        };
        let collections = tables.collections.values().filter(in_scope);
        let after = collections
            .filter(|record| page.after.as_ref().is_none_or(|after| record.path > *after));
        ready(Ok(after.skip(page.skip as usize).take(page.limit).cloned().collect()))
    }

    fn edit_job_with_note(
        &self,
        path: JobPath,
        mut decide: DecideJob,
        note: Option<NewNote>,
    ) -> Reply<'_, EditedJob> {
        let mut tables = self.tables();
        let now = self.at();
        let Some(collection) = tables.collections.get(&path.collection).cloned() else {
            return ready(Err(StoreError::NoCollection));
        };
        let before = tables.jobs.get(&path).map(|row| row.record.clone());
        let jobs = tables.facts(&path.collection).jobs;
        let open = before.as_ref().map(|job| tables.open_runs(job.key)).unwrap_or_default();
        let context = JobContext {
            collection: &collection,
            jobs,
            existing: before.as_ref(),
            unreadable: None,
            now,
            open: &open,
            pause: active_pause(tables.pause.as_ref(), now),
        };
        let write = match decide(context) {
            Ok(write) => write,
            Err(rejection) => return ready(Err(StoreError::Rejected(rejection))),
        };
        let action = action_on_job(&write, before.as_ref());
        let after = match (write, &before) {
            (JobWrite::Keep, _) => before.clone(),
            (JobWrite::Delete, _) => {
                tables.delete_job(&path);
                None
            }
            (JobWrite::Run { at }, Some(job)) => Some(tables.open_manual_run(job, at)),
            (JobWrite::Run { .. }, None) => None,
            (JobWrite::Put(put), _) => {
                let named = JobPath { collection: collection.path.clone(), job: path.job.clone() };
                Some(tables.put_job(named, *put, before.as_ref(), now))
            }
        };
        if let (Some(note), Some(action), Some(after)) = (&note, action, &after) {
            tables.add_note(NoteSubject::Job(after.path.clone()), action, note, now);
        }
        let collection = tables.status(&collection, now);
        ready(Ok(EditedJob { before, after, collection }))
    }

    fn edit_pause_with_note(
        &self,
        mut decide: DecidePause,
        note: Option<NewNote>,
    ) -> Reply<'_, Option<PauseRecord>> {
        let mut tables = self.tables();
        let now = self.at();
        let active = active_pause(tables.pause.as_ref(), now);
        let write = match decide(PauseContext { active, now }) {
            Ok(write) => write,
            Err(rejection) => return ready(Err(StoreError::Rejected(rejection))),
        };
        if let Some(note) = &note {
            tables.add_note(NoteSubject::AllJobs, action_on_pause(&write), note, now);
        }
        match write {
            PauseWrite::Keep => {}
            PauseWrite::Put(pause) => tables.pause = Some(pause),
        }
        ready(Ok(active_pause(tables.pause.as_ref(), now).cloned()))
    }

    fn notes_of_job(&self, path: JobPath, page: Page<u64>) -> Reply<'_, Option<Vec<NoteRecord>>> {
        let tables = self.tables();
        if !tables.collections.contains_key(&path.collection) {
            return ready(Err(StoreError::NoCollection));
        }
        let of_job = |note: &NoteRecord| note.subject.job() == Some(&path);
        ready(Ok(tables.jobs.get(&path).map(|_| tables.notes(&page, of_job))))
    }

    fn notes_of_collection(
        &self,
        path: CollectionPath,
        page: Page<u64>,
    ) -> Reply<'_, Option<Vec<NoteRecord>>> {
        let tables = self.tables();
        let subject = tables.collections.get(&path).map(|_| NoteSubject::Collection(path));
        let notes = |subject| tables.notes(&page, |note| note.subject == subject);
        ready(Ok(subject.map(notes)))
    }

    fn notes(&self, page: Page<u64>) -> Reply<'_, Vec<NoteRecord>> {
        ready(Ok(self.tables().notes(&page, |_| true)))
    }

    fn job(&self, path: JobPath) -> Reply<'_, Option<(JobRecord, CollectionStatus)>> {
        let tables = self.tables();
        let Some(collection) = tables.collections.get(&path.collection) else {
            return ready(Err(StoreError::NoCollection));
        };
        let status = tables.status(collection, self.at());
        ready(Ok(tables.jobs.get(&path).map(|row| (row.record.clone(), status))))
    }

    fn jobs(
        &self,
        path: CollectionPath,
        filter: JobFilter,
        page: Page<JobName>,
        scan_max: usize,
    ) -> Reply<'_, JobsPage> {
        let tables = self.tables();
        let Some(collection) = tables.collections.get(&path) else {
            return ready(Err(StoreError::NoCollection));
        };
        let wanted = filter.contains.as_ref().map(|text| text.to_lowercase());
        let matches = |record: &&JobRecord| {
            let definition = &record.job.definition;
            let state = JobFilterState::of(definition.switch, record.state.lifecycle);
            let holds = |text: &String| {
                record.path.job.as_str().to_lowercase().contains(text)
                    || search_text(definition).contains(text)
            };
            filter.state.is_none_or(|wanted| wanted == state)
                && wanted.as_ref().is_none_or(holds)
                && has_tag(definition, &filter)
        };
        let scan_max = if filter == JobFilter::default() { usize::MAX } else { scan_max.max(1) };
        let after =
            |record: &&JobRecord| page.after.as_ref().is_none_or(|after| record.path.job > *after);
        let jobs = tables.jobs_of(&path).map(|row| &row.record).filter(after);
        let seen: Vec<_> = jobs.take(scan_max).collect();
        let end = seen.get(scan_max - 1).map(|record| record.path.job.clone());
        let matching: Vec<_> = seen.into_iter().filter(matches).collect();
        let skipped = page.skip.min(matching.len() as u64);
        let jobs = matching.into_iter().skip(page.skip as usize).take(page.limit).cloned();
        let found = (jobs.collect(), tables.status(collection, self.at()));
        ready(Ok(JobsPage::new(found, &page, page.skip - skipped, end)))
    }

    fn open_runs(&self, job: JobKey) -> Reply<'_, Vec<OpenRun>> {
        ready(Ok(self.tables().open_runs(job)))
    }

    fn history(
        &self,
        path: JobPath,
        filter: HistoryFilter,
        page: Page<u64>,
    ) -> Reply<'_, Option<Vec<HistoryRecord>>> {
        let tables = self.tables();
        if !tables.collections.contains_key(&path.collection) {
            return ready(Err(StoreError::NoCollection));
        }
        let Some(row) = tables.jobs.get(&path) else { return ready(Ok(None)) };
        let entries = tables.history.get(&row.record.key).into_iter().flatten().rev();
        let matches = |record: &&HistoryRecord| {
            page.after.is_none_or(|after| record.sequence < after)
                && filter.status.is_none_or(|status| record.entry.status == status)
        };
        let entries = entries.filter(matches).skip(page.skip as usize).take(page.limit);
        ready(Ok(Some(entries.cloned().collect())))
    }

    fn events(&self, after: Option<EventPosition>, limit: usize) -> Reply<'_, Events> {
        ready(Ok(self.tables().events(after, limit)))
    }

    fn earlier_definition(
        &self,
        job: JobKey,
        generation: u64,
    ) -> Reply<'_, Option<EarlierDefinition>> {
        ready(Ok(self.tables().earlier_definitions.get(&(job, generation)).cloned()))
    }

    fn ledger(
        &self,
        job: JobKey,
        from: Instant,
        to: Instant,
        limit: usize,
    ) -> Reply<'_, Vec<LedgerRecord>> {
        let tables = self.tables();
        let rows = tables.ledger.get(&job).into_iter().flatten().map(|(_, row)| &row.record);
        let mut rows: Vec<_> =
            rows.filter(|row| row.to >= from && row.from <= to).cloned().collect();
        rows.sort_by_key(|row| (row.from, row.to));
        rows.truncate(limit);
        ready(Ok(rows))
    }
}

impl EngineStore for MemoryStore {
    fn due_between(&self, from: Instant, until: Instant, limit: usize) -> Reply<'_, Vec<Due>> {
        let tables = self.tables();
        if tables.is_paused(self.at()) {
            return ready(Ok(vec![]));
        }
        let due = |row: &JobRow| {
            let JobRecord { key, job, state, .. } = &row.record;
            let is_due = |due: &Instant| (from..=until).contains(due);
            let due = state.due.filter(|due| is_due(due) && tables.has_active_schedule(row))?;
            let on = DueJob { job: *key, generation: job.generation, due };
            let collection = *tables.collection_keys.get(&row.record.path.collection)?;
            Some(Due { on, collection })
        };
        let mut jobs: Vec<_> = tables.jobs.values().filter_map(due).collect();
        jobs.sort_by_key(|due| (due.on.due, due.on.job));
        jobs.truncate(limit);
        ready(Ok(jobs))
    }

    fn jobs_for_run_at(&self, jobs: Vec<JobAt>) -> Reply<'_, Vec<Option<Arc<JobForRun>>>> {
        let tables = self.tables();
        let job_for_run = |JobAt { job: key, .. }: &JobAt| {
            let job = tables.job(*key)?.record.clone();
            let collection = tables.collections.get(&job.path.collection)?;
            let location = collection.collection.location.clone();
            let enabled_since = both_enabled_since(job.job.enabled_since, collection.enabled_since);
            let collection = *tables.collection_keys.get(&job.path.collection)?;
            let open = OpenRunSummary::of(tables.open_runs(*key));
            let pause = tables.pause();
            Some(Arc::new(JobForRun { job, collection, location, enabled_since, open, pause }))
        };
        ready(Ok(jobs.iter().map(job_for_run).collect()))
    }

    fn gate_states(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<GateState>>> {
        let tables = self.tables();
        ready(Ok(jobs.iter().map(|key| tables.gate_state(*key)).collect()))
    }

    fn commit(&self, writes: Vec<RunWrite>) -> Reply<'_, Vec<RunWriteResult>> {
        let now = self.at();
        let mut tables = self.tables();
        let mut commit = |write| {
            let Ok(result) = run_state::commit(&mut *tables, write, now);
            result
        };
        ready(Ok(writes.iter().map(&mut commit).collect()))
    }

    fn record_heartbeat(&self, heartbeat: Heartbeat) -> Reply<'_, Option<Instant>> {
        let Heartbeat { node, sent, .. } = heartbeat;
        let nodes = &mut self.tables().nodes;
        nodes.retain(|_, other| other.is_valid(sent, HEARTBEAT_RETENTION));
        nodes.insert(node, heartbeat);
        let others = nodes.values().filter(|other| other.node != node);
        let serving = others.filter(|other| other.is_valid(sent, HEARTBEAT_VALID));
        ready(Ok(serving.map(|other| other.serving_since).min()))
    }

    fn claimable(&self, until: Instant, limit: usize) -> Reply<'_, Vec<OpenRun>> {
        let now = self.at();
        let tables = self.tables();
        let is_paused = tables.is_paused(now);
        let is_claimable = |run: &&OpenRun| {
            !is_paused
                && tables.may_start(run)
                && match run.claim {
                    None => run.waits_for.is_none() && run.progress.next_at <= until,
                    Some(claim) => claim.lease_until < now,
                }
        };
        let mut runs: Vec<_> =
            tables.runs.values().map(|row| &row.run).filter(is_claimable).copied().collect();
        runs.sort_by_key(|run| (run.progress.next_at, run.id));
        runs.truncate(limit);
        ready(Ok(runs))
    }

    fn parked(&self, key: SlotKey, limit: usize) -> Reply<'_, Vec<OpenRun>> {
        let tables = self.tables();
        let is_paused = tables.is_paused(self.at());
        let is_parked =
            |run: &&OpenRun| !is_paused && run.waits_for == Some(key) && tables.may_start(run);
        let mut runs: Vec<_> =
            tables.runs.values().map(|row| &row.run).filter(is_parked).copied().collect();
        runs.sort_by_key(|run| (run.progress.next_at, run.id));
        runs.truncate(limit);
        ready(Ok(runs))
    }

    fn parked_keys(&self, limit: usize) -> Reply<'_, Vec<ParkedRuns>> {
        let mut counts = BTreeMap::new();
        for key in self.tables().runs.values().filter_map(|row| row.run.waits_for) {
            *counts.entry(key).or_default() += 1;
        }
        let keys = counts.into_iter().map(|(key, count)| ParkedRuns { key, count });
        ready(Ok(keys.take(limit).collect()))
    }

    fn expire_claims(&self) -> Reply<'_, usize> {
        ready(Ok(self.tables().expire_claims()))
    }

    fn prune(&self, retention: Retention, now: Instant, limit: usize) -> Reply<'_, usize> {
        ready(Ok(self.tables().prune(retention, now, limit)))
    }

    fn scan_jobs(&self, after: Option<JobKey>, scan_max: usize) -> Reply<'_, ScanPage> {
        ready(Ok(self.tables().scan_jobs(after, scan_max)))
    }
}

impl LeaseClock for MemoryStore {
    fn now(&self) -> Reply<'_, Instant> {
        ready(Ok(self.at()))
    }
}

impl PauseState for MemoryStore {
    fn pause(&self) -> Reply<'_, Option<PauseRecord>> {
        let tables = self.tables();
        ready(Ok(active_pause(tables.pause.as_ref(), self.at()).cloned()))
    }
}

impl StoreHealth for MemoryStore {
    fn probe(&self) -> Reply<'_, ()> {
        ready(Ok(()))
    }

    fn next_due(&self) -> Reply<'_, Option<Instant>> {
        Box::pin(next_due(self))
    }

    fn newest_entry(&self) -> Reply<'_, Option<Instant>> {
        let tables = self.tables();
        let entries = tables.history.values().flatten();
        ready(Ok(entries.max_by_key(|record| record.sequence).map(|record| record.entry.ended)))
    }

    fn bytes(&self) -> Reply<'_, u64> {
        ready(Ok(0))
    }

    fn stopped(&self) -> Option<StoreError> {
        None
    }
}

impl AdminStore for MemoryStore {
    fn check(&self) -> Reply<'_, Vec<String>> {
        let tables = self.tables();
        let orphans = tables.runs.values().filter(|row| !tables.paths.contains_key(&row.run.job));
        ready(Ok(orphans.map(|row| format!("run {} belongs to no job", row.run.id.0)).collect()))
    }
}
