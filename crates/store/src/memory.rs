//! The reference store: obvious, in memory, without durability. What it does is what the others
//! must do.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kalends_domain::{
    CollectionPath, CollectionState, GroupPath, HistoryEntry, JobName, JobPath, Lifecycle, Plan,
    SubscriptionId, Switch,
};
use kalends_environment::Clock;
use kalends_recurrence::Instant;

use crate::error::StoreError;
use crate::record::{
    Cause, Claim, CollectionFacts, CollectionRecord, Disposition, GroupRecord, HistoryRecord, Job,
    JobFacts, JobKey, JobRecord, JobState, LedgerRecord, NodeId, OpenRun, Progress, RunId, Token,
};
use crate::search::{has_tag, search_text};
use crate::store::{
    Advance, CollectionContext, CollectionWrite, DecideCollection, DecideJob, DueJob, Edited,
    HistoryFilter, JobContext, JobFilter, JobFilterState, JobPut, JobWrite, Page, Reply, Retention,
    RunAnswer, RunWrite, Scope, Store, Tally, Waiting,
};

/// A store that forgets everything with its process.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    groups: BTreeMap<GroupPath, GroupRecord>,
    collections: BTreeMap<CollectionPath, CollectionRecord>,
    jobs: BTreeMap<JobPath, JobRow>,
    paths: HashMap<JobKey, JobPath>,
    runs: BTreeMap<RunId, RunRow>,
    history: BTreeMap<JobKey, Vec<HistoryRecord>>,
    ledger: BTreeMap<JobKey, Vec<LedgerRecord>>,
    last_key: i64,
    last_run: i64,
    last_sequence: u64,
}

struct JobRow {
    record: JobRecord,
    facts: JobFacts,
}

struct RunRow {
    run: OpenRun,
    /// Grows with every claim, also after the claim was given up.
    last_token: u64,
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
                    collection,
                    created: before.as_ref().map_or(now, |before| before.created),
                    version: before.as_ref().map_or(1, |before| before.version + 1),
                };
                kept.collections.insert(record.path.clone(), record.clone());
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

    fn job(&self, path: JobPath) -> Reply<'_, Option<JobRecord>> {
        let kept = self.kept();
        if !kept.collections.contains_key(&path.collection) {
            return ready(Err(StoreError::NoCollection));
        }
        ready(Ok(kept.jobs.get(&path).map(|row| row.record.clone())))
    }

    fn jobs(
        &self,
        path: CollectionPath,
        filter: JobFilter,
        page: Page<JobName>,
    ) -> Reply<'_, Vec<JobRecord>> {
        let kept = self.kept();
        if !kept.collections.contains_key(&path) {
            return ready(Err(StoreError::NoCollection));
        }
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
        let jobs = kept.jobs_of(&path).map(|row| &row.record).filter(fits);
        let after =
            jobs.filter(|record| page.after.as_ref().is_none_or(|after| record.path.job > *after));
        ready(Ok(after.skip(page.skip as usize).take(page.limit).cloned().collect()))
    }

    fn job_by_key(&self, key: JobKey) -> Reply<'_, Option<JobRecord>> {
        ready(Ok(self.kept().job(key).map(|row| row.record.clone())))
    }

    fn due(&self, until: Instant, limit: usize) -> Reply<'_, Vec<DueJob>> {
        let kept = self.kept();
        let due = |row: &JobRow| {
            let JobRecord { key, job, state, .. } = &row.record;
            let due = state.due.filter(|&due| due <= until && kept.runs_by_itself(row))?;
            Some(DueJob { job: *key, generation: job.generation, due })
        };
        let mut jobs: Vec<_> = kept.jobs.values().filter_map(due).collect();
        jobs.sort_by_key(|job| (job.due, job.job));
        jobs.truncate(limit);
        ready(Ok(jobs))
    }

    fn commit(&self, writes: Vec<RunWrite>) -> Reply<'_, Vec<RunAnswer>> {
        let now = self.at();
        let mut kept = self.kept();
        let mut carry_out = |write| kept.commit_one(write, now).unwrap_or(RunAnswer::Stale);
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

    fn open_runs(&self, job: JobKey) -> Reply<'_, Vec<OpenRun>> {
        let kept = self.kept();
        let runs = kept.runs.values().map(|row| row.run).filter(|run| run.job == job);
        ready(Ok(runs.collect()))
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

    fn ledger(
        &self,
        job: JobKey,
        from: Instant,
        to: Instant,
        limit: usize,
    ) -> Reply<'_, Vec<LedgerRecord>> {
        let kept = self.kept();
        let rows = kept.ledger.get(&job).into_iter().flatten();
        let mut rows: Vec<_> =
            rows.filter(|row| row.to >= from && row.from <= to).cloned().collect();
        rows.sort_by_key(|row| (row.from, row.to));
        rows.truncate(limit);
        ready(Ok(rows))
    }

    fn prune(&self, retention: Retention, now: Instant, limit: usize) -> Reply<'_, usize> {
        ready(Ok(self.kept().prune(retention, now, limit)))
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

impl Kept {
    fn jobs_of<'a>(&'a self, path: &'a CollectionPath) -> impl Iterator<Item = &'a JobRow> {
        self.jobs.values().filter(move |row| row.record.path.collection == *path)
    }

    fn job(&self, key: JobKey) -> Option<&JobRow> {
        self.jobs.get(self.paths.get(&key)?)
    }

    fn job_mut(&mut self, key: JobKey) -> Option<&mut JobRow> {
        self.jobs.get_mut(self.paths.get(&key)?)
    }

    fn is_enabled(&self, path: &CollectionPath) -> bool {
        let collection = self.collections.get(path);
        collection.is_some_and(|record| record.collection.state == CollectionState::Enabled)
    }

    /// Whether a job's schedule starts runs.
    fn runs_by_itself(&self, row: &JobRow) -> bool {
        row.record.state.lifecycle == Lifecycle::Active
            && row.record.job.definition.switch == Switch::Enabled
            && self.is_enabled(&row.record.path.collection)
    }

    fn facts(&self, path: &CollectionPath) -> CollectionFacts {
        self.jobs_of(path).fold(CollectionFacts::default(), |facts, row| CollectionFacts {
            jobs: facts.jobs + 1,
            shortest_gap: facts.shortest_gap.into_iter().chain(row.facts.shortest_gap).min(),
            authenticated: facts.authenticated + u64::from(row.facts.authenticated),
            shortest_retry: facts.shortest_retry.into_iter().chain(row.facts.shortest_retry).min(),
        })
    }

    fn put_job(
        &mut self,
        path: JobPath,
        put: JobPut,
        before: Option<&JobRecord>,
        now: Instant,
    ) -> JobRecord {
        let JobPut { uid, created, definition, facts, state, waiting } = put;
        let record = match before {
            Some(before) => JobRecord {
                key: before.key,
                path: before.path.clone(),
                job: Job {
                    definition,
                    generation: before.job.generation + 1,
                    ..before.job.clone()
                },
                state,
                version: before.version + 1,
            },
            None => {
                self.last_key += 1;
                let job = Job { uid, created, definition, generation: 1 };
                JobRecord { key: JobKey(self.last_key), path, job, state, version: 1 }
            }
        };
        if let Waiting::Close(disposition) = waiting {
            self.close_waiting(record.key, disposition, now);
        }
        self.paths.insert(record.key, record.path.clone());
        self.jobs.insert(record.path.clone(), JobRow { record: record.clone(), facts });
        record
    }

    fn close_waiting(&mut self, job: JobKey, disposition: Disposition, now: Instant) {
        let waiting = self.runs.values().map(|row| row.run);
        let waiting: Vec<_> = waiting.filter(|run| run.job == job && run.claim.is_none()).collect();
        for run in waiting {
            self.runs.remove(&run.id);
            self.ledger.entry(job).or_default().push(LedgerRecord {
                generation: run.generation,
                from: run.scheduled,
                to: run.scheduled,
                count: 1,
                cause: run.cause,
                disposition,
                closed: now,
            });
        }
    }

    fn delete_job(&mut self, path: &JobPath) {
        let Some(row) = self.jobs.remove(path) else { return };
        let key = row.record.key;
        self.paths.remove(&key);
        self.runs.retain(|_, row| row.run.job != key);
        self.history.remove(&key);
        self.ledger.remove(&key);
    }

    fn delete_collection(&mut self, path: &CollectionPath) {
        let jobs: Vec<_> = self.jobs_of(path).map(|row| row.record.path.clone()).collect();
        for job in jobs {
            self.delete_job(&job);
        }
        self.collections.remove(path);
    }

    fn open_run(
        &mut self,
        job: &JobRecord,
        scheduled: Instant,
        cause: Cause,
        repeat: u64,
        progress: Progress,
        claim: Option<(NodeId, Instant)>,
    ) -> OpenRun {
        self.last_run += 1;
        let claim = claim.map(|(owner, lease_until)| Claim { owner, token: Token(1), lease_until });
        let generation = job.job.generation;
        let id = RunId(self.last_run);
        let run =
            OpenRun { id, job: job.key, generation, scheduled, cause, repeat, progress, claim };
        self.runs.insert(id, RunRow { run, last_token: u64::from(claim.is_some()) });
        run
    }

    /// `None` where what the write rests on is no longer so.
    fn commit_one(&mut self, write: RunWrite, now: Instant) -> Option<RunAnswer> {
        match write {
            RunWrite::Begin { on, progress, owner, lease, advance, closed, postponed } => {
                let job = self.rests_on(on)?.record.clone();
                let claim = owner.map(|owner| (owner, now.saturating_add(lease)));
                self.advance(on.job, advance, now);
                self.record(on.job, closed, postponed);
                let run =
                    self.open_run(&job, on.due, Cause::Scheduled, advance.used, progress, claim);
                Some(RunAnswer::Begun { run: run.id, claim: run.claim })
            }
            RunWrite::Pass { on, advance, closed, postponed } => {
                self.rests_on(on)?;
                self.advance(on.job, advance, now);
                self.record(on.job, closed, postponed);
                Some(RunAnswer::Done)
            }
            RunWrite::Claim { run, seen, owner, lease, progress } => {
                let row = self.runs.get_mut(&run)?;
                let expired = row.run.claim.is_none_or(|claim| claim.lease_until < now);
                if !expired || row.run.claim.map(|claim| claim.token) != seen {
                    return None;
                }
                row.last_token += 1;
                let claim = Claim {
                    owner,
                    token: Token(row.last_token),
                    lease_until: now.saturating_add(lease),
                };
                row.run.claim = Some(claim);
                row.run.progress = progress;
                Some(RunAnswer::Claimed(claim))
            }
            RunWrite::Extend { run, token, lease } => {
                let claim = self.held(run, token)?.run.claim.as_mut()?;
                claim.lease_until = now.saturating_add(lease);
                Some(RunAnswer::Claimed(*claim))
            }
            RunWrite::Continue { run, token, entry, tally, progress } => {
                let row = self.held(run, token)?;
                row.run.claim = None;
                row.run.progress = progress;
                let job = row.run.job;
                self.tally(job, tally);
                self.record(job, vec![], entry.into_iter().collect());
                Some(RunAnswer::Done)
            }
            RunWrite::Finish { run, token, entry, tally, closed, lifecycle } => {
                let OpenRun { job, generation, .. } = self.held(run, token)?.run;
                self.runs.remove(&run);
                self.tally(job, tally);
                self.record(job, vec![closed], entry.into_iter().collect());
                let state = self.job_mut(job).filter(|row| row.record.job.generation == generation);
                if let (Some(lifecycle), Some(row)) = (lifecycle, state) {
                    finish(&mut row.record.state, lifecycle, now);
                }
                Some(RunAnswer::Done)
            }
        }
    }

    fn rests_on(&self, on: DueJob) -> Option<&JobRow> {
        let row = self.job(on.job)?;
        let as_seen =
            row.record.job.generation == on.generation && row.record.state.due == Some(on.due);
        (as_seen && self.runs_by_itself(row)).then_some(row)
    }

    fn held(&mut self, run: RunId, token: Token) -> Option<&mut RunRow> {
        self.runs
            .get_mut(&run)
            .filter(|row| row.run.claim.is_some_and(|claim| claim.token == token))
    }

    fn advance(&mut self, job: JobKey, advance: Advance, now: Instant) {
        let Some(row) = self.job_mut(job) else { return };
        row.record.state.due = advance.due;
        row.record.state.used = advance.used;
        finish(&mut row.record.state, advance.lifecycle, now);
    }

    fn tally(&mut self, job: JobKey, tally: Tally) {
        let Some(row) = self.job_mut(job) else { return };
        let state = &mut row.record.state;
        state.last_execution = tally.executed.or(state.last_execution);
        state.executions += u64::from(tally.executed.is_some());
        state.failures += u64::from(tally.failed);
        state.faulted += u64::from(tally.faulted);
    }

    fn record(&mut self, job: JobKey, closed: Vec<LedgerRecord>, entries: Vec<HistoryEntry>) {
        self.ledger.entry(job).or_default().extend(closed);
        for entry in entries {
            self.last_sequence += 1;
            let record = HistoryRecord { sequence: self.last_sequence, entry };
            self.history.entry(job).or_default().push(record);
        }
    }

    fn prune(&mut self, retention: Retention, now: Instant, limit: usize) -> usize {
        let before = |age: Duration| {
            Instant::from_ticks(now.ticks().saturating_sub(ticks(age))).unwrap_or(Instant::MIN)
        };
        let oldest = before(retention.history_age);
        let mut left = limit;
        let mut may_go = |goes: bool| {
            let goes = goes && left > 0;
            left -= usize::from(goes);
            goes
        };
        for entries in self.history.values_mut() {
            let surplus = entries.len().saturating_sub(retention.history_count as usize);
            let mut number = 0;
            entries.retain(|record| {
                number += 1;
                !may_go(number <= surplus || record.entry.started < oldest)
            });
        }
        for rows in self.ledger.values_mut() {
            rows.retain(|row| !may_go(row.closed < oldest));
        }
        let finished = before(retention.finished_jobs);
        let jobs = self.jobs.values().map(|row| &row.record);
        let over = jobs.filter(|record| record.state.finished.is_some_and(|at| at < finished));
        let over: Vec<_> =
            over.map(|record| record.path.clone()).filter(|_| may_go(true)).collect();
        over.iter().for_each(|path| self.delete_job(path));
        limit - left
    }
}

fn ticks(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos() / 100).unwrap_or(i64::MAX)
}

fn finish(state: &mut JobState, lifecycle: Lifecycle, now: Instant) {
    state.lifecycle = lifecycle;
    state.finished = match lifecycle {
        Lifecycle::Active => None,
        _ => state.finished.or(Some(now)),
    };
}
