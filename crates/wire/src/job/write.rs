//! Serialising a job. Bodies of the old versions equal those of the retired service.

use kalends_domain::{CollectionState, JobDefinition, JobPath, JobStatus, Lifecycle, Switch};
use kalends_recurrence::Instant;

use super::extensions;
use crate::action::write_main;
use crate::enum_text::{OldCasing, enum_text};
use crate::id::{JOB_TYPE, job_id, job_name};
use crate::json::Json;
use crate::object::ObjectBuilder;
use crate::recurrence::write_recurrence;
use crate::version::Version;
use crate::write_options::{Secrets, WriteOptions};

/// State of a job that is not part of its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobRuntimeState {
    /// Active, completed or faulted.
    pub lifecycle: Lifecycle,
    /// Execution times and counts.
    pub status: JobStatus,
    /// A job in a disabled collection has no next execution time.
    pub collection: CollectionState,
    /// Nor has any job during a pause of all jobs.
    pub is_paused: bool,
}

/// Serialises a job for a response: without secrets, and for the old versions without members of
/// the newest.
pub fn write_job<'a>(
    path: &JobPath,
    job: &'a JobDefinition,
    runtime: &JobRuntimeState,
    version: Version,
) -> Json<'a> {
    let options = WriteOptions { version, secrets: Secrets::Omit };
    let properties = write_properties(job, state(job.switch, runtime.lifecycle), options)
        .put_some("status", write_status(job.switch, runtime, version));
    ObjectBuilder::new()
        .put("id", job_id(path))
        .put("type", JOB_TYPE)
        .put("name", job_name(path))
        .put("properties", properties)
        .into()
}

/// Serialises the definition of a job in a generation, without secrets; `replaced` is absent for the
/// present one.
pub fn write_job_generation<'a>(
    generation: u64,
    job: &'a JobDefinition,
    replaced: Option<Instant>,
    version: Version,
) -> Json<'a> {
    let options = WriteOptions { version, secrets: Secrets::Omit };
    ObjectBuilder::new()
        .put("generation", generation)
        .put_some("replacedTime", replaced)
        .put("properties", write_properties(job, state(job.switch, Lifecycle::Active), options))
        .into()
}

/// Serialises a definition **including its secrets**, as the base of a patch in `version`. The result
/// must never leave the process.
pub fn job_with_secrets(job: &JobDefinition, version: Version) -> Json<'_> {
    let options = WriteOptions { version, secrets: Secrets::Include };
    let state = state(job.switch, Lifecycle::Active);
    ObjectBuilder::new().put("properties", write_properties(job, state, options)).into()
}

fn write_properties<'a>(
    job: &'a JobDefinition,
    state: &'static str,
    options: WriteOptions,
) -> ObjectBuilder<'a> {
    let extensions = (!options.version.is_old()).then_some(&job.extensions);
    let recurrence = job.recurrence.as_ref();
    let action = write_main(&job.action, options);
    extensions::write_head(extensions)
        .put_some("startTime", job.start)
        .put("action", extensions::write_signing(action, extensions))
        .put_some("recurrence", recurrence.and_then(|rule| write_recurrence(rule, options.version)))
        .append(extensions::write_tail(extensions))
        .put("state", enum_text(&[(state, ())], &(), OldCasing::Lower, options.version))
}

fn state(switch: Switch, lifecycle: Lifecycle) -> &'static str {
    match (lifecycle, switch) {
        (Lifecycle::Completed, _) => "Completed",
        (Lifecycle::Faulted, _) => "Faulted",
        (Lifecycle::Active, Switch::Enabled) => "Enabled",
        (Lifecycle::Active, Switch::Disabled) => "Disabled",
    }
}

/// Returns `None` for a disabled job that never ran.
fn write_status(
    switch: Switch,
    runtime: &JobRuntimeState,
    version: Version,
) -> Option<Json<'static>> {
    let JobStatus { last_execution, next_execution, skip_until, executions, failures, faulted } =
        runtime.status;
    let is_active = runtime.lifecycle == Lifecycle::Active;
    let never_ran = last_execution.is_none() && executions == 0;
    if is_active && switch == Switch::Disabled && never_ran {
        return None;
    }
    let will_run = is_active
        && switch == Switch::Enabled
        && runtime.collection == CollectionState::Enabled
        && !runtime.is_paused;
    let members = ObjectBuilder::new()
        .put_some("lastExecutionTime", last_execution)
        .put_some("nextExecutionTime", next_execution.filter(|_| will_run))
        .put_some("skipUntil", skip_until.filter(|_| is_active && !version.is_old()))
        .put("executionCount", executions)
        .put("failureCount", failures)
        .put("faultedCount", faulted);
    Some(members.into())
}
