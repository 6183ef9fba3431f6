//! What follows from what was written.

use std::sync::Arc;
use std::time::Duration;

use kalends_actions::Report;
use kalends_domain::{MissedPolicy, Outcome, Overlap, REDELIVERIES_MAX};
use kalends_recurrence::Instant;
use kalends_store::record::{Cause, Claim, JobForRun, OpenRun, Progress, RunId};
use kalends_store::{Advance, Due, DueJob, RunWrite, RunWriteResult, StoreError};

use super::{BATCH_MAX, Item, Ledger, Renewal};
use crate::rooms::Place;
use crate::worker::{Assignment, Ended, How, depart};

/// A claim that is about to expire is not trusted: clocks and networks take their time.
const LEASE_MARGIN: Duration = Duration::from_millis(500);

/// What history says of an attempt that ended no process that made it.
const DIED_AGAIN: &str =
    "The attempt was given up: each time it was made, the process that made it died.";

/// What a write is about, for its answer.
pub(super) enum About {
    Begun {
        due: Due,
        scheduled: Instant,
        progress: Progress,
        brief: Arc<JobForRun>,
        advance: Advance,
        /// The room that was taken for it, where it is worked on at once.
        place: Option<Place>,
    },
    Passed {
        due: Due,
        next: Option<Instant>,
    },
    Claimed {
        run: OpenRun,
        progress: Progress,
        brief: Arc<JobForRun>,
        place: Place,
    },
    Prolonged(RunId),
    /// What the run is now, if it goes on.
    Ended(Box<Ended>, Option<OpenRun>),
}

impl Ledger {
    pub(super) fn take_in_answers(
        &mut self,
        began: Duration,
        abouts: Vec<About>,
        answers: Result<Vec<RunWriteResult>, StoreError>,
    ) {
        let Ok(answers) = answers else {
            // Nothing is lost: results are kept, their tokens keep them from being recorded twice,
            // and what was to begin is found again.
            abouts.into_iter().for_each(|about| self.take_up_again(about));
            return self.rest();
        };
        let now = self.now();
        self.watch.answered(now);
        let mut departing = Vec::new();
        for (about, answer) in abouts.into_iter().zip(answers) {
            departing.extend(self.follow_up(about, answer, began, now));
        }
        if !departing.is_empty() {
            tokio::spawn(depart(departing, self.tools.clone(), self.results.0.clone()));
        }
    }

    fn take_up_again(&mut self, about: About) {
        match about {
            About::Begun { due, place, .. } => {
                place.iter().for_each(|place| self.rooms.leave(place));
                self.leave_to_others(&Item::Job(due));
            }
            About::Passed { due, .. } => self.leave_to_others(&Item::Job(due)),
            About::Claimed { run, place, .. } => {
                self.rooms.leave(&place);
                self.leave_to_others(&Item::Run(run));
            }
            About::Prolonged(run) => self.renew_after(Duration::ZERO, run),
            About::Ended(ended, _) => self.keep_result(ended),
        }
    }

    fn follow_up(
        &mut self,
        about: About,
        answer: RunWriteResult,
        began: Duration,
        now: Instant,
    ) -> Option<Assignment> {
        match (about, answer) {
            (
                About::Begun { due, scheduled, progress, brief, advance, place },
                RunWriteResult::Begun { run, claim },
            ) => {
                self.busy_jobs.remove(&due.on.job);
                self.expect(due, advance.due);
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
                match claim.zip(place) {
                    Some((claim, place)) => Some(self.hand_out(run, claim, began, brief, place)),
                    None => {
                        self.timetable.add_run(run);
                        None
                    }
                }
            }
            (About::Passed { due, next }, RunWriteResult::Done) => {
                self.busy_jobs.remove(&due.on.job);
                self.expect(due, next);
                None
            }
            (About::Claimed { run, progress, brief, place }, RunWriteResult::Claimed(claim)) => {
                self.busy_runs.remove(&run.id);
                let died = run.claim.is_some_and(|claim| claim.owner != self.node);
                let died_again = died && run.progress.redelivery >= REDELIVERIES_MAX;
                let run = OpenRun { progress, claim: Some(claim), ..run };
                let assignment = self.hand_out(run, claim, began, brief, place);
                match died_again {
                    true => {
                        self.give_up(assignment, now);
                        None
                    }
                    false => Some(assignment),
                }
            }
            (About::Prolonged(run), RunWriteResult::Claimed(claim)) => {
                if let Some(held) = self.under_way.get_mut(&run) {
                    *held = claim;
                    self.renew_after(self.settings.lease / 2, run);
                }
                None
            }
            // Somebody else has taken it over; the attempt ends without being recorded.
            (About::Prolonged(_), _) => None,
            (About::Ended(ended, next), answer) => {
                self.under_way.remove(&ended.run.id);
                match next.filter(|_| answer == RunWriteResult::Done) {
                    Some(run) => self.timetable.add_run(run),
                    None => self.load_if_others_wait(&ended.brief, now),
                }
                None
            }
            // Somebody else was quicker, or the job was edited: the next load shows how it is.
            (about, _) => {
                self.take_up_again(about);
                None
            }
        }
    }

    fn hand_out(
        &mut self,
        run: OpenRun,
        claim: Claim,
        began: Duration,
        brief: Arc<JobForRun>,
        place: Place,
    ) -> Assignment {
        self.under_way.insert(run.id, claim);
        self.renew_after(self.settings.lease / 2, run.id);
        let written = brief.job.job.definition.extensions.timeout.as_ref();
        let timeout = written.map_or(self.settings.attempt_timeout, |timeout| *timeout.value());
        // The store began to count later than it was asked.
        let holds_until = began + self.settings.lease.saturating_sub(LEASE_MARGIN);
        Assignment { run, claim, holds_until, brief, place, timeout }
    }

    /// An attempt in which one process after the other died is not begun again: it has failed.
    fn give_up(&mut self, assignment: Assignment, now: Instant) {
        let Assignment { run, claim, brief, place, .. } = assignment;
        let report = Report::new(Outcome::Indeterminate, DIED_AGAIN);
        let how = How::Attempted { started: now, ended: now, report };
        self.take_back(Box::new(Ended { run, claim, brief, place, how }));
    }

    fn renew_after(&mut self, pause: Duration, run: RunId) {
        let at = self.tools.clock.uptime() + pause;
        self.renewals.push_back(Renewal { at, run });
    }

    /// Has claims prolonged whose time is half over.
    pub(super) fn prolong_claims(&mut self) {
        let (elapsed, lease) = (self.tools.clock.uptime(), self.settings.lease);
        let mut count = 0;
        while count < BATCH_MAX && self.renewals.front().is_some_and(|next| next.at <= elapsed) {
            let Some(Renewal { run, .. }) = self.renewals.pop_front() else { break };
            if let Some(claim) = self.under_way.get(&run) {
                let write = RunWrite::RenewLease { run, token: claim.token, lease };
                self.unwritten.push_back((write, About::Prolonged(run)));
                count += 1;
            }
        }
    }

    /// Other occurrences of a job may have waited for the end of one.
    fn load_if_others_wait(&mut self, brief: &JobForRun, now: Instant) {
        let extensions = &brief.job.job.definition.extensions;
        let missed = extensions.missed_runs.as_ref();
        let makes_up = missed.is_some_and(|missed| missed.policy == MissedPolicy::All);
        if makes_up || extensions.overlap == Some(Overlap::QueueOne) {
            self.loads.at_once(now);
        }
    }

    fn expect(&mut self, due: Due, next: Option<Instant>) {
        if let Some(next) = next {
            self.timetable.add_job(Due { on: DueJob { due: next, ..due.on }, ..due });
        }
    }
}
