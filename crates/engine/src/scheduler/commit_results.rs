//! Applies the results of commits and assigns claimed runs to workers.

use std::sync::Arc;
use std::time::Duration;

use kalends_actions::AttemptReport;
use kalends_domain::{MissedPolicy, Outcome, Overlap, REDELIVERIES_MAX};
use kalends_recurrence::Instant;
use kalends_store::record::{Cause, Claim, JobForRun, OpenRun, Progress, SlotKey};
use kalends_store::{Advance, Due, DueJob, RunWriteResult, StoreError};

use super::{DueItem, Scheduler};
use crate::admission::Slot;
use crate::status::CallKind;
use crate::worker::{Assignment, AssignmentResult};

/// History message of an attempt whose process crashed too often.
const REDELIVERIES_EXHAUSTED: &str =
    "The attempt was given up: each time it was made, the process that made it died.";

/// Context of a pending write, needed to apply its result.
pub(super) enum WriteContext {
    Begin {
        due: Due,
        scheduled: Instant,
        progress: Progress,
        job_for_run: Arc<JobForRun>,
        advance: Advance,
        /// The slot of the first attempt if it starts now.
        slot: Option<Slot>,
        /// The host or collection that the run is parked for.
        waits_for: Option<SlotKey>,
    },
    Skip {
        due: Due,
        next: Option<Instant>,
    },
    Claim {
        run: OpenRun,
        progress: Progress,
        job_for_run: Arc<JobForRun>,
        slot: Slot,
    },
    Park {
        run: OpenRun,
        waits_for: SlotKey,
    },
    Conclude(Box<Assignment>, NextAttempt),
}

/// The next attempt of a run after a finished assignment.
pub(super) enum NextAttempt {
    /// The run is closed, or waits until its job and collection are enabled.
    None,
    /// The run waits in the timetable, at least until `not_before`.
    Later { run: OpenRun, not_before: Instant },
    /// The attempt starts under the kept claim when the write is committed.
    Now {
        progress: Progress,
        slot: Slot,
        /// The job with its present definition.
        job_for_run: Arc<JobForRun>,
    },
}

impl Scheduler {
    pub(super) fn handle_commit_results(
        &mut self,
        began: Duration,
        contexts: Vec<WriteContext>,
        results: Result<Vec<RunWriteResult>, StoreError>,
    ) {
        let Ok(results) = results else {
            // Nothing is lost: results are queued again, fencing tokens prevent duplicate records, and
            // loads find the due jobs and runs again.
            contexts.into_iter().for_each(|context| self.undo_write(context));
            return self.pause_store_calls(CallKind::Write);
        };
        let now = self.now();
        self.outage.call_succeeded(CallKind::Write, now);
        let mut assignments = Vec::new();
        for (context, result) in contexts.into_iter().zip(results) {
            assignments.extend(self.apply_result(context, result, began, now));
        }
        self.start_attempts(assignments);
    }

    /// Releases or queues again whatever a failed or stale write was about.
    fn undo_write(&mut self, context: WriteContext) {
        match context {
            WriteContext::Begin { due, slot, .. } => {
                slot.into_iter().for_each(|slot| self.admission.release(slot));
                self.release_item(&DueItem::Job(due));
            }
            WriteContext::Skip { due, .. } => self.release_item(&DueItem::Job(due)),
            WriteContext::Claim { run, slot, .. } => {
                self.admission.release(slot);
                self.release_item(&DueItem::Run(run));
            }
            WriteContext::Park { run, .. } => self.release_item(&DueItem::Run(run)),
            WriteContext::Conclude(finished, next) => {
                if let NextAttempt::Now { slot, .. } = next {
                    self.admission.release(slot);
                }
                self.queue_result(finished);
            }
        }
    }

    /// Applies the result of one write. Returns the assignment if an attempt starts.
    fn apply_result(
        &mut self,
        context: WriteContext,
        result: RunWriteResult,
        began: Duration,
        now: Instant,
    ) -> Option<Box<Assignment>> {
        match (context, result) {
            (
                WriteContext::Begin {
                    due,
                    scheduled,
                    progress,
                    job_for_run,
                    advance,
                    slot,
                    waits_for,
                },
                RunWriteResult::Begun { run, claim },
            ) => {
                self.busy_jobs.remove(&due.on.job);
                self.schedule_next(due, advance.due);
                let run = OpenRun {
                    id: run,
                    job: due.on.job,
                    generation: due.on.generation,
                    scheduled,
                    cause: Cause::Scheduled,
                    repeat: advance.used,
                    progress,
                    claim,
                    waits_for,
                };
                match (claim.zip(slot), waits_for) {
                    (Some((claim, slot)), _) => {
                        return Some(self.assign(run, claim, began, job_for_run, slot));
                    }
                    (None, Some(key)) => self.parked.add(key),
                    (None, None) => self.timetable.add_run(run),
                }
                None
            }
            (WriteContext::Skip { due, next }, RunWriteResult::Done) => {
                self.busy_jobs.remove(&due.on.job);
                self.schedule_next(due, next);
                None
            }
            (
                WriteContext::Claim { run, progress, job_for_run, slot },
                RunWriteResult::Claimed(claim),
            ) => {
                self.busy_runs.remove(&run.id);
                self.parked.claimed(run.id);
                let is_exhausted = self.is_exhausted(&run);
                let run = OpenRun { progress, claim: Some(claim), waits_for: None, ..run };
                let assignment = self.assign(run, claim, began, job_for_run, slot);
                match is_exhausted {
                    true => {
                        self.fail_after_redeliveries(assignment, now);
                        None
                    }
                    false => Some(assignment),
                }
            }
            (WriteContext::Park { run, waits_for }, RunWriteResult::Done) => {
                self.release_item(&DueItem::Run(run));
                self.parked.add(waits_for);
                None
            }
            (
                WriteContext::Conclude(finished, NextAttempt::Now { progress, slot, job_for_run }),
                RunWriteResult::Claimed(claim),
            ) => {
                self.logged_failures.remove(&finished.run.id);
                let run = OpenRun { progress, claim: Some(claim), ..finished.run };
                let assignment = self.assign(run, claim, began, job_for_run, slot);
                match self.is_stopping {
                    // The commit was in flight when the shutdown began.
                    true => {
                        self.return_assignment(assignment);
                        None
                    }
                    false => Some(assignment),
                }
            }
            (WriteContext::Conclude(finished, next), result) => {
                self.held_claims.remove(&finished.run.id);
                self.logged_failures.remove(&finished.run.id);
                match next {
                    NextAttempt::Later { run, not_before } if result == RunWriteResult::Done => {
                        self.timetable.add_run_not_before(run, not_before);
                        return None;
                    }
                    NextAttempt::Now { slot, .. } => self.admission.release(slot),
                    _ => {}
                }
                self.load_waiting_runs(&finished, now);
                None
            }
            // Another node was faster or the job was edited.
            (context, _) => {
                match &context {
                    WriteContext::Begin { due, .. } | WriteContext::Skip { due, .. } => {
                        self.changed_jobs.push(*due);
                    }
                    _ => self.load_schedule.load_soon(now),
                }
                self.undo_write(context);
                None
            }
        }
    }

    fn assign(
        &mut self,
        run: OpenRun,
        claim: Claim,
        began: Duration,
        job_for_run: Arc<JobForRun>,
        slot: Slot,
    ) -> Box<Assignment> {
        let fence = self.hold_claim(run.id, claim, began);
        let written = job_for_run.job.job.definition.extensions.timeout.as_ref();
        let timeout = written.map_or(self.settings.attempt_timeout, |timeout| *timeout.value());
        let result = AssignmentResult::NotStarted;
        Box::new(Assignment { run, claim, fence, job_for_run, slot, timeout, result })
    }

    /// Decides again on results whose next attempt was to start at once, now that a shutdown begins.
    pub(super) fn withdraw_next_attempts(&mut self) {
        for (write, context) in std::mem::take(&mut self.pending_writes) {
            match context {
                WriteContext::Conclude(_, NextAttempt::Now { .. }) => self.undo_write(context),
                context => self.pending_writes.push_back((write, context)),
            }
        }
    }

    /// Returns the slot of an attempt that does not start, and queues its result.
    pub(super) fn return_assignment(&mut self, assignment: Box<Assignment>) {
        self.admission.release(assignment.slot);
        self.queue_result(assignment);
    }

    /// Whether the process crashed in every delivery of the current attempt.
    pub(super) fn is_exhausted(&self, run: &OpenRun) -> bool {
        let owner_crashed = run.claim.is_some_and(|claim| claim.owner != self.node);
        owner_crashed && run.progress.redelivery >= REDELIVERIES_MAX
    }

    /// Fails an attempt whose process crashed in every delivery.
    fn fail_after_redeliveries(&mut self, mut assignment: Box<Assignment>, now: Instant) {
        let report = AttemptReport::new(Outcome::Indeterminate, REDELIVERIES_EXHAUSTED);
        assignment.result = AssignmentResult::Attempted { started: now, ended: now, report };
        self.return_assignment(assignment);
    }

    /// Loads at once if other occurrences may have waited for the end of this run.
    fn load_waiting_runs(&mut self, finished: &Assignment, now: Instant) {
        let extensions = &finished.job_for_run.job.job.definition.extensions;
        let missed = extensions.missed_runs.as_ref();
        let runs_all_missed = missed.is_some_and(|missed| missed.policy == MissedPolicy::All);
        let is_awaited = self.waiting_jobs.remove(&finished.run.job);
        if is_awaited || runs_all_missed || extensions.overlap == Some(Overlap::QueueOne) {
            self.load_schedule.load_now(now);
        }
        // It may have been enabled before its claim was released.
        if matches!(finished.result, AssignmentResult::Held) {
            self.load_schedule.nudged();
        }
    }

    fn schedule_next(&mut self, due: Due, next: Option<Instant>) {
        if let Some(next) = next {
            self.timetable.add_job(Due { on: DueJob { due: next, ..due.on }, ..due });
        }
    }
}
