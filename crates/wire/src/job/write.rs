//! Writing a job: exactly as the retired service did for the old versions.

use kalends_domain::{CollectionState, JobDefinition, JobPath, JobStatus, Lifecycle, Switch};

use super::extensions;
use crate::action::write_main;
use crate::enum_text::{OldCasing, word};
use crate::id::{JOB_TYPE, job_id, job_name};
use crate::json::Json;
use crate::object::ObjectBuilder;
use crate::recurrence::write_recurrence;
use crate::version::Version;
use crate::write_options::{Secrets, WriteOptions};

/// What the service knows of a job beyond its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobRuntimeState {
    /// What it has become.
    pub lifecycle: Lifecycle,
    /// When it ran and runs, and how that went.
    pub status: JobStatus,
    /// Whether the jobs of its collection run.
    pub collection: CollectionState,
}

/// Writes a job as answers show it: without secrets, and for the old versions without the members
/// that they do not know.
pub fn write_job<'a>(
    path: &JobPath,
    job: &'a JobDefinition,
    facts: &JobRuntimeState,
    version: Version,
) -> Json<'a> {
    let options = WriteOptions { version, secrets: Secrets::Omit };
    let properties = write_properties(job, state(job.switch, facts.lifecycle), options)
        .put_some("status", write_status(job.switch, facts));
    ObjectBuilder::new()
        .put("id", job_id(path))
        .put("type", JOB_TYPE)
        .put("name", job_name(path))
        .put("properties", properties)
        .into()
}

/// Writes a definition **with its secrets**, in the form in which `version` reads it. It is what a
/// patch is merged into, and must never leave the process.
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
        .put_some("recurrence", recurrence.map(|rule| write_recurrence(rule, options.version)))
        .append(extensions::write_tail(extensions))
        .put("state", word(&[(state, ())], &(), OldCasing::Lower, options.version))
}

fn state(switch: Switch, lifecycle: Lifecycle) -> &'static str {
    match (lifecycle, switch) {
        (Lifecycle::Completed, _) => "Completed",
        (Lifecycle::Faulted, _) => "Faulted",
        (Lifecycle::Active, Switch::Enabled) => "Enabled",
        (Lifecycle::Active, Switch::Disabled) => "Disabled",
    }
}

/// A disabled job that never ran has none.
fn write_status(switch: Switch, facts: &JobRuntimeState) -> Option<Json<'static>> {
    let JobStatus { last_execution, next_execution, executions, failures, faulted } = facts.status;
    let is_active = facts.lifecycle == Lifecycle::Active;
    let never_ran = last_execution.is_none() && executions == 0;
    if is_active && switch == Switch::Disabled && never_ran {
        return None;
    }
    let will_run =
        is_active && switch == Switch::Enabled && facts.collection == CollectionState::Enabled;
    let members = ObjectBuilder::new()
        .put_some("lastExecutionTime", last_execution)
        .put_some("nextExecutionTime", next_execution.filter(|_| will_run))
        .put("executionCount", executions)
        .put("failureCount", failures)
        .put("faultedCount", faulted);
    Some(members.into())
}
