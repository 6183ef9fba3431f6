//! The stored form of jobs.

use kalends_domain::{
    Action, ErrorAction, Extensions, JobDefinition, MainAction, MissedPolicy, MissedRuns, Overlap,
    RetryKind, RetryPolicy, Signing, Switch,
};
use kalends_recurrence::{Definition, Instant};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::record::JobUid;
use crate::stored_form::action::{ActionForm, SecretScope};
use crate::stored_form::recurrence::{DurationForm, RecurrenceForm, instant};
use crate::stored_form::{DefinitionCodec, damaged};

#[derive(Serialize, Deserialize)]
struct JobForm {
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<i64>,
    action: MainForm,
    #[serde(skip_serializing_if = "Option::is_none")]
    recurrence: Option<Box<RecurrenceForm>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    disabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<Vec<(String, String)>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed_runs: Option<(MissedForm, Option<DurationForm>)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overlap: Option<OverlapForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<DurationForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<DurationForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signing: Option<bool>,
}

#[derive(Serialize, Deserialize)]
struct MainForm {
    action: ActionForm,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<Box<RetryForm>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Box<MainForm>>,
}

#[derive(Serialize, Deserialize)]
struct RetryForm {
    kind: RetryKindForm,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<DurationForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_max: Option<DurationForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_max: Option<DurationForm>,
}

#[derive(Serialize, Deserialize)]
enum RetryKindForm {
    None,
    Fixed,
    Exponential,
}

#[derive(Serialize, Deserialize)]
enum MissedForm {
    Skip,
    Last,
    All,
}

#[derive(Serialize, Deserialize)]
enum OverlapForm {
    Skip,
    QueueOne,
    Allow,
}

/// Encodes the definition of a job, encrypting its secrets.
pub fn write_definition(
    definition: &JobDefinition,
    uid: JobUid,
    codec: &DefinitionCodec,
) -> Result<String, StoreError> {
    let JobDefinition { start, action, recurrence, switch, extensions } = definition;
    let Extensions { description, tags, missed_runs, overlap, jitter, timeout, signing } =
        extensions;
    let main = SecretScope { codec, uid, prefix: "action" };
    let error = SecretScope { prefix: "action.errorAction", ..main };
    let error_action = match &action.error_action {
        Some(action) => Some(Box::new(main_form(error, &action.action, action.retry.as_deref())?)),
        None => None,
    };
    let form = JobForm {
        start: start.map(Instant::ticks),
        action: MainForm {
            error: error_action,
            ..main_form(main, &action.action, action.retry.as_deref())?
        },
        recurrence: recurrence.as_deref().map(RecurrenceForm::from).map(Box::new),
        disabled: *switch == Switch::Disabled,
        description: description.clone(),
        tags: tags.clone(),
        missed_runs: missed_runs.as_ref().map(|missed| {
            let policy = match missed.policy {
                MissedPolicy::Skip => MissedForm::Skip,
                MissedPolicy::Last => MissedForm::Last,
                MissedPolicy::All => MissedForm::All,
            };
            (policy, missed.within.as_ref().map(DurationForm::from))
        }),
        overlap: overlap.map(|overlap| match overlap {
            Overlap::Skip => OverlapForm::Skip,
            Overlap::QueueOne => OverlapForm::QueueOne,
            Overlap::Allow => OverlapForm::Allow,
        }),
        jitter: jitter.as_ref().map(DurationForm::from),
        timeout: timeout.as_ref().map(DurationForm::from),
        signing: signing.map(|signing| signing == Signing::On),
    };
    serde_json::to_string(&form).map_err(damaged)
}

fn main_form(
    scope: SecretScope<'_>,
    action: &Action,
    retry: Option<&RetryPolicy>,
) -> Result<MainForm, StoreError> {
    let retry = retry.map(|policy| {
        Box::new(RetryForm {
            kind: match policy.kind {
                RetryKind::None => RetryKindForm::None,
                RetryKind::Fixed => RetryKindForm::Fixed,
                RetryKind::Exponential => RetryKindForm::Exponential,
            },
            interval: policy.interval.as_ref().map(DurationForm::from),
            count: policy.count,
            interval_max: policy.interval_max.as_ref().map(DurationForm::from),
            age_max: policy.age_max.as_ref().map(DurationForm::from),
        })
    });
    Ok(MainForm { action: ActionForm::write(action, scope)?, retry, error: None })
}

/// Decodes the definition of a job, decrypting its secrets.
pub fn read_definition(
    text: &str,
    uid: JobUid,
    codec: &DefinitionCodec,
) -> Result<JobDefinition, StoreError> {
    let form: JobForm = serde_json::from_str(text).map_err(damaged)?;
    let main = SecretScope { codec, uid, prefix: "action" };
    let error = SecretScope { prefix: "action.errorAction", ..main };
    let error_action = match form.action.error {
        Some(form) => {
            let retry = form.retry.map(|retry| Box::new(read_retry(*retry)));
            Some(Box::new(ErrorAction { action: form.action.read(error)?, retry }))
        }
        None => None,
    };
    Ok(JobDefinition {
        start: form.start.map(instant).transpose()?,
        action: MainAction {
            action: form.action.action.read(main)?,
            retry: form.action.retry.map(|retry| Box::new(read_retry(*retry))),
            error_action,
        },
        recurrence: form
            .recurrence
            .map(|recurrence| recurrence.read().map(Box::new))
            .transpose()?,
        switch: if form.disabled { Switch::Disabled } else { Switch::Enabled },
        extensions: Extensions {
            description: form.description,
            tags: form.tags,
            missed_runs: form.missed_runs.map(|(policy, within)| MissedRuns {
                policy: match policy {
                    MissedForm::Skip => MissedPolicy::Skip,
                    MissedForm::Last => MissedPolicy::Last,
                    MissedForm::All => MissedPolicy::All,
                },
                within: within.map(Into::into),
            }),
            overlap: form.overlap.map(|overlap| match overlap {
                OverlapForm::Skip => Overlap::Skip,
                OverlapForm::QueueOne => Overlap::QueueOne,
                OverlapForm::Allow => Overlap::Allow,
            }),
            jitter: form.jitter.map(Into::into),
            timeout: form.timeout.map(Into::into),
            signing: form.signing.map(|on| if on { Signing::On } else { Signing::Off }),
        },
    })
}

/// The members of a job that its schedule consists of.
#[derive(Deserialize)]
struct ScheduleOfJobForm {
    start: Option<i64>,
    recurrence: Option<RecurrenceForm>,
}

/// Decodes the schedule of a job alone, which takes a fraction of the time of the definition.
pub(crate) fn read_schedule(text: &str, created: Instant) -> Result<Definition, StoreError> {
    let form: ScheduleOfJobForm = serde_json::from_str(text).map_err(damaged)?;
    Ok(Definition {
        start: form.start.map(instant).transpose()?,
        created,
        recurrence: form.recurrence.map(RecurrenceForm::read).transpose()?,
    })
}

fn read_retry(form: RetryForm) -> RetryPolicy {
    RetryPolicy {
        kind: match form.kind {
            RetryKindForm::None => RetryKind::None,
            RetryKindForm::Fixed => RetryKind::Fixed,
            RetryKindForm::Exponential => RetryKind::Exponential,
        },
        interval: form.interval.map(Into::into),
        count: form.count,
        interval_max: form.interval_max.map(Into::into),
        age_max: form.age_max.map(Into::into),
    }
}
