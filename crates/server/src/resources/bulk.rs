//! `POST …/jobs/bulk`: edits many jobs, each in its own transaction.
//!
//! The body is `{"action": "Enable" | "Disable" | "Delete" | "Run", "names": […]}`, or has `"filter"`
//! instead of `"names"`. The response has a result for each job.

use std::sync::Arc;

use http::StatusCode;
use kalends_domain::{AccessScope, CollectionPath, JobName, JobPath, Permission, Switch};
use kalends_store::Page;
use kalends_wire::{ErrorCode, ErrorDetails, Json, Version, job_id};

use super::search::{SearchEnd, search};
use super::{HandlerResult, RequestContext, jobs};
use crate::app::App;
use crate::audit::{AuditEntry, Wait};
use crate::edit::Condition;
use crate::filter;
use crate::request::read_json;
use crate::response::{ApiError, ApiResponse};

/// Jobs of one request; no plan allows more in a collection.
const JOBS_MAX: usize = 1_000;
/// Jobs that are edited concurrently; the store groups their commits.
const CONCURRENT_MAX: usize = 32;

#[derive(Clone, Copy)]
enum Action {
    Switch(Switch),
    Delete,
    Run,
}

pub(super) async fn edit(mut request: RequestContext, path: CollectionPath) -> HandlerResult {
    request.new_version()?;
    let body = read_json(&mut request).await?;
    let (action, names) = read_body(&body)?;
    if matches!(action, Action::Delete) {
        request.require(Permission::Write, AccessScope::Collection(path.clone()))?;
    }
    let app = &request.app;
    let (names, more) = match names {
        Names::Given(names) => (names, false),
        Names::Filter(text) => matching(app, &path, &text).await?,
    };
    let mut values = Vec::with_capacity(names.len());
    for chunk in names.chunks(CONCURRENT_MAX) {
        let tasks: Vec<_> = chunk
            .iter()
            .map(|name| JobPath { collection: path.clone(), job: name.clone() })
            .map(|job| (job.clone(), tokio::spawn(edit_one(Arc::clone(app), job, action))))
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

async fn edit_one(app: Arc<App>, job: JobPath, action: Action) -> Result<bool, ApiError> {
    match action {
        Action::Switch(switch) => jobs::switch(&app, job, switch).await,
        Action::Delete => jobs::delete(&app, job, Condition::default()).await.map(|()| true),
        Action::Run => jobs::run_one(&app, job, Version::V2026_11_01).await.map(|()| true),
    }
}

fn audit_entry(
    request: &AuditEntry,
    job: &JobPath,
    action: Action,
    result: &Result<bool, ApiError>,
) -> AuditEntry {
    let operation = match action {
        Action::Switch(Switch::Enabled) => "Microsoft.Scheduler/jobCollections/jobs/enable/action",
        Action::Switch(Switch::Disabled) => {
            "Microsoft.Scheduler/jobCollections/jobs/disable/action"
        }
        Action::Delete => "Microsoft.Scheduler/jobCollections/jobs/delete",
        Action::Run => "Microsoft.Scheduler/jobCollections/jobs/run/action",
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
    let page = Page::first(JOBS_MAX + 1);
    let jobs = search(app, path, &filter, page, SearchEnd::FullPage).await?.jobs;
    let more = jobs.len() > JOBS_MAX;
    Ok((jobs.into_iter().take(JOBS_MAX).map(|job| job.path.job).collect(), more))
}

enum Names {
    Given(Vec<JobName>),
    Filter(String),
}

fn read_body(body: &Json<'_>) -> Result<(Action, Names), ErrorDetails> {
    let wrong = |member: &str, message: &str| {
        Err(ErrorDetails::one(ErrorCode::InvalidRequestContent, member, message))
    };
    let Json::Object(members) = body else { return wrong("", "expected an object") };
    let member = |name: &str| {
        let found = members.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value).filter(|value| **value != Json::Null)
    };
    let actions = [
        ("Enable", Action::Switch(Switch::Enabled)),
        ("Disable", Action::Switch(Switch::Disabled)),
        ("Delete", Action::Delete),
        ("Run", Action::Run),
    ];
    let action = match member("action") {
        Some(Json::String(text)) => {
            actions.into_iter().find(|(word, _)| word.eq_ignore_ascii_case(text))
        }
        _ => None,
    };
    let Some((_, action)) = action else {
        return wrong("action", "allowed are Enable, Disable, Delete and Run");
    };
    match (member("names"), member("filter")) {
        (Some(Json::Array(names)), None) if names.len() <= JOBS_MAX => {
            let name = |(index, name): (usize, &Json<'_>)| {
                let text = match name {
                    Json::String(text) => text,
                    _ => "",
                };
                let path = format!("names[{index}]");
                JobName::new(text)
                    .map_err(|error| ErrorDetails::one(error.into(), path, error.to_string()))
            };
            let names = names.iter().enumerate().map(name).collect::<Result<_, _>>()?;
            Ok((action, Names::Given(names)))
        }
        (Some(_), None) => wrong("names", "expected a list of at most 1000 names"),
        (None, Some(Json::String(text))) => Ok((action, Names::Filter(text.to_string()))),
        (None, Some(_)) => wrong("filter", "expected a string"),
        _ => wrong("", "expected names or filter, and not both"),
    }
}
