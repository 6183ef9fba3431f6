//! Repair of enabled jobs that have no next occurrence.

use kalends_domain::{
    EditKind, Lifecycle, ScheduleState, Switch, facts_of, rule_of, schedule_state_after_edit,
};
use kalends_recurrence::{Instant, Settings};
use kalends_store::record::{JobKey, JobState};
use kalends_store::{
    JobContext, JobPut, JobWrite, Refusal, RefusalKind, Store, StoreError, WaitingRuns,
};

/// Recomputes the schedule state of a job that has not changed since the scan, like an edit that
/// changes nothing: the job continues with its next occurrence, or completes if none is left.
pub(super) async fn repair_never_due_job(
    store: &dyn Store,
    job: JobKey,
    generation: u64,
    schedules: Settings,
    now: Instant,
) -> Result<(), StoreError> {
    let Some(record) = store.job_by_key(job).await? else { return Ok(()) };
    let decide = move |context: JobContext<'_>| {
        let Some(existing) = context.existing else { return Ok(JobWrite::Keep) };
        let JobState { lifecycle, due, used, .. } = existing.state;
        let definition = &existing.job.definition;
        let is_unchanged = existing.key == job
            && existing.job.generation == generation
            && (lifecycle, definition.switch, due) == (Lifecycle::Active, Switch::Enabled, None);
        if !is_unchanged {
            return Ok(JobWrite::Keep);
        }
        let rule = rule_of(definition, existing.job.created, &schedules).map_err(|problems| {
            Refusal { kind: RefusalKind::Invalid, path: None, message: problems.to_string() }
        })?;
        let before = ScheduleState { due, used, lifecycle };
        let ScheduleState { due, used, lifecycle } = schedule_state_after_edit(
            before,
            definition,
            definition,
            &rule,
            EditKind::Change,
            now,
            &schedules,
        );
        let finished = (lifecycle != Lifecycle::Active).then_some(now);
        Ok(JobWrite::Put(Box::new(JobPut {
            uid: existing.job.uid,
            created: existing.job.created,
            definition: definition.clone(),
            facts: facts_of(definition, &rule),
            state: JobState { due, used, lifecycle, finished, ..existing.state },
            waiting: WaitingRuns::Keep,
            closed_by_edit: None,
        })))
    };
    store.edit_job(record.path, Box::new(decide)).await.map(drop)
}
