//! Decides edits of jobs and collections, inside the store's transaction and on the state found
//! there. The error of a decision is the [`ApiError`] of the request: the store passes it through.

use std::sync::Arc;

use http::{HeaderMap, header};
use kalends_domain::{
    Collection, CollectionPath, EditKind, EgressPolicy, HttpAuthentication, JobDefinition,
    Lifecycle, OpenRunsMax, PauseRecord, ScheduleEdit, ScheduleState, Target, Uri, ValidationError,
    ValidationErrorKind, changes_schedule, check_collection, check_end_time, check_job,
    closed_by_edit, counted, facts_of, jobs_max, rule_of, schedule_state_after_edit,
    schedule_state_of_new, schedule_state_of_revived, stored_rule_of,
};
use kalends_recurrence::Rule;
use kalends_store::record::{JobRecord, JobState, JobUid, LedgerRecord};
use kalends_store::{
    CollectionContext, CollectionWrite, JobContext, JobPut, JobWrite, WaitingRuns,
};
use kalends_wire::{ErrorCode, ErrorDetails, Version, quoted};

use crate::app::Settings;
use crate::response::ApiError;

/// `Retry-After` of a `run` request that exceeds the open runs of its job, in seconds: the default
/// timeout of an attempt.
const RUN_AGAIN_SECONDS: u64 = 60;

/// The preconditions of a request: `If-Match` and `If-None-Match`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) matches: Option<String>,
    pub(crate) must_be_new: bool,
}

impl Condition {
    pub(crate) fn of(headers: &HeaderMap) -> Condition {
        let text =
            |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let must_be_new = text(header::IF_NONE_MATCH).as_deref() == Some("*");
        Condition { matches: text(header::IF_MATCH), must_be_new }
    }

    pub(crate) fn check(&self, version: Option<u64>) -> Result<(), ApiError> {
        if self.must_be_new && version.is_some() {
            let message = "must not be * because the resource exists".to_owned();
            return Err(precondition_failed("If-None-Match", message));
        }
        let Some(wanted) = &self.matches else { return Ok(()) };
        let Some(version) = version else {
            let message = "requires an existing resource; there is none".to_owned();
            return Err(precondition_failed("If-Match", message));
        };
        let own = format!("\"{version}\"");
        let tags = || wanted.split(',').map(str::trim);
        if tags().any(|tag| tag == "*" || tag == own) {
            return Ok(());
        }
        let is_quoted = |tag: &str| tag.starts_with('"') && tag.ends_with('"') && tag.len() > 1;
        let message = match tags().all(is_quoted) {
            true => format!(
                "must be the ETag {own} (found {}); the resource has changed since it was read",
                shown_tag(wanted)
            ),
            false => format!(
                "must be an ETag with its double quotes, such as {own}, or * (found {})",
                shown_tag(wanted)
            ),
        };
        Err(precondition_failed("If-Match", message))
    }
}

/// A tag for a message: as it was sent, with its quotes, and cut.
fn shown_tag(tag: &str) -> String {
    match tag.chars().count() > 64 || tag.chars().any(char::is_control) {
        true => quoted(tag),
        false => tag.to_owned(),
    }
}

/// An edit whose precondition does not hold.
pub(crate) fn precondition_failed(header: &str, message: String) -> ApiError {
    ErrorDetails::one(ErrorCode::PreconditionFailed, header, message).into()
}

/// The inputs of a job edit.
#[derive(Clone)]
pub(crate) struct JobEdit {
    pub(crate) settings: Arc<Settings>,
    pub(crate) uid: JobUid,
    pub(crate) kind: EditKind,
    pub(crate) condition: Condition,
    /// API version of the request: the old ones accept what the retired service did.
    pub(crate) version: Version,
    /// Whether a definition equal to the stored one is left unchanged.
    pub(crate) repetition: Repetition,
}

/// The effect of a definition that equals the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// Nothing changes.
    Keep,
    /// It is treated like any other. Otherwise a caller who cannot read secrets could guess them.
    Replace,
}

impl JobEdit {
    /// The effect of replacing the job's definition by `new`.
    pub(crate) fn decide(
        &self,
        new: JobDefinition,
        context: &JobContext<'_>,
    ) -> Result<JobWrite, ApiError> {
        self.condition.check(context.existing.map(|existing| existing.version))?;
        if let Some(existing) = context.existing {
            let is_same = self.repetition == Repetition::Keep && existing.job.definition == new;
            // A repeated PUT is idempotent, also that of a finished job.
            if is_same && (is_active(existing) || self.kind == EditKind::Replace) {
                return Ok(JobWrite::Keep);
            }
            if !is_active(existing) && self.version.is_old() {
                return Err(state_final(finished_message(existing)));
            }
        }
        let rule = self.rule(&new, context)?;
        let stored = context.existing.map(|existing| &existing.job.definition);
        check_destinations(&new, stored, &context.collection.path, &self.settings.egress)?;
        if !self.version.is_old() {
            check_end_time(stored, &new, &rule, context.now)
                .map_err(ErrorDetails::from_rule_errors)?;
        }
        let facts = facts_of(&new, &rule);
        let plans = self.settings.plans;
        check_job(&facts, &context.collection.collection, plans)
            .map_err(|(path, error)| plan_error(path, error))?;
        let max = jobs_max(&context.collection.collection, plans);
        let is_new = context.existing.is_none() && context.unreadable.is_none();
        if is_new && context.jobs >= u64::from(max) {
            let jobs = counted(context.jobs, "job");
            let message =
                format!("The collection already has {jobs}; its plan and quota allow {max}");
            return Err(ErrorDetails::one(ErrorCode::MaxJobCountExceeded, "", message).into());
        }
        let schedule = match context.existing {
            None => schedule_state_of_new(&new, &rule),
            Some(existing) if !is_active(existing) => {
                let (used, old) = (existing.state.used, &existing.job.definition);
                schedule_state_of_revived(used, old, &new, &rule, context.now).map_err(|error| {
                    let state = lifecycle_word(existing.state.lifecycle);
                    state_final(format!("The job is {state}; {error}"))
                })?
            }
            Some(existing) => {
                let edit = ScheduleEdit {
                    old: &existing.job.definition,
                    new: &new,
                    rule: &rule,
                    kind: self.kind,
                    open: context.open_scheduled_runs(),
                    now: context.now,
                };
                let before = schedule_state(&existing.state);
                schedule_state_after_edit(before, edit, &self.settings.schedules)
            }
        };
        let is_kept = |existing: &JobRecord| {
            is_active(existing) && !changes_schedule(&existing.job.definition, &new)
        };
        let keeps_schedule = context.existing.is_some_and(is_kept);
        let before = context.existing.map(|existing| existing.state).unwrap_or_default();
        let state = JobState {
            lifecycle: schedule.lifecycle,
            due: schedule.due,
            used: schedule.used,
            finished: (schedule.lifecycle != Lifecycle::Active).then_some(context.now),
            // It was a request about the old schedule.
            skip_until: before.skip_until.filter(|_| keeps_schedule),
            ..before
        };
        let closed_by_edit =
            context.existing.and_then(|existing| self.closed_by_edit(existing, &new, context));
        Ok(JobWrite::Put(Box::new(JobPut {
            uid: self.uid,
            created: context.now,
            definition: new,
            facts,
            state,
            waiting: if keeps_schedule { WaitingRuns::Keep } else { WaitingRuns::Supersede },
            closed_by_edit,
        })))
    }

    /// The record of occurrences that had come due under the old definition and will not run.
    fn closed_by_edit(
        &self,
        existing: &JobRecord,
        new: &JobDefinition,
        context: &JobContext<'_>,
    ) -> Option<LedgerRecord> {
        let due = existing.state.due?;
        let collection = context.collection.collection.state.switch();
        let old = &existing.job.definition;
        let rule = stored_rule_of(old, existing.job.created, &self.settings.schedules).ok()?;
        let is_paused = context.pause.is_some();
        let closed_by_edit =
            closed_by_edit(old, new, &rule, due, context.now, collection, is_paused)?;
        Some(closed_by_edit.to_ledger_record(existing.job.generation, context.now))
    }

    /// The rule of a definition after the edit.
    pub(crate) fn rule(
        &self,
        new: &JobDefinition,
        context: &JobContext<'_>,
    ) -> Result<Rule, ApiError> {
        let schedules = &self.settings.schedules;
        // Limits, such as that of the start time, count from now.
        let rule = rule_of(new, context.now, schedules).map_err(ErrorDetails::from_rule_errors)?;
        let Some(existing) = context.existing else { return Ok(rule) };
        let rule = stored_rule_of(new, existing.job.created, schedules);
        Ok(rule.map_err(ErrorDetails::from_rule_errors)?)
    }
}

/// Checks the targets of a job against the egress policy, as far as the URI alone allows. URIs of the
/// stored definition are not checked again: such a job fails when it runs and can still be disabled.
pub(crate) fn check_destinations(
    new: &JobDefinition,
    stored: Option<&JobDefinition>,
    collection: &CollectionPath,
    policy: &EgressPolicy,
) -> Result<(), ErrorDetails> {
    let known: Vec<_> = stored.map(|stored| uris(stored).collect()).unwrap_or_default();
    let mut errors = ErrorDetails::default();
    for (path, uri) in uris(new).filter(|uri| !known.contains(uri)) {
        if let Err(fault) = policy.check_uri(uri, collection) {
            errors.add(fault.kind.into(), format!("{path}.request.uri"), fault.to_string());
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The URIs of a job's actions, with the paths of the actions.
fn uris(job: &JobDefinition) -> impl Iterator<Item = (&'static str, &Uri)> {
    let error = job.action.error_action.as_ref();
    let error = error.map(|error| ("properties.action.errorAction", &error.action));
    let actions = [("properties.action", &job.action.action)].into_iter().chain(error);
    actions.filter_map(|(path, action)| match &action.target {
        Target::Http(request) => Some((path, &request.uri)),
        _ => None,
    })
}

fn schedule_state(state: &JobState) -> ScheduleState {
    ScheduleState { due: state.due, used: state.used, lifecycle: state.lifecycle }
}

/// The error of an edit that does not start a finished job again.
fn state_final(message: String) -> ApiError {
    ErrorDetails::one(ErrorCode::JobStateFinal, "", message).into()
}

/// The message of the old API versions, in which a finished job can only be deleted.
fn finished_message(job: &JobRecord) -> String {
    let state = lifecycle_word(job.state.lifecycle);
    format!("The job is {state} and cannot be changed or run; delete it first")
}

pub(crate) fn lifecycle_word(lifecycle: Lifecycle) -> &'static str {
    match lifecycle {
        Lifecycle::Active => "active",
        Lifecycle::Completed => "completed",
        Lifecycle::Faulted => "faulted",
    }
}

pub(crate) fn is_active(job: &JobRecord) -> bool {
    job.state.lifecycle == Lifecycle::Active
}

/// The effect of a `run` request on an existing job.
pub(crate) fn decide_run(
    job: &JobRecord,
    version: Version,
    open_runs_max: OpenRunsMax,
    context: &JobContext<'_>,
) -> Result<JobWrite, ApiError> {
    check_not_paused(context.pause)?;
    if !is_active(job) && version.is_old() {
        let message = finished_message(job);
        return Err(ErrorDetails::one(ErrorCode::JobNotRunnable, "", message).into());
    }
    let open = context.open.len();
    if !open_runs_max.allows_another(open) {
        let message = format!(
            "The job already has {}, the maximum; retry when one has finished",
            counted(open.try_into().unwrap_or(u64::MAX), "open run")
        );
        let errors = ErrorDetails::one(ErrorCode::TooManyRequests, "", message);
        return Err(ApiError::rate_limited(errors, RUN_AGAIN_SECONDS));
    }
    Ok(JobWrite::Run { at: context.now })
}

/// Refuses a run while all jobs are paused.
pub(crate) fn check_not_paused(pause: Option<&PauseRecord>) -> Result<(), ApiError> {
    let Some(pause) = pause else { return Ok(()) };
    let (since, reason) = (pause.pause.since.whole_second(), pause.reason.trim_end_matches('.'));
    let message = format!("All jobs are paused since {since}: {reason}; end the pause first");
    Err(ErrorDetails::one(ErrorCode::Paused, "", message).into())
}

/// The effect of replacing a collection's definition by `new`.
pub(crate) fn decide_collection(
    new: Collection,
    settings: &Settings,
    condition: &Condition,
    context: &CollectionContext<'_>,
) -> Result<CollectionWrite, ApiError> {
    condition.check(context.existing.map(|existing| existing.version))?;
    if context.existing.is_some_and(|existing| existing.collection == new) {
        return Ok(CollectionWrite::Keep);
    }
    let others = (context.others)(new.plan);
    check_collection(&new, &context.facts, others, settings.plans)
        .map_err(|(path, error)| plan_error(path, error))?;
    Ok(CollectionWrite::Put(new))
}

/// The error of a definition that a plan or quota does not allow.
fn plan_error(path: &str, error: ValidationError) -> ApiError {
    let code = match error.kind {
        ValidationErrorKind::RecurrenceTooFrequent => ErrorCode::MaxRecurrenceQuotaExceeded,
        ValidationErrorKind::NotInFreePlan => ErrorCode::NotInFreePlan,
        ValidationErrorKind::CollectionsMax | ValidationErrorKind::QuotaAbovePlan => {
            ErrorCode::QuotaExceeded
        }
        _ => ErrorCode::QuotaConflict,
    };
    ErrorDetails::one(code, format!("properties.{path}"), error.to_string()).into()
}

/// The client certificates of a job whose contents are still to be read.
pub(crate) fn unread_certificates(
    job: &mut JobDefinition,
) -> impl Iterator<Item = (&'static str, &mut HttpAuthentication)> {
    let error = job
        .action
        .error_action
        .as_mut()
        .map(|error| ("properties.action.errorAction", &mut error.action));
    let actions = [("properties.action", &mut job.action.action)].into_iter().chain(error);
    actions.filter_map(|(path, action)| match &mut action.target {
        Target::Http(request) => match request.authentication.as_deref_mut()? {
            authentication @ HttpAuthentication::ClientCertificate {
                pfx: Some(_),
                certificate: None,
                ..
            } => Some((path, authentication)),
            _ => None,
        },
        _ => None,
    })
}
