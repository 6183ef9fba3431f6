//! The reference store: obvious, in memory, without durability. What it does is what the others
//! must do.

mod events;
mod invariant_scan;
mod kept;
mod tokens;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kalends_domain::{
    CollectionPath, CollectionState, GroupPath, JobName, JobPath, Plan, SubscriptionId,
};
use kalends_environment::Clock;
use kalends_recurrence::Instant;

use crate::error::StoreError;
use crate::events::{EventPosition, Events};
use crate::invariant_scan::ScanPage;
use crate::record::{
    Cause, CollectionRecord, GateState, GroupRecord, HistoryRecord, JobForRun, JobKey, JobRecord,
    LedgerRecord, OpenRun, Progress, enabled_since,
};
use crate::search::{has_tag, search_text};
use crate::store::{
    CollectionContext, CollectionWrite, DecideCollection, DecideJob, Due, DueJob, Edited,
    HistoryFilter, JobContext, JobFilter, JobFilterState, JobWrite, JobsPage, Page, Reply,
    Retention, RunWrite, RunWriteResult, Scope, Store,
};
use kept::{JobRow, Kept};

/// A store that forgets everything with its process.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
}

impl MemoryStore {
    /// An empty store that measures leases with `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> MemoryStore {
        MemoryStore { clock, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self) -> Instant {
        self.clock.now().into()
    }
}

/// An answer that is already there.
fn ready<'a, T: Send + 'a>(result: Result<T, StoreError>) -> Reply<'a, T> {
    Box::pin(std::future::ready(result))
}

impl Store for MemoryStore {
    fn put_group(&self, group: GroupRecord) -> Reply<'_, bool> {
        let mut kept = self.kept();
        let existing = kept.groups.get(&group.path).map(|existing| existing.path.clone());
        let path = existing.clone().unwrap_or_else(|| group.path.clone());
        kept.groups.insert(path.clone(), GroupRecord { path, ..group });
        ready(Ok(existing.is_none()))
    }

    fn group(&self, path: GroupPath) -> Reply<'_, Option<GroupRecord>> {
        ready(Ok(self.kept().groups.get(&path).cloned()))
    }

    fn groups(&self, subscription: SubscriptionId) -> Reply<'_, Vec<GroupRecord>> {
        let kept = self.kept();
        let groups = kept.groups.values().filter(|group| group.path.subscription == subscription);
        ready(Ok(groups.cloned().collect()))
    }

    fn delete_group(&self, path: GroupPath) -> Reply<'_, bool> {
        let mut kept = self.kept();
        let inside = kept.collections.keys().filter(|collection| collection.group == path);
        for collection in inside.cloned().collect::<Vec<_>>() {
            kept.delete_collection(&collection);
        }
        ready(Ok(kept.groups.remove(&path).is_some()))
    }

    fn edit_collection(
        &self,
        path: CollectionPath,
        mut decide: DecideCollection,
    ) -> Reply<'_, Edited<CollectionRecord>> {
        let now = self.at();
        let mut kept = self.kept();
        let before = kept.collections.get(&path).cloned();
        let others = |plan: Plan| {
            let same = |other: &&CollectionRecord| {
                other.path.group.subscription == path.group.subscription
                    && other.path != path
                    && other.collection.plan == plan
            };
            kept.collections.values().filter(same).count() as u64
        };
        let facts = kept.facts(&path);
        let context = CollectionContext { existing: before.as_ref(), facts, others: &others };
        let write = match decide(context) {
            Ok(write) => write,
            Err(refusal) => return ready(Err(StoreError::Refused(refusal))),
        };
        let after = match write {
            CollectionWrite::Keep => before.clone(),
            CollectionWrite::Delete => {
                kept.delete_collection(&path);
                None
            }
            CollectionWrite::Put(collection) => {
                let group = kept.groups.entry(path.group.clone());
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
                kept.put_collection(record.clone());
                Some(record)
            }
        };
        ready(Ok(Edited { before, after }))
    }

    fn collection(&self, path: CollectionPath) -> Reply<'_, Option<CollectionRecord>> {
        ready(Ok(self.kept().collections.get(&path).cloned()))
    }

    fn collections(
        &self,
        scope: Scope,
        page: Page<CollectionPath>,
    ) -> Reply<'_, Vec<CollectionRecord>> {
        let kept = self.kept();
        let in_scope = |record: &&CollectionRecord| match &scope {
            Scope::Subscription(subscription) => record.path.group.subscription == *subscription,
            Scope::Group(group) => record.path.group == *group,
        };
        let collections = kept.collections.values().filter(in_scope);
        let after = collections
            .filter(|record| page.after.as_ref().is_none_or(|after| record.path > *after));
        ready(Ok(after.skip(page.skip as usize).take(page.limit).cloned().collect()))
    }

    fn edit_job(&self, path: JobPath, mut decide: DecideJob) -> Reply<'_, Edited<JobRecord>> {
        let now = self.at();
        let mut kept = self.kept();
        let Some(collection) = kept.collections.get(&path.collection).cloned() else {
            return ready(Err(StoreError::NoCollection));
        };
        let before = kept.jobs.get(&path).map(|row| row.record.clone());
        let jobs = kept.facts(&path.collection).jobs;
        let context = JobContext { collection: &collection, jobs, existing: before.as_ref() };
        let write = match decide(context) {
            Ok(write) => write,
            Err(refusal) => return ready(Err(StoreError::Refused(refusal))),
        };
        let after = match (write, &before) {
            (JobWrite::Keep, _) => before.clone(),
            (JobWrite::Delete, _) => {
                kept.delete_job(&path);
                None
            }
            (JobWrite::Run { at }, Some(job)) => {
                kept.open_run(job, at, Cause::Manual, 0, Progress::first(at), None);
                before.clone()
            }
            (JobWrite::Run { .. }, None) => None,
            (JobWrite::Put(put), _) => {
                let named = JobPath { collection: collection.path.clone(), job: path.job.clone() };
                Some(kept.put_job(named, *put, before.as_ref(), now))
            }
        };
        ready(Ok(Edited { before, after }))
    }

    fn job(&self, path: JobPath) -> Reply<'_, Option<(JobRecord, CollectionState)>> {
        let kept = self.kept();
        let Some(collection) = kept.collections.get(&path.collection) else {
            return ready(Err(StoreError::NoCollection));
        };
        let state = collection.collection.state;
        ready(Ok(kept.jobs.get(&path).map(|row| (row.record.clone(), state))))
    }

    fn jobs(
        &self,
        path: CollectionPath,
        filter: JobFilter,
        page: Page<JobName>,
        scan_max: usize,
    ) -> Reply<'_, JobsPage> {
        let kept = self.kept();
        let Some(collection) = kept.collections.get(&path) else {
            return ready(Err(StoreError::NoCollection));
        };
        let wanted = filter.contains.as_ref().map(|text| text.to_lowercase());
        let fits = |record: &&JobRecord| {
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
        let jobs = kept.jobs_of(&path).map(|row| &row.record).filter(after);
        let seen: Vec<_> = jobs.take(scan_max).collect();
        let end = seen.get(scan_max - 1).map(|record| record.path.job.clone());
        let fitting: Vec<_> = seen.into_iter().filter(fits).collect();
        let skipped = page.skip.min(fitting.len() as u64);
        let jobs = fitting.into_iter().skip(page.skip as usize).take(page.limit).cloned();
        let found = (jobs.collect(), collection.collection.state);
        ready(Ok(JobsPage::new(found, &page, page.skip - skipped, end)))
    }

    fn job_by_key(&self, key: JobKey) -> Reply<'_, Option<JobRecord>> {
        ready(Ok(self.kept().job(key).map(|row| row.record.clone())))
    }

    fn due(&self, until: Instant, limit: usize) -> Reply<'_, Vec<Due>> {
        let kept = self.kept();
        let due = |row: &JobRow| {
            let JobRecord { key, job, state, .. } = &row.record;
            let due = state.due.filter(|&due| due <= until && kept.runs_by_itself(row))?;
            let on = DueJob { job: *key, generation: job.generation, due };
            let collection = *kept.collection_keys.get(&row.record.path.collection)?;
            Some(Due { on, collection })
        };
        let mut jobs: Vec<_> = kept.jobs.values().filter_map(due).collect();
        jobs.sort_by_key(|due| (due.on.due, due.on.job));
        jobs.truncate(limit);
        ready(Ok(jobs))
    }

    fn jobs_for_run(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<JobForRun>>> {
        let kept = self.kept();
        let brief = |key: &JobKey| {
            let job = kept.job(*key)?.record.clone();
            let collection = kept.collections.get(&job.path.collection)?;
            let location = collection.collection.location.clone();
            let enabled_since = collection.enabled_since;
            let collection = *kept.collection_keys.get(&job.path.collection)?;
            let open = kept.open_runs(*key);
            Some(JobForRun { job, collection, location, enabled_since, open })
        };
        ready(Ok(jobs.iter().map(brief).collect()))
    }

    fn gate_states(&self, jobs: Vec<JobKey>) -> Reply<'_, Vec<Option<GateState>>> {
        let kept = self.kept();
        ready(Ok(jobs.iter().map(|key| kept.standing(*key)).collect()))
    }

    fn commit(&self, writes: Vec<RunWrite>) -> Reply<'_, Vec<RunWriteResult>> {
        let now = self.at();
        let mut kept = self.kept();
        let mut carry_out = |write| kept.commit_one(write, now).unwrap_or(RunWriteResult::Stale);
        ready(Ok(writes.into_iter().map(&mut carry_out).collect()))
    }

    fn claimable(&self, until: Instant, limit: usize) -> Reply<'_, Vec<OpenRun>> {
        let now = self.at();
        let kept = self.kept();
        let is_claimable = |run: &&OpenRun| {
            let collection = kept.paths.get(&run.job).map(|path| &path.collection);
            let enabled = collection.is_some_and(|path| kept.is_enabled(path));
            enabled
                && match run.claim {
                    None => run.progress.next_at <= until,
                    Some(claim) => claim.lease_until < now,
                }
        };
        let mut runs: Vec<_> =
            kept.runs.values().map(|row| &row.run).filter(is_claimable).copied().collect();
        runs.sort_by_key(|run| (run.progress.next_at, run.id));
        runs.truncate(limit);
        ready(Ok(runs))
    }

    fn expire_claims(&self) -> Reply<'_, usize> {
        ready(Ok(self.kept().expire_claims()))
    }

    fn open_runs(&self, job: JobKey) -> Reply<'_, Vec<OpenRun>> {
        ready(Ok(self.kept().open_runs(job)))
    }

    fn history(
        &self,
        path: JobPath,
        filter: HistoryFilter,
        page: Page<u64>,
    ) -> Reply<'_, Option<Vec<HistoryRecord>>> {
        let kept = self.kept();
        if !kept.collections.contains_key(&path.collection) {
            return ready(Err(StoreError::NoCollection));
        }
        let Some(row) = kept.jobs.get(&path) else { return ready(Ok(None)) };
        let entries = kept.history.get(&row.record.key).into_iter().flatten().rev();
        let fits = |record: &&HistoryRecord| {
            page.after.is_none_or(|after| record.sequence < after)
                && filter.status.is_none_or(|status| record.entry.status == status)
        };
        let entries = entries.filter(fits).skip(page.skip as usize).take(page.limit);
        ready(Ok(Some(entries.cloned().collect())))
    }

    fn events(&self, after: Option<EventPosition>, limit: usize) -> Reply<'_, Events> {
        ready(Ok(self.kept().events(after, limit)))
    }

    fn ledger(
        &self,
        job: JobKey,
        from: Instant,
        to: Instant,
        limit: usize,
    ) -> Reply<'_, Vec<LedgerRecord>> {
        let kept = self.kept();
        let rows = kept.ledger.get(&job).into_iter().flatten().map(|(_, row)| row);
        let mut rows: Vec<_> =
            rows.filter(|row| row.to >= from && row.from <= to).cloned().collect();
        rows.sort_by_key(|row| (row.from, row.to));
        rows.truncate(limit);
        ready(Ok(rows))
    }

    fn prune(&self, retention: Retention, now: Instant, limit: usize) -> Reply<'_, usize> {
        ready(Ok(self.kept().prune(retention, now, limit)))
    }

    fn scan_jobs(&self, after: Option<JobKey>, scan_max: usize) -> Reply<'_, ScanPage> {
        ready(Ok(self.kept().scan_jobs(after, scan_max)))
    }

    fn now(&self) -> Reply<'_, Instant> {
        ready(Ok(self.at()))
    }

    fn check(&self) -> Reply<'_, Vec<String>> {
        let kept = self.kept();
        let lost = kept.runs.values().filter(|row| !kept.paths.contains_key(&row.run.job));
        ready(Ok(lost.map(|row| format!("run {} belongs to no job", row.run.id.0)).collect()))
    }
}
