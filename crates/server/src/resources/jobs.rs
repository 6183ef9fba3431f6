//! Jobs: list, CRUD and manual run.

use std::sync::Arc;

use http::{Method, StatusCode};
use kalends_actions::certificate::read_pfx;
use kalends_domain::{
    CollectionPath, EditKind, HttpAuthentication, JobDefinition, JobName, JobPath, JobStatus,
    Lifecycle, NewNote, Switch, stored_rule_of,
};
use kalends_recurrence::Instant;
use kalends_store::record::{CollectionRecord, CollectionStatus, JobRecord};
use kalends_store::{EditedJob, JobContext, JobFilter, JobWrite, JobsPage, StoreError};
use kalends_wire::{
    ErrorCode, ErrorDetail, ErrorDetails, JobRuntimeState, Json, Version, ignore_final_state,
    patch_job, write_job, write_list,
};

use super::job_draft::{JobDraft, StoredCertificates};
use super::search::{SearchEnd, search};
use super::{HandlerResult, RequestContext, collections, missing_after_write, ok_empty};
use crate::app::{App, Settings};
use crate::edit::{
    Condition, JobEdit, Repetition, decide_run, precondition_failed, unread_certificates,
};
use crate::filter;
use crate::paging::PageRequest;
use crate::request::read_json;
use crate::response::{ApiError, ApiResponse};
use crate::route::PathForm;

/// Page size of old API versions without `$top`; no plan allows more jobs in a collection.
const OLD_PAGE_DEFAULT: usize = 1_000;

pub(super) async fn list(request: RequestContext, path: CollectionPath) -> HandlerResult {
    let version = request.query.version()?;
    let filter = request.query.filter()?.map(filter::jobs).transpose()?;
    let filter: JobFilter = filter.unwrap_or_default();
    let page_request = PageRequest::read(&request, version, OLD_PAGE_DEFAULT, |position| {
        JobName::new(position).ok()
    })?;
    let page = page_request.page.clone();
    let end = if version.is_old() { SearchEnd::FullPage } else { SearchEnd::OneScan };
    let JobsPage { mut jobs, collection, rest } =
        search(&request.app, &path, &filter, page, end).await?;
    let resume_at = rest.and_then(|rest| rest.after).map(|name| name.to_string());
    let next = page_request.truncate(&mut jobs, |job| job.path.job.to_string());
    let next = next.or_else(|| page_request.link_after(&resume_at?));
    let values =
        jobs.iter().map(|job| write(job, collection, &request.app, version).into_owned()).collect();
    Ok(ApiResponse::json(StatusCode::OK, &write_list(values, next.as_deref())))
}

pub(super) async fn get(request: &RequestContext, path: JobPath) -> HandlerResult {
    let version = request.query.version()?;
    let (job, state) = find(&request.app, &path).await?;
    Ok(job_response(StatusCode::OK, &job, state, &request.app, version))
}

pub(super) async fn change(request: RequestContext, path: JobPath) -> HandlerResult {
    let version = request.query.version()?;
    match request.method {
        Method::PUT => put(request, path, version).await,
        Method::PATCH => patch(request, path, version).await,
        _ => {
            request.reject_note(version)?;
            delete(&request.app, path, Condition::of(&request.headers)).await?;
            ok_empty()
        }
    }
}

pub(super) async fn delete(app: &App, path: JobPath, condition: Condition) -> Result<(), ApiError> {
    let name = path.job.clone();
    let delete = move |context: JobContext<'_>| {
        if context.unreadable.is_none() {
            let existing = context.existing.ok_or_else(|| not_found(&name))?;
            condition.check(Some(existing.version))?;
        }
        Ok(JobWrite::Delete)
    };
    edit_or_replace(app, path, None, delete).await.map(drop)
}

/// Enables or disables a job. Returns `false` if its state was unchanged.
pub(super) async fn switch(
    app: &App,
    path: JobPath,
    switch: Switch,
    note: Option<NewNote>,
) -> Result<bool, ApiError> {
    let edit_of_job = job_edit(app, Condition::default(), EditKind::Change, Version::V2026_11_01)?;
    let name = path.job.clone();
    let decide = move |context: JobContext<'_>| {
        let existing = context.existing.ok_or_else(|| not_found(&name))?;
        let new = JobDefinition { switch, ..existing.job.definition.clone() };
        edit_of_job.decide(new, &context)
    };
    let edited = edit(app, path, note, decide).await?;
    Ok(edited.before.map(|job| job.version) != edited.after.map(|job| job.version))
}

/// `POST …/run`: starts a manual run.
pub(super) async fn run(request: RequestContext, path: JobPath) -> HandlerResult {
    let version = request.query.version()?;
    let note = request.note(version)?;
    run_one(&request.app, path, version, note).await?;
    ok_empty()
}

pub(super) async fn run_one(
    app: &App,
    path: JobPath,
    version: Version,
    note: Option<NewNote>,
) -> Result<(), ApiError> {
    app.access.count_run(app, &path.collection)?;
    let name = path.job.clone();
    let open_runs_max = app.settings.open_runs_max;
    let run = move |context: JobContext<'_>| {
        let existing = context.existing.ok_or_else(|| not_found(&name))?;
        decide_run(existing, version, open_runs_max, &context)
    };
    edit(app, path, note, run).await.map(drop)
}

async fn put(mut request: RequestContext, path: JobPath, version: Version) -> HandlerResult {
    let note = request.note(version)?;
    let body = read_json(&mut request).await?;
    let draft =
        JobDraft::read(&request.app, &path, &body, version, StoredCertificates::Read).await?;
    let edit_of_job =
        job_edit(&request.app, Condition::of(&request.headers), EditKind::Replace, version)?;
    let put = move |context: JobContext<'_>| {
        let definition = draft.complete(context.existing)?;
        if context.unreadable.is_some() && edit_of_job.condition.must_be_new {
            return Err(precondition_failed(
                "If-None-Match",
                "must not be * because the job exists".to_owned(),
            ));
        }
        edit_of_job.decide(definition, &context)
    };
    if PathForm::of(&request.path) == PathForm::Short
        && let Some(collection) = collections::missing(&request.app, &path.collection).await?
    {
        // A job that would be rejected leaves no empty collection.
        put(context_in_new(&collection))?;
        collections::create(&request.app, collection).await?;
    }
    let edited = edit_or_replace(&request.app, path, note, put).await?;
    let status = if edited.before.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    Ok(job_response(
        status,
        &edited.after.ok_or_else(missing_after_write)?,
        edited.collection,
        &request.app,
        version,
    ))
}

/// The state that the first job of a new collection finds.
pub(super) fn context_in_new(collection: &CollectionRecord) -> JobContext<'_> {
    JobContext {
        collection,
        jobs: 0,
        existing: None,
        unreadable: None,
        now: collection.created,
        open: &[],
        pause: None,
    }
}

async fn patch(mut request: RequestContext, path: JobPath, version: Version) -> HandlerResult {
    let note = request.note(version)?;
    let body = read_json(&mut request).await?;
    let settings = Arc::clone(&request.app.settings);
    let patch_of = move |job: &JobRecord| {
        let Settings { limits, secret_headers, .. } = &*settings;
        let patch = ignore_final_state(body.clone(), job.state.lifecycle, version);
        patch_job(&job.path, &job.job.definition, patch, version, limits, secret_headers)
    };
    // Certificates are parsed outside the transaction, from the current definition.
    let (job, _) = find(&request.app, &path).await?;
    let patched = patch_of(&job)?;
    let with_certificates = read_certificates(&request.app, patched).await?;
    let edit_of_job =
        job_edit(&request.app, Condition::of(&request.headers), EditKind::Change, version)?;
    let name = path.job.clone();
    let patch = move |context: JobContext<'_>| {
        let existing = context.existing.ok_or_else(|| not_found(&name))?;
        let mut patched = patch_of(existing)?;
        if unread_certificates(&mut patched).next().is_some() {
            // The same patch of the same definition: the certificates read outside are valid.
            match existing.job.definition == job.job.definition {
                true => patched = with_certificates.clone(),
                false => return Err(changed_meanwhile()),
            }
        }
        edit_of_job.decide(patched, &context)
    };
    let edited = edit(&request.app, path, note, patch).await?;
    Ok(job_response(
        StatusCode::OK,
        &edited.after.ok_or_else(missing_after_write)?,
        edited.collection,
        &request.app,
        version,
    ))
}

pub(super) fn job_edit(
    app: &App,
    condition: Condition,
    kind: EditKind,
    version: Version,
) -> Result<JobEdit, ApiError> {
    Ok(JobEdit {
        settings: app.settings.clone(),
        uid: app.new_uid()?,
        kind,
        condition,
        version,
        repetition: Repetition::Keep,
    })
}

/// Parses the certificates of a definition on a blocking thread. Fails if too many definitions wait
/// for that already.
pub(super) async fn read_certificates(
    app: &App,
    mut job: JobDefinition,
) -> Result<JobDefinition, ApiError> {
    if unread_certificates(&mut job).next().is_none() {
        return Ok(job);
    }
    let Some(_place) = app.certificates.take_place() else {
        let message = "The server is reading too many certificates; retry later";
        return Err(ErrorDetails::one(ErrorCode::ServerBusy, "", message).into());
    };
    let limits = app.settings.limits.clone();
    let read = move || {
        for (path, authentication) in unread_certificates(&mut job) {
            let HttpAuthentication::ClientCertificate { pfx: Some(pfx), password, certificate } =
                authentication
            else {
                continue;
            };
            let empty = kalends_domain::Secret::new(String::new());
            let identity = read_pfx(pfx, password.as_ref().unwrap_or(&empty), &limits);
            let path = format!("{path}.request.authentication.pfx");
            let identity = identity.map_err(|fault| {
                ApiError::from(ErrorDetails::one(fault.kind.into(), path, fault.to_string()))
            })?;
            *certificate = Some(identity.facts().clone());
        }
        Ok(job)
    };
    app.certificates.run(read).await.map_err(|error| ApiError::internal(error.to_string()))?
}

/// Finds a job and the status of its collection.
pub(super) async fn find(
    app: &App,
    path: &JobPath,
) -> Result<(JobRecord, CollectionStatus), ApiError> {
    let job = app.store.job(path.clone()).await;
    let job = job.map_err(|error| store_error(error, &path.collection))?;
    Ok(job.ok_or_else(|| ErrorDetail::job_not_found(&path.job))?)
}

/// Edits a job that can be read.
pub(super) async fn edit(
    app: &App,
    path: JobPath,
    note: Option<NewNote>,
    mut decide: impl FnMut(JobContext<'_>) -> Result<JobWrite, ApiError> + Send + 'static,
) -> Result<EditedJob, ApiError> {
    let decide = move |context: JobContext<'_>| match context.unreadable {
        Some(job) => Err(StoreError::Unreadable(vec![job.clone()]).into()),
        None => decide(context),
    };
    edit_or_replace(app, path, note, decide).await
}

/// Edits a job, or replaces or deletes one that cannot be read.
async fn edit_or_replace(
    app: &App,
    path: JobPath,
    note: Option<NewNote>,
    mut decide: impl FnMut(JobContext<'_>) -> Result<JobWrite, ApiError> + Send + 'static,
) -> Result<EditedJob, ApiError> {
    let collection = path.collection.clone();
    let decide = Box::new(move |context: JobContext<'_>| Ok(decide(context)?));
    let edited = app.store.edit_job_with_note(path, decide, note).await;
    let edited = edited.map_err(|error| store_error(error, &collection))?;
    (app.on_edit)();
    app.overview.note_edit(&edited);
    Ok(edited)
}

/// Names the collection in the error of a missing one.
pub(super) fn store_error(error: StoreError, path: &CollectionPath) -> ApiError {
    match error {
        StoreError::NoCollection => ErrorDetail::collection_not_found(path).into(),
        error => error.into(),
    }
}

pub(super) fn not_found(job: &JobName) -> ApiError {
    ErrorDetail::job_not_found(job).into()
}

pub(super) fn changed_meanwhile() -> ApiError {
    precondition_failed("", "The job was changed during the request; retry".to_owned())
}

fn write<'a>(
    job: &'a JobRecord,
    collection: CollectionStatus,
    app: &App,
    version: Version,
) -> Json<'a> {
    let runtime = runtime_state(job, collection, app);
    write_job(&job.path, &job.job.definition, &runtime, version)
}

/// The state of a job that responses show.
pub(super) fn runtime_state(
    job: &JobRecord,
    collection: CollectionStatus,
    app: &App,
) -> JobRuntimeState {
    let state = &job.state;
    let due = state.due.filter(|_: &Instant| state.lifecycle == Lifecycle::Active);
    let skip_until = due.and(state.skip_until).filter(|&until| due <= Some(until));
    let next_execution = match skip_until {
        None => due,
        Some(until) => {
            let rule =
                stored_rule_of(&job.job.definition, job.job.created, &app.settings.schedules).ok();
            rule.and_then(|rule| rule.without_count().next_after(until))
        }
    };
    let status = JobStatus {
        last_execution: state.last_execution,
        next_execution,
        skip_until,
        executions: state.executions,
        failures: state.failures,
        faulted: state.faulted,
    };
    let CollectionStatus { state: collection, is_paused } = collection;
    JobRuntimeState { lifecycle: state.lifecycle, status, collection, is_paused }
}

pub(super) fn job_response(
    status: StatusCode,
    job: &JobRecord,
    collection: CollectionStatus,
    app: &App,
    version: Version,
) -> ApiResponse {
    let body = write(job, collection, app, version);
    ApiResponse::json(status, &body).with_etag(job.version, version)
}
