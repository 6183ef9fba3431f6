//! Requests to skip the next occurrence of a job, and to take that back, by the rules of the API.

use kalends_domain::{JobPath, Lifecycle, Switch, facts_of, rule_of};
use kalends_recurrence::{Instant, Settings};
use kalends_store::record::{JobRecord, JobState};
use kalends_store::{JobContext, JobPut, JobWrite, Rejection, WaitingRuns};

use super::{Users, Version, block_on_ready, job_path};
use crate::rng::Rng;
use crate::scenario::Scenario;

/// One of this many requests takes a skip back.
const UNDO_ONE_IN: u64 = 4;

impl Users<'_> {
    /// Skips the next occurrence of any job, or takes that back, as `what` says. `at` is virtual time,
    /// `now` the time of the store's clock.
    pub(crate) fn skip(&mut self, what: u64, at: i64, now: Instant) {
        let rng = Rng::new(what);
        let Scenario { jobs, collections, .. } = *self.scenario;
        let path = job_path(rng.below(jobs.max(8)), collections);
        let existing = self.active.get(&path).copied();
        // The API rejects requests for a job that cannot be read.
        let Some(index) = existing.filter(|_| !self.is_unreadable(existing)) else { return };
        let is_undo = rng.one_in(UNDO_ONE_IN);
        let Some((record, true)) = self.request_skip(&path, is_undo) else { return };
        let versions = &mut self.tracked[index].versions;
        let Some(before) = versions.last() else { return };
        versions.push(Version {
            generation: record.job.generation,
            now,
            acknowledged: at,
            restarts: false,
            moves: false,
            skip_until: record.state.skip_until.filter(|_| !is_undo),
            definition: before.definition.clone(),
        });
    }

    /// The acknowledged job and whether the request changed it; `None` if it was refused.
    fn request_skip(&self, path: &JobPath, is_undo: bool) -> Option<(JobRecord, bool)> {
        let decide = move |context: JobContext<'_>| {
            let refused = || Rejection::from(std::io::Error::other("nothing to skip"));
            let job = context.existing.ok_or_else(refused)?;
            match is_undo {
                true if job.state.skip_until.is_none() => Ok(JobWrite::Keep),
                true => put(job, None).ok_or_else(refused),
                false => {
                    let next = next_to_skip(job, &context).ok_or_else(refused)?;
                    put(job, Some(next)).ok_or_else(refused)
                }
            }
        };
        let edited = block_on_ready(self.store.edit_job(path.clone(), Box::new(decide)));
        let edited = edited.ok()?;
        let after = edited.after?;
        let verb = if is_undo { "takes back the skip of" } else { "skips" };
        self.recorder.trace(|| format!("user {verb} {}: {:?}", path.job, after.state));
        let changed = edited.before.is_none_or(|before| before.version != after.version);
        Some((after, changed))
    }
}

/// The next occurrence that is neither begun nor skipped.
fn next_to_skip(job: &JobRecord, context: &JobContext<'_>) -> Option<Instant> {
    let definition = &job.job.definition;
    let recurs = definition.recurrence.is_some();
    if job.state.lifecycle != Lifecycle::Active || !recurs || definition.switch == Switch::Disabled
    {
        return None;
    }
    let rule = rule_of(definition, job.job.created, &unlimited()).ok()?.without_count();
    let due = job.state.due?;
    // Occurrences that passed meanwhile do not run anyway.
    let is_off =
        context.collection.collection.state.switch() == Switch::Disabled || context.pause.is_some();
    let first = if is_off && due <= context.now { rule.next_after(context.now)? } else { due };
    match job.state.skip_until.filter(|&until| first <= until) {
        Some(until) => rule.next_after(until),
        None => Some(first),
    }
}

/// An edit that keeps the definition.
fn put(job: &JobRecord, skip_until: Option<Instant>) -> Option<JobWrite> {
    let definition = job.job.definition.clone();
    let rule = rule_of(&definition, job.job.created, &unlimited()).ok()?;
    Some(JobWrite::Put(Box::new(JobPut {
        uid: job.job.uid,
        created: job.job.created,
        facts: facts_of(&definition, &rule),
        definition,
        state: JobState { skip_until, ..job.state },
        waiting: WaitingRuns::Keep,
        closed_by_edit: None,
    })))
}

/// Limits of schedules that accept every stored definition.
fn unlimited() -> Settings {
    Settings { start_months_ahead_max: i64::from(i32::MAX), ..Settings::default() }
}
