//! `POST` and `DELETE …/jobs/{job}/skip`: skips the next occurrence of a job, and takes that back.

use std::sync::Arc;

use http::{Method, StatusCode};
use kalends_domain::{JobPath, Switch, facts_of, stored_rule_of};
use kalends_recurrence::{Instant, Rule};
use kalends_store::record::{JobRecord, JobState};
use kalends_store::{JobContext, JobPut, JobWrite, WaitingRuns};
use kalends_wire::{ErrorCode, ErrorDetails};

use super::occurrences::snapshot;
use super::{HandlerResult, RequestContext, jobs, missing_after_write};
use crate::app::Settings;
use crate::edit::{Condition, is_active, lifecycle_word};
use crate::response::ApiError;

pub(super) async fn skip(request: RequestContext, path: JobPath) -> HandlerResult {
    let version = request.new_version()?;
    let note = request.note(version)?;
    let settings = Arc::clone(&request.app.settings);
    let (name, method) = (path.job.clone(), request.method.clone());
    let condition = Condition::of(&request.headers);
    let decide = move |context: JobContext<'_>| {
        let job = context.existing.ok_or_else(|| jobs::not_found(&name))?;
        condition.check(Some(job.version))?;
        match method == Method::DELETE {
            true => decide_no_skip(job, &settings),
            false => decide_skip(job, &settings, &context),
        }
    };
    let edited = jobs::edit(&request.app, path, note, decide).await?;
    let job = edited.after.ok_or_else(missing_after_write)?;
    Ok(jobs::job_response(StatusCode::OK, &job, edited.collection, &request.app, version))
}

/// Skips the next occurrence that is neither begun nor skipped.
fn decide_skip(
    job: &JobRecord,
    settings: &Settings,
    context: &JobContext<'_>,
) -> Result<JobWrite, ApiError> {
    let definition = &job.job.definition;
    if !is_active(job) {
        let state = lifecycle_word(job.state.lifecycle);
        return Err(conflict(format!("The job is {state}; it has no occurrence to skip")));
    }
    if definition.recurrence.is_none() {
        return Err(conflict(
            "The job runs once; disable or delete it in place of skipping its run",
        ));
    }
    if definition.switch == Switch::Disabled {
        return Err(conflict("The job is disabled; enable it before skipping an occurrence"));
    }
    let rule = rule_of(job, settings)?;
    let pause = context.pause.map(|record| record.pause);
    let collection = context.collection.collection.state;
    let next = snapshot(definition, &job.state, collection, pause, context.now)
        .first_not_skipped(&rule.without_count())
        .ok_or_else(|| conflict("The schedule has no further occurrence to skip"))?;
    Ok(skip_until(job, &rule, Some(next)))
}

/// Lets the occurrences run that were to be skipped and have not passed.
fn decide_no_skip(job: &JobRecord, settings: &Settings) -> Result<JobWrite, ApiError> {
    match job.state.skip_until {
        Some(_) => Ok(skip_until(job, &rule_of(job, settings)?, None)),
        None => Ok(JobWrite::Keep),
    }
}

/// An edit that keeps the definition. Its new generation makes the store reject a run of a skipped
/// occurrence that was decided before.
fn skip_until(job: &JobRecord, rule: &Rule, until: Option<Instant>) -> JobWrite {
    let definition = job.job.definition.clone();
    JobWrite::Put(Box::new(JobPut {
        uid: job.job.uid,
        created: job.job.created,
        facts: facts_of(&definition, rule),
        definition,
        state: JobState { skip_until: until, ..job.state },
        waiting: WaitingRuns::Keep,
        closed_by_edit: None,
    }))
}

fn rule_of(job: &JobRecord, settings: &Settings) -> Result<Rule, ApiError> {
    stored_rule_of(&job.job.definition, job.job.created, &settings.schedules)
        .map_err(|problems| ApiError::internal(problems.to_string()))
}

fn conflict(message: impl Into<String>) -> ApiError {
    ErrorDetails::one(ErrorCode::Conflict, "", message.into()).into()
}
