//! What the reference store keeps, and what becomes of it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use kalends_domain::{
    CollectionPath, CollectionState, GroupPath, HistoryEntry, JobPath, Lifecycle, Switch,
};
use kalends_recurrence::Instant;

use crate::record::{
    Cause, Claim, CollectionFacts, CollectionKey, CollectionRecord, Disposition, FencingToken,
    GateState, GroupRecord, HistoryRecord, Job, JobFacts, JobKey, JobRecord, JobState,
    LedgerRecord, NodeId, OpenRun, Progress, RunId,
};
use crate::store::{
    Advance, AttemptCounts, DueJob, JobPut, Retention, RunWrite, RunWriteResult, WaitingRuns,
};
use crate::tokens::{TokenId, TokenRecord};

#[derive(Default)]
pub(super) struct Kept {
    pub(super) groups: BTreeMap<GroupPath, GroupRecord>,
    pub(super) collections: BTreeMap<CollectionPath, CollectionRecord>,
    pub(super) collection_keys: BTreeMap<CollectionPath, CollectionKey>,
    pub(super) jobs: BTreeMap<JobPath, JobRow>,
    pub(super) paths: HashMap<JobKey, JobPath>,
    pub(super) runs: BTreeMap<RunId, RunRow>,
    pub(super) history: BTreeMap<JobKey, Vec<HistoryRecord>>,
    pub(super) ledger: BTreeMap<JobKey, Vec<(u64, LedgerRecord)>>,
    pub(super) tokens: BTreeMap<TokenId, TokenRecord>,
    last_collection: i64,
    last_key: i64,
    last_run: i64,
    last_sequence: u64,
    last_closing: u64,
}

pub(super) struct JobRow {
    pub(super) record: JobRecord,
    facts: JobFacts,
}

pub(super) struct RunRow {
    pub(super) run: OpenRun,
    /// Grows with every claim, also after the claim was given up.
    last_token: u64,
}

impl Kept {
    pub(super) fn jobs_of<'a>(
        &'a self,
        path: &'a CollectionPath,
    ) -> impl Iterator<Item = &'a JobRow> {
        self.jobs.values().filter(move |row| row.record.path.collection == *path)
    }

    pub(super) fn job(&self, key: JobKey) -> Option<&JobRow> {
        self.jobs.get(self.paths.get(&key)?)
    }

    fn job_mut(&mut self, key: JobKey) -> Option<&mut JobRow> {
        self.jobs.get_mut(self.paths.get(&key)?)
    }

    pub(super) fn is_enabled(&self, path: &CollectionPath) -> bool {
        let collection = self.collections.get(path);
        collection.is_some_and(|record| record.collection.state == CollectionState::Enabled)
    }

    /// Whether a job's schedule starts runs.
    pub(super) fn runs_by_itself(&self, row: &JobRow) -> bool {
        row.record.state.lifecycle == Lifecycle::Active
            && row.record.job.definition.switch == Switch::Enabled
            && self.is_enabled(&row.record.path.collection)
    }

    pub(super) fn facts(&self, path: &CollectionPath) -> CollectionFacts {
        self.jobs_of(path).fold(CollectionFacts::default(), |facts, row| CollectionFacts {
            jobs: facts.jobs + 1,
            shortest_gap: facts.shortest_gap.into_iter().chain(row.facts.shortest_gap).min(),
            authenticated: facts.authenticated + u64::from(row.facts.authenticated),
            shortest_retry: facts.shortest_retry.into_iter().chain(row.facts.shortest_retry).min(),
        })
    }

    pub(super) fn put_job(
        &mut self,
        path: JobPath,
        put: JobPut,
        before: Option<&JobRecord>,
        now: Instant,
    ) -> JobRecord {
        let JobPut { uid, created, definition, facts, state, waiting, closed_by_edit } = put;
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
        if let WaitingRuns::Close(disposition) = waiting {
            self.close_waiting(record.key, disposition, now);
        }
        self.close(record.key, closed_by_edit);
        self.paths.insert(record.key, record.path.clone());
        self.jobs.insert(record.path.clone(), JobRow { record: record.clone(), facts });
        record
    }

    fn close_waiting(&mut self, job: JobKey, disposition: Disposition, now: Instant) {
        let waiting = self.runs.values().map(|row| row.run);
        let waiting: Vec<_> = waiting.filter(|run| run.job == job && run.claim.is_none()).collect();
        for run in waiting {
            self.runs.remove(&run.id);
            let row = LedgerRecord {
                generation: run.generation,
                from: run.scheduled,
                to: run.scheduled,
                count: 1,
                cause: run.cause,
                disposition,
                closed: now,
            };
            self.close(job, [row]);
        }
    }

    pub(super) fn delete_job(&mut self, path: &JobPath) {
        let Some(row) = self.jobs.remove(path) else { return };
        let key = row.record.key;
        self.paths.remove(&key);
        self.runs.retain(|_, row| row.run.job != key);
        self.history.remove(&key);
        self.ledger.remove(&key);
    }

    pub(super) fn standing(&self, key: JobKey) -> Option<GateState> {
        let JobRecord { path, job, state, .. } = &self.job(key)?.record;
        let collection = match self.is_enabled(&path.collection) {
            true => Switch::Enabled,
            false => Switch::Disabled,
        };
        let switch = job.definition.switch;
        Some(GateState { generation: job.generation, switch, collection, state: *state })
    }

    pub(super) fn open_runs(&self, job: JobKey) -> Vec<OpenRun> {
        self.runs.values().map(|row| row.run).filter(|run| run.job == job).collect()
    }

    pub(super) fn expire_claims(&mut self) -> usize {
        let claims = self.runs.values_mut().filter_map(|row| row.run.claim.as_mut());
        claims.map(|claim| claim.lease_until = Instant::MIN).count()
    }

    pub(super) fn put_collection(&mut self, record: CollectionRecord) {
        self.last_collection += 1;
        let key = CollectionKey(self.last_collection);
        self.collection_keys.entry(record.path.clone()).or_insert(key);
        self.collections.insert(record.path.clone(), record);
    }

    pub(super) fn delete_collection(&mut self, path: &CollectionPath) {
        let jobs: Vec<_> = self.jobs_of(path).map(|row| row.record.path.clone()).collect();
        for job in jobs {
            self.delete_job(&job);
        }
        self.collections.remove(path);
        self.collection_keys.remove(path);
    }

    pub(super) fn open_run(
        &mut self,
        job: &JobRecord,
        scheduled: Instant,
        cause: Cause,
        repeat: u64,
        progress: Progress,
        claim: Option<(NodeId, Instant)>,
    ) -> OpenRun {
        self.last_run += 1;
        let claim =
            claim.map(|(owner, lease_until)| Claim { owner, token: FencingToken(1), lease_until });
        let generation = job.job.generation;
        let id = RunId(self.last_run);
        let run =
            OpenRun { id, job: job.key, generation, scheduled, cause, repeat, progress, claim };
        self.runs.insert(id, RunRow { run, last_token: u64::from(claim.is_some()) });
        run
    }

    /// `None` where what the write rests on is no longer so.
    pub(super) fn commit_one(&mut self, write: RunWrite, now: Instant) -> Option<RunWriteResult> {
        match write {
            RunWrite::Begin {
                on,
                scheduled,
                progress,
                owner,
                lease,
                advance,
                closed,
                postponed,
            } => {
                let job = self.rests_on(on)?.record.clone();
                let claim = owner.map(|owner| (owner, now.saturating_add(lease)));
                self.advance(on.job, advance, now);
                self.record(on.job, closed, postponed);
                let run =
                    self.open_run(&job, scheduled, Cause::Scheduled, advance.used, progress, claim);
                Some(RunWriteResult::Begun { run: run.id, claim: run.claim })
            }
            RunWrite::Skip { on, advance, closed, postponed } => {
                self.rests_on(on)?;
                self.advance(on.job, advance, now);
                self.record(on.job, closed, postponed);
                Some(RunWriteResult::Done)
            }
            RunWrite::Claim { run, seen, owner, lease, progress } => {
                let row = self.runs.get_mut(&run)?;
                let expired = row.run.claim.is_none_or(|claim| claim.lease_until < now);
                let moved_on = row.run.claim.is_none() && row.run.progress != progress;
                if !expired || moved_on || row.run.claim.map(|claim| claim.token) != seen {
                    return None;
                }
                row.last_token += 1;
                let claim = Claim {
                    owner,
                    token: FencingToken(row.last_token),
                    lease_until: now.saturating_add(lease),
                };
                row.run.claim = Some(claim);
                row.run.progress = progress;
                Some(RunWriteResult::Claimed(claim))
            }
            RunWrite::RenewLease { run, token, lease } => {
                let claim = self.held(run, token)?.run.claim.as_mut()?;
                claim.lease_until = now.saturating_add(lease);
                Some(RunWriteResult::Claimed(*claim))
            }
            RunWrite::Continue { run, token, entry, counts, progress } => {
                let row = self.held(run, token)?;
                row.run.claim = None;
                row.run.progress = progress;
                let job = row.run.job;
                self.counts(job, counts);
                self.record(job, vec![], entry.into_iter().collect());
                Some(RunWriteResult::Done)
            }
            RunWrite::Finish { run, token, entry, counts, closed, lifecycle } => {
                let OpenRun { job, generation, .. } = self.held(run, token)?.run;
                self.runs.remove(&run);
                self.counts(job, counts);
                self.record(job, vec![closed], entry.into_iter().collect());
                let is_last = !self.has_open(job, generation);
                let over = self.job_mut(job).filter(|row| {
                    is_last
                        && row.record.job.generation == generation
                        && row.record.state.due.is_none()
                        && row.record.state.lifecycle == Lifecycle::Active
                });
                if let (Some(lifecycle), Some(row)) = (lifecycle, over) {
                    finish(&mut row.record.state, lifecycle, now);
                }
                Some(RunWriteResult::Done)
            }
        }
    }

    fn rests_on(&self, on: DueJob) -> Option<&JobRow> {
        let row = self.job(on.job)?;
        let as_seen =
            row.record.job.generation == on.generation && row.record.state.due == Some(on.due);
        (as_seen && self.runs_by_itself(row)).then_some(row)
    }

    fn held(&mut self, run: RunId, token: FencingToken) -> Option<&mut RunRow> {
        self.runs
            .get_mut(&run)
            .filter(|row| row.run.claim.is_some_and(|claim| claim.token == token))
    }

    /// Whether a run of a job's schedule is open.
    fn has_open(&self, job: JobKey, generation: u64) -> bool {
        let mut runs = self.runs.values().map(|row| &row.run);
        runs.any(|run| {
            run.job == job && run.generation == generation && run.cause == Cause::Scheduled
        })
    }

    fn advance(&mut self, job: JobKey, advance: Advance, now: Instant) {
        let Some(generation) = self.job(job).map(|row| row.record.job.generation) else { return };
        let goes_on = self.has_open(job, generation);
        let lifecycle = if goes_on { Lifecycle::Active } else { advance.lifecycle };
        let Some(row) = self.job_mut(job) else { return };
        row.record.state.due = advance.due;
        row.record.state.used = advance.used;
        finish(&mut row.record.state, lifecycle, now);
    }

    fn counts(&mut self, job: JobKey, counts: AttemptCounts) {
        let Some(row) = self.job_mut(job) else { return };
        let state = &mut row.record.state;
        state.last_execution = counts.executed.or(state.last_execution);
        state.executions += u64::from(counts.executed.is_some());
        state.failures += u64::from(counts.failed);
        state.faulted += u64::from(counts.faulted);
    }

    fn close(&mut self, job: JobKey, rows: impl IntoIterator<Item = LedgerRecord>) {
        for row in rows {
            self.last_closing += 1;
            self.ledger.entry(job).or_default().push((self.last_closing, row));
        }
    }

    fn record(&mut self, job: JobKey, closed: Vec<LedgerRecord>, entries: Vec<HistoryEntry>) {
        self.close(job, closed);
        for entry in entries {
            self.last_sequence += 1;
            let record = HistoryRecord { sequence: self.last_sequence, entry };
            self.history.entry(job).or_default().push(record);
        }
    }

    pub(super) fn prune(&mut self, retention: Retention, now: Instant, limit: usize) -> usize {
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
            rows.retain(|(_, row)| !may_go(row.closed < oldest));
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
