//! Concludes attempts: retry, redeliver, run the error action, or close the occurrence.
//!
//! The definition of the attempt is recorded with it; the present definition of the job decides what
//! follows a failed attempt.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use kalends_actions::AttemptReport;
use kalends_domain::{
    ActionRole, Attempt, AttemptStatus, CloseReason, ClosedOccurrences, Conclusion, HistoryEntry,
    Lifecycle, MainAction, OnFault, Outcome, Retries, conclude, final_state, rule_of,
};
use kalends_recurrence::Instant;
use kalends_store::record::{Disposition, GateState, JobForRun, LedgerRecord, OpenRun, Progress};
use kalends_store::{
    AttemptCounts, ClaimAfter, EngineStore, RunWrite, StoreError, UnusedOccurrence,
};

use super::commit_results::{NextAttempt, WriteContext};
use super::{STORE_RETRY, Scheduler};
use crate::admission::Slot;
use crate::messages::postponed;
use crate::status::CallKind;
use crate::worker::{Assignment, AssignmentResult, action_for, has_failed, is_held};

/// A job when one of its attempts is concluded.
#[derive(Clone)]
pub(super) struct CurrentJob {
    gate: GateState,
    /// Its present definition decides what follows a failed attempt.
    job_for_run: Arc<JobForRun>,
}

/// Reads the jobs of finished assignments; `None` for a job that was deleted. Definitions are read only
/// for jobs that were edited since the attempt was assigned.
pub(super) async fn read_current_jobs(
    store: &dyn EngineStore,
    finished: &VecDeque<Box<Assignment>>,
) -> Result<Vec<Option<CurrentJob>>, StoreError> {
    let jobs = finished.iter().map(|finished| finished.run.job).collect();
    let gate_states = store.gate_states(jobs).await?;
    let used = finished.iter().map(|finished| Arc::clone(&finished.job_for_run));
    let current = |(gate, job_for_run): (Option<GateState>, _)| {
        gate.map(|gate| CurrentJob { gate, job_for_run })
    };
    let mut current: Vec<_> = gate_states.into_iter().zip(used).map(current).collect();
    let is_edited =
        |current: &CurrentJob| current.gate.generation != current.job_for_run.job.job.generation;
    let edited = current.iter().flatten().filter(|current| is_edited(current));
    let edited: BTreeSet<_> = edited.map(|current| current.job_for_run.job.key).collect();
    if edited.is_empty() {
        return Ok(current);
    }
    let mut readable: Vec<_> = edited.into_iter().collect();
    let jobs = match store.jobs_for_run(readable.clone()).await {
        // The definitions that the attempts of these jobs used decide.
        Err(StoreError::Unreadable(unreadable)) => {
            readable.retain(|job| unreadable.iter().all(|other| other.key != *job));
            store.jobs_for_run(readable.clone()).await?
        }
        jobs => jobs?,
    };
    let jobs: HashMap<_, _> = readable.into_iter().zip(jobs).collect();
    for current in &mut current {
        let Some(CurrentJob { gate, job_for_run }) = current else { continue };
        match jobs.get(&job_for_run.job.key) {
            None => {}
            Some(None) => *current = None,
            Some(Some(edited)) => {
                let job = &edited.job.job;
                gate.generation = job.generation;
                gate.schedule_generation = job.schedule_generation;
                gate.switch = job.definition.switch;
                *job_for_run = Arc::clone(edited);
            }
        }
    }
    Ok(current)
}

impl Scheduler {
    /// Queues the writes of results that do not depend on the job's current state.
    pub(super) fn queue_final_results(&mut self, now: Instant) {
        for finished in std::mem::take(&mut self.final_results) {
            self.queue_conclusion(finished, None, now);
        }
    }

    /// Queues the writes of results after which another attempt may follow.
    pub(super) fn handle_current_jobs(
        &mut self,
        finished: VecDeque<Box<Assignment>>,
        jobs: Result<Vec<Option<CurrentJob>>, StoreError>,
    ) {
        let Ok(jobs) = jobs else {
            self.undecided_results.extend(finished);
            return self.pause_store_calls(CallKind::Read);
        };
        let now = self.now();
        self.outage.call_succeeded(CallKind::Read, now);
        for (finished, job) in finished.into_iter().zip(jobs) {
            self.queue_conclusion(finished, job, now);
        }
    }

    /// Queues the write for one finished assignment. `job` is the current state of the job, or `None`
    /// if the job was deleted or the state is not needed.
    fn queue_conclusion(
        &mut self,
        finished: Box<Assignment>,
        job: Option<CurrentJob>,
        now: Instant,
    ) {
        let (run, token) = (finished.run, finished.claim.token);
        let conclusion = self.conclusion_of(&finished, job.as_ref(), now);
        if conclusion.has_exhausted_attempts() {
            self.log_failed_run(&finished);
        }
        let write = match conclusion {
            AfterAttempt::Continue { entry, counts, progress } => {
                let is_held = match &job {
                    Some(job) => is_held(&run, &job.gate, now),
                    None => matches!(finished.result, AssignmentResult::Held),
                };
                let next = match job.filter(|_| !is_held) {
                    Some(job) => self.attempt_now(job, progress, now),
                    None => None,
                };
                let (claim, next) = match next {
                    Some(next) => (ClaimAfter::Keep { lease: self.settings.lease }, next),
                    // A held run is loaded when its job or collection is enabled or the pause ends.
                    None if is_held => (ClaimAfter::Release, NextAttempt::None),
                    None => {
                        let waiting = OpenRun { progress, claim: None, ..run };
                        let not_before = match finished.result {
                            // Not at once: the cause may persist.
                            AssignmentResult::NotStarted => now.saturating_add(STORE_RETRY),
                            _ => progress.next_at,
                        };
                        (ClaimAfter::Release, NextAttempt::Later { run: waiting, not_before })
                    }
                };
                let write =
                    RunWrite::Continue { run: run.id, token, entry, counts, progress, claim };
                (write, WriteContext::Conclude(finished, next))
            }
            AfterAttempt::Finish { entry, counts, disposition, lifecycle, unused } => {
                let closed = ledger_row(&run, disposition, now);
                let run = run.id;
                let write =
                    RunWrite::Finish { run, token, entry, counts, closed, lifecycle, unused };
                (write, WriteContext::Conclude(finished, NextAttempt::None))
            }
        };
        self.pending_writes.push_back(write);
    }

    /// Logs a run whose attempts have all failed, once even if the write of its result is repeated.
    fn log_failed_run(&mut self, finished: &Assignment) {
        let Assignment { run, job_for_run, result, .. } = finished;
        let AssignmentResult::Attempted { report, .. } = result else { return };
        // An error action that succeeds ends a run that has been logged.
        if report.outcome != Outcome::Succeeded && self.logged_failures.insert(run.id) {
            let (job, scheduled) = (&job_for_run.job.path, run.scheduled);
            let (action, attempts) = (run.progress.role, run.progress.retry + 1);
            let error = report.summary();
            tracing::warn!(%job, %scheduled, ?action, attempts, error, "run failed");
        }
    }

    /// The next attempt, if it is due at once and has a free slot: the node then keeps its claim.
    fn attempt_now(
        &mut self,
        job: CurrentJob,
        progress: Progress,
        now: Instant,
    ) -> Option<NextAttempt> {
        let job_for_run = job.job_for_run;
        let may_start = progress.next_at <= now && !self.is_stopping;
        let slot = may_start
            .then(|| Slot::of(action_for(&job_for_run, progress.role), job_for_run.collection))?;
        let uptime = self.services.clock.uptime();
        let is_free =
            self.parked.key_of(slot).is_none() && self.admission.try_acquire(slot, uptime).is_ok();
        is_free.then_some(NextAttempt::Now { progress, slot, job_for_run })
    }

    fn conclusion_of(
        &self,
        finished: &Assignment,
        job: Option<&CurrentJob>,
        now: Instant,
    ) -> AfterAttempt {
        let run = finished.run;
        match &finished.result {
            // Unchanged: whether it passed while its job could not run depends on its time.
            AssignmentResult::NotStarted | AssignmentResult::Edited | AssignmentResult::Held => {
                AfterAttempt::unattempted(run.progress)
            }
            AssignmentResult::Superseded => AfterAttempt::closed(Disposition::Superseded, None),
            AssignmentResult::ErrorActionRemoved => {
                AfterAttempt::closed(Disposition::Failed, Some(final_state(Conclusion::Faulted)))
            }
            AssignmentResult::PassedWhileOff(reason) => self.close_unused(finished, *reason, now),
            AssignmentResult::Attempted { started, ended, report } => {
                after_attempt(finished, job, (*started, *ended, report), now)
            }
        }
    }

    /// Closes an occurrence that passed while its job could not run, for this reason.
    fn close_unused(
        &self,
        finished: &Assignment,
        reason: CloseReason,
        now: Instant,
    ) -> AfterAttempt {
        let (run, job) = (finished.run, &finished.job_for_run.job.job);
        let rule = rule_of(&job.definition, job.created, &self.schedules);
        let next = rule.ok().and_then(|rule| rule.without_count().next_after(now));
        let closed = ClosedOccurrences { from: run.scheduled, to: run.scheduled, count: 1, reason };
        AfterAttempt::Finish {
            entry: Some(postponed(&closed, job.generation, run.repeat, now)),
            counts: AttemptCounts::default(),
            disposition: closed.reason.disposition(),
            lifecycle: Some(Lifecycle::Completed),
            unused: Some(UnusedOccurrence { next }),
        }
    }
}

/// How a run goes on after an assignment.
enum AfterAttempt {
    Continue {
        entry: Option<HistoryEntry>,
        counts: AttemptCounts,
        progress: Progress,
    },
    Finish {
        entry: Option<HistoryEntry>,
        counts: AttemptCounts,
        disposition: Disposition,
        lifecycle: Option<Lifecycle>,
        unused: Option<UnusedOccurrence>,
    },
}

impl AfterAttempt {
    /// No attempt was made; the run goes on.
    fn unattempted(progress: Progress) -> AfterAttempt {
        AfterAttempt::Continue { entry: None, counts: AttemptCounts::default(), progress }
    }

    /// No attempt was made; the run is closed.
    fn closed(disposition: Disposition, lifecycle: Option<Lifecycle>) -> AfterAttempt {
        let (entry, counts, unused) = (None, AttemptCounts::default(), None);
        AfterAttempt::Finish { entry, counts, disposition, lifecycle, unused }
    }

    /// Whether this was the last attempt of an action, and it failed.
    fn has_exhausted_attempts(&self) -> bool {
        match self {
            AfterAttempt::Continue { counts, .. } => counts.faulted,
            AfterAttempt::Finish { disposition, .. } => *disposition == Disposition::Failed,
        }
    }
}

/// How a run goes on after an executed attempt.
fn after_attempt(
    finished: &Assignment,
    job: Option<&CurrentJob>,
    (started, ended, report): (Instant, Instant, &AttemptReport),
    now: Instant,
) -> AfterAttempt {
    let run = finished.run;
    let entry = history_entry(finished, started, ended, report);
    let main = &job.map_or(&finished.job_for_run, |job| &job.job_for_run).job.job.definition.action;
    let conclusion = conclusion_by(main, &run, (started, ended, report.outcome));
    let counts = attempt_counts(&run, conclusion, started, report);
    // A success is concluded without reading the job.
    let is_superseded = report.outcome != Outcome::Succeeded
        && job.is_none_or(|job| run.is_superseded(job.gate.schedule_generation));
    if is_superseded {
        return AfterAttempt::Finish {
            entry: Some(entry),
            counts: AttemptCounts { faulted: false, ..counts },
            disposition: Disposition::Superseded,
            lifecycle: None,
            unused: None,
        };
    }
    let progress = match conclusion {
        Conclusion::Retry { at } => Progress {
            retry: run.progress.retry + 1,
            redelivery: 0,
            next_at: at,
            first_started: run.progress.first_started.or(Some(entry.started)),
            ..run.progress
        },
        Conclusion::Redeliver => {
            Progress { redelivery: run.progress.redelivery + 1, next_at: now, ..run.progress }
        }
        Conclusion::RunErrorAction => Progress { role: ActionRole::Error, ..Progress::first(now) },
        Conclusion::Completed | Conclusion::Faulted => {
            let disposition = match conclusion {
                Conclusion::Completed => Disposition::Completed,
                _ => Disposition::Failed,
            };
            return AfterAttempt::Finish {
                entry: Some(entry),
                counts,
                disposition,
                lifecycle: Some(final_state(conclusion)),
                unused: None,
            };
        }
    };
    AfterAttempt::Continue { entry: Some(entry), counts, progress }
}

/// The conclusion of an attempt by the policies of a definition.
fn conclusion_by(
    main: &MainAction,
    run: &OpenRun,
    (started, ended, outcome): (Instant, Instant, Outcome),
) -> Conclusion {
    let Progress { role, retry, redelivery, first_started, .. } = run.progress;
    let attempt =
        Attempt { role, retry, redelivery, first_started: first_started.unwrap_or(started) };
    let policy = match (role, &main.error_action) {
        (ActionRole::Main, _) => main.retry.as_deref(),
        (ActionRole::Error, Some(error)) => error.retry.as_deref().or(main.retry.as_deref()),
        // The error action was removed.
        (ActionRole::Error, None) => return Conclusion::Faulted,
    };
    let on_fault = match main.error_action {
        Some(_) => OnFault::RunErrorAction,
        None => OnFault::Nothing,
    };
    conclude(attempt, outcome, Retries::of(policy), on_fault, ended)
}

fn history_entry(
    finished: &Assignment,
    started: Instant,
    ended: Instant,
    report: &AttemptReport,
) -> HistoryEntry {
    let run = &finished.run;
    HistoryEntry {
        started,
        ended,
        expected: run.scheduled,
        status: match report.outcome {
            Outcome::Succeeded => AttemptStatus::Completed,
            _ => AttemptStatus::Failed,
        },
        message: report.message.clone(),
        retry: run.progress.retry,
        repeat: run.repeat,
        role: run.progress.role,
        timing: report.timing,
        generation: Some(finished.job_for_run.job.job.generation),
    }
}

fn attempt_counts(
    run: &OpenRun,
    conclusion: Conclusion,
    started: Instant,
    report: &AttemptReport,
) -> AttemptCounts {
    let role = run.progress.role;
    let is_main = role == ActionRole::Main;
    let exhausted = matches!(conclusion, Conclusion::Faulted | Conclusion::RunErrorAction);
    AttemptCounts {
        executed: is_main.then_some(started),
        failed: has_failed(role, report),
        faulted: is_main && exhausted,
    }
}

fn ledger_row(run: &OpenRun, disposition: Disposition, now: Instant) -> LedgerRecord {
    LedgerRecord {
        generation: run.generation,
        from: run.scheduled,
        to: run.scheduled,
        count: 1,
        cause: run.cause,
        disposition,
        closed: now,
    }
}
