//! Writes decided one after the other on what was read under locks. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kalends_domain::{HistoryEntry, Lifecycle};
use kalends_recurrence::Instant;

use crate::record::{
    Cause, Claim, FencingToken, JobKey, JobState, LedgerRecord, NodeId, OpenRun, Progress, RunId,
};
use crate::store::{Advance, AttemptCounts, DueJob, RunWrite, RunWriteResult};

/// A job as it was read.
pub(super) struct KeptJob {
    pub(super) generation: u64,
    /// Whether it and its collection are switched on.
    pub(super) is_on: bool,
    pub(super) state: JobState,
}

/// A run as it was read.
#[derive(Clone, Copy)]
pub(super) struct KeptRun {
    pub(super) run: OpenRun,
    pub(super) last_token: u64,
}

/// What was read, changed by each write in turn.
pub(super) struct Batch {
    now: Instant,
    jobs: BTreeMap<JobKey, KeptJob>,
    runs: BTreeMap<RunId, KeptRun>,
    fresh_ids: VecDeque<RunId>,
    changed_jobs: BTreeSet<JobKey>,
    opened: BTreeSet<RunId>,
    changed_runs: BTreeSet<RunId>,
    closed_runs: Vec<RunId>,
    history: Vec<(JobKey, HistoryEntry)>,
    ledger: Vec<(JobKey, LedgerRecord)>,
}

/// What is to be written.
pub(super) struct Changes {
    pub(super) states: Vec<(JobKey, JobState)>,
    pub(super) opened: Vec<KeptRun>,
    pub(super) changed: Vec<KeptRun>,
    pub(super) closed: Vec<RunId>,
    pub(super) history: Vec<(JobKey, HistoryEntry)>,
    pub(super) ledger: Vec<(JobKey, LedgerRecord)>,
}

impl Batch {
    pub(super) fn new(
        now: Instant,
        jobs: BTreeMap<JobKey, KeptJob>,
        runs: BTreeMap<RunId, KeptRun>,
        fresh_ids: VecDeque<RunId>,
    ) -> Batch {
        Batch {
            now,
            jobs,
            runs,
            fresh_ids,
            changed_jobs: BTreeSet::new(),
            opened: BTreeSet::new(),
            changed_runs: BTreeSet::new(),
            closed_runs: Vec::new(),
            history: Vec::new(),
            ledger: Vec::new(),
        }
    }

    /// Carries a write out, or leaves all as it is where what it rests on is not so.
    pub(super) fn decide(&mut self, write: &RunWrite) -> RunWriteResult {
        self.carry_out(write).unwrap_or(RunWriteResult::Stale)
    }

    /// What has changed.
    pub(super) fn changes(self) -> Changes {
        let Batch { jobs, runs, .. } = self;
        let in_set = |set: &BTreeSet<RunId>| -> Vec<KeptRun> {
            set.iter().filter_map(|id| runs.get(id)).copied().collect()
        };
        let state = |job: &JobKey| Some((*job, jobs.get(job)?.state));
        Changes {
            states: self.changed_jobs.iter().filter_map(state).collect(),
            opened: in_set(&self.opened),
            changed: in_set(&self.changed_runs),
            closed: self.closed_runs,
            history: self.history,
            ledger: self.ledger,
        }
    }

    fn carry_out(&mut self, write: &RunWrite) -> Option<RunWriteResult> {
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
                self.rests_on(*on)?;
                let id = self.fresh_ids.pop_front()?;
                let lease_until = self.now.saturating_add(*lease);
                let claim = owner.map(|owner| Claim { owner, token: FencingToken(1), lease_until });
                self.advance(on.job, *advance);
                self.record(on.job, closed, postponed);
                let run = OpenRun {
                    id,
                    job: on.job,
                    generation: on.generation,
                    scheduled: *scheduled,
                    cause: Cause::Scheduled,
                    repeat: advance.used,
                    progress: *progress,
                    claim,
                };
                self.runs.insert(id, KeptRun { run, last_token: u64::from(claim.is_some()) });
                self.opened.insert(id);
                Some(RunWriteResult::Begun { run: id, claim })
            }
            RunWrite::Skip { on, advance, closed, postponed } => {
                self.rests_on(*on)?;
                self.advance(on.job, *advance);
                self.record(on.job, closed, postponed);
                Some(RunWriteResult::Done)
            }
            RunWrite::Claim { run, seen, owner, lease, progress } => {
                let lease_until = self.now.saturating_add(*lease);
                self.claim(*run, *seen, *owner, lease_until, *progress)
            }
            RunWrite::RenewLease { run, token, lease } => {
                let lease_until = self.now.saturating_add(*lease);
                let claim = self.held(*run, *token)?.run.claim.as_mut()?;
                claim.lease_until = lease_until;
                let claim = *claim;
                self.touch(*run);
                Some(RunWriteResult::Claimed(claim))
            }
            RunWrite::Continue { run, token, entry, counts, progress } => {
                let kept = self.held(*run, *token)?;
                kept.run.claim = None;
                kept.run.progress = *progress;
                let job = kept.run.job;
                self.touch(*run);
                self.counts(job, *counts);
                self.record(job, &[], entry.as_slice());
                Some(RunWriteResult::Done)
            }
            RunWrite::Finish { run, token, entry, counts, closed, lifecycle } => {
                let OpenRun { job, generation, .. } = self.held(*run, *token)?.run;
                self.close(*run);
                self.counts(job, *counts);
                self.record(job, std::slice::from_ref(closed), entry.as_slice());
                let is_last = !self.has_open(job, generation);
                let over = self.jobs.get_mut(&job).filter(|kept| {
                    is_last
                        && kept.generation == generation
                        && kept.state.due.is_none()
                        && kept.state.lifecycle == Lifecycle::Active
                });
                if let (Some(lifecycle), Some(kept)) = (lifecycle, over) {
                    finish(&mut kept.state, *lifecycle, self.now);
                }
                Some(RunWriteResult::Done)
            }
        }
    }

    fn rests_on(&self, on: DueJob) -> Option<()> {
        let kept = self.jobs.get(&on.job)?;
        let as_seen = kept.generation == on.generation && kept.state.due == Some(on.due);
        (as_seen && kept.is_on && kept.state.lifecycle == Lifecycle::Active).then_some(())
    }

    fn held(&mut self, run: RunId, token: FencingToken) -> Option<&mut KeptRun> {
        let kept = self.runs.get_mut(&run);
        kept.filter(|kept| kept.run.claim.is_some_and(|claim| claim.token == token))
    }

    fn claim(
        &mut self,
        id: RunId,
        seen: Option<FencingToken>,
        owner: NodeId,
        lease_until: Instant,
        progress: Progress,
    ) -> Option<RunWriteResult> {
        let kept = self.runs.get_mut(&id)?;
        let is_free = kept.run.claim.is_none_or(|claim| claim.lease_until < self.now);
        let moved_on = kept.run.claim.is_none() && kept.run.progress != progress;
        if !is_free || moved_on || kept.run.claim.map(|claim| claim.token) != seen {
            return None;
        }
        kept.last_token += 1;
        let claim = Claim { owner, token: FencingToken(kept.last_token), lease_until };
        kept.run.claim = Some(claim);
        kept.run.progress = progress;
        self.touch(id);
        Some(RunWriteResult::Claimed(claim))
    }

    fn touch(&mut self, run: RunId) {
        if !self.opened.contains(&run) {
            self.changed_runs.insert(run);
        }
    }

    fn close(&mut self, run: RunId) {
        self.runs.remove(&run);
        self.changed_runs.remove(&run);
        if !self.opened.remove(&run) {
            self.closed_runs.push(run);
        }
    }

    /// Whether a run of a job's schedule is open. All of them were read where it matters.
    fn has_open(&self, job: JobKey, generation: u64) -> bool {
        let mut runs = self.runs.values().map(|kept| &kept.run);
        runs.any(|run| {
            run.job == job && run.generation == generation && run.cause == Cause::Scheduled
        })
    }

    fn advance(&mut self, job: JobKey, advance: Advance) {
        let Some(generation) = self.jobs.get(&job).map(|kept| kept.generation) else { return };
        let ends = advance.lifecycle != Lifecycle::Active && !self.has_open(job, generation);
        let lifecycle = if ends { advance.lifecycle } else { Lifecycle::Active };
        let Some(kept) = self.jobs.get_mut(&job) else { return };
        kept.state.due = advance.due;
        kept.state.used = advance.used;
        finish(&mut kept.state, lifecycle, self.now);
        self.changed_jobs.insert(job);
    }

    fn counts(&mut self, job: JobKey, counts: AttemptCounts) {
        let Some(kept) = self.jobs.get_mut(&job) else { return };
        let state = &mut kept.state;
        state.last_execution = counts.executed.or(state.last_execution);
        state.executions += u64::from(counts.executed.is_some());
        state.failures += u64::from(counts.failed);
        state.faulted += u64::from(counts.faulted);
        self.changed_jobs.insert(job);
    }

    fn record(&mut self, job: JobKey, closed: &[LedgerRecord], entries: &[HistoryEntry]) {
        self.ledger.extend(closed.iter().map(|record| (job, record.clone())));
        self.history.extend(entries.iter().map(|entry| (job, entry.clone())));
    }
}

fn finish(state: &mut JobState, lifecycle: Lifecycle, now: Instant) {
    state.lifecycle = lifecycle;
    state.finished = match lifecycle {
        Lifecycle::Active => None,
        _ => state.finished.or(Some(now)),
    };
}
