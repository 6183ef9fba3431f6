//! Concludes attempts: retry, redeliver, run the error action, or close the occurrence.

use std::collections::VecDeque;

use kalends_actions::AttemptReport;
use kalends_domain::{
    ActionRole, Attempt, AttemptStatus, Conclusion, HistoryEntry, OnFault, Outcome, Retries,
    conclude, final_state,
};
use kalends_recurrence::Instant;
use kalends_store::record::{Cause, Disposition, GateState, LedgerRecord, OpenRun, Progress};
use kalends_store::{AttemptCounts, RunWrite, StoreError};

use super::commit_results::WriteContext;
use super::{STORE_RETRY, Scheduler};
use crate::worker::{AssignmentResult, FinishedAssignment, has_failed};

impl Scheduler {
    /// Queues the writes of results that do not depend on the job's current state.
    pub(super) fn queue_final_results(&mut self, now: Instant) {
        let writes =
            self.final_results.drain(..).map(|finished| conclusion_write(finished, None, now));
        self.pending_writes.extend(writes);
    }

    /// Queues the writes of results after which another attempt may follow.
    pub(super) fn handle_gate_states(
        &mut self,
        finished: VecDeque<Box<FinishedAssignment>>,
        gate_states: Result<Vec<Option<GateState>>, StoreError>,
    ) {
        let Ok(gate_states) = gate_states else {
            self.undecided_results.extend(finished);
            return self.pause_store_calls();
        };
        let now = self.now();
        self.outage.store_responded(now);
        let write = |(finished, gate)| conclusion_write(finished, gate, now);
        self.pending_writes.extend(finished.into_iter().zip(gate_states).map(write));
    }
}

/// The write for one finished assignment. `gate` is the current gate state of the job, or `None` if the
/// job was deleted or the state is not needed.
fn conclusion_write(
    finished: Box<FinishedAssignment>,
    gate: Option<GateState>,
    now: Instant,
) -> (RunWrite, WriteContext) {
    let (run, token) = (finished.run, finished.claim.token);
    let is_edited = gate.is_none_or(|job| job.generation != run.generation);
    let (conclusion, entry, counts) = match &finished.result {
        AssignmentResult::NotStarted | AssignmentResult::CollectionDisabled => {
            // Not at once: the cause may persist.
            let next_at = run.progress.next_at.max(now.saturating_add(STORE_RETRY));
            let progress = Progress { next_at, ..run.progress };
            let write = RunWrite::Continue {
                run: run.id,
                token,
                entry: None,
                counts: AttemptCounts::default(),
                progress,
            };
            // A run of a disabled collection is loaded again when the collection is enabled.
            let waiting = OpenRun { progress, claim: None, ..run };
            let waiting =
                matches!(finished.result, AssignmentResult::NotStarted).then_some(waiting);
            return (write, WriteContext::Conclude(finished, waiting));
        }
        AssignmentResult::Superseded => {
            let write = RunWrite::Finish {
                run: run.id,
                token,
                entry: None,
                counts: AttemptCounts::default(),
                closed: ledger_row(&run, Disposition::Superseded, now),
                lifecycle: None,
            };
            return (write, WriteContext::Conclude(finished, None));
        }
        AssignmentResult::Attempted { started, ended: at, report } => {
            evaluate_attempt(&finished, *started, *at, report)
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
            let closed = ledger_row(&run, Disposition::Superseded, now);
            let write =
                RunWrite::Finish { run: run.id, token, entry, counts, closed, lifecycle: None };
            (write, WriteContext::Conclude(finished, None))
        }
        Some(progress) => {
            let write = RunWrite::Continue { run: run.id, token, entry, counts, progress };
            let waiting = OpenRun { progress, claim: None, ..run };
            (write, WriteContext::Conclude(finished, Some(waiting)))
        }
        None => {
            let disposition = match conclusion {
                Conclusion::Completed => Disposition::Completed,
                _ => Disposition::Failed,
            };
            let closed = ledger_row(&run, disposition, now);
            let lifecycle = (run.cause == Cause::Scheduled).then(|| final_state(conclusion));
            let write = RunWrite::Finish { run: run.id, token, entry, counts, closed, lifecycle };
            (write, WriteContext::Conclude(finished, None))
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
