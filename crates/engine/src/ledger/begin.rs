//! What is written when an occurrence is due, and when a run is claimed for its next attempt.

use std::sync::Arc;

use kalends_domain::{
    ActionRole, Begin, DueDecision, DueQuestion, Lifecycle, MissedPolicy, Overlap, UnderWay, When,
    decide_due, jittered, rule_of,
};
use kalends_recurrence::Instant;
use kalends_store::record::{Cause, JobForRun, OpenRun, Progress};
use kalends_store::{Advance, Due, RunWrite, StoreError};

use super::follow_up::About;
use super::{CLAIM_AHEAD, Item, Ledger};
use crate::messages::postponed;
use crate::rooms::{Entry, Place};

/// What may begin when there is room for it.
pub(crate) struct Candidate {
    item: Item,
    brief: Arc<JobForRun>,
}

impl Ledger {
    /// Decides on what was asked about.
    pub(super) fn take_in_briefs(
        &mut self,
        items: Vec<Item>,
        briefs: Result<Vec<Option<JobForRun>>, StoreError>,
    ) {
        let now = self.now();
        let Ok(briefs) = briefs else {
            items.iter().for_each(|item| self.leave_to_others(item));
            return self.rest();
        };
        self.watch.answered(now);
        for (item, brief) in items.into_iter().zip(briefs) {
            match brief {
                Some(brief) => self.consider(Candidate { item, brief: Arc::new(brief) }, now),
                None => self.leave_to_others(&item),
            }
        }
    }

    /// It is no longer decided on here: the next load shows how it is.
    pub(super) fn leave_to_others(&mut self, item: &Item) {
        match item {
            Item::Job(due) => self.busy_jobs.remove(&due.on.job),
            Item::Run(run) => self.busy_runs.remove(&run.id),
        };
    }

    /// Begins it where there is room, or has it wait for room.
    fn consider(&mut self, candidate: Candidate, now: Instant) {
        let role = match &candidate.item {
            Item::Job(due) => match self.decide(due, &candidate.brief, now) {
                None => return self.leave_to_others(&candidate.item),
                Some(decision) if !self.begins_now(&decision, &candidate.brief, now) => {
                    return self.write_decision(*due, candidate.brief, None, decision, now);
                }
                Some(_) => ActionRole::Main,
            },
            Item::Run(run) if is_in_turn(run, &candidate.brief) => run.progress.role,
            // Found again at the next load, or when the other ends.
            Item::Run(_) => return self.leave_to_others(&candidate.item),
        };
        let main = &candidate.brief.job.job.definition.action;
        let action = match (role, &main.error_action) {
            (ActionRole::Error, Some(error)) => &error.action,
            _ => &main.action,
        };
        let place = Place::of(action, candidate.brief.collection);
        if let Entry::Entered(candidate) = self.rooms.enter(&place, candidate) {
            self.begin_at(place, candidate, now);
        }
    }

    /// Begins what has room.
    pub(super) fn begin_at(&mut self, place: Place, candidate: Candidate, now: Instant) {
        let Candidate { item, brief } = candidate;
        match item {
            Item::Run(run) => self.write_claim(run, brief, place, now),
            Item::Job(due) => match self.decide(&due, &brief, now) {
                Some(decision) => self.write_decision(due, brief, Some(place), decision, now),
                None => {
                    self.rooms.leave(&place);
                    self.leave_to_others(&Item::Job(due));
                }
            },
        }
    }

    /// What becomes of a job that is due. `None` where the job is no longer as it was, or has to
    /// wait for what is under way.
    fn decide(&self, due: &Due, brief: &JobForRun, now: Instant) -> Option<DueDecision> {
        let (job, due) = (&brief.job, due.on);
        if job.job.generation != due.generation || job.state.due != Some(due.due) {
            return None;
        }
        let definition = &job.job.definition;
        let rule = rule_of(definition, job.job.created, &self.schedules).ok()?.without_count();
        let extensions = &definition.extensions;
        let missed = extensions.missed_runs.as_ref();
        let count = definition.recurrence.as_ref().and_then(|recurrence| recurrence.count);
        decide_due(DueQuestion {
            rule: &rule,
            due: due.due,
            // What is claimed ahead of its instant is decided as at its instant.
            now: now.max(due.due),
            watched_since: self.watch.since(),
            enabled_since: brief.enabled_since,
            used: job.state.used,
            count: count.map(i64::unsigned_abs),
            missed: (
                missed.map_or(MissedPolicy::Last, |missed| missed.policy),
                missed.and_then(|missed| missed.within.as_ref()).map(|within| *within.value()),
            ),
            overlap: extensions.overlap.unwrap_or_default(),
            under_way: under_way(&brief.open, due.generation, now),
        })
    }

    fn begins_now(&self, decision: &DueDecision, brief: &JobForRun, now: Instant) -> bool {
        let soon = now.saturating_add(2 * CLAIM_AHEAD);
        let begins_now = |begin: Begin| {
            let start = self.start_of(brief, begin.scheduled);
            begin.when == When::Now && (start == begin.scheduled || start <= soon)
        };
        decision.begin.is_some_and(begins_now)
    }

    /// When the first attempt of an occurrence is made: one with jitter waits for it in the
    /// timetable, like a retry.
    fn start_of(&self, brief: &JobForRun, scheduled: Instant) -> Instant {
        let job = &brief.job.job;
        let Some(jitter) = &job.definition.extensions.jitter else { return scheduled };
        match rule_of(&job.definition, job.created, &self.schedules) {
            Ok(rule) => {
                jittered(job.uid.0, Some(*jitter.value()), scheduled, &rule.without_count())
            }
            Err(_) => scheduled,
        }
    }

    /// `place` is the room that was taken for it.
    fn write_decision(
        &mut self,
        due: Due,
        brief: Arc<JobForRun>,
        place: Option<Place>,
        decision: DueDecision,
        now: Instant,
    ) {
        let generation = due.on.generation;
        let closed: Vec<_> = decision.closed.iter().map(|c| c.row(generation, now)).collect();
        let postponed = decision.closed.iter().map(|c| postponed(c, decision.used, now)).collect();
        // Where runs are still open the last of them ends the job; the store knows which it is.
        let nothing_left = decision.next.is_none() && decision.begin.is_none();
        let advance = Advance {
            due: decision.next,
            used: decision.used,
            lifecycle: if nothing_left { Lifecycle::Completed } else { Lifecycle::Active },
        };
        let on = due.on;
        self.unwritten.push_back(match decision.begin {
            None => {
                // What was to begin may have been passed over while it waited for room.
                place.iter().for_each(|place| self.rooms.leave(place));
                (
                    RunWrite::Skip { on, advance, closed, postponed },
                    About::Passed { due, next: decision.next },
                )
            }
            Some(begin) => {
                let progress = Progress::first(self.start_of(&brief, begin.scheduled));
                let write = RunWrite::Begin {
                    on,
                    scheduled: begin.scheduled,
                    progress,
                    owner: place.is_some().then_some(self.node),
                    lease: self.settings.lease,
                    advance,
                    closed,
                    postponed,
                };
                let scheduled = begin.scheduled;
                (write, About::Begun { due, scheduled, progress, brief, advance, place })
            }
        });
    }

    /// The write for a run that waits for its next attempt, or whose owner has died.
    fn write_claim(&mut self, run: OpenRun, brief: Arc<JobForRun>, place: Place, now: Instant) {
        let progress = match run.claim {
            None => run.progress,
            // It was claimed here, and nobody was told: the answer of the store was lost.
            Some(claim) if claim.owner == self.node => run.progress,
            // It was claimed, and its owner is gone: the attempt may have been made or not.
            Some(_) => Progress {
                redelivery: run.progress.redelivery + 1,
                // Never early: the clock may have been set back since it was claimed.
                next_at: run.progress.next_at.max(now),
                ..run.progress
            },
        };
        let write = RunWrite::Claim {
            run: run.id,
            seen: run.claim.map(|claim| claim.token),
            owner: self.node,
            lease: self.settings.lease,
            progress,
        };
        self.unwritten.push_back((write, About::Claimed { run, progress, brief, place }));
    }
}

/// Whether a run need not wait for another of its job.
fn is_in_turn(run: &OpenRun, brief: &JobForRun) -> bool {
    let is_queued = run.cause == Cause::Scheduled
        && run.progress.first_started.is_none()
        && run.claim.is_none();
    let others_run =
        brief.open.iter().any(|other| other.id < run.id && other.cause == Cause::Scheduled);
    let overlap = brief.job.job.definition.extensions.overlap.unwrap_or_default();
    !(is_queued && others_run) || overlap == Overlap::Allow
}

fn under_way(open: &[OpenRun], generation: u64, now: Instant) -> UnderWay {
    // What was claimed ahead of its instant before the job was edited will not be sent.
    let is_stopped = |run: &&OpenRun| run.generation != generation && run.progress.next_at > now;
    let scheduled = open.iter().filter(|run| run.cause == Cause::Scheduled && !is_stopped(run));
    match scheduled.count() {
        0 => UnderWay::Nothing,
        1 => UnderWay::Running,
        _ => UnderWay::RunningAndWaiting,
    }
}

pub(super) fn every_interval() -> kalends_recurrence::IntervalMax {
    kalends_recurrence::IntervalMax {
        minutes: i64::MAX,
        hours: i64::MAX,
        days: i64::MAX,
        weeks: i64::MAX,
        months: i64::MAX,
        years: i64::MAX,
    }
}
