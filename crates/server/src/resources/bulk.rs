//! `POST …/jobs/bulk`: edits many jobs, each in its own transaction.
//! The response has a result for each job.

use std::sync::Arc;

use http::StatusCode;
use kalends_domain::{AccessScope, CollectionPath, JobName, JobPath, NewNote, Permission, Switch};
use kalends_store::Page;
use kalends_wire::{BulkAction, BulkEdit, BulkJobs, Json, Version, job_id};

use super::search::{SearchEnd, search};
use super::{HandlerResult, RequestContext, jobs};
use crate::app::App;
use crate::audit::{AuditEntry, Wait};
use crate::edit::Condition;
use crate::filter;
use crate::request::read_json;
use crate::response::{ApiError, ApiResponse};

/// Jobs that are edited concurrently; the store groups their commits.
const CONCURRENT_MAX: usize = 32;

pub(super) async fn edit(mut request: RequestContext, path: CollectionPath) -> HandlerResult {
    let version = request.new_version()?;
    let note = request.note(version)?;
    let body = read_json(&mut request).await?;
    let BulkEdit { action, jobs } = BulkEdit::read(&body)?;
    if action == BulkAction::Delete {
        request.reject_note(version)?;
        request.require(Permission::Write, AccessScope::Collection(path.clone()))?;
    }
    let app = &request.app;
    let (names, more) = match jobs {
        BulkJobs::Names(names) => (names, false),
        BulkJobs::Filter(text) => matching(app, &path, &text).await?,
    };
    let mut values = Vec::with_capacity(names.len());
    for chunk in names.chunks(CONCURRENT_MAX) {
        let tasks: Vec<_> = chunk
            .iter()
            .map(|name| JobPath { collection: path.clone(), job: name.clone() })
            .map(|job| {
                let edit = edit_one(Arc::clone(app), job.clone(), action, note.clone());
                (job, tokio::spawn(edit))
            })
            .collect();
        for (job, task) in tasks {
            let result = task.await.map_err(|error| ApiError::internal(error.to_string()))?;
            // One audit entry for each job. They precede that of the request, whose write the
            // response waits for.
            let entry = audit_entry(&request.entry, &job, action, &result);
            app.access.audit.write(&entry, Wait::UntilQueued).await;
            values.push(write_result(&job, result));
        }
    }
    let members = vec![("value".into(), Json::Array(values)), ("more".into(), Json::Bool(more))];
    Ok(ApiResponse::json(StatusCode::OK, &Json::Object(members)))
}

async fn edit_one(
    app: Arc<App>,
    job: JobPath,
    action: BulkAction,
    note: Option<NewNote>,
) -> Result<bool, ApiError> {
    match action {
        BulkAction::Enable => jobs::switch(&app, job, Switch::Enabled, note).await,
        BulkAction::Disable => jobs::switch(&app, job, Switch::Disabled, note).await,
        BulkAction::Delete => jobs::delete(&app, job, Condition::default()).await.map(|()| true),
        BulkAction::Run => {
            jobs::run_one(&app, job, Version::V2026_11_01, note).await.map(|()| true)
        }
    }
}

fn audit_entry(
    request: &AuditEntry,
    job: &JobPath,
    action: BulkAction,
    result: &Result<bool, ApiError>,
) -> AuditEntry {
    let operation = match action {
        BulkAction::Enable => "Microsoft.Scheduler/jobCollections/jobs/enable/action",
        BulkAction::Disable => "Microsoft.Scheduler/jobCollections/jobs/disable/action",
        BulkAction::Delete => "Microsoft.Scheduler/jobCollections/jobs/delete",
        BulkAction::Run => "Microsoft.Scheduler/jobCollections/jobs/run/action",
    };
    let status = result.as_ref().map_or_else(|error| error.code().status(), |_| 200);
    AuditEntry { operation: Some(operation), path: job_id(job).into(), status, ..request.clone() }
}

fn write_result(job: &JobPath, result: Result<bool, ApiError>) -> Json<'static> {
    let mut members = vec![
        ("id".into(), job_id(job).into()),
        ("name".into(), format!("{}/{}", job.collection.collection, job.job).into()),
    ];
    let word = match &result {
        Ok(true) => "Done",
        Ok(false) => "Unchanged",
        Err(_) => "Refused",
    };
    members.push(("result".into(), word.into()));
    if let Err(error) = result {
        let error = vec![
            ("code".into(), error.code().as_str().into()),
            ("message".into(), error.errors.to_string().into()),
        ];
        members.push(("error".into(), Json::Object(error)));
    }
    Json::Object(members)
}

/// The jobs that match a filter, and whether more match than one request may edit.
async fn matching(
    app: &App,
    path: &CollectionPath,
    text: &str,
) -> Result<(Vec<JobName>, bool), ApiError> {
    let filter = filter::jobs(text)?;
    let page = Page::first(BulkEdit::JOBS_MAX + 1);
    let jobs = search(app, path, &filter, page, SearchEnd::FullPage).await?.jobs;
    let more = jobs.len() > BulkEdit::JOBS_MAX;
    Ok((jobs.into_iter().take(BulkEdit::JOBS_MAX).map(|job| job.path.job).collect(), more))
}
