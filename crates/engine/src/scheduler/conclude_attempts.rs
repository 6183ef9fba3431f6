//! Concludes attempts: retry, redeliver, run the error action, or close the occurrence.

use std::collections::VecDeque;

use kalends_actions::AttemptReport;
use kalends_domain::{
    ActionRole, Attempt, AttemptStatus, Conclusion, HistoryEntry, Lifecycle, OnFault, Outcome,
    Retries, Switch, conclude, final_state,
};
use kalends_recurrence::Instant;
use kalends_store::record::{Disposition, GateState, LedgerRecord, OpenRun, Progress};
use kalends_store::{AttemptCounts, ClaimAfter, RunWrite, StoreError};

use super::commit_results::{NextAttempt, WriteContext};
use super::{STORE_RETRY, Scheduler};
use crate::admission::Slot;
use crate::status::CallKind;
use crate::worker::{AssignmentResult, FinishedAssignment, action_for, has_failed};

impl Scheduler {
    /// Queues the writes of results that do not depend on the job's current state.
    pub(super) fn queue_final_results(&mut self, now: Instant) {
        for finished in std::mem::take(&mut self.final_results) {
            self.queue_conclusion(finished, None, now);
        }
    }

    /// Queues the writes of results after which another attempt may follow.
    pub(super) fn handle_gate_states(
        &mut self,
        finished: VecDeque<Box<FinishedAssignment>>,
        gate_states: Result<Vec<Option<GateState>>, StoreError>,
    ) {
        let Ok(gate_states) = gate_states else {
            self.undecided_results.extend(finished);
            return self.pause_store_calls(CallKind::Read);
        };
        let now = self.now();
        self.outage.call_succeeded(CallKind::Read, now);
        for (finished, gate) in finished.into_iter().zip(gate_states) {
            self.queue_conclusion(finished, gate, now);
        }
    }

    /// Queues the write for one finished assignment. `gate` is the current gate state of the job, or
    /// `None` if the job was deleted or the state is not needed.
    fn queue_conclusion(
        &mut self,
        finished: Box<FinishedAssignment>,
        gate: Option<GateState>,
        now: Instant,
    ) {
        let (run, token) = (finished.run, finished.claim.token);
        let write = match conclusion_of(&finished, gate, now) {
            AfterAttempt::Continue { entry, counts, progress } => {
                let slot = gate.and_then(|gate| self.slot_now(&finished, gate, progress, now));
                let (claim, next) = match slot {
                    Some(slot) => {
                        let lease = self.settings.lease;
                        (ClaimAfter::Keep { lease }, NextAttempt::Now { progress, slot })
                    }
                    // A run of a disabled collection is loaded when the collection is enabled.
                    None if is_held(&finished) => (ClaimAfter::Release, NextAttempt::None),
                    None => {
                        let waiting = OpenRun { progress, claim: None, ..run };
                        (ClaimAfter::Release, NextAttempt::Later(waiting))
                    }
                };
                let write =
                    RunWrite::Continue { run: run.id, token, entry, counts, progress, claim };
                (write, WriteContext::Conclude(finished, next))
            }
            AfterAttempt::Finish { entry, counts, disposition, lifecycle } => {
                let closed = ledger_row(&run, disposition, now);
                let (run, unused) = (run.id, None);
                let write =
                    RunWrite::Finish { run, token, entry, counts, closed, lifecycle, unused };
                (write, WriteContext::Conclude(finished, NextAttempt::None))
            }
        };
        self.pending_writes.push_back(write);
    }

    /// A slot for an attempt that is due at once: the node then keeps its claim. `None` if the
    /// attempt is due later, must not start now, or has no free slot.
    fn slot_now(
        &mut self,
        finished: &FinishedAssignment,
        gate: GateState,
        progress: Progress,
        now: Instant,
    ) -> Option<Slot> {
        let may_start =
            progress.next_at <= now && gate.collection == Switch::Enabled && !self.is_stopping;
        let job = &finished.job_for_run;
        let slot = may_start.then(|| Slot::of(action_for(job, progress.role), job.collection))?;
        let is_free =
            self.parked.key_of(slot).is_none() && self.admission.try_acquire(slot).is_ok();
        is_free.then_some(slot)
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
    },
}

fn is_held(finished: &FinishedAssignment) -> bool {
    matches!(finished.result, AssignmentResult::CollectionDisabled)
}

fn conclusion_of(
    finished: &FinishedAssignment,
    gate: Option<GateState>,
    now: Instant,
) -> AfterAttempt {
    let run = finished.run;
    let is_edited = gate.is_none_or(|job| job.generation != run.generation);
    let (conclusion, entry, counts) = match &finished.result {
        AssignmentResult::NotStarted | AssignmentResult::CollectionDisabled => {
            // Not at once: the cause may persist.
            let next_at = run.progress.next_at.max(now.saturating_add(STORE_RETRY));
            let progress = Progress { next_at, ..run.progress };
            let counts = AttemptCounts::default();
            return AfterAttempt::Continue { entry: None, counts, progress };
        }
        AssignmentResult::Superseded => {
            return AfterAttempt::Finish {
                entry: None,
                counts: AttemptCounts::default(),
                disposition: Disposition::Superseded,
                lifecycle: None,
            };
        }
        AssignmentResult::Attempted { started, ended: at, report } => {
            evaluate_attempt(finished, *started, *at, report)
        }
    };
    let next = match conclusion {
        Conclusion::Retry { at } => Some(Progress {
            retry: run.progress.retry + 1,
            redelivery: 0,
            next_at: at,
            first_started: run.progress.first_started.or(Some(entry.started)),
            ..run.progress
        }),
        Conclusion::Redeliver => {
            Some(Progress { redelivery: run.progress.redelivery + 1, next_at: now, ..run.progress })
        }
        Conclusion::RunErrorAction => Some(Progress {
            role: ActionRole::Error,
            retry: 0,
            redelivery: 0,
            next_at: now,
            first_started: None,
        }),
        Conclusion::Completed | Conclusion::Faulted => None,
    };
    let entry = Some(entry);
    match next {
        // No attempt of a replaced definition starts, not even a retry.
        Some(_) if is_edited => {
            let disposition = Disposition::Superseded;
            AfterAttempt::Finish { entry, counts, disposition, lifecycle: None }
        }
        Some(progress) => AfterAttempt::Continue { entry, counts, progress },
        None => {
            let disposition = match conclusion {
                Conclusion::Completed => Disposition::Completed,
                _ => Disposition::Failed,
            };
            let lifecycle = Some(final_state(conclusion));
            AfterAttempt::Finish { entry, counts, disposition, lifecycle }
        }
    }
}

/// Conclusion, history entry and counter changes of an executed attempt.
fn evaluate_attempt(
    finished: &FinishedAssignment,
    started: Instant,
    at: Instant,
    report: &AttemptReport,
) -> (Conclusion, HistoryEntry, AttemptCounts) {
    let (run, main) = (&finished.run, &finished.job_for_run.job.job.definition.action);
    let Progress { role, retry, redelivery, first_started, .. } = run.progress;
    let attempt =
        Attempt { role, retry, redelivery, first_started: first_started.unwrap_or(started) };
    let error = main.error_action.as_ref();
    let policy = match role {
        ActionRole::Main => main.retry.as_ref(),
        ActionRole::Error => error.and_then(|error| error.retry.as_ref()).or(main.retry.as_ref()),
    };
    let on_fault = if error.is_some() { OnFault::RunErrorAction } else { OnFault::Nothing };
    let conclusion = conclude(attempt, report.outcome, Retries::of(policy), on_fault, at);
    let entry = HistoryEntry {
        started,
        ended: at,
        expected: run.scheduled,
        status: match report.outcome {
            Outcome::Succeeded => AttemptStatus::Completed,
            _ => AttemptStatus::Failed,
        },
        message: report.message.clone(),
        retry,
        repeat: run.repeat,
        role,
        timing: report.timing,
        generation: Some(finished.job_for_run.job.job.generation),
    };
    let is_main = role == ActionRole::Main;
    let exhausted = matches!(conclusion, Conclusion::Faulted | Conclusion::RunErrorAction);
    let counts = AttemptCounts {
        executed: is_main.then_some(started),
        failed: has_failed(role, report),
        faulted: is_main && exhausted,
    };
    (conclusion, entry, counts)
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
