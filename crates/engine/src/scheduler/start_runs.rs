//! Starts runs: decides due occurrences and claims runs for their next attempt.

use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use kalends_domain::{
    ActionRole, DueDecision, DueInput, InFlight, Lifecycle, MissedPolicy, OffTimes, Overlap,
    RunStart, StartTiming, Switch, decide_due, jittered, rule_of,
};
use kalends_recurrence::Instant;
use kalends_store::record::{Cause, JobForRun, JobKey, JobRecord, OpenRun, Progress, SlotKey};
use kalends_store::{Advance, Due, RunWrite, StoreError};

use super::commit_results::WriteContext;
use super::{CLAIM_AHEAD, DueItem, Scheduler};
use crate::admission::{Admitted, Slot};
use crate::messages::postponed;
use crate::status::CallKind;
use crate::worker::action_for;

/// After a longer wait for a slot the definition is read again: it may have been edited.
const REREAD_AFTER: Duration = Duration::from_millis(200);

/// A due job or run with its definition, ready for admission.
pub(crate) struct Candidate {
    item: DueItem,
    job_for_run: Arc<JobForRun>,
}

/// A due job or run whose definition is read.
pub(super) struct ItemToRead {
    pub(super) item: DueItem,
    pub(super) stage: Stage,
}

/// Progress of a due job or run towards a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It came from the timetable. Without a free slot it waits in memory.
    Due,
    /// It waited in memory for too long. Without a free slot it is parked.
    Waited,
    /// It was parked. Without a free slot it stays parked.
    Parked,
    /// It has a slot.
    Admitted(Slot),
}

impl Scheduler {
    /// Admits the due jobs and runs of a batch.
    pub(super) fn handle_jobs_for_run(
        &mut self,
        items: Vec<ItemToRead>,
        jobs: Result<HashMap<JobKey, Arc<JobForRun>>, StoreError>,
    ) {
        let now = self.now();
        let jobs = match jobs {
            Ok(jobs) => jobs,
            Err(StoreError::Unreadable(unreadable)) => return self.put_aside(items, unreadable),
            Err(_) => {
                items.iter().for_each(|item| self.release_item_to_read(item));
                return self.pause_store_calls(CallKind::Read);
            }
        };
        self.outage.call_succeeded(CallKind::Read, now);
        for item in items {
            match jobs.get(&item.item.job()).cloned() {
                Some(job_for_run) => {
                    let ItemToRead { item, stage } = item;
                    self.admit(Candidate { item, job_for_run }, stage, now);
                }
                None => self.release_item_to_read(&item),
            }
        }
    }

    /// Starts the waiting candidates that have a free slot now, and reads those again that have waited
    /// for too long.
    pub(super) fn admit_waiting(&mut self, now: Instant) {
        let elapsed = self.services.clock.uptime();
        for Admitted { slot, candidate, since } in self.admission.admit_waiting(elapsed) {
            match elapsed.saturating_sub(since) > REREAD_AFTER {
                true => {
                    let (item, stage) = (candidate.item, Stage::Admitted(slot));
                    self.items_to_read.push_back(ItemToRead { item, stage });
                }
                false => self.start_admitted(slot, candidate, None, now),
            }
        }
        for Candidate { item, .. } in self.admission.take_overdue(elapsed) {
            self.items_to_read.push_back(ItemToRead { item, stage: Stage::Waited });
        }
    }

    pub(super) fn release_item_to_read(&mut self, item: &ItemToRead) {
        if let Stage::Admitted(slot) = item.stage {
            self.admission.release(slot);
        }
        self.release_item(&item.item);
    }

    /// Gives up an item without a decision. The next load finds it again if it is still due.
    pub(super) fn release_item(&mut self, item: &DueItem) {
        match item {
            DueItem::Job(due) => drop(self.busy_jobs.remove(&due.on.job)),
            DueItem::Run(run) => {
                self.busy_runs.remove(&run.id);
                self.parked.given_up(run.id, self.services.clock.uptime());
            }
        }
    }

    /// Starts a candidate if a slot is free; otherwise it waits for one in memory or in the store.
    fn admit(&mut self, candidate: Candidate, stage: Stage, now: Instant) {
        let wanted = self.slot_for(&candidate, now);
        if let Stage::Admitted(slot) = stage
            && wanted.as_ref().is_none_or(|(wanted, _)| *wanted != slot)
        {
            self.admission.release(slot);
        }
        let Some((slot, decision)) = wanted else { return };
        if stage == Stage::Admitted(slot) {
            return self.start_admitted(slot, candidate, decision, now);
        }
        if let DueItem::Run(run) = &candidate.item
            && self.is_exhausted(run)
        {
            // It fails without another attempt, so it does not wait for a slot.
            self.admission.acquire_regardless(slot);
            return self.start_admitted(slot, candidate, None, now);
        }
        if stage == Stage::Due
            && let Some(key) = self.parked.key_of(slot)
        {
            return self.park(candidate, key, now);
        }
        let uptime = self.services.clock.uptime();
        let Err(key) = self.admission.try_acquire(slot, uptime) else {
            return self.start_admitted(slot, candidate, decision, now);
        };
        let has_waited = matches!(stage, Stage::Waited | Stage::Parked);
        let candidate = match has_waited {
            true => candidate,
            false => {
                let Err(candidate) = self.admission.queue(slot, candidate, uptime) else { return };
                candidate
            }
        };
        self.park(candidate, key, now);
    }

    /// The slot that a candidate needs now, and the decision about a job; `None` if it needs no slot and
    /// is taken care of.
    fn slot_for(
        &mut self,
        candidate: &Candidate,
        now: Instant,
    ) -> Option<(Slot, Option<DueDecision>)> {
        let Candidate { item, job_for_run } = candidate;
        // A load finds it again when the pause ends.
        if job_for_run.pause.is_some_and(|pause| pause.is_active(now)) {
            self.release_item(item);
            return None;
        }
        let (role, decision) = match item {
            DueItem::Job(due) if !is_due(job_for_run, due) => {
                self.changed_jobs.push(*due);
                self.release_item(item);
                return None;
            }
            DueItem::Job(due) => match self.decide(due, job_for_run, now) {
                None => {
                    self.waiting_jobs.insert(due.on.job);
                    self.release_item(item);
                    return None;
                }
                Some(decision) if !self.starts_now(&decision, job_for_run, now) => {
                    let job_for_run = Arc::clone(job_for_run);
                    self.queue_decision(*due, job_for_run, Start::Later, decision, now);
                    return None;
                }
                Some(decision) => (ActionRole::Main, Some(decision)),
            },
            // A load finds it again when its job is enabled.
            DueItem::Run(run) if is_job_disabled(run, job_for_run) => {
                self.release_item(item);
                return None;
            }
            DueItem::Run(run) if is_next_in_queue(run, job_for_run) => (run.progress.role, None),
            // A load finds it again after the earlier run has finished.
            DueItem::Run(run) => {
                self.waiting_jobs.insert(run.job);
                self.release_item(item);
                return None;
            }
        };
        Some((Slot::of(action_for(job_for_run, role), job_for_run.collection), decision))
    }

    /// Parks a candidate until the host or collection `key` has a free slot.
    fn park(&mut self, candidate: Candidate, key: SlotKey, now: Instant) {
        let Candidate { item, job_for_run } = candidate;
        match item {
            DueItem::Job(due) => match self.decide(&due, &job_for_run, now) {
                Some(decision) => {
                    self.queue_decision(due, job_for_run, Start::Parked(key), decision, now);
                }
                None => self.release_item(&DueItem::Job(due)),
            },
            DueItem::Run(run) if run.waits_for == Some(key) => {
                self.release_item(&DueItem::Run(run));
                self.parked.add(key);
            }
            DueItem::Run(run) => {
                let write = RunWrite::Park {
                    run: run.id,
                    seen: run.claim.map(|claim| claim.token),
                    generation: job_for_run.job.job.generation,
                    progress: self.progress_after_claim(&run, &job_for_run, now),
                    expected: run.progress,
                    waits_for: key,
                };
                let context = WriteContext::Park { run, waits_for: key };
                self.pending_writes.push_back((write, context));
            }
        }
    }

    /// Queues the write for a candidate that has a slot; `decision` is the one of this moment, if there
    /// is one.
    fn start_admitted(
        &mut self,
        slot: Slot,
        candidate: Candidate,
        decision: Option<DueDecision>,
        now: Instant,
    ) {
        let Candidate { item, job_for_run } = candidate;
        match item {
            DueItem::Run(run) => self.queue_claim(run, job_for_run, slot, now),
            DueItem::Job(due) => match decision.or_else(|| self.decide(&due, &job_for_run, now)) {
                Some(decision) => {
                    self.queue_decision(due, job_for_run, Start::Now(slot), decision, now);
                }
                None => {
                    self.waiting_jobs.insert(due.on.job);
                    self.admission.release(slot);
                    self.release_item(&DueItem::Job(due));
                }
            },
        }
    }

    /// Decides about a due job. `None` if it must wait for a running occurrence.
    fn decide(&mut self, due: &Due, job_for_run: &JobForRun, now: Instant) -> Option<DueDecision> {
        let (job, due) = (&job_for_run.job, due.on);
        let definition = &job.job.definition;
        let rule = rule_of(definition, job.job.created, &self.schedules).ok()?.without_count();
        let extensions = &definition.extensions;
        let missed = extensions.missed_runs.as_ref();
        let count = definition.recurrence.as_ref().and_then(|recurrence| recurrence.count);
        decide_due(DueInput {
            rule: &rule,
            due: due.due,
            // A job claimed ahead is decided as if it were its scheduled time.
            now: now.max(due.due),
            watched_since: self.watched_since(due.due, now)?,
            enabled_since: job_for_run.enabled_since,
            used: job.state.used,
            count: count.map(i64::unsigned_abs),
            missed: (
                missed.map_or(MissedPolicy::Last, |missed| missed.policy),
                missed.and_then(|missed| missed.within.as_ref()).map(|within| *within.value()),
            ),
            overlap: extensions.overlap.unwrap_or_default(),
            in_flight: in_flight(&job_for_run.open.scheduled, job.job.schedule_generation, now),
            open_runs: job_for_run.open.count,
            open_runs_max: self.settings.open_runs_max,
            pause: job_for_run.pause,
            skip_until: job.state.skip_until,
        })
    }

    fn starts_now(&self, decision: &DueDecision, job_for_run: &JobForRun, now: Instant) -> bool {
        let soon = now.saturating_add(2 * CLAIM_AHEAD);
        let starts_now = |begin: RunStart| {
            let start = self.start_time(job_for_run, begin.scheduled);
            begin.when == StartTiming::Now && (start == begin.scheduled || start <= soon)
        };
        decision.begin.is_some_and(starts_now)
    }

    /// Start of the first attempt: the scheduled time plus jitter. A run that is delayed by jitter
    /// waits in the timetable like a retry.
    fn start_time(&self, job_for_run: &JobForRun, scheduled: Instant) -> Instant {
        let job = &job_for_run.job.job;
        let Some(jitter) = &job.definition.extensions.jitter else { return scheduled };
        match rule_of(&job.definition, job.created, &self.schedules) {
            Ok(rule) => {
                jittered(job.uid.0, Some(*jitter.value()), scheduled, &rule.without_count())
            }
            Err(_) => scheduled,
        }
    }

    fn queue_decision(
        &mut self,
        due: Due,
        job_for_run: Arc<JobForRun>,
        start: Start,
        decision: DueDecision,
        now: Instant,
    ) {
        let generation = due.on.generation;
        let closed: Vec<_> =
            decision.closed.iter().map(|c| c.to_ledger_record(generation, now)).collect();
        let postponed = |c| postponed(c, generation, decision.used, now);
        let postponed = decision.closed.iter().map(postponed).collect();
        // The store completes the job with its last open run if there is one.
        let nothing_left = decision.next.is_none() && decision.begin.is_none();
        let advance = Advance {
            due: decision.next,
            used: decision.used,
            lifecycle: if nothing_left { Lifecycle::Completed } else { Lifecycle::Active },
        };
        let on = due.on;
        let (slot, waits_for) = match start {
            Start::Now(slot) => (Some(slot), None),
            Start::Later => (None, None),
            Start::Parked(key) => (None, Some(key)),
        };
        self.pending_writes.push_back(match decision.begin {
            None => {
                // The decision may have changed while the candidate waited for a slot.
                slot.into_iter().for_each(|slot| self.admission.release(slot));
                (
                    RunWrite::Skip { on, advance, closed, postponed },
                    WriteContext::Skip { due, next: decision.next },
                )
            }
            Some(begin) => {
                let progress = Progress::first(self.start_time(&job_for_run, begin.scheduled));
                let write = RunWrite::Begin {
                    on,
                    scheduled: begin.scheduled,
                    progress,
                    owner: slot.is_some().then_some(self.node),
                    lease: self.settings.lease,
                    advance,
                    closed,
                    postponed,
                    waits_for,
                };
                let context = WriteContext::Begin {
                    due,
                    scheduled: begin.scheduled,
                    progress,
                    job_for_run,
                    advance,
                    slot,
                    waits_for,
                };
                (write, context)
            }
        });
    }

    /// The next attempt of a run that is due or whose owner's lease expired.
    fn progress_after_claim(&self, run: &OpenRun, job: &JobForRun, now: Instant) -> Progress {
        match run.claim {
            None => resumed(run, job.off_times(), now),
            // This node claimed it, but the response of the store was lost: no attempt started.
            Some(claim) if claim.owner == self.node => run.progress,
            // The owner's lease expired: the outcome of its attempt is unknown.
            Some(_) => Progress {
                redelivery: run.progress.redelivery + 1,
                // Never early: the clock may have been stepped back since the claim.
                next_at: run.progress.next_at.max(now),
                ..resumed(run, job.off_times(), now)
            },
        }
    }

    /// Queues the claim of a run.
    fn queue_claim(&mut self, run: OpenRun, job_for_run: Arc<JobForRun>, slot: Slot, now: Instant) {
        let progress = self.progress_after_claim(&run, &job_for_run, now);
        let write = RunWrite::Claim {
            run: run.id,
            seen: run.claim.map(|claim| claim.token),
            owner: self.node,
            lease: self.settings.lease,
            progress,
            expected: run.progress,
        };
        self.pending_writes
            .push_back((write, WriteContext::Claim { run, progress, job_for_run, slot }));
    }
}

/// When the run of a decision starts.
enum Start {
    /// It has a slot.
    Now(Slot),
    /// It waits for its time or for an earlier run.
    Later,
    /// It waits for a free slot of a host or collection.
    Parked(SlotKey),
}

/// Whether the job is as it was when it was loaded.
fn is_due(job_for_run: &JobForRun, due: &Due) -> bool {
    let JobRecord { job, state, .. } = &job_for_run.job;
    (job.generation, state.due) == (due.on.generation, Some(due.on.due))
}

/// Whether a disabled job holds the run.
fn is_job_disabled(run: &OpenRun, job_for_run: &JobForRun) -> bool {
    let switch = job_for_run.job.job.definition.switch;
    run.cause == Cause::Scheduled && switch == Switch::Disabled
}

/// The progress of a waiting run. The time for which its next attempt was held, because its job could not
/// run, does not count towards the age limit of its retries.
fn resumed(run: &OpenRun, off: OffTimes, now: Instant) -> Progress {
    let progress = run.progress;
    match progress.first_started.zip(off.over_since(progress.next_at, now)) {
        Some((first, over)) => Progress {
            next_at: over,
            first_started: Some(first.saturating_add(over.since(progress.next_at))),
            ..progress
        },
        None => progress,
    }
}

/// Whether no earlier run of the job blocks this one.
fn is_next_in_queue(run: &OpenRun, job_for_run: &JobForRun) -> bool {
    let is_queued = run.cause == Cause::Scheduled
        && run.progress.first_started.is_none()
        && run.claim.is_none();
    let others_run = job_for_run.open.scheduled.iter().any(|other| other.id < run.id);
    let overlap = job_for_run.job.job.definition.extensions.overlap.unwrap_or_default();
    !(is_queued && others_run) || overlap == Overlap::Allow
}

fn in_flight(scheduled: &[OpenRun], schedule_generation: u64, now: Instant) -> InFlight {
    // A superseded run makes no further attempt.
    let is_stopped = |run: &OpenRun| {
        let is_attempting = run.claim.is_some() && run.progress.next_at <= now;
        run.is_superseded(schedule_generation) && !is_attempting
    };
    match scheduled.iter().filter(|run| !is_stopped(run)).count() {
        0 => InFlight::Nothing,
        1 => InFlight::Running,
        _ => InFlight::RunningAndWaiting,
    }
}

pub(super) fn unlimited_intervals() -> kalends_recurrence::IntervalMax {
    kalends_recurrence::IntervalMax {
        minutes: i64::MAX,
        hours: i64::MAX,
        days: i64::MAX,
        weeks: i64::MAX,
        months: i64::MAX,
        years: i64::MAX,
    }
}
