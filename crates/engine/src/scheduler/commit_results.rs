//! What follows from what was written.

use std::sync::Arc;
use std::time::Duration;

use kalends_actions::AttemptReport;
use kalends_domain::{MissedPolicy, Outcome, Overlap, REDELIVERIES_MAX};
use kalends_recurrence::Instant;
use kalends_store::record::{Cause, Claim, JobForRun, OpenRun, Progress, RunId};
use kalends_store::{Advance, Due, DueJob, RunWrite, RunWriteResult, StoreError};

use super::{BATCH_MAX, DueItem, Renewal, Scheduler};
use crate::admission::Slot;
use crate::worker::{Assignment, AssignmentResult, FinishedAssignment, run_assignments};

/// A claim that is about to expire is not trusted: clocks and networks take their time.
const LEASE_MARGIN: Duration = Duration::from_millis(500);

/// What history says of an attempt that ended no process that made it.
const DIED_AGAIN: &str =
    "The attempt was given up: each time it was made, the process that made it died.";

/// What a write is context, for its answer.
pub(super) enum WriteContext {
    Begin {
        due: Due,
        scheduled: Instant,
        progress: Progress,
        job_for_run: Arc<JobForRun>,
        advance: Advance,
        /// The room that was taken for it, where it is worked on at once.
        slot: Option<Slot>,
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
    RenewLease(RunId),
    /// What the run is now, if it goes on.
    Conclude(Box<FinishedAssignment>, Option<OpenRun>),
}

impl Scheduler {
    pub(super) fn handle_commit_results(
        &mut self,
        began: Duration,
        contexts: Vec<WriteContext>,
        answers: Result<Vec<RunWriteResult>, StoreError>,
    ) {
        let Ok(answers) = answers else {
            // Nothing is lost: results are kept, their tokens keep them from being recorded twice,
            // and what was to begin is found again.
            contexts.into_iter().for_each(|context| self.undo_write(context));
            return self.pause_store_calls();
        };
        let now = self.now();
        self.outage.store_responded(now);
        let mut departing = Vec::new();
        for (context, answer) in contexts.into_iter().zip(answers) {
            departing.extend(self.apply_result(context, answer, began, now));
        }
        if !departing.is_empty() {
            tokio::spawn(run_assignments(departing, self.services.clone(), self.results.0.clone()));
        }
    }

    fn undo_write(&mut self, context: WriteContext) {
        match context {
            WriteContext::Begin { due, slot, .. } => {
                slot.iter().for_each(|slot| self.admission.release(slot));
                self.release_item(&DueItem::Job(due));
            }
            WriteContext::Skip { due, .. } => self.release_item(&DueItem::Job(due)),
            WriteContext::Claim { run, slot, .. } => {
                self.admission.release(&slot);
                self.release_item(&DueItem::Run(run));
            }
            WriteContext::RenewLease(run) => self.schedule_renewal(Duration::ZERO, run),
            WriteContext::Conclude(ended, _) => self.queue_result(ended),
        }
    }

    fn apply_result(
        &mut self,
        context: WriteContext,
        answer: RunWriteResult,
        began: Duration,
        now: Instant,
    ) -> Option<Assignment> {
        match (context, answer) {
            (
                WriteContext::Begin { due, scheduled, progress, job_for_run, advance, slot },
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
                };
                match claim.zip(slot) {
                    Some((claim, slot)) => Some(self.assign(run, claim, began, job_for_run, slot)),
                    None => {
                        self.timetable.add_run(run);
                        None
                    }
                }
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
                let died = run.claim.is_some_and(|claim| claim.owner != self.node);
                let died_again = died && run.progress.redelivery >= REDELIVERIES_MAX;
                let run = OpenRun { progress, claim: Some(claim), ..run };
                let assignment = self.assign(run, claim, began, job_for_run, slot);
                match died_again {
                    true => {
                        self.fail_after_redeliveries(assignment, now);
                        None
                    }
                    false => Some(assignment),
                }
            }
            (WriteContext::RenewLease(run), RunWriteResult::Claimed(claim)) => {
                if let Some(held) = self.held_claims.get_mut(&run) {
                    *held = claim;
                    self.schedule_renewal(self.settings.lease / 2, run);
                }
                None
            }
            // Somebody else has taken it over; the attempt ends without being recorded.
            (WriteContext::RenewLease(_), _) => None,
            (WriteContext::Conclude(ended, next), answer) => {
                self.held_claims.remove(&ended.run.id);
                match next.filter(|_| answer == RunWriteResult::Done) {
                    Some(run) => self.timetable.add_run(run),
                    None => self.load_waiting_runs(&ended.job_for_run, now),
                }
                None
            }
            // Somebody else was quicker, or the job was edited: the next load shows how it is.
            (context, _) => {
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
    ) -> Assignment {
        self.held_claims.insert(run.id, claim);
        self.schedule_renewal(self.settings.lease / 2, run.id);
        let written = job_for_run.job.job.definition.extensions.timeout.as_ref();
        let timeout = written.map_or(self.settings.attempt_timeout, |timeout| *timeout.value());
        // The store began to count later than it was asked.
        let holds_until = began + self.settings.lease.saturating_sub(LEASE_MARGIN);
        Assignment { run, claim, holds_until, job_for_run, slot, timeout }
    }

    /// An attempt in which one process after the other died is not begun again: it has failed.
    fn fail_after_redeliveries(&mut self, assignment: Assignment, now: Instant) {
        let Assignment { run, claim, job_for_run, slot, .. } = assignment;
        let report = AttemptReport::new(Outcome::Indeterminate, DIED_AGAIN);
        let how = AssignmentResult::Attempted { started: now, ended: now, report };
        self.receive_results(Box::new(FinishedAssignment { run, claim, job_for_run, slot, how }));
    }

    fn schedule_renewal(&mut self, pause: Duration, run: RunId) {
        let at = self.services.clock.uptime() + pause;
        self.renewals.push_back(Renewal { at, run });
    }

    /// Has claims prolonged whose time is half over.
    pub(super) fn renew_leases(&mut self) {
        let (elapsed, lease) = (self.services.clock.uptime(), self.settings.lease);
        let mut count = 0;
        while count < BATCH_MAX && self.renewals.front().is_some_and(|next| next.at <= elapsed) {
            let Some(Renewal { run, .. }) = self.renewals.pop_front() else { break };
            if let Some(claim) = self.held_claims.get(&run) {
                let write = RunWrite::RenewLease { run, token: claim.token, lease };
                self.pending_writes.push_back((write, WriteContext::RenewLease(run)));
                count += 1;
            }
        }
    }

    /// Other occurrences of a job may have waited for the end of one.
    fn load_waiting_runs(&mut self, job_for_run: &JobForRun, now: Instant) {
        let extensions = &job_for_run.job.job.definition.extensions;
        let missed = extensions.missed_runs.as_ref();
        let makes_up = missed.is_some_and(|missed| missed.policy == MissedPolicy::All);
        if makes_up || extensions.overlap == Some(Overlap::QueueOne) {
            self.load_schedule.at_once(now);
        }
    }

    fn schedule_next(&mut self, due: Due, next: Option<Instant>) {
        if let Some(next) = next {
            self.timetable.add_job(Due { on: DueJob { due: next, ..due.on }, ..due });
        }
    }
}
