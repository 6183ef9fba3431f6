//! Repair of an enabled job that has no next occurrence.

use kalends_domain::{
    EditKind, Lifecycle, OpenScheduledRuns, ScheduleEdit, ScheduleState, Switch, rule_of,
    schedule_state_after_edit,
};
use kalends_recurrence::{Instant, Settings};
use kalends_store::record::{JobKey, JobState};
use kalends_store::{Advance, EngineStore, RunWrite, StoreError};

/// Gives the job its next occurrence after `now`, or finishes it if its schedule has none. A job that
/// was edited since the scan is left alone.
pub(super) async fn repair_never_due_job(
    store: &dyn EngineStore,
    job: JobKey,
    generation: u64,
    schedules: Settings,
    now: Instant,
) -> Result<(), StoreError> {
    let found = store.jobs_for_run(vec![job]).await?.pop().flatten();
    let Some(found) = found else { return Ok(()) };
    let record = &found.job;
    let definition = &record.job.definition;
    let JobState { lifecycle, due, used, .. } = record.state;
    let is_as_scanned = record.job.generation == generation
        && (lifecycle, definition.switch, due) == (Lifecycle::Active, Switch::Enabled, None);
    if !is_as_scanned {
        return Ok(());
    }
    let rule = rule_of(definition, record.job.created, &schedules)
        .map_err(|errors| StoreError::Damaged(format!("job {}: {errors}", job.0)))?;
    let before = ScheduleState { due, used, lifecycle };
    let edit = ScheduleEdit {
        old: definition,
        new: definition,
        rule: &rule,
        kind: EditKind::Change,
        open: OpenScheduledRuns::default(),
        now,
    };
    let after = schedule_state_after_edit(before, edit, &schedules);
    let ScheduleState { due, used, lifecycle } = after;
    let advance = Advance { due, used, lifecycle };
    store.commit(vec![RunWrite::Reschedule { job, generation, advance }]).await.map(drop)
}
