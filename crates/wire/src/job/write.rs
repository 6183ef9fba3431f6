//! Writing a job: exactly as the retired service did for the old versions.

use kalends_domain::{CollectionState, JobDefinition, JobPath, JobStatus, Lifecycle, Switch};

use super::extensions;
use crate::action::write_main;
use crate::form::{Form, Secrets};
use crate::id::{JOB_TYPE, job_id, job_name};
use crate::json::Json;
use crate::members::Members;
use crate::recurrence::write_recurrence;
use crate::version::Version;
use crate::words::{OldCasing, word};

/// What the service knows of a job beyond its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobFacts {
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
    facts: &JobFacts,
    version: Version,
) -> Json<'a> {
    let form = Form { version, secrets: Secrets::LeftOut };
    let properties = write_properties(job, state(job.switch, facts.lifecycle), form)
        .put_some("status", write_status(job.switch, facts));
    Members::new()
        .put("id", job_id(path))
        .put("type", JOB_TYPE)
        .put("name", job_name(path))
        .put("properties", properties)
        .into()
}

/// Writes a definition **with its secrets**, in the form in which `version` reads it. It is what a
/// patch is merged into, and must never leave the process.
pub fn unmasked_job(job: &JobDefinition, version: Version) -> Json<'_> {
    let form = Form { version, secrets: Secrets::Revealed };
    let state = state(job.switch, Lifecycle::Active);
    Members::new().put("properties", write_properties(job, state, form)).into()
}

fn write_properties<'a>(job: &'a JobDefinition, state: &'static str, form: Form) -> Members<'a> {
    let extensions = (!form.version.is_old()).then_some(&job.extensions);
    let recurrence = job.recurrence.as_ref();
    let action = write_main(&job.action, form);
    extensions::write_head(extensions)
        .put_some("startTime", job.start)
        .put("action", extensions::write_signing(action, extensions))
        .put_some("recurrence", recurrence.map(|rule| write_recurrence(rule, form.version)))
        .append(extensions::write_tail(extensions))
        .put("state", word(&[(state, ())], &(), OldCasing::Lower, form.version))
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
fn write_status(switch: Switch, facts: &JobFacts) -> Option<Json<'static>> {
    let JobStatus { last_execution, next_execution, executions, failures, faulted } = facts.status;
    let is_active = facts.lifecycle == Lifecycle::Active;
    let never_ran = last_execution.is_none() && executions == 0;
    if is_active && switch == Switch::Disabled && never_ran {
        return None;
    }
    let will_run =
        is_active && switch == Switch::Enabled && facts.collection == CollectionState::Enabled;
    let members = Members::new()
        .put_some("lastExecutionTime", last_execution)
        .put_some("nextExecutionTime", next_execution.filter(|_| will_run))
        .put("executionCount", executions)
        .put("failureCount", failures)
        .put("faultedCount", faulted);
    Some(members.into())
}
